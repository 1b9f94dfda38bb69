/* Checks: SIGPIPE and EPIPE as soon as no read end is open, and the wake-up of blocked writers.
 * Does not check: EPIPE from splice and vmsplice; POLLERR (readiness.c). */
#include "check.h"
/* LINUX: pipe(7): "If all file descriptors referring to the read end of a pipe have been closed, then a
 * write(2) will cause a SIGPIPE signal to be generated for the calling process. If the calling process
 * is ignoring this signal, then write(2) fails with the error EPIPE." */
static volatile int hits;
static volatile int hit_tid;
static void on(int s) {
    hits++;
    hit_tid = tid();
}
static void default_kills(void) {
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        signal(SIGPIPE, SIG_DFL);
        close(p[0]);
        while (write(p[1], "x", 1) == 1) sleep_ms(1);
        _exit(9);
    }
    close(p[0]);
    int s = reap(c);
    CHECK(WIFSIGNALED(s) && WTERMSIG(s) == SIGPIPE, "SIGPIPE must kill the writer, its status was 0x%x", s);
}
static void ignored(void) {
    int p[2];
    mkpipe(p);
    signal(SIGPIPE, SIG_IGN);
    close(p[0]);
    FAILS(write(p[1], "x", 1), EPIPE);
    FAILS(write(p[1], "x", 1), EPIPE);
}
static void *writes(void *w) {
    FAILS(write((int)(intptr_t)w, "x", 1), EPIPE);
    return (void *)(intptr_t)tid();
}
/* LINUX: SIGPIPE goes to the thread that wrote. */
static void handled_in_the_writing_thread(void) {
    int p[2];
    mkpipe(p);
    handle(SIGPIPE, on, 0);
    close(p[0]);
    pthread_t t;
    void *id;
    pthread_create(&t, 0, writes, (void *)(intptr_t)p[1]);
    pthread_join(t, &id);
    IS(hits, 1);
    IS(hit_tid, (int)(intptr_t)id);
}
static void at_once_reader_closed(void) {
    int p[2], go[2];
    char x;
    mkpipe(p);
    signal(SIGPIPE, SIG_IGN);
    socketpair(AF_UNIX, SOCK_STREAM, 0, go);
    pid_t c = child();
    if (!c) {
        close(p[1]);
        get(p[0], 2000, 0);
        read(go[1], &x, 1);
        close(p[0]);
        write(go[1], "x", 1);
        for (;;) pause();
    }
    close(p[0]);
    put(p[1], 2003, 0);
    write(go[0], "x", 1);
    read(go[0], &x, 1);
    FAILS(write(p[1], "x", 1), EPIPE);
    kill(c, SIGKILL);
    reap(c);
}
/* A process that has read 2000 bytes of a new pipe and sleeps, with the only read end; `more` lie unread. */
static pid_t idle_reader(int p[2], size_t more) {
    mkpipe(p);
    signal(SIGPIPE, SIG_IGN);
    pid_t c = child();
    if (!c) {
        close(p[1]);
        get(p[0], 2000, 0);
        for (;;) pause();
    }
    close(p[0]);
    put(p[1], 2000 + more, 0);
    wait_asleep(c);
    return c;
}
static void at_once_reader_killed(void) {
    int p[2];
    pid_t c = idle_reader(p, 3);
    kill(c, SIGKILL);
    reap(c);
    FAILS(write(p[1], "x", 1), EPIPE);
    char b[4096] = {0};
    FAILS(write(p[1], b, sizeof b), EPIPE);
    setfl(p[1], O_NONBLOCK, 0);
    FAILS(write(p[1], "x", 1), EPIPE);
}
/* LINUX: do_exit closes the descriptors of a process before a pidfd of it can be read. The writer has asked a moment
 * before, and nothing else tells it: it neither reaps the reader nor sleeps. */
static void full_reader_killed_unseen(void) {
    static char b[4096];
    for (int i = 0; i < 50; i++) {
        int p[2];
        pid_t c = idle_reader(p, 0);
        setfl(p[1], O_NONBLOCK, 0);
        while (write(p[1], b, sizeof b) > 0);
        IS(errno, EAGAIN);
        int dead = syscall(SYS_pidfd_open, c, 0);
        CHECK(dead >= 0, "pidfd_open: errno %d", errno);
        kill(c, SIGKILL);
        struct pollfd f = {.fd = dead, .events = POLLIN};
        while (poll(&f, 1, 0) == 0) {
            IS(write(p[1], b, sizeof b), -1);
            CHECK(errno == EAGAIN || errno == EPIPE, "errno %d", errno);
        }
        FAILS(write(p[1], b, sizeof b), EPIPE);
        close(dead);
        close(p[1]);
        reap(c);
    }
}
static void at_once_reader_exited(void) {
    int p[2];
    mkpipe(p);
    signal(SIGPIPE, SIG_IGN);
    put(p[1], 2003, 0);
    pid_t c = child();
    if (!c) {
        close(p[1]);
        get(p[0], 2000, 0);
        _exit(0);
    }
    close(p[0]);
    REAP0(c);
    FAILS(write(p[1], "x", 1), EPIPE);
}
static void reader_killed_while_blocked_in_read(void) {
    int p[2];
    mkpipe(p);
    signal(SIGPIPE, SIG_IGN);
    pid_t c = child();
    if (!c) {
        char x;
        close(p[1]);
        read(p[0], &x, 1);
        _exit(9);
    }
    close(p[0]);
    wait_asleep(c);
    kill(c, SIGKILL);
    reap(c);
    FAILS(write(p[1], "x", 1), EPIPE);
}
static void cloexec_reader_execs(void) {
    int p[2], go[2];
    mkpipe(p);
    signal(SIGPIPE, SIG_IGN);
    fcntl(p[0], F_SETFD, FD_CLOEXEC);
    socketpair(AF_UNIX, SOCK_STREAM, 0, go);
    pid_t c = child();
    if (!c) {
        get(p[0], 100, 0);
        close(p[1]);
        dup2(go[1], 1);
        execl("/bin/sh", "sh", "-c", "echo x; exec sleep 15", (char *)0);
        _exit(9);
    }
    put(p[1], 150, 0);
    close(p[0]);
    char x;
    read(go[0], &x, 1);
    FAILS(write(p[1], "x", 1), EPIPE);
    kill(c, SIGKILL);
    reap(c);
}
static char big[4 << 20];
/* LINUX: a write cut short by the readers' death returns what went in, and SIGPIPE is sent as well. */
static void blocked_writer(int killed) {
    int p[2];
    mkpipe(p);
    handle(SIGPIPE, on, SA_RESTART);
    pid_t r = child();
    if (!r) {
        close(p[1]);
        if (killed)
            for (;;) pause();
        char x;
        read(p[0], &x, 1);
        sleep_ms(50);
        close(p[0]);
        for (;;) pause();
    }
    close(p[0]);
    double t0 = now();
    pid_t k = child();
    if (!k) {
        int w = getppid();
        close(p[1]);
        sleep_ms(20);
        wait_asleep(w);
        if (killed) kill(r, SIGKILL);
        _exit(0);
    }
    ssize_t n = write(p[1], big, sizeof big);
    CHECK(n >= (ssize_t)holds() && n < (ssize_t)sizeof big,
          "a write blocked when the reader goes must return what fit, it gave %zd", n);
    IS(hits, 1);
    FAILS(write(p[1], "x", 1), EPIPE);
    IS(hits, 2);
    CHECK(now() - t0 < 5, "the blocked writer must be woken at once");
    kill(r, SIGKILL);
    reap(r);
    REAP0(k);
}
static void blocked_writer_reader_closes(void) { blocked_writer(0); }
static void blocked_writer_reader_killed(void) { blocked_writer(1); }
static void blocked_small_write(void) { /* nothing of it went in: -1 EPIPE */
    int p[2];
    mkpipe(p);
    fill_up(p[1], 0);
    signal(SIGPIPE, SIG_IGN);
    pid_t c = child();
    if (!c) {
        close(p[0]);
        FAILS(write(p[1], "x", 1), EPIPE);
        _exit(0);
    }
    wait_asleep(c);
    close(p[0]);
    REAP0(c);
}
static void blocked_writer_dies_of_sigpipe(void) {
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        signal(SIGPIPE, SIG_DFL);
        close(p[0]);
        write(p[1], big, sizeof big);
        _exit(0);
    }
    close(p[1]);
    wait_asleep(c);
    close(p[0]);
    int s = reap(c);
    CHECK(WIFSIGNALED(s) && WTERMSIG(s) == SIGPIPE, "SIGPIPE must kill the blocked writer, status 0x%x", s);
}
/* LINUX: a write of 0 bytes succeeds even with no reader. */
static void zero_bytes(void) {
    int p[2];
    mkpipe(p);
    close(p[0]);
    IS(write(p[1], "", 0), 0);
}
static void any_reader_will_do(void) {
    int p[2];
    mkpipe(p);
    int d = dup(p[0]);
    close(p[0]);
    IS(write(p[1], "x", 1), 1);
    signal(SIGPIPE, SIG_IGN);
    close(d);
    FAILS(write(p[1], "x", 1), EPIPE);
}
MAIN(T(default_kills), T(ignored), T(handled_in_the_writing_thread), T(at_once_reader_closed),
     T(at_once_reader_killed), T(full_reader_killed_unseen), T(at_once_reader_exited), T(reader_killed_while_blocked_in_read),
     T(cloexec_reader_execs), T(blocked_writer_reader_closes), T(blocked_writer_reader_killed),
     T(blocked_small_write), T(blocked_writer_dies_of_sigpipe), T(zero_bytes), T(any_reader_will_do))
