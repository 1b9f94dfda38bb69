/* Checks: writes of at most PIPE_BUF bytes are never mixed with others nor split; O_NONBLOCK takes them whole
 * or not at all. Does not check: order between writers, atomicity of larger writes (none is promised). */
#include "check.h"
/* LINUX: pipe(7): "POSIX.1 says that writes of less than PIPE_BUF bytes must be atomic"; PIPE_BUF is 4096.
 * O_NONBLOCK, n <= PIPE_BUF: "If there is room to write n bytes to the pipe, then write(2) succeeds
 * immediately, writing all n bytes; otherwise write(2) fails, with errno set to EAGAIN." */
enum { W = 4, N = 2000 };
static int len_of(int w, int s) {
    unsigned x = (w * 7919u + s) * 2654435761u;
    x ^= x >> 15;
    return s % 5 == 0 ? 4096 : s % 5 == 1 ? 1 + (int)(x % 9) : 1 + (int)(x % 4096);
}
static int make(unsigned char *b, int w, int s) {
    int n = len_of(w, s);
    b[0] = w | (n == 1 ? 0x80 : n == 2 ? 0x40 : 0);
    if (n == 2) b[1] = s;
    if (n > 2) {
        b[1] = n & 255;
        b[2] = n >> 8;
        for (int i = 3; i < n; i++) b[i] = pat(w * 1000003u + s * 4099u + i);
    }
    return n;
}
static int fd_w, how; /* how: 0 write, 1 writev, 2 nonblocking */
static void *writer(void *id) {
    int w = (int)(intptr_t)id;
    unsigned char b[4096];
    for (int s = 0; s < N; s++) {
        int n = make(b, w, s), k = n / 3;
        ssize_t g;
        struct iovec v[4] = {{b, k}, {b + k, 0}, {b + k, k}, {b + 2 * k, n - 2 * k}};
        do {
            g = how == 1 ? writev(fd_w, v, 4) : write(fd_w, b, n);
            if (g < 0 && errno == EAGAIN && how == 2)
                events(fd_w, POLLOUT, 20);
            else
                break;
        } while (1);
        CHECK(g == n, "an atomic write of %d bytes gave %zd", n, g);
    }
    return 0;
}
static void run(int threads, int h) {
    int p[2];
    mkpipe(p);
    fd_w = p[1];
    how = h;
    if (h == 2) setfl(p[1], O_NONBLOCK, 0);
    pid_t c[W];
    pthread_t t[W];
    int seq[W] = {0};
    unsigned char m[4096], b[4096];
    for (int i = 0; i < W; i++) {
        if (threads)
            pthread_create(t + i, 0, writer, (void *)(intptr_t)i);
        else if (!(c[i] = child())) {
            close(p[0]);
            writer((void *)(intptr_t)i);
            _exit(0);
        }
    }
    for (int k = 0; k < W * N; k++) {
        IS(read_n(p[0], b, 1), 1);
        int w = b[0] & 3;
        CHECK(!(b[0] & 0x3c), "a message began inside another one");
        CHECK(seq[w] < N, "a message too many");
        int n = make(m, w, seq[w]++);
        IS(read_n(p[0], b + 1, n - 1), n - 1);
        CHECK(!memcmp(b, m, n), "message %d of writer %d was mixed with others", seq[w] - 1, w);
    }
    for (int i = 0; i < W; i++) {
        if (threads)
            pthread_join(t[i], 0);
        else
            REAP0(c[i]);
    }
    close(p[1]);
    AT_EOF(p[0]);
}
static void four_processes(void) { run(0, 0); }
static void four_threads(void) { run(1, 0); }
static void four_processes_writev(void) { run(0, 1); }
static void four_processes_nonblock(void) { run(0, 2); }
static void nonblock_whole_or_eagain(void) {
    int p[2];
    mkpipe(p);
    setfl(p[1], O_NONBLOCK, 0);
    setfl(p[0], O_NONBLOCK, 0);
    char b[4096];
    uint64_t in = 0, out = 0;
    unsigned x = 1;
    int full = 0;
    for (int i = 0; i < 20000; i++) {
        x = x * 1103515245 + 12345;
        int n = 1 + (x >> 12) % 4096;
        fill(b, n, in);
        ssize_t g = write(p[1], b, n);
        CHECK(g == n || (g < 0 && errno == EAGAIN), "%d bytes nonblocking must go whole or EAGAIN, got %zd",
              n, g);
        if (g > 0)
            in += g;
        else {
            full++;
            x = x * 1103515245 + 12345;
            n = 1 + (x >> 12) % 4096;
            g = read(p[0], b, n);
            CHECK(g > 0, "a full pipe must be readable");
            verify(b, g, out);
            out += g;
        }
    }
    CHECK(full > 10, "the pipe must have filled");
    setfl(p[0], 0, O_NONBLOCK);
    close(p[1]);
    get(p[0], in - out, out);
    AT_EOF(p[0]);
}
/* LINUX: POLLOUT promises room for PIPE_BUF bytes. */
static void pollout_means_pipe_buf(void) {
    int p[2];
    mkpipe(p);
    uint64_t in = fill_up(p[1], 0), out = 0;
    setfl(p[1], O_NONBLOCK, 0);
    char b[4096];
    int waited = 0;
    for (int i = 0; i < 3000; i++) {
        if (events(p[1], POLLOUT, 0) & POLLOUT) {
            fill(b, 4096, in);
            IS(write(p[1], b, 4096), 4096);
            in += 4096;
        } else {
            waited++;
            IS(read(p[0], b, 700), 700);
            verify(b, 700, out);
            out += 700;
        }
    }
    CHECK(waited > 100, "the pipe must have been full at times");
    close(p[1]);
    get(p[0], in - out, out);
    AT_EOF(p[0]);
}
MAIN(T(four_processes), T(four_threads), T(four_processes_writev), T(four_processes_nonblock),
     T(nonblock_whole_or_eagain), T(pollout_means_pipe_buf))
