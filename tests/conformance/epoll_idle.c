/* Checks: pipes that a set has waited for in vain, many times: they are told when something comes, read by every other way
 * beside the set, taken out, changed (also while a thread sleeps in the set), and left behind by a process that ends.
 * Does not check: sets that are reached in more than one way (epoll_sets.c), sleepers (epoll_wait.c). */
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
/* A thread sleeps in a set whose one pipe is idle, or that has none, while another one does something to the set. */
static struct sleeper {
    pthread_t thread;
    int id, how, e, n;
    struct epoll_event v;
} sleeper;
static void *sleeps(void *of) {
    struct sleeper *s = of;
    __atomic_store_n(&s->id, tid(), __ATOMIC_RELEASE);
    s->n = waits(s->how, s->e, &s->v, 1, 10000, 0);
    return 0;
}
static void wakes(int data, unsigned events) {
    pthread_join(sleeper.thread, 0);
    IS(sleeper.n, 1);
    IS(sleeper.v.data.u64, data);
    IS(sleeper.v.events, events);
}
enum { ADD_FULL, ADD_EMPTY, MANY, WITH_PIPE, WRITE = WITH_PIPE, TO_EDGE, OUT_AND_IN, READ, DUP, CHILD, DEEDS };
static void slept_in(int how, int deed, int has_pipe) {
    int p[2], q[2], many[8][2], d, t, e = set();
    mkpipe(q);
    if (has_pipe)
        mkpipe(p);
    else
        CHECK((p[0] = eventfd(0, EFD_CLOEXEC)) >= 0, "eventfd");
    CHECK((t = eventfd(1, EFD_CLOEXEC)) >= 0, "eventfd");
    add(e, p[0], EPOLLIN, 7);
    add(e, t, EPOLLIN, TICK);
    rest(e);
    del(e, t);
    sleeper = (struct sleeper){.how = how, .e = e};
    CHECK(!pthread_create(&sleeper.thread, 0, sleeps, &sleeper), "thread");
    UNTIL(__atomic_load_n(&sleeper.id, __ATOMIC_ACQUIRE));
    wait_asleep(sleeper.id);
    switch (deed) {
    case ADD_FULL:
        put(q[1], 300, 0);
        add(e, q[0], EPOLLIN, 8);
        return wakes(8, EPOLLIN);
    case ADD_EMPTY:
        add(e, q[0], EPOLLIN | EPOLLET, 8);
        put(q[1], 300, 0);
        return wakes(8, EPOLLIN);
    case TO_EDGE: mod(e, p[0], EPOLLIN | EPOLLET, 7); break;
    case OUT_AND_IN:
        del(e, p[0]);
        put(p[1], 300, 0);
        sleep_ms(5);
        IS(sleeper.n, 0);
        add(e, p[0], EPOLLIN | EPOLLONESHOT, 9);
        return wakes(9, EPOLLIN);
    case READ:
        setfl(p[0], O_NONBLOCK, 0);
        FAILS(read(p[0], &d, 1), EAGAIN);
        break;
    case DUP:
        d = dup(p[0]);
        close(p[0]);
        put(p[1], 300, 0);
        wakes(7, EPOLLIN);
        return get(d, 300, 0);
    case CHILD: {
        pid_t c = child();
        if (!c) _exit(0);
        REAP0(c);
        break;
    }
    case MANY:
        for (int i = 0; i < 8; i++) {
            mkpipe(many[i]);
            add(e, many[i][0], EPOLLIN, 20 + i);
        }
        del(e, p[0]);
        put(many[5][1], 300, 0);
        return wakes(25, EPOLLIN);
    }
    put(p[1], 300, 0);
    wakes(7, EPOLLIN);
    get(p[0], 300, 0);
}
static void slept_beside(void) {
    EACH_CALL(how) for (int k = 0; k < DEEDS + WITH_PIPE; k++) {
        slept_in(how, k % DEEDS, k < DEEDS);
        for (int i = 3; i < 40; i++) close(i);
    }
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
MAIN(T(told_again), T(read_beside), T(changed), T(slept_beside), T(left_behind), T(a_thousand_pipes))
