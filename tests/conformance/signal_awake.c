/* Checks: a signal that comes right after a call began to wait, when traffic was lively a moment ago. Its handler ends the call
 * with EINTR, or the call goes on behind it, as signal(7) has it; it runs once, at once, with what it came with.
 * Does not check: a call that sleeps for long (signal.c), signals while bytes are moved (random programs). */
#define MODES "pipe", "unix", "tcp", "udp"
#include "check.h"
#include <netinet/in.h>
#include <arpa/inet.h>
enum { PIPE, UNIX, TCP, UDP };
enum { READ, POLL, SELECT, EPOLL };
enum { WARM = 400, ROUNDS = 60, TRIPS = 20 };
static int in, out, set = -1;
static struct { volatile int seen, begun, ended; } *word;
static pid_t peer;
static void on(int s, siginfo_t *i, void *u) {
    CHECK(i->si_pid == peer && i->si_code == SI_QUEUE, "the signal must come from the peer");
    CHECK(i->si_value.sival_int >= word->seen, "signal %d came after %d", i->si_value.sival_int, word->seen);
    word->seen = i->si_value.sival_int;
}
static void inet_pair(int type, int p[2]) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, b = a;
    socklen_t n = sizeof a;
    int s = socket(AF_INET, type, 0);
    p[0] = socket(AF_INET, type, 0);
    IS(bind(s, (void *)&a, sizeof a), 0);
    IS(getsockname(s, (void *)&a, &n), 0);
    if (type == SOCK_DGRAM) IS(bind(p[0], (void *)&b, sizeof b), 0);
    if (type == SOCK_STREAM) IS(listen(s, 1), 0);
    IS(connect(p[0], (void *)&a, sizeof a), 0);
    IS(getsockname(p[0], (void *)&b, &n), 0);
    p[1] = s;
    if (type == SOCK_DGRAM) IS(connect(s, (void *)&b, sizeof b), 0);
    if (type == SOCK_STREAM) p[1] = accept(s, 0, 0), close(s);
    CHECK(p[1] >= 0, "accept failed");
}
/* The peer: answers each byte; 'a' after a moment, by a signal alone; 'b' by a signal, and by a byte once its handler has run. */
static void serves(pid_t waiter) {
    int asked = 0;
    char c;
    while (read(in, &c, 1) == 1) {
        if (c == 'e') {
            IS(write(out, &c, 1), 1);
            continue;
        }
        union sigval v = {.sival_int = ++asked};
        /* right after the waiter's call began, or in the 20 us behind that */
        while (word->begun < asked) sched_yield();
        for (volatile int i = 0; i < 500 + asked * 97 % 1000 * 10; i++);
        IS(sigqueue(waiter, SIGUSR1, v), 0);
        /* the call may not have begun when it came, as anywhere */
        for (int ms = 0; word->seen < asked || (c == 'a' && word->ended < asked); ms++) {
            sleep_ms(1);
            if (ms % 100 == 99 && c == 'a') sigqueue(waiter, SIGUSR1, v);
        }
        if (c == 'b') IS(write(out, &c, 1), 1);
    }
    _exit(0);
}
static void meets(void) {
    int p[2], q[2];
    if (warm_mode == PIPE) {
        IS(pipe(p), 0);
        IS(pipe(q), 0);
    } else if (warm_mode == UNIX) {
        IS(socketpair(AF_UNIX, SOCK_STREAM, 0, p), 0);
    } else {
        inet_pair(warm_mode == TCP ? SOCK_STREAM : SOCK_DGRAM, p);
    }
    word = shared(sizeof *word);
    pid_t me = getpid();
    peer = child();
    if (warm_mode == PIPE) {
        in = peer ? p[0] : q[0], out = peer ? q[1] : p[1];
        close(peer ? p[1] : p[0]), close(peer ? q[0] : q[1]);
    } else {
        in = out = p[!!peer];
        close(p[!peer]);
    }
    if (!peer) serves(me);
}
static long waits(int how) {
    char c;
    struct pollfd p = {in, POLLIN, 0};
    struct epoll_event e;
    fd_set f;
    FD_ZERO(&f);
    FD_SET(in, &f);
    switch (how) {
    case READ: return read(in, &c, 1);
    case POLL: return poll(&p, 1, -1);
    case SELECT: return select(in + 1, &f, 0, 0, 0);
    default: return epoll_wait(set, &e, 1, 5000);
    }
}
static void trip(int how, char c) {
    IS(write(out, &c, 1), 1);
    if (how != READ) IS(waits(how), 1);
    IS(read(in, &c, 1), 1);
}
static void begins(int how, int flags) {
    meets();
    struct sigaction a = {.sa_sigaction = on, .sa_flags = flags | SA_SIGINFO};
    IS(sigaction(SIGUSR1, &a, 0), 0);
    struct epoll_event e = {EPOLLIN, {.fd = in}};
    if (how == EPOLL) {
        set = epoll_create1(0);
        IS(epoll_ctl(set, EPOLL_CTL_ADD, in, &e), 0);
    }
    for (int i = 0; i < WARM; i++) trip(how, 'e');
}
/* A handler ends the call. */
static void ends(int how, int flags) {
    int again = 0;
    begins(how, flags);
    for (int i = 1; i <= ROUNDS; i++) {
        for (int j = 0; j < TRIPS; j++) trip(how, 'e');
        IS(write(out, "a", 1), 1);
        double t = now();
        word->begun = i;
        FAILS(waits(how), EINTR);
        again += now() - t > 0.09;
        IS(word->seen, i);
        word->ended = i;
    }
    /* one that came before its call began was sent again; those are few */
    CHECK(again <= ROUNDS / 2, "%d of %d signals did not end a call that waited", again, ROUNDS);
    kill(peer, SIGKILL);
    reap(peer);
}
/* It does not; but it runs at once. */
static void goes_on(void) {
    begins(READ, SA_RESTART);
    for (int i = 1; i <= ROUNDS; i++) {
        for (int j = 0; j < TRIPS; j++) trip(READ, 'e');
        word->begun = i;
        trip(READ, 'b');
        IS(word->seen, i);
    }
    kill(peer, SIGKILL);
    reap(peer);
}
static void read_ends(void) { ends(READ, 0); }
static void poll_ends(void) { ends(POLL, 0); }
static void poll_ends_restart(void) { ends(POLL, SA_RESTART); }
static void select_ends(void) { ends(SELECT, SA_RESTART); }
static void epoll_ends(void) { ends(EPOLL, SA_RESTART); }
/* The same beside a thread that has the signal blocked. */
static void *idles(void *none) {
    for (;;) pause();
    return none;
}
static void beside_a_thread(void) {
    sigset_t s;
    pthread_t t;
    sigemptyset(&s), sigaddset(&s, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &s, 0);
    IS(pthread_create(&t, 0, idles, 0), 0);
    pthread_sigmask(SIG_UNBLOCK, &s, 0);
    ends(EPOLL, 0);
}
/* A call that does not wait is not ended. */
static void ticks(int s) { word->seen++; }
static void without_waiting(void) {
    char c;
    begins(READ, 0);
    setfl(in, O_NONBLOCK, 0);
    handle(SIGALRM, ticks, 0);
    struct itimerval each = {{0, 300}, {0, 300}}, none = {0};
    setitimer(ITIMER_REAL, &each, 0);
    for (int i = 0; i < 5000 || word->seen < 200; i++) {
        ssize_t k = write(out, "e", 1);
        CHECK(k == 1, "write gave %zd", k);
        while ((k = read(in, &c, 1)) < 0)
            CHECK(errno == EAGAIN, "a read that does not wait must say EAGAIN");
        IS(k, 1);
    }
    setitimer(ITIMER_REAL, &none, 0);
    kill(peer, SIGKILL);
    reap(peer);
}
/* A signal that the caller has blocked waits until it is let through. */
static void blocked(void) {
    sigset_t s;
    begins(READ, 0);
    sigemptyset(&s), sigaddset(&s, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &s, 0);
    for (int i = 0; i < ROUNDS; i++) {
        for (int j = 0; j < TRIPS; j++) trip(READ, 'e');
        IS(word->seen, 0);
        if (i == ROUNDS / 2) kill(getpid(), SIGUSR1);
    }
    IS(sigpending(&s), 0);
    CHECK(sigismember(&s, SIGUSR1), "it must wait");
    kill(peer, SIGKILL);
    reap(peer);
}
MAIN(T(read_ends), T(poll_ends), T(poll_ends_restart), T(select_ends), T(epoll_ends), T(goes_on), T(beside_a_thread), T(without_waiting), T(blocked))
