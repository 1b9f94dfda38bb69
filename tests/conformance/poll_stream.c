/* Checks: streams whose ends sleep in poll, ppoll, select or pselect6 between their reads and writes: every byte once and in
 * order, with several readers and writers, with many pipes, and with ends that are killed. Does not check: what one call
 * says (poll_wait.c, poll_set.c), epoll. */
#include "check.h"
#include "poll_calls.h"
#include "records.h"
#include "sea.h"
static volatile int *S;
enum { LONGEST = 1 << 16 };
/* Writes `total` bytes in writes of `size`, or of any size up to LONGEST where it is 0; `how` < 0 never asks. */
static void writes(int how, int w, size_t total, size_t size) {
    unsigned s = 7;
    for (size_t n = 0; n < total;) {
        size_t k = size ? size : 1 + rnd(&s) % (s % 4 ? 300 : LONGEST);
        if (k > total - n) k = total - n;
        if (how >= 0) IS(await1(how, w, POLLOUT, 15000), POLLOUT);
        ssize_t g = write(w, at(n), k);
        CHECK(g > 0 || (g < 0 && errno == EAGAIN && how >= 0 && k > 1), "write of %zu gave %zd", k, g);
        if (g > 0) n += g;
    }
}
static void reads(int how, int r, size_t total, size_t most, int ms) {
    static char b[LONGEST];
    size_t n = 0;
    for (;;) {
        int told = await1(how, r, POLLIN, ms);
        if (!told && !ms) continue;
        IS(told, POLLIN);
        ssize_t g = read(r, b, most);
        CHECK(g >= 0, "ready, and read failed at %zu", n);
        if (!g) break;
        same(b, g, n);
        n += g;
    }
    IS(n, total);
}
/* A reader that asks before each read, for `ms` at a time, and a writer that may ask too. */
static void stream_(size_t total, size_t size, size_t most, int asks, int ms) {
    EACH_CALL(how) {
        int p[2];
        sea_init();
        mkpipe(p);
        pid_t c = child();
        if (!c) {
            close(p[0]);
            if (asks) setfl(p[1], O_NONBLOCK, 0);
            writes(asks ? how : -1, p[1], total, size);
            _exit(0);
        }
        close(p[1]);
        if (how % 2) setfl(p[0], O_NONBLOCK, 0);
        reads(how, p[0], total, most, ms);
        REAP0(c);
        close(p[0]);
    }
}
static void stream(size_t total, size_t size, size_t most, int asks) { stream_(total, size, most, asks, 15000); }
static void by_64_bytes(void) { stream(1 << 20, 64, 64, 0); }
static void by_64_kib(void) { stream(16 << 20, 65536, 65536, 0); }
/* Bytes that were told stay there, also where a reader could have copied them out of the writer's memory. */
static void without_a_wait(void) { stream_(4 << 20, 65536, 16384, 0, 0); }
static void by_any_size(void) { stream(4 << 20, 0, 5000, 0); }
static void both_ask(void) { stream(4 << 20, 0, 65536, 1); }
static void a_writer_that_asks(void) { stream(8 << 20, 65536, 4096, 1); }
/* A reader that asks at times only, and waits in read(2) at others. */
static void asks_at_times(void) {
    int p[2];
    static char b[LONGEST];
    enum { TOTAL = 6 << 20 };
    sea_init();
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        close(p[0]);
        writes(-1, p[1], TOTAL, 0);
        _exit(0);
    }
    close(p[1]);
    unsigned s = 3;
    size_t n = 0;
    for (;;) {
        unsigned k = rnd(&s) % 8;
        if (k < CALLS) IS(await1(k, p[0], POLLIN, 15000), POLLIN);
        ssize_t g = read(p[0], b, 1 + rnd(&s) % 20000);
        CHECK(g >= 0, "read failed at %zu", n);
        if (!g) break;
        same(b, g, n);
        n += g;
    }
    IS(n, TOTAL);
    REAP0(c);
}
/* The records that come to one reader, which may share the pipe with others. Returns how many at the end of the stream. */
static int read_records(int how, int r, int *next) {
    for (int n = 0;;) {
        IS(await1(how, r, POLLIN, -1), POLLIN);
        int k = take_record(r, next); /* another may have taken it */
        if (!k) return n;
        n += k > 0;
    }
}
static void several_writers(void) {
    EACH_CALL(how) {
        int p[2], next[WRITERS] = {0};
        pid_t c[WRITERS];
        mkpipe(p);
        for (int i = 0; i < WRITERS; i++)
            if (!(c[i] = child())) {
                close(p[0]);
                write_records(p[1], i, RECORDS);
                _exit(0);
            }
        close(p[1]);
        IS(read_records(how, p[0], next), WRITERS * RECORDS);
        for (int i = 0; i < WRITERS; i++) {
            IS(next[i], RECORDS);
            REAP0(c[i]);
        }
        close(p[0]);
    }
}
static int shared_end;
static void *a_reader(void *how) {
    int next[WRITERS] = {0};
    return (void *)(intptr_t)read_records((int)(intptr_t)how % CALLS, shared_end, next);
}
/* Each record comes to one reader, whole; the readers may all be told of it. */
static void several_readers(int threads) {
    EACH_CALL(how) {
        int p[2], n = 0;
        pid_t w[WRITERS], c[READERS];
        pthread_t t[READERS];
        void *got;
        mkpipe(p);
        S = shared(4096);
        setfl(p[0], O_NONBLOCK, 0);
        shared_end = p[0];
        for (int i = 0; i < 2; i++)
            if (!(w[i] = child())) {
                close(p[0]);
                write_records(p[1], i, RECORDS);
                _exit(0);
            }
        close(p[1]);
        for (int i = 0; i < READERS; i++)
            if (threads)
                pthread_create(&t[i], 0, a_reader, (void *)(intptr_t)(how + i));
            else if (!(c[i] = child())) {
                __sync_fetch_and_add(&S[0], (int)(intptr_t)a_reader((void *)(intptr_t)(how + i)));
                _exit(0);
            }
        for (int i = 0; i < READERS; i++)
            if (threads) {
                pthread_join(t[i], &got);
                n += (int)(intptr_t)got;
            } else
                REAP0(c[i]);
        IS(threads ? n : S[0], 2 * RECORDS);
        for (int i = 0; i < 2; i++) REAP0(w[i]);
        close(p[0]);
    }
}
static void several_reader_threads(void) { several_readers(1); }
static void several_reader_processes(void) { several_readers(0); }
/* One loop over many pipes, each with a writer of its own. */
static void many_pipes_in_one_loop(void) {
    enum { PIPES = 12, TOTAL = 300000 };
    sea_init();
    EACH_CALL(how) {
        int p[PIPES][2], open = PIPES;
        size_t n[PIPES] = {0};
        pid_t c[PIPES];
        struct pollfd q[PIPES];
        static char b[LONGEST];
        for (int i = 0; i < PIPES; i++) {
            mkpipe(p[i]);
            if (!(c[i] = child())) {
                for (int k = 0; k <= i; k++) close(p[k][0]);
                writes(-1, p[i][1], TOTAL, i % 2 ? 700 : 20000);
                _exit(0);
            }
            close(p[i][1]);
        }
        while (open) {
            for (int i = 0, k = 0; i < PIPES; i++)
                if (p[i][0] >= 0) q[k++] = (struct pollfd){p[i][0], POLLIN, 0};
            int told = await(how, q, open, 15000), seen = 0;
            CHECK(told > 0, "nobody was ready");
            for (int k = 0, all = open; k < all; k++) {
                if (!q[k].revents) continue;
                int i = 0;
                while (p[i][0] != q[k].fd) i++;
                ssize_t g = read(q[k].fd, b, 9000);
                CHECK(g >= 0, "read");
                same(b, g, n[i]);
                n[i] += g;
                seen++;
                if (!g) {
                    close(p[i][0]);
                    p[i][0] = -1;
                    open--;
                }
            }
            IS(seen, told);
        }
        for (int i = 0; i < PIPES; i++) {
            IS(n[i], TOTAL);
            REAP0(c[i]);
        }
    }
}
/* As subprocess.communicate(): one loop writes a filter's input and reads both of its outputs. */
static void a_filter(void) {
    enum { TOTAL = 3 << 20 };
    sea_init();
    EACH_CALL(how) {
        int in[2], out[2], err[2];
        static char b[LONGEST];
        mkpipe(in);
        mkpipe(out);
        mkpipe(err);
        pid_t c = child();
        if (!c) {
            ssize_t g;
            size_t n = 0;
            close(in[1]);
            while ((g = read(in[0], b, 10000)) > 0) {
                write_all(out[1], b, g);
                if (n / 100000 < (n + g) / 100000) put(err[1], 50, n / 100000 * 50);
                n += g;
            }
            _exit(0);
        }
        close(in[0]);
        close(out[1]);
        close(err[1]);
        setfl(in[1], O_NONBLOCK, 0);
        struct pollfd q[3] = {{out[0], POLLIN}, {err[0], POLLIN}, {in[1], POLLOUT}};
        size_t sent = 0, back = 0, told = 0;
        for (int n = 3; q[0].fd >= 0;) {
            CHECK(await(how, q, n, 15000) > 0, "nobody was ready");
            if (n == 3 && q[2].revents) {
                ssize_t g = write(in[1], at(sent), TOTAL - sent < LONGEST ? TOTAL - sent : LONGEST);
                CHECK(g > 0, "room, and write gave %zd", g);
                if ((sent += g) == TOTAL) {
                    close(in[1]);
                    n = 2;
                }
            }
            if (q[1].revents) {
                ssize_t g = read(err[0], b, 1000);
                verify(b, g, told);
                told += g;
            }
            if (q[0].revents) {
                ssize_t g = read(out[0], b, sizeof b);
                same(b, g, back);
                back += g;
                if (!g) break;
            }
        }
        IS(back, TOTAL);
        get(err[0], TOTAL / 100000 * 50 - told, told);
        REAP0(c);
        close(out[0]);
        close(err[0]);
    }
}
/* A writer is killed at any moment; its reader, which asks before each read, has whole records and then the end. */
static void a_writer_killed(void) {
    unsigned s = 11;
    for (int i = 0; i < 60; i++) {
        int p[2], next[WRITERS] = {0};
        if (i % 8)
            CHECK(!pipe(p), "pipe");
        else
            mkpipe(p);
        pid_t k = child();
        if (!k) {
            close(p[0]);
            pid_t c = child();
            if (!c) write_records(p[1], 0, INT_MAX);
            close(p[1]);
            usleep(rnd(&s) % 4000);
            kill(c, SIGKILL);
            reap(c);
            _exit(0);
        }
        rnd(&s);
        close(p[1]);
        read_records(i % CALLS, p[0], next);
        REAP0(k);
        close(p[0]);
    }
}
/* A reader is killed at any moment: its writer, which asks before each write, gets EPIPE; another reader goes on. */
static void a_reader_killed(void) {
    unsigned s = 5;
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < 60; i++) {
        int p[2], how = i % CALLS;
        ssize_t g;
        if (i % 8)
            CHECK(!pipe(p), "pipe");
        else
            mkpipe(p);
        pid_t c = child();
        if (!c) {
            char b[500];
            close(p[1]);
            for (;;) {
                IS(await1(how, p[0], POLLIN, -1), POLLIN);
                CHECK(read(p[0], b, sizeof b) > 0, "read");
            }
        }
        close(p[0]);
        pid_t k = child();
        if (!k) {
            close(p[1]);
            usleep(rnd(&s) % 4000);
            kill(c, SIGKILL);
            _exit(0);
        }
        rnd(&s);
        setfl(p[1], O_NONBLOCK, 0);
        static char b[700];
        do {
            IS(await1(how, p[1], POLLOUT, -1), POLLOUT);
            g = write(p[1], b, sizeof b);
            CHECK(g > 0 || errno == EPIPE || errno == EAGAIN, "write gave %zd", g);
        } while (g > 0 || errno == EAGAIN);
        IS(events(p[1], POLLOUT, 0) & POLLERR, POLLERR);
        REAP0(k);
        reap(c);
        close(p[1]);
    }
}
/* Waiters are killed in their sleep, one after the other, beside one that reads: the stream is whole. */
static void a_waiter_killed(void) {
    enum { KILLS = 40 };
    int p[2], next[WRITERS] = {0};
    mkpipe(p);
    S = shared(4096);
    pid_t w = child();
    if (!w) {
        close(p[0]);
        struct record r = {.size = sizeof r};
        for (; !S[0]; r.number++) {
            r.sum = sum_of(&r);
            IS(write(p[1], &r, sizeof r), sizeof r);
            if (r.number % 50 == 0) usleep(300);
        }
        S[1] = r.number;
        _exit(0);
    }
    pid_t k = child();
    if (!k) {
        unsigned s = 1;
        close(p[1]);
        for (int i = 0; i < KILLS; i++) {
            pid_t c = child();
            if (!c)
                for (;;) await1(i % CALLS, p[0], POLLIN, -1);
            usleep(rnd(&s) % 3000);
            kill(c, SIGKILL);
            reap(c);
        }
        S[0] = 1;
        _exit(0);
    }
    close(p[1]);
    int n = read_records(PPOLL, p[0], next);
    REAP0(k);
    REAP0(w);
    IS(n, S[1]);
}
MAIN(T(by_64_bytes), T(by_64_kib), T(without_a_wait), T(by_any_size), T(both_ask), T(a_writer_that_asks),
     T(asks_at_times), T(several_writers), T(several_reader_threads), T(several_reader_processes),
     T(many_pipes_in_one_loop), T(a_filter), T(a_writer_killed), T(a_reader_killed), T(a_waiter_killed))
