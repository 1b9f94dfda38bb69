/* Checks: pipes that a set has waited for in vain, many times: they are told when something comes, read by every other way
 * beside the set, taken out, changed, and left behind by a process that ends. Does not check: sets that are reached in
 * more than one way (epoll_sets.c), sleepers (epoll_wait.c). */
#include "check.h"
#include "epoll_calls.h"
#include <sys/eventfd.h>
#include <sys/resource.h>
enum { TICK = 1000000 };
/* A set with one descriptor that is always ready: so each call waits for the pipes, and comes back at once. */
static int ticking(void) {
    int e = set(), t = eventfd(1, EFD_CLOEXEC);
    CHECK(t >= 0, "eventfd");
    add(e, t, EPOLLIN, TICK);
    return e;
}
/* The events of the one pipe that is told of beside the tick, or 0. */
static int told_in(int how, int e, int ms) {
    struct epoll_event v[4] = {0};
    int n = waits(how, e, v, 4, ms, 0);
    CHECK(n == 1 || n == 2, "%d entries", n);
    CHECK(v[0].data.u64 == TICK || (n == 2 && v[1].data.u64 == TICK), "the tick is not told");
    return n == 1 ? 0 : (int)v[v[0].data.u64 == TICK].events;
}
static int told_of(int how, int e) { return told_in(how, e, -1); }
static void rest(int e) {
    for (int i = 0; i < 12; i++) IS(told_of(i % CALLS, e), 0);
}
static void told_again(void) {
    static const size_t SIZES[] = {1, 10, 4096, 5000, 30000};
    for (int edge = 0; edge < 2; edge++) {
        int p[2], e = ticking();
        size_t at = 0;
        mkpipe(p);
        add(e, p[0], EPOLLIN | (edge ? EPOLLET : 0), 7);
        for (int i = 0; i < 20; i++) {
            size_t n = SIZES[i % 5] > holds() / 2 ? 1000 : SIZES[i % 5];
            rest(e);
            put(p[1], n, at);
            IS(told_of(i % CALLS, e), EPOLLIN);
            if (!edge) IS(told_of(i % CALLS, e), EPOLLIN);
            get(p[0], n, at);
            at += n;
            if (i % 3 == 0) IS(told_of(i % CALLS, e), 0);
        }
        for (int i = 0; edge && i < 10; i++) {
            rest(e);
            for (int n = 0; n < 3; n++) { /* told, not read, and more */
                put(p[1], 10, at + 10 * n);
                IS(told_in(i % CALLS, e, i % 2 ? -1 : 0), EPOLLIN);
                IS(told_in(i % CALLS, e, 0), 0);
            }
            get(p[0], 30, at);
            at += 30;
        }
        rest(e);
        close(p[1]);
        IS(told_of(WAIT, e), EPOLLHUP);
        for (int i = 3; i < 9; i++) close(i);
    }
}
/* Read before the set tells: by read(2), by another number, after a poll, by another thread, by a child, by splice(2). */
static size_t at_now;
static int the_end;
static void *gets(void *n) {
    get(the_end, (size_t)(intptr_t)n, at_now);
    return 0;
}
static void read_beside(void) {
    int p[2], d, n, q[2], e = ticking();
    mkpipe(p);
    CHECK(!pipe(q), "pipe");
    the_end = p[0];
    add(e, p[0], EPOLLIN, 7);
    d = dup(p[0]);
    for (int i = 0; i < 36; i++) {
        if (i % 2) rest(e);
        put(p[1], 300, at_now);
        if (i % 6 == 0) get(p[0], 300, at_now);
        if (i % 6 == 1) get(d, 300, at_now);
        if (i % 6 == 2) {
            struct pollfd f = {p[0], POLLIN, 0};
            IS(poll(&f, 1, -1), 1);
            IS(ioctl(p[0], FIONREAD, &n), 0);
            IS(n, 300);
            get(p[0], 300, at_now);
            IS(poll(&f, 1, 0), 0);
        }
        if (i % 6 == 3) {
            pthread_t t;
            pthread_create(&t, 0, gets, (void *)300);
            pthread_join(t, 0);
        }
        if (i % 6 == 4) {
            pid_t c = child();
            if (!c) {
                get(p[0], 300, at_now);
                _exit(0);
            }
            REAP0(c);
        }
        if (i % 6 == 5) {
            IS(splice(p[0], 0, q[1], 0, 300, 0), 300);
            get(q[0], 300, at_now);
        }
        at_now += 300;
        IS(told_of(i % CALLS, e), 0);
    }
    put(p[1], 300, at_now);
    IS(told_of(WAIT, e), EPOLLIN);
}
/* DEL, MOD and close of what is idle. A registration stays with the open file. */
static void changed(void) {
    int p[2], e = ticking(), d;
    size_t at = 0;
    mkpipe(p);
    for (int i = 0; i < 6; i++) {
        add(e, p[0], EPOLLIN, 7);
        rest(e);
        if (i % 2) mod(e, p[0], 0, 7);
        put(p[1], 300, at);
        IS(told_of(WAIT, e), i % 2 ? 0 : EPOLLIN);
        if (i % 2) mod(e, p[0], EPOLLIN, 7);
        IS(told_of(WAIT, e), EPOLLIN);
        del(e, p[0]);
        IS(told_of(WAIT, e), 0);
        get(p[0], 300, at);
        at += 300;
    }
    add(e, p[0], EPOLLIN, 7);
    rest(e);
    d = dup(p[0]);
    close(p[0]);
    put(p[1], 300, at);
    IS(told_of(WAIT, e), EPOLLIN);
    get(d, 300, at);
    IS(told_of(WAIT, e), 0);
    close(d);
    IS(told_of(WAIT, e), 0);
}
/* The process that had the set ends, in each way, and another one reads on. */
static void left_behind(void) {
    for (int how = 0; how < 4; how++) {
        int p[2], s[2];
        mkpipe(p);
        CHECK(!pipe2(s, O_CLOEXEC), "pipe");
        pid_t c = child();
        if (!c) {
            int e = ticking();
            add(e, p[0], EPOLLIN, 7);
            rest(e);
            put(p[1], 300, 0);
            IS(told_of(WAIT, e), EPOLLIN);
            get(p[0], 100, 0);
            for (int i = 0; i < 12; i++) told_of(i % CALLS, e);
            get(p[0], 200, 100);
            rest(e);
            IS(write(s[1], "x", 1), 1);
            if (how == 1) raise(SIGKILL);
            if (how == 2) execl("/bin/true", "true", (char *)0);
            if (how == 3) exit(0);
            _exit(0);
        }
        char x;
        IS(read(s[0], &x, 1), 1);
        IS(reap(c), how == 1 ? SIGKILL : 0);
        pid_t w = child();
        if (!w) {
            close(p[0]);
            put(p[1], 1 << 20, 300);
            _exit(0);
        }
        close(p[1]);
        get(p[0], 1 << 20, 300);
        AT_EOF(p[0]);
        REAP0(w);
        for (int i = 3; i < 9; i++) close(i);
    }
}
/* A thousand pipes, some of which have something: each of those is told, by level and by edge, and no other. */
static void a_thousand_pipes(void) {
    struct rlimit l;
    getrlimit(RLIMIT_NOFILE, &l);
    l.rlim_cur = l.rlim_max;
    setrlimit(RLIMIT_NOFILE, &l);
    many_pipes(l.rlim_max < 2 * MOST + 50 ? ((int)l.rlim_max - 50) / 2 : MOST, 300, 1);
}
MAIN(T(told_again), T(read_beside), T(changed), T(left_behind), T(a_thousand_pipes))
