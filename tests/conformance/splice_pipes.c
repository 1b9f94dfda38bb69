/* Checks: streams through programs that splice from a pipe into another and do nothing else: alone, in a chain, several at
 * once, with handlers, kills and sets of epoll. Does not check: what one call waits for (splice_waits.c), files and tee
 * (splice_mix.c). */
#include "check.h"
#include "records.h"
#include "sea.h"
#include "splice.h"
/* writer --> P --> relays --> Q --> reader. With `through`, a relay has a pipe of its own between its two splices. */
static void stream(size_t most, int flags, int through) {
    both();
    pid_t w = child();
    if (!w) {
        close(P[0]), close(Q[0]), close(Q[1]);
        writes(P[1], TOTAL, 1);
        _exit(0);
    }
    close(P[1]);
    pid_t m = child();
    if (!m) {
        close(Q[0]);
        if (!through) {
            IS(relay(P[0], Q[1], most, 2, flags), TOTAL);
            _exit(0);
        }
        int own[2];
        size_t n = 0;
        CHECK(!pipe(own), "pipe");
        for (ssize_t k; (k = splice(P[0], 0, own[1], 0, most, 0)); n += k) {
            CHECK(k > 0, "splice");
            splice_all(own[0], Q[1], k);
        }
        IS(n, TOTAL);
        _exit(0);
    }
    close(P[0]), close(Q[1]);
    reads(Q[0], TOTAL, 3);
    REAP0(w);
    REAP0(m);
}
static void sizes_at_random(void) { stream(0, 0, 0); }
static void as_pv(void) { stream(131072, SPLICE_F_MORE, 0); }
static void a_page_each(void) { stream(4096, SPLICE_F_MOVE, 0); }
static void nonblocking(void) { stream(0, SPLICE_F_NONBLOCK, 0); }
static void through_its_own(void) { stream(65536, 0, 1); }
static void *relay_thread(void *x) {
    relay(P[0], Q[1], 0, 7, 0);
    close(Q[1]);
    return 0;
}
static void *writer_thread(void *x) {
    writes(P[1], TOTAL, 4);
    close(P[1]);
    return 0;
}
static void between_threads(void) {
    pthread_t t[2];
    both();
    pthread_create(t, 0, writer_thread, 0);
    pthread_create(t + 1, 0, relay_thread, 0);
    reads(Q[0], TOTAL, 5);
    pthread_join(t[0], 0), pthread_join(t[1], 0);
}
/* A chain of five programs: only the first writes, only the last reads. */
static void a_chain(void) {
    both();
    int from = P[0];
    pid_t w = child(), c[4];
    if (!w) {
        close(P[0]);
        writes(P[1], TOTAL / 4, 1);
        _exit(0);
    }
    close(P[1]), close(Q[0]), close(Q[1]);
    for (int i = 0; i < 4; i++) {
        int n[2];
        CHECK(!pipe(n), "pipe");
        if (!(c[i] = child())) {
            close(n[0]);
            relay(from, n[1], i ? 0 : 131072, i, 0);
            _exit(0);
        }
        close(from), close(n[1]);
        from = n[0];
    }
    reads(from, TOTAL / 4, 3);
    REAP0(w);
    for (int i = 0; i < 4; i++) REAP0(c[i]);
}
/* The same bytes go round through two programs. */
static void round_and_round(void) {
    both();
    pid_t c = child();
    if (!c) {
        for (int i = 0; i < 3000; i++) splice_all(P[0], Q[1], 2000);
        _exit(0);
    }
    put(P[1], 2000, 0);
    for (int i = 0; i < 2999; i++) splice_all(Q[0], P[1], 2000);
    get(Q[0], 2000, 0);
    REAP0(c);
}
/* Plain calls between: the order is that of the calls. */
static void after_writes(void) {
    static char b[LONGEST];
    both();
    unsigned s = 9;
    size_t n = 0;
    for (int i = 0; i < 4000; i++) {
        size_t k = 1 + rnd(&s) % (holds() < 120000 ? holds() / 4 : 30000), first = rnd(&s) % k;
        write_all(Q[1], at(n), first);
        write_all(P[1], at(n + first), k - first);
        size_t rest = k - first;
        if (i % 7 == 3) { /* a byte of it by hand */
            IS(read_n(P[0], b, 1), 1);
            write_all(Q[1], b, 1);
            rest--;
        }
        splice_all(P[0], Q[1], rest);
        IS(read_n(Q[0], b, k), k);
        same(b, k, n);
        n += k;
    }
}
/* A handler splices, and writes, over a splice asleep, at random over those that are not. */
static void splices(int sig) {
    int e = errno;
    if (events(P[0], POLLIN, 0) && events(Q[1], POLLOUT, 0)) splice(P[0], 0, Q[1], 0, 4000, SPLICE_F_NONBLOCK);
    errno = e;
}
static void a_handler_splices(void) {
    both();
    pid_t w = child();
    if (!w) {
        close(P[0]), close(Q[0]), close(Q[1]);
        writes(P[1], TOTAL / 4, 1);
        _exit(0);
    }
    close(P[1]);
    pid_t m = child();
    if (!m) {
        close(Q[0]);
        handle(SIGALRM, splices, SA_RESTART);
        struct itimerval t = {{0, 300}, {0, 300}};
        setitimer(ITIMER_REAL, &t, 0);
        for (ssize_t k; (k = splice(P[0], 0, Q[1], 0, 40000, 0));) CHECK(k > 0 || errno == EINTR, "splice");
        _exit(0);
    }
    close(P[0]), close(Q[1]);
    reads(Q[0], TOTAL / 4, 3);
    REAP0(w);
    REAP0(m);
}
/* Those that sleep are killed: nothing is lost, and nothing comes twice. */
static void a_sleeper_is_killed(void) {
    both();
    pid_t c = child();
    if (!c) {
        splice(P[0], 0, Q[1], 0, 4000, 0);
        _exit(1);
    }
    wait_asleep(c);
    kill(c, SIGKILL);
    reap(c);
    put(P[1], 4000, 0);
    splice_all(P[0], Q[1], 4000);
    size_t n = 4000 + fill_up(Q[1], 4000);
    put(P[1], 4000, n);
    if (!(c = child())) {
        splice(P[0], 0, Q[1], 0, 4000, 0);
        _exit(1);
    }
    wait_asleep(c);
    kill(c, SIGKILL);
    reap(c);
    get(Q[0], n, 0);
    splice_all(P[0], Q[1], 4000);
    get(Q[0], 4000, n);
}
/* A relay that is killed at any time: what came is the beginning of the stream. */
static void a_relay_is_killed(void) {
    unsigned s = 3;
    static char b[LONGEST];
    for (int i = 0; i < 25; i++) {
        both();
        pid_t w = child();
        if (!w) {
            close(P[0]), close(Q[0]), close(Q[1]);
            signal(SIGPIPE, SIG_DFL);
            writes(P[1], SIZE_MAX / 2, i);
        }
        close(P[1]);
        pid_t m = child();
        if (!m) {
            close(Q[0]);
            relay(P[0], Q[1], 0, i, 0);
        }
        close(P[0]), close(Q[1]);
        pid_t k = child();
        if (!k) {
            close(Q[0]);
            usleep(rnd(&s) % 4000);
            kill(m, SIGKILL);
            _exit(0);
        }
        rnd(&s);
        size_t n = 0;
        for (ssize_t g; (g = read(Q[0], b, sizeof b)); n += g) {
            CHECK(g > 0, "read");
            same(b, g, n);
        }
        REAP0(k);
        reap(m);
        reap(w);
        close(Q[0]);
    }
}
/* Several at once: each byte comes once. */
static void many_relays(void) {
    static char b[LONGEST];
    enum { N = 3 };
    both();
    pid_t w = child(), m[N];
    if (!w) {
        static char one[LONGEST];
        memset(one, 1, sizeof one);
        close(P[0]), close(Q[0]), close(Q[1]);
        unsigned s = 8;
        for (size_t n = 0, k; n < TOTAL / 2; n += k) {
            k = 1 + rnd(&s) % 9000;
            if (k > TOTAL / 2 - n) k = TOTAL / 2 - n;
            write_all(P[1], one, k);
        }
        _exit(0);
    }
    close(P[1]);
    for (int i = 0; i < N; i++)
        if (!(m[i] = child())) {
            close(Q[0]);
            relay(P[0], Q[1], 0, i, i == 2 ? SPLICE_F_NONBLOCK : 0);
            _exit(0);
        }
    close(P[0]), close(Q[1]);
    size_t n = 0, sum = 0;
    for (ssize_t g; (g = read(Q[0], b, sizeof b)); n += g) {
        CHECK(g > 0, "read");
        for (ssize_t i = 0; i < g; i++) sum += b[i];
    }
    IS(n, TOTAL / 2);
    IS(sum, TOTAL / 2);
    REAP0(w);
    for (int i = 0; i < N; i++) REAP0(m[i]);
}
/* Others write records into the target meanwhile: each is whole. */
static void beside_writers(void) {
    both();
    pid_t c[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        if (!(c[i] = child())) {
            close(Q[0]), close(P[0]);
            write_records(i % 2 ? P[1] : Q[1], i, RECORDS);
            _exit(0);
        }
    close(P[1]);
    pid_t m = child();
    if (!m) {
        close(Q[0]);
        for (ssize_t k; (k = splice(P[0], 0, Q[1], 0, sizeof(struct record), 0));)
            CHECK(k == sizeof(struct record), "a part of a record: %zd", k);
        _exit(0);
    }
    close(P[0]), close(Q[1]);
    int next[WRITERS] = {0}, n = 0;
    while (take_record(Q[0], next)) n++;
    IS(n, WRITERS * RECORDS);
    for (int i = 0; i < WRITERS; i++) REAP0(c[i]);
    REAP0(m);
}
/* One who waits for the target in a set is told of what is spliced. */
static void a_set_is_told(int events) {
    both();
    pid_t c = child();
    if (!c) {
        close(P[0]), close(P[1]), close(Q[1]);
        setfl(Q[0], O_NONBLOCK, 0);
        int e = epoll_create1(0);
        struct epoll_event v = {.events = events};
        epoll_ctl(e, EPOLL_CTL_ADD, Q[0], &v);
        static char b[LONGEST];
        for (size_t n = 0;;) {
            IS(epoll_wait(e, &v, 1, 14000), 1);
            ssize_t g;
            while ((g = read(Q[0], b, sizeof b)) > 0) same(b, g, n), n += g;
            if (!g) {
                IS(n, TOTAL / 8);
                _exit(0);
            }
        }
    }
    close(Q[0]);
    pid_t w = child();
    if (!w) {
        close(P[0]), close(Q[1]);
        writes(P[1], TOTAL / 8, 2);
        _exit(0);
    }
    close(P[1]);
    IS(relay(P[0], Q[1], 0, 5, 0), TOTAL / 8);
    close(Q[1]);
    REAP0(c);
    REAP0(w);
}
static void a_set_by_level(void) { a_set_is_told(EPOLLIN); }
static void a_set_by_edge(void) { a_set_is_told(EPOLLIN | EPOLLET); }
MAIN(T(sizes_at_random), T(as_pv), T(a_page_each), T(nonblocking), T(through_its_own), T(between_threads),
     T(a_chain), T(round_and_round), T(after_writes), T(a_handler_splices), T(a_sleeper_is_killed),
     T(a_relay_is_killed), T(many_relays), T(beside_writers), T(a_set_by_level), T(a_set_by_edge))
