/* Checks: splice from a pipe into another and to /dev/null: what it waits for and in which order, what it leaves where it fails
 * or is killed, and streams through programs that do nothing else. Does not check: splice of files, tee (splice_mix.c). */
#include "check.h"
#include "records.h"
#include "sea.h"
enum { TOTAL = 24 << 20, LONGEST = 1 << 17 };
/* What a pipe holds without a reader. */
static size_t some(void) { return holds() < 20000 ? holds() : 20000; }
static int P[2], Q[2];
static void both(void) {
    sea_init();
    mkpipe(P);
    mkpipe(Q);
}
/* All of n bytes, however many calls that takes. */
static void splice_all(int from, int to, size_t n) {
    while (n) {
        ssize_t k = splice(from, 0, to, 0, n, 0);
        CHECK(k > 0, "splice gave %zd", k);
        n -= k;
    }
}
/* Splices to the end, as much at a time as `most` says, or at random. */
static size_t relay(int from, int to, size_t most, unsigned seed, int flags) {
    size_t n = 0;
    for (;;) {
        size_t k = most ? most : 1 + rnd(&seed) % (rnd(&seed) % 3 ? 700 : LONGEST);
        ssize_t g = splice(from, 0, to, 0, k, flags);
        if (!g) return n;
        if (g < 0 && errno == EAGAIN) {
            CHECK(events(from, POLLIN, 15000), "no bytes come");
            CHECK(events(to, POLLOUT, 15000), "no room comes");
            continue;
        }
        CHECK(g > 0 && g <= (ssize_t)k, "splice gave %zd of %zu", g, k);
        n += g;
    }
}
static void writes(int w, size_t total, unsigned s) {
    for (size_t n = 0, k; n < total; n += k) {
        k = 1 + rnd(&s) % (rnd(&s) % 3 ? 900 : LONGEST);
        if (k > total - n) k = total - n;
        write_all(w, at(n), k);
    }
}
static void reads(int r, size_t total, unsigned s) {
    static char b[LONGEST];
    size_t n = 0;
    for (;;) {
        ssize_t g = read(r, b, 1 + rnd(&s) % (rnd(&s) % 3 ? 900 : LONGEST));
        CHECK(g >= 0, "read");
        if (!g) break;
        same(b, g, n);
        n += g;
    }
    IS(n, total);
}
/* writer --> P --> relays --> Q --> reader. With `through`, a relay has a pipe of its own between its two splices. */
static void stream(size_t most, int flags, int through) {
    both();
    pid_t w = child();
    if (!w) {
        close(P[0]), close(Q[0]), close(Q[1]);
        writes(P[1], TOTAL, 1);
        _exit(0);
    }
    close(P[1]);
    pid_t m = child();
    if (!m) {
        close(Q[0]);
        if (!through) {
            IS(relay(P[0], Q[1], most, 2, flags), TOTAL);
            _exit(0);
        }
        int own[2];
        size_t n = 0;
        CHECK(!pipe(own), "pipe");
        for (ssize_t k; (k = splice(P[0], 0, own[1], 0, most, 0)); n += k) {
            CHECK(k > 0, "splice");
            splice_all(own[0], Q[1], k);
        }
        IS(n, TOTAL);
        _exit(0);
    }
    close(P[0]), close(Q[1]);
    reads(Q[0], TOTAL, 3);
    REAP0(w);
    REAP0(m);
}
static void sizes_at_random(void) { stream(0, 0, 0); }
static void as_pv(void) { stream(131072, SPLICE_F_MORE, 0); }
static void a_page_each(void) { stream(4096, SPLICE_F_MOVE, 0); }
static void nonblocking(void) { stream(0, SPLICE_F_NONBLOCK, 0); }
static void through_its_own(void) { stream(65536, 0, 1); }
static void *relay_thread(void *x) {
    relay(P[0], Q[1], 0, 7, 0);
    close(Q[1]);
    return 0;
}
static void *writer_thread(void *x) {
    writes(P[1], TOTAL, 4);
    close(P[1]);
    return 0;
}
static void between_threads(void) {
    pthread_t t[2];
    both();
    pthread_create(t, 0, writer_thread, 0);
    pthread_create(t + 1, 0, relay_thread, 0);
    reads(Q[0], TOTAL, 5);
    pthread_join(t[0], 0), pthread_join(t[1], 0);
}
/* A chain of five programs: only the first writes, only the last reads. */
static void a_chain(void) {
    both();
    int from = P[0];
    pid_t w = child(), c[4];
    if (!w) {
        close(P[0]);
        writes(P[1], TOTAL / 4, 1);
        _exit(0);
    }
    close(P[1]), close(Q[0]), close(Q[1]);
    for (int i = 0; i < 4; i++) {
        int n[2];
        CHECK(!pipe(n), "pipe");
        if (!(c[i] = child())) {
            close(n[0]);
            relay(from, n[1], i ? 0 : 131072, i, 0);
            _exit(0);
        }
        close(from), close(n[1]);
        from = n[0];
    }
    reads(from, TOTAL / 4, 3);
    REAP0(w);
    for (int i = 0; i < 4; i++) REAP0(c[i]);
}
/* The same bytes go round through two programs. */
static void round_and_round(void) {
    both();
    pid_t c = child();
    if (!c) {
        for (int i = 0; i < 3000; i++) splice_all(P[0], Q[1], 2000);
        _exit(0);
    }
    put(P[1], 2000, 0);
    for (int i = 0; i < 2999; i++) splice_all(Q[0], P[1], 2000);
    get(Q[0], 2000, 0);
    REAP0(c);
}
/* Plain calls between: the order is that of the calls. */
static void after_writes(void) {
    static char b[LONGEST];
    both();
    unsigned s = 9;
    size_t n = 0;
    for (int i = 0; i < 4000; i++) {
        size_t k = 1 + rnd(&s) % (holds() < 120000 ? holds() / 4 : 30000), first = rnd(&s) % k;
        write_all(Q[1], at(n), first);
        write_all(P[1], at(n + first), k - first);
        size_t rest = k - first;
        if (i % 7 == 3) { /* a byte of it by hand */
            IS(read_n(P[0], b, 1), 1);
            write_all(Q[1], b, 1);
            rest--;
        }
        splice_all(P[0], Q[1], rest);
        IS(read_n(Q[0], b, k), k);
        same(b, k, n);
        n += k;
    }
}
/* LINUX splice_pipe_to_pipe: waits for bytes. */
static void waits_for_bytes(void) {
    both();
    pid_t c = child();
    if (!c) {
        IS(splice(P[0], 0, Q[1], 0, 50000, 0), 300);
        splice_all(P[0], Q[1], some());
        _exit(0);
    }
    for (int i = 0; i < 2; i++) {
        wait_asleep(c);
        put(P[1], i ? some() : 300, i ? 300 : 0);
    }
    get(Q[0], some() + 300, 0);
    REAP0(c);
}
/* And for room; nothing is taken meanwhile. */
static void waits_for_room(void) {
    both();
    size_t n = fill_up(Q[1], 0);
    put(P[1], some(), n);
    pid_t c = child();
    if (!c) {
        splice_all(P[0], Q[1], some());
        _exit(0);
    }
    wait_asleep(c);
    int there = 0;
    ioctl(P[0], FIONREAD, &there);
    IS(there, some());
    get(Q[0], n + some(), 0);
    REAP0(c);
    put(P[1], 3000, 0);
    splice_all(P[0], Q[1], 3000);
    get(Q[0], 3000, 0);
}
static void the_end(void) {
    both();
    put(P[1], 700, 0);
    close(P[1]);
    splice_all(P[0], Q[1], 700);
    IS(splice(P[0], 0, Q[1], 0, 100, 0), 0);
    IS(splice(P[0], 0, Q[1], 0, 100, SPLICE_F_NONBLOCK), 0);
    get(Q[0], 700, 0);
}
static void the_end_comes(void) {
    both();
    pid_t c = child();
    if (!c) {
        close(P[1]);
        IS(splice(P[0], 0, Q[1], 0, 100, 0), 0);
        _exit(0);
    }
    wait_asleep(c);
    close(P[1]);
    REAP0(c);
}
/* The flag, and O_NONBLOCK of either pipe. */
static void does_not_wait(void) {
    both();
    FAILS(splice(P[0], 0, Q[1], 0, 100, SPLICE_F_NONBLOCK), EAGAIN);
    for (int i = 0; i < 2; i++) {
        int fd = i ? Q[1] : P[0];
        setfl(fd, O_NONBLOCK, 0);
        FAILS(splice(P[0], 0, Q[1], 0, 100, 0), EAGAIN);
        setfl(fd, 0, O_NONBLOCK);
    }
    size_t n = fill_up(Q[1], 0), k = some() / 2;
    put(P[1], k, n);
    FAILS(splice(P[0], 0, Q[1], 0, k, SPLICE_F_NONBLOCK), EAGAIN);
    for (int i = 0; i < 2; i++) {
        int fd = i ? Q[1] : P[0];
        setfl(fd, O_NONBLOCK, 0);
        FAILS(splice(P[0], 0, Q[1], 0, k, 0), EAGAIN);
        setfl(fd, 0, O_NONBLOCK);
    }
    IS(events(Q[1], POLLOUT, 0), 0);
    get(Q[0], n, 0);
    IS(events(Q[1], POLLOUT, 0), POLLOUT);
    splice_all(P[0], Q[1], k);
    get(Q[0], k, n);
    FAILS(splice(P[0], 0, Q[1], 0, k, SPLICE_F_NONBLOCK), EAGAIN);
}
/* Nobody reads: SIGPIPE and EPIPE, and the source keeps its bytes. An empty source comes first. */
static volatile int piped;
static void on_pipe(int sig) { piped++; }
static void nobody_reads(void) {
    both();
    handle(SIGPIPE, on_pipe, 0);
    close(Q[0]);
    FAILS(splice(P[0], 0, Q[1], 0, 100, SPLICE_F_NONBLOCK), EAGAIN);
    IS(piped, 0);
    put(P[1], 4000, 0);
    for (int i = 1; i < 4; i++) {
        FAILS(splice(P[0], 0, Q[1], 0, 4000, 0), EPIPE);
        IS(piped, i);
    }
    get(P[0], 4000, 0);
}
static void the_reader_leaves(void) {
    both();
    pid_t c = child();
    if (!c) {
        close(Q[0]);
        handle(SIGPIPE, on_pipe, 0);
        size_t n = 0;
        ssize_t k;
        while ((k = splice(P[0], 0, Q[1], 0, 3000, 0)) > 0) n += k;
        CHECK(k == -1 && errno == EPIPE, "splice gave %zd", k);
        IS(piped, 1);
        _exit(0);
    }
    pid_t w = child();
    if (!w) {
        close(Q[0]), close(Q[1]), close(P[0]);
        for (;;) write(P[1], at(0), 3000);
    }
    close(P[0]);
    char b[3000];
    for (int i = 0; i < 1000; i++) IS(read_n(Q[0], b, sizeof b), sizeof b);
    close(Q[0]);
    REAP0(c);
    kill(w, SIGKILL);
    reap(w);
}
/* A reader asleep is killed: the next splice says so, and the source keeps its bytes. */
static void the_reader_is_killed(void) {
    both();
    handle(SIGPIPE, on_pipe, 0);
    pid_t c = child();
    if (!c) {
        char b[9];
        close(Q[1]);
        read(Q[0], b, sizeof b);
        _exit(1);
    }
    close(Q[0]);
    wait_asleep(c);
    kill(c, SIGKILL);
    reap(c);
    put(P[1], 4000, 0);
    FAILS(splice(P[0], 0, Q[1], 0, 4000, 0), EPIPE);
    IS(piped, 1);
    get(P[0], 4000, 0);
}
/* LINUX signal(7): splice is restarted after a handler with SA_RESTART, and else fails with EINTR; it has moved nothing. */
static volatile int heard;
static void hear(int sig) { heard++; }
static void a_handler(int flags, int full) {
    both();
    size_t n = full ? fill_up(Q[1], 0) : 0;
    if (full) put(P[1], 4000, n);
    pid_t c = child();
    if (!c) {
        handle(SIGUSR1, hear, flags);
        if (flags & SA_RESTART) IS(splice(P[0], 0, Q[1], 0, 4000, 0) > 0, 1);
        else FAILS(splice(P[0], 0, Q[1], 0, 4000, 0), EINTR);
        IS(heard > 0, 1);
        _exit(0);
    }
    for (int i = 0; i < 3; i++) {
        wait_asleep(c);
        kill(c, SIGUSR1);
        if (!(flags & SA_RESTART)) break;
    }
    if (flags & SA_RESTART) wait_asleep(c);
    else REAP0(c);
    if (!full) put(P[1], 4000, 0);
    if (flags & SA_RESTART) {
        get(Q[0], n + 1, 0);
        REAP0(c);
        setfl(P[0], O_NONBLOCK, 0);
        while (splice(P[0], 0, Q[1], 0, 4000, 0) > 0);
        get(Q[0], 3999, n + 1);
        return;
    }
    splice_all(P[0], Q[1], full ? 1 : 4000);
    get(Q[0], n + (full ? 1 : 4000), 0);
    if (full) get(P[0], 3999, n + 1);
}
static void restarts_for_bytes(void) { a_handler(SA_RESTART, 0); }
static void restarts_for_room(void) { a_handler(SA_RESTART, 1); }
static void ends_for_bytes(void) { a_handler(0, 0); }
static void ends_for_room(void) {
    both();
    size_t n = fill_up(Q[1], 0);
    put(P[1], 4000, n);
    pid_t c = child();
    if (!c) {
        handle(SIGUSR1, hear, 0);
        FAILS(splice(P[0], 0, Q[1], 0, 4000, 0), EINTR);
        _exit(0);
    }
    wait_asleep(c);
    kill(c, SIGUSR1);
    REAP0(c);
    get(Q[0], n, 0);
    get(P[0], 4000, n);
}
/* A handler splices, and writes, over a splice asleep, at random over those that are not. */
static void splices(int sig) {
    int e = errno;
    if (events(P[0], POLLIN, 0) && events(Q[1], POLLOUT, 0)) splice(P[0], 0, Q[1], 0, 4000, SPLICE_F_NONBLOCK);
    errno = e;
}
static void a_handler_splices(void) {
    both();
    pid_t w = child();
    if (!w) {
        close(P[0]), close(Q[0]), close(Q[1]);
        writes(P[1], TOTAL / 4, 1);
        _exit(0);
    }
    close(P[1]);
    pid_t m = child();
    if (!m) {
        close(Q[0]);
        handle(SIGALRM, splices, SA_RESTART);
        struct itimerval t = {{0, 300}, {0, 300}};
        setitimer(ITIMER_REAL, &t, 0);
        for (ssize_t k; (k = splice(P[0], 0, Q[1], 0, 40000, 0));) CHECK(k > 0 || errno == EINTR, "splice");
        _exit(0);
    }
    close(P[0]), close(Q[1]);
    reads(Q[0], TOTAL / 4, 3);
    REAP0(w);
    REAP0(m);
}
/* Those that sleep are killed: nothing is lost, and nothing comes twice. */
static void a_sleeper_is_killed(void) {
    both();
    pid_t c = child();
    if (!c) {
        splice(P[0], 0, Q[1], 0, 4000, 0);
        _exit(1);
    }
    wait_asleep(c);
    kill(c, SIGKILL);
    reap(c);
    put(P[1], 4000, 0);
    splice_all(P[0], Q[1], 4000);
    size_t n = 4000 + fill_up(Q[1], 4000);
    put(P[1], 4000, n);
    if (!(c = child())) {
        splice(P[0], 0, Q[1], 0, 4000, 0);
        _exit(1);
    }
    wait_asleep(c);
    kill(c, SIGKILL);
    reap(c);
    get(Q[0], n, 0);
    splice_all(P[0], Q[1], 4000);
    get(Q[0], 4000, n);
}
/* A relay that is killed at any time: what came is the beginning of the stream. */
static void a_relay_is_killed(void) {
    unsigned s = 3;
    static char b[LONGEST];
    for (int i = 0; i < 25; i++) {
        both();
        pid_t w = child();
        if (!w) {
            close(P[0]), close(Q[0]), close(Q[1]);
            signal(SIGPIPE, SIG_DFL);
            writes(P[1], SIZE_MAX / 2, i);
        }
        close(P[1]);
        pid_t m = child();
        if (!m) {
            close(Q[0]);
            relay(P[0], Q[1], 0, i, 0);
        }
        close(P[0]), close(Q[1]);
        pid_t k = child();
        if (!k) {
            close(Q[0]);
            usleep(rnd(&s) % 4000);
            kill(m, SIGKILL);
            _exit(0);
        }
        rnd(&s);
        size_t n = 0;
        for (ssize_t g; (g = read(Q[0], b, sizeof b)); n += g) {
            CHECK(g > 0, "read");
            same(b, g, n);
        }
        REAP0(k);
        reap(m);
        reap(w);
        close(Q[0]);
    }
}
/* Several at once: each byte comes once. */
static void many_relays(void) {
    static char b[LONGEST];
    enum { N = 3 };
    both();
    pid_t w = child(), m[N];
    if (!w) {
        static char one[LONGEST];
        memset(one, 1, sizeof one);
        close(P[0]), close(Q[0]), close(Q[1]);
        unsigned s = 8;
        for (size_t n = 0, k; n < TOTAL / 2; n += k) {
            k = 1 + rnd(&s) % 9000;
            if (k > TOTAL / 2 - n) k = TOTAL / 2 - n;
            write_all(P[1], one, k);
        }
        _exit(0);
    }
    close(P[1]);
    for (int i = 0; i < N; i++)
        if (!(m[i] = child())) {
            close(Q[0]);
            relay(P[0], Q[1], 0, i, i == 2 ? SPLICE_F_NONBLOCK : 0);
            _exit(0);
        }
    close(P[0]), close(Q[1]);
    size_t n = 0, sum = 0;
    for (ssize_t g; (g = read(Q[0], b, sizeof b)); n += g) {
        CHECK(g > 0, "read");
        for (ssize_t i = 0; i < g; i++) sum += b[i];
    }
    IS(n, TOTAL / 2);
    IS(sum, TOTAL / 2);
    REAP0(w);
    for (int i = 0; i < N; i++) REAP0(m[i]);
}
/* Others write records into the target meanwhile: each is whole. */
static void beside_writers(void) {
    both();
    pid_t c[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        if (!(c[i] = child())) {
            close(Q[0]), close(P[0]);
            write_records(i % 2 ? P[1] : Q[1], i, RECORDS);
            _exit(0);
        }
    close(P[1]);
    pid_t m = child();
    if (!m) {
        close(Q[0]);
        for (ssize_t k; (k = splice(P[0], 0, Q[1], 0, sizeof(struct record), 0));)
            CHECK(k == sizeof(struct record), "a part of a record: %zd", k);
        _exit(0);
    }
    close(P[0]), close(Q[1]);
    int next[WRITERS] = {0}, n = 0;
    while (take_record(Q[0], next)) n++;
    IS(n, WRITERS * RECORDS);
    for (int i = 0; i < WRITERS; i++) REAP0(c[i]);
    REAP0(m);
}
/* One who waits for the target in a set is told of what is spliced. */
static void a_set_is_told(int events) {
    both();
    pid_t c = child();
    if (!c) {
        close(P[0]), close(P[1]), close(Q[1]);
        setfl(Q[0], O_NONBLOCK, 0);
        int e = epoll_create1(0);
        struct epoll_event v = {.events = events};
        epoll_ctl(e, EPOLL_CTL_ADD, Q[0], &v);
        static char b[LONGEST];
        for (size_t n = 0;;) {
            IS(epoll_wait(e, &v, 1, 14000), 1);
            ssize_t g;
            while ((g = read(Q[0], b, sizeof b)) > 0) same(b, g, n), n += g;
            if (!g) {
                IS(n, TOTAL / 8);
                _exit(0);
            }
        }
    }
    close(Q[0]);
    pid_t w = child();
    if (!w) {
        close(P[0]), close(Q[1]);
        writes(P[1], TOTAL / 8, 2);
        _exit(0);
    }
    close(P[1]);
    IS(relay(P[0], Q[1], 0, 5, 0), TOTAL / 8);
    close(Q[1]);
    REAP0(c);
    REAP0(w);
}
static void a_set_by_level(void) { a_set_is_told(EPOLLIN); }
static void a_set_by_edge(void) { a_set_is_told(EPOLLIN | EPOLLET); }
/* LINUX splice_write_null. */
static void to_null(void) {
    both();
    int null = open("/dev/null", O_WRONLY), more = open("/dev/null", O_WRONLY | O_APPEND), r = open("/dev/null", O_RDONLY);
    FAILS(splice(P[0], 0, null, 0, 100, SPLICE_F_NONBLOCK), EAGAIN);
    put(P[1], 3000, 0);
    FAILS(splice(P[0], 0, more, 0, 1000, 0), EINVAL);
    FAILS(splice(P[0], 0, r, 0, 1000, 0), EBADF);
    splice_all(P[0], null, 1000);
    setfl(null, O_APPEND, 0);
    FAILS(splice(P[0], 0, null, 0, 1000, 0), EINVAL);
    setfl(null, 0, O_APPEND);
    get(P[0], 2000, 1000);
    pid_t c = child();
    if (!c) {
        close(P[0]);
        writes(P[1], TOTAL, 1);
        _exit(0);
    }
    close(P[1]);
    size_t n = 0;
    unsigned s = 4;
    for (ssize_t g; (g = splice(P[0], 0, null, 0, 1 + rnd(&s) % 200000, 0)); n += g) CHECK(g > 0, "splice");
    IS(n, TOTAL);
    REAP0(c);
}
/* Another file has the number of one to which splices went. */
static void null_no_more(void) {
    both();
    int null = open("/dev/null", O_WRONLY), f = memfd_create("f", 0);
    for (int i = 0; i < 50; i++) {
        put(P[1], 1000, i * 1000);
        splice_all(P[0], null, 1000);
    }
    dup2(f, null);
    put(P[1], 1000, 0);
    splice_all(P[0], null, 1000);
    lseek(f, 0, SEEK_SET);
    get(f, 1000, 0);
    close(null);
    null = fcntl(Q[1], F_DUPFD, null);
    put(P[1], 1000, 0);
    splice_all(P[0], null, 1000);
    get(Q[0], 1000, 0);
}
static void what_is_refused(void) {
    both();
    loff_t at = 0;
    put(P[1], 100, 0);
    FAILS(splice(P[0], 0, P[1], 0, 100, 0), EINVAL);
    FAILS(splice(P[0], 0, Q[0], 0, 100, 0), EBADF);
    FAILS(splice(P[1], 0, Q[1], 0, 100, 0), EBADF);
    FAILS(splice(P[0], 0, Q[1], 0, 100, 16), EINVAL);
    FAILS(splice(P[0], &at, Q[1], 0, 100, 0), ESPIPE);
    FAILS(splice(P[0], 0, Q[1], &at, 100, 0), ESPIPE);
    FAILS(splice(P[0], 0, 999, 0, 100, 0), EBADF);
    IS(splice(P[0], 0, Q[1], 0, 0, 0), 0);
    splice_all(P[0], Q[1], 100);
    get(Q[0], 100, 0);
}
/* A pipe that takes a page, and one that takes a MiB. */
static void other_sizes(void) {
    both();
    for (int i = 0; i < 4; i++) {
        fcntl(i & 1 ? P[1] : Q[1], F_SETPIPE_SZ, i & 2 ? 1 << 20 : 4096);
        pid_t w = child();
        if (!w) {
            close(P[0]);
            writes(P[1], TOTAL / 24, 1);
            _exit(0);
        }
        pid_t m = child();
        if (!m) {
            close(P[1]), close(Q[0]);
            splice_all(P[0], Q[1], TOTAL / 24);
            _exit(0);
        }
        static char b[TOTAL / 24];
        IS(read_n(Q[0], b, sizeof b), sizeof b);
        same(b, sizeof b, 0);
        REAP0(w);
        REAP0(m);
    }
}
MAIN(T(sizes_at_random), T(as_pv), T(a_page_each), T(nonblocking), T(through_its_own), T(between_threads), T(a_chain),
     T(round_and_round), T(after_writes), T(waits_for_bytes), T(waits_for_room), T(the_end), T(the_end_comes), T(does_not_wait),
     T(nobody_reads), T(the_reader_leaves), T(the_reader_is_killed), T(restarts_for_bytes), T(restarts_for_room),
     T(ends_for_bytes), T(ends_for_room), T(a_handler_splices), T(a_sleeper_is_killed), T(a_relay_is_killed), T(many_relays),
     T(beside_writers), T(a_set_by_level), T(a_set_by_edge), T(to_null), T(null_no_more), T(what_is_refused), T(other_sizes))
