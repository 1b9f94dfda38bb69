/* Checks: streams of megabytes by event loops, by level, edge and one-shot: every byte once and in order, with several
 * writers, reader threads and forked workers, with a set that changes meanwhile, and with ends that are killed. Does not
 * check: what one call says (epoll_rules.c, epoll_wait.c). */
#include "check.h"
#include "epoll_calls.h"
#include "records.h"
#include "sea.h"
static volatile int *S;
enum { LONGEST = 1 << 16 };
/* Writes of `size`, or of any size where it is 0. A writer with a set goes on until EAGAIN, and waits then. */
static void writes(int w, size_t total, size_t size, int e) {
    unsigned s = 7;
    for (size_t n = 0; n < total;) {
        size_t k = size ? size : 1 + rnd(&s) % (s % 4 ? 300 : LONGEST);
        if (k > total - n) k = total - n;
        ssize_t g = write(w, at(n), k);
        CHECK(g > 0 || (e >= 0 && errno == EAGAIN), "write of %zu gave %zd", k, g);
        if (g > 0)
            n += g;
        else
            IS(told(n % CALLS, e, 15000), EPOLLOUT);
    }
}
enum { LEVEL, EDGE, ONCE_ARMED, PARTLY, WAYS };
/* By level one read for each event; by edge reads until EAGAIN; a one-shot is armed after each; PARTLY: by edge, one read,
 * then MOD, which tells anew. */
static void reads(int r, size_t total, size_t most, int way, int ms) {
    static const uint32_t EVENTS[] = {EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT, EPOLLIN | EPOLLET};
    static char b[LONGEST];
    size_t n = 0;
    ssize_t g = -1;
    setfl(r, O_NONBLOCK, 0);
    int e = set_of(r, EVENTS[way]);
    while (g) {
        int events = told(n % CALLS, e, ms);
        if (!events && !ms) continue;
        CHECK(events, "an event was lost at %zu", n);
        do {
            g = read(r, b, most);
            CHECK(g >= 0 || (errno == EAGAIN && way == EDGE), "told, and read failed at %zu", n);
            if (g > 0) same(b, g, n);
            if (g > 0) n += g;
        } while (g > 0 && way == EDGE);
        if (way >= ONCE_ARMED) mod(e, r, EVENTS[way], n);
    }
    IS(n, total);
    close(e);
}
/* `ms`: how long a reader waits at a time. */
static void stream_(size_t total, size_t size, size_t most, int loop, int ms) {
    sea_init();
    for (int way = 0; way < WAYS; way++) {
        int p[2];
        mkpipe(p);
        pid_t c = child();
        if (!c) {
            close(p[0]);
            if (loop) setfl(p[1], O_NONBLOCK, 0);
            writes(p[1], total, size, loop ? set_of(p[1], EPOLLOUT | (way != LEVEL ? EPOLLET : 0)) : -1);
            _exit(0);
        }
        close(p[1]);
        reads(p[0], total, most, way, ms);
        REAP0(c);
        close(p[0]);
    }
}
static void stream(size_t total, size_t size, size_t most, int loop) { stream_(total, size, most, loop, 15000); }
static void by_64_bytes(void) { stream(1 << 20, 64, 64, 0); }
static void by_64_kib(void) { stream(12 << 20, 65536, 65536, 0); }
/* Bytes that were told stay there, also where a reader could have copied them out of the writer's memory. */
static void without_a_wait(void) { stream_(4 << 20, 65536, 16384, 0, 0); }
static void by_any_size(void) { stream(3 << 20, 0, 5000, 0); }
static void both_by_loops(void) { stream(3 << 20, 0, 65536, 1); }
static void a_writer_by_a_loop(void) { stream(6 << 20, 65536, 4096, 1); }
static void start_writers(int *p, pid_t *w, int n) {
    for (int i = 0; i < n; i++)
        if (!(w[i] = child())) {
            close(p[0]);
            write_records(p[1], i, RECORDS);
            _exit(0);
        }
    close(p[1]);
}
static void several_writers(void) {
    for (int edge = 0; edge < 2; edge++) {
        int p[2], next[WRITERS] = {0}, n = 0, k = 1;
        pid_t w[WRITERS];
        mkpipe(p);
        start_writers(p, w, WRITERS);
        setfl(p[0], O_NONBLOCK, 0);
        int e = set_of(p[0], EPOLLIN | (edge ? EPOLLET : 0));
        while (k) {
            CHECK(told(n % CALLS, e, 15000), "an event was lost after %d records", n);
            while ((k = take_record(p[0], next)) > 0) {
                n++;
                if (!edge) break;
            }
        }
        IS(n, WRITERS * RECORDS);
        for (int i = 0; i < WRITERS; i++) {
            IS(next[i], RECORDS);
            REAP0(w[i]);
        }
        close(p[0]);
        close(e);
    }
}
/* Workers on one pipe: threads or processes, with one set or a set each. A worker that was told drains the pipe. */
static int the_end, one_set;
static uint32_t the_way;
static int works(int e) {
    int next[WRITERS] = {0}, n = 0, k = 1;
    while (k) {
        CHECK(told(WAIT, e, 15000), "an event was lost after %d records", n);
        while ((k = take_record(the_end, next)) > 0) n++;
        if (the_way & EPOLLONESHOT) mod(e, the_end, the_way, 0);
    }
    /* By edge or once, one is told of the end: it tells the others. LINUX pipe_release: it wakes all, exclusive or not. */
    if (!(the_way & EPOLLEXCLUSIVE)) mod(e, the_end, the_way, 0);
    return n;
}
static void *a_worker(void *own) { return (void *)(intptr_t)works(own ? set_of(the_end, the_way) : one_set); }
static void workers(int threads, int own, uint32_t way) {
    int p[2], n = 0;
    pid_t w[WRITERS], c[READERS];
    pthread_t t[READERS];
    mkpipe(p);
    S = shared(4096);
    setfl(p[0], O_NONBLOCK, 0);
    the_end = p[0];
    the_way = way;
    one_set = own ? -1 : set_of(p[0], way);
    start_writers(p, w, 2);
    for (int i = 0; i < READERS; i++)
        if (threads)
            pthread_create(&t[i], 0, a_worker, own ? p : 0);
        else if (!(c[i] = child())) {
            __sync_fetch_and_add(&S[0], (int)(intptr_t)a_worker(own ? p : 0));
            _exit(0);
        }
    for (int i = 0; i < READERS; i++) {
        void *got;
        if (threads)
            pthread_join(t[i], &got), n += (int)(intptr_t)got;
        else
            REAP0(c[i]);
    }
    IS(threads ? n : S[0], 2 * RECORDS);
    for (int i = 0; i < 2; i++) REAP0(w[i]);
    close(p[0]);
    close(one_set);
}
static void threads_in_one_set(void) {
    workers(1, 0, EPOLLIN);
    workers(1, 0, EPOLLIN | EPOLLET);
    workers(1, 0, EPOLLIN | EPOLLONESHOT);
    workers(1, 0, EPOLLIN | EPOLLET | EPOLLONESHOT);
}
static void threads_with_sets(void) {
    workers(1, 1, EPOLLIN);
    workers(1, 1, EPOLLIN | EPOLLET);
    workers(1, 1, EPOLLIN | EPOLLEXCLUSIVE);
}
static void processes_in_one_set(void) {
    workers(0, 0, EPOLLIN);
    workers(0, 0, EPOLLIN | EPOLLET);
}
static void processes_with_sets(void) {
    workers(0, 1, EPOLLIN);
    workers(0, 1, EPOLLIN | EPOLLET);
    workers(0, 1, EPOLLIN | EPOLLEXCLUSIVE);
}
/* The set is changed at any moment by another thread: MOD with the same events, DEL and ADD, a duplicate that comes and
 * goes. The reader misses nothing. */
static int changed_set, changed_end;
static volatile int over;
static void *changes(void *how) {
    unsigned s = 3;
    uint32_t events = EPOLLIN | ((intptr_t)how ? EPOLLET : 0);
    while (!over) {
        int k = rnd(&s) % 3;
        if (k == 0) mod(changed_set, changed_end, events, 1);
        if (k == 1) {
            del(changed_set, changed_end);
            add(changed_set, changed_end, events, 1);
        }
        if (k == 2) {
            int d = dup(changed_end);
            add(changed_set, d, events, 1);
            del(changed_set, d);
            close(d);
        }
        usleep(rnd(&s) % 200);
    }
    return 0;
}
static void a_set_that_changes(void) {
    enum { TOTAL = 4 << 20 };
    static char b[LONGEST];
    sea_init();
    for (int edge = 0; edge < 2; edge++) {
        int p[2];
        pthread_t t;
        size_t n = 0;
        ssize_t g = -1;
        mkpipe(p);
        pid_t c = child();
        if (!c) {
            close(p[0]);
            writes(p[1], TOTAL, 0, -1);
            _exit(0);
        }
        close(p[1]);
        setfl(p[0], O_NONBLOCK, 0);
        over = 0;
        changed_end = p[0];
        changed_set = set_of(p[0], EPOLLIN | (edge ? EPOLLET : 0));
        pthread_create(&t, 0, changes, (void *)(intptr_t)edge);
        while (g) {
            struct epoll_event v[4];
            CHECK(waits(n % CALLS, changed_set, v, 4, 15000, 0) > 0, "an event was lost at %zu", n);
            while ((g = read(p[0], b, 9000)) > 0) {
                same(b, g, n);
                n += g;
            }
        }
        over = 1;
        pthread_join(t, 0);
        IS(n, TOTAL);
        REAP0(c);
        close(p[0]);
        close(changed_set);
    }
}
/* A loop over many pipes, whose writers end at any time; each is told while it has bytes, with room for 3 entries. */
static void many_pipes_in_one_loop(void) {
    enum { PIPES = 12, TOTAL = 250000 };
    static char b[LONGEST];
    sea_init();
    for (int edge = 0; edge < 2; edge++) {
        int p[PIPES][2], e = set(), open = PIPES;
        size_t n[PIPES] = {0};
        pid_t c[PIPES];
        for (int i = 0; i < PIPES; i++) {
            mkpipe(p[i]);
            if (!(c[i] = child())) {
                for (int k = 0; k <= i; k++) close(p[k][0]);
                writes(p[i][1], TOTAL, i % 2 ? 700 : 20000, -1);
                _exit(0);
            }
            close(p[i][1]);
            setfl(p[i][0], O_NONBLOCK, 0);
            add(e, p[i][0], EPOLLIN | (edge ? EPOLLET : 0), i);
        }
        while (open) {
            struct epoll_event v[3];
            int told = waits(open % CALLS, e, v, 3, 15000, 0);
            CHECK(told > 0, "an event was lost");
            for (int k = 0; k < told; k++) {
                int i = v[k].data.u64;
                ssize_t g;
                CHECK(k == 0 || v[k - 1].data.u64 != (unsigned)i, "two entries for one descriptor");
                do {
                    g = read(p[i][0], b, 9000);
                    CHECK(g >= 0 || (edge && errno == EAGAIN), "told, and read failed");
                    if (g > 0) same(b, g, n[i]);
                    if (g > 0) n[i] += g;
                } while (edge && g > 0);
                if (g) continue;
                del(e, p[i][0]); /* a writer that has not yet begun holds it too */
                close(p[i][0]);
                open--;
            }
        }
        for (int i = 0; i < PIPES; i++) {
            IS(n[i], TOTAL);
            REAP0(c[i]);
        }
        close(e);
    }
}
/* A writer, or one of two readers with a set each, is killed at any moment: what the other has is whole, and ends. */
static void killed(int reader) {
    unsigned s = 11;
    for (int i = 0; i < 60; i++) {
        int p[2], next[WRITERS] = {0}, k = 1;
        if (i % 8)
            CHECK(!pipe(p), "pipe");
        else
            mkpipe(p);
        setfl(p[0], O_NONBLOCK, 0);
        the_end = p[0];
        the_way = EPOLLIN | (i % 2 ? EPOLLET : 0);
        pid_t killer = child();
        if (!killer) {
            pid_t w = child();
            if (!w) {
                close(p[0]);
                write_records(p[1], 0, reader ? 400 : INT_MAX);
                _exit(0);
            }
            close(p[1]);
            pid_t r = reader ? child() : -1;
            if (!r) works(set_of(p[0], the_way));
            if (!r) _exit(0);
            close(p[0]);
            usleep(rnd(&s) % 4000);
            kill(reader ? r : w, SIGKILL);
            if (reader) reap(r);
            reap(w);
            _exit(0);
        }
        rnd(&s);
        close(p[1]);
        works(set_of(p[0], the_way));
        REAP0(killer);
        for (int d = 3; d < 9; d++) close(d);
    }
}
static void a_writer_killed(void) { killed(0); }
static void a_reader_killed(void) { killed(1); }
MAIN(T(by_64_bytes), T(by_64_kib), T(without_a_wait), T(by_any_size), T(both_by_loops), T(a_writer_by_a_loop),
     T(several_writers), T(threads_in_one_set), T(threads_with_sets), T(processes_in_one_set), T(processes_with_sets),
     T(a_set_that_changes), T(many_pipes_in_one_loop), T(a_writer_killed), T(a_reader_killed))
