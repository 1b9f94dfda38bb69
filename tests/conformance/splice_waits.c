/* Checks: one splice from a pipe into another or to /dev/null: what it waits for and in which order, what ends it, what it
 * leaves where it fails, what is refused. Does not check: streams (splice_pipes.c). */
#include "check.h"
#include "records.h"
#include "sea.h"
#include "splice.h"
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
MAIN(T(waits_for_bytes), T(waits_for_room), T(the_end), T(the_end_comes), T(does_not_wait), T(nobody_reads),
     T(the_reader_leaves), T(the_reader_is_killed), T(restarts_for_bytes), T(restarts_for_room),
     T(ends_for_bytes), T(ends_for_room), T(to_null), T(null_no_more), T(what_is_refused), T(other_sizes))
