/* Shared by the epoll programs, which include check.h first: a set, the three calls that wait for one, and a set of many
 * pipes. */
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
/* Of so many pipes in a set some have something in each round: each of those is told, and no other. Mixed: half of them by
 * edge, half of the writes to the first twenty, and some calls that find nothing sleep. */
enum { MOST = 1000 };
static void many_pipes(int pipes, int rounds, int mixed) {
    static int p[MOST][2];
    static size_t w[MOST], r[MOST];
    static struct epoll_event v[MOST];
    int e = set();
    unsigned seed = 7;
    for (int i = 0; i < pipes; i++) {
        if (i % (pipes / 4))
            CHECK(!pipe(p[i]), "pipe");
        else
            mkpipe(p[i]);
        add(e, p[i][0], EPOLLIN | (mixed && i % 2 ? EPOLLET : 0), i);
    }
    for (int round = 0; round < rounds; round++) {
        int some = 0, k;
        for (int n = 0; n < 9; n++) {
            int i = rand_r(&seed) % (n % 2 || !mixed ? pipes : 20);
            size_t size = mixed ? 100 : 30;
            put(p[i][1], size, w[i]);
            some += w[i] == r[i];
            w[i] += size;
        }
        IS(k = waits(round % CALLS, e, v, pipes, -1, 0), some);
        for (int n = 0; n < k; n++) {
            int i = v[n].data.u64;
            IS(v[n].events, EPOLLIN);
            CHECK(w[i] > r[i], "pipe %d has nothing", i);
            get(p[i][0], w[i] - r[i], r[i]);
            r[i] = w[i];
        }
        IS(waits(round % CALLS, e, v, pipes, mixed && round % 20 == 0 ? 1 : 0, 0), 0);
    }
}
