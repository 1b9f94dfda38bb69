/* Shared by readiness.c, fifo_events.c and fifo_epoll.c, which include check.h first: what holds for either kind of pipe. */
static volatile int hits;
static void on(int s) { hits++; }
/* ppoll opens its mask for its own time only: a blocked signal comes in, and one that stays blocked does not. */
static void ppoll_on(const int p[2]) {
    handle(SIGUSR1, on, SA_RESTART);
    sigset_t s, z;
    sigemptyset(&z);
    sigemptyset(&s);
    sigaddset(&s, SIGUSR1);
    sigprocmask(SIG_BLOCK, &s, 0);
    raise(SIGUSR1);
    struct pollfd q = {p[0], POLLIN, 0};
    FAILS(ppoll(&q, 1, 0, &z), EINTR);
    IS(hits, 1);
    put(p[1], 1, 0);
    raise(SIGUSR1);
    IS(ppoll(&q, 1, 0, &s), 1);
    IS(hits, 1);
}
