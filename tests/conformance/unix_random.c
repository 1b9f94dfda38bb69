/* Checks: two processes use one connection by calls drawn from a fixed seed: every form of send and receive, each wait, shutdown,
 * dup, fork, exec, descriptors that travel, signals, reconnection. Each byte is checked by its position; a call that is told to
 * wait for nothing finds what poll or FIONREAD has promised.
 * Both draw the steps from the same numbers (`plan`), so they agree without a word; how a step is done each draws alone (`own`).
 *   unix_random [CASE[/MODE]] [SEEDS [FIRST]]        1 seed from 1; the name of what failed has its seed
 * Does not check: exact errors of each call (unix_flags.c, unix_control.c), kills (unix_kill.c). */
#include "unix_calls.h"
enum { STEPS = 60, BIG = 512 << 10 };
/* A process's share; an exec takes it along as arguments. */
static struct share {
    unsigned long plan, own;
    int side, step, steps, fd, listener, set, interrupted, calls;
    uint64_t in, out, due; /* read, written, and what the steps have come to */
} me;
static _Thread_local unsigned long *drawn; /* a thread's own numbers */
static _Thread_local int threaded;         /* another thread uses the socket now: nothing is switched */
static int exotic;                         /* this step uses the rarer calls too */
/* Calls that a connection sees: the usual ones; those too that a ring leaves to the kernel for a moment; those too for which it
 * is left for good. Else the last would be all that is tried. */
enum { USUAL, MOMENT, ALL_CALLS };
static unsigned draw_from(unsigned long *x) {
    *x ^= *x << 13, *x ^= *x >> 7, *x ^= *x << 17;
    return (unsigned)(*x >> 20);
}
static unsigned plan(unsigned n) { return draw_from(&me.plan) % n; }
static unsigned own(unsigned n) { return draw_from(drawn) % n; }
/* Sizes of every order, 1 to 2^bits. */
static long size_from(unsigned long *x, int bits) {
    long top = 1L << draw_from(x) % (bits + 1);
    return top / 2 + 1 + draw_from(x) % top / 2;
}
static long most(long a, long b) { return a < b ? a : b; }
static int interrupts_here(ssize_t k) { return k < 0 && errno == EINTR && me.interrupted; }
static void blocking(int fd, int on) { setfl(fd, on ? 0 : O_NONBLOCK, on ? O_NONBLOCK : 0); }

#include "random_calls.h"

/* --- what a process does with its descriptors, the other's being none the wiser --- */
static void moves(int to) {
    CHECK(to >= 0, "another number");
    close(me.fd);
    me.fd = to;
}
static void travels(void) { /* out and back, as a message; nobody has it in between */
    int v[2], to;
    char b[CMSG_SPACE(sizeof(int))] = {0}, x = 0;
    struct iovec i = {&x, 1};
    struct msghdr m = {.msg_iov = &i, .msg_iovlen = 1, .msg_control = b, .msg_controllen = sizeof b};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &me.fd, sizeof me.fd);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, v), "a pair");
    IS(sendmsg(v[0], &m, 0), 1);
    close(me.fd);
    IS(recvmsg(v[1], &m, 0), 1);
    memcpy(&me.fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof me.fd);
    close(v[0]), close(v[1]);
}
static void passes_on(void) { /* the child goes on; this process ends as it does */
    pid_t c = child();
    if (!c) return;
    close(me.fd), close(me.listener), close(me.set);
    int s = reap(c);
    _exit(WIFEXITED(s) ? WEXITSTATUS(s) : 99);
}
static void ticks(int on);
static void becomes_itself(void) {
    char text[300], *v[] = {"unix_random", "-goes-on", text, (char *)mode_name[warm_mode], case_name, 0};
    snprintf(text, sizeof text, "%lu %lu %d %d %d %d %d %d %d %d %llu %llu %llu", me.plan, me.own, me.side, me.step, me.steps, me.fd,
             me.listener, me.set, me.interrupted, me.calls, (unsigned long long)me.in, (unsigned long long)me.out, (unsigned long long)me.due);
    ticks(0);
    execv("/proc/self/exe", v);
    failed(__LINE__, "exec");
}
/* A connection begins; most are busy at once. */
static void begins(void) {
    static const int calls[] = {USUAL, USUAL, USUAL, MOMENT, MOMENT, ALL_CALLS};
    struct epoll_event v = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
    me.set = own(3) ? -1 : epoll_create1(0);
    if (me.set >= 0) IS(epoll_ctl(me.set, EPOLL_CTL_ADD, me.fd, &v), 0);
    me.calls = calls[plan(6)];
    exotic = 0;
    int n = plan(4) ? 50 + plan(100) : 0, size = 1 + plan(5000);
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < n; i++)
            if (me.side == s)
                sends_all(size, size);
            else
                me.due += size, receives_all(size);
}
static void changes(void) {
    int n = own(me.calls == ALL_CALLS ? 8 : 7), to;
    switch (n) {
    case 0: moves(dup(me.fd)); break;
    case 1: moves(fcntl(me.fd, F_DUPFD, 100 + own(100))); break;
    case 2: passes_on(); break;
    case 3: becomes_itself(); break;
    case 7: travels(); break;
    case 4: /* a child that has it, and does nothing */
    case 5: {
        pid_t c = child();
        if (!c) {
            if (n == 4) execlp("true", "true", (char *)0);
            _exit(0);
        }
        REAP0(c);
        break;
    }
    default:
        to = dup(me.fd);
        close(to);
        if (!is_tcp() && own(2)) set_option(me.fd, SO_SNDBUF, 16384 << own(5));
    }
}

/* --- steps --- */
static void *sends_in_thread(void *a) {
    long *n = a;
    unsigned long mine = n[2] | 1;
    drawn = &mine;
    threaded = 1;
    sends_all(n[0], n[1]);
    return 0;
}
static void both_ways(long n, long theirs, long longest) {
    pthread_t t;
    long a[3] = {n, longest, own(1 << 30)};
    me.due += theirs;
    threaded = 1;
    IS(pthread_create(&t, 0, sends_in_thread, a), 0);
    receives_all(longest);
    pthread_join(t, 0);
    threaded = 0;
}
static void in_one_loop(long n, long theirs, long longest) {
    me.due += theirs;
    for (blocking(me.fd, 0); n > 0 || me.in < me.due;) {
        struct pollfd p = {me.fd, (n > 0 ? POLLOUT : 0) | (me.in < me.due ? POLLIN : 0), 0};
        int k = poll(&p, 1, -1);
        if (interrupts_here(k)) continue;
        IS(k, 1);
        if (p.revents & POLLIN) {
            ssize_t c = own(2) ? read(me.fd, got, 1 + own(longest)) : recv(me.fd, got, 1 + own(longest), 0);
            CHECK(c > 0, "poll promised bytes, and read gave %zd", c);
            checks(c);
        }
        if (n > 0 && p.revents & POLLOUT) {
            ssize_t c = own(2) ? write(me.fd, at(me.out), most(n, 1 + own(longest))) : by_parts(0, most(n, 1 + own(longest)), 0);
            CHECK(c > 0 || (c < 0 && errno == EAGAIN), "a write gave %zd", c);
            if (c > 0) me.out += c, n -= c;
        }
    }
    blocking(me.fd, 1);
}
/* Nothing comes while the first waits; then one byte tells the other to go on. */
static void finds_nothing(int first) {
    if (me.side != first) {
        me.due++;
        receives_all(100);
        return;
    }
    ticks(0);
    if (me.in == me.due) {
        int way = own(6);
        ssize_t k;
        IS(asked_of(me.fd, FIONREAD), 0);
        k = recv(me.fd, got, 1 + own(9000), MSG_DONTWAIT | (own(2) ? MSG_PEEK : 0));
        CHECK(k < 0 && errno == EAGAIN, "nothing was sent, and recv gave %zd", k);
        while (interrupts_here(k = one_wait(way, POLLIN, 5)));
        CHECK(k == 0, "nothing was sent, and wait %d gave %zd", way, k);
        set_time(me.fd, SO_RCVTIMEO, 5);
        while (interrupts_here(k = recv(me.fd, got, 100, own(2) ? MSG_WAITALL : 0)));
        CHECK(k < 0 && errno == EAGAIN, "nothing was sent, and a read that waits for a while gave %zd", k);
        set_time(me.fd, SO_RCVTIMEO, 0);
    }
    sends_all(1, 1);
    ticks(me.interrupted);
}
static void tells_end(void) {
    if (own(2)) {
        waits_for(POLLIN);
        short e = events(me.fd, ALL, 0);
        CHECK(e & POLLIN && e & POLLRDHUP, "the end shows 0x%x", e);
    }
    for (int i = 0; i < 2; i++) {
        ssize_t k;
        while (interrupts_here(k = own(2) ? read(me.fd, got, 100) : recv(me.fd, got, 100, own(2) ? MSG_PEEK : MSG_WAITALL)));
        CHECK(k == 0, "at the end, a receive gave %zd", k);
    }
}
static void connects_again(void) {
    address a;
    socklen_t n = sizeof a;
    if (me.side) {
        CHECK((me.fd = accept(me.listener, 0, 0)) >= 0, "accept");
    } else {
        IS(getsockname(me.listener, &a.any, &n), 0);
        CHECK((me.fd = socket(family(), SOCK_STREAM, 0)) >= 0, "socket");
        if (own(2)) blocking(me.fd, 0);
        int k = connect(me.fd, &a.any, n);
        CHECK(!k || (errno == EINPROGRESS && is_tcp() && events(me.fd, POLLOUT, -1) == POLLOUT), "connect");
        blocking(me.fd, 1);
    }
    no_delay_of_writes(me.fd);
    begins();
}
static void ends_and_again(int first, long n, long longest) {
    if (mode_is("pair")) return;
    ticks(0);
    if (me.side == first) {
        IS(shutdown(me.fd, SHUT_WR), 0);
        me.due += n;
        receives_all(longest);
        IS(me.in, me.due);
        tells_end();
        close(me.fd);
    } else {
        receives_all(1);
        IS(me.in, me.due);
        tells_end();
        sends_all(n, longest);
        if (own(2)) IS(shutdown(me.fd, SHUT_WR), 0);
        close(me.fd);
    }
    close(me.set);
    connects_again();
    ticks(me.interrupted);
}
static void one_step(void) {
    int kind = plan(16), first = plan(2), rounds = 1 + plan(200);
    long n = size_from(&me.plan, 19), m = size_from(&me.plan, 19), longest = size_from(&me.plan, 17), small = size_from(&me.plan, 12);
    long bound = n / 2000; /* not more than some thousand calls */
    exotic = plan(3) == 0 && me.calls != USUAL;
    if (longest < bound) longest = bound;
    if (mode_is("tcp") && exotic && longest < n / 300) longest = n / 300;
    switch (kind) {
    default:
        if (me.side == first)
            sends_all(n, longest);
        else
            me.due += n, receives_all(longest);
        break;
    case 5:
    case 6:
    case 7:
    case 8:
        for (int i = 0; i < rounds; i++)
            for (int s = 0; s < 2; s++)
                if ((me.side == first) ^ s)
                    sends_all(small, own(2) ? small : 4096);
                else
                    me.due += small, receives_all(own(2) ? small : 4096);
        break;
    case 9: both_ways(me.side ? n : m, me.side ? m : n, longest < m / 2000 ? m / 2000 : longest); break;
    case 10: in_one_loop(me.side ? n : m, me.side ? m : n, longest < m / 2000 ? m / 2000 : longest); break;
    case 11:
    case 12:
        if (me.side == first) changes();
        break;
    case 13: finds_nothing(first); break;
    case 14: ends_and_again(first, n, longest); break;
    }
}
static void goes_through(void) {
    drawn = &me.own;
    ticks(me.interrupted);
    while (me.step < me.steps) {
        me.step++;
        one_step();
    }
    ticks(0);
    close(me.fd);
    _exit(0);
}

/* --- signals, on some seeds: with and without SA_RESTART --- */
static timer_t timer;
static int ticking;
static void ignores(int s) {}
static void ticks(int on) {
    if (ticking) timer_delete(timer);
    ticking = on;
    if (!on) {
        handle(SIGUSR1, SIG_IGN, 0);
        return;
    }
    struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    struct itimerspec t = {{0, 1300000}, {0, 1300000}};
    handle(SIGUSR1, ignores, on == 2 ? SA_RESTART : 0);
    CHECK(!timer_create(CLOCK_MONOTONIC, &e, &timer) && !timer_settime(timer, 0, &t, 0), "a timer");
}

static int seeds = 1, first_seed = 1, steps_each = STEPS;
static void one_seed(unsigned long seed, int interrupted) {
    static char named[100];
    int v[2], listener = -1, s;
    address a;
    socklen_t n;
    pid_t c[2];
    if (!*named) strcpy(named, case_name);
    snprintf(case_name, sizeof case_name, "%s, seed %lu", named, seed);
    if (mode_is("pair"))
        IS(socketpair(AF_UNIX, SOCK_STREAM, 0, v), 0);
    else
        listener = listens(&a, &n);
    for (int i = 0; i < 2; i++)
        if (!(c[i] = child())) {
            unsigned long mixed = seed * 0x9e3779b97f4a7c15ul | 1;
            me = (struct share){.plan = mixed, .own = mixed * (3 + 2 * i) + 2 * i, .side = i, .steps = steps_each, .listener = listener,
                                .interrupted = interrupted, .in = i ? 0 : 50000, .out = i ? 50000 : 0, .due = i ? 0 : 50000};
            drawn = &me.own;
            for (int k = 0; k < 20; k++) plan(2), own(2);
            if (mode_is("pair")) {
                me.fd = v[i];
                close(v[!i]);
                begins();
            } else
                connects_again();
            goes_through();
        }
    if (mode_is("pair")) close(v[0]), close(v[1]);
    for (int i = 0; i < 2; i++) {
        while (waitpid(-1, &s, 0) < 0);
        CHECK(!s, "a side ended with status 0x%x", s);
    }
    close(listener);
    if (!mode_is("pair")) unnames(&a);
    strcpy(case_name, named);
}
static void some(int interrupted) {
    for (int i = 0; i < seeds; i++) {
        alarm(20);
        one_seed(first_seed + i, interrupted);
    }
}
static void calls_at_random(void) { some(0); }
static void interrupted(void) { some(1); }
static void restarted(void) { some(2); }
static int goes_on_after_exec(char **v) {
    for (warm_mode = 0; strcmp(mode_name[warm_mode], v[3]); warm_mode++);
    snprintf(case_name, sizeof case_name, "%s", v[4]);
    unsigned long long in, out, due;
    sscanf(v[2], "%lu %lu %d %d %d %d %d %d %d %d %llu %llu %llu", &me.plan, &me.own, &me.side, &me.step, &me.steps, &me.fd, &me.listener,
           &me.set, &me.interrupted, &me.calls, &in, &out, &due);
    me.in = in, me.out = out, me.due = due;
    goes_through();
    return 0;
}
int main(int c, char **v) {
    static const struct test t[] = {T(calls_at_random), T(interrupted), T(restarted), {0}};
    sea_init();
    if (c == 5 && !strcmp(v[1], "-goes-on")) return goes_on_after_exec(v);
    const char *only = c > 1 && !atoi(v[1]) ? v[1] : 0;
    int i = only ? 2 : 1;
    if (c > i && atoi(v[i]) > 0) seeds = atoi(v[i]);
    if (c > i + 1 && atoi(v[i + 1]) > 0) first_seed = atoi(v[i + 1]);
    return run_all(t, only);
}
