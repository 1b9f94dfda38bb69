/* Checks: what happens to a FIFO in the middle of heavy traffic, after 1 MiB each time: a program that does
 * not take part (fifo_static, static_cat) opens it or is given it, exec, fork, threads, O_NONBLOCK, poll,
 * resize, splice. Does not check: opening and closing by programs that take part (fifo_open.c), kills of such
 * (fifo_hangup.c). */
#include "fifo_common.h"
#include "readiness.h"
enum { M = 1 << 20 };
static volatile int *S;
/* runs fifo_static, with nothing open but what it opens; returns when it says that it has opened */
static pid_t start(const char *how, const char *f, size_t n, uint64_t pos, int *said) {
    char a[24], b[24], x;
    const char *e = neighbour("fifo_static");
    int s[2];
    if (!e) _exit(0);
    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s);
    pid_t c = child();
    if (!c) {
        dup2(s[1], 3);
        close_range(4, ~0u, 0);
        snprintf(a, 24, "%zu", n);
        snprintf(b, 24, "%llu", (unsigned long long)pos);
        execl(e, "fifo_static", how, f, a, b, (char *)0);
        _exit(9);
    }
    close(s[1]);
    if (said) {
        *said = s[0];
        return c;
    }
    IS(read(s[0], &x, 1), 1);
    close(s[0]);
    return c;
}
static void opened(int said) {
    char x;
    IS(read(said, &x, 1), 1);
    close(said);
}
static void static_reader_takes_a_part(void) {
    const char *f = newfifo();
    pid_t w = writer(f, 4 * M, 0);
    int r = OPEN(f, O_RDONLY);
    for (int i = 0; i < 2; i++) {
        qget(r, M + 7, i * (2 * M), 5000);
        REAP0(start("r", f, M - 7, i * (2 * M) + M + 7, 0));
    }
    REAP0(w);
    AT_EOF(r);
}
static void static_reader_takes_the_rest(void) {
    const char *f = newfifo();
    pid_t w = writer(f, 4 * M, 0);
    int r = OPEN(f, O_RDONLY), said;
    qget(r, M + 7, 0, 5000);
    pid_t c = start("R", f, 3 * M - 7, M + 7, &said);
    opened(said);
    close(r);
    REAP0(c);
    REAP0(w);
}
static void static_reader_finds_what_lies_there(void) { /* the writer has stopped writing, and stays */
    int p[2], n;
    const char *f = mkff(p);
    flood(p[0], p[1], M, 0);
    const size_t k = holds() < 65536 ? 60 : 1000;
    qput(p[1], 50 * k, 0, k);
    REAP0(start("r", f, 20 * k, 0, 0));
    IS(ioctl(p[0], FIONREAD, &n), 0);
    IS(n, 30 * k);
    qget(p[0], 10 * k, 20 * k, 8192);
    qput(p[1], 10 * k, 50 * k, k);
    close(p[0]);
    REAP0(start("r", f, 30 * k, 30 * k, 0));
    p[0] = OPEN(f, O_RDONLY);
    flood(p[0], p[1], M, 3);
    close(p[1]);
    AT_EOF(p[0]);
}
static void static_reader_after_the_writer_has_gone(void) { /* somebody else keeps the read end */
    int p[2], said;
    const char *f = mkff(p);
    flood(p[0], p[1], M, 0);
    qput(p[1], 50000, 0, 4096);
    pid_t c = start("R", f, 50000, 0, &said);
    opened(said);
    close(p[1]);
    REAP0(c);
    AT_EOF(p[0]);
}
static void static_poller(void) {
    int p[2];
    const char *f = mkff(p);
    flood(p[0], p[1], M, 0);
    const size_t n = holds() < 65536 ? 3000 : 30000;
    qput(p[1], n, 5, 4096);
    REAP0(start("p", f, n, 5, 0));
    flood(p[0], p[1], M, 0);
    qput(p[1], 100, 0, 100);
    REAP0(start("p", f, 100, 0, 0));
}
static void static_writer_in_between(void) {
    const char *f = newfifo();
    pid_t r = reader(f, 6 * M, 0, 1);
    int w = OPEN(f, O_WRONLY);
    for (int i = 0; i < 3; i++) {
        qput(w, M + 12345, i * 2 * M,
             4096); /* the last of it is still in the FIFO when the other one writes */
        REAP0(start("w", f, M - 12345, i * 2 * M + M + 12345, 0));
    }
    close(w);
    REAP0(r);
}
static void static_writer_behind_a_sleeping_reader(void) {
    int p[2];
    const char *f = mkff(p);
    flood(p[0], p[1], M, 0);
    pid_t r = child();
    if (!r) {
        close(p[1]);
        qget(p[0], 2 * M, 0, 8192);
        _exit(0);
    }
    wait_asleep(r); /* in the kernel, on an empty FIFO */
    REAP0(start("w", f, M, 0, 0));
    wait_asleep(r);
    qput(p[1], M, M, 4096);
    REAP0(r);
}
static void static_writer_into_a_full_fifo(void) {
    int p[2], said;
    const char *f = mkff(p);
    flood(p[0], p[1], M, 0);
    size_t n = 0;
    setfl(p[1], O_NONBLOCK, 0);
    for (ssize_t g; (g = write(p[1], at(n), 4096)) > 0;) n += g;
    pid_t c = start("w", f, M, n, &said);
    opened(said);
    wait_asleep(c);
    close(p[1]);
    qget(p[0], n + M, 0, 8192);
    AT_EOF(p[0]);
    REAP0(c);
}
/* One event for each arming, by one thread and by two in one set, whoever writes. */
static struct {
    int r, e, busy, over;
    size_t at;
} once;
static void *reads_once(void *unused) {
    static __thread char b[8192];
    for (;;) {
        struct epoll_event v;
        IS(epoll_wait(once.e, &v, 1, 15000), 1);
        CHECK(!__sync_lock_test_and_set(&once.busy, 1), "two events for one arming, at %zu", once.at);
        ssize_t k = once.over ? 0 : read(once.r, b, sizeof b);
        CHECK(k >= 0, "told, and read failed at %zu", once.at);
        same(b, k, once.at);
        once.at += k;
        once.over = !k;
        __sync_lock_release(&once.busy);
        v.events = EPOLLIN | EPOLLONESHOT;
        IS(epoll_ctl(once.e, EPOLL_CTL_MOD, once.r, &v), 0);
        if (!k) return unused;
    }
}
static void told_once_beside_a_static_writer(void) {
    for (int threads = 1; threads <= 2; threads++) {
        const char *f = newfifo();
        pid_t c = child();
        if (!c) {
            int w = OPEN(f, O_WRONLY);
            for (int i = 0; i < 3; i++) {
                qput(w, M + 12345, i * 2 * M, i == 1 ? 200 : 4096);
                REAP0(start("w", f, M - 12345, i * 2 * M + M + 12345, 0));
            }
            _exit(0);
        }
        memset(&once, 0, sizeof once);
        once.r = OPEN(f, O_RDONLY);
        once.e = ep(once.r, EPOLLIN | EPOLLONESHOT);
        pthread_t t;
        if (threads == 2) pthread_create(&t, 0, reads_once, 0);
        reads_once(0);
        if (threads == 2) pthread_join(t, 0);
        IS(once.at, 6 * M);
        close(once.r);
        close(once.e);
        REAP0(c);
    }
}
static void static_both_ends(void) { /* ends that take part are open too, and idle */
    int p[2];
    const char *f = mkff(p);
    flood(p[0], p[1], M, 0);
    pid_t w = start("w", f, 3 * M, 0, 0), r = start("r", f, 3 * M, 0, 0);
    REAP0(w);
    REAP0(r);
    flood(p[0], p[1], M, 1);
    close(p[1]);
    AT_EOF(p[0]);
}
static void static_before_and_after(void) { /* it was there first; the heavy ones join and leave */
    int said;
    const char *f = newfifo();
    pid_t c = start("R", f, 5 * M, 0, &said);
    int w = OPEN(f, O_WRONLY);
    opened(said);
    qput(w, 2 * M, 0, 4096);
    pid_t d = writer(f, 2 * M, 2 * M);
    REAP0(d);
    qput(w, M, 4 * M, 4096);
    close(w);
    REAP0(c);
}
static void static_reader_killed(void) {
    int p[2], said;
    const char *f = mkff(p);
    flood(p[0], p[1], M, 0);
    signal(SIGPIPE, SIG_IGN);
    pid_t c = start("r", f, 100 * M, 0, &said);
    opened(said);
    close(p[0]);
    qput(p[1], M, 0, 4096);
    kill(c, SIGKILL);
    reap(c);
    FAILS(write(p[1], "x", 1), EPIPE);
    FAILS(open(f, O_WRONLY | O_NONBLOCK), ENXIO);
}
static void static_writer_killed(void) {
    static char b[SEA];
    int p[2], said;
    const char *f = mkff(p);
    flood(p[0], p[1], M, 0);
    pid_t c = start("w", f, 100 * M, 0, &said);
    opened(said);
    close(p[1]);
    qget(p[0], 2 * M, 0, 8192);
    kill(c, SIGKILL);
    uint64_t n = 2 * M;
    for (ssize_t g; (g = read(p[0], b, 8192)) > 0; n += g) same(b, g, n);
    AT_EOF(p[0]);
    reap(c);
}
static void
by_turns(void) { /* eight changes between those who take part and those who do not, at both ends */
    int p[2];
    const char *f = mkff(p);
    const size_t k = holds() < 65536 ? 300 : 5000;
    for (int i = 0; i < 4; i++) {
        flood(p[0], p[1], 300000, i);
        qput(p[1], 2 * k, 0, 4096);
        REAP0(start("w", f, 4 * k, 2 * k, 0));
        qput(p[1], k, 6 * k, 4096);
        REAP0(start("r", f, 3 * k, 0, 0));
        qget(p[0], k, 3 * k, 800);
        REAP0(start("r", f, 3 * k, 4 * k, 0));
    }
}
/* exec with the FIFO as standard input or output, in mid-stream */
static void exec_reader(const char *cat) {
    if (!cat) return;
    int k[2];
    const char *f = newfifo();
    CHECK(!pipe(k), "pipe");
    pid_t w = writer(f, 4 * M, 0);
    pid_t c = child();
    if (!c) {
        close(k[0]);
        int r = OPEN(f, O_RDONLY);
        qget(r, M + 99, 0, 8192);
        dup2(r, 0);
        dup2(k[1], 1);
        close_range(3, ~0u, 0);
        execlp(cat, cat, (char *)0);
        _exit(9);
    }
    close(k[1]);
    qget(k[0], 3 * M - 99, M + 99, 8192);
    AT_EOF(k[0]);
    REAP0(c);
    REAP0(w);
}
static void exec_writer(const char *cat) {
    if (!cat) return;
    int k[2];
    const char *f = newfifo();
    CHECK(!pipe(k), "pipe");
    pid_t r = reader(f, 4 * M, 0, 1);
    pid_t c = child();
    if (!c) {
        close(k[1]);
        int w = OPEN(f, O_WRONLY);
        qput(w, M + 99, 0, 4096);
        dup2(w, 1);
        dup2(k[0], 0);
        close_range(3, ~0u, 0);
        execlp(cat, cat, (char *)0);
        _exit(9);
    }
    close(k[0]);
    qput(k[1], 3 * M - 99, M + 99, 4096);
    close(k[1]);
    REAP0(c);
    REAP0(r);
}
static void exec_cat_reads_on(void) { exec_reader("cat"); }
static void exec_static_cat_reads_on(void) { exec_reader(neighbour("static_cat")); }
static void exec_cat_writes_on(void) { exec_writer("cat"); }
static void exec_static_cat_writes_on(void) { exec_writer(neighbour("static_cat")); }
static void spawned_cat_reads_a_part(void) { /* posix_spawn; the parent reads before and after */
    int p[2], k[2];
    const char *f = mkff(p);
    CHECK(!pipe(k), "pipe");
    flood(p[0], p[1], M, 0);
    pid_t q = child();
    if (!q) {
        qput(p[1], 20000, 0, 4096);
        _exit(0);
    }
    if (holds() >= 20000) REAP0(q);
    posix_spawn_file_actions_t a;
    posix_spawn_file_actions_init(&a);
    posix_spawn_file_actions_adddup2(&a, p[0], 0);
    posix_spawn_file_actions_adddup2(&a, k[1], 1);
    for (int i = 0; i < 2; i++) posix_spawn_file_actions_addclose(&a, p[i]);
    for (int i = 0; i < 2; i++) posix_spawn_file_actions_addclose(&a, k[i]);
    char *v[] = {"head", "-c", "15000", 0}, *none[] = {0};
    extern char **environ;
    pid_t c;
    qget(p[0], 5000, 0, 8192);
    IS(posix_spawnp(&c, "head", &a, 0, v, environ), 0);
    close(k[1]);
    qget(k[0], 15000, 5000, 8192);
    AT_EOF(k[0]);
    REAP0(c);
    if (holds() < 20000) REAP0(q);
    flood(p[0], p[1], M, 1);
    close(p[1]);
    AT_EOF(p[0]);
}
static void
shell_pipeline_of_fifos(void) { /* mkfifo, cat and redirections, the way scripts use them; 6 MiB */
    const char *in = fresh(), *out = fresh();
    char cmd[400];
    int t = OPEN(in, O_CREAT | O_WRONLY);
    qput(t, 6 * M, 0, SEA);
    close(t);
    snprintf(cmd, sizeof cmd,
             "mkfifo %s.a %s.b && { cat %s.a >%s.b & cat <%s.b >%s & cat %s >%s.a; wait; } && rm %s.a %s.b",
             in, in, in, in, in, out, in, in, in, in);
    IS(system(cmd), 0);
    t = OPEN(out, O_RDONLY);
    qget(t, 6 * M, 0, SEA);
    char x;
    IS(read(t, &x, 1), 0);
}
static void reader_forks(void) {
    const char *f = newfifo();
    pid_t w = writer(f, 4 * M, 0);
    int r = OPEN(f, O_RDONLY);
    qget(r, M + 1, 0, 8192);
    pid_t c = child();
    if (!c) {
        qget(r, M, M + 1, 7777);
        c = child();
        if (!c) {
            qget(r, M, 2 * M + 1, 3333);
            _exit(0);
        }
        REAP0(c);
        _exit(0);
    }
    REAP0(c);
    qget(r, M - 1, 3 * M + 1, 8192);
    AT_EOF(r);
    REAP0(w);
}
static void writer_forks(void) {
    const char *f = newfifo();
    pid_t r = reader(f, 4 * M, 0, 1);
    int w = OPEN(f, O_WRONLY);
    qput(w, M + 1, 0, 4096);
    pid_t c = child();
    if (!c) {
        qput(w, M, M + 1, 7777);
        c = child();
        if (!c) {
            qput(w, M, 2 * M + 1, 3333);
            _exit(0);
        }
        REAP0(c);
        _exit(0);
    }
    REAP0(c);
    qput(w, M - 1, 3 * M + 1, 4096);
    close(w);
    REAP0(r);
}
static void *thread_reads(void *r) {
    qget((int)(intptr_t)r, M, M, 8192);
    return 0;
}
static void reader_hands_to_a_thread(void) {
    const char *f = newfifo();
    pid_t w = writer(f, 3 * M, 0);
    int r = OPEN(f, O_RDONLY);
    qget(r, M, 0, 8192);
    pthread_t t;
    pthread_create(&t, 0, thread_reads, (void *)(intptr_t)r);
    pthread_join(t, 0);
    qget(r, M, 2 * M, 8192);
    AT_EOF(r);
    REAP0(w);
}
static void nonblock_switched(void) { /* on and off every 100 KB at both ends, one of them from a child */
    enum { TOTAL = 6 * M };
    static char b[SEA];
    const char *f = newfifo();
    pid_t c = child();
    if (!c) {
        int w = OPEN(f, O_WRONLY), k = 0;
        qput(w, M, 0, 4096);
        for (size_t n = M, next = n; n < TOTAL;) {
            if (n >= next) {
                setfl(w, k % 2 ? 0 : O_NONBLOCK, k % 2 ? O_NONBLOCK : 0);
                k++;
                next += 100000;
            }
            ssize_t g = write(w, at(n), TOTAL - n < 6000 ? TOTAL - n : 6000);
            CHECK(g > 0 || (errno == EAGAIN && k % 2), "write gave %zd", g);
            if (g > 0)
                n += g;
            else
                sched_yield();
        }
        _exit(0);
    }
    int r = OPEN(f, O_RDONLY), k = 0;
    qget(r, M, 0, 8192);
    for (size_t n = M, next = n; n < TOTAL;) {
        if (n >= next) {
            pid_t d = k % 8 ? 0 : child();
            if (!d) setfl(r, k % 2 ? 0 : O_NONBLOCK, k % 2 ? O_NONBLOCK : 0);
            if (!d && k % 8 == 0) _exit(0);
            if (d) REAP0(d);
            k++;
            next += 130000;
        }
        ssize_t g = read(r, b, 7000);
        CHECK(g > 0 || (g == -1 && errno == EAGAIN && k % 2), "read gave %zd at %zu", g, n);
        if (g < 0) {
            sched_yield();
            continue;
        }
        same(b, g, n);
        n += g;
    }
    REAP0(c);
    setfl(r, 0, O_NONBLOCK);
    AT_EOF(r);
}
static void
polled_now_and_then(void) { /* poll, select, epoll, FIONREAD, F_SETPIPE_SZ and fstat between reads */
    enum { TOTAL = 6 * M };
    static char b[SEA];
    const char *f = newfifo();
    pid_t w = writer(f, TOTAL, 0);
    int r = OPEN(f, O_RDONLY), k = 0, n_there;
    qget(r, M, 0, 8192);
    for (size_t n = M; n < TOTAL; k++) {
        struct stat s;
        fd_set set;
        FD_ZERO(&set);
        FD_SET(r, &set);
        if (k % 50 == 10) IS(events(r, POLLIN, 15000) & POLLIN, POLLIN);
        if (k % 50 == 20) IS(select(r + 1, &set, 0, 0, 0), 1);
        if (k % 50 == 30) {
            int e = ep(r, EPOLLIN);
            IS(ew(e, 15000) & EPOLLIN, EPOLLIN);
            close(e);
        }
        if (k % 50 == 40) {
            IS(ioctl(r, FIONREAD, &n_there), 0);
            CHECK(n_there >= 0 && (size_t)n_there <= TOTAL - n, "FIONREAD gave %d", n_there);
        }
        if (k % 100 == 45) fcntl(r, F_SETPIPE_SZ, k % 200 == 45 ? 1 << 20 : 65536);
        if (k % 50 == 49) IS(fstat(r, &s), 0);
        ssize_t g = read(r, b, 8000);
        CHECK(g > 0, "read gave %zd at %zu", g, n);
        same(b, g, n);
        n += g;
    }
    REAP0(w);
    IS(events(r, POLLIN, 0), POLLHUP);
    AT_EOF(r);
}
static void told_by_poll_how_it_ends(void) { /* after 1 MiB: HUP with bytes, HUP without, ERR */
    int p[2];
    const char *f = newfifo();
    open_both(f, p);
    flood(p[0], p[1], M, 0);
    const size_t n = holds() < 65536 ? 3000 : 40000;
    qput(p[1], n, 0, 4096);
    close(p[1]);
    IS(events(p[0], POLLIN, -1), POLLIN | POLLHUP);
    qget(p[0], n, 0, 8192);
    IS(events(p[0], POLLIN, -1), POLLHUP);
    p[1] = OPEN(f, O_WRONLY);
    IS(events(p[0], POLLIN, 0), 0);
    flood(p[0], p[1], M, 0);
    int o = OPEN(f, O_RDONLY);
    close(p[0]);
    IS(events(p[1], POLLOUT, 0), POLLOUT);
    close(o);
    IS(events(p[1], POLLOUT, 0), POLLOUT | POLLERR);
}
static void spliced_out_of_it(void) {
    const char *f = newfifo();
    pid_t w = writer(f, 3 * M, 0);
    int r = OPEN(f, O_RDONLY), t = OPEN(fresh(), O_CREAT | O_RDWR);
    qget(r, M, 0, 8192);
    ssize_t g;
    size_t n = 0;
    while ((g = splice(r, 0, t, 0, 50000, 0)) > 0) n += g;
    IS(g, 0);
    IS(n, 2 * M);
    lseek(t, 0, SEEK_SET);
    qget(t, 2 * M, M, SEA);
    REAP0(w);
}
static void
read_ahead_of_a_second_reader(void) { /* both asleep in read when bytes come: each byte to one of them */
    int p[2];
    const char *f = mkff(p);
    flood(p[0], p[1], M, 0);
    volatile int *sum = S = shared(4096);
    pid_t c[2];
    for (int i = 0; i < 2; i++)
        if (!(c[i] = child())) {
            close_range(3, ~0u, 0);
            int r = OPEN(f, O_RDONLY);
            __sync_fetch_and_add(&S[0], 1);
            char b[4096];
            ssize_t g;
            while ((g = read(r, b, sizeof b)) > 0) __sync_fetch_and_add(&S[1], (int)g);
            IS(g, 0);
            _exit(0);
        }
    UNTIL(S[0] == 2);
    close(p[0]);
    for (int i = 0; i < 30; i++) {
        if (i % 10 == 0)
            for (int k = 0; k < 2; k++) wait_asleep(c[k]);
        qput(p[1], 30000, i, 1000);
        UNTIL(S[1] == (i + 1) * 30000);
    }
    close(p[1]);
    REAP0(c[0]);
    REAP0(c[1]);
}
FIFO_MAIN(ONCE(static_reader_takes_a_part), ONCE(static_reader_takes_the_rest),
          T(static_reader_finds_what_lies_there), T(static_reader_after_the_writer_has_gone),
          T(static_poller), ONCE(static_writer_in_between), T(static_writer_behind_a_sleeping_reader),
          T(static_writer_into_a_full_fifo), T(told_once_beside_a_static_writer), T(static_both_ends),
          ONCE(static_before_and_after),
          T(static_reader_killed), T(static_writer_killed), T(by_turns), ONCE(exec_cat_reads_on),
          ONCE(exec_static_cat_reads_on), ONCE(exec_cat_writes_on), ONCE(exec_static_cat_writes_on),
          T(spawned_cat_reads_a_part), ONCE(shell_pipeline_of_fifos), ONCE(reader_forks), ONCE(writer_forks),
          ONCE(reader_hands_to_a_thread), ONCE(nonblock_switched), ONCE(polled_now_and_then),
          T(told_by_poll_how_it_ends), ONCE(spliced_out_of_it), T(read_ahead_of_a_second_reader))
