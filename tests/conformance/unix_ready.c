/* Checks: poll, select and epoll of hot UNIX connections for reading and for writing: what is told when, sleepers, level, edge,
 * one shot, several sets, several processes, one event at a time, a close without EPOLL_CTL_DEL.
 * Does not check: what is told at an end (unix_ends.c) and of a full connection (unix_full.c). */
#define MODES "pair", "path", "abstract", "tcp", "tcp6", "seq-pair"
#include "unix_calls.h"
#include "poll_calls.h"
enum { SOME = 60000 };
static int add(int e, int fd, uint32_t what, uint64_t data) {
    struct epoll_event v = {.events = what, .data.u64 = data};
    return epoll_ctl(e, EPOLL_CTL_ADD, fd, &v);
}
static int mod(int e, int fd, uint32_t what, uint64_t data) {
    struct epoll_event v = {.events = what, .data.u64 = data};
    return epoll_ctl(e, EPOLL_CTL_MOD, fd, &v);
}
enum { DATA = 0x1234567 };
static int set_of(uint32_t what) {
    int e = epoll_create1(EPOLL_CLOEXEC);
    IS(add(e, here->fd, what, DATA), 0);
    return e;
}
/* The events of the one connection that is told, or 0. */
static int told(int e, int ms) {
    struct epoll_event v[4] = {0};
    int n = epoll_wait(e, v, 4, ms);
    CHECK(n == 0 || (n == 1 && v->data.u64 == DATA), "%d entries for one connection", n);
    return n ? (int)v->events : 0;
}
static int C, E; /* the call and the set of a sleeper */
static long awaits(long what) { return await1(C, here->fd, what, -1); }
static long waits_in_set(long none) { return told(E, -1); }
static void each_call(void) {
    meet();
    EACH_CALL(how) {
        C = how;
        IS(await1(how, here->fd, POLLIN, 0), 0);
        IS(await1(how, here->fd, POLLIN, 5), 0);
        IS(await1(how, here->fd, POLLIN | POLLOUT, 0), POLLOUT);
        IS(await1(how, here->fd, POLLOUT, -1), POLLOUT);
        falls_asleep(0, awaits, POLLIN);
        TELL(whole, 100, 100);
        IS(wakes(0), POLLIN);
        IS(await1(how, here->fd, POLLIN | POLLOUT, -1), POLLIN | POLLOUT);
        TELL(sends, SOME, 0);
        takes(100);
        IS(await1(how, here->fd, POLLIN, -1), POLLIN);
        takes(SOME);
        IS(await1(how, here->fd, POLLIN, 0), 0);
    }
}
/* The same for a sleeper that another process is, and two at a time; a signal ends a wait. */
static void sleepers_wake(void) {
    meet();
    handle(SIGUSR1, on, SA_RESTART);
    EACH_CALL(how) {
        pid_t c[2];
        C = how;
        for (int i = 0; i < 2; i++)
            if (!(c[i] = child())) _exit(awaits(POLLIN) == POLLIN ? 0 : 1);
        falls_asleep(0, awaits, POLLIN);
        for (int i = 0; i < 2; i++) wait_asleep(c[i]);
        TELL(whole, 1, 1);
        for (int i = 0; i < 2; i++) REAP0(c[i]);
        IS(wakes(0), POLLIN);
        takes(1);
        falls_asleep(0, awaits, POLLIN);
        IS(interrupts(0), -1);
        IS(errno, EINTR);
        TELL(whole, 1, 1);
        takes(1);
    }
}
/* A read that may wait does not, when poll has said that there are bytes. */
static long sends_slowly(long n) {
    for (long k, i = 0; n; n -= k) {
        whole(k = 1 + i * i % 3000 < n ? 1 + i * i % 3000 : n);
        if (i++ % 3 == 0) sched_yield();
    }
    return 0;
}
static void event_loop(void) {
    for (int how = 0; how < CALLS + 3; how++) {
        static char b[100000];
        meet();
        int e = how < CALLS ? -1 : set_of(how == CALLS + 1 ? EPOLLIN | EPOLLET : EPOLLIN | (how == CALLS + 2) * EPOLLONESHOT);
        no_delay(0);
        ask(sends_slowly, 400000);
        for (long left = 400000, k; left;) {
            IS(e < 0 ? await1(how, here->fd, POLLIN, -1) : told(e, -1), POLLIN);
            int times = 0;
            while (left && (k = read(here->fd, b, how % 2 && type() == SOCK_STREAM ? 700 : 5000)) > 0) {
                same(b, k, here->in);
                here->in += k;
                left -= k;
                times++;
                if (how != CALLS + 1 && times == 2) break;
            }
            CHECK(times, "a read after the event found nothing");
            if (how == CALLS + 2) IS(mod(e, here->fd, EPOLLIN | EPOLLONESHOT, DATA), 0);
        }
        kill_peer();
        close(here->fd);
        close(e);
    }
}
/* LINUX: epoll(7). */
static void level(void) {
    meet();
    E = set_of(EPOLLIN);
    for (int i = 0; i < 3; i++) {
        IS(told(E, 0), 0);
        falls_asleep(0, waits_in_set, 0);
        TELL(sends, SOME, 0);
        IS(wakes(0), EPOLLIN);
        for (int k = 0; k < 3; k++) IS(told(E, 0), EPOLLIN);
        takes(3 * PIECE);
        IS(told(E, -1), EPOLLIN);
        takes(SOME - 3 * PIECE);
        IS(told(E, 0), 0);
        TELL(whole, 1, 1);
        takes(1);
        IS(told(E, 0), 0); /* what was taken before the wait is not told */
    }
}
/* By edge: each write tells anew, also with bytes unread; a read does not; EPOLL_CTL_MOD does. */
static void edge(void) {
    meet();
    E = set_of(EPOLLIN | EPOLLET);
    IS(told(E, 0), 0);
    for (int i = 0; i < 5; i++) {
        TELL(whole, 1000, 1000);
        IS(told(E, 0), EPOLLIN);
        IS(told(E, 0), 0);
    }
    takes(1000);
    IS(told(E, 0), 0);
    IS(mod(E, here->fd, EPOLLIN | EPOLLET, DATA), 0);
    IS(told(E, 0), EPOLLIN);
    IS(told(E, 0), 0);
    falls_asleep(0, waits_in_set, 0);
    TELL(whole, 1, 1);
    IS(wakes(0), EPOLLIN);
    takes(1000);
    IS(told(E, 0), 0);
    for (int i = 0; i < 3; i++) takes(1000);
    takes(1);
    IS(told(E, 5), 0);
    TELL(whole, 1000, 1000);
    takes(1000);
    IS(told(E, 0), 0); /* taken before the wait */
}
static void one_shot(void) {
    meet();
    E = set_of(EPOLLIN | EPOLLONESHOT);
    for (int i = 0; i < 3; i++) {
        falls_asleep(0, waits_in_set, 0);
        TELL(whole, 1000, 1000);
        IS(wakes(0), EPOLLIN);
        TELL(whole, 1000, 1000);
        IS(told(E, 0), 0);
        IS(mod(E, here->fd, EPOLLIN | EPOLLONESHOT, DATA), 0);
        IS(told(E, 0), EPOLLIN);
        IS(told(E, 0), 0);
        takes(1000);
        takes(1000);
        IS(mod(E, here->fd, EPOLLIN | EPOLLONESHOT, DATA), 0);
        IS(told(E, 0), 0);
    }
}
/* Reading and writing in one registration. */
static void both_directions(void) {
    if (is_tcp()) return;
    meet();
    E = set_of(EPOLLIN | EPOLLOUT);
    IS(told(E, 0), EPOLLOUT);
    TELL(whole, 10, 10);
    IS(told(E, 0), EPOLLIN | EPOLLOUT);
    takes(10);
    IS(told(E, 0), EPOLLOUT);
    IS(mod(E, here->fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, DATA), 0);
    IS(told(E, 0), EPOLLOUT);
    IS(told(E, 0), 0);
    falls_asleep(0, waits_in_set, 0);
    TELL(whole, 10, 10);
    IS(wakes(0), EPOLLIN | EPOLLOUT);
    takes(10);
    IS(told(E, 0), 0);
    IS(mod(E, here->fd, 0, DATA), 0);
    TELL(whole, 10, 10);
    IS(told(E, 0), 0);
    takes(10);
    TELL(closes, 0, 0);
    IS(told(E, 0), EPOLLHUP);
}
/* LINUX: epoll_wait(2): with one event at a time, all that is ready is told by turns. */
static void one_at_a_time(void) {
    enum { N = 5 };
    meet_all(N);
    for (int only_some = 0; only_some < 2; only_some++) {
        int e = epoll_create1(EPOLL_CLOEXEC), seen[N] = {0};
        for (int i = 0; i < N; i++) {
            IS(add(e, links[i].fd, EPOLLIN | EPOLLOUT * only_some, i), 0);
            tell(uses, i);
            if (!only_some) TELL(whole, 100 * (i + 1), 100 * (i + 1));
        }
        for (int i = 0; i < 4 * N; i++) {
            struct epoll_event v;
            IS(epoll_wait(e, &v, 1, -1), 1);
            seen[v.data.u64]++;
        }
        for (int i = 0; i < N; i++) CHECK(seen[i] >= 2, "%d of 20 for number %d", seen[i], i);
        if (!only_some) continue;
        for (int i = 0; i < N; i++) {
            uses(i);
            takes(100 * (i + 1));
        }
    }
}
/* Which of many are ready: those, and no others. */
static void many(void) {
    enum { N = 24 };
    unsigned seed = 5;
    meet_all(N);
    int e = epoll_create1(EPOLL_CLOEXEC), size[N] = {0};
    struct epoll_event v[N];
    for (int i = 0; i < N; i++) IS(add(e, links[i].fd, EPOLLIN | (i % 2 ? EPOLLET : 0), i), 0);
    for (int round = 0; round < 200; round++) {
        struct pollfd q[N];
        int some = 0;
        for (int n = 0; n < 3; n++) {
            int i = rand_r(&seed) % N;
            if (size[i]) continue;
            tell(uses, i);
            size[i] = 1 + rand_r(&seed) % 3000;
            TELL(whole, size[i], size[i]);
            some++;
        }
        for (int i = 0; i < N; i++) q[i] = (struct pollfd){links[i].fd, POLLIN, 0};
        IS(await(round % CALLS, q, N, -1), some);
        for (int i = 0; i < N; i++) IS(q[i].revents, size[i] ? POLLIN : 0);
        IS(epoll_wait(e, v, N, -1), some);
        for (int n = 0; n < some; n++) {
            int i = v[n].data.u64;
            IS(v[n].events, EPOLLIN);
            CHECK(size[i], "connection %d has nothing", i);
            uses(i);
            takes(size[i]);
            size[i] = 0;
        }
        IS(epoll_wait(e, v, N, 0), 0);
    }
}
/* One connection in two sets, and a set in a set. */
static void two_sets(void) {
    meet();
    int a = set_of(EPOLLIN), b = set_of(EPOLLIN | EPOLLET), outer = epoll_create1(0);
    IS(add(outer, a, EPOLLIN, DATA), 0);
    for (int i = 0; i < 3; i++) {
        E = i == 0 ? a : i == 1 ? b : outer;
        falls_asleep(0, waits_in_set, 0);
        TELL(whole, 1000, 1000);
        IS(wakes(0), EPOLLIN);
        if (i != 1) IS(told(b, 0), EPOLLIN);
        IS(told(b, 0), 0);
        IS(told(a, 0), EPOLLIN);
        IS(told(outer, 0), EPOLLIN);
        IS(events(outer, POLLIN, 0), POLLIN);
        takes(1000);
        IS(told(a, 0), 0);
        IS(told(outer, 0), 0);
        IS(events(a, POLLIN, 0), 0);
    }
}
/* LINUX: epoll(7): a connection leaves the set with its last number; a child's counts. */
static void closed_without_del(void) {
    meet();
    int *gone = shared(4096);
    int e = set_of(EPOLLIN);
    TELL(whole, 10, 10);
    pid_t c = child();
    if (!c) {
        UNTIL(*gone);
        close(here->fd);
        _exit(0);
    }
    close(here->fd);
    IS(told(e, 0), EPOLLIN);
    TELL(whole, 10, 10);
    IS(told(e, 0), EPOLLIN);
    *gone = 1;
    REAP0(c);
    IS(told(e, 0), 0);
}
static void closed_with_another_number(void) {
    meet();
    int e = set_of(EPOLLIN | EPOLLET), d = dup(here->fd);
    TELL(whole, 10, 10);
    close(here->fd);
    IS(told(e, 0), EPOLLIN);
    TELL(whole, 10, 10);
    IS(told(e, 0), EPOLLIN);
    int reuse = fcntl(e, F_DUPFD, here->fd);
    FAILS(epoll_ctl(e, EPOLL_CTL_DEL, here->fd, 0), reuse == here->fd ? EINVAL : EBADF);
    close(d);
    IS(told(e, 0), 0);
}
/* By two numbers of one connection, each with its data. */
static void two_numbers(void) {
    meet();
    int e = epoll_create1(0), d = dup(here->fd);
    struct epoll_event v[4];
    IS(add(e, here->fd, EPOLLIN, 1), 0);
    IS(add(e, d, EPOLLIN, 2), 0);
    FAILS(add(e, d, EPOLLIN, 3), EEXIST);
    TELL(whole, 10, 10);
    IS(epoll_wait(e, v, 4, -1), 2);
    IS(v[0].data.u64 + v[1].data.u64, 3);
    IS(epoll_ctl(e, EPOLL_CTL_DEL, d, 0), 0);
    IS(epoll_wait(e, v, 4, -1), 1);
    IS(v[0].data.u64, 1);
    takes(10);
}
/* A set is used by a child too, and by several threads at a time: each event goes to one at least. */
static void in_a_child(void) {
    meet();
    E = set_of(EPOLLIN);
    for (int i = 0; i < 3; i++) {
        pid_t c = child();
        if (!c) {
            IS(told(E, -1), EPOLLIN);
            takes(1000);
            _exit(0);
        }
        wait_asleep(c);
        TELL(whole, 1000, 1000);
        REAP0(c);
        here->in += 1000;
        IS(told(E, 0), 0);
    }
}
/* Another process takes the bytes of a connection that this one watches. */
static void taken_by_another(void) {
    meet();
    int by_level = set_of(EPOLLIN);
    E = set_of(EPOLLIN | EPOLLET);
    for (int i = 0; i < 5; i++) {
        falls_asleep(0, waits_in_set, 0);
        TELL(whole, 1000, 1000);
        IS(wakes(0), EPOLLIN);
        if (i % 2) TELL(whole, 1000, 1000);
        pid_t c = child();
        if (!c) {
            takes(1000);
            if (i % 2) takes(1000);
            _exit(0);
        }
        REAP0(c);
        here->in += i % 2 ? 2000 : 1000;
        IS(told(E, 0), 0);
        IS(told(by_level, 0), 0);
        IS(events(here->fd, POLLIN, 0), 0);
    }
}
/* Sleepers of every kind at a time: one message wakes all. */
static void poll_and_epoll(void) {
    meet();
    E = set_of(EPOLLIN | EPOLLET);
    C = POLL;
    for (int i = 0; i < 5; i++) {
        falls_asleep(0, awaits, POLLIN);
        falls_asleep(1, waits_in_set, 0);
        pid_t c = child();
        if (!c) _exit(await1(SELECT, here->fd, POLLIN, -1) != POLLIN);
        wait_asleep(c);
        TELL(whole, 1000, 1000);
        IS(wakes(0), POLLIN);
        IS(wakes(1), EPOLLIN);
        REAP0(c);
        takes(1000);
    }
}
static long waits_and_takes_one(long none) { /* a thread of a pool: one message, by one shot */
    int n = 0;
    char b[1000];
    for (;; n++) {
        IS(told(E, -1), EPOLLIN);
        ssize_t k = read(here->fd, b, 1000);
        if (k == 1) return n;
        /* A segment of TCP ends where it likes. */
        while (is_tcp() && k > 0 && k < 1000) k += read(here->fd, b, 1000 - k);
        IS(k, 1000);
        IS(mod(E, here->fd, EPOLLIN | EPOLLONESHOT, DATA), 0);
    }
}
static long sends_thousands(long n) {
    for (long i = 0; i < n; i++) whole(1000);
    return 0;
}
static void pool_of_threads(void) {
    long all = 0;
    meet();
    E = set_of(EPOLLIN | EPOLLONESHOT);
    for (int i = 0; i < 3; i++) falls_asleep(i, waits_and_takes_one, 0);
    TELL(sends_thousands, 50, 0);
    ask(sends_thousands, 300);
    answer();
    UNTIL(!unread());
    for (int i = 0; i < 3; i++) {
        TELL(whole, 1, 1);
        UNTIL(__atomic_load_n(&sleepers[0].done, 0) + __atomic_load_n(&sleepers[1].done, 0) +
                  __atomic_load_n(&sleepers[2].done, 0) ==
              i + 1);
        IS(mod(E, here->fd, EPOLLIN | EPOLLONESHOT, DATA), 0);
    }
    for (int i = 0; i < 3; i++) all += wakes(i);
    IS(all, 350);
}
/* LINUX: epoll_ctl(2): EPOLLEXCLUSIVE: of the sets of several processes one at least is told. */
static void exclusive(void) {
    meet();
    int *woken = shared(4096);
    pid_t c[3];
    for (int i = 0; i < 3; i++)
        if (!(c[i] = child())) {
            int e = epoll_create1(0);
            IS(add(e, here->fd, EPOLLIN | EPOLLEXCLUSIVE, DATA), 0);
            IS(told(e, -1), EPOLLIN);
            __sync_fetch_and_add(woken, 1);
            _exit(0);
        }
    for (int i = 0; i < 3; i++) wait_asleep(c[i]);
    TELL(whole, 10, 10);
    UNTIL(*(volatile int *)woken >= 1);
    TELL(whole, 10, 10);
    TELL(whole, 10, 10);
    UNTIL(*(volatile int *)woken == 3);
    for (int i = 0; i < 3; i++) REAP0(c[i]);
}
/* Bytes that came before the registration, and a registration while hot bytes come. */
static void registered_late(void) {
    meet();
    TELL(sends, SOME, 0);
    E = set_of(EPOLLIN | EPOLLET);
    IS(told(E, -1), EPOLLIN);
    IS(epoll_ctl(E, EPOLL_CTL_DEL, here->fd, 0), 0);
    IS(told(E, 0), 0);
    IS(add(E, here->fd, EPOLLIN | EPOLLET, DATA), 0);
    IS(told(E, -1), EPOLLIN);
    takes(SOME);
    IS(told(E, 0), 0);
    IS(epoll_ctl(E, EPOLL_CTL_DEL, here->fd, 0), 0);
    falls_asleep(0, waits_in_set, 0);
    TELL(whole, 100, 100);
    still_asleep(0);
    IS(add(E, here->fd, EPOLLIN, DATA), 0);
    IS(wakes(0), EPOLLIN);
}
/* A registration from before the connection was hot. */
static void registered_cold(void) {
    joins(1);
    E = set_of(EPOLLIN | EPOLLET);
    heats(1);
    told(E, 0);
    IS(told(E, 0), 0);
    for (int i = 0; i < 5; i++) {
        falls_asleep(0, waits_in_set, 0);
        TELL(whole, 1000, 1000);
        IS(wakes(0), EPOLLIN);
        takes(1000);
        IS(told(E, 0), 0);
    }
}
/* LINUX: sockets: a poll for no event tells of ends alone. */
static void no_event(void) {
    meet();
    TELL(whole, 10, 10);
    IS(events(here->fd, 0, 0), 0);
    IS(events(here->fd, POLLRDHUP, 0), 0);
    IS(events(here->fd, POLLPRI, 0), 0);
    IS(events(here->fd, POLLRDNORM | POLLWRNORM, 0), POLLRDNORM | POLLWRNORM);
    takes(10);
    IS(events(here->fd, POLLRDNORM | POLLWRNORM, 0), POLLWRNORM);
}
UNIX_MAIN(T(each_call), T(sleepers_wake), T(event_loop), T(level), T(edge), T(one_shot),
          T(both_directions), T(one_at_a_time), T(many), T(two_sets), T(closed_without_del), T(closed_with_another_number),
          T(two_numbers), T(in_a_child), T(taken_by_another), T(poll_and_epoll), T(pool_of_threads), T(exclusive),
          T(registered_late), T(registered_cold), T(no_event))
