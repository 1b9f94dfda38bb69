/* Checks: O_NONBLOCK belongs to the open file description and shows everywhere at once; EAGAIN; partial
 * writes; capacity. Does not check: exact capacity (at least 65536 is asked; ctl.c checks sizes that were
 * set). */
#include "check.h"
static char big[1 << 20];
static void empty_eagain(void) {
    int p[2];
    char x;
    mkpipe(p);
    setfl(p[0], O_NONBLOCK, 0);
    FAILS(read(p[0], &x, 1), EAGAIN);
    put(p[1], 1, 0);
    IS(read(p[0], &x, 1), 1);
    FAILS(read(p[0], &x, 1), EAGAIN);
    close(p[1]);
    IS(read(p[0], &x, 1), 0);
}
static void made_by_pipe2(void) {
    int p[2];
    char x;
    IS(pipe2(p, O_NONBLOCK | O_CLOEXEC), 0);
    FAILS(read(p[0], &x, 1), EAGAIN);
    IS(fcntl(p[0], F_GETFD), FD_CLOEXEC);
    IS(fcntl(p[1], F_GETFL) & (O_NONBLOCK | O_ACCMODE), O_NONBLOCK | O_WRONLY);
    CHECK(fill_up(p[1], 0) >= 65536, "capacity");
}
static void by_ioctl(void) {
    int p[2], on = 1;
    char x;
    mkpipe(p);
    IS(ioctl(p[0], FIONBIO, &on), 0);
    FAILS(read(p[0], &x, 1), EAGAIN);
    IS(fcntl(p[0], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
}
/* LINUX: open(2), fcntl(2): file status flags belong to the open file description, shared by fork and dup. */
static void set_by_another_process(void) {
    int p[2];
    char x;
    mkpipe(p);
    for (int i = 0; i < 3; i++) {
        pid_t c = child();
        if (!c) {
            setfl(p[0], O_NONBLOCK, 0);
            _exit(0);
        }
        REAP0(c);
        IS(fcntl(p[0], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
        IS(fcntl(p[1], F_GETFL) & O_NONBLOCK, 0);
        FAILS(read(p[0], &x, 1), EAGAIN);
        c = child();
        if (!c) {
            setfl(p[0], 0, O_NONBLOCK);
            sleep_ms(20);
            put(p[1], 1, 0);
            _exit(0);
        }
        while (fcntl(p[0], F_GETFL) & O_NONBLOCK);
        IS(read(p[0], &x, 1), 1);
        REAP0(c);
    }
}
static void set_by_another_process_writer(void) {
    int p[2];
    mkpipe(p);
    size_t n = fill_up(p[1], 0);
    pid_t c = child();
    if (!c) {
        setfl(p[1], O_NONBLOCK, 0);
        _exit(0);
    }
    REAP0(c);
    FAILS(write(p[1], "x", 1), EAGAIN);
    c = child();
    if (!c) {
        setfl(p[1], 0, O_NONBLOCK);
        _exit(0);
    }
    REAP0(c);
    c = child();
    if (!c) {
        close(p[0]);
        put(p[1], 5000, n);
        _exit(0);
    }
    close(p[1]);
    wait_asleep(c);
    get(p[0], n + 5000, 0);
    REAP0(c);
}
/* LINUX: a read already blocked is not woken by O_NONBLOCK being set; it takes the data that comes. */
static void set_while_blocked(void) {
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        char b[9];
        IS(read(p[0], b, 9), 5);
        verify(b, 5, 0);
        FAILS(read(p[0], b, 1), EAGAIN);
        _exit(0);
    }
    wait_asleep(c);
    setfl(p[0], O_NONBLOCK, 0);
    sleep_ms(20);
    IS(waitpid(c, 0, WNOHANG), 0);
    put(p[1], 5, 0);
    REAP0(c);
}
static void shared_by_dup_not_by_reopen(void) {
    int p[2];
    char x, n[64];
    mkpipe(p);
    int d = dup(p[0]);
    snprintf(n, sizeof n, "/proc/self/fd/%d", p[0]);
    int o = open(n, O_RDONLY | O_NONBLOCK);
    CHECK(o >= 0, "reopen");
    FAILS(read(o, &x, 1), EAGAIN);
    IS(fcntl(p[0], F_GETFL) & O_NONBLOCK, 0);
    setfl(d, O_NONBLOCK, 0);
    FAILS(read(p[0], &x, 1), EAGAIN);
    setfl(o, 0, O_NONBLOCK);
    FAILS(read(d, &x, 1), EAGAIN);
}
static void partial_write(void) {
    int p[2];
    mkpipe(p);
    size_t n = fill_up(p[1], 0);
    setfl(p[1], O_NONBLOCK, 0);
    get(p[0], 8192, 0);
    fill(big, sizeof big, n);
    ssize_t g = write(p[1], big, 65536);
    CHECK(g > 0 && g < 65536, "a large nonblocking write must take what fits, it took %zd", g);
    get(p[0], n - 8192 + g, 8192);
}
static void capacity(size_t chunk) {
    int p[2];
    mkpipe(p);
    setfl(p[1], O_NONBLOCK, 0);
    size_t n = 0;
    ssize_t g;
    static char b[1 << 20];
    for (;;) {
        fill(b, chunk, n);
        g = write(p[1], b, chunk);
        if (g < 0) break;
        n += g;
        CHECK(n < 64 << 20, "never full");
    }
    CHECK(errno == EAGAIN, "EAGAIN at full");
    CHECK(n >= holds(), "the pipe must hold %zu bytes before EAGAIN and held %zu", holds(), n);
    get(p[0], n, 0);
    IS(write(p[1], b, 1), 1);
}
static void capacity_1(void) { capacity(1); }
static void capacity_4096(void) { capacity(4096); }
static void capacity_65536(void) { capacity(65536); }
static void capacity_1000000(void) { capacity(1000000); }
static void stream_both_nonblocking(void) {
    enum { TOTAL = 4 << 20 };
    int p[2];
    mkpipe(p);
    setfl(p[0], O_NONBLOCK, 0);
    setfl(p[1], O_NONBLOCK, 0);
    char b[10000];
    pid_t c = child();
    if (!c) {
        close(p[0]);
        for (size_t at = 0; at < TOTAL;) {
            size_t k = TOTAL - at < 10000 ? TOTAL - at : 10000;
            fill(b, k, at);
            ssize_t g = write(p[1], b, k);
            if (g < 0) {
                CHECK(errno == EAGAIN, "write");
                events(p[1], POLLOUT, -1);
            } else
                at += g;
        }
        _exit(0);
    }
    close(p[1]);
    size_t at = 0;
    ssize_t g;
    while ((g = read(p[0], b, 7000)) != 0) {
        if (g < 0) {
            CHECK(errno == EAGAIN, "read");
            events(p[0], POLLIN, -1);
        } else {
            verify(b, g, at);
            at += g;
        }
    }
    IS(at, TOTAL);
    REAP0(c);
}
static void nothing(int s) {}
/* Whoever was told EAGAIN finds the pipe full also when it may sleep; here after a sleeping reader was given just
 * what it asked for. */
static void full_is_full_for_who_may_sleep(void) {
    int p[2];
    char b[100];
    mkpipe(p);
    pid_t me = getpid(), c = child();
    if (!c) {
        close(p[0]);
        wait_asleep(me);
        put(p[1], sizeof b, 0);
        _exit(0);
    }
    IS(read(p[0], b, sizeof b), sizeof b);
    REAP0(c);
    size_t n = fill_up(p[1], 0);
    struct sigaction a = {.sa_handler = nothing};
    sigaction(SIGALRM, &a, 0);
    struct itimerval t = {{0, 20000}, {0, 20000}}, off = {0};
    setitimer(ITIMER_REAL, &t, 0);
    FAILS(write(p[1], "x", 1), EINTR);
    setitimer(ITIMER_REAL, &off, 0);
    close(p[1]);
    get(p[0], n, 0);
    AT_EOF(p[0]);
}
/* LINUX pipe(7): a write waits only while there is no room. */
static void room_that_the_writer_has_made(void) {
    int p[2];
    mkpipe(p);
    size_t n = fill_up(p[1], 0), at = 0;
    for (int i = 0; i < 200; i++) {
        size_t k = n - at > 8192 && i % 2 ? 8192 : 4096;
        get(p[0], k, at);
        at += k;
        put(p[1], 4096, n); /* waits for nobody: there is none */
        n += 4096;
        n += fill_up(p[1], n);
    }
    close(p[1]);
    get(p[0], n - at, at);
    AT_EOF(p[0]);
}
MAIN(T(empty_eagain), ONCE(made_by_pipe2), T(by_ioctl), T(set_by_another_process),
     T(set_by_another_process_writer), T(set_while_blocked), T(shared_by_dup_not_by_reopen), T(partial_write),
     T(capacity_1), T(capacity_4096), T(capacity_65536), T(capacity_1000000), T(stream_both_nonblocking),
     T(full_is_full_for_who_may_sleep), T(room_that_the_writer_has_made))
