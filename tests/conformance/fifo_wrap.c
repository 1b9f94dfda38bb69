/* Checks: large volumes in pieces that fit nothing: every byte, in order, whoever is the slower and whatever
 * the size of the FIFO becomes meanwhile. Does not check: time. */
#include "fifo_common.h"
enum { MIB = 1 << 20 };
static volatile int *S;
struct side {
    unsigned seed, most; /* pieces of 1..most bytes */
    int lag;             /* rests 100 us once in so many calls; 0: never */
    int vec;             /* readv or writev */
};
static unsigned piece(struct side *s, unsigned *i) {
    if (s->lag && ++*i % s->lag == 0) usleep(100);
    unsigned x = rnd(&s->seed);
    return 1 + (x % 4 ? x / 4 % s->most : x / 4 % 100);
}
static void writes(int w, uint64_t total, struct side s) {
    unsigned k = 0;
    for (uint64_t n = 0; n < total;) {
        uint64_t m = piece(&s, &k), c;
        if (m > total - n) m = total - n;
        c = m / 3;
        struct iovec v[3] = {{(void *)at(n), c}, {(void *)at(n + c), 0}, {(void *)at(n + c), m - c}};
        IS(s.vec ? writev(w, v, 3) : write(w, at(n), m), m);
        n += m;
    }
}
static void reads(int r, uint64_t total, struct side s) {
    static char b[SEA];
    unsigned k = 0;
    for (uint64_t n = 0; n < total;) {
        unsigned m = piece(&s, &k);
        struct iovec v[3] = {{b, m / 3}, {b + m / 3, 0}, {b + m / 3, m - m / 3}};
        ssize_t g = s.vec ? readv(r, v, 3) : read(r, b, m);
        CHECK(g > 0 && g <= m, "read gave %zd at position %llu", g, (unsigned long long)n);
        same(b, g, n);
        n += g;
    }
}
static void run(uint64_t total, struct side w, struct side r) {
    const char *f = newfifo();
    pid_t c = child();
    if (!c) {
        writes(OPEN(f, O_WRONLY), total, w);
        _exit(0);
    }
    int d = OPEN(f, O_RDONLY);
    reads(d, total, r);
    AT_EOF(d);
    REAP0(c);
}
static void even(void) { run(64 * MIB, (struct side){1, 70000}, (struct side){2, 70000}); }
static void slow_reader(void) { run(64 * MIB, (struct side){3, 60000}, (struct side){4, 50000, 20}); }
static void slow_writer(void) { run(64 * MIB, (struct side){5, 50000, 20}, (struct side){6, 60000}); }
static void small_to_large(void) { run(8 * MIB, (struct side){7, 300}, (struct side){8, 500000}); }
static void large_to_small(void) { run(8 * MIB, (struct side){9, 900000}, (struct side){10, 300}); }
static void vectors(void) { run(64 * MIB, (struct side){11, 90000, 0, 1}, (struct side){12, 60000, 0, 1}); }
static void both_rest(void) { run(16 * MIB, (struct side){13, 9000, 40}, (struct side){14, 9000, 30}); }
static void pages(void) { /* sizes round about 4096 and 65536, where rings end */
    const char *f = newfifo();
    static const int z[] = {4095, 4096, 4097, 1, 65535, 65536, 65537, 8191, 8193, 2, 32767, 32769};
    enum { N = 2400 };
    pid_t c = child();
    if (!c) {
        int w = OPEN(f, O_WRONLY);
        uint64_t n = 0;
        for (int i = 0; i < N; n += z[i++ % 12]) write_all(w, at(n), z[i % 12]);
        _exit(0);
    }
    uint64_t n = 0, all = 0;
    for (int i = 0; i < 12; i++) all += z[i] * (N / 12);
    int r = OPEN(f, O_RDONLY);
    static char b[SEA];
    for (int i = 0; n < all; i++) {
        ssize_t g = read(r, b, z[i * 5 % 12]);
        CHECK(g > 0, "read gave %zd", g);
        same(b, g, n);
        n += g;
    }
    AT_EOF(r);
    REAP0(c);
}
static void capacity_changes(void) { /* by the writer, by the reader, by a third who holds it */
    enum { TOTAL = 64 * MIB };
    static const int z[] = {4096, 65536, 1 << 20, 16384, 262144, 8192};
    const char *f = newfifo();
    S = shared(4096);
    pid_t t = child();
    if (!t) {
        int d = OPEN(f, O_RDWR | O_NONBLOCK);
        S[0] = 1;
        for (int i = 0; !S[1]; i++) {
            int g = fcntl(d, F_SETPIPE_SZ, z[i % 6]);
            CHECK(g >= 4096 || errno == EBUSY || errno == EPERM || errno == ENOMEM, "F_SETPIPE_SZ");
            g = fcntl(d, F_GETPIPE_SZ);
            CHECK(g >= 4096, "F_GETPIPE_SZ gave %d", g);
            usleep(500);
        }
        close(d);
        S[2] = 1;
        _exit(0);
    }
    UNTIL(S[0]);
    pid_t c = child();
    if (!c) {
        int w = OPEN(f, O_WRONLY);
        unsigned x = 5;
        for (uint64_t n = 0; n < TOTAL;) {
            size_t k = 1 + rnd(&x) % 70000;
            if (k > TOTAL - n) k = TOTAL - n;
            if (x % 64 == 0) fcntl(w, F_SETPIPE_SZ, z[x / 64 % 6]);
            IS(write(w, at(n), k), k);
            n += k;
        }
        _exit(0);
    }
    int r = OPEN(f, O_RDONLY);
    static char b[SEA];
    unsigned x = 6;
    for (uint64_t n = 0; n < TOTAL;) {
        if (x % 64 == 0) fcntl(r, F_SETPIPE_SZ, z[x / 64 % 6]);
        ssize_t g = read(r, b, 1 + rnd(&x) % 70000);
        CHECK(g > 0, "read gave %zd", g);
        same(b, g, n);
        n += g;
    }
    S[1] = 1;
    REAP0(c);
    REAP0(t);
    AT_EOF(r);
}
static void chain(void) { /* through three relays */
    enum { TOTAL = 24 * MIB };
    const char *f[4];
    pid_t c[4];
    for (int i = 0; i < 4; i++) f[i] = newfifo();
    for (int i = 0; i < 4; i++)
        if (!(c[i] = child())) {
            if (!i) {
                writes(OPEN(f[0], O_WRONLY), TOTAL, (struct side){20, 40000});
                _exit(0);
            }
            int r = OPEN(f[i - 1], O_RDONLY), w = OPEN(f[i], O_WRONLY);
            static char b[SEA];
            ssize_t g;
            while ((g = read(r, b, 7001 * i)) > 0) write_all(w, b, g);
            IS(g, 0);
            _exit(0);
        }
    int r = OPEN(f[3], O_RDONLY);
    reads(r, TOTAL, (struct side){21, 50000});
    AT_EOF(r);
    for (int i = 0; i < 4; i++) REAP0(c[i]);
}
static void there_and_back(void) { /* two FIFOs, an echo; as much under way as fits */
    enum { N = 3000 };
    const char *f = newfifo(), *g = newfifo();
    pid_t c = child();
    if (!c) {
        int r = OPEN(f, O_RDONLY), w = OPEN(g, O_WRONLY);
        static char b[SEA];
        ssize_t k;
        while ((k = read(r, b, 30000)) > 0) write_all(w, b, k);
        IS(k, 0);
        _exit(0);
    }
    int w = OPEN(f, O_WRONLY), r = OPEN(g, O_RDONLY);
    unsigned x = 9;
    uint64_t n = 0;
    for (int i = 0; i < N; i++) {
        size_t k = 1 + rnd(&x) % (holds() < 65536 ? 1500 : 30000);
        write_all(w, at(n), k);
        qget(r, k, n, 1 + rnd(&x) % 30000);
        n += k;
    }
    close(w);
    AT_EOF(r);
    REAP0(c);
}
static void read_write_opening(void) { /* both ends by O_RDWR, in two processes */
    const char *f = newfifo();
    int d = OPEN(f, O_RDWR);
    pid_t c = child();
    if (!c) {
        writes(d, 16 * MIB, (struct side){30, 70000});
        _exit(0);
    }
    reads(d, 16 * MIB, (struct side){31, 70000});
    REAP0(c);
}
static void threads(void) {
    int p[2];
    const char *f = newfifo();
    open_both(f, p);
    warm_mode = THREAD;
    for (int i = 0; i < 8; i++) flood(p[0], p[1], 4 * MIB, i * 4 * MIB);
}
FIFO_MAIN(ONCE(even), ONCE(slow_reader), ONCE(slow_writer), ONCE(small_to_large), ONCE(large_to_small),
          ONCE(vectors), ONCE(both_rest), ONCE(pages), ONCE(capacity_changes), ONCE(chain),
          ONCE(there_and_back), ONCE(read_write_opening), ONCE(threads))
