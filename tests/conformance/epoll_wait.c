/* Checks: epoll_wait, epoll_pwait and epoll_pwait2 that sleep: what wakes them, changes of the set meanwhile, signals and masks,
 * several threads and processes in one set, a set after fork and exec. Does not check: what is told without a sleep
 * (epoll_rules.c), streams (epoll_stream.c). */
#include "check.h"
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include "epoll_calls.h"
static volatile int *S;
static const size_t SIZES[] = {1, 100, 4096, 4097, 60000, 3, 8192};
enum { KINDS = sizeof SIZES / sizeof *SIZES };
static void take(int fd, size_t n, size_t pos, int e, int edge) { /* n bytes, as an event loop takes them */
    static char b[1 << 16];
    for (size_t at = pos; at < pos + n;) {
        ssize_t k = read(fd, b, pos + n - at);
        if (k < 0 && errno == EAGAIN) {
            CHECK(told(WAIT, e, -1) & EPOLLIN, "no event at %zu", at);
            continue;
        }
        CHECK(k > 0, "read said %zd", k);
        verify(b, k, at);
        at += k;
    }
}
static void each_write_wakes(void) {
    EACH_CALL(how) for (int edge = 0; edge < 2; edge++) {
        int p[2];
        mkpipe(p);
        pid_t c = child();
        if (!c) {
            close(p[1]);
            setfl(p[0], O_NONBLOCK, 0);
            int e = set_of(p[0], EPOLLIN | (edge ? EPOLLET : 0));
            for (size_t i = 0, at = 0; i < KINDS; at += SIZES[i++]) {
                IS(told(how, e, -1) & EPOLLIN, EPOLLIN);
                take(p[0], SIZES[i], at, e, edge);
            }
            while (told(how, e, -1) != EPOLLHUP);
            AT_EOF(p[0]);
            _exit(0);
        }
        close(p[0]);
        for (size_t i = 0, at = 0; i < KINDS; at += SIZES[i++]) {
            static char b[60000];
            wait_asleep(c);
            fill(b, SIZES[i], at);
            write_all(p[1], b, SIZES[i]);
        }
        wait_asleep(c);
        close(p[1]);
        REAP0(c);
    }
}
/* By edge, with bytes that nobody reads: each further write wakes the sleeper. */
static void woken_beside_unread_bytes(void) {
    EACH_CALL(how) {
        int p[2], n;
        mkpipe(p);
        S = shared(4096);
        pid_t c = child();
        if (!c) {
            int e = set_of(p[0], EPOLLIN | EPOLLET);
            for (int i = 1; i <= 6; i++) {
                IS(told(how, e, -1), EPOLLIN);
                IS(ioctl(p[0], FIONREAD, &n), 0);
                IS(n, 10 * i);
                S[0] = i;
            }
            get(p[0], 60, 0);
            _exit(0);
        }
        for (int i = 0; i < 6; i++) {
            UNTIL(S[0] == i);
            wait_asleep(c);
            put(p[1], 10, 10 * i);
        }
        REAP0(c);
        close(p[0]);
        close(p[1]);
    }
}
/* A full pipe: room wakes, by level and by edge; so does the death of the last reader. */
static void room_wakes(void) {
    for (int edge = 0; edge < 2; edge++) for (int dies = 0; dies < 2; dies++) {
        int p[2];
        /* What is to hold less than the kernel's pipe has room again when it is given back to it. */
        if (dies && holds() < 65536) continue;
        mkpipe(p);
        size_t n = fill_up(p[1], 0);
        pid_t r = child();
        if (!r) {
            close(p[1]);
            pause();
        }
        pid_t c = child();
        if (!c) {
            close(p[0]);
            int e = set_of(p[1], EPOLLOUT | (edge ? EPOLLET : 0));
            IS(told(PWAIT, e, -1), dies ? EPOLLERR : EPOLLOUT);
            if (!dies) put(p[1], 4096, n);
            _exit(0);
        }
        wait_asleep(c);
        if (!dies) {
            get(p[0], n, 0);
            get(p[0], 4096, n);
        }
        close(p[0]);
        kill(r, SIGKILL);
        reap(r);
        REAP0(c);
        close(p[1]);
    }
}
static void a_killed_writer_wakes(void) {
    EACH_CALL(how) {
        int p[2];
        mkpipe(p);
        pid_t w = child();
        if (!w) pause();
        close(p[1]);
        pid_t c = child();
        if (!c) {
            IS(told(how, set_of(p[0], EPOLLIN | EPOLLET), -1), EPOLLHUP);
            AT_EOF(p[0]);
            _exit(0);
        }
        wait_asleep(c);
        kill(w, SIGKILL);
        reap(w);
        REAP0(c);
        close(p[0]);
    }
}
/* LINUX signal(7): a handler ends these calls, with SA_RESTART too, and a stop that is continued does. */
static void signals(void) {
    EACH_CALL(how) for (int flags = 0; flags < 2; flags++) {
        int p[2], s;
        mkpipe(p);
        S = shared(4096);
        handle(SIGUSR1, on, flags ? SA_RESTART : 0);
        pid_t c = child();
        if (!c) {
            int e = set_of(p[0], EPOLLIN);
            for (int i = 1; i <= 3; i++) {
                FAILS(told(how, e, -1), EINTR);
                IS(hits, i < 3 ? i : 2);
                S[0] = i;
            }
            IS(told(how, e, -1), EPOLLIN);
            get(p[0], 7, 0);
            _exit(0);
        }
        for (int i = 1; i <= 3; i++) {
            wait_asleep(c);
            kill(c, i < 3 ? SIGUSR1 : SIGSTOP);
            if (i == 3) IS(waitpid(c, &s, WUNTRACED), c);
            if (i == 3) kill(c, SIGCONT);
            UNTIL(S[0] == i);
        }
        wait_asleep(c);
        put(p[1], 7, 0);
        REAP0(c);
        close(p[0]);
        close(p[1]);
    }
}
static void masks_and_times(void) {
    for (int how = PWAIT; how <= PWAIT2; how++) {
        int p[2];
        struct epoll_event v;
        mkpipe(p);
        int e = set_of(p[0], EPOLLIN);
        handle(SIGUSR1, on, SA_RESTART);
        hits = 0;
        sigset_t s, z;
        sigemptyset(&z);
        sigemptyset(&s);
        sigaddset(&s, SIGUSR1);
        sigprocmask(SIG_BLOCK, &s, 0);
        raise(SIGUSR1);
        double t = now();
        IS(waits(how, e, &v, 1, 20, &s), 0);
        CHECK(now() - t >= 0.0199, "it came back early");
        put(p[1], 1, 0);
        IS(waits(how, e, &v, 1, -1, &s), 1);
        IS(waits(how, e, &v, 1, -1, &z), 1); /* with something ready no signal is taken in */
        IS(hits, 0);
        get(p[0], 1, 0);
        FAILS(waits(how, e, &v, 1, -1, &z), EINTR);
        IS(hits, 1);
        pid_t c = child();
        if (!c) {
            IS(waits(how, e, &v, 1, -1, &s), 1);
            IS(hits, 1);
            get(p[0], 3, 0);
            _exit(0);
        }
        wait_asleep(c);
        kill(c, SIGUSR1);
        wait_asleep(c);
        put(p[1], 3, 0);
        REAP0(c);
        sigprocmask(SIG_UNBLOCK, &s, 0);
    }
}
/* What is done to the set while a call sleeps in it. */
enum { ADDED, ASKED, ARMED, REMOVED, CLOSED, CHANGES };
static void changed_meanwhile(void) {
    for (int what = 0; what < CHANGES; what++) for (int edge = 0; edge < 2; edge++) {
        int p[2], q[2];
        mkpipe(p);
        mkpipe(q);
        S = shared(4096);
        uint32_t in = EPOLLIN | (edge ? EPOLLET : 0);
        int e = set_of(q[0], EPOLLIN), d = dup(p[0]);
        if (what != ADDED) add(e, p[0], what == ASKED ? 0 : what == ARMED ? in | EPOLLONESHOT : in, 1);
        put(p[1], 10, 0);
        if (what == ARMED) IS(told(WAIT, e, -1), EPOLLIN);
        if (what == REMOVED || what == CLOSED) get(p[0], 10, 0);
        if (what == REMOVED || what == CLOSED) IS(told(WAIT, e, 0), 0);
        pid_t c = child();
        if (!c) {
            struct epoll_event v;
            IS(epoll_wait(e, &v, 1, -1), 1);
            IS(v.data.u64, what == REMOVED ? q[0] : what == CLOSED ? 1 : 2);
            S[0] = 1;
            _exit(0);
        }
        wait_asleep(c);
        if (what == ADDED) add(e, p[0], in, 2);
        if (what == ASKED || what == ARMED) mod(e, p[0], in, 2);
        if (what == REMOVED) del(e, p[0]);
        if (what == CLOSED) close(p[0]); /* the child and d hold it: its entry lives */
        if (what == REMOVED) {
            put(p[1], 10, 10);
            wait_asleep(c);
            IS(S[0], 0);
            put(q[1], 1, 0);
        }
        if (what == CLOSED) put(p[1], 10, 10);
        REAP0(c);
        get(d, 10, what == REMOVED || what == CLOSED ? 10 : 0);
        for (int i = 3; i < 12; i++) close(i);
    }
}
/* Others beside two pipes in one set: whichever becomes ready wakes the call, and it alone is told. */
enum { PIPE_A, PIPE_B, SOCKET, EVENT, TIMER, OTHERS };
static void a_mixed_set(void) {
    int a[2], b[2], s[2], x = eventfd(0, EFD_NONBLOCK), t = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), e = set();
    static const uint64_t one = 1;
    static const struct itimerspec soon = {.it_value = {0, 1000000}};
    mkpipe(a);
    mkpipe(b);
    S = shared(4096);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s), "socketpair");
    int fds[OTHERS] = {a[0], b[0], s[0], x, t};
    for (int i = 0; i < OTHERS; i++) add(e, fds[i], EPOLLIN | (i % 2 ? EPOLLET : 0), i);
    pid_t c = child();
    if (!c) {
        for (int i = 0; i < 3 * OTHERS; i++) {
            struct epoll_event v[9];
            char m[200];
            S[0] = i + 1;
            IS(waits(i % CALLS, e, v, 9, -1, 0), 1);
            IS(v[0].data.u64, i % OTHERS);
            CHECK(read(fds[i % OTHERS], m, sizeof m) > 0, "turn %d: ready, and read failed", i);
        }
        _exit(0);
    }
    for (int i = 0; i < 3 * OTHERS; i++) {
        UNTIL(S[0] == i + 1);
        wait_asleep(c);
        if (i % OTHERS == PIPE_A) put(a[1], 1, 0);
        if (i % OTHERS == PIPE_B) put(b[1], 1, 0);
        if (i % OTHERS == SOCKET) write(s[1], "x", 1);
        if (i % OTHERS == EVENT) write(x, &one, 8);
        if (i % OTHERS == TIMER) timerfd_settime(t, 0, &soon, 0);
    }
    REAP0(c);
}
/* Several sleepers in one set, each a thread or a forked process: each event finds one of them, and the others sleep on
 * or find nothing. At the end all are woken by the hang-up. */
enum { SLEEPERS = 4, EVENTS = 12 };
static int the_set, the_end;
static uint32_t the_way;
static void *a_sleeper(void *how) {
    for (;;) {
        struct epoll_event v;
        char c;
        IS(waits((int)(intptr_t)how % CALLS, the_set, &v, 1, -1, 0), 1);
        ssize_t k = read(the_end, &c, 1);
        if (!k) break;
        if (k == 1) {
            int n = __sync_fetch_and_add(&S[0], 1);
            CHECK((unsigned char)c == pat(n), "byte %d", n);
        }
        if (the_way & EPOLLONESHOT) mod(the_set, the_end, the_way, 0);
    }
    /* By edge or once, one is told of the end: it tells the others. */
    if (the_way & (EPOLLET | EPOLLONESHOT)) mod(the_set, the_end, the_way, 0);
    return 0;
}
static void several_sleepers(void) {
    static const uint32_t WAYS[] = {EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT};
    for (int w = 0; w < 3; w++) for (int threads = 0; threads < 2; threads++) {
        int p[2], ids[SLEEPERS];
        pthread_t t[SLEEPERS];
        mkpipe(p);
        S = shared(4096);
        setfl(p[0], O_NONBLOCK, 0);
        the_end = p[0];
        the_way = WAYS[w];
        the_set = set_of(p[0], the_way);
        for (int i = 0; i < SLEEPERS; i++)
            if (threads)
                pthread_create(&t[i], 0, a_sleeper, (void *)(intptr_t)i);
            else if (!(ids[i] = child())) {
                close(p[1]);
                a_sleeper((void *)(intptr_t)i);
                _exit(0);
            }
        for (int i = 0; i < EVENTS; i++) {
            if (!threads) wait_asleep(ids[i % SLEEPERS]);
            put(p[1], 1, i);
            UNTIL(S[0] == i + 1);
        }
        close(p[1]);
        for (int i = 0; i < SLEEPERS; i++)
            if (threads)
                pthread_join(t[i], 0);
            else
                REAP0(ids[i]);
        IS(S[0], EVENTS);
        close(p[0]);
        close(the_set);
    }
}
/* A set that a child inherits is one set: what the one has been told by edge, the other is not. */
static void over_fork(void) {
    int p[2];
    mkpipe(p);
    S = shared(4096);
    int e = set_of(p[0], EPOLLIN | EPOLLET), l = set_of(p[0], EPOLLIN);
    for (int i = 0; i < 8; i++) {
        pid_t c = child();
        if (!c) {
            IS(told(WAIT, e, -1), EPOLLIN);
            IS(told(WAIT, l, -1), EPOLLIN);
            if (i % 2) get(p[0], 10, 10 * i);
            _exit(0);
        }
        wait_asleep(c);
        put(p[1], 10, 10 * i);
        REAP0(c);
        IS(told(WAIT, e, 0), 0);
        IS(told(WAIT, l, 0), i % 2 ? 0 : EPOLLIN);
        if (i % 2 == 0) get(p[0], 10, 10 * i);
    }
}
/* What a parent puts into a set after the fork, its child is told of, whatever the parent does then. */
static void added_after_a_fork(void) {
    for (int late = 0; late < 2; late++) {
        int p[2], e = epoll_create1(0);
        mkpipe(p);
        S = shared(4096);
        pid_t c = child();
        if (!c) {
            while (!S[0]) usleep(100);
            IS(told(WAIT, e, -1), EPOLLIN);
            get(p[0], 10, 0);
            _exit(0);
        }
        add(e, p[0], EPOLLIN, 3);
        if (!late) put(p[1], 10, 0);
        S[0] = 1;
        if (late) {
            wait_asleep(c);
            put(p[1], 10, 0);
        }
        REAP0(c);
        close(p[0]);
        close(p[1]);
        close(e);
    }
}
/* A program that comes by exec uses the set that it inherits: `execed` is this program again. */
static void execed(void) {
    if (!getenv("SET")) return;
    int e = atoi(getenv("SET")), r = atoi(getenv("END"));
    char b[100];
    ssize_t k = -1;
    for (size_t at = 0; k;) {
        CHECK(told(WAIT, e, -1) > 0, "no event");
        for (; (k = read(r, b, sizeof b)) > 0; at += k) verify(b, k, at);
        CHECK(!k || errno == EAGAIN, "read");
        CHECK(k || at == 30, "the end came at %zu", at);
    }
}
static void after_exec(void) {
    for (int how = 0; how < 4; how++) {
        int p[2], edge = how & 1, late = how & 2; /* late: it is put in when the child is there */
        char b[20];
        mkpipe(p);
        int e = epoll_create1(0);
        S = shared(4096);
        if (!late) add(e, p[0], EPOLLIN | (edge ? EPOLLET : 0), 3);
        setfl(p[0], O_NONBLOCK, 0);
        IS(told(WAIT, e, 1), 0); /* used here too */
        pid_t c = child();
        if (!c) {
            while (!S[0]) usleep(100);
            close(p[1]);
            sprintf(b, "%d", e);
            setenv("SET", b, 1);
            sprintf(b, "%d", p[0]);
            setenv("END", b, 1);
            dup2(open("/dev/null", O_WRONLY), 1);
            execl("/proc/self/exe", "epoll_wait", "execed", (char *)0);
            _exit(9);
        }
        if (late) add(e, p[0], EPOLLIN | (edge ? EPOLLET : 0), 3);
        S[0] = 1;
        if (!late) close(p[0]);
        if (!late) close(e);
        for (int i = 0; i < 3; i++) {
            if (i) wait_asleep(c); /* the first one comes while it starts */
            put(p[1], 10, 10 * i);
        }
        close(p[1]);
        REAP0(c);
        if (late) close(p[0]);
        if (late) close(e);
    }
}
MAIN(T(each_write_wakes), T(woken_beside_unread_bytes), T(room_wakes), T(a_killed_writer_wakes), T(signals), T(masks_and_times),
     T(changed_meanwhile), T(a_mixed_set), T(several_sleepers), T(over_fork), T(added_after_a_fork), ONCE(execed), T(after_exec))
