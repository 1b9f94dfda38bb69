/* What every conformance program shares: a watchdog, a sentence on failure, and a pipe that is warm.
 * Invariant: a case prints `ok NAME` or `not ok NAME: why`, and the program's status is 1 if any failed. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *case_name;
static int bad;
#define CHECK(c, ...)                                                                                        \
    do {                                                                                                     \
        if (!(c)) {                                                                                          \
            printf("not ok %s: line %d: ", case_name, __LINE__);                                             \
            printf(__VA_ARGS__);                                                                             \
            printf(" (errno %d)\n", errno);                                                                  \
            fflush(stdout);                                                                                  \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

/* Each case has a process of its own, so that a death or a hang is that case's alone. */
static void run_case(const char *name, void (*f)(void)) {
    fflush(stdout);
    case_name = name;
    pid_t p = fork();
    if (p == 0) {
        alarm(20);
        f();
        printf("ok %s\n", name);
        fflush(stdout);
        _exit(0);
    }
    int s;
    waitpid(p, &s, 0);
    if (WIFSIGNALED(s)) printf("not ok %s: killed by signal %d\n", name, WTERMSIG(s));
    bad |= s != 0;
}

__attribute__((unused)) static unsigned char pattern(unsigned long i) { return (i * 2654435761u) >> 24; }

/* Sends 256 KiB through the pipe from a child, so that a carried channel is really open. */
static void warm(int r, int w) {
    pid_t p = fork();
    if (p == 0) {
        char b[4096];
        memset(b, 'w', sizeof b);
        for (int i = 0; i < 64; i++)
            if (write(w, b, sizeof b) != sizeof b) _exit(1);
        _exit(0);
    }
    char b[8192];
    size_t n = 0;
    while (n < 64 * 4096) {
        ssize_t k = read(r, b, sizeof b);
        if (k <= 0) break;
        n += k;
    }
    CHECK(n == 64 * 4096, "warming brought %zu bytes", n);
    int s;
    waitpid(p, &s, 0);
    CHECK(s == 0, "the warming writer failed");
}

static void warm_pipe(int fd[2]) {
    CHECK(pipe(fd) == 0, "pipe");
    warm(fd[0], fd[1]);
}

__attribute__((unused)) static void msleep(int ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&t, &t) && errno == EINTR);
}
