/* Checks: read gives 0 exactly when no write end is open anywhere and the data is drained.
 * Does not check: readiness bits at EOF (readiness.c), EOF after SCM_RIGHTS (deopt.c). */
#include "check.h"
/* LINUX: pipe(7): "If all file descriptors referring to the write end of a pipe have been closed,
 * then an attempt to read(2) from the pipe will see end-of-file (read(2) will return 0)." */
static void empty(void) {
    int p[2];
    mkpipe(p);
    close(p[1]);
    AT_EOF(p[0]);
}
static void data_then_eof(void) {
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        put(p[1], 10000, 0);
        _exit(0);
    }
    close(p[1]);
    get(p[0], 10000, 0);
    AT_EOF(p[0]);
    REAP0(c);
}
static void data_kept_after_writer_gone(void) {
    const size_t n = holds() < 10000 ? holds() : 10000;
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        put(p[1], n, 0);
        _exit(0);
    }
    REAP0(c);
    close(p[1]);
    get(p[0], n, 0);
    AT_EOF(p[0]);
}
static void last_of_two_writers(void) {
    int p[2], go[2];
    mkpipe(p);
    socketpair(AF_UNIX, SOCK_STREAM, 0, go);
    char x;
    pid_t a = child();
    if (!a) {
        put(p[1], 100, 0);
        _exit(0);
    }
    pid_t b = child();
    if (!b) {
        close(go[0]);
        read(go[1], &x, 1);
        put(p[1], 50, 100);
        _exit(0);
    }
    close(p[1]);
    REAP0(a);
    get(p[0], 100, 0);
    setfl(p[0], O_NONBLOCK, 0);
    FAILS(read(p[0], &x, 1), EAGAIN);
    setfl(p[0], 0, O_NONBLOCK);
    write(go[0], "x", 1);
    get(p[0], 50, 100);
    AT_EOF(p[0]);
    REAP0(b);
}
static void own_write_end_counts(void) {
    int p[2];
    char x;
    mkpipe(p);
    int d = dup(p[1]);
    close(p[1]);
    setfl(p[0], O_NONBLOCK, 0);
    FAILS(read(p[0], &x, 1), EAGAIN);
    close(d);
    AT_EOF(p[0]);
}
static void blocked_reader_woken(void) {
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        close(p[1]);
        AT_EOF(p[0]);
        _exit(0);
    }
    wait_asleep(c);
    close(p[1]);
    REAP0(c);
}
static void writer_killed(void) {
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        put(p[1], 5000, 0);
        for (;;) pause();
    }
    close(p[1]);
    get(p[0], 5000, 0);
    kill(c, SIGKILL);
    AT_EOF(p[0]);
    IS(WTERMSIG(reap(c)), SIGKILL);
}
static void writer_killed_reader_blocked(void) {
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c)
        for (;;) pause();
    pid_t r = child();
    if (!r) {
        close(p[1]);
        AT_EOF(p[0]);
        _exit(0);
    }
    close(p[1]);
    wait_asleep(r);
    kill(c, SIGKILL);
    REAP0(r);
    reap(c);
}
static void writer_killed_blocked_in_write(void) {
    int p[2];
    mkpipe(p);
    char *b = malloc(4 << 20);
    fill(b, 4 << 20, 0);
    pid_t c = child();
    if (!c) {
        write(p[1], b, 4 << 20);
        _exit(9);
    }
    close(p[1]);
    get(p[0], 3000, 0);
    wait_asleep(c);
    kill(c, SIGKILL);
    IS(WTERMSIG(reap(c)), SIGKILL);
    size_t n = read_n(p[0], b, 4 << 20);
    CHECK(n >= holds() / 2 && n < (4 << 20) - 3000,
          "what the killed writer had put in must stay readable, %zu bytes were", n);
    verify(b, n, 3000);
    AT_EOF(p[0]);
}
static void *blocked_write(void *w) {
    char *b = malloc(4 << 20);
    fill(b, 4 << 20, 0);
    write((int)(intptr_t)w, b, 4 << 20);
    return 0;
}
static void exit_while_thread_writes(void) {
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        pthread_t t;
        pthread_create(&t, 0, blocked_write, (void *)(intptr_t)p[1]);
        sleep_ms(30);
        _exit(0);
    }
    close(p[1]);
    REAP0(c);
    char *b = malloc(4 << 20);
    size_t n = read_n(p[0], b, 4 << 20);
    verify(b, n, 0);
    AT_EOF(p[0]);
}
static void cloexec_writer_execs(void) {
    int p[2], go[2];
    mkpipe(p);
    fcntl(p[1], F_SETFD, FD_CLOEXEC);
    socketpair(AF_UNIX, SOCK_STREAM, 0, go);
    pid_t c = child();
    if (!c) {
        put(p[1], 777, 0);
        dup2(go[1], 0);
        close(go[0]);
        execl("/bin/cat", "cat", (char *)0);
        _exit(9);
    }
    close(p[1]);
    get(p[0], 777, 0);
    AT_EOF(p[0]);
    close(go[1]);
    close(go[0]);
    reap(c);
}
/* LINUX: a pipe at EOF can be written again when a new write end is opened through /proc. */
static void alive_again_after_eof(void) {
    int p[2];
    mkpipe(p);
    char n[64];
    put(p[1], 10, 0);
    close(p[1]);
    get(p[0], 10, 0);
    AT_EOF(p[0]);
    snprintf(n, sizeof n, "/proc/self/fd/%d", p[0]);
    int w = open(n, O_WRONLY);
    CHECK(w >= 0, "a read end must open for writing through /proc");
    pid_t c = child();
    if (!c) {
        put(w, 3000, 0);
        _exit(0);
    }
    get(p[0], 3000, 0);
    REAP0(c);
    close(w);
    AT_EOF(p[0]);
}
MAIN(T(empty), T(data_then_eof), T(data_kept_after_writer_gone), T(last_of_two_writers),
     T(own_write_end_counts), T(blocked_reader_woken), T(writer_killed), T(writer_killed_reader_blocked),
     T(writer_killed_blocked_in_write), T(exit_while_thread_writes), T(cloexec_writer_execs),
     T(alive_again_after_eof))
