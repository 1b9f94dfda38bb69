/* Shared by every conformance program: cases, CHECK, watchdog, warmed pipes, pattern.
 * Every case runs in a process (and process group) of its own under alarm(20), once in each mode. Those of pipes:
 *   NAME/cold    the pipe as pipe(2) made it
 *   NAME/fork    after 256 KiB in 4 KiB writes from a forked writer
 *   NAME/thread  after the same from a writer thread
 * A program with other modes names them in MODES before it includes this (unix_calls.h).
 * `PROGRAM` runs all, `PROGRAM NAME` one case, `PROGRAM NAME/MODE` just that one.
 * CHECK may be used in any process or thread of a case. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wmisleading-indentation"
#pragma GCC diagnostic ignored "-Wformat-truncation"
#pragma GCC diagnostic ignored "-Wnonnull"
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Wstringop-overread"
enum { COLD, FORK, THREAD };
struct test {
    const char *name;
    void (*run)(void);
    int once;
};
#ifndef MODES
#define MODES "cold", "fork", "thread"
#endif
static const char *const mode_name[] = {MODES};
enum { MODE_COUNT = sizeof mode_name / sizeof *mode_name };
static char case_name[128];
static int warm_mode;
static void __attribute__((noreturn, format(printf, 2, 3))) failed(int line, const char *f, ...) {
    int e = errno, n;
    char b[600];
    va_list a;
    n = snprintf(b, 150, "not ok %s: ", case_name);
    va_start(a, f);
    vsnprintf(b + n, 300, f, a);
    va_end(a);
    n = strlen(b);
    n += snprintf(b + n, 60, " (line %d, errno %d)\n", line, e);
    syscall(SYS_write, 1, b, n);
    _exit(1);
}
#define CHECK(c, ...)                                                                                        \
    do {                                                                                                     \
        if (!(c)) failed(__LINE__, __VA_ARGS__);                                                             \
    } while (0)
/* the call returned exactly want */
#define IS(call, want)                                                                                       \
    do {                                                                                                     \
        long g_ = (long)(call), w_ = (long)(want);                                                           \
        if (g_ != w_) failed(__LINE__, "%s must be %ld and was %ld", #call, w_, g_);                         \
    } while (0)
/* the call failed with this errno */
#define FAILS(call, err)                                                                                     \
    do {                                                                                                     \
        errno = 0;                                                                                           \
        long g_ = (long)(call);                                                                              \
        if (g_ != -1 || errno != (err))                                                                      \
            failed(__LINE__, "%s must fail with %s and gave %ld", #call, #err, g_);                          \
    } while (0)
static void sleep_ms(int ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&t, &t) && errno == EINTR);
}
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}
#define UNTIL(c)                                                                                             \
    do {                                                                                                     \
        double t_ = now();                                                                                   \
        while (!(c)) {                                                                                       \
            if (now() - t_ > 15) failed(__LINE__, "%s did not come true in 15 s", #c);                       \
            usleep(300);                                                                                     \
        }                                                                                                    \
    } while (0)
static int tid(void) { return (int)syscall(SYS_gettid); }
/* waits (at most 2 s) until task id sleeps in the kernel: it blocked, most likely */
static void wait_asleep(int id) {
    char p[64], b[512];
    int seen = 0;
    snprintf(p, sizeof p, "/proc/%d/stat", id);
    for (int i = 0; i < 1000 && seen < 4; i++) {
        int f = open(p, O_RDONLY | O_CLOEXEC);
        if (f < 0) return;
        int n = (int)read(f, b, sizeof b - 1);
        close(f);
        if (n <= 0) return;
        b[n] = 0;
        char *q = strrchr(b, ')');
        if (!q || q[2] == 'Z') return;
        seen = q[2] == 'S' ? seen + 1 : 0;
        sleep_ms(2);
    }
}
static void *shared(size_t n) {
    void *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED, "mmap failed");
    return p;
}
static pid_t child(void) {
    pid_t p = fork();
    CHECK(p >= 0, "fork failed");
    return p;
}
static int reap(pid_t p) {
    int s = 0;
    pid_t r;
    while ((r = waitpid(p, &s, 0)) < 0 && errno == EINTR);
    CHECK(r == p, "waitpid lost a child");
    return s;
}
#define REAP0(p)                                                                                             \
    do {                                                                                                     \
        int s_ = reap(p);                                                                                    \
        if (s_) failed(__LINE__, "a child must exit 0, its wait status was 0x%x", s_);                       \
    } while (0)
static inline unsigned char pat(uint64_t i) {
    return (unsigned char)((i * 2654435761u >> 13) ^ (i >> 9) ^ i);
}
static void fill(void *b, size_t n, uint64_t pos) {
    for (size_t i = 0; i < n; i++) ((unsigned char *)b)[i] = pat(pos + i);
}
static void verify_(int line, const void *b, size_t n, uint64_t pos) {
    for (size_t i = 0; i < n; i++)
        if (((const unsigned char *)b)[i] != pat(pos + i))
            failed(line, "the byte at position %llu of the stream is not the one written there",
                   (unsigned long long)(pos + i));
}
#define verify(b, n, pos) verify_(__LINE__, b, n, pos)
static void write_all(int fd, const void *b, size_t n) {
    const char *c = b;
    while (n) {
        ssize_t k = write(fd, c, n);
        if (k < 0 && errno == EINTR) continue;
        CHECK(k > 0, "write to the pipe failed (%zd)", k);
        c += k;
        n -= k;
    }
}
static size_t read_n(int fd, void *b, size_t n) { /* less than n only at EOF */
    size_t g = 0;
    while (g < n) {
        ssize_t k = read(fd, (char *)b + g, n - g);
        if (k < 0 && errno == EINTR) continue;
        CHECK(k >= 0, "read from the pipe failed");
        if (!k) break;
        g += k;
    }
    return g;
}
static void put(int fd, size_t n, uint64_t pos) { /* n pattern bytes from stream position pos, 4 KiB writes */
    char b[4096];
    while (n) {
        size_t k = n < sizeof b ? n : sizeof b;
        fill(b, k, pos);
        write_all(fd, b, k);
        pos += k;
        n -= k;
    }
}
static void get_(int line, int fd, size_t n, uint64_t pos) {
    char b[8192];
    while (n) {
        size_t k = n < sizeof b ? n : sizeof b, g = read_n(fd, b, k);
        if (g != k)
            failed(line, "EOF came at position %llu, before the last byte", (unsigned long long)(pos + g));
        verify_(line, b, k, pos);
        pos += k;
        n -= k;
    }
}
#define get(fd, n, pos) get_(__LINE__, fd, n, pos)
#define AT_EOF(fd)                                                                                           \
    do {                                                                                                     \
        char c_;                                                                                             \
        IS(read(fd, &c_, 1), 0);                                                                             \
        IS(read(fd, &c_, 1), 0);                                                                             \
    } while (0)
/* How many bytes a pipe takes at least before a write blocks: as many as the kernel's, or HOLDS, where the run that we are in was
 * told to have smaller ones. */
static size_t holds(void) {
    const char *s = getenv("HOLDS");
    return s ? strtoul(s, 0, 0) : 65536;
}
static void setfl(int fd, int set, int clr) {
    int f = fcntl(fd, F_GETFL);
    CHECK(f >= 0 && !fcntl(fd, F_SETFL, (f | set) & ~clr), "F_SETFL failed");
}
/* fills to EAGAIN with 4096-byte writes of the pattern; restores blocking; returns bytes */
static size_t fill_up(int w, uint64_t pos) {
    char b[4096];
    size_t n = 0;
    ssize_t k;
    setfl(w, O_NONBLOCK, 0);
    for (;;) {
        fill(b, sizeof b, pos + n);
        k = write(w, b, sizeof b);
        if (k < 0) break;
        n += k;
        CHECK(n < 64u << 20, "the pipe never fills");
    }
    CHECK(errno == EAGAIN, "a full pipe must say EAGAIN");
    setfl(w, 0, O_NONBLOCK);
    return n;
}
#define WARM_BYTES (256 * 1024)
static void *warm_writer(void *w) {
    put((int)(intptr_t)w, WARM_BYTES, 0);
    return 0;
}
static void warm(int r, int w) {
    if (warm_mode == FORK) {
        pid_t p = child();
        if (!p) {
            put(w, WARM_BYTES, 0);
            _exit(0);
        }
        get(r, WARM_BYTES, 0);
        REAP0(p);
    }
    if (warm_mode == THREAD) {
        pthread_t t;
        pthread_create(&t, 0, warm_writer, (void *)(intptr_t)w);
        get(r, WARM_BYTES, 0);
        pthread_join(t, 0);
    }
}
/* Whether the pipes are FIFOs, so that what holds of pipes is shown of them too. */
static int fifos(void) {
    const char *s = getenv("FIFOS");
    return s && *s;
}
/* A pipe, or a FIFO that has no name any more. */
static void new_pipe(int p[2]) {
    if (!fifos()) {
        CHECK(!pipe(p), "pipe failed");
        return;
    }
    char name[48];
    static int n;
    snprintf(name, sizeof name, "p%d.%d", tid(), n++);
    CHECK(!mkfifo(name, 0600), "mkfifo failed");
    p[0] = open(name, O_RDONLY | O_NONBLOCK);
    p[1] = open(name, O_WRONLY);
    CHECK(p[0] >= 0 && p[1] >= 0 && !unlink(name), "the FIFO cannot be opened");
    setfl(p[0], 0, O_NONBLOCK);
}
static void mkpipe(int p[2]) {
    new_pipe(p);
    warm(p[0], p[1]);
}
static void handle(int sig, void (*h)(int), int flags) {
    struct sigaction a = {.sa_handler = h, .sa_flags = flags};
    sigaction(sig, &a, 0);
}
static short events(int fd, short want, int ms) {
    struct pollfd p = {fd, want, 0};
    int n = poll(&p, 1, ms);
    CHECK(n >= 0, "poll failed");
    return p.revents;
}
static int run_case(const struct test *t, int mode) {
    snprintf(case_name, sizeof case_name, t->once ? "%s" : "%s/%s", t->name, mode_name[mode]);
    warm_mode = mode;
    pid_t p = fork();
    if (!p) {
        setpgid(0, 0);
        alarm(20);
        t->run();
        _exit(0);
    }
    setpgid(p, p);
    siginfo_t si;
    while (waitid(P_PID, p, &si, WEXITED | WNOWAIT) && errno == EINTR);
    kill(-p, SIGKILL);
    int s;
    while (waitpid(p, &s, 0) < 0 && errno == EINTR);
    if (!s) {
        dprintf(1, "ok %s\n", case_name);
        return 0;
    }
    if (WIFSIGNALED(s))
        dprintf(1, "not ok %s: %s (signal %d)\n", case_name,
                WTERMSIG(s) == SIGALRM ? "it hung for 20 s and the watchdog ended it" : "a signal killed it",
                WTERMSIG(s));
    else if (WEXITSTATUS(s) != 1)
        dprintf(1, "not ok %s: it exited with %d\n", case_name, WEXITSTATUS(s));
    return 1;
}
static int run_all(const struct test *t, const char *only) {
    int bad = 0, ran = 0;
    for (; t->name; t++)
        for (int m = 0; m < (t->once ? 1 : MODE_COUNT); m++) {
            if (only) {
                size_t n = strlen(t->name);
                if (strncmp(only, t->name, n)) continue;
                if (only[n] && (only[n] != '/' || strcmp(only + n + 1, mode_name[m]))) continue;
            }
            ran++;
            bad |= run_case(t, m);
        }
    if (!ran) {
        dprintf(1, "not ok %s: no such case\n", only ? only : "?");
        return 1;
    }
    return bad;
}
/* A program in this one's folder, or 0. */
static inline const char *neighbour(const char *name) {
    static char e[512];
    memset(e, 0, sizeof e);
    readlink("/proc/self/exe", e, 400);
    char *s = strrchr(e, '/');
    strcpy(s ? s + 1 : e, name);
    if (!access(e, X_OK)) return e;
    dprintf(1, "skip: no %s in this program's folder\n", name);
    return 0;
}
#define MAIN(...)                                                                                            \
    int main(int c, char **v) {                                                                              \
        static const struct test t_[] = {__VA_ARGS__, {0}};                                                  \
        return run_all(t_, c > 1 ? v[1] : 0);                                                                \
    }
#define T(f) {#f, f, 0}
#define ONCE(f) {#f, f, 1}
