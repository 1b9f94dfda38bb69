/* Checks: F_SETPIPE_SZ and F_GETPIPE_SZ of fcntl(2), of pipes and FIFOs: what both ends and a child are told, what a
 * pipe of each size takes before a write fails or blocks, and no more; EBUSY, EPERM and EINVAL, which change nothing;
 * a size set while bytes are unread, while a writer sleeps, and by two processes at a time; the order of the bytes.
 * Does not check: that the pipe was carried; explain.sh does. */
#include "fifo_common.h"
#include <linux/capability.h>
enum { KIB = 1024, MIB = 1024 * KIB, PAGE = 4096, DEFAULT = 64 * KIB };
static void by_pipe(int p[2]) { mkpipe(p); }
static void by_fifo(int p[2]) { mkff(p); }
typedef void (*maker)(int p[2]);
static unsigned char b[2 * MIB];
/* LINUX round_pipe_size */
static int rounded(int n) {
    int s = PAGE;
    while (s < n) s *= 2;
    return s;
}
static int set(int fd, unsigned n) { return fcntl(fd, F_SETPIPE_SZ, n); }
static void has_size_(int line, int p[2], int n) {
    int of_child[2] = {fcntl(p[0], F_GETPIPE_SZ), fcntl(p[1], F_GETPIPE_SZ)};
    if (of_child[0] != n || of_child[1] != n)
        failed(line, "the ends must have %d and said %d and %d", n, of_child[0], of_child[1]);
    pid_t c = child();
    if (!c) {
        for (int i = 0; i < 2; i++)
            if (fcntl(p[i], F_GETPIPE_SZ) != n)
                failed(line, "a child must be told %d, not %d", n, fcntl(p[i], F_GETPIPE_SZ));
        _exit(0);
    }
    REAP0(c);
}
#define HAS_SIZE(p, n) has_size_(__LINE__, p, n)
/* Enough writes, none of which may fill it, that a channel of a process that takes part is open afterwards. */
static void flows(int p[2]) {
    for (int i = 0; i < 40; i++) {
        put(p[1], 2000, i);
        get(p[0], 2000, i);
    }
}
static void answers(maker make) {
    static const int wanted[] = {1, PAGE, 5000, DEFAULT, 100000, 512 * KIB, MIB, 8192, 0, MIB - 1};
    int p[2];
    make(p);
    for (int i = 0; i < (int)(sizeof wanted / sizeof *wanted); i++) {
        IS(set(p[i % 2], wanted[i]), rounded(wanted[i]));
        HAS_SIZE(p, rounded(wanted[i]));
        flows(p);
        HAS_SIZE(p, rounded(wanted[i]));
        put(p[1], 4000, 0);
        HAS_SIZE(p, rounded(wanted[i]));
        get(p[0], 4000, 0);
    }
    FAILS(set(p[1], 0x80000001u), EINVAL);
    HAS_SIZE(p, MIB);
    flows(p);
}
/* LINUX pipe_write: a write of up to a page is not divided, a longer one may begin a page for its last byte. */
static size_t least(size_t size, size_t c) { return c > PAGE ? size / 2 : size / PAGE * (PAGE / c * c); }
static void takes(maker make, size_t size, size_t c) {
    int p[2];
    size_t n = 0;
    ssize_t g;
    make(p);
    IS(set(p[1], size), size);
    flows(p);
    for (int round = 0; round < 3; round++) {
        setfl(p[1], O_NONBLOCK, 0);
        for (n = 0; n <= size; n += g) {
            fill(b, c, n);
            if ((g = write(p[1], b, c)) < 0) break;
        }
        CHECK(n <= size, "a pipe of %zu took %zu bytes by %zu", size, n, c);
        IS(errno, EAGAIN);
        CHECK(n >= least(size, c), "a pipe of %zu took %zu bytes by %zu", size, n, c);
        IS(events(p[1], POLLOUT, 0), 0);
        HAS_SIZE(p, size);
        get(p[0], n, 0);
        IS(events(p[1], POLLOUT, 0), POLLOUT);
        setfl(p[1], 0, O_NONBLOCK);
        flows(p);
    }
}
static void each_size(maker make) {
    static const int sizes[] = {PAGE, 16 * KIB, DEFAULT, 256 * KIB, MIB};
    static const int pieces[] = {100, 4095, 4096, 5000, 200000};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 5; k++) takes(make, sizes[i], pieces[k]);
    takes(make, 8192, 1);
}
/* As many bytes as were set, with nobody to read, and no write may block. */
static void one_write(maker make) {
    int p[2];
    make(p);
    IS(set(p[1], MIB), MIB);
    flows(p);
    for (int i = 0; i < 4; i++) {
        fill(b, MIB, i);
        IS(write(p[1], b, MIB), MIB);
        if (i == 2) HAS_SIZE(p, MIB);
        get(p[0], MIB, i);
    }
}
static void blocks(maker make, size_t size, size_t c) {
    int p[2];
    make(p);
    IS(set(p[0], size), size);
    flows(p);
    volatile size_t *n = shared(PAGE);
    pid_t w = child();
    if (!w)
        for (size_t at = 0;; at += c) {
            fill(b, c, at);
            IS(write(p[1], b, c), c);
            *n = at + c;
        }
    UNTIL(*n >= least(size, c));
    wait_asleep(w);
    CHECK(*n <= size, "a pipe of %zu took %zu bytes by %zu", size, *n, c);
    kill(w, SIGKILL);
    reap(w);
    close(p[1]);
    get(p[0], *n, 0);
}
static void blocking(maker make) {
    static const int sizes[] = {PAGE, DEFAULT, MIB};
    for (int i = 0; i < 3; i++) {
        blocks(make, sizes[i], 1000);
        blocks(make, sizes[i], PAGE);
    }
}
static void busy(maker make) {
    int p[2];
    make(p);
    IS(set(p[1], 32 * KIB), 32 * KIB);
    flows(p);
    put(p[1], 5 * PAGE, 0);
    FAILS(set(p[1], 4 * PAGE), EBUSY);
    FAILS(set(p[0], PAGE), EBUSY);
    HAS_SIZE(p, 32 * KIB);
    get(p[0], PAGE, 0);
    IS(set(p[0], 4 * PAGE), 4 * PAGE);
    HAS_SIZE(p, 4 * PAGE);
    setfl(p[1], O_NONBLOCK, 0);
    FAILS(write(p[1], b, 1), EAGAIN);
    IS(set(p[0], 8 * PAGE), 8 * PAGE);
    put(p[1], 4 * PAGE, 5 * PAGE);
    FAILS(write(p[1], b, 1), EAGAIN);
    get(p[0], 8 * PAGE, PAGE);
}
/* A full pipe of the usual size is never too full for that size. */
static void same_size(maker make) {
    int p[2];
    make(p);
    size_t n = fill_up(p[1], 0);
    IS(set(p[1], DEFAULT), DEFAULT);
    HAS_SIZE(p, DEFAULT);
    get(p[0], n, 0);
    flows(p);
    HAS_SIZE(p, DEFAULT);
}
static int most(void) {
    char s[32] = "";
    int f = open("/proc/sys/fs/pipe-max-size", O_RDONLY);
    read(f, s, sizeof s - 1);
    close(f);
    return atoi(s);
}
static void refused(maker make) {
    struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {{0}};
    int p[2];
    make(p);
    IS(syscall(SYS_capset, &h, none), 0);
    FAILS(set(p[1], 2 * most()), EPERM);
    HAS_SIZE(p, DEFAULT);
    put(p[1], 5000, 0);
    FAILS(set(p[0], 2 * most()), EPERM);
    get(p[0], 5000, 0);
    IS(set(p[0], MIB), MIB);
    flows(p);
    fill(b, MIB, 0);
    IS(write(p[1], b, MIB), MIB);
    HAS_SIZE(p, MIB);
    get(p[0], MIB, 0);
}
/* The writer of a full pipe sleeps; it goes on when another makes room by a larger size. */
static void wakes(maker make) {
    int p[2];
    make(p);
    IS(set(p[1], 2 * PAGE), 2 * PAGE);
    flows(p);
    volatile int *done = shared(PAGE);
    pid_t w = child();
    if (!w) {
        put(p[1], 40 * PAGE, 0);
        *done = 1;
        put(p[1], MIB, 40 * PAGE);
        _exit(0);
    }
    wait_asleep(w);
    IS(*done, 0);
    IS(set(p[0], 64 * PAGE), 64 * PAGE);
    UNTIL(*done);
    get(p[0], 40 * PAGE + MIB, 0);
    REAP0(w);
}
/* Two processes set sizes while a third writes: the bytes come in order, and all are told one size. */
static void at_once(maker make) {
    int p[2];
    make(p);
    pid_t c[3];
    for (int i = 0; i < 2; i++)
        if (!(c[i] = child())) {
            for (int k = 0; k < 100; k++) {
                int size = PAGE << (i + k) % 6, g = set(p[k % 2], size);
                if (g < 0) IS(errno, EBUSY);
                else IS(g, size);
                usleep(500);
            }
            _exit(0);
        }
    if (!(c[2] = child())) {
        put(p[1], 20 * MIB, 0);
        _exit(0);
    }
    get(p[0], 20 * MIB, 0);
    for (int i = 0; i < 3; i++) REAP0(c[i]);
    int size = fcntl(p[0], F_GETPIPE_SZ);
    CHECK(size >= PAGE && size <= 32 * PAGE, "the size is %d", size);
    HAS_SIZE(p, size);
    flows(p);
    HAS_SIZE(p, size);
    IS(set(p[1], MIB), MIB);
    HAS_SIZE(p, MIB);
}
/* LINUX fifo(7): a FIFO that everybody has left is a new pipe when it is opened again. */
static void another_life(void) {
    static const int sizes[] = {PAGE, MIB};
    for (int i = 0; i < 2; i++) {
        int p[2];
        const char *f = mkff(p);
        IS(set(p[1], sizes[i]), sizes[i]);
        flows(p);
        close(p[0]);
        close(p[1]);
        open_both(f, p);
        HAS_SIZE(p, DEFAULT);
        flows(p);
        HAS_SIZE(p, DEFAULT);
        CHECK(fill_up(p[1], 0) >= holds(), "it took less than a new one");
    }
}
#define BOTH(f)                                                                                              \
    static void f##_pipe(void) { f(by_pipe); }                                                               \
    static void f##_fifo(void) { f(by_fifo); }
BOTH(answers)
BOTH(each_size)
BOTH(one_write)
BOTH(blocking)
BOTH(busy)
BOTH(same_size)
BOTH(refused)
BOTH(wakes)
BOTH(at_once)
FIFO_MAIN(T(answers_pipe), T(answers_fifo), T(each_size_pipe), T(each_size_fifo), T(one_write_pipe), T(one_write_fifo),
          T(blocking_pipe), T(blocking_fifo), T(busy_pipe), T(busy_fifo), T(same_size_pipe), T(same_size_fifo),
          T(refused_pipe), T(refused_fifo), T(wakes_pipe), T(wakes_fifo), T(at_once_pipe), T(at_once_fifo),
          T(another_life))
