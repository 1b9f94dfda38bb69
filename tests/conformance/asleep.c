/* Checks: writes that each find the reader asleep: what they bring, their errors, the reader's death in its sleep.
 * Does not check: readers awake (short.c), signal handlers (signal.c), several readers (short.c, deopt.c). */
#include "check.h"
enum { WAKES = 20 };
/* A reader that sleeps before each of `wakes` reads of up to `most` bytes; then for good. */
static pid_t sleeper(int *p, int wakes, const size_t *sizes, int kinds) {
    pid_t c = child();
    if (c) return c;
    static char b[1 << 16];
    size_t at = 0;
    close(p[1]);
    for (int i = 0; i < wakes; i++) {
        size_t n = sizes[i % kinds];
        for (size_t got = 0; got < n;) {
            ssize_t k = read(p[0], b, n - got);
            CHECK(k > 0, "read %d said %zd", i, k);
            verify(b, k, at);
            at += k;
            got += k;
        }
    }
    IS(read(p[0], b, 1), 0);
    _exit(0);
}
static const size_t ONE[] = {1}, ALL[] = {1, 100, 4096, 4097, 8192, 3};
static size_t wake(pid_t c, int w, int wakes, const size_t *sizes, int kinds, size_t at) {
    for (int i = 0; i < wakes; i++) {
        size_t n = sizes[i % kinds];
        wait_asleep(c);
        put(w, n, at);
        at += n;
    }
    wait_asleep(c);
    return at;
}
static void each_finds_what_was_written(void) {
    int p[2];
    mkpipe(p);
    pid_t c = sleeper(p, 36, ALL, 6);
    wake(c, p[1], 36, ALL, 6, 0);
    close(p[1]);
    REAP0(c);
}
/* POSIX write: at most PIPE_BUF bytes are written whole, also those of several vectors. */
static void vectors(void) {
    static const size_t SIX[] = {6};
    int p[2];
    char b[6];
    mkpipe(p);
    pid_t c = sleeper(p, WAKES, SIX, 1);
    for (int i = 0; i < WAKES; i++) {
        fill(b, 6, 6 * i);
        struct iovec v[3] = {{b, 1}, {b + 1, 0}, {b + 1, 5}};
        wait_asleep(c);
        IS(writev(p[1], v, 3), 6);
    }
    wait_asleep(c);
    close(p[1]);
    REAP0(c);
}
static void writers_in_turn(void) {
    int p[2];
    mkpipe(p);
    pid_t c = sleeper(p, 3 * WAKES, ONE, 1);
    for (int i = 0; i < 3; i++) {
        pid_t w = child();
        if (!w) {
            close(p[0]);
            wake(c, p[1], WAKES, ONE, 1, i * WAKES);
            _exit(0);
        }
        REAP0(w);
    }
    wait_asleep(c);
    close(p[1]);
    REAP0(c);
}
/* LINUX pipe_write: nothing went in. */
static void from_a_bad_address(void) {
    int p[2];
    mkpipe(p);
    pid_t c = sleeper(p, WAKES + 3, ONE, 1);
    size_t at = wake(c, p[1], WAKES, ONE, 1, 0);
    for (int i = 0; i < 3; i++) {
        FAILS(write(p[1], (void *)8, 10), EFAULT);
        at = wake(c, p[1], 1, ONE, 1, at);
    }
    close(p[1]);
    REAP0(c);
}
/* LINUX pipe(7): EPIPE at once, to who ignores SIGPIPE. */
static void killed_in_its_sleep(void) {
    int p[2];
    mkpipe(p);
    signal(SIGPIPE, SIG_IGN);
    pid_t c = sleeper(p, WAKES + 1, ONE, 1);
    close(p[0]);
    wake(c, p[1], WAKES, ONE, 1, 0);
    kill(c, SIGKILL);
    reap(c);
    for (int i = 0; i < 3; i++) FAILS(write(p[1], "x", 1), EPIPE);
}
/* POSIX write: SIGPIPE, once for each write. */
static volatile int hits;
static void on(int s) { hits++; }
static void killed_then_one_signal_each(void) {
    int p[2];
    mkpipe(p);
    pid_t c = sleeper(p, WAKES + 1, ONE, 1);
    close(p[0]);
    wake(c, p[1], WAKES, ONE, 1, 0);
    kill(c, SIGKILL);
    reap(c);
    handle(SIGPIPE, on, 0);
    for (int i = 1; i < 4; i++) {
        FAILS(write(p[1], "x", 1), EPIPE);
        IS(hits, i);
    }
}
static void killed_then_the_writer_dies(void) {
    int p[2];
    mkpipe(p);
    pid_t c = sleeper(p, WAKES + 1, ONE, 1);
    wake(c, p[1], WAKES, ONE, 1, 0);
    kill(c, SIGKILL);
    reap(c);
    close(p[0]);
    pid_t w = child();
    if (!w) {
        signal(SIGPIPE, SIG_DFL);
        write(p[1], "x", 1);
        _exit(0);
    }
    int s = reap(w);
    CHECK(WIFSIGNALED(s) && WTERMSIG(s) == SIGPIPE, "SIGPIPE must kill the writer, its status was 0x%x", s);
}
/* O_NONBLOCK belongs to the description: a writer that may not wait wakes all the same. */
static void by_a_writer_that_does_not_wait(void) {
    int p[2];
    mkpipe(p);
    pid_t c = sleeper(p, WAKES, ONE, 1);
    fcntl(p[1], F_SETFL, O_NONBLOCK);
    wake(c, p[1], WAKES, ONE, 1, 0);
    close(p[1]);
    REAP0(c);
}
/* More wakes than a ring that brings nothing is kept for; then a stream. */
static void many_then_a_stream(void) {
    static const size_t LONG[] = {60000};
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        static char b[60000];
        close(p[1]);
        for (size_t at = 0; at < 90 + 40 * 60000ul;) {
            ssize_t k = read(p[0], b, at < 90 ? 1 : sizeof b);
            CHECK(k > 0, "read at %zu said %zd", at, k);
            verify(b, k, at);
            at += k;
        }
        _exit(0);
    }
    size_t at = wake(c, p[1], 90, ONE, 1, 0);
    for (int i = 0; i < 40; i++, at += LONG[0]) put(p[1], LONG[0], at);
    REAP0(c);
}
MAIN(T(each_finds_what_was_written), T(vectors), T(writers_in_turn), T(from_a_bad_address), T(killed_in_its_sleep),
     T(killed_then_one_signal_each), T(killed_then_the_writer_dies), T(by_a_writer_that_does_not_wait), T(many_then_a_stream))
