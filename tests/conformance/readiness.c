/* Checks: poll, select, ppoll and epoll tell the truth about a pipe, and wake waiters registered before the
 * data. Does not check: POLLPRI, POLLRDHUP, io_uring. */
#include "check.h"
#include "readiness.h"
/* LINUX: poll(2): POLLHUP on a read end without writers (data may still be there, then POLLIN too);
 * POLLERR on a write end without readers; POLLOUT while there is room. */
static void poll_bits(void) {
    int p[2];
    mkpipe(p);
    IS(events(p[0], POLLIN, 0), 0);
    IS(events(p[1], POLLOUT, 0), POLLOUT);
    put(p[1], 1, 0);
    IS(events(p[0], POLLIN, 0), POLLIN);
    get(p[0], 1, 0);
    IS(events(p[0], POLLIN, 0), 0);
    size_t n = fill_up(p[1], 0);
    IS(events(p[1], POLLOUT, 0), 0);
    get(p[0], n, 0);
    IS(events(p[1], POLLOUT, 0), POLLOUT);
    put(p[1], 5, 0);
    close(p[1]);
    IS(events(p[0], POLLIN, 0), POLLIN | POLLHUP);
    get(p[0], 5, 0);
    IS(events(p[0], POLLIN, 0), POLLHUP);
    IS(events(p[0], 0, -1), POLLHUP);
}
static void poll_err(void) {
    int p[2];
    mkpipe(p);
    int d = dup(p[0]);
    fill_up(p[1], 0);
    close(p[0]);
    IS(events(p[1], POLLOUT, 0), 0);
    close(d);
    IS(events(p[1], POLLOUT, -1), POLLERR);
    int q[2];
    mkpipe(q);
    close(q[0]);
    IS(events(q[1], POLLOUT, -1), POLLOUT | POLLERR);
}
static void poll_times_out(void) {
    int p[2];
    mkpipe(p);
    double t = now();
    IS(events(p[0], POLLIN, 60), 0);
    CHECK(now() - t >= 0.059, "poll came back early");
}
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
static int wait_by(int how, int fd, int out) { /* blocks until ready */
    fd_set s;
    FD_ZERO(&s);
    FD_SET(fd, &s);
    struct pollfd q = {fd, out ? POLLOUT : POLLIN, 0};
    struct timeval tv = {10, 0};
    struct timespec ts = {10, 0};
    if (how == 0) return poll(&q, 1, 10000);
    if (how == 1) return select(fd + 1, out ? 0 : &s, out ? &s : 0, 0, &tv);
    if (how == 2) return ppoll(&q, 1, &ts, 0);
    if (how == 3) return !!ew(ep(fd, out ? EPOLLOUT : EPOLLIN), 10000);
    int e = ep(fd, out ? EPOLLOUT : EPOLLIN);
    return !!ew(ep(e, EPOLLIN), 10000); /* nested */
}
static void woken(int how, int first) { /* first: register before any data ever flowed */
    for (int what = 0; what < 4; what++) {
        int p[2];
        mkpipe(p);
        if (what == 1) fill_up(p[1], 0);
        pid_t c = child();
        double t = now();
        if (!c) {
            if (what == 0 || what == 2) {
                close(p[1]);
                IS(wait_by(how, p[0], 0), 1);
                if (!what)
                    get(p[0], 3, 0);
                else
                    AT_EOF(p[0]);
            }
            _exit(0);
        }
        if (what == 1 || what == 3) {
            REAP0(c);
            c = child();
            if (!c) {
                if (what == 3) fill_up(p[1], 0);
                close(p[0]);
                IS(wait_by(how, p[1], 1), 1);
                _exit(0);
            }
        }
        wait_asleep(c);
        if (what == 0) put(p[1], 3, 0);
        if (what == 1) get(p[0], 4096, 0);
        if (what == 2) close(p[1]);
        if (what == 3) close(p[0]);
        REAP0(c);
        CHECK(now() - t < 5, "the waiter must be woken at once");
        close(p[0]);
        close(p[1]);
    }
}
static void poll_woken(void) { woken(0, 0); }
static void select_woken(void) { woken(1, 0); }
static void ppoll_woken(void) { woken(2, 0); }
static void epoll_woken(void) { woken(3, 0); }
static void nested_epoll_woken(void) { woken(4, 0); }
static void ppoll_mask(void) {
    int p[2];
    mkpipe(p);
    ppoll_on(p);
}
static void epoll_level(void) {
    int p[2];
    mkpipe(p);
    int e = ep(p[0], EPOLLIN);
    IS(ew(e, 0), 0);
    put(p[1], 2, 0);
    IS(ew(e, -1), EPOLLIN);
    IS(ew(e, -1), EPOLLIN);
    get(p[0], 1, 0);
    IS(ew(e, 0), EPOLLIN);
    get(p[0], 1, 1);
    IS(ew(e, 0), 0);
    close(p[1]);
    IS(ew(e, -1), EPOLLHUP);
}
/* LINUX: epoll(7) EPOLLET: each further write gives a further event, even on a pipe not empty. */
static void epoll_edge(void) {
    int p[2];
    mkpipe(p);
    int e = ep(p[0], EPOLLIN | EPOLLET);
    IS(ew(e, 0), 0);
    for (int i = 0; i < 5; i++) {
        put(p[1], 2, i * 2);
        IS(ew(e, 1000), EPOLLIN);
        IS(ew(e, 0), 0);
    }
    get(p[0], 10, 0);
    IS(ew(e, 0), 0);
    put(p[1], 1, 0);
    IS(ew(e, 1000), EPOLLIN);
    close(p[1]);
    IS(ew(e, 1000), EPOLLIN | EPOLLHUP);
    IS(ew(e, 0), 0);
}
static void epoll_edge_from_another_process(void) {
    int p[2];
    mkpipe(p);
    int e = ep(p[0], EPOLLIN | EPOLLET);
    pid_t c = child();
    if (!c) {
        for (int i = 0; i < 20; i++) {
            put(p[1], 50, i * 50);
            sleep_ms(2);
        }
        _exit(0);
    }
    close(p[1]);
    setfl(p[0], O_NONBLOCK, 0);
    size_t at = 0;
    char b[100];
    ssize_t g;
    for (;;) {
        CHECK(ew(e, 5000), "an edge was lost at %zu", at);
        while ((g = read(p[0], b, 100)) > 0) {
            verify(b, g, at);
            at += g;
        }
        if (!g) break;
    }
    IS(at, 1000);
    REAP0(c);
}
static void epoll_oneshot(void) {
    int p[2];
    mkpipe(p);
    int e = ep(p[0], EPOLLIN | EPOLLONESHOT);
    put(p[1], 1, 0);
    IS(ew(e, 1000), EPOLLIN);
    put(p[1], 1, 1);
    IS(ew(e, 0), 0);
    struct epoll_event v = {.events = EPOLLIN | EPOLLONESHOT};
    epoll_ctl(e, EPOLL_CTL_MOD, p[0], &v);
    IS(ew(e, 1000), EPOLLIN);
    IS(ew(e, 0), 0);
}
static void epoll_exclusive(void) {
    int p[2];
    mkpipe(p);
    int *n = shared(4096);
    pid_t c[3];
    for (int i = 0; i < 3; i++)
        if (!(c[i] = child())) {
            int e = ep(p[0], EPOLLIN | EPOLLEXCLUSIVE);
            ew(e, 10000);
            __sync_fetch_and_add(n, 1);
            char x;
            read(p[0], &x, 1);
            _exit(0);
        }
    for (int i = 0; i < 3; i++) wait_asleep(c[i]);
    put(p[1], 1, 0);
    double t = now();
    while (!*(volatile int *)n) {
        CHECK(now() - t < 5, "no exclusive waiter woke");
        sleep_ms(1);
    }
    put(p[1], 1, 0);
    sleep_ms(5);
    put(p[1], 1, 0);
    for (int i = 0; i < 3; i++) REAP0(c[i]);
}
static void epoll_out_edge(void) {
    int p[2];
    mkpipe(p);
    size_t n = fill_up(p[1], 0);
    int e = ep(p[1], EPOLLOUT | EPOLLET);
    IS(ew(e, 0), 0);
    get(p[0], n, 0);
    IS(ew(e, 1000), EPOLLOUT);
    IS(ew(e, 0), 0);
    fill_up(p[1], 0);
    close(p[0]);
    IS(ew(e, 1000), EPOLLERR);
}
static void registered_before_first_byte(void) {
    int p[2];
    CHECK(!pipe(p), "pipe");
    int l = ep(p[0], EPOLLIN), t = ep(p[0], EPOLLIN | EPOLLET), n = ep(l, EPOLLIN);
    IS(ew(l, 0), 0);
    IS(ew(t, 0), 0);
    warm(p[0], p[1]);
    ew(t, 0);
    IS(ew(l, 0), 0);
    IS(ew(n, 0), 0);
    IS(ew(t, 0), 0);
    put(p[1], 9, 0);
    IS(ew(l, 1000), EPOLLIN);
    IS(ew(n, 1000), EPOLLIN);
    IS(ew(t, 1000), EPOLLIN);
    get(p[0], 9, 0);
    close(p[1]);
    CHECK(ew(l, 1000) & EPOLLHUP, "HUP");
}
static void select_bits(void) {
    int p[2];
    mkpipe(p);
    fd_set r, w;
    struct timeval z = {0};
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_SET(p[0], &r);
    FD_SET(p[1], &w);
    IS(select(p[1] + 1, &r, &w, 0, &z), 1);
    CHECK(FD_ISSET(p[1], &w) && !FD_ISSET(p[0], &r), "writable only");
    close(p[1]);
    FD_SET(p[0], &r);
    IS(select(p[0] + 1, &r, 0, 0, 0), 1);
}
MAIN(T(poll_bits), T(poll_err), T(poll_times_out), T(poll_woken), T(select_woken), T(ppoll_woken),
     T(epoll_woken), T(nested_epoll_woken), T(ppoll_mask), T(epoll_level), T(epoll_edge),
     T(epoll_edge_from_another_process), T(epoll_oneshot), T(epoll_exclusive), T(epoll_out_edge),
     T(registered_before_first_byte), T(select_bits))
