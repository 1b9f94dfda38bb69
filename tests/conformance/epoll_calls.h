/* Shared by epoll_rules.c, epoll_wait.c and epoll_stream.c, which include check.h first: a set, and the three calls that
 * wait for one. */
enum { WAIT, PWAIT, PWAIT2, CALLS };
#define EACH_CALL(how) for (int how = 0; how < CALLS; how++)
static volatile int hits;
static void on(int s) { hits++; }
static int ctl(int e, int op, int fd, uint32_t events, uint64_t data) {
    struct epoll_event v = {.events = events, .data.u64 = data};
    return epoll_ctl(e, op, fd, &v);
}
static void add(int e, int fd, uint32_t events, uint64_t data) { IS(ctl(e, EPOLL_CTL_ADD, fd, events, data), 0); }
static void mod(int e, int fd, uint32_t events, uint64_t data) { IS(ctl(e, EPOLL_CTL_MOD, fd, events, data), 0); }
static void del(int e, int fd) { IS(ctl(e, EPOLL_CTL_DEL, fd, 0, 0), 0); }
static int set(void) {
    int e = epoll_create1(EPOLL_CLOEXEC);
    CHECK(e >= 0, "epoll_create1");
    return e;
}
static int set_of(int fd, uint32_t events) {
    int e = set();
    add(e, fd, events, fd);
    return e;
}
static int waits(int how, int e, struct epoll_event *v, int most, int ms, const sigset_t *mask) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    if (how == WAIT) return epoll_wait(e, v, most, ms);
    if (how == PWAIT) return epoll_pwait(e, v, most, ms, mask);
    return (int)syscall(SYS_epoll_pwait2, e, v, most, ms < 0 ? 0 : &t, mask, 8);
}
/* The events of the one descriptor that is told of, or 0. */
static int told(int how, int e, int ms) {
    struct epoll_event v[4] = {0};
    int n = waits(how, e, v, 4, ms, 0);
    CHECK(n >= -1 && n <= 1, "%d entries for one descriptor", n);
    return n > 0 ? (int)v[0].events : n;
}
