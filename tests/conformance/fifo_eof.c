/* Checks: EOF with the last writer, EPIPE and SIGPIPE with the last reader, and signals that end a blocked read(2)
 * or write(2) on a FIFO, or restart it. Does not check: death of a process (fifo_hangup.c). */
#include "fifo_common.h"
static volatile int *S;
static volatile int hits;
static void on(int s) { hits++; }
static void eof_with_the_last_writer(void) {
    int p[2], q[2];
    char x;
    const char *f = mkff(p);
    S = shared(4096);
    pid_t c[3];
    for (int i = 0; i < 3; i++)
        if (!(c[i] = child())) {
            close_range(3, ~0u, 0);
            int w = OPEN(f, O_WRONLY);
            __sync_fetch_and_add(&S[0], 1);
            UNTIL(S[1] > i);
            put(w, 100000, i);
            _exit(0);
        }
    UNTIL(S[0] == 3);
    close(p[1]);
    for (int i = 0; i < 3; i++) {
        setfl(p[0], O_NONBLOCK, 0);
        FAILS(read(p[0], &x, 1), EAGAIN);
        setfl(p[0], 0, O_NONBLOCK);
        S[1] = i + 1;
        get(p[0], 100000, i);
        REAP0(c[i]);
    }
    AT_EOF(p[0]);
}
static void eof_wakes_the_reader(void) {
    int p[2];
    const char *f = mkff(p);
    for (int i = 0; i < 3; i++) {
        pid_t c = child();
        if (!c) {
            close(p[1]);
            int r = i == 1 ? p[0] : OPEN(f, O_RDONLY);
            get(r, 1000, 0);
            AT_EOF(r);
            _exit(0);
        }
        put(p[1], 1000, 0);
        wait_asleep(c);
        IS(waitpid(c, 0, WNOHANG), 0);
        close(p[1]);
        REAP0(c);
        p[1] = OPEN(f, O_WRONLY);
        heat(p[0], p[1]);
    }
}
static void epipe_with_the_last_reader(void) {
    int p[2];
    const char *f = mkff(p);
    int o = OPEN(f, O_RDONLY);
    handle(SIGPIPE, on, 0);
    close(p[0]);
    put(p[1], 1000, 0);
    IS(hits, 0);
    close(o);
    FAILS(write(p[1], "x", 1), EPIPE);
    IS(hits, 1);
    char b[9000] = {0};
    FAILS(write(p[1], b, sizeof b), EPIPE);
    IS(hits, 2);
    IS(write(p[1], "", 0), 0);
    setfl(p[1], O_NONBLOCK, 0);
    FAILS(write(p[1], "x", 1), EPIPE);
    setfl(p[1], 0, O_NONBLOCK);
    for (int i = 0; i < 3; i++) { /* a new reader brings it to life, with what lay there */
        p[0] = OPEN(f, O_RDONLY);
        put(p[1], 1000, 1000);
        get(p[0], 2000, 0);
        heat(p[0], p[1]);
        put(p[1], 1000, 0);
        close(p[0]);
        FAILS(write(p[1], "x", 1), EPIPE);
    }
    IS(hits, 6);
}
static void sigpipe_kills(void) {
    int p[2];
    const char *f = mkff(p);
    pid_t c = child();
    if (!c) {
        signal(SIGPIPE, SIG_DFL);
        close(p[0]);
        for (;;) write(p[1], sea, 1000);
    }
    qget(p[0], 1000, 0, 100);
    close(p[0]);
    int s = reap(c);
    CHECK(WIFSIGNALED(s) && WTERMSIG(s) == SIGPIPE, "SIGPIPE must kill the writer, its status was 0x%x", s);
}
static void blocked_writer_gets_epipe(void) {
    int p[2];
    const char *f = mkff(p);
    for (int big = 0; big < 2; big++) {
        size_t n = fill_up(p[1], 0);
        pid_t c = child();
        if (!c) {
            close(p[0]);
            handle(SIGPIPE, on, SA_RESTART);
            if (!big) {
                FAILS(write(p[1], "x", 1), EPIPE);
                IS(hits, 1);
                _exit(0);
            }
            ssize_t g = write(p[1], sea, sizeof sea);
            CHECK(g > 0 && g < (ssize_t)sizeof sea, "it must tell what went in and gave %zd", g);
            IS(hits, 1);
            FAILS(write(p[1], "x", 1), EPIPE);
            _exit(0);
        }
        wait_asleep(c);
        if (big) {
            get(p[0], n, 0);
            qget(p[0], 10000, 0, 4096);
            wait_asleep(c);
        }
        close(p[0]);
        REAP0(c);
        close(p[1]);
        open_both(f, p);
        heat(p[0], p[1]);
    }
}
static void signal_ends_a_blocked_call(int out, int restart) {
    int p[2];
    const char *f = mkff(p);
    S = shared(4096);
    size_t n = out ? fill_up(p[1], 0) : 0;
    pid_t c = child();
    if (!c) {
        handle(SIGUSR1, on, restart ? SA_RESTART : 0);
        S[0] = 1;
        char x = pat(n);
        errno = 0;
        int g = out ? write(p[1], &x, 1) : read(p[0], &x, 1);
        if (restart) {
            IS(g, 1);
        } else
            CHECK(g == -1 && errno == EINTR, "it must fail with EINTR and gave %d", g);
        _exit(0);
    }
    UNTIL(S[0]);
    int s;
    pid_t r;
    if (!restart) {
        double t = now();
        while (!(r = waitpid(c, &s, WNOHANG))) {
            kill(c, SIGUSR1);
            sleep_ms(2);
            CHECK(now() - t < 10, "the call was not interrupted");
        }
        IS(s, 0);
    } else {
        for (int i = 0; i < 4; i++) {
            wait_asleep(c);
            kill(c, SIGUSR1);
        }
        sleep_ms(5);
        IS(waitpid(c, 0, WNOHANG), 0);
        if (out) {
            get(p[0], n + 1, 0);
            n = 0;
        } else
            put(p[1], 1, 0);
        REAP0(c);
    }
    get(p[0], n, 0);
    heat(p[0], p[1]);
}
static void read_eintr(void) { signal_ends_a_blocked_call(0, 0); }
static void read_sa_restart(void) { signal_ends_a_blocked_call(0, 1); }
static void write_eintr(void) { signal_ends_a_blocked_call(1, 0); }
static void write_sa_restart(void) { signal_ends_a_blocked_call(1, 1); }
FIFO_MAIN(T(eof_with_the_last_writer), T(eof_wakes_the_reader), T(epipe_with_the_last_reader),
          T(sigpipe_kills), T(blocked_writer_gets_epipe), T(read_eintr), T(read_sa_restart), T(write_eintr),
          T(write_sa_restart))
