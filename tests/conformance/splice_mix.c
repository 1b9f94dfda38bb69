/* Checks: streams whose ends change at random between read, write and the calls that move a pipe's bytes themselves
 * (splice, tee, vmsplice, sendfile, preadv2, pwritev2): every byte once and in order, blocking or not, with ends that are
 * killed. Does not check: one call with waiters (deopt.c), FIFOs (fifo_misc.c). */
#include "check.h"
#include "records.h"
#include "sea.h"
enum { LONGEST = 1 << 16, TOTAL = 6 << 20 };
/* How an end moves its next bytes. The first way has half of the turns. */
enum { PLAIN, FILE_SPLICE, PIPE_SPLICE, SENDFILE, MEMORY, VECTOR, WAYS };
static int sea_file(void) { /* the stream's bytes from any position, as a file */
    int f = memfd_create("sea", 0);
    write_all(f, sea, sizeof sea);
    return f;
}
/* Plain traffic lasts up to so many calls in a row: long enough to pay for a ring, and to pay again. */
static int spell = 120;
static size_t size_of(unsigned *s) { return 1 + rnd(s) % (rnd(s) % 4 || spell > 1000 ? 400 : LONGEST); }
/* The way of this turn and how often in a row. */
static int turn(unsigned *s, int *times) {
    int way = rnd(s) % 2 ? PLAIN : rnd(s) % WAYS;
    *times = 1 + rnd(s) % (way == PLAIN ? spell : 6);
    return way;
}
struct end {
    int fd, file, q[2];
    unsigned s;
};
static void begin(struct end *e, int fd, unsigned seed) {
    *e = (struct end){.fd = fd, .file = sea_file(), .s = seed};
    CHECK(!pipe(e->q), "pipe");
}
/* One call that puts up to k bytes from position n into the pipe. */
static ssize_t give(struct end *e, int way, size_t n, size_t k, int flags) {
    off_t from = n % PERIOD;
    struct iovec v = {(void *)at(n), k};
    switch (way) {
    case FILE_SPLICE: return splice(e->file, &from, e->fd, 0, k, flags);
    case PIPE_SPLICE: {
        ssize_t g = splice(e->file, &from, e->q[1], 0, k, 0), left = g;
        while (left > 0) {
            ssize_t m = splice(e->q[0], 0, e->fd, 0, left, flags);
            if (m < 0 && errno == EAGAIN) IS(events(e->fd, POLLOUT, 15000) & POLLOUT, POLLOUT);
            else if (m <= 0) return m;
            else left -= m;
        }
        return g;
    }
    case SENDFILE: return sendfile(e->fd, e->file, &from, k);
    case MEMORY: return vmsplice(e->fd, &v, 1, flags); /* nobody changes the sea */
    case VECTOR: return pwritev2(e->fd, &v, 1, -1, 0);
    default: return write(e->fd, at(n), k);
    }
}
/* Returns how much the pipe took until `total`, or until nobody reads. */
static size_t writes(int fd, size_t total, unsigned seed, int flags) {
    struct end e;
    size_t n = 0;
    begin(&e, fd, seed);
    while (n < total) {
        int times, way = turn(&e.s, &times);
        for (; times && n < total; times--) {
            size_t k = size_of(&e.s);
            ssize_t g = give(&e, way, n, k < total - n ? k : total - n, flags);
            if (g < 0 && errno == EPIPE) return n;
            if (g < 0 && flags && errno == EAGAIN)
                CHECK(events(fd, POLLOUT, 15000) & (POLLOUT | POLLERR), "no room comes");
            else {
                CHECK(g > 0, "way %d gave %zd at %zu", way, g, n);
                n += g;
            }
        }
    }
    return n;
}
/* One call that takes up to k bytes, and looks at them: they are those from position n. */
static ssize_t take(struct end *e, int way, size_t n, size_t k, int flags) {
    static __thread char b[LONGEST];
    struct iovec v = {b, k};
    off_t to = 0;
    ssize_t g;
    switch (way) {
    case FILE_SPLICE:
        if ((g = splice(e->fd, 0, e->file, &to, k, flags)) > 0) IS(pread(e->file, b, g, 0), g);
        break;
    case PIPE_SPLICE:
        if ((g = splice(e->fd, 0, e->q[1], 0, k, flags)) > 0) IS(read_n(e->q[0], b, g), g);
        break;
    case MEMORY: /* tee: they come again */
        if ((g = tee(e->fd, e->q[1], k, flags)) <= 0) return g;
        IS(read_n(e->q[0], b, g), g);
        same(b, g, n);
        IS(read_n(e->fd, b, g), g);
        break;
    case VECTOR: g = preadv2(e->fd, &v, 1, -1, 0); break;
    default: g = read(e->fd, b, k);
    }
    if (g > 0) same(b, g, n);
    return g;
}
/* Reads to the end; returns the count. */
static size_t reads(int fd, unsigned seed, int flags) {
    struct end e;
    size_t n = 0;
    begin(&e, fd, seed);
    for (;;) {
        int times, way = turn(&e.s, &times);
        for (; times; times--) {
            ssize_t g = take(&e, way, n, size_of(&e.s), flags);
            if (!g) return n;
            if (g < 0 && flags && errno == EAGAIN)
                CHECK(events(fd, POLLIN, 15000) & (POLLIN | POLLHUP), "no bytes come");
            else {
                CHECK(g > 0, "way %d gave %zd at %zu", way, g, n);
                n += g;
            }
        }
    }
}
static void mixed(int flags) {
    sea_init();
    for (unsigned seed = 1; seed < 4; seed++) {
        int p[2];
        mkpipe(p);
        if (flags) setfl(p[0], O_NONBLOCK, 0), setfl(p[1], O_NONBLOCK, 0);
        pid_t c = child();
        if (!c) {
            close(p[0]);
            IS(writes(p[1], TOTAL, seed, flags), TOTAL);
            _exit(0);
        }
        close(p[1]);
        IS(reads(p[0], seed + 100, flags), TOTAL);
        REAP0(c);
        close(p[0]);
    }
}
static void blocking(void) { mixed(0); }
static void nonblocking(void) { mixed(SPLICE_F_NONBLOCK); }
static void long_spells(void) {
    spell = 3000;
    mixed(0);
}
static void *writer_thread(void *fd) {
    IS(writes((int)(intptr_t)fd, TOTAL, 9, 0), TOTAL);
    close((int)(intptr_t)fd);
    return 0;
}
static void between_threads(void) {
    int p[2];
    pthread_t t;
    sea_init();
    mkpipe(p);
    pthread_create(&t, 0, writer_thread, (void *)(intptr_t)p[1]);
    IS(reads(p[0], 10, 0), TOTAL);
    pthread_join(t, 0);
}
/* The writer is killed at any moment: what came is the beginning of the stream, and then the end. */
static void the_writer_killed(void) {
    unsigned s = 3;
    sea_init();
    for (int i = 0; i < 30; i++) {
        int p[2];
        mkpipe(p);
        pid_t k = child();
        if (!k) {
            close(p[0]);
            pid_t c = child();
            if (!c) writes(p[1], SIZE_MAX, i, 0);
            close(p[1]);
            usleep(rnd(&s) % 5000);
            kill(c, SIGKILL);
            reap(c);
            _exit(0);
        }
        rnd(&s);
        close(p[1]);
        reads(p[0], i + 50, 0);
        REAP0(k);
        close(p[0]);
    }
}
/* The reader is killed at any moment: the writer's next call fails with EPIPE. */
static void the_reader_killed(void) {
    unsigned s = 4;
    sea_init();
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < 30; i++) {
        int p[2];
        mkpipe(p);
        pid_t c = child();
        if (!c) {
            close(p[1]);
            reads(p[0], i, 0);
        }
        close(p[0]);
        pid_t k = child();
        if (!k) {
            close(p[1]);
            usleep(rnd(&s) % 5000);
            kill(c, SIGKILL);
            _exit(0);
        }
        rnd(&s);
        writes(p[1], SIZE_MAX, i + 50, 0);
        REAP0(k);
        reap(c);
        close(p[1]);
    }
}
/* One that sleeps in splice is killed: those after it have the whole stream. */
static void a_sleeper_killed(void) {
    sea_init();
    for (int writer = 0; writer < 2; writer++) {
        int p[2];
        mkpipe(p);
        size_t n = writer ? fill_up(p[1], 0) : 0;
        pid_t c = child();
        if (!c) {
            struct end e;
            begin(&e, p[writer], 1);
            if (writer) give(&e, FILE_SPLICE, 0, 5000, 0);
            else splice(p[0], 0, e.q[1], 0, 5000, 0);
            _exit(1);
        }
        wait_asleep(c);
        kill(c, SIGKILL);
        reap(c);
        get(p[0], n, 0);
        if (!(c = child())) {
            close(p[0]);
            IS(writes(p[1], TOTAL, 5, 0), TOTAL);
            _exit(0);
        }
        close(p[1]);
        IS(reads(p[0], 6, 0), TOTAL);
        REAP0(c);
        close(p[0]);
    }
}
/* A handler writes into the pipe whose reader it finds asleep in splice. LINUX signal(7): SA_RESTART. */
static int written;
static void on(int sig) { IS(write(written, at(0), 100), 100); }
static void a_handler_writes(void) {
    int p[2], q[2];
    static char b[100];
    sea_init();
    mkpipe(p);
    CHECK(!pipe(q), "pipe");
    written = p[1];
    handle(SIGALRM, on, SA_RESTART);
    struct itimerval t = {.it_value = {0, 100000}};
    setitimer(ITIMER_REAL, &t, 0);
    IS(splice(p[0], 0, q[1], 0, 100, 0), 100);
    IS(read_n(q[0], b, 100), 100);
    same(b, 100, 0);
    put(p[1], 60000, 0);
    get(p[0], 60000, 0);
}
/* A handler makes a child over a splice, and both return from it: the next splice, asleep then, has the lane to itself. */
static volatile int made;
static void forks(int sig) { made = fork(); }
static void a_handler_forks(void) {
    int p[2], q[2];
    static char b[5000];
    sea_init();
    mkpipe(p);
    CHECK(!pipe(q), "pipe");
    for (int i = 0; i < 16; i++) { /* one more pays for a ring */
        write_all(p[1], at(0), 1);
        IS(read_n(p[0], b, 1), 1);
    }
    pid_t c = child();
    if (!c) {
        handle(SIGALRM, forks, 0);
        struct itimerval t = {.it_value = {0, 50000}};
        setitimer(ITIMER_REAL, &t, 0);
        FAILS(splice(p[0], 0, q[1], 0, 100, 0), EINTR);
        if (made) REAP0(made);
        _exit(0);
    }
    pid_t sleeper = child();
    if (!sleeper) {
        IS(splice(p[0], 0, q[1], 0, 100, 0), 100);
        IS(read_n(q[0], b, 100), 100);
        same(b, 100, 0);
        _exit(0);
    }
    REAP0(c);
    wait_asleep(sleeper);
    write_all(p[1], at(0), 100);
    REAP0(sleeper);
    for (int i = 0; i < 200; i++) {
        write_all(p[1], at(100 + i * 5000), 5000);
        IS(read_n(p[0], b, 5000), 5000);
        same(b, 5000, 100 + i * 5000);
    }
}
MAIN(T(blocking), T(nonblocking), T(long_spells), T(between_threads), T(the_writer_killed), T(the_reader_killed), T(a_sleeper_killed),
     T(a_handler_writes), T(a_handler_forks))
