/* Checks: what sets tell of both ends of a pipe, one call after the other: level, edge, one-shot, MOD and DEL, data, several
 * entries and sets, closed and reused numbers. Does not check: sleepers (epoll_wait.c), streams (epoll_stream.c), what
 * readiness.c and fifo_epoll.c have. */
#include "check.h"
#include "epoll_calls.h"
static void calls_that_are_refused(void) {
    int p[2], e = epoll_create(1);
    mkpipe(p);
    struct epoll_event v;
    FAILS(epoll_create(0), EINVAL);
    FAILS(epoll_create1(1), EINVAL);
    FAILS(ctl(e, EPOLL_CTL_MOD, p[0], EPOLLIN, 0), ENOENT);
    FAILS(ctl(e, EPOLL_CTL_DEL, p[0], EPOLLIN, 0), ENOENT);
    add(e, p[0], EPOLLIN, 5);
    FAILS(ctl(e, EPOLL_CTL_ADD, p[0], EPOLLIN, 6), EEXIST);
    FAILS(ctl(e, EPOLL_CTL_ADD, e, EPOLLIN, 6), EINVAL);
    FAILS(ctl(e, EPOLL_CTL_MOD, p[0], EPOLLIN | EPOLLEXCLUSIVE, 6), EINVAL);
    FAILS(ctl(e, EPOLL_CTL_ADD, p[1], EPOLLOUT | EPOLLEXCLUSIVE | EPOLLONESHOT, 6), EINVAL);
    FAILS(ctl(p[0], EPOLL_CTL_ADD, p[1], EPOLLIN, 0), EINVAL);
    FAILS(epoll_ctl(e, EPOLL_CTL_ADD, p[1], 0), EFAULT);
    FAILS(epoll_wait(e, &v, 0, 0), EINVAL);
    FAILS(epoll_wait(p[0], &v, 1, 0), EINVAL);
    put(p[1], 10, 0);
    FAILS(epoll_wait(e, (void *)8, 1, 0), EFAULT);
    EACH_CALL(how) {
        IS(waits(how, e, &v, 1, -1, 0), 1);
        IS(v.events, EPOLLIN);
        IS(v.data.u64, 5);
    }
    get(p[0], 10, 0);
    del(e, p[0]);
    close(p[0]);
    FAILS(ctl(e, EPOLL_CTL_ADD, p[0], EPOLLIN, 0), EBADF);
}
/* What was not there when it was added, and what was: by level and by edge. */
static void added_before_and_after(void) {
    EACH_CALL(how) for (int edge = 0; edge < 2; edge++) {
        int p[2];
        mkpipe(p);
        uint32_t how_told = EPOLLIN | (edge ? EPOLLET : 0);
        int before = set_of(p[0], how_told);
        IS(told(how, before, 0), 0);
        put(p[1], 10, 0);
        int after = set_of(p[0], how_told);
        IS(told(how, before, -1), EPOLLIN);
        IS(told(how, after, -1), EPOLLIN);
        IS(told(how, before, 0), edge ? 0 : EPOLLIN);
        IS(told(how, after, 0), edge ? 0 : EPOLLIN);
        get(p[0], 10, 0);
        IS(told(how, before, 0), 0);
        IS(told(how, after, 0), 0);
        put(p[1], 10, 0);
        get(p[0], 10, 0);
        IS(told(how, before, 0), 0); /* LINUX ep_send_events: what is gone by the call is not told */
        IS(told(how, after, 0), 0);
        for (int i = 3; i < 9; i++) close(i);
    }
}
/* LINUX pipe_write: an event for each write, with unread bytes too. A read makes none; MOD tells anew. */
static void edges_of_a_reader(void) {
    int p[2];
    mkpipe(p);
    int e = set_of(p[0], EPOLLIN | EPOLLET);
    size_t w = 0, r = 0;
    for (int i = 0; i < 100; i++) {
        size_t n = 1 + i % 4 * 300;
        put(p[1], n, w);
        w += n;
        IS(told(i % CALLS, e, -1), EPOLLIN);
        IS(told(i % CALLS, e, 0), 0);
        if (i % 3 == 0) {
            get(p[0], (w - r) / 2, r);
            r += (w - r) / 2;
            IS(told(i % CALLS, e, 0), 0);
            if (w > r) {
                mod(e, p[0], EPOLLIN | EPOLLET, i);
                IS(told(i % CALLS, e, -1), EPOLLIN);
                IS(told(i % CALLS, e, 0), 0);
            }
        }
        if (i % 7 == 6 || holds() < 65536) {
            get(p[0], w - r, r);
            r = w;
            mod(e, p[0], EPOLLIN | EPOLLET, i);
            IS(told(i % CALLS, e, 0), 0);
        }
    }
    get(p[0], w - r, r);
    put(p[1], 1, w);
    put(p[1], 1, w + 1); /* two before the look are one */
    IS(told(WAIT, e, -1), EPOLLIN);
    IS(told(WAIT, e, 0), 0);
    mod(e, p[0], EPOLLIN, 0); /* by level from here on */
    for (int i = 0; i < 3; i++) IS(told(WAIT, e, 0), EPOLLIN);
    mod(e, p[0], 0, 0);
    IS(told(WAIT, e, 0), 0);
    close(p[1]);
    IS(told(WAIT, e, -1), EPOLLHUP);
}
/* LINUX: pipe_resize_ring wakes the writers, so a FIFO that begins to be carried makes one edge more. */
static void no_more_edges(int e, int way) {
    int n = told(way, e, 0);
    if (!fifos()) IS(n, 0);
}
/* A writer that was told EAGAIN gets one edge when there is room, and none while there is room. */
static void edges_of_a_writer(void) {
    int p[2];
    mkpipe(p);
    int e = set_of(p[1], EPOLLOUT | EPOLLET);
    IS(told(WAIT, e, 0), EPOLLOUT);
    IS(told(WAIT, e, 0), 0);
    for (int round = 0; round < 10; round++) {
        size_t n = fill_up(p[1], 0);
        IS(told(round % CALLS, e, 0), 0);
        mod(e, p[1], EPOLLOUT | EPOLLET, 0);
        IS(told(round % CALLS, e, 0), 0);
        get(p[0], n, 0);
        IS(told(round % CALLS, e, -1), EPOLLOUT);
        no_more_edges(e, round % CALLS);
        put(p[1], 1, 0);
        get(p[0], 1, 0);
        no_more_edges(e, round % CALLS);
        mod(e, p[1], EPOLLOUT | EPOLLET, 0);
        IS(told(round % CALLS, e, -1), EPOLLOUT);
    }
    fill_up(p[1], 0);
    close(p[0]);
    IS(told(WAIT, e, -1), EPOLLERR);
    IS(told(WAIT, e, 0), 0);
}
/* A one-shot is told once, by whatever comes; MOD arms it again, and tells what is there. */
static void oneshot(void) {
    for (int edge = 0; edge < 2; edge++) {
        int p[2];
        mkpipe(p);
        uint32_t once = EPOLLIN | EPOLLONESHOT | (edge ? EPOLLET : 0);
        int e = set_of(p[0], once);
        for (int i = 0; i < 20; i++) {
            put(p[1], 10, i * 20);
            IS(told(i % CALLS, e, -1), EPOLLIN);
            put(p[1], 10, i * 20 + 10);
            IS(told(i % CALLS, e, 0), 0);
            if (i % 2) {
                get(p[0], 20, i * 20);
                mod(e, p[0], once, i);
                IS(told(i % CALLS, e, 0), 0);
            } else {
                get(p[0], 15, i * 20);
                mod(e, p[0], once, i);
                IS(told(i % CALLS, e, -1), EPOLLIN);
                get(p[0], 5, i * 20 + 15);
                mod(e, p[0], once, i);
                IS(told(i % CALLS, e, 0), 0);
            }
        }
        put(p[1], 10, 0);
        IS(told(WAIT, e, -1), EPOLLIN);
        close(p[1]);
        IS(told(WAIT, e, 0), 0); /* nor is the end told */
        mod(e, p[0], once, 0);
        IS(told(WAIT, e, -1), EPOLLIN | EPOLLHUP);
        IS(told(WAIT, e, 0), 0);
        close(p[0]);
        close(e);
    }
}
/* A pipe knows no EPOLLRDHUP and no EPOLLPRI; its end is EPOLLHUP, asked for or not. */
static void ends(void) {
    static const uint32_t ASKED[] = {EPOLLRDHUP, EPOLLPRI, 0, EPOLLIN | EPOLLRDHUP};
    for (int i = 0; i < 4; i++) {
        int p[2], q[2];
        mkpipe(p);
        mkpipe(q);
        int e = set_of(p[0], ASKED[i]), o = set_of(q[1], ASKED[i] & ~EPOLLIN);
        put(p[1], 10, 0);
        IS(told(WAIT, e, 0), ASKED[i] & EPOLLIN);
        IS(told(WAIT, o, 0), 0);
        close(p[1]);
        close(q[0]);
        IS(told(WAIT, e, -1), EPOLLHUP | (ASKED[i] & EPOLLIN));
        IS(told(WAIT, o, -1), EPOLLERR);
        get(p[0], 10, 0);
        IS(told(WAIT, e, -1), EPOLLHUP);
        close(q[1]);
        for (int k = 3; k < 9; k++) close(k);
    }
}
/* Each descriptor is one entry in a call, with its own data; a duplicate is another. */
static void data_and_duplicates(void) {
    int p[2], e = set();
    mkpipe(p);
    int d = dup(p[0]), both = set();
    add(e, p[0], EPOLLIN | EPOLLRDNORM, 0x1122334455667788);
    add(e, d, EPOLLIN, ~0ull);
    put(p[1], 10, 0);
    struct epoll_event v[8];
    for (int i = 0; i < 3; i++) {
        IS(waits(i, e, v, 8, -1, 0), 2);
        int k = v[0].data.u64 == ~0ull;
        IS(v[k].data.u64, 0x1122334455667788);
        IS(v[k].events, EPOLLIN | EPOLLRDNORM);
        IS(v[!k].data.u64, ~0ull);
        IS(v[!k].events, EPOLLIN);
    }
    mod(e, d, EPOLLIN | EPOLLET, 7);
    del(e, p[0]);
    IS(waits(WAIT, e, v, 8, -1, 0), 1);
    IS(v[0].data.u64, 7);
    put(p[1], 10, 10);
    IS(waits(WAIT, e, v, 8, -1, 0), 1);
    del(e, d);
    put(p[1], 10, 20);
    IS(waits(WAIT, e, v, 8, 0, 0), 0);
    add(both, p[0], EPOLLIN, 1);
    add(both, p[1], EPOLLOUT, 2);
    IS(waits(WAIT, both, v, 8, -1, 0), 2);
    IS(v[0].events + v[1].events, EPOLLIN + EPOLLOUT);
    get(p[0], 30, 0);
}
/* A number that was closed without DEL: with no other holder the entry is gone. With one it tells on, under its old data. */
static void closed_without_del(void) {
    for (int holder = 0; holder < 2; holder++) {
        int p[2], q[2], e = set(), d = -1;
        mkpipe(p);
        mkpipe(q);
        struct epoll_event v[4];
        int w = dup(p[0]);
        if (holder)
            d = dup(p[0]);
        close(w);
        add(e, p[0], EPOLLIN, 100);
        put(p[1], 10, 0);
        IS(waits(WAIT, e, v, 4, -1, 0), 1);
        int number = p[0];
        close(p[0]);
        IS(waits(WAIT, e, v, 4, 0, 0), holder);
        if (holder) IS(v[0].data.u64, 100);
        IS(dup2(q[0], number), number); /* the number is another's */
        put(q[1], 5, 0);
        IS(waits(WAIT, e, v, 4, 0, 0), holder);
        add(e, number, EPOLLIN, 200);
        IS(waits(WAIT, e, v, 4, -1, 0), 1 + holder);
        int k = holder && v[0].data.u64 == 100;
        IS(v[k].data.u64, 200);
        get(number, 5, 0);
        if (holder) {
            FAILS(ctl(e, EPOLL_CTL_DEL, d, 0, 0), ENOENT);
            get(d, 10, 0);
        }
        IS(waits(WAIT, e, v, 4, 0, 0), 0);
        if (holder) {
            put(p[1], 10, 10);
            IS(waits(WAIT, e, v, 4, -1, 0), 1);
            IS(v[0].data.u64, 100);
            get(d, 10, 10);
            close(d);
        }
        put(q[1], 3, 0);
        IS(waits(WAIT, e, v, 4, -1, 0), 1);
        IS(v[0].data.u64, 200);
        for (int i = 3; i < 12; i++) close(i);
    }
}
/* Numbers that come and go quickly: an event never has the data of an older pipe of the same number. */
static void numbers_used_anew(void) {
    int e = set();
    for (int i = 0; i < 60; i++) {
        int p[2];
        struct epoll_event v[4];
        if (i % 20)
            CHECK(!pipe(p), "pipe");
        else
            mkpipe(p);
        add(e, p[0], EPOLLIN | (i % 2 ? EPOLLET : 0), i);
        if (i % 3) put(p[1], 50, 0);
        IS(waits(i % CALLS, e, v, 4, 0, 0), i % 3 > 0);
        if (i % 3) IS(v[0].data.u64, i);
        if (i % 4 == 1) del(e, p[0]);
        close(p[0]);
        close(p[1]);
    }
}
/* One end in two sets, by level and by edge: each has its own account. A set in a set, and a set that is polled. */
static void several_sets(void) {
    int p[2];
    mkpipe(p);
    int l = set_of(p[0], EPOLLIN), t = set_of(p[0], EPOLLIN | EPOLLET), over_l = set_of(l, EPOLLIN), over_t = set_of(t, EPOLLIN);
    for (int i = 0; i < 20; i++) {
        IS(told(i % CALLS, over_l, 0), 0);
        IS(events(l, POLLIN, 0), 0);
        put(p[1], 10, 10 * i);
        IS(events(l, POLLIN, -1), POLLIN);
        IS(events(t, POLLIN, -1), POLLIN);
        IS(events(over_l, POLLIN, -1), POLLIN);
        IS(told(i % CALLS, over_l, -1), EPOLLIN);
        IS(told(i % CALLS, over_t, -1), EPOLLIN);
        IS(told(i % CALLS, t, -1), EPOLLIN);
        IS(told(i % CALLS, over_t, 0), 0);
        IS(events(t, POLLIN, 0), 0);
        IS(told(i % CALLS, over_l, -1), EPOLLIN);
        IS(told(i % CALLS, l, -1), EPOLLIN);
        get(p[0], 10, 10 * i);
    }
}
/* With room for one entry, each that is ready has its turn. */
static void one_at_a_time(void) {
    enum { PIPES = 5 };
    int p[PIPES][2], e = set();
    for (int i = 0; i < PIPES; i++) {
        mkpipe(p[i]);
        add(e, p[i][0], EPOLLIN, i);
        put(p[i][1], 100, 0);
    }
    int seen[PIPES] = {0};
    for (int i = 0; i < 4 * PIPES; i++) {
        struct epoll_event v;
        IS(waits(i % CALLS, e, &v, 1, -1, 0), 1);
        get(p[v.data.u64][0], 1, seen[v.data.u64]++);
        /* Of small rings some are handed back in between, and of FIFOs some begin to be carried: their turn comes one round later. */
        if (holds() >= 65536 && !fifos()) IS(seen[v.data.u64], 1 + i / PIPES);
    }
    for (int i = 0; i < PIPES; i++) mod(e, p[i][0], EPOLLIN | EPOLLET, i);
    for (int i = 0; i < PIPES; i++) {
        struct epoll_event v;
        IS(waits(WAIT, e, &v, 1, -1, 0), 1);
        if (holds() >= 65536 && !fifos()) IS(seen[v.data.u64]++, 4);
    }
    IS(told(WAIT, e, 0), 0);
}
/* A pipe that always has bytes keeps nobody from being told: a socket, a pipe, room. */
static void nobody_starves(void) {
    int a[2], b[2], s[2], o[2], e = set();
    mkpipe(a);
    mkpipe(b);
    mkpipe(o);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s), "socketpair");
    add(e, a[0], EPOLLIN, 0);
    add(e, b[0], EPOLLIN, 1);
    add(e, s[0], EPOLLIN, 2);
    add(e, o[1], EPOLLOUT, 3);
    put(a[1], 1000, 0);
    for (int i = 0; i < 200; i++) {
        struct epoll_event v[8];
        char x;
        if (i % 3 == 1) put(b[1], 1, i);
        if (i % 3 == 2) write(s[1], "x", 1);
        IS(waits(i % CALLS, e, v, 8, i % 2 ? -1 : 15000, 0), 2 + (i % 3 > 0));
        int bits = 0;
        for (int k = 0; k < 2 + (i % 3 > 0); k++) bits |= 1 << v[k].data.u64;
        IS(bits, 9 | (i % 3 ? 1 << i % 3 : 0));
        if (i % 3 == 1) get(b[0], 1, i);
        if (i % 3 == 2) read(s[0], &x, 1);
        get(a[0], 10, 10 * i);
        put(a[1], 10, 1000 + 10 * i);
    }
}
/* Registered, and then read by every other way: the set tells what is left. */
static void read_beside_the_set(void) {
    int p[2], n;
    mkpipe(p);
    int e = set_of(p[0], EPOLLIN), t = set_of(p[0], EPOLLIN | EPOLLET);
    for (int i = 0; i < 50; i++) {
        put(p[1], 300, 300 * i);
        if (i % 2) IS(events(p[0], POLLIN, -1), POLLIN);
        IS(ioctl(p[0], FIONREAD, &n), 0);
        IS(n, 300);
        get(p[0], 200, 300 * i);
        IS(told(i % CALLS, e, -1), EPOLLIN);
        IS(told(i % CALLS, t, -1), EPOLLIN);
        get(p[0], 100, 300 * i + 200);
        IS(told(i % CALLS, e, 0), 0);
        IS(told(i % CALLS, t, 0), 0);
    }
}
MAIN(T(calls_that_are_refused), T(added_before_and_after), T(edges_of_a_reader), T(edges_of_a_writer), T(oneshot), T(ends),
     T(data_and_duplicates), T(closed_without_del), T(numbers_used_anew), T(several_sets), T(one_at_a_time), T(nobody_starves),
     T(read_beside_the_set))
