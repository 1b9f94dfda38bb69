/* Checks: poll, ppoll, select and SIGIO tell the truth about both ends of a FIFO, before and after
 * heavy traffic, and wake who waits. The five FreeBSD problem reports on FIFOs are cases by their number
 * (74242 is in fifo_create.c). Does not check: epoll itself (fifo_epoll.c), io_uring, POLLRDHUP. */
#include "fifo_common.h"
#include "readiness.h"
static volatile int *S;
static void poll_bits(void) {
    int p[2], n;
    const char *f = mkff(p);
    IS(events(p[0], POLLIN, 0), 0);
    IS(events(p[1], POLLOUT, 0), POLLOUT);
    put(p[1], 3, 0);
    IS(events(p[0], POLLIN | POLLRDNORM, 0), POLLIN | POLLRDNORM);
    IS(ioctl(p[0], FIONREAD, &n), 0);
    IS(n, 3);
    put(p[1], 4000, 3);
    IS(ioctl(p[0], FIONREAD, &n), 0);
    IS(n, 4003);
    get(p[0], 4003, 0);
    IS(events(p[0], POLLIN, 0), 0);
    size_t m = fill_up(p[1], 0);
    IS(events(p[1], POLLOUT, 0), 0);
    IS(ioctl(p[0], FIONREAD, &n), 0);
    IS(n, m);
    get(p[0], m, 0);
    IS(events(p[1], POLLOUT | POLLWRNORM, 0), POLLOUT | POLLWRNORM);
    put(p[1], 5, 0);
    close(p[1]);
    IS(events(p[0], POLLIN, 0), POLLIN | POLLHUP);
    get(p[0], 5, 0);
    IS(events(p[0], POLLIN, 0), POLLHUP);
    IS(events(p[0], 0, -1), POLLHUP);
    AT_EOF(p[0]);
}
static void poll_of_a_writer_alone(void) {
    int p[2];
    const char *f = mkff(p);
    fill_up(p[1], 0);
    int o = OPEN(f, O_RDONLY);
    close(p[0]);
    IS(events(p[1], POLLOUT, 0), 0);
    close(o);
    IS(events(p[1], POLLOUT, -1), POLLERR);
    IS(events(p[1], 0, -1), POLLERR);
    close(p[1]);
    open_both(f, p);
    close(p[0]);
    IS(events(p[1], POLLOUT, -1), POLLOUT | POLLERR);
    o = OPEN(f, O_RDONLY); /* the error goes with the next reader */
    IS(events(p[1], POLLOUT, 0), POLLOUT);
    heat(o, p[1]);
    IS(events(p[1], POLLOUT, 0), POLLOUT);
}
static void poll_read_write(void) { /* an O_RDWR opening never sees HUP or ERR */
    int p[2];
    const char *f = mkff(p);
    int b = OPEN(f, O_RDWR);
    heat(b, b);
    close(p[0]);
    close(p[1]);
    IS(events(b, POLLIN | POLLOUT, 0), POLLOUT);
    put(b, 10, 0);
    IS(events(b, POLLIN | POLLOUT, 0), POLLIN | POLLOUT);
    get(b, 10, 0);
    size_t n = fill_up(b, 0);
    IS(events(b, POLLIN | POLLOUT, 0), POLLIN);
    get(b, n, 0);
}
static int wait_by(int how, int fd, int out) { /* blocks until ready */
    fd_set s;
    FD_ZERO(&s);
    FD_SET(fd, &s);
    struct pollfd q = {fd, out ? POLLOUT : POLLIN, 0};
    struct timeval tv = {15, 0};
    struct timespec ts = {15, 0};
    if (how == 0) return poll(&q, 1, 15000);
    if (how == 1) return select(fd + 1, out ? 0 : &s, out ? &s : 0, 0, &tv);
    if (how == 2) return ppoll(&q, 1, &ts, 0);
    if (how == 3) return pselect(fd + 1, out ? 0 : &s, out ? &s : 0, 0, &ts, 0);
    if (how == 4) return !!ew(ep(fd, out ? EPOLLOUT : EPOLLIN), 15000);
    if (how == 5) return !!ew(ep(fd, (out ? EPOLLOUT : EPOLLIN) | EPOLLET | EPOLLONESHOT), 15000);
    int e = ep(fd, out ? EPOLLOUT : EPOLLIN);
    return !!ew(ep(e, EPOLLIN), 15000); /* nested */
}
/* a waiter with its own opening is woken by (0) data, (1) room, (2) the last writer's close, (3) the last
 * reader's */
static void woken(int what) {
    for (int how = 0; how < 7; how++) {
        int p[2];
        const char *f = mkff(p);
        S = shared(4096);
        if (what == 1 || what == 3) fill_up(p[1], 0);
        pid_t c = child();
        if (!c) {
            close(p[!(what & 1)]);
            int d = how % 2 ? OPEN(f, what & 1 ? O_WRONLY : O_RDONLY) : p[what & 1];
            if (how % 2) close(p[what & 1]);
            S[0] = 1;
            IS(wait_by(how, d, what & 1), 1);
            if (what == 0) get(d, 3, 0);
            if (what == 2) {
                IS(events(d, POLLIN, 0), POLLHUP);
                AT_EOF(d);
            }
            if (what == 3) {
                IS(events(d, POLLOUT, 0), POLLERR);
                signal(SIGPIPE, SIG_IGN);
                FAILS(write(d, "x", 1), EPIPE);
            }
            _exit(0);
        }
        if (what == 2) close(p[0]);
        if (what == 3) close(p[1]);
        UNTIL(S[0]);
        wait_asleep(c);
        if (what == 0) put(p[1], 3, 0);
        if (what == 1) get(p[0], 8192, 0);
        if (what == 2) close(p[1]);
        if (what == 3) close(p[0]);
        REAP0(c);
        for (int i = 3; i < 20; i++) close(i);
    }
}
static void woken_by_data(void) { woken(0); }
static void woken_by_room(void) { woken(1); }
/* FREEBSD PR kern/76525, 94772, 76144: closing one end must wake select and poll on the other. */
static void pr76525_pr94772_pr76144_close_of_the_writer_wakes(void) { woken(2); }
static void pr76525_pr94772_pr76144_close_of_the_reader_wakes(void) { woken(3); }
static void pr76144_select_sees_eof(void) {
    int p[2];
    fd_set r, w;
    struct timeval z = {0};
    const char *f = mkff(p);
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_SET(p[0], &r);
    FD_SET(p[1], &w);
    IS(select(p[1] + 1, &r, &w, 0, &z), 1);
    CHECK(FD_ISSET(p[1], &w) && !FD_ISSET(p[0], &r), "writable only");
    close(p[1]);
    FD_SET(p[0], &r);
    IS(select(p[0] + 1, &r, 0, 0, 0), 1);
    AT_EOF(p[0]);
    p[1] = OPEN(f, O_WRONLY); /* status change: readable no more */
    FD_SET(p[0], &r);
    IS(select(p[0] + 1, &r, 0, 0, &z), 0);
    heat(p[0], p[1]);
    FD_SET(p[0], &r);
    IS(select(p[0] + 1, &r, 0, 0, &z), 0);
    close(p[0]);
    FD_ZERO(&w);
    FD_SET(p[1], &w);
    IS(select(p[1] + 1, 0, &w, 0, &z), 1);
}
/* FREEBSD PR kern/116770: a reader whom no writer ever joined is told no EOF (though read gives 0). */
static void pr116770_no_writer_ever(void) {
    int p[2];
    const char *f = mkff(p);
    close(p[0]);
    close(p[1]);
    for (int i = 0; i < 3; i++) {
        int r = OPEN(f, O_RDONLY | O_NONBLOCK);
        fd_set s;
        struct timeval z = {0};
        FD_ZERO(&s);
        FD_SET(r, &s);
        char x;
        IS(events(r, POLLIN, 0), 0);
        IS(select(r + 1, &s, 0, 0, &z), 0);
        int e = ep(r, EPOLLIN), t = ep(r, EPOLLIN | EPOLLET);
        IS(ew(e, 0), 0);
        IS(ew(t, 0), 0);
        IS(read(r, &x, 1), 0);
        IS(events(r, POLLIN, 0), 0);
        setfl(r, 0, O_NONBLOCK);
        int w = OPEN(f, O_WRONLY);
        IS(events(r, POLLIN, 0), 0);
        heat(r, w);
        ew(t, 0);
        IS(events(r, POLLIN, 0), 0);
        close(w); /* now there was one */
        IS(events(r, POLLIN, 0), POLLHUP);
        IS(ew(e, 1000), EPOLLHUP);
        IS(ew(t, 1000), EPOLLHUP);
        int o = OPEN(f, O_RDONLY | O_NONBLOCK); /* who comes later has not met it */
        IS(events(o, POLLIN, 0), 0);
        IS(events(r, POLLIN, 0), POLLHUP);
        close(o);
        close(e);
        close(t);
        close(r);
    }
}
static void pr116770_waits_for_a_writer(void) { /* a blocked poll is woken by the first data, not before */
    const char *f = newfifo();
    S = shared(4096);
    pid_t c = child();
    if (!c) {
        int r = OPEN(f, O_RDONLY | O_NONBLOCK);
        S[0] = 1;
        IS(events(r, POLLIN, 15000), POLLIN);
        S[1] = 1;
        setfl(r, 0, O_NONBLOCK);
        get(r, 3, 0);
        _exit(0);
    }
    UNTIL(S[0]);
    wait_asleep(c);
    int w = OPEN(f, O_WRONLY | O_NONBLOCK);
    wait_asleep(c);
    IS(S[1], 0);
    put(w, 3, 0);
    REAP0(c);
}
/* The seed's open question ("status change"): HUP goes when a new writer comes, and comes again. */
static void hangup_and_back(void) {
    int p[2];
    const char *f = mkff(p);
    int e = ep(p[0], EPOLLIN), t = ep(p[0], EPOLLIN | EPOLLET);
    for (int i = 0; i < 4; i++) {
        ew(t, 0);
        IS(events(p[0], POLLIN, 0), 0);
        IS(ew(e, 0), 0);
        put(p[1], 7, 0);
        close(p[1]);
        IS(events(p[0], POLLIN, 0), POLLIN | POLLHUP);
        IS(ew(e, 0), EPOLLIN | EPOLLHUP);
        IS(ew(t, 1000), EPOLLIN | EPOLLHUP);
        p[1] = OPEN(f, O_WRONLY);
        IS(events(p[0], POLLIN, 0), POLLIN);
        get(p[0], 7, 0);
        IS(events(p[0], POLLIN, 0), 0);
        close(p[1]);
        IS(events(p[0], POLLIN, 0), POLLHUP);
        IS(ew(e, 1000), EPOLLHUP);
        IS(ew(t, 1000), EPOLLHUP);
        IS(ew(t, 0), 0);
        p[1] = OPEN(f, O_WRONLY);
        heat(p[0], p[1]);
    }
}
static void stream_by(int how) { /* 3 MiB, each call waited for */
    enum { TOTAL = 3 << 20 };
    const char *f = newfifo();
    pid_t c = child();
    if (!c) {
        int w = OPEN(f, O_WRONLY);
        qput(w, 1 << 20, 0, 4096); /* heavy first */
        setfl(w, O_NONBLOCK, 0);
        for (size_t n = 1 << 20; n < TOTAL;) {
            if (how < 4) IS(wait_by(how, w, 1), 1);
            ssize_t g = write(w, at(n), TOTAL - n < 9000 ? TOTAL - n : 9000);
            if (g < 0 && errno == EAGAIN) {
                sched_yield(); /* room for less than a page */
                continue;
            }
            CHECK(g > 0, "write gave %zd", g);
            n += g;
        }
        _exit(0);
    }
    static char b[SEA];
    int r = OPEN(f, O_RDONLY);
    qget(r, (1 << 20) - 5000, 0, 8192);
    setfl(r, O_NONBLOCK, 0);
    size_t n = (1 << 20) - 5000;
    int e = how == 4 ? ep(r, EPOLLIN) : -1;
    for (;;) {
        IS(how == 4 ? !!ew(e, 15000) : wait_by(how, r, 0), 1);
        ssize_t g = read(r, b, 7000);
        CHECK(g >= 0, "ready, and read failed at %zu", n);
        if (!g) break;
        same(b, g, n);
        n += g;
    }
    IS(n, TOTAL);
    REAP0(c);
}
static void poll_after_1_mib(void) { stream_by(0); }
static void select_after_1_mib(void) { stream_by(1); }
static void ppoll_after_1_mib(void) { stream_by(2); }
static void pselect_after_1_mib(void) { stream_by(3); }
static void epoll_after_1_mib(void) { stream_by(4); }
static int expect(int sig, siginfo_t *si) { /* takes it, within 10 s */
    sigset_t s;
    struct timespec t = {10, 0};
    sigemptyset(&s);
    sigaddset(&s, sig);
    return sigtimedwait(&s, si, &t);
}
static void none(int sig) {
    sigset_t s;
    struct timespec t = {0, 0};
    sigemptyset(&s);
    sigaddset(&s, sig);
    while (sigtimedwait(&s, 0, &t) > 0);
}
static void sigio(void) {
    int p[2];
    siginfo_t si;
    sigset_t s;
    const char *f = mkff(p);
    sigemptyset(&s);
    sigaddset(&s, SIGIO);
    sigaddset(&s, SIGRTMIN + 1);
    sigprocmask(SIG_BLOCK, &s, 0);
    IS(fcntl(p[0], F_SETOWN, getpid()), 0);
    IS(fcntl(p[0], F_GETOWN), getpid());
    setfl(p[0], O_ASYNC, 0);
    put(p[1], 10, 0);
    IS(expect(SIGIO, &si), SIGIO);
    get(p[0], 10, 0);
    none(SIGIO);
    pid_t c = child();
    if (!c) {
        put(OPEN(f, O_WRONLY), 10, 0); /* another opening, another process */
        _exit(0);
    }
    REAP0(c);
    IS(expect(SIGIO, &si), SIGIO);
    get(p[0], 10, 0);
    none(SIGIO);
    IS(fcntl(p[0], F_SETSIG, SIGRTMIN + 1), 0);
    put(p[1], 1, 0);
    IS(expect(SIGRTMIN + 1, &si), SIGRTMIN + 1);
    IS(si.si_fd, p[0]);
    IS(si.si_band & POLLIN, POLLIN);
    get(p[0], 1, 0);
    none(SIGRTMIN + 1);
    close(p[1]); /* a hang-up tells too */
    IS(expect(SIGRTMIN + 1, &si), SIGRTMIN + 1);
    none(SIGRTMIN + 1);
    p[1] = OPEN(f, O_WRONLY);
    setfl(p[0], 0, O_ASYNC);
    none(SIGRTMIN + 1);
    put(p[1], 1, 0);
    get(p[0], 1, 0);
    struct timespec z = {0, 0};
    FAILS(sigtimedwait(&s, 0, &z), EAGAIN);
}
static void sigio_of_the_writer(void) {
    int p[2];
    siginfo_t si;
    sigset_t s;
    const char *f = mkff(p);
    sigemptyset(&s);
    sigaddset(&s, SIGIO);
    sigprocmask(SIG_BLOCK, &s, 0);
    size_t n = fill_up(p[1], 0);
    fcntl(p[1], F_SETOWN, getpid());
    setfl(p[1], O_ASYNC, 0);
    none(SIGIO);
    get(p[0], n, 0);
    IS(expect(SIGIO, &si), SIGIO);
    none(SIGIO);
    close(p[0]);
    IS(expect(SIGIO, &si), SIGIO);
}
static void ppoll_mask(void) {
    int p[2];
    mkff(p);
    ppoll_on(p);
}
static void many_at_once(void) { /* one poll and one epoll over 50 FIFOs */
    enum { N = 50 };
    int p[N][2], e = epoll_create1(0);
    struct pollfd q[N];
    for (int i = 0; i < N; i++) {
        mkff(p[i]);
        struct epoll_event v = {.events = EPOLLIN, .data.u32 = i};
        epoll_ctl(e, EPOLL_CTL_ADD, p[i][0], &v);
        q[i] = (struct pollfd){p[i][0], POLLIN, 0};
    }
    IS(poll(q, N, 0), 0);
    for (int k = 0; k < 5; k++) {
        int want = 0;
        struct epoll_event v[N];
        for (int i = 0; i < N; i++)
            if ((i * 7 + k) % 5 < 2) {
                put(p[i][1], 10 + i, i);
                want++;
            }
        IS(poll(q, N, 0), want);
        IS(epoll_wait(e, v, N, 0), want);
        for (int i = 0; i < N; i++) {
            IS(q[i].revents, (i * 7 + k) % 5 < 2 ? POLLIN : 0);
            if (q[i].revents) get(p[i][0], 10 + i, i);
        }
    }
    for (int i = 0; i < N; i += 2) close(p[i][1]);
    IS(poll(q, N, 0), N / 2);
    for (int i = 0; i < N; i++) IS(q[i].revents, i % 2 ? 0 : POLLHUP);
}
FIFO_MAIN(T(poll_bits), T(poll_of_a_writer_alone), T(poll_read_write), T(woken_by_data), T(woken_by_room),
          T(pr76525_pr94772_pr76144_close_of_the_writer_wakes),
          T(pr76525_pr94772_pr76144_close_of_the_reader_wakes), T(pr76144_select_sees_eof),
          T(pr116770_no_writer_ever), ONCE(pr116770_waits_for_a_writer), T(hangup_and_back),
          ONCE(poll_after_1_mib), ONCE(select_after_1_mib), ONCE(ppoll_after_1_mib), ONCE(pselect_after_1_mib),
          ONCE(epoll_after_1_mib), T(sigio), T(sigio_of_the_writer), T(ppoll_mask), T(many_at_once))
