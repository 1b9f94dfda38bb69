/* Checks: how many bytes a pipe takes before a write would block, or blocks, by writes of several sizes: no fewer than the kernel's
 * own pipe, or than HOLDS says, no more than MOST says; and they come out in order.
 * Does not check: that the pipe was carried; run.sh does, where HOLDS or MOST is what the kernel's would not hold. */
#include "check.h"
/* LINUX pipe_write: a write of up to a page is not divided, a longer one may begin a page for its last byte. */
static size_t least(size_t c) { return c > 4096 ? holds() / 2 : holds() / 4096 * (4096 / c * c); }
static size_t most(void) {
    const char *s = getenv("MOST");
    return s ? strtoul(s, 0, 0) : 16 << 20;
}
static void hot(int p[2]) {
    CHECK(!pipe(p), "pipe failed");
    for (int i = 0; i < 64; i++) {
        put(p[1], 4096, i);
        get(p[0], 4096, i);
    }
}
static unsigned char b[1 << 20];
static void until_eagain(size_t c) {
    int p[2];
    size_t n = 0;
    ssize_t g;
    hot(p);
    setfl(p[1], O_NONBLOCK, 0);
    for (; n <= most(); n += g) {
        fill(b, c, n);
        if ((g = write(p[1], b, c)) < 0) break;
    }
    CHECK(n <= most(), "it took %zu bytes, the most are %zu", n, most());
    IS(errno, EAGAIN);
    CHECK(n >= least(c), "EAGAIN came after %zu bytes by %zu, the least are %zu", n, c, least(c));
    get(p[0], n, 0);
    setfl(p[0], O_NONBLOCK, 0);
    FAILS(read(p[0], b, 1), EAGAIN);
    IS(write(p[1], b, 1), 1);
}
static void until_it_sleeps(size_t c) {
    int p[2];
    volatile size_t *n = shared(4096);
    hot(p);
    pid_t w = child();
    if (!w)
        for (size_t at = 0;; at += c) {
            fill(b, c, at);
            IS(write(p[1], b, c), c);
            *n = at + c;
        }
    close(p[1]);
    double t0 = now();
    while (*n < least(c)) {
        CHECK(now() - t0 < 10, "a write slept after %zu bytes by %zu, the least are %zu", *n, c, least(c));
        usleep(300);
    }
    wait_asleep(w);
    CHECK(*n <= most(), "it took %zu bytes, the most are %zu", *n, most());
    kill(w, SIGKILL);
    reap(w);
    get(p[0], *n, 0);
}
static void by_1(void) { until_eagain(1); }
static void by_100(void) { until_eagain(100); }
static void by_4095(void) { until_eagain(4095); }
static void by_4096(void) { until_eagain(4096); }
static void by_5000(void) { until_eagain(5000); }
static void by_1_MiB(void) { until_eagain(1 << 20); }
static void blocking_by_1(void) { until_it_sleeps(1); }
static void blocking_by_100(void) { until_it_sleeps(100); }
static void blocking_by_4096(void) { until_it_sleeps(4096); }
MAIN(ONCE(by_1), ONCE(by_100), ONCE(by_4095), ONCE(by_4096), ONCE(by_5000), ONCE(by_1_MiB), ONCE(blocking_by_1),
     ONCE(blocking_by_100), ONCE(blocking_by_4096))
