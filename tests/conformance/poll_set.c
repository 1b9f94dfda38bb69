/* Checks: poll, ppoll, select and pselect6 that sleep for several descriptors, or beside other waiters and readers of the
 * same pipe: each is told what is so, nobody is forgotten, no byte is lost. Does not check: what one waiter of one pipe
 * sees (poll_wait.c), streams (poll_stream.c). */
#include "check.h"
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include "poll_calls.h"
static volatile int *S;
/* Others beside two pipes: whichever becomes ready wakes the call, and it alone is told. */
enum { PIPE_A, PIPE_B, SOCKET, EVENT, TIMER, SIGNAL, OTHERS };
static void rouse(int k, int *a, int *b, int *s, int *e, int *t, pid_t c) {
    static const uint64_t one = 1;
    static const struct itimerspec soon = {.it_value = {0, 1000000}};
    if (k == PIPE_A) put(a[1], 1, 0);
    if (k == PIPE_B) put(b[1], 1, 0);
    if (k == SOCKET) write(s[1], "x", 1);
    if (k == EVENT) write(*e, &one, 8);
    if (k == TIMER) timerfd_settime(*t, 0, &soon, 0);
    if (k == SIGNAL) kill(c, SIGUSR1);
}
static void a_mixed_set(void) {
    EACH_CALL(how) {
        int a[2], b[2], s[2], e = eventfd(0, EFD_NONBLOCK), t = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
        mkpipe(a);
        mkpipe(b);
        S = shared(4096);
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s), "socketpair");
        pid_t c = child();
        if (!c) {
            sigset_t m;
            sigemptyset(&m);
            sigaddset(&m, SIGUSR1);
            sigprocmask(SIG_BLOCK, &m, 0);
            int f = signalfd(-1, &m, SFD_NONBLOCK);
            struct pollfd q[OTHERS] = {{a[0], POLLIN}, {b[0], POLLIN}, {s[0], POLLIN}, {e, POLLIN}, {t, POLLIN}, {f, POLLIN}};
            char x[200];
            S[0] = 1;
            for (int i = 0; i < 2 * OTHERS; i++) {
                IS(await(how, q, OTHERS, -1), 1);
                for (int k = 0; k < OTHERS; k++)
                    if ((q[k].revents != 0) != (k == i % OTHERS)) failed(__LINE__, "turn %d, entry %d: 0x%x", i, k, q[k].revents);
                CHECK(read(q[i % OTHERS].fd, x, sizeof x) > 0, "turn %d: ready, and read failed", i);
                IS(await(how, q, OTHERS, 0), 0);
                S[0] = i + 2;
            }
            _exit(0);
        }
        for (int i = 0; i < 2 * OTHERS; i++) {
            UNTIL(S[0] == i + 1);
            wait_asleep(c);
            rouse(i % OTHERS, a, b, s, &e, &t, c);
        }
        REAP0(c);
        for (int i = 3; i < 20; i++) close(i);
    }
}
/* A pipe that always has bytes keeps nobody from being told in the very next call. */
static void nobody_starves(void) {
    EACH_CALL(how) {
        int a[2], b[2], s[2], o[2];
        mkpipe(a);
        mkpipe(b);
        mkpipe(o);
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s), "socketpair");
        put(a[1], 1000, 0);
        struct pollfd q[] = {{a[0], POLLIN}, {b[0], POLLIN}, {s[0], POLLIN}, {o[1], POLLOUT}};
        for (int i = 0; i < 200; i++) {
            char x;
            if (i % 3 == 1) put(b[1], 1, i);
            if (i % 3 == 2) write(s[1], "x", 1);
            IS(await(how, q, 4, i % 2 ? -1 : 15000), 2 + (i % 3 > 0));
            IS(q[0].revents, POLLIN);
            IS(q[1].revents, i % 3 == 1 ? POLLIN : 0);
            IS(q[2].revents, i % 3 == 2 ? POLLIN : 0);
            IS(q[3].revents, POLLOUT);
            if (i % 3 == 1) get(b[0], 1, i);
            if (i % 3 == 2) read(s[0], &x, 1);
            get(a[0], 10, 10 * i);
            put(a[1], 10, 1000 + 10 * i);
        }
        for (int i = 3; i < 12; i++) close(i);
    }
}
/* One descriptor several times, a duplicate, both ends, and entries that count for nothing. */
static void entries_that_repeat(void) {
    for (int how = POLL; how <= PPOLL; how++) {
        int p[2];
        mkpipe(p);
        int d = dup(p[0]);
        size_t n = fill_up(p[1], 0);
        get(p[0], n, 0);
        setfl(p[1], O_NONBLOCK, 0);
        pid_t c = child();
        if (!c) {
            struct pollfd q[] = {{p[0], POLLIN}, {-1, POLLIN, 5}, {p[0], 0}, {d, POLLIN}, {p[0], POLLIN | POLLRDNORM},
                                 {~p[0], POLLIN, 5}};
            IS(how == POLL ? poll(q, 6, -1) : ppoll(q, 6, 0, 0), 3);
            static const short WANT[] = {POLLIN, 0, 0, POLLIN, POLLIN | POLLRDNORM, 0};
            for (int i = 0; i < 6; i++) IS(q[i].revents, WANT[i]);
            struct pollfd both[] = {{p[0], POLLIN | POLLOUT}, {p[1], POLLIN | POLLOUT}};
            IS(how == POLL ? poll(both, 2, -1) : ppoll(both, 2, 0, 0), 2);
            IS(both[0].revents, POLLIN);
            IS(both[1].revents, POLLOUT);
            get(d, 9, 0);
            _exit(0);
        }
        wait_asleep(c);
        put(p[1], 9, 0);
        REAP0(c);
        close(p[0]);
        close(p[1]);
        close(d);
    }
}
/* One set of many pipes: a byte in any of them wakes the call, and that one alone is told. */
enum { MANY = 130 };
static void many_pipes(void) {
    static const int NUMBERS[] = {1, 7, 8, 32, 33, 129};
    int p[MANY][2];
    for (int i = 0; i < MANY; i++) {
        if (i % 16 == 0)
            mkpipe(p[i]);
        else
            CHECK(!pipe(p[i]), "pipe");
    }
    S = shared(4096);
    EACH_CALL(how) for (int k = 0; k < 6; k++) {
        int n = NUMBERS[k];
        S[0] = 0;
        pid_t c = child();
        if (!c) {
            struct pollfd q[MANY];
            for (int i = 0; i < n; i++) q[i] = (struct pollfd){p[i][0], POLLIN, 9};
            for (int turn = 0; turn < 4; turn++) {
                int at = (turn * 48 + 16 * k) % n;
                IS(await(how, q, n, -1), 1);
                for (int i = 0; i < n; i++)
                    if ((q[i].revents != 0) != (i == at)) failed(__LINE__, "of %d, entry %d: 0x%x", n, i, q[i].revents);
                get(p[at][0], 3, turn);
                S[0] = turn + 1;
            }
            _exit(0);
        }
        for (int turn = 0; turn < 4; turn++) {
            UNTIL(S[0] == turn);
            wait_asleep(c);
            put(p[(turn * 48 + 16 * k) % n][1], 3, turn);
        }
        REAP0(c);
    }
}
/* LINUX select(2): a set may be longer than an fd_set where the program gives it the memory. */
static void high_descriptors(void) {
    struct rlimit l;
    int p[2];
    mkpipe(p);
    getrlimit(RLIMIT_NOFILE, &l);
    l.rlim_cur = l.rlim_max < 4096 ? l.rlim_max : 4096;
    if (l.rlim_cur < 2100 || setrlimit(RLIMIT_NOFILE, &l)) return;
    int high = fcntl(p[0], F_DUPFD, 2000);
    CHECK(high >= 2000, "F_DUPFD");
    close(p[0]);
    for (int how = 0; how < 3; how++) {
        uint64_t sets[64] = {0};
        struct pollfd q = {high, POLLIN, 0};
        pid_t c = child();
        if (!c) {
            sets[high / 64] = 1ull << high % 64;
            if (how == 0) IS(syscall(SYS_select, high + 1, sets, 0, 0, 0), 1);
            if (how == 1) IS(syscall(SYS_pselect6, high + 1, sets, 0, 0, 0, 0), 1);
            if (how == 2) IS(poll(&q, 1, -1), 1);
            if (how < 2) CHECK(sets[high / 64] >> high % 64 & 1, "the bit");
            get(high, 100, 0);
            _exit(0);
        }
        wait_asleep(c);
        put(p[1], 100, 0);
        REAP0(c);
    }
}
/* A change of one pipe wakes every call that waits for it, whoever makes it; none takes the bytes. */
static void *one_of_them(void *a) {
    int how = (int)(intptr_t)a % CALLS, fd = (int)(intptr_t)a / CALLS;
    IS(await1(how, fd, POLLIN, -1), POLLIN);
    __sync_fetch_and_add(&S[0], 1);
    return 0;
}
static void all_sleepers_are_told(void) {
    for (int threads = 0; threads < 2; threads++) {
        int p[2], n = CALLS + 2, d;
        pid_t c[CALLS + 2];
        pthread_t t[CALLS + 2];
        mkpipe(p);
        d = dup(p[0]);
        S = shared(4096);
        for (int i = 0; i < n; i++) {
            intptr_t a = (i % 2 ? d : p[0]) * CALLS + i % CALLS;
            if (threads)
                pthread_create(&t[i], 0, one_of_them, (void *)a);
            else if (!(c[i] = child())) {
                one_of_them((void *)a);
                _exit(0);
            }
        }
        for (int i = 0; i < n && !threads; i++) wait_asleep(c[i]);
        if (threads) sleep_ms(20);
        put(p[1], 1, 0);
        for (int i = 0; i < n; i++)
            if (threads)
                pthread_join(t[i], 0);
            else
                REAP0(c[i]);
        IS(S[0], n);
        get(p[0], 1, 0);
        n = holds() < 65536 ? 1000 : 60000;
        put(p[1], n, 1);
        get(d, n, 1);
    }
}
/* One sleeps in read(2), another in a call that waits, in either order: the read takes its bytes, the other is told of
 * what it finds. */
static void beside_a_sleeping_read(void) {
    EACH_CALL(how) for (int first = 0; first < 2; first++) {
        int p[2];
        pid_t r = 0, w = 0;
        mkpipe(p);
        S = shared(4096);
        for (int i = 0; i < 2; i++) {
            if (i != first && !(r = child())) {
                get(p[0], 3, 0);
                S[1] = 1;
                _exit(0);
            }
            if (i == first && !(w = child())) {
                while (!S[0]) IS(await1(how, p[0], POLLIN, -1), POLLIN);
                IS(await1(how, p[0], POLLIN, -1), POLLIN);
                get(p[0], 5000, 3);
                _exit(0);
            }
            wait_asleep(i == first ? w : r);
        }
        put(p[1], 3, 0);
        REAP0(r);
        IS(S[1], 1);
        S[0] = 1;
        put(p[1], 5000, 3);
        REAP0(w);
        close(p[0]);
        close(p[1]);
    }
}
/* One thread only waits; another reads what a third place writes: every read finds what was written, and the last byte,
 * which nobody reads, wakes the waiter. */
static int watched;
static void *watches(void *how) {
    do
        IS(await1((int)(intptr_t)how, watched, POLLIN, -1), POLLIN);
    while (!S[0]);
    return 0;
}
static void read_by_another_thread(void) {
    EACH_CALL(how) {
        int p[2];
        pthread_t t;
        mkpipe(p);
        S = shared(4096);
        watched = p[0];
        setfl(p[0], O_NONBLOCK, 0);
        pthread_create(&t, 0, watches, (void *)(intptr_t)how);
        size_t at = 0;
        for (int i = 0; i < 2000; i++) {
            size_t n = 1 + i % 7 * 700;
            put(p[1], n, at);
            get(p[0], n, at);
            at += n;
            char x;
            FAILS(read(p[0], &x, 1), EAGAIN);
        }
        S[0] = 1;
        put(p[1], 1, at);
        pthread_join(t, 0);
        get(p[0], 1, at);
        close(p[0]);
        close(p[1]);
    }
}
/* LINUX do_poll, do_select: a call that was woken looks the number up again. Then it may be closed, or another file's. */
static void *looks_again(void *how) {
    S[0] = tid();
    int e = await1((int)(intptr_t)how, watched, POLLIN, -1);
    CHECK(e == POLLIN || (e < 0 && errno == EBADF), "0x%x", e);
    return 0;
}
static void closed_under_the_waiter(void) {
    EACH_CALL(how) for (int anew = 0; anew < 2; anew++) {
        int p[2], q[2];
        pthread_t w;
        mkpipe(p);
        CHECK(!pipe(q), "pipe"); /* cold: what is put under a waiter anew is the kernel's (docs/compatibility.md) */
        int d = dup(p[0]);
        S = shared(4096);
        watched = p[0];
        put(q[1], 10, 0);
        pthread_create(&w, 0, looks_again, (void *)(intptr_t)how);
        UNTIL(S[0]);
        wait_asleep(S[0]);
        if (anew)
            dup2(q[0], p[0]);
        else
            close(p[0]);
        put(p[1], 40, 0);
        pthread_join(w, 0);
        get(d, 40, 0);
        get(anew ? p[0] : q[0], 10, 0);
        for (int i = 3; i < 12; i++) close(i);
    }
}
/* Readers and writers that come and go by fork, while one waits for all: it ends with the last of them. */
static void writers_that_come_and_go(void) {
    EACH_CALL(how) {
        int p[2];
        char b[64];
        mkpipe(p);
        pid_t c = child();
        if (!c) {
            close(p[0]);
            for (int i = 0; i < 20; i++) {
                pid_t w = child();
                if (!w) {
                    put(p[1], 8 + i % 3 * 2000, 0);
                    _exit(0);
                }
                REAP0(w);
            }
            _exit(0);
        }
        close(p[1]);
        for (int i = 0; i < 20; i++) {
            IS(await1(how, p[0], POLLIN, -1), POLLIN);
            get(p[0], 8 + i % 3 * 2000, 0);
        }
        IS(await1(how, p[0], POLLIN, -1), POLLIN);
        AT_EOF(p[0]);
        REAP0(c);
        close(p[0]);
    }
}
/* Both sides of a pipe sleep in a call at once, each with a second pipe between them; each is woken in turn. */
static void turns(void) {
    EACH_CALL(how) {
        int to[2], from[2];
        mkpipe(to);
        mkpipe(from);
        enum { TURNS = 1500 };
        pid_t c = child();
        if (!c) {
            close(to[1]);
            close(from[0]);
            struct pollfd q[] = {{to[0], POLLIN}, {from[1], POLLOUT}};
            for (int i = 0; i < TURNS; i++) {
                IS(await(how, q, 1, -1), 1);
                get(to[0], 1 + i % 5 * 100, i);
                IS(await(how, q + 1, 1, -1), 1);
                put(from[1], 1 + i % 3 * 100, i);
            }
            IS(await(how, q, 1, -1), 1);
            IS(await(how, q, 2, -1), 2);
            AT_EOF(to[0]);
            _exit(0);
        }
        close(to[0]);
        close(from[1]);
        for (int i = 0; i < TURNS; i++) {
            put(to[1], 1 + i % 5 * 100, i);
            IS(await1(how, from[0], POLLIN, -1), POLLIN);
            get(from[0], 1 + i % 3 * 100, i);
        }
        close(to[1]);
        IS(await1(how, from[0], POLLIN, -1), POLLIN);
        AT_EOF(from[0]);
        REAP0(c);
        close(from[0]);
    }
}
MAIN(T(a_mixed_set), T(nobody_starves), T(entries_that_repeat), T(many_pipes), T(high_descriptors), T(all_sleepers_are_told),
     T(beside_a_sleeping_read), T(read_by_another_thread), T(closed_under_the_waiter), T(writers_that_come_and_go), T(turns))
