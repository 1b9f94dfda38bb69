/* Checks: epoll on both ends of a FIFO: level, edge, one-shot and exclusive, and that it knows the FIFO whenever,
 * and by whichever opening, it was registered. Does not check: poll, select and signals (fifo_events.c). */
#include "fifo_common.h"
#include "readiness.h"
static volatile int *S;
static void epoll_level(void) {
    int p[2];
    const char *f = mkff(p);
    int e = ep(p[0], EPOLLIN), o = ep(p[1], EPOLLOUT);
    IS(ew(e, 0), 0);
    IS(ew(o, 0), EPOLLOUT);
    put(p[1], 2, 0);
    IS(ew(e, -1), EPOLLIN);
    IS(ew(e, -1), EPOLLIN);
    get(p[0], 1, 0);
    IS(ew(e, 0), EPOLLIN);
    get(p[0], 1, 1);
    IS(ew(e, 0), 0);
    size_t n = fill_up(p[1], 0);
    IS(ew(o, 0), 0);
    get(p[0], n, 0);
    IS(ew(o, 0), EPOLLOUT);
    put(p[1], 2, 0);
    close(p[1]);
    IS(ew(e, -1), EPOLLIN | EPOLLHUP);
    get(p[0], 2, 0);
    IS(ew(e, -1), EPOLLHUP);
    close(o);
}
/* EV_CLEAR of the seed's kqueue is EPOLLET; EV_ONESHOT is EPOLLONESHOT. */
static void epoll_edge_as_ev_clear(void) {
    int p[2];
    const char *f = mkff(p);
    int e = ep(p[0], EPOLLIN | EPOLLET);
    IS(ew(e, 0), 0);
    for (int i = 0; i < 5; i++) {
        put(p[1], 2, i * 2);
        IS(ew(e, 1000), EPOLLIN);
        IS(ew(e, 0), 0);
    }
    get(p[0], 5, 0);
    IS(ew(e, 0), 0); /* reading a part gives no event */
    get(p[0], 5, 5);
    put(p[1], 1, 0);
    IS(ew(e, 1000), EPOLLIN);
    close(p[1]);
    IS(ew(e, 1000), EPOLLIN | EPOLLHUP);
    IS(ew(e, 0), 0);
    get(p[0], 1, 0);
    p[1] = OPEN(f, O_WRONLY);
    ew(e, 0);
    put(p[1], 1, 0);
    IS(ew(e, 1000), EPOLLIN);
    IS(ew(e, 0), 0);
}
static void epoll_edge_of_the_writer(void) {
    int p[2];
    const char *f = mkff(p);
    size_t n = fill_up(p[1], 0);
    int e = ep(p[1], EPOLLOUT | EPOLLET);
    IS(ew(e, 0), 0);
    get(p[0], n, 0);
    IS(ew(e, 1000), EPOLLOUT);
    IS(ew(e, 0), 0);
    fill_up(p[1], 0);
    close(p[0]);
    IS(ew(e, 1000), EPOLLERR);
    IS(ew(e, 0), 0);
}
static void epoll_oneshot_as_ev_oneshot(void) {
    int p[2];
    const char *f = mkff(p);
    struct epoll_event v = {.events = EPOLLIN | EPOLLONESHOT};
    int e = ep(p[0], EPOLLIN | EPOLLONESHOT);
    put(p[1], 1, 0);
    IS(ew(e, 1000), EPOLLIN);
    put(p[1], 1, 1);
    IS(ew(e, 0), 0);
    epoll_ctl(e, EPOLL_CTL_MOD, p[0], &v);
    IS(ew(e, 1000), EPOLLIN);
    close(p[1]);
    IS(ew(e, 0), 0);
    epoll_ctl(e, EPOLL_CTL_MOD, p[0], &v);
    IS(ew(e, 1000), EPOLLIN | EPOLLHUP);
    IS(ew(e, 0), 0);
    get(p[0], 2, 0);
    p[1] = OPEN(f, O_WRONLY);
    epoll_ctl(e, EPOLL_CTL_MOD, p[0], &v);
    IS(ew(e, 0), 0);
    put(p[1], 1, 0);
    IS(ew(e, 1000), EPOLLIN);
}
static void epoll_exclusive(void) {
    int p[2];
    const char *f = mkff(p);
    S = shared(4096);
    pid_t c[3];
    for (int i = 0; i < 3; i++)
        if (!(c[i] = child())) {
            int r = OPEN(f, O_RDONLY);
            char x;
            ew(ep(r, EPOLLIN | EPOLLEXCLUSIVE), 15000);
            __sync_fetch_and_add(&S[0], 1);
            IS(read(r, &x, 1), 1);
            _exit(0);
        }
    for (int i = 0; i < 3; i++) wait_asleep(c[i]);
    for (int i = 1; i <= 3;
         i++) { /* each write wakes at least one; the others may sleep on beside the data */
        double t = now();
        while (S[0] < i) {
            CHECK(now() - t < 10, "no exclusive waiter woke");
            put(p[1], 1, 0);
            for (int k = 0; k < 50 && S[0] < i; k++) usleep(200);
        }
    }
    put(p[1], 3, 0);
    for (int i = 0; i < 3; i++) REAP0(c[i]);
}
static void edges_from_another_process(void) {
    enum { TOTAL = 3 << 20 };
    const char *f = newfifo();
    int r = OPEN(f, O_RDONLY | O_NONBLOCK);
    int e = ep(r, EPOLLIN | EPOLLET);
    pid_t c = child();
    if (!c) {
        close_range(3, ~0u, 0);
        int w = OPEN(f, O_WRONLY | O_NONBLOCK), o = ep(w, EPOLLOUT | EPOLLET);
        for (size_t n = 0; n < TOTAL;) {
            ssize_t g = write(w, at(n), TOTAL - n < 9000 ? TOTAL - n : 9000);
            CHECK(g > 0 || errno == EAGAIN, "write gave %zd", g);
            if (g > 0)
                n += g;
            else
                CHECK(ew(o, 15000), "an edge for the writer was lost at %zu", n);
        }
        _exit(0);
    }
    static char b[SEA];
    size_t n = 0;
    for (ssize_t g = -1; g;) {
        CHECK(ew(e, 15000), "an edge for the reader was lost at %zu", n);
        while ((g = read(r, b, 7000)) > 0) {
            same(b, g, n);
            n += g;
        }
    }
    IS(n, TOTAL);
    REAP0(c);
}
static void registered_before_traffic(void) { /* epoll knows the FIFO before it is heavy, and after */
    int p[2];
    const char *f = newfifo();
    open_both(f, p);
    int l = ep(p[0], EPOLLIN), t = ep(p[0], EPOLLIN | EPOLLET), n = ep(l, EPOLLIN);
    IS(ew(l, 0), 0);
    flood(p[0], p[1], 1 << 20, 0);
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
    IS(ew(l, 1000), EPOLLHUP);
    IS(ew(t, 1000), EPOLLHUP);
}
static void registered_by_another_opening(void) { /* who polls and who reads need not be the same */
    int p[2];
    const char *f = mkff(p);
    S = shared(4096);
    pid_t c = child();
    if (!c) {
        close_range(3, ~0u, 0);
        int r = OPEN(f, O_RDONLY | O_NONBLOCK);
        int e = ep(r, EPOLLIN);
        S[0] = 1;
        for (int i = 1; i <= 20; i++) {
            IS(ew(e, 15000), EPOLLIN);
            S[0] = i + 1;
            UNTIL(S[1] == i);
            IS(ew(e, 0), 0);
            S[2] = i;
        }
        _exit(0);
    }
    UNTIL(S[0]);
    for (int i = 1; i <= 20; i++) {
        put(p[1], 5000, i);
        UNTIL(S[0] == i + 1);
        get(p[0], 5000, i);
        S[1] = i;
        UNTIL(S[2] == i);
    }
    REAP0(c);
}
/* One that is open for both is asked about its bytes alone, then about room as well, then about room alone. */
static void open_for_both(void) {
    enum { LOT = 1 << 20 };
    int p[2];
    const char *f = mkff(p);
    int b = OPEN(f, O_RDWR | O_NONBLOCK);
    close(p[0]);
    for (int by_edge = 0; by_edge < 2; by_edge++) {
        unsigned edge = by_edge ? EPOLLET : 0;
        int e = ep(b, EPOLLIN | edge);
        struct epoll_event both = {.events = EPOLLIN | EPOLLOUT}, room = {.events = EPOLLOUT};
        IS(ew(e, 0), 0);
        pid_t c = child();
        if (!c) {
            for (int i = 0; i < LOT; i += 1024) put(p[1], 1024, i);
            _exit(0);
        }
        for (int n = 0; n < LOT;) {
            IS(ew(e, 10000), EPOLLIN);
            char x[8192];
            for (ssize_t g; (g = read(b, x, sizeof x)) > 0; n += g) verify_(__LINE__, x, g, n);
        }
        REAP0(c);
        IS(ew(e, 0), 0);
        put(b, 3, 0); /* its own bytes are told of too */
        IS(ew(e, 1000), EPOLLIN);
        IS(epoll_ctl(e, EPOLL_CTL_MOD, b, &both), 0);
        IS(ew(e, 0), EPOLLIN | EPOLLOUT);
        get(b, 3, 0);
        IS(ew(e, 0), EPOLLOUT);
        IS(epoll_ctl(e, EPOLL_CTL_MOD, b, &room), 0);
        IS(ew(e, 0), EPOLLOUT);
        close(e);
    }
}
FIFO_MAIN(T(open_for_both), T(epoll_level), T(epoll_edge_as_ev_clear), T(epoll_edge_of_the_writer),
          T(epoll_oneshot_as_ev_oneshot), T(epoll_exclusive), ONCE(edges_from_another_process),
          T(registered_before_traffic), T(registered_by_another_opening))
