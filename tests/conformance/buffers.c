/* Checks: writev(2) and sendmsg(2) of many buffers, up to UIO_MAXIOV: all bytes in order, atomic up to PIPE_BUF, partial
 * and interrupted as one buffer would be; readv(2) of many; a bad address among them; how many may be too many.
 * Does not check: few buffers (ctl.c, atomic.c). */
#include "check.h"
enum { MOST = 1024 };
static struct iovec v[MOST + 1];
static char from[1 << 20], into[1 << 20];
/* n buffers with `total` bytes of the pattern from `pos` on, of lengths that differ; some are empty */
static void cut(char *b, int n, size_t total) {
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        size_t left = total - at, k = i == n - 1 ? left : i % 5 == 3 ? 0 : left * 2 / (n - i) * (i % 3) / 2;
        if (k > left) k = left;
        v[i] = (struct iovec){b + at, k};
        at += k;
    }
}
static void many(char *b, int n, size_t total, uint64_t pos) {
    fill(b, total, pos);
    cut(b, n, total);
}
static const int counts[] = {16, 17, 40, 64, 257, 1000, MOST};
enum { COUNTS = sizeof counts / sizeof *counts };
static const size_t totals[] = {1, 17, 1500, 4096, 4097, 30000, 65536, 65537, 300000};
enum { TOTALS = sizeof totals / sizeof *totals };

/* Every count with every total, to a reader in another process. */
static void each(int w, int r, int sends) {
    pid_t p = child();
    if (!p) {
        close(w);
        uint64_t pos = 0;
        for (int round = 0; round < 3; round++)
            for (int i = 0; i < COUNTS; i++)
                for (int k = 0; k < TOTALS; k++) get(r, totals[k], pos), pos += totals[k];
        AT_EOF(r);
        _exit(0);
    }
    close(r);
    uint64_t pos = 0;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < COUNTS; i++)
            for (int k = 0; k < TOTALS; k++) {
                many(from, counts[i], totals[k], pos);
                struct msghdr m = {.msg_iov = v, .msg_iovlen = counts[i]};
                IS(sends ? sendmsg(w, &m, 0) : writev(w, v, counts[i]), totals[k]);
                memset(from, 0, totals[k]); /* they are not looked at any more */
                pos += totals[k];
            }
    close(w);
    REAP0(p);
}
static void all_counts(void) {
    int p[2];
    mkpipe(p);
    each(p[1], p[0], 0);
}
static void hot_pair(int s[2]) {
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s), "socketpair failed");
    if (warm_mode != COLD) warm(s[1], s[0]);
}
static void socket_writev(void) {
    int s[2];
    hot_pair(s);
    each(s[0], s[1], 0);
}
static void socket_sendmsg(void) {
    int s[2];
    hot_pair(s);
    each(s[0], s[1], 1);
}
/* LINUX: sendmmsg(2): each message by itself. */
static void socket_sendmmsg(void) {
    int s[2];
    hot_pair(s);
    enum { N = 8, PARTS = 50, SIZE = 2000 };
    struct mmsghdr m[N];
    static struct iovec lists[N][PARTS];
    memset(m, 0, sizeof m);
    for (uint64_t pos = 0, round = 0; round < 50; round++) {
        for (int i = 0; i < N; i++) {
            many(from + i * SIZE, PARTS, SIZE, pos + i * SIZE);
            memcpy(lists[i], v, sizeof lists[i]);
            m[i].msg_hdr.msg_iov = lists[i], m[i].msg_hdr.msg_iovlen = PARTS;
        }
        IS(sendmmsg(s[0], m, N, 0), N);
        for (int i = 0; i < N; i++) IS(m[i].msg_len, SIZE);
        get(s[1], N * SIZE, pos);
        pos += N * SIZE;
    }
}

/* LINUX: pipe(7): a write of up to PIPE_BUF bytes is atomic, however many buffers it has. */
enum { WRITERS = 4, EACH = 1500 };
static void *writes_records(void *arg) {
    long who = (long)arg & 255, w = (long)arg >> 8;
    char b[PIPE_BUF];
    struct iovec l[100];
    for (int i = 0; i < EACH; i++) {
        size_t n = 200 + (who * 977 + i * 131) % (PIPE_BUF - 200), at = 0;
        memset(b, 'a' + who, n);
        memcpy(b, &n, 4);
        for (int k = 0; k < 100; k++) {
            size_t k_n = k == 99 ? n - at : n / 100;
            l[k] = (struct iovec){b + at, k_n};
            at += k_n;
        }
        IS(writev(w, l, 100), n);
    }
    return 0;
}
static void atomic(void) {
    int p[2];
    mkpipe(p);
    pthread_t t[WRITERS];
    pid_t c = child();
    if (!c) {
        close(p[0]);
        for (long i = 0; i < WRITERS; i++) pthread_create(t + i, 0, writes_records, (void *)(i | (long)p[1] << 8));
        for (int i = 0; i < WRITERS; i++) pthread_join(t[i], 0);
        _exit(0);
    }
    close(p[1]);
    for (int i = 0; i < WRITERS * EACH; i++) {
        char b[PIPE_BUF];
        int n;
        IS(read_n(p[0], &n, 4), 4);
        CHECK(n >= 200 && n <= PIPE_BUF, "a record of %d bytes", n);
        IS(read_n(p[0], b, n - 4), n - 4);
        for (int k = 1; k < n - 4; k++) CHECK(b[k] == b[0], "a record has bytes of another one");
    }
    AT_EOF(p[0]);
    REAP0(c);
}

/* LINUX: pipe(7), O_NONBLOCK, n > PIPE_BUF: a part may be written; up to PIPE_BUF all or EAGAIN. */
static void nonblocking(void) {
    int p[2];
    mkpipe(p);
    setfl(p[1], O_NONBLOCK, 0);
    uint64_t pos = 0, got = 0;
    for (int round = 0; round < 40; round++) {
        for (;;) {
            size_t total = round % 3 ? 50000 : 200000;
            many(from, 100, total, pos);
            ssize_t n = writev(p[1], v, 100);
            if (n < 0) {
                CHECK(errno == EAGAIN, "a full pipe must say EAGAIN");
                break;
            }
            CHECK(n > 0 && (size_t)n <= total, "writev gave %zd", n);
            pos += n;
            CHECK(pos - got < 64u << 20, "the pipe never fills");
        }
        many(from, 100, 4096, pos);
        ssize_t n = writev(p[1], v, 100);
        CHECK(n == 4096 || (n == -1 && errno == EAGAIN), "writev of PIPE_BUF bytes gave %zd", n);
        pos += n > 0 ? n : 0;
        size_t some = round % 2 ? pos - got : (pos - got) / 2;
        get(p[0], some, got);
        got += some;
    }
    get(p[0], pos - got, got);
}

/* A writer that sleeps for room, in a call of many buffers. */
static volatile sig_atomic_t seen;
static int other;
static void on_signal(int s) { seen++; }
static void writes_more(int s) {
    static char b[4000];
    static struct iovec l[40];
    memset(b, 'h', sizeof b);
    for (int i = 0; i < 40; i++) l[i] = (struct iovec){b + 100 * i, 100};
    for (int i = 0; i < 3; i++) CHECK(writev(other, l, 40) == 4000, "writev in the handler failed");
    seen++;
}
static void sleeps(void) {
    int p[2];
    mkpipe(p);
    size_t n = fill_up(p[1], 0);
    pid_t c = child();
    if (!c) {
        close(p[0]);
        many(from, 40, 200000, n);
        IS(writev(p[1], v, 40), 200000);
        _exit(0);
    }
    close(p[1]);
    wait_asleep(c);
    get(p[0], n + 200000, 0);
    AT_EOF(p[0]);
    REAP0(c);
}
/* Runs `does` in a child whose next write into p[1], which may be full, sleeps, and wakes that by SIGUSR1; q is another
 * pipe. How many bytes are before it. */
static size_t signalled(int p[2], int q[2], int full, void (*does)(int), pid_t *c) {
    mkpipe(p);
    mkpipe(q);
    other = q[1];
    size_t n = full ? fill_up(p[1], 0) : 0;
    int *ready = shared(4096);
    *c = child();
    if (!*c) {
        close(p[0]), close(q[0]);
        *ready = 1;
        does(p[1]);
        _exit(0);
    }
    close(p[1]), close(q[1]);
    UNTIL(*ready);
    wait_asleep(*c);
    kill(*c, SIGUSR1);
    return n;
}
static void others_bytes(int q) {
    static char b[12000];
    IS(read_n(q, b, sizeof b), sizeof b);
    for (size_t i = 0; i < sizeof b; i++) CHECK(b[i] == 'h', "a byte of another call");
}
/* LINUX: signal(7): a write that has moved nothing fails with EINTR, else it tells how much it has moved. */
static void fails(int w) {
    many(from, 40, 60000, 0);
    FAILS(writev(w, v, 40), EINTR);
    IS(seen, 1);
}
static void interrupted(void) {
    int p[2], q[2];
    pid_t c;
    handle(SIGUSR1, on_signal, 0);
    size_t n = signalled(p, q, 1, fails, &c);
    REAP0(c);
    get(p[0], n, 0);
    AT_EOF(p[0]);
}
/* The same where a part has gone before the call slept: it tells how much; without a reader SIGPIPE comes too. */
static void tells_part(int w) {
    many(from, 100, sizeof from, 0);
    ssize_t n = writev(w, v, 100);
    CHECK(n > 0 && n < (ssize_t)sizeof from, "writev gave %zd", n);
    IS(seen, 1);
    IS(write(other, &n, sizeof n), sizeof n);
}
static void interrupted_later(void) {
    int p[2], q[2];
    ssize_t n;
    pid_t c;
    handle(SIGUSR1, on_signal, 0);
    size_t before = signalled(p, q, 0, tells_part, &c);
    IS(before, 0);
    IS(read_n(q[0], &n, sizeof n), sizeof n);
    REAP0(c);
    get(p[0], n, 0);
    AT_EOF(p[0]);
}
static void reader_leaves(void) {
    int p[2], q[2];
    ssize_t n;
    pid_t c;
    signal(SIGUSR1, SIG_IGN);
    handle(SIGPIPE, on_signal, 0);
    signalled(p, q, 0, tells_part, &c);
    get(p[0], 100000, 0);
    wait_asleep(c);
    close(p[0]);
    IS(read_n(q[0], &n, sizeof n), sizeof n);
    CHECK(n >= 100000, "%zd bytes were written, and more were read", n);
    REAP0(c);
}
/* A handler over such a call makes some of its own, into another pipe: each call has its own bytes. */
static void goes_on(int w) {
    memset(from, 'w', 60000);
    cut(from, 40, 60000);
    IS(writev(w, v, 40), 60000);
    IS(seen, 1);
}
/* What `handler` writes over the call that `does` makes, and then that call's bytes: all of them once. */
static void each_has_its_own(void (*handler)(int), void (*does)(int), size_t total) {
    int p[2], q[2];
    pid_t c;
    handle(SIGUSR1, handler, SA_RESTART);
    size_t n = signalled(p, q, 1, does, &c);
    others_bytes(q[0]);
    get(p[0], n, 0);
    IS(read_n(p[0], into, total), total);
    for (size_t i = 0; i < total; i++) CHECK(into[i] == 'w', "a byte of another call");
    AT_EOF(p[0]);
    REAP0(c);
}
static void in_a_handler(void) { each_has_its_own(writes_more, goes_on, 60000); }
/* A handler over such a call forks, and the child writes first: both come back from the call, each with its bytes. */
static void forks(int s) {
    if (!fork()) {
        signal(SIGUSR1, SIG_IGN);
        writes_more(s);
    }
}
static void both_go_on(int w) {
    memset(from, 'w', 4000);
    cut(from, 40, 4000);
    IS(writev(w, v, 40), 4000);
    while (waitpid(-1, 0, 0) > 0);
}
static void forked_over(void) { each_has_its_own(forks, both_go_on, 8000); }
/* More threads asleep in such calls than there is memory for: each ends as it should. */
enum { SLEEPERS = 20 };
static int ends_of[SLEEPERS][2];
static void *sleeps_long(void *arg) {
    long k = (long)arg;
    char b[6000];
    struct iovec l[30];
    memset(b, 'A' + k, sizeof b);
    for (int i = 0; i < 30; i++) l[i] = (struct iovec){b + 200 * i, 200};
    IS(writev(ends_of[k][1], l, 30), 6000);
    return 0;
}
static void many_sleepers(void) {
    pthread_t t[SLEEPERS];
    size_t n[SLEEPERS];
    for (long k = 0; k < SLEEPERS; k++) {
        mkpipe(ends_of[k]);
        n[k] = fill_up(ends_of[k][1], 0);
    }
    for (long k = 0; k < SLEEPERS; k++) pthread_create(t + k, 0, sleeps_long, (void *)k);
    sleep_ms(100);
    for (long k = SLEEPERS - 1; k >= 0; k--) {
        char b[6000];
        get(ends_of[k][0], n[k], 0);
        IS(read_n(ends_of[k][0], b, sizeof b), sizeof b);
        for (size_t i = 0; i < sizeof b; i++) CHECK(b[i] == 'A' + k, "a byte of another call");
        pthread_join(t[k], 0);
    }
}

/* Threads that are cancelled in such calls, one after the other: the next ones still do what they should. */
static void cancelled(void) {
    size_t n;
    for (long k = 0; k < SLEEPERS; k++) {
        pthread_t t;
        mkpipe(ends_of[k]);
        n = fill_up(ends_of[k][1], 0);
        pthread_create(&t, 0, sleeps_long, (void *)k);
        sleep_ms(10);
        pthread_cancel(t);
        pthread_join(t, 0);
        get(ends_of[k][0], n, 0);
        many(from, 40, 5000, 0);
        IS(writev(ends_of[k][1], v, 40), 5000);
        get(ends_of[k][0], 5000, 0);
    }
}

/* LINUX: readv(2): buffers are filled one after the other, with what there is. */
static void reads(void) {
    int p[2];
    mkpipe(p);
    uint64_t pos = 0;
    for (int round = 0; round < 200; round++) {
        size_t most = holds() < 30000 ? holds() : 30000, n = 1 + (round * 7919) % most;
        put(p[1], n, pos);
        memset(into, 0, sizeof into);
        cut(into, counts[round % COUNTS], 40000);
        IS(readv(p[0], v, counts[round % COUNTS]), n);
        verify(into, n, pos);
        pos += n;
    }
    /* Plain calls go on behind it. */
    put(p[1], 4000, pos);
    get(p[0], 4000, pos);
}
/* LINUX: writev(2): EINVAL above UIO_MAXIOV; nothing to do for none, or for empty ones. */
static void how_many(void) {
    int p[2];
    mkpipe(p);
    many(from, MOST, 5000, 0);
    v[MOST] = (struct iovec){from, 1};
    for (int i = 0; i < 50; i++) {
        FAILS(writev(p[1], v, MOST + 1), EINVAL);
        FAILS(writev(p[1], v, -1), EINVAL);
        FAILS(readv(p[0], v, MOST + 1), EINVAL);
        IS(writev(p[1], v, 0), 0);
        IS(readv(p[0], v, 0), 0);
        struct iovec none[40] = {0};
        IS(writev(p[1], none, 40), 0);
    }
    IS(writev(p[1], v, MOST), 5000);
    get(p[0], 5000, 0);
}
/* LINUX: EFAULT if nothing was written; what comes before the bad address may be. No byte of it comes twice. */
static void bad_address(void) {
    int p[2];
    mkpipe(p);
    char *page = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && !munmap(page + 4096, 4096), "mmap failed");
    many(from, 40, 3000, 0);
    v[0].iov_base = page + 4096, v[0].iov_len = 10;
    FAILS(writev(p[1], v, 40), EFAULT);
    FAILS(writev(p[1], (void *)(page + 4096), 40), EFAULT);
    many(from, 40, 3000, 0);
    size_t before = v[0].iov_len + v[1].iov_len + v[2].iov_len + v[3].iov_len + v[4].iov_len;
    v[5].iov_base = page + 4096, v[5].iov_len = 10;
    ssize_t n = writev(p[1], v, 40);
    CHECK((n == -1 && errno == EFAULT) || (n >= 0 && (size_t)n <= before), "writev gave %zd", n);
    uint64_t pos = n > 0 ? n : 0;
    put(p[1], 5000, pos);
    get(p[0], pos + 5000, 0);
}
/* LINUX: read(2), readv(2): one of more bytes than a call takes reads what there is; one whose end is no address reads nothing. */
static void reads_100(int p[2], char *at, size_t n) {
    int error = n >> 63 || (uintptr_t)at + n > 0x7ffffffff000 ? EFAULT : 0;
    put(p[1], 100, n % 1000);
    if (error) FAILS(read(p[0], at, n), error);
    else IS(read(p[0], at, n), 100);
    if (error) get(p[0], 100, n % 1000);
    else verify((void *)at, 100, n % 1000);
}
static void readv_100(int p[2], int parts, size_t n, int error) {
    struct iovec two[2] = {{into, parts > 1 ? 10 : n}, {into + 10, n}};
    put(p[1], 100, n % 1000);
    if (error) FAILS(readv(p[0], two, parts), error);
    else IS(readv(p[0], two, parts), 100);
    if (error) get(p[0], 100, n % 1000);
    else verify((void *)into, 100, n % 1000);
}
static void long_lengths(void) {
    static const size_t fit[] = {1ul << 31, 0x7ffff000, 0x7ffff001}, far[] = {1ul << 40, 1ul << 46}, none[] = {1ul << 63, -1ul};
    for (int i = 0; i < 2; i++) {
        int p[2];
        char high[100]; /* so few addresses are behind it */
        if (i) hot_pair(p);
        else mkpipe(p);
        setfl(p[0], O_NONBLOCK, 0);
        for (int k = 0; k < 3; k++) {
            reads_100(p, into, fit[k]);
            reads_100(p, high, fit[k]);
            readv_100(p, 1, fit[k], 0);
            readv_100(p, 2, fit[k], 0);
        }
        for (int k = 0; k < 2; k++) {
            reads_100(p, high, 1ul << 47);
            reads_100(p, high, far[k]);
            reads_100(p, into, far[k]);
            readv_100(p, 1, far[k], 0);
            reads_100(p, into, none[k]);
            readv_100(p, 1, none[k], EINVAL);
            readv_100(p, 2, none[k], EINVAL);
            FAILS(write(p[1], from, none[k]), EFAULT);
        }
        FAILS(read(p[0], high, 1), EAGAIN);
        close(p[0]);
        close(p[1]);
    }
}
static void no_reader(void) {
    int p[2];
    mkpipe(p);
    signal(SIGPIPE, SIG_IGN);
    close(p[0]);
    many(from, 40, 3000, 0);
    for (int i = 0; i < 3; i++) FAILS(writev(p[1], v, 40), EPIPE);
    handle(SIGPIPE, on_signal, 0);
    FAILS(writev(p[1], v, 40), EPIPE);
    IS(seen, 1);
}
MAIN(T(all_counts), T(socket_writev), T(socket_sendmsg), T(socket_sendmmsg), T(atomic), T(nonblocking), T(sleeps),
     T(interrupted), T(interrupted_later), T(reader_leaves), T(in_a_handler), T(forked_over), T(many_sleepers), T(cancelled),
     T(reads), T(how_many), T(bad_address), T(long_lengths), T(no_reader))
