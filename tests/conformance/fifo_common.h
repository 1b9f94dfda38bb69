/* Shared by the fifo_*.c programs, which include it: FIFOs in a folder of their own, quick patterns, openers
 * in processes of their own, bounded waits. Not a test by itself. Heavy traffic: mkff() warms as mkpipe()
 * does (256 KiB in 64 writes; not in a cold case); heat() does the same to ends that were opened later;
 * flood() carries any number of bytes, in every case. */
#include "check.h"
#include "sea.h"
#include <ftw.h>
#include <grp.h>
#include <sys/sysmacros.h>
static const char *fresh(void) { /* a path where nothing is; the last 64 stay valid */
    static char name[64][40];
    static unsigned n;
    char *s = name[n % 64];
    snprintf(s, 40, "f%d.%u", getpid(), n++);
    unlink(s);
    return s;
}
static const char *newfifo(void) {
    const char *f = fresh();
    CHECK(!mkfifo(f, 0600), "mkfifo failed");
    return f;
}
static int op_(int line, const char *f, int flags) {
    int d = open(f, flags, 0600);
    if (d < 0) failed(line, "open of %s with flags 0%o failed", f, flags);
    return d;
}
#define OPEN(f, flags) op_(__LINE__, f, flags)
static void open_both(const char *f, int p[2]) {
    p[0] = OPEN(f, O_RDONLY | O_NONBLOCK);
    p[1] = OPEN(f, O_WRONLY);
    setfl(p[0], 0, O_NONBLOCK);
}
#define heat(r, w) warm(r, w)
static const char *mkff(int p[2]) {
    const char *f = newfifo();
    open_both(f, p);
    heat(p[0], p[1]);
    return f;
}
static void qput(int w, size_t n, uint64_t pos, size_t piece) {
    while (n) {
        size_t k = n < piece ? n : piece;
        write_all(w, at(pos), k);
        pos += k;
        n -= k;
    }
}
static void qget_(int line, int r, size_t n, uint64_t pos, size_t piece) { /* as the bytes come */
    static _Thread_local char b[SEA];
    while (n) {
        ssize_t k = read(r, b, n < piece ? n : piece);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) failed(line, "read gave %zd at position %llu", k, (unsigned long long)pos);
        same_(line, b, k, pos);
        pos += k;
        n -= k;
    }
}
#define qget(r, n, pos, piece) qget_(__LINE__, r, n, pos, piece)
struct flood {
    int w;
    size_t n;
    uint64_t pos;
};
static void *flooder(void *a) {
    struct flood *f = a;
    qput(f->w, f->n, f->pos, 4096);
    return 0;
}
/* n bytes of the sea through w and r, from a forked writer (in a thread case from a writer thread) */
static void flood_(int line, int r, int w, size_t n, uint64_t pos) {
    struct flood f = {w, n, pos};
    if (warm_mode == THREAD) {
        pthread_t t;
        pthread_create(&t, 0, flooder, &f);
        qget_(line, r, n, pos, 8192);
        pthread_join(t, 0);
        return;
    }
    pid_t c = child();
    if (!c) {
        flooder(&f);
        _exit(0);
    }
    qget_(line, r, n, pos, 8192);
    int s = reap(c);
    if (s) failed(line, "the writer ended with 0x%x", s);
}
#define flood(r, w, n, pos) flood_(__LINE__, r, w, n, pos)
/* a process that has nothing but its own opening of f */
static pid_t writer(const char *f, size_t n, uint64_t pos) {
    pid_t c = child();
    if (c) return c;
    close_range(3, ~0u, 0);
    qput(OPEN(f, O_WRONLY), n, pos, 4096);
    _exit(0);
}
static pid_t reader(const char *f, size_t n, uint64_t pos, int eof) {
    pid_t c = child();
    if (c) return c;
    close_range(3, ~0u, 0);
    int r = OPEN(f, O_RDONLY);
    qget(r, n, pos, 8192);
    if (eof) AT_EOF(r);
    _exit(0);
}
/* waits, at most 15 s */
static unsigned rnd(unsigned *x) { return (*x = *x * 1103515245 + 12345) >> 8; }
static int ep(int fd, uint32_t ev) {
    int e = epoll_create1(0);
    struct epoll_event v = {.events = ev};
    CHECK(e >= 0 && !epoll_ctl(e, EPOLL_CTL_ADD, fd, &v), "epoll_ctl");
    return e;
}
static int ew(int e, int ms) {
    struct epoll_event v = {0};
    int n = epoll_wait(e, &v, 1, ms);
    CHECK(n >= 0, "epoll_wait");
    return n ? (int)v.events : 0;
}
static void as_nobody(void) {
    if (getuid()) return;
    setgroups(0, 0);
    CHECK(!setresgid(65534, 65534, 65534) && !setresuid(65534, 65534, 65534), "cannot become nobody");
}
static int rm_(const char *p, const struct stat *s, int t, struct FTW *f) { return remove(p); }
static int fifo_main(const struct test *t, const char *only) {
    char d[300];
    const char *tmp = getenv("TMPDIR");
    snprintf(d, sizeof d, "%s/byway-fifo-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(d) || chmod(d, 0777) || chdir(d)) {
        dprintf(1, "not ok: no folder %s to work in\n", d);
        return 1;
    }
    sea_init();
    int bad = run_all(t, only);
    nftw(d, rm_, 16, FTW_DEPTH | FTW_PHYS);
    return bad;
}
#define FIFO_MAIN(...)                                                                                       \
    int main(int c, char **v) {                                                                              \
        static const struct test t_[] = {__VA_ARGS__, {0}};                                                  \
        return fifo_main(t_, c > 1 ? v[1] : 0);                                                              \
    }
