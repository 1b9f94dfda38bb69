/* Checks: every way of naming the same pipe again, and closing in other orders. Does not check: SCM_RIGHTS
 * (deopt.c), pidfd_getfd. */
#include "check.h"
/* LINUX: dup(2): the copies share one description; the end is open while any copy is. */
static void flow(int r, int w, uint64_t at) {
    pid_t c = child();
    if (!c) {
        put(w, 100000, at);
        _exit(0);
    }
    get(r, 100000, at);
    REAP0(c);
}
static void by_dup(void) {
    int p[2];
    mkpipe(p);
    put(p[1], 50, 0);
    int r = dup(p[0]), w = dup(p[1]);
    close(p[0]);
    close(p[1]);
    get(r, 50, 0);
    flow(r, w, 50);
    close(w);
    AT_EOF(r);
}
static void by_dup2(void) {
    int p[2], q[2];
    mkpipe(p);
    mkpipe(q);
    put(p[1], 50, 0);
    IS(dup2(p[0], q[0]), q[0]);
    IS(dup2(p[1], 77), 77);
    IS(dup2(77, 77), 77);
    signal(SIGPIPE, SIG_IGN);
    FAILS(write(q[1], "x", 1), EPIPE);
    get(q[0], 50, 0);
    flow(p[0], 77, 50);
    close(77);
    close(p[1]);
    AT_EOF(q[0]);
    FAILS(dup3(p[0], p[0], 0), EINVAL);
    IS(dup3(p[0], 78, O_CLOEXEC), 78);
    IS(fcntl(78, F_GETFD), FD_CLOEXEC);
}
static void by_fcntl(void) {
    int p[2];
    mkpipe(p);
    int r = fcntl(p[0], F_DUPFD_CLOEXEC, 100), w = fcntl(p[1], F_DUPFD, 100);
    CHECK(r >= 100 && w >= 100, "F_DUPFD");
    IS(fcntl(r, F_GETFD), FD_CLOEXEC);
    close(p[0]);
    close(p[1]);
    flow(r, w, 0);
    close(w);
    AT_EOF(r);
}
static void by_close_range(void) {
    int p[2];
    mkpipe(p);
    put(p[1], 9, 0);
    int a = dup2(p[1], 50);
    dup2(p[1], 51);
    dup2(p[1], 52);
    close(p[1]);
    IS(syscall(SYS_close_range, 50, 52, 0), 0);
    FAILS(fcntl(51, F_GETFD), EBADF);
    get(p[0], 9, 0);
    AT_EOF(p[0]);
}
static void number_reused(void) {
    int p[2], q[2];
    mkpipe(p);
    put(p[1], 3, 0);
    int r = dup(p[0]);
    close(p[0]);
    close(p[1]);
    mkpipe(q);
    put(q[1], 500, 9);
    get(q[0], 500, 9);
    get(r, 3, 0);
    AT_EOF(r);
    int f = open("/dev/null", O_RDWR);
    dup2(f, q[1]);
    AT_EOF(q[0]);
    IS(write(q[1], "x", 1), 1);
}
/* What the kernel says of a descriptor is true of that number until it is another file's, and by its own name alone. */
static void told_of(int fd) {
    struct stat st;
    IS(fstat(fd, &st), 0);
    CHECK(S_ISFIFO(st.st_mode), "a pipe");
    IS(fstatat(fd, "", &st, AT_EMPTY_PATH), 0);
    CHECK(S_ISFIFO(st.st_mode), "a pipe");
    IS(fstatat(fd, "/dev/null", &st, AT_EMPTY_PATH), 0);
    CHECK(S_ISCHR(st.st_mode), "another file, by its path");
    FAILS(fstatat(fd, "null", &st, AT_EMPTY_PATH), ENOTDIR);
    FAILS(fstatat(fd, "", &st, 0), ENOENT);
    FAILS(syscall(SYS_fstat, fd, (void *)8), EFAULT);
    IS(syscall(SYS_fstat, fd, &st), 0);
    CHECK(S_ISFIFO(st.st_mode), "a pipe");
}
static void told_first(void) {
    struct stat st;
    int p[2], n = open("/dev/null", O_RDONLY);
    mkpipe(p);
    for (uint64_t at = 0; at < 300000; at += 100000) {
        IS(fstat(n, &st), 0);
        CHECK(S_ISCHR(st.st_mode), "a file");
        if (at) close(n);
        IS(at ? dup(p[0]) : dup2(p[0], n), n);
        int w = dup(p[1]);
        told_of(n);
        told_of(w);
        flow(n, w, at);
        close(w);
        close(n);
        IS(open("/dev/null", O_RDONLY), n);
    }
}
enum { NUMBER = 77 };
static volatile int over;
static void *asks(void *x) {
    struct stat st;
    char b;
    while (!over) {
        fstat(NUMBER, &st);
        read(NUMBER, &b, 0);
    }
    return 0;
}
static void told_meanwhile(void) { /* another thread asks while the number becomes another file's */
    int p[2], n = open("/dev/null", O_RDONLY);
    pthread_t t;
    mkpipe(p);
    IS(dup2(n, NUMBER), NUMBER);
    IS(pthread_create(&t, 0, asks, 0), 0);
    for (int i = 0; i < 20000; i++) {
        if (i % 2) close(NUMBER);
        IS(i % 2 ? fcntl(p[0], F_DUPFD, NUMBER) : dup2(p[0], NUMBER), NUMBER);
        put(p[1], 100, i * 100);
        get(NUMBER, 100, i * 100);
        if (i % 3) close(NUMBER);
        IS(i % 3 ? fcntl(n, F_DUPFD, NUMBER) : dup2(n, NUMBER), NUMBER);
    }
    over = 1;
    pthread_join(t, 0);
}
static void by_proc(void) {
    int p[2];
    char n[64];
    mkpipe(p);
    put(p[1], 100, 0);
    snprintf(n, 64, "/proc/self/fd/%d", p[0]);
    int r = open(n, O_RDONLY);
    snprintf(n, 64, "/dev/fd/%d", p[1]);
    int w = open(n, O_WRONLY);
    CHECK(r >= 0 && w >= 0, "reopen");
    get(r, 40, 0);
    get(p[0], 60, 40);
    close(p[0]);
    close(p[1]);
    flow(r, w, 0);
    close(w);
    AT_EOF(r);
}
static void dev_stdin(void) {
    int p[2];
    mkpipe(p);
    put(p[1], 1000, 0);
    get(p[0], 10, 0);
    dup2(p[0], 0);
    close(p[0]);
    int r = open("/dev/stdin", O_RDONLY);
    CHECK(r >= 0, "open /dev/stdin");
    get(r, 500, 10);
    get(0, 490, 510);
    flow(r, p[1], 0);
}
static void cat_dev_stdin(void) {
    int p[2], o[2];
    mkpipe(p);
    mkpipe(o);
    put(p[1], 20000, 0);
    get(p[0], 10, 0);
    pid_t c = child();
    if (!c) {
        dup2(p[0], 0);
        dup2(o[1], 1);
        close(p[0]);
        close(p[1]);
        close(o[0]);
        close(o[1]);
        execl("/bin/cat", "cat", "/dev/stdin", (char *)0);
        _exit(9);
    }
    close(p[1]);
    close(o[1]);
    get(o[0], 19990, 10);
    AT_EOF(o[0]);
    REAP0(c);
}
static int P[2];
static void *closer(void *f) {
    sleep_ms(5);
    close((int)(intptr_t)f);
    return 0;
}
static void closed_by_another_thread(void) {
    mkpipe(P);
    put(P[1], 5, 0);
    pthread_t t;
    pthread_create(&t, 0, closer, (void *)(intptr_t)P[1]);
    get(P[0], 5, 0);
    AT_EOF(P[0]);
    pthread_join(t, 0);
}
/* LINUX: close of a read end another thread is blocked in does not end that read; it holds the description.
 */
static void *rd(void *i) {
    *(volatile int *)i = tid();
    char b[9];
    IS(read(P[0], b, 9), 4);
    verify(b, 4, 0);
    return 0;
}
static void closed_while_read_blocks(void) {
    mkpipe(P);
    volatile int id = 0;
    pthread_t t;
    pthread_create(&t, 0, rd, (void *)&id);
    while (!id) sched_yield();
    wait_asleep(id);
    close(P[0]);
    sleep_ms(5);
    put(P[1], 4, 0);
    pthread_join(t, 0);
    signal(SIGPIPE, SIG_IGN);
    FAILS(write(P[1], "x", 1), EPIPE);
}
MAIN(T(by_dup), T(by_dup2), T(by_fcntl), T(by_close_range), T(number_reused), T(told_first), T(told_meanwhile), T(by_proc),
     T(dev_stdin), T(cat_dev_stdin), T(closed_by_another_thread), T(closed_while_read_blocks))
