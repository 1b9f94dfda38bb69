/* Checks: what read(2) and write(2) do on a FIFO whose ends were opened one by one.
 * Does not check: order of opening (fifo_open.c), the end of the stream, signals (fifo_eof.c), readiness
 * (fifo_events.c, fifo_epoll.c), large volumes (fifo_wrap.c). */
#include "fifo_common.h"
static volatile int *S;
static void
every_size(void) { /* 1..70000, one write each, 2.3 GiB in all; reads of sizes that do not fit them */
    const char *f = newfifo();
    enum { MAX = 70000 };
    pid_t c = child();
    if (!c) {
        int w = OPEN(f, O_WRONLY);
        uint64_t pos = 0;
        for (int n = 1; n <= MAX; n++) {
            IS(write(w, at(pos), n), n);
            pos += n;
        }
        _exit(0);
    }
    int r = OPEN(f, O_RDONLY);
    static char b[SEA];
    uint64_t pos = 0, all = (uint64_t)MAX * (MAX + 1) / 2;
    for (unsigned k = 1; pos < all; k = k % 69997 + 97) {
        ssize_t g = read(r, b, k);
        CHECK(g > 0 && g <= k, "read of %u gave %zd at %llu", k, g, (unsigned long long)pos);
        same(b, g, pos);
        pos += g;
    }
    AT_EOF(r);
    REAP0(c);
}
static void sizes_there_and_back(void) { /* in one process: what goes in comes out whole */
    int p[2];
    mkff(p);
    static char b[SEA];
    for (int n = 1; n <= (int)holds(); n += n < 9000 ? 1 : n % 13 ? 61 : 127) {
        IS(write(p[1], at(n), n), n);
        IS(read_n(p[0], b, n), n);
        same(b, n, n);
    }
}
static void sizes_in_step(void) { /* each write waits until it is read: sizes above the capacity too */
    int p[2];
    const char *f = mkff(p);
    static const int z[] = {1,     2,     4095,  4096,  4097,  8191,   8192,   8193,   32768,  65535,
                            65536, 65537, 69999, 70000, 70001, 131072, 200000, 524288, 700001, 1000000};
    S = shared(4096);
    pid_t c = child();
    if (!c) {
        close(p[0]);
        for (int i = 0; i < 20; i++) {
            IS(write(p[1], at(i), z[i]), z[i]);
            UNTIL(S[0] > i);
        }
        _exit(0);
    }
    close(p[1]);
    for (int i = 0; i < 20; i++) {
        qget(p[0], z[i], i, 77777);
        S[0] = i + 1;
    }
    REAP0(c);
    AT_EOF(p[0]);
}
static void vectors(void) {
    int p[2];
    const char *f = mkff(p);
    enum { N = 50 };
    pid_t c = child();
    if (!c) {
        close(p[0]);
        uint64_t pos = 0;
        for (int r = 0; r < 100; r++) {
            struct iovec v[N];
            size_t n = 1 + r % N, t = 0;
            for (size_t i = 0; i < n; i++) {
                v[i].iov_base = (void *)at(pos + t);
                v[i].iov_len = (i * 37 + r * 101) % 1500 * (i % 5 != 2);
                t += v[i].iov_len;
            }
            IS(writev(p[1], v, n), t);
            pos += t;
        }
        _exit(0);
    }
    close(p[1]);
    uint64_t pos = 0;
    static char b[N][900];
    for (int r = 0;; r++) {
        struct iovec v[N];
        int n = 1 + r * 7 % N;
        for (int i = 0; i < n; i++) {
            v[i].iov_base = b[i];
            v[i].iov_len = (i * 53 + r * 29) % 900;
        }
        v[0].iov_len = 300;
        ssize_t g = readv(p[0], v, n);
        CHECK(g >= 0, "readv");
        if (!g) break;
        for (int i = 0; i < n && g; i++) {
            size_t k = v[i].iov_len < (size_t)g ? v[i].iov_len : (size_t)g;
            same(b[i], k, pos);
            pos += k;
            g -= k;
        }
        IS(g, 0);
    }
    REAP0(c);
    uint64_t all = 0;
    for (int r = 0; r < 100; r++)
        for (size_t i = 0; i < (size_t)(1 + r % N); i++) all += (i * 37 + r * 101) % 1500 * (i % 5 != 2);
    IS(pos, all);
}
/* POSIX: "Write requests of {PIPE_BUF} bytes or less shall not be interleaved with data from other
 * processes". */
static void atomic(int vec) {
    enum { W = 4, N = 1200 };
    struct {
        uint16_t len, id;
        uint32_t seq;
    } h;
    int p[2];
    const char *f = mkff(p);
    pid_t c[W];
    for (int i = 0; i < W; i++)
        if (!(c[i] = child())) {
            close_range(3, ~0u, 0);
            int w = OPEN(f, O_WRONLY);
            unsigned x = i + 1;
            char b[4096];
            for (int k = 0; k < N; k++) {
                h.len = k % 9 == 0 ? 4096 : sizeof h + rnd(&x) % (4096 - sizeof h);
                h.id = i;
                h.seq = k;
                memset(b, 'a' + i + k % 16, sizeof b);
                memcpy(b, &h, sizeof h);
                int cut = sizeof h + (h.len - sizeof h) / 3;
                struct iovec v[2] = {{b, cut}, {b + cut, h.len - cut}};
                IS(vec ? writev(w, v, 2) : write(w, b, h.len), h.len);
            }
            _exit(0);
        }
    uint32_t next[W] = {0};
    int come = 0;
    char b[4096];
    for (int k = 0; k < W * N; k++) {
        IS(read_n(p[0], &h, sizeof h), sizeof h);
        CHECK(h.id < W && h.len >= sizeof h && h.len <= 4096, "writes were interleaved at record %d", k);
        IS(h.seq, next[h.id]);
        /* Not before every writer has come: the others may have gone by then, and that would be EOF. */
        if (!next[h.id]++ && ++come == W) close(p[1]);
        IS(read_n(p[0], b, h.len - sizeof h), h.len - sizeof h);
        for (int i = 0; i < h.len - (int)sizeof h; i++)
            CHECK(b[i] == (char)('a' + h.id + h.seq % 16), "writes were interleaved inside record %d", k);
    }
    for (int i = 0; i < W; i++) REAP0(c[i]);
    AT_EOF(p[0]);
}
static void atomic_write(void) { atomic(0); }
static void atomic_writev(void) { atomic(1); }
static void each_byte_to_one_reader(void) {
    enum { R = 3, N = 300000 };
    int p[2];
    const char *f = mkff(p);
    unsigned char *seen = shared(N);
    pid_t c[R];
    S = shared(4096);
    for (int i = 0; i < R; i++)
        if (!(c[i] = child())) {
            close_range(3, ~0u, 0);
            int r = OPEN(f, O_RDONLY);
            __sync_fetch_and_add(&S[0], 1);
            uint64_t b[125],
                last = 0; /* one writer, words of 8 bytes, reads of a multiple: words stay whole */
            ssize_t g;
            while ((g = read(r, b, i == 2 ? 80 : sizeof b)) > 0) {
                IS(g % 8, 0);
                for (int k = 0; k < g / 8; k++) {
                    CHECK(b[k] < N && (b[k] > last || !last), "word %llu came after %llu",
                          (unsigned long long)b[k], (unsigned long long)last);
                    last = b[k];
                    __sync_fetch_and_add(seen + last, 1);
                }
            }
            IS(g, 0);
            _exit(0);
        }
    UNTIL(S[0] == R);
    close(p[0]);
    for (uint64_t i = 0; i < N;) {
        uint64_t b[512];
        int k = 0, m = 1 + i % 512;
        while (k < m && i < N) b[k++] = i++;
        write_all(p[1], b, k * 8);
    }
    close(p[1]);
    for (int i = 0; i < R; i++) REAP0(c[i]);
    for (int i = 0; i < N; i++) IS(seen[i], 1);
}
static void short_reads(void) {
    int p[2];
    char b[9000];
    mkff(p);
    put(p[1], 10, 0);
    IS(read(p[0], b, 100), 10);
    for (int i = 0; i < 3; i++) put(p[1], 10, i * 10);
    IS(read(p[0], b, 100), 30); /* writes leave no marks */
    verify(b, 30, 0);
    put(p[1], 3000, 0);
    put(p[1], 3000, 3000);
    IS(read(p[0], b, 1000), 1000);
    IS(read(p[0], b + 1000, 8000), 5000);
    verify(b, 6000, 0);
    IS(read(p[0], b, 0), 0);
    IS(write(p[1], b, 0), 0);
    put(p[1], 1, 0);
    IS(read(p[0], b, sizeof b), 1);
}
static void nonblocking_reader(void) {
    int p[2];
    char x;
    const char *f = mkff(p);
    int r = OPEN(f, O_RDONLY | O_NONBLOCK);
    FAILS(read(r, &x, 1), EAGAIN);
    put(p[1], 2, 0);
    IS(read(r, &x, 1), 1);
    get(p[0], 1, 1);
    FAILS(read(r, &x, 1), EAGAIN);
    close(p[1]);
    IS(read(r, &x, 1), 0);
    int w = OPEN(f, O_WRONLY | O_NONBLOCK);
    FAILS(read(r, &x, 1), EAGAIN);
    close(w);
    IS(read(r, &x, 1), 0);
}
static void nonblocking_writer(void) {
    int p[2];
    static char b[SEA];
    const char *f = mkff(p);
    int w = OPEN(f, O_WRONLY | O_NONBLOCK);
    size_t n = 0;
    ssize_t g;
    while ((g = write(w, at(n), 4096)) > 0) n += g;
    CHECK(g == -1 && errno == EAGAIN && n >= holds(), "it must take %zu bytes before EAGAIN and took %zu", holds(), n);
    FAILS(write(w, b, 1), EAGAIN);
    IS(fcntl(p[1], F_GETFL) & O_NONBLOCK, 0);
    const size_t some = n < 9000 ? n : 9000;
    qget(p[0], some, 0, 4096);
    g = write(w, at(n), 500000); /* above PIPE_BUF: what fits */
    CHECK(g > 0 && g < 500000, "a large write must take what fits and gave %zd", g);
    n += g;
    qget(p[0], n - some, some, 8192);
    for (int i = 0; i < 100; i++) { /* up to PIPE_BUF: all or nothing */
        size_t m = 0;
        while ((g = write(w, at(m), 3000)) == 3000) m += g;
        CHECK(g == -1 && errno == EAGAIN, "a small write must be all or nothing and gave %zd", g);
        qget(p[0], m, 0, 8192);
    }
}
static void
nonblock_by_dup_and_fork(void) { /* O_NONBLOCK is the opening's: dups and children share it, others not */
    int p[2];
    char x;
    const char *f = mkff(p);
    int o = OPEN(f, O_RDONLY), d = dup(p[0]);
    setfl(d, O_NONBLOCK, 0);
    FAILS(read(p[0], &x, 1), EAGAIN);
    IS(fcntl(o, F_GETFL) & O_NONBLOCK, 0);
    setfl(p[0], 0, O_NONBLOCK);
    IS(fcntl(d, F_GETFL) & O_NONBLOCK, 0);
    for (int i = 0; i < 3; i++) {
        pid_t c = child();
        if (!c) {
            setfl(p[0], O_NONBLOCK, 0);
            _exit(0);
        }
        REAP0(c);
        FAILS(read(p[0], &x, 1), EAGAIN);
        FAILS(read(d, &x, 1), EAGAIN);
        c = child();
        if (!c) {
            int on = 0;
            ioctl(d, FIONBIO, &on);
            put(p[1], 1, 0);
            _exit(0);
        }
        while (fcntl(p[0], F_GETFL) & O_NONBLOCK) usleep(100);
        IS(read(p[0], &x, 1), 1);
        REAP0(c);
        heat(p[0], p[1]);
    }
    size_t n = fill_up(p[1], 0);
    int v = OPEN(f, O_WRONLY), dv = dup(v);
    pid_t c = child();
    if (!c) {
        setfl(v, O_NONBLOCK, 0);
        _exit(0);
    }
    REAP0(c);
    /* One that is to hold less than the kernel's holds at least that, and more once it is handed back, at whatever moment. */
    char one;
    ssize_t k;
    do {
        if (holds() < 65536) n += fill_up(p[1], n);
        fill(&one, 1, n);
        k = write(dv, &one, 1);
        n += k == 1;
    } while (k == 1 && holds() < 65536);
    CHECK(k < 0 && errno == EAGAIN, "a full FIFO took %zd", k);
    IS(fcntl(p[1], F_GETFL) & O_NONBLOCK, 0);
    get(p[0], n, 0);
    IS(write(dv, "x", 1), 1);
}
/* LINUX: a read that is blocked already is not woken by O_NONBLOCK being set. */
static void nonblock_set_while_blocked(void) {
    int p[2];
    const char *f = mkff(p);
    int *there = shared(sizeof *there); /* before that a child of a busy machine may sleep elsewhere */
    pid_t c = child();
    if (!c) {
        char x;
        __atomic_store_n(there, 1, __ATOMIC_RELEASE);
        get(p[0], 5, 0);
        FAILS(read(p[0], &x, 1), EAGAIN);
        _exit(0);
    }
    while (!__atomic_load_n(there, __ATOMIC_ACQUIRE)) usleep(100);
    wait_asleep(c);
    setfl(p[0], O_NONBLOCK, 0);
    put(p[1], 5, 0);
    REAP0(c);
}
static void pipe_size(void) {
    int p[2];
    const char *f = mkff(p);
    int z = fcntl(p[0], F_GETPIPE_SZ);
    CHECK(z >= 65536 && (warm_mode || z == 65536), "the size must be 65536 and was %d", z);
    IS(fcntl(p[1], F_GETPIPE_SZ), z);
    IS(fcntl(p[0], F_SETPIPE_SZ, 1 << 20), 1 << 20);
    IS(fcntl(p[1], F_GETPIPE_SZ), 1 << 20);
    int w = OPEN(f, O_WRONLY);
    IS(fcntl(w, F_GETPIPE_SZ), 1 << 20);
    IS(fill_up(w, 0), 1 << 20);
    FAILS(fcntl(p[1], F_SETPIPE_SZ, 4096), EBUSY);
    get(p[0], 1 << 20, 0);
    IS(fcntl(p[1], F_SETPIPE_SZ, 5000), 8192);
    IS(fill_up(w, 0), 8192);
    get(p[0], 8192, 0);
    IS(fcntl(w, F_SETPIPE_SZ, 1), 4096);
    heat(p[0], w);
    IS(fcntl(p[0], F_GETPIPE_SZ), 4096);
    FAILS(fcntl(w, F_SETPIPE_SZ, 0x80000001), EINVAL);
    close(w);
    close(p[0]);
    close(p[1]);
    open_both(f, p); /* the next generation has a new pipe */
    IS(fcntl(p[0], F_GETPIPE_SZ), 65536);
}
/* The size that the old pipe had, and the bytes that a shrink of it met, are not the next one's: a writer that trusts in its
 * room would wait for good. */
static void size_of_the_next_pipe(void) {
    static const int size[] = {0, 1 << 20, 4096, 8192, 16384, 32768, 262144};
    const char *f = newfifo();
    for (int i = 0; i < 14; i++) {
        int p[2], last = i < 7 ? 4096 : size[i - 7];
        open_both(f, p);
        IS(fcntl(p[0], F_GETPIPE_SZ), 65536);
        qput(p[1], 50000, i, 5000);
        qget(p[0], 50000, i, 5000);
        heat(p[0], p[1]);
        if (size[i % 7]) IS(fcntl(p[1], F_SETPIPE_SZ, size[i % 7]), size[i % 7]);
        flood(p[0], p[1], 1 << 20, i);
        size_t n = fill_up(p[1], 7);
        if (n > 4096) FAILS(fcntl(p[1], F_SETPIPE_SZ, 4096), EBUSY);
        get(p[0], n, 7);
        if (last) IS(fcntl(p[1], F_SETPIPE_SZ, last), last);
        close(p[0]);
        close(p[1]);
    }
}
static void bytes_there(void) {
    int p[2], n = -1;
    const char *f = mkff(p);
    IS(ioctl(p[0], FIONREAD, &n), 0);
    IS(n, 0);
    put(p[1], 12345, 0);
    IS(ioctl(p[0], FIONREAD, &n), 0);
    IS(n, 12345);
    IS(ioctl(p[1], FIONREAD, &n), 0);
    IS(n, 12345);
    get(p[0], 345, 0);
    int r = OPEN(f, O_RDONLY);
    IS(ioctl(r, FIONREAD, &n), 0);
    IS(n, 12000);
    get(r, 12000, 345);
    IS(ioctl(p[0], FIONREAD, &n), 0);
    IS(n, 0);
}
static void wrong_end_and_bad_buffer(void) {
    int p[2];
    char b[100], *nul = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mkff(p);
    mprotect(nul + 4096, 4096, PROT_NONE);
    FAILS(read(p[1], b, 1), EBADF);
    FAILS(write(p[0], b, 1), EBADF);
    FAILS(write(p[1], nul + 4096, 10), EFAULT);
    put(p[1], 10, 0);
    FAILS(read(p[0], nul + 4096, 10), EFAULT);
    get(p[0], 10, 0);
    IS(fcntl(p[0], F_GETFL) & O_ACCMODE, O_RDONLY);
    flood(p[0], p[1], 200000, 0);
    close(p[0]);
    FAILS(read(p[0], b, 1), EBADF);
}
static void
stream_both_nonblocking(void) { /* each opened by its own process, never blocking, poll in between */
    enum { TOTAL = 3 << 20 };
    const char *f = newfifo();
    int r = OPEN(f, O_RDONLY | O_NONBLOCK);
    pid_t c = child();
    if (!c) {
        close(r);
        int w = OPEN(f, O_WRONLY | O_NONBLOCK);
        for (size_t n = 0; n < TOTAL;) {
            ssize_t g = write(w, at(n), TOTAL - n < 9000 ? TOTAL - n : 9000);
            CHECK(g > 0 || errno == EAGAIN, "write gave %zd", g);
            if (g > 0)
                n += g;
            else
                sched_yield();
        }
        _exit(0);
    }
    static char b[SEA];
    size_t n = 0;
    double t = now();
    while (n < TOTAL) { /* 0 before the writer has come, EAGAIN after */
        ssize_t g = read(r, b, 7000);
        CHECK(g >= 0 || errno == EAGAIN, "read gave %zd", g);
        CHECK(now() - t < 15, "stuck at %zu", n);
        if (g <= 0) sched_yield();
        if (g > 0) {
            same(b, g, n);
            n += g;
        }
    }
    REAP0(c);
    AT_EOF(r);
}
FIFO_MAIN(ONCE(every_size), T(sizes_there_and_back), T(sizes_in_step), T(vectors), T(atomic_write),
          T(atomic_writev), T(each_byte_to_one_reader), T(short_reads), T(nonblocking_reader),
          T(nonblocking_writer), T(nonblock_by_dup_and_fork), T(nonblock_set_while_blocked), T(pipe_size),
          T(size_of_the_next_pipe), T(bytes_there), T(wrong_end_and_bad_buffer), ONCE(stream_both_nonblocking))
