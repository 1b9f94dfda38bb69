/* Checks: sets that are reached in more than one way: by another number, another process, a handler, from a set that grew;
 * and calls that are left in the middle. Does not check: what one loop sees (epoll_rules.c), sleepers (epoll_wait.c). */
#include "check.h"
#include "epoll_calls.h"
#include "passing.h"
static volatile int *S;
/* A pipe that was put in by one number is told by the other, whichever was there first. */
static void by_another_number(void) {
    for (int how = 0; how < 4; how++) for (int first = 0; first < 2; first++) {
        int p[2], e = set(), d = -1;
        mkpipe(p);
        if (first) add(e, p[0], EPOLLIN, 1);
        if (how == 0) d = dup(e);
        if (how == 1) d = fcntl(e, F_DUPFD, 50);
        if (how == 2) d = fcntl(e, F_DUPFD_CLOEXEC, 60);
        if (how == 3) IS(d = dup2(e, 70), 70);
        if (!first) add(how % 2 ? d : e, p[0], EPOLLIN, 1);
        for (int i = 0; i < 5; i++) {
            put(p[1], 10, 10 * i);
            IS(told(i % CALLS, d, 0), EPOLLIN);
            IS(told(i % CALLS, e, 0), EPOLLIN);
            get(p[0], 10, 10 * i);
            IS(told(i % CALLS, d, 0), 0);
        }
        del(d, p[0]);
        put(p[1], 10, 50);
        IS(told(WAIT, e, 0), 0);
        close(e);
        IS(told(WAIT, d, 0), 0);
        for (int i = 3; i < 75; i++) close(i);
    }
}
/* Another process waits: for a set that it got by a socket, or inherited, before it had its first pipe and after that. */
static void by_another_process(void) {
    for (int passed = 0; passed < 2; passed++) for (int first = 0; first < 2; first++) {
        int p[2], s[2], e = set(), fd = -1;
        mkpipe(p);
        S = shared(4096);
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s), "socketpair");
        if (first) add(e, p[0], EPOLLIN, 1);
        pid_t c = child();
        if (!c) {
            if (passed) close(e);
            fd = passed ? takes_passed(s[0]) : e;
            for (int i = 0; i < 5; i++) {
                S[0] = i + 1;
                IS(told(i % CALLS, fd, -1), EPOLLIN);
                get(p[0], 10, 10 * i);
            }
            _exit(0);
        }
        if (passed) passes(s[1], e);
        UNTIL(S[0] == 1);
        wait_asleep(c);
        if (!first) add(e, p[0], EPOLLIN, 1);
        for (int i = 0; i < 5; i++) {
            UNTIL(S[0] == i + 1);
            put(p[1], 10, 10 * i);
        }
        REAP0(c);
        IS(told(WAIT, e, 0), 0);
        for (int i = 3; i < 12; i++) close(i);
    }
}
/* A program that posix_spawn starts waits for the set, to which its parent adds a pipe later. `spawned` is this program. */
static void spawned(void) {
    if (!getenv("SET")) return;
    int e = atoi(getenv("SET")), r = atoi(getenv("END"));
    for (int i = 0; i < 5; i++) {
        IS(told(WAIT, e, -1), EPOLLIN);
        get(r, 10, 10 * i);
    }
}
static void by_a_spawned_program(void) {
    extern char **environ;
    for (int first = 0; first < 2; first++) {
        int p[2], e = epoll_create1(0);
        char a[20], b[20];
        pid_t c;
        mkpipe(p);
        if (first) add(e, p[0], EPOLLIN, 1);
        sprintf(a, "%d", e);
        sprintf(b, "%d", p[0]);
        setenv("SET", a, 1);
        setenv("END", b, 1);
        posix_spawn_file_actions_t f;
        posix_spawn_file_actions_init(&f);
        posix_spawn_file_actions_addopen(&f, 1, "/dev/null", O_WRONLY, 0);
        IS(posix_spawn(&c, "/proc/self/exe", &f, 0, (char *[]){"epoll_sets", "spawned", 0}, environ), 0);
        if (first) wait_asleep(c);
        if (!first) add(e, p[0], EPOLLIN, 1);
        for (int i = 0; i < 5; i++) {
            put(p[1], 10, 10 * i);
            wait_asleep(c);
        }
        REAP0(c);
        close(e);
        close(p[0]);
        close(p[1]);
    }
}
/* More pipes than one call is likely to look at by itself: each that has bytes is told, and no other. */
static void a_hundred_pipes(void) { many_pipes(100, 200, 0); }
static void thirty_sets(void) {
    enum { SETS = 30 };
    int p[SETS][2], e[SETS];
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < SETS; i++) {
            if (i)
                CHECK(!pipe(p[i]), "pipe");
            else
                mkpipe(p[i]);
            e[i] = set_of(p[i][0], EPOLLIN);
        }
        for (int i = 0; i < 10 * SETS; i++) {
            int k = i % SETS;
            IS(told(i % CALLS, e[k], 0), 0);
            put(p[k][1], 10, i / SETS * 10);
            IS(told(i % CALLS, e[k], -1), EPOLLIN);
            get(p[k][0], 10, i / SETS * 10);
        }
        for (int i = 0; i < SETS; i++) {
            close(e[i]); /* the numbers are pipes' and sets' again in the next turn */
            close(p[i][0]);
            close(p[i][1]);
        }
    }
}
/* A handler over a sleeping call that leaves it by a jump, or waits for the same set itself. */
static sigjmp_buf out;
static int e_of_handler, r_of_handler;
static void jumps(int s) { siglongjmp(out, 1); }
static void takes(int s) {
    if (told(WAIT, e_of_handler, 0) == EPOLLIN) get(r_of_handler, 10, 0);
    hits++;
}
static void handlers(void) {
    for (int leaves = 0; leaves < 2; leaves++) for (int i = 0; i < 3; i++) {
        int p[2];
        mkpipe(p);
        pid_t c = child();
        if (!c) {
            close(p[1]);
            int e = e_of_handler = set_of(r_of_handler = p[0], EPOLLIN);
            handle(SIGUSR1, leaves ? jumps : takes, SA_RESTART);
            if (leaves) {
                if (!sigsetjmp(out, 1)) {
                    told(i, e, -1);
                    _exit(2);
                }
            } else
                FAILS(told(i, e, -1), EINTR);
            for (int n = 0; n < 3; n++) {
                IS(told(n, e, -1), EPOLLIN);
                get(p[0], 10, 10 * n);
            }
            while (told(WAIT, e, -1) != EPOLLHUP);
            _exit(0);
        }
        wait_asleep(c);
        kill(c, SIGUSR1);
        for (int n = 0; n < 3; n++) {
            wait_asleep(c);
            put(p[1], 10, 10 * n);
        }
        wait_asleep(c);
        close(p[1]);
        REAP0(c);
        close(p[0]);
    }
}
/* A thread that is cancelled in its wait; another one goes on with the set. */
static void *waits_long(void *e) {
    told(WAIT, (int)(intptr_t)e, -1);
    return 0;
}
static void a_cancelled_thread(void) {
    int p[2];
    mkpipe(p);
    int e = set_of(p[0], EPOLLIN);
    for (int i = 0; i < 5; i++) {
        pthread_t t;
        void *how;
        pthread_create(&t, 0, waits_long, (void *)(intptr_t)e);
        sleep_ms(5);
        pthread_cancel(t);
        pthread_join(t, &how);
        CHECK(how == PTHREAD_CANCELED, "it came back");
        put(p[1], 10, 10 * i);
        IS(told(i % CALLS, e, -1), EPOLLIN);
        get(p[0], 10, 10 * i);
        IS(told(i % CALLS, e, 0), 0);
    }
}
/* Asked of the wrong end: a write end is never readable, and a read end never writable. asyncio asks so, to learn of the end. */
static void asked_of_the_other_end(void) {
    int p[2];
    mkpipe(p);
    int w = set_of(p[1], EPOLLIN), r = set_of(p[0], EPOLLOUT), o = set_of(p[1], EPOLLIN | EPOLLOUT);
    size_t at = 0;
    for (int i = 0; i < 20; i++) {
        size_t n = i % 2 ? 10 : 5000;
        put(p[1], n, at);
        IS(told(i % CALLS, w, 0), 0);
        IS(told(i % CALLS, r, 0), 0);
        IS(told(i % CALLS, w, 1), 0);
        IS(told(i % CALLS, r, 1), 0);
        if (holds() >= 65536) IS(told(i % CALLS, o, 0), EPOLLOUT);
        get(p[0], n, at);
        at += n;
    }
    fill_up(p[1], at);
    IS(told(WAIT, o, 0), 0);
    IS(told(WAIT, o, 5), 0);
    close(p[0]);
    IS(told(WAIT, w, -1), EPOLLERR);
}
/* The last writer of `r` has closed. A run's service may have a FIFO open for a moment (docs/fifo.md). */
static void has_ended(int r) {
    if (fifos()) UNTIL(events(r, POLLIN, 0) & POLLHUP);
}
/* Bytes and the end are one entry, and so are room and the loss of the last reader, with room for one and for more. */
static void ends_beside_bytes(void) {
    for (int most = 1; most < 4; most++) {
        int p[2], q[2], o[2], e = set();
        struct epoll_event v[4];
        mkpipe(p);
        mkpipe(q);
        mkpipe(o);
        add(e, p[0], EPOLLIN, 1);
        put(p[1], 100, 0);
        IS(waits(WAIT, e, v, most, -1, 0), 1);
        IS(v[0].events, EPOLLIN);
        close(p[1]);
        has_ended(p[0]);
        for (int i = 0; i < 4; i++) {
            IS(waits(i % CALLS, e, v, most, -1, 0), 1);
            IS(v[0].events, EPOLLIN | EPOLLHUP);
        }
        add(e, q[0], EPOLLIN, 2);
        put(q[1], 100, 0);
        for (int i = 0, seen = 0; i < 4; i++) {
            IS(waits(i % CALLS, e, v, most, -1, 0), most > 1 ? 2 : 1);
            seen |= 1 << v[0].data.u64 | (most > 1 ? 1 << v[1].data.u64 : 0);
            if (i > 1) IS(seen, 6);
        }
        get(p[0], 100, 0);
        get(q[0], 100, 0);
        IS(waits(WAIT, e, v, most, -1, 0), 1);
        IS(v[0].events, EPOLLHUP);
        int w = set_of(o[1], EPOLLOUT);
        IS(told(WAIT, w, -1), EPOLLOUT);
        close(o[0]);
        IS(told(WAIT, w, -1), EPOLLOUT | EPOLLERR);
        for (int i = 3; i < 12; i++) close(i);
    }
}
/* So are they beside a pipe that was never warm: the answer has all for which there is room. */
static void ends_beside_a_new_pipe(void) {
    int p[2], q[2], e = set();
    struct epoll_event v[4];
    mkpipe(p);
    CHECK(!pipe(q), "pipe");
    add(e, p[0], EPOLLIN, 1);
    add(e, q[0], EPOLLIN, 2);
    put(p[1], 100, 0);
    put(q[1], 100, 0);
    close(p[1]);
    has_ended(p[0]);
    for (int i = 0; i < 40; i++) {
        IS(waits(i % CALLS, e, v, 2 + i % 3, -1, 0), 2);
        for (int k = 0; k < 2; k++) IS(v[k].events, v[k].data.u64 == 1 ? EPOLLIN | EPOLLHUP : EPOLLIN);
        IS(v[0].data.u64 + v[1].data.u64, 3);
    }
}
MAIN(T(by_another_number), T(by_another_process), ONCE(spawned), T(by_a_spawned_program), T(a_hundred_pipes), T(thirty_sets),
     T(handlers), T(a_cancelled_thread), T(asked_of_the_other_end), T(ends_beside_bytes), T(ends_beside_a_new_pipe))
