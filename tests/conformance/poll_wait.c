/* Checks: poll, ppoll, select and pselect6 that sleep for one pipe: what wakes them, what they find then, signals, masks,
 * times, and waiters that go away without a read. Does not check: several descriptors (poll_set.c), streams
 * (poll_stream.c), calls that do not wait (looks.c), epoll. */
#include "check.h"
#include "poll_calls.h"
static volatile int *S;
static const size_t SIZES[] = {1, 100, 4096, 4097, 60000, 3, 8192};
enum { KINDS = sizeof SIZES / sizeof *SIZES };
/* A waiter in a child: it sleeps in `how` before each read, and has read `want` bytes in all at its end. */
static pid_t waiter(int how, int *p, size_t want, int flags) {
    pid_t c = child();
    if (c) return c;
    static char b[1 << 16];
    close(p[1]);
    setfl(p[0], flags, 0);
    for (size_t at = 0; at < want;) {
        IS(await1(how, p[0], POLLIN, -1), POLLIN);
        ssize_t k = read(p[0], b, sizeof b);
        CHECK(k > 0, "ready, and read said %zd at %zu", k, at);
        verify(b, k, at);
        at += k;
    }
    IS(await1(how, p[0], POLLIN, -1), POLLIN);
    IS(events(p[0], POLLIN, 0), POLLHUP);
    AT_EOF(p[0]);
    _exit(0);
}
static void each_write_wakes(void) {
    size_t all = 0;
    for (int i = 0; i < KINDS; i++) all += SIZES[i];
    EACH_CALL(how) {
        int p[2];
        mkpipe(p);
        pid_t c = waiter(how, p, all, how % 2 ? O_NONBLOCK : 0);
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
/* More wakes than a ring that brings nothing is left open for; then a stream. */
static void many_wakes_then_a_stream(void) {
    enum { WAKES = 80, STREAM = 2 << 20 };
    int p[2];
    mkpipe(p);
    pid_t c = waiter(POLL, p, WAKES + STREAM, 0);
    close(p[0]);
    for (int i = 0; i < WAKES; i++) {
        wait_asleep(c);
        put(p[1], 1, i);
    }
    put(p[1], STREAM, WAKES);
    close(p[1]);
    REAP0(c);
}
/* All of one long write is there for the program that it woke: in any portions, and counted. */
static void portions(void) {
    EACH_CALL(how) {
        int p[2], n;
        mkpipe(p);
        pid_t c = child();
        if (!c) {
            size_t at = 0, total = holds() / 2;
            close(p[1]);
            IS(await1(how, p[0], POLLIN, -1), POLLIN);
            while (at < total) {
                static char b[1000];
                IS(await1(how, p[0], POLLIN, at % 2 ? -1 : 0), POLLIN);
                ssize_t k = read(p[0], b, 999);
                CHECK(k > 0, "read said %zd", k);
                verify(b, k, at);
                at += k;
            }
            IS(await1(how, p[0], POLLIN, 0), 0);
            IS(ioctl(p[0], FIONREAD, &n), 0);
            IS(n, 0);
            IS(await1(how, p[0], POLLIN, 5), 0);
            setfl(p[0], O_NONBLOCK, 0);
            FAILS(read(p[0], &n, 1), EAGAIN);
            _exit(0);
        }
        static char b[1 << 16];
        wait_asleep(c);
        fill(b, holds() / 2, 0);
        write_all(p[1], b, holds() / 2);
        REAP0(c);
        close(p[0]);
        close(p[1]);
    }
}
/* Level-triggered: it is told again and again until it is read, and further writes add to it. */
static void told_until_read(void) {
    EACH_CALL(how) {
        int p[2], n;
        mkpipe(p);
        pid_t c = child();
        if (!c) {
            sleep_ms(5);
            put(p[1], 10, 0);
            _exit(0);
        }
        for (int i = 0; i < 3; i++) IS(await1(how, p[0], POLLIN, -1), POLLIN);
        REAP0(c);
        for (int i = 1; i < 20; i++) {
            put(p[1], 10, 10 * i);
            IS(await1(how, p[0], POLLIN, -1), POLLIN);
            IS(ioctl(p[0], FIONREAD, &n), 0);
            IS(n, 10 * i + 10);
        }
        get(p[0], 200, 0);
        IS(await1(how, p[0], POLLIN, 0), 0);
        close(p[0]);
        close(p[1]);
    }
}
/* A writer that found the pipe full is woken by room, and then a page finds place. */
static void room_wakes(void) {
    EACH_CALL(how) {
        int p[2];
        mkpipe(p);
        size_t n = fill_up(p[1], 0);
        setfl(p[1], O_NONBLOCK, 0);
        pid_t c = child();
        if (!c) {
            char b[4096];
            close(p[0]);
            for (int i = 0; i < 4; i++) {
                IS(await1(how, p[1], POLLOUT, -1), POLLOUT);
                fill(b, sizeof b, n + i * sizeof b);
                IS(write(p[1], b, sizeof b), sizeof b);
            }
            _exit(0);
        }
        wait_asleep(c);
        get(p[0], n, 0);
        REAP0(c);
        get(p[0], 4 * 4096, n);
        close(p[0]);
        close(p[1]);
    }
}
/* Room that a writer was told of is there until it writes, whatever the other end asks of the pipe meanwhile; and a full pipe
 * stays full. */
static void room_stays(void) {
    static const size_t held[] = {1, 15, 16, 17, 31, 64, 128, 200};
    EACH_CALL(how) for (int i = 0; i < 8; i++) for (int taken = 0; taken <= 100; taken += 100) {
        char b[4096];
        int p[2], off = 0;
        size_t n = 0;
        mkpipe(p);
        setfl(p[1], O_NONBLOCK, 0);
        do {
            fill(b, sizeof b, n);
            if (write(p[1], b, sizeof b) < 0) break;
            n += sizeof b;
        } while (n < held[i] * 4096);
        get(p[0], taken, 0);
        int told = await1(how, p[1], POLLOUT, 0);
        IS(ioctl(p[0], FIOASYNC, &off), 0);
        int now = await1(how, p[1], POLLOUT, 0);
        if (told || holds() == 65536) IS(now, told); /* by --capacity less than the kernel's pipe */
        if (told) put(p[1], 4096, n);
        get(p[0], n - taken + (told ? 4096 : 0), taken);
        close(p[0]);
        close(p[1]);
    }
}
/* Death is the last close: a waiter for bytes finds the end, a waiter for room the error. */
static void a_killed_peer_wakes(void) {
    EACH_CALL(how) for (int out = 0; out < 2; out++) {
        int p[2];
        mkpipe(p);
        if (out) fill_up(p[1], 0);
        pid_t c = child();
        if (!c) {
            close(p[out]);
            pause();
        }
        pid_t w = child();
        if (!w) {
            close(p[!out]);
            IS(await1(how, p[out], out ? POLLOUT : POLLIN, -1), out ? POLLOUT : POLLIN);
            IS(events(p[out], POLLIN | POLLOUT, 0), out ? POLLERR : POLLHUP);
            _exit(0);
        }
        close(p[0]);
        close(p[1]);
        wait_asleep(w);
        kill(c, SIGKILL);
        reap(c);
        REAP0(w);
    }
}
/* The end of one of two writers is no event. */
static void one_of_two_writers(void) {
    EACH_CALL(how) {
        int p[2];
        mkpipe(p);
        S = shared(4096);
        int d = dup(p[1]);
        pid_t c = child();
        if (!c) {
            close(p[1]);
            close(d);
            IS(await1(how, p[0], POLLIN, -1), POLLIN);
            S[0] = 1;
            get(p[0], 3, 0);
            AT_EOF(p[0]);
            _exit(0);
        }
        wait_asleep(c);
        close(d);
        wait_asleep(c);
        IS(S[0], 0);
        put(p[1], 3, 0);
        close(p[1]);
        REAP0(c);
        close(p[0]);
    }
}
/* Whoever asks for nothing, or for what a pipe never has, sleeps on beside the bytes, and is told of the end. */
static void asked_for_nothing(void) {
    static const short ASKED[] = {0, POLLPRI, POLLRDHUP, POLLRDBAND};
    for (int i = 0; i < 4; i++) {
        int p[2];
        mkpipe(p);
        S = shared(4096);
        pid_t c = child();
        if (!c) {
            close(p[1]);
            IS(events(p[0], ASKED[i], -1), POLLHUP);
            S[0] = 1;
            get(p[0], 5000, 0);
            _exit(0);
        }
        wait_asleep(c);
        put(p[1], 5000, 0);
        wait_asleep(c);
        IS(S[0], 0);
        close(p[1]);
        REAP0(c);
        close(p[0]);
    }
}
/* LINUX signal(7): a handler ends these calls, with SA_RESTART too. Then they wait as before. */
static void a_handler_ends_it(void) {
    EACH_CALL(how) for (int flags = 0; flags < 2; flags++) {
        int p[2];
        mkpipe(p);
        S = shared(4096);
        handle(SIGUSR1, on, flags ? SA_RESTART : 0);
        pid_t c = child();
        if (!c) {
            close(p[1]);
            for (int i = 1; i <= 3; i++) {
                FAILS(await1(how, p[0], POLLIN, -1), EINTR);
                IS(hits, i);
                S[0] = i;
            }
            IS(await1(how, p[0], POLLIN, -1), POLLIN);
            get(p[0], 7, 0);
            _exit(0);
        }
        for (int i = 1; i <= 3; i++) {
            wait_asleep(c);
            kill(c, SIGUSR1);
            UNTIL(S[0] == i);
        }
        wait_asleep(c);
        put(p[1], 7, 0);
        REAP0(c);
        close(p[0]);
        close(p[1]);
    }
}
/* LINUX signal(7): a stop that a SIGCONT ends is not seen by the caller. */
static void stopped_and_continued(void) {
    EACH_CALL(how) {
        int p[2], s;
        mkpipe(p);
        pid_t c = child();
        if (!c) {
            IS(await1(how, p[0], POLLIN, 15000), POLLIN);
            get(p[0], 7, 0);
            _exit(0);
        }
        for (int i = 0; i < 3; i++) {
            wait_asleep(c);
            kill(c, SIGSTOP);
            IS(waitpid(c, &s, WUNTRACED), c);
            if (i == 2) put(p[1], 7, 0);
            kill(c, SIGCONT);
        }
        REAP0(c);
        close(p[0]);
        close(p[1]);
    }
}
/* The self-pipe: the handler writes into the pipe that its thread waits for. */
static int self;
static void writes(int s) {
    char c = pat(hits);
    write(self, &c, 1);
    hits++;
}
static void self_pipe(void) {
    EACH_CALL(how) {
        int p[2];
        mkpipe(p);
        pid_t c = child();
        if (!c) {
            self = p[1];
            hits = 0;
            handle(SIGUSR1, writes, SA_RESTART);
            setfl(p[0], O_NONBLOCK, 0);
            setfl(p[1], O_NONBLOCK, 0);
            for (int at = 0; at < 10;) {
                int e = await1(how, p[0], POLLIN, -1);
                CHECK(e == POLLIN || (e < 0 && errno == EINTR), "0x%x", e);
                if (e < 0) IS(await1(how, p[0], POLLIN, 0), POLLIN);
                get(p[0], 1, at++);
                kill(getppid(), SIGUSR2);
            }
            _exit(0);
        }
        sigset_t s;
        int got;
        sigemptyset(&s);
        sigaddset(&s, SIGUSR2);
        sigprocmask(SIG_BLOCK, &s, 0);
        for (int i = 0; i < 10; i++) {
            wait_asleep(c);
            kill(c, SIGUSR1);
            sigwait(&s, &got);
        }
        REAP0(c);
        close(p[0]);
        close(p[1]);
    }
}
static int blocked(int sig) {
    sigset_t s;
    sigprocmask(SIG_BLOCK, 0, &s);
    return sigismember(&s, sig);
}
/* The mask is the call's alone: it lets a signal in during the sleep, and the caller's own is back after any end. */
static void masks(void) {
    for (int how = PPOLL; how < CALLS; how += PSELECT - PPOLL) for (int end = 0; end < 3; end++) {
        int p[2];
        mkpipe(p);
        handle(SIGUSR1, on, 0);
        sigset_t s, z;
        sigemptyset(&z);
        sigemptyset(&s);
        sigaddset(&s, SIGUSR1);
        sigprocmask(SIG_BLOCK, &s, 0);
        pid_t c = child();
        if (!c) {
            struct pollfd q = {p[0], POLLIN, 0};
            hits = 0;
            if (end == 0) FAILS(await_masked(how, &q, 1, -1, &z), EINTR);
            if (end == 1) IS(await_masked(how, &q, 1, -1, &s), 1);
            if (end == 2) IS(await_masked(how, &q, 1, 5, &s), 0);
            IS(hits, end == 0);
            IS(blocked(SIGUSR1), 1);
            IS(blocked(SIGUSR2), 0);
            if (end == 1) get(p[0], 1, 0);
            _exit(0);
        }
        if (end < 2) wait_asleep(c);
        kill(c, SIGUSR1);
        if (end == 1) {
            wait_asleep(c); /* a blocked signal does not end it */
            put(p[1], 1, 0);
        }
        REAP0(c);
        sigprocmask(SIG_UNBLOCK, &s, 0);
        close(p[0]);
        close(p[1]);
    }
}
/* LINUX select(2), ppoll(2): the calls themselves write back the time that is left; nothing is left at a time-out. */
static void time_left(void) {
    int p[2];
    mkpipe(p);
    for (int how = PPOLL; how < CALLS; how++) for (int data = 0; data < 2; data++) {
        struct timespec t = {data ? 15 : 0, data ? 0 : 30000000};
        struct timeval v = {t.tv_sec, t.tv_nsec / 1000};
        struct pollfd q = {p[0], POLLIN, 0};
        fd_set r;
        FD_ZERO(&r);
        FD_SET(p[0], &r);
        pid_t c = 0;
        if (data && !(c = child())) {
            sleep_ms(20);
            put(p[1], 1, 0);
            _exit(0);
        }
        double from = now();
        int got = how == PPOLL    ? syscall(SYS_ppoll, &q, 1, &t, 0, 8)
                  : how == SELECT ? syscall(SYS_select, p[0] + 1, &r, 0, 0, &v)
                                  : syscall(SYS_pselect6, p[0] + 1, &r, 0, 0, &t, 0);
        IS(got, data);
        double left = how == SELECT ? v.tv_sec + v.tv_usec / 1e6 : t.tv_sec + t.tv_nsec / 1e9;
        if (data) CHECK(left > 0 && left < 15, "%g s were left of 15", left);
        if (!data) CHECK(left == 0 && now() - from >= 0.0299, "%g s were left, after %g", left, now() - from);
        if (how != PPOLL) IS(!!FD_ISSET(p[0], &r), data);
        if (data) {
            get(p[0], 1, 0);
            REAP0(c);
        }
    }
}
/* A call that failed leaves the sets; one that timed out clears them. */
static void sets_after_no_answer(void) {
    int p[2];
    mkpipe(p);
    handle(SIGALRM, on, 0);
    for (int raw = 0; raw < 2; raw++) {
        fd_set r, w;
        FD_ZERO(&r);
        FD_ZERO(&w);
        FD_SET(p[0], &r);
        struct itimerval in = {{0, 3000}, {0, 3000}}, off = {0};
        setitimer(ITIMER_REAL, &in, 0);
        FAILS(raw ? syscall(SYS_select, p[1] + 1, &r, &w, 0, 0) : pselect(p[1] + 1, &r, &w, 0, 0, 0), EINTR);
        setitimer(ITIMER_REAL, &off, 0);
        CHECK(FD_ISSET(p[0], &r), "a handler ended it, and the set was changed");
        struct timeval t = {0, 3000};
        struct timespec ts = {0, 3000000};
        FD_SET(p[1], &r);
        IS(raw ? syscall(SYS_select, p[1] + 1, &r, 0, 0, &t) : pselect(p[1] + 1, &r, 0, 0, &ts, 0), 0);
        CHECK(!FD_ISSET(p[0], &r) && !FD_ISSET(p[1], &r), "it timed out, and the set was left");
    }
}
/* A waiter that timed out, or died in its sleep, or was ended by a handler, leaves nothing behind: the stream goes on. */
static void waiters_that_go_away(void) {
    EACH_CALL(how) for (int end = 0; end < 3; end++) {
        int p[2];
        mkpipe(p);
        handle(SIGUSR1, on, 0);
        size_t at = 0;
        for (int i = 0; i < 3; i++) {
            pid_t c = child();
            if (!c) {
                close(p[1]);
                if (end == 0) IS(await1(how, p[0], POLLIN, 2), 0);
                if (end > 0) FAILS(await1(how, p[0], POLLIN, -1), EINTR);
                _exit(0);
            }
            if (end) wait_asleep(c);
            if (end) kill(c, end == 1 ? SIGKILL : SIGUSR1);
            reap(c);
            pid_t w = child();
            if (!w) {
                close(p[0]);
                put(p[1], 100000, at);
                _exit(0);
            }
            IS(await1(how, p[0], POLLIN, -1), POLLIN);
            get(p[0], 100000, at);
            at += 100000;
            REAP0(w);
        }
        IS(await1(how, p[0], POLLIN, 0), 0);
        close(p[0]);
        close(p[1]);
    }
}
/* What was waited for leaves by a call that is not read(2). */
static void taken_otherwise(void) {
    for (int by = 0; by < 3; by++) {
        int p[2], q[2];
        mkpipe(p);
        CHECK(!pipe(q), "pipe");
        pid_t c = child();
        if (!c) {
            char a[10], b[20];
            struct iovec v[2] = {{a, 10}, {b, 20}};
            IS(await1(POLL, p[0], POLLIN, -1), POLLIN);
            if (by == 0) IS(splice(p[0], 0, q[1], 0, 30, 0), 30);
            if (by == 1) IS(tee(p[0], q[1], 30, 0), 30);
            if (by == 2) {
                IS(readv(p[0], v, 2), 30);
                verify(a, 10, 0);
                verify(b, 20, 10);
            }
            if (by < 2) get(q[0], 30, 0);
            if (by == 1) get(p[0], 30, 0);
            IS(await1(POLL, p[0], POLLIN, -1), POLLIN);
            get(p[0], 5, 30);
            _exit(0);
        }
        wait_asleep(c);
        put(p[1], 30, 0);
        wait_asleep(c);
        put(p[1], 5, 30);
        REAP0(c);
    }
}
/* A program that comes by exec waits for what it inherits, and is woken there. `execed` is this program again. */
static void execed(void) {
    const char *fd = getenv("WAIT_FD");
    if (!fd) return;
    IS(await1(atoi(getenv("WAIT_HOW")), atoi(fd), POLLIN, -1), POLLIN);
    get(atoi(fd), 5, 0);
    IS(await1(atoi(getenv("WAIT_HOW")), atoi(fd), POLLIN, -1), POLLIN);
    AT_EOF(atoi(fd));
}
static void after_exec(void) {
    EACH_CALL(how) for (int late = 0; late < 2; late++) {
        int p[2];
        mkpipe(p);
        S = shared(4096);
        pid_t c = child();
        if (!c) {
            char fd[9], by[9];
            close(p[1]);
            if (late) IS(await1(how, p[0], POLLIN, 1), 0); /* this one waited before its exec */
            S[0] = 1;
            sprintf(fd, "%d", p[0]);
            sprintf(by, "%d", how);
            setenv("WAIT_FD", fd, 1);
            setenv("WAIT_HOW", by, 1);
            int null = open("/dev/null", O_WRONLY);
            dup2(null, 1);
            execl("/proc/self/exe", "poll_wait", "execed", (char *)0);
            _exit(9);
        }
        close(p[0]);
        if (late) UNTIL(S[0]);
        put(p[1], 5, 0);
        close(p[1]);
        REAP0(c);
    }
}
MAIN(T(each_write_wakes), T(many_wakes_then_a_stream), T(portions), T(told_until_read), T(room_wakes), T(room_stays), T(a_killed_peer_wakes),
     T(one_of_two_writers), T(asked_for_nothing), T(a_handler_ends_it), T(stopped_and_continued), T(self_pipe), T(masks),
     T(time_left), T(sets_after_no_answer), T(waiters_that_go_away), T(taken_otherwise), ONCE(execed), T(after_exec))
