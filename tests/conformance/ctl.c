/* Checks: calls that ask about a pipe or must fail on it, bad buffers, empty and scattered transfers, sizes.
 * Does not check: the unprivileged limits of pipe-max-size and pipe-user-pages-soft. */
#include "check.h"
static char *edge(void) {
    char *m = mmap(0, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(m + 8192, 8192, PROT_NONE);
    return m + 8192;
}
static void fionread(void) {
    int p[2], n = -1;
    mkpipe(p);
    IS(ioctl(p[0], FIONREAD, &n), 0);
    IS(n, 0);
    put(p[1], 5000, 0);
    ioctl(p[0], FIONREAD, &n);
    IS(n, 5000);
    ioctl(p[1], FIONREAD, &n);
    IS(n, 5000);
    get(p[0], 1000, 0);
    pid_t c = child();
    if (!c) {
        int k;
        ioctl(p[0], FIONREAD, &k);
        IS(k, 4000);
        _exit(0);
    }
    REAP0(c);
    get(p[0], 4000, 1000);
    ioctl(p[0], FIONREAD, &n);
    IS(n, 0);
}
static void is_fifo(void) {
    int p[2];
    struct stat a, b;
    mkpipe(p);
    put(p[1], 10, 0);
    fstat(p[0], &a);
    fstat(p[1], &b);
    CHECK(S_ISFIFO(a.st_mode) && S_ISFIFO(b.st_mode), "both ends must be FIFOs");
    CHECK(a.st_ino == b.st_ino && a.st_dev == b.st_dev, "one inode");
    IS(a.st_size, 0);
    char n[64], l[64] = {0};
    snprintf(n, 64, "/proc/self/fd/%d", p[0]);
    CHECK(readlink(n, l, 63) > 0 && !strncmp(l, "pipe:[", 6), "the link must say pipe:");
}
static void refused(void) {
    int p[2];
    char b[4];
    mkpipe(p);
    FAILS(lseek(p[0], 0, SEEK_CUR), ESPIPE);
    FAILS(lseek(p[1], 0, SEEK_SET), ESPIPE);
    FAILS(pread(p[0], b, 1, 0), ESPIPE);
    FAILS(pwrite(p[1], b, 1, 0), ESPIPE);
    FAILS(read(p[1], b, 1), EBADF);
    FAILS(write(p[0], b, 1), EBADF);
    FAILS(fsync(p[1]), EINVAL);
    FAILS(ftruncate(p[1], 0), EINVAL);
    FAILS(send(p[1], b, 1, 0), ENOTSOCK);
    IS(isatty(p[0]), 0);
    IS(fcntl(p[0], F_GETFL) & O_ACCMODE, O_RDONLY);
    IS(fcntl(p[1], F_GETFL) & O_ACCMODE, O_WRONLY);
    close(p[0]);
    FAILS(read(p[0], b, 1), EBADF);
}
static void size_default(void) {
    int p[2];
    mkpipe(p);
    IS(fcntl(p[0], F_GETPIPE_SZ), 65536);
    IS(fcntl(p[1], F_GETPIPE_SZ), 65536);
}
/* LINUX: fcntl(2) F_SETPIPE_SZ rounds up to a page; EBUSY when the content would not fit. */
static void size_set(void) {
    int p[2];
    mkpipe(p);
    IS(fcntl(p[1], F_SETPIPE_SZ, 100), 4096);
    IS(fcntl(p[0], F_GETPIPE_SZ), 4096);
    IS(fill_up(p[1], 0), 4096);
    get(p[0], 4096, 0);
    IS(fcntl(p[0], F_SETPIPE_SZ, 131072), 131072);
    IS(fill_up(p[1], 0), 131072);
    FAILS(fcntl(p[1], F_SETPIPE_SZ, 4096), EBUSY);
    get(p[0], 131072, 0);
}
static void size_set_with_bytes_in_flight(void) {
    int p[2];
    mkpipe(p);
    put(p[1], 30000, 0);
    get(p[0], 100, 0);
    IS(fcntl(p[1], F_SETPIPE_SZ, 1 << 20), 1 << 20);
    put(p[1], 500000, 30000);
    get(p[0], 529900, 100);
    put(p[1], 100, 7);
    IS(fcntl(p[1], F_SETPIPE_SZ, 4096), 4096);
    get(p[0], 100, 7);
    pid_t c = child();
    if (!c) {
        put(p[1], 300000, 0);
        _exit(0);
    }
    get(p[0], 300000, 0);
    REAP0(c);
}
static void efault_at_start(void) {
    int p[2], n;
    char *e = edge();
    mkpipe(p);
    FAILS(write(p[1], e, 10), EFAULT);
    FAILS(write(p[1], (void *)8, 10), EFAULT);
    ioctl(p[0], FIONREAD, &n);
    IS(n, 0);
    put(p[1], 9, 0);
    FAILS(read(p[0], e, 9), EFAULT);
    FAILS(read(p[0], 0, 9), EFAULT);
    get(p[0], 9, 0);
}
/* LINUX: a fault after a full page returns the pages done; inside the first page, EFAULT and nothing moves.
 */
static void efault_midway(void) {
    int p[2], n;
    char *e = edge();
    mkpipe(p);
    fill(e - 6000, 6000, 0);
    IS(write(p[1], e - 6000, 8192), 4096);
    get(p[0], 4096, 0);
    FAILS(write(p[1], e - 100, 200), EFAULT);
    ioctl(p[0], FIONREAD, &n);
    IS(n, 0);
    close(dup(0));
    put(p[1], 8192, 0);
    IS(read(p[0], e - 6000, 8192), 4096);
    verify(e - 6000, 4096, 0);
    FAILS(read(p[0], e - 100, 200), EFAULT);
    get(p[0], 4096, 4096);
}
static void zero_bytes(void) {
    int p[2];
    mkpipe(p);
    IS(read(p[0], 0, 0), 0);
    IS(write(p[1], 0, 0), 0);
    IS(readv(p[0], 0, 0), 0);
    IS(writev(p[1], 0, 0), 0);
    struct iovec v[2] = {{0, 0}, {0, 0}};
    IS(readv(p[0], v, 2), 0);
    IS(writev(p[1], v, 2), 0);
    FAILS(readv(p[0], v, -1), EINVAL);
    FAILS(writev(p[1], v, 1025), EINVAL);
    FAILS(writev(p[1], (void *)8, 1), EFAULT);
    IS(events(p[0], POLLIN, 0), 0);
}
static void vectors(void) {
    int p[2];
    char a[3], b[5000], c[1], d[9000];
    mkpipe(p);
    for (int i = 0; i < 20; i++) {
        fill(a, 3, 0);
        fill(b, 5000, 3);
        fill(c, 1, 5003);
        struct iovec v[4] = {{a, 3}, {0, 0}, {b, 5000}, {c, 1}};
        IS(writev(p[1], v, 4), 5004);
        struct iovec r[3] = {{d, 1}, {d + 1, 6}, {d + 7, 8000}};
        ssize_t g = readv(p[0], r, 3);
        CHECK(g > 0 && g <= 5004, "readv");
        g += read_n(p[0], d + g, 5004 - g);
        verify(d, 5004, 0);
    }
}
MAIN(T(fionread), T(is_fifo), T(refused), T(size_default), T(size_set), T(size_set_with_bytes_in_flight),
     T(efault_at_start), T(efault_midway), T(zero_bytes), T(vectors))
