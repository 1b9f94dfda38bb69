/* Checks: writes of 256 KiB to 4 MiB, which a reader may take out of the writer's own buffer (`run --pipe zc`, `lp+zc`): stopped and
 * continued, interrupted, killed, read by pieces, left by their reader, not waiting. Bytes in order, counts exact, and a buffer that
 * its owner has back is nobody else's: each is overwritten after its write.
 * Does not check: that any was taken so (run.sh asks `--explain`); writers without handlers are to be, those with handlers never. */
#include "check.h"
enum { PERIOD = 65521, MOST = 4 << 20, MANY = 60 };
static unsigned char sea[PERIOD + MOST], out[MOST], in[MOST];
static const unsigned char *at(uint64_t pos) { return sea + pos % PERIOD; }
static volatile int hits;
static void on(int s) { hits++; }
static size_t length(unsigned i) {
    static const size_t of[] = {256 << 10, 1 << 20, (256 << 10) + 1, MOST, 777777, 300001, 2 << 20, (1 << 20) - 4095};
    return of[i % 8];
}
/* One write of what the stream has at pos. */
static ssize_t send1(int w, uint64_t pos, size_t n) {
    memcpy(out, at(pos), n);
    ssize_t g = write(w, out, n);
    int e = errno;
    memset(out, 0xee, n);
    errno = e;
    return g;
}
/* So many whole writes. LINUX pipe_write: all of it, where no signal comes. */
static uint64_t send_many(int w, uint64_t pos, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        size_t k = length(i);
        IS(send1(w, pos, k), k);
        pos += k;
    }
    return pos;
}
/* The same by one who may be stopped meanwhile. LINUX pipe_write: that ends a write too, with the count of what went in. */
static uint64_t send_on(int w, uint64_t pos, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        for (size_t k = length(i), done = 0; done < k;) {
            ssize_t g = send1(w, pos, k - done);
            CHECK(g > 0, "a write that was stopped gave %zd", g);
            done += g;
            pos += g;
        }
    return pos;
}
static uint64_t total(unsigned n) {
    uint64_t t = 0;
    for (unsigned i = 0; i < n; i++) t += length(i);
    return t;
}
enum how { LARGE, ODD };
/* Reads, at pos, at most n bytes more, or to the end. */
static uint64_t take(int r, uint64_t pos, uint64_t n, enum how how) {
    unsigned x = 7;
    uint64_t end = pos + n;
    while (pos < end) {
        x = x * 1103515245 + 12345;
        size_t k = how == LARGE ? (128 << 10) + (x >> 9) % (900 << 10) : 1 + (x >> 9) % 50021;
        if (k > end - pos) k = end - pos;
        ssize_t g = read(r, in, k);
        if (g < 0 && errno == EINTR) continue;
        CHECK(g >= 0, "read failed");
        if (!g) break;
        CHECK((size_t)g <= k && !memcmp(in, at(pos), g), "the %zd bytes from %lu on are not those written", g, pos);
        pos += g;
    }
    return pos;
}
static pid_t writer(int p[2], unsigned n, uint64_t (*send)(int, uint64_t, unsigned)) {
    pid_t c = child();
    if (c) return close(p[1]), c;
    close(p[0]);
    send(p[1], 0, n);
    _exit(0);
}
static void whole(enum how how) {
    int p[2];
    mkpipe(p);
    pid_t c = writer(p, MANY, send_many);
    IS(take(p[0], 0, UINT32_MAX, how), total(MANY));
    REAP0(c);
}
static void large_reads(void) { whole(LARGE); }
static void odd_reads(void) { whole(ODD); }
/* First large ones, so that offers are made; then ones that decline them, or take a part. */
static void reads_change(void) {
    int p[2];
    mkpipe(p);
    pid_t c = writer(p, MANY, send_many);
    uint64_t pos = 0, was;
    do {
        was = pos;
        pos = take(p[0], pos, 5 << 20, LARGE);
        pos = take(p[0], pos, 1 << 20, ODD);
    } while (pos != was);
    IS(pos, total(MANY));
    REAP0(c);
}
static void several_buffers(void) {
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        uint64_t pos = 0;
        for (unsigned i = 0; i < MANY; i++) {
            size_t k = length(i), a = i % 3 ? k / 3 : 1000;
            memcpy(out, at(pos), k);
            struct iovec v[] = {{out, a}, {out + a, 0}, {out + a, k - a}};
            IS(writev(p[1], v, 3), k);
            memset(out, 0xee, k);
            pos += k;
        }
        _exit(0);
    }
    close(p[1]);
    IS(take(p[0], 0, UINT32_MAX, LARGE), total(MANY));
    REAP0(c);
}
static void stopped(void) {
    int p[2];
    mkpipe(p);
    pid_t c = writer(p, 2 * MANY, send_on), storm = child();
    if (!storm) {
        for (int i = 0; i < 150; i++) {
            kill(c, SIGSTOP);
            if (i % 3) usleep(i % 7 * 100);
            kill(c, SIGCONT);
            for (volatile int k = 0; k < i % 11 * 9973; k++);
        }
        _exit(0);
    }
    IS(take(p[0], 0, UINT32_MAX, LARGE), total(2 * MANY));
    REAP0(storm);
    REAP0(c);
}
/* A stopped writer gives what it had offered, or not; its reader is not to wait for more than that. */
static void stopped_for_long(void) {
    for (int i = 0; i < 8; i++) {
        int p[2];
        mkpipe(p);
        pid_t c = writer(p, MANY / 4, send_on);
        uint64_t pos = take(p[0], 0, (3 << 20) + i * 99991, LARGE);
        kill(c, SIGSTOP);
        pid_t k = child();
        if (!k) {
            usleep(3000 * i);
            kill(c, SIGCONT);
            _exit(0);
        }
        IS(take(p[0], pos, UINT32_MAX, i % 2 ? ODD : LARGE), total(MANY / 4));
        REAP0(k);
        REAP0(c);
        close(p[0]);
    }
}
/* LINUX signal(7): what a handler ends returns the count of what went in; EINTR only if nothing did, and not with SA_RESTART. */
static void handled(int flags) {
    int p[2], *sent = shared(4096);
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        close(p[0]);
        uint64_t pos = send_many(p[1], 0, MANY / 4), end = pos + total(MANY / 2);
        handle(SIGALRM, on, flags);
        struct itimerval each = {{0, 300}, {0, 300}}, none = {{0, 0}, {0, 0}};
        setitimer(ITIMER_REAL, &each, 0);
        for (unsigned i = 0; pos < end; i++) {
            size_t k = length(i) < end - pos ? length(i) : end - pos;
            ssize_t g = send1(p[1], pos, k);
            CHECK(g > 0 || (g < 0 && errno == EINTR && !flags), "an interrupted write gave %zd", g);
            if (g > 0) pos += g;
        }
        setitimer(ITIMER_REAL, &none, 0);
        CHECK(hits > 0, "no signal came");
        *sent = 1;
        _exit(0);
    }
    close(p[1]);
    IS(take(p[0], 0, UINT32_MAX, LARGE), total(MANY / 4) + total(MANY / 2));
    REAP0(c);
    IS(*sent, 1);
}
static void handled_and_restarted(void) { handled(SA_RESTART); }
static void handled_and_not(void) { handled(0); }
/* A handler from the start, and a second thread: such a process offers nothing (run.sh). */
static void with_handler(void) {
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        handle(SIGUSR1, on, SA_RESTART);
        _exit(send_many(p[1], 0, MANY) != total(MANY));
    }
    close(p[1]);
    IS(take(p[0], 0, UINT32_MAX, LARGE), total(MANY));
    REAP0(c);
}
static void *waits(void *a) {
    for (;;) pause();
    return a;
}
static void with_thread(void) {
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        pthread_t t;
        pthread_create(&t, 0, waits, 0);
        _exit(send_many(p[1], 0, MANY) != total(MANY));
    }
    close(p[1]);
    IS(take(p[0], 0, UINT32_MAX, LARGE), total(MANY));
    REAP0(c);
}
/* The handler writes words of its own into the pipe that its thread writes to. LINUX pipe(7): longer writes may be mixed. */
enum { WORDS = 1 << 17, OWN = 64 };
static int end_of_handler;
static volatile uint64_t own;
static void writes(int s) {
    uint64_t b[OWN];
    for (int i = 0; i < OWN; i++) b[i] = 1ull << 32 | (own + i);
    if (write(end_of_handler, b, sizeof b) != sizeof b) _exit(3);
    own += OWN;
}
static void handler_writes(void) {
    int p[2];
    uint64_t *said = shared(4096), next[2] = {0}, n;
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        uint64_t *b = (uint64_t *)out, i = 0;
        close(p[0]);
        end_of_handler = p[1];
        for (int round = 0; round < 60; round++) {
            if (round == 20) {
                handle(SIGALRM, writes, SA_RESTART);
                struct itimerval each = {{0, 400}, {0, 400}};
                setitimer(ITIMER_REAL, &each, 0);
            }
            for (int j = 0; j < WORDS; j++) b[j] = i + j;
            for (size_t done = 0; done < 8 * WORDS;) {
                ssize_t g = write(p[1], out + done, 8 * WORDS - done);
                CHECK(g > 0 && g % 8 == 0, "a write gave %zd", g);
                done += g;
            }
            i += WORDS;
        }
        signal(SIGALRM, SIG_IGN);
        said[0] = own;
        _exit(0);
    }
    close(p[1]);
    while ((n = read_n(p[0], in, 1 << 20)))
        for (uint64_t j = 0, *b = (uint64_t *)in; j < n / 8; j++) {
            uint64_t who = b[j] >> 32;
            CHECK(who < 2 && b[j] == (who << 32 | next[who]), "%lx came where %lx was due", b[j], next[who & 1]);
            next[who]++;
        }
    REAP0(c);
    IS(next[0], 60 * WORDS);
    IS(next[1], said[0]);
}
/* The reader's own signals: a read that has taken something gives its count. */
static void reader_interrupted(void) {
    int p[2];
    mkpipe(p);
    pid_t c = writer(p, MANY, send_many);
    handle(SIGALRM, on, 0);
    struct itimerval each = {{0, 500}, {0, 500}}, none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &each, 0);
    IS(take(p[0], 0, UINT32_MAX, LARGE), total(MANY));
    setitimer(ITIMER_REAL, &none, 0);
    int s;
    while (waitpid(c, &s, 0) < 0);
    IS(s, 0);
}
/* What was taken stays taken, and nothing comes that was not written. */
static void killed(void) {
    for (int i = 0; i < 24; i++) {
        int p[2];
        mkpipe(p);
        pid_t c = writer(p, UINT32_MAX, send_many), k = child();
        if (!k) {
            usleep(1000 + i * 797);
            kill(c, SIGKILL);
            _exit(0);
        }
        take(p[0], 0, UINT64_MAX / 2, i % 3 ? LARGE : ODD);
        AT_EOF(p[0]);
        REAP0(k);
        IS(WTERMSIG(reap(c)), SIGKILL);
        close(p[0]);
    }
}
/* The reader goes: what it has read, and no more than a pipe holds besides, is what the writes counted; then EPIPE. */
static void left(int by_kill) {
    const uint64_t more = holds() > 1 << 20 ? 2 * holds() : 1 << 20;
    for (int i = 0; i < 24; i++) {
        int p[2];
        mkpipe(p);
        volatile uint64_t *got = shared(4096);
        pid_t r = child();
        if (!r) {
            close(p[1]);
            for (int j = 0; j < 6 + i; j++) {
                uint64_t was = *got, n = (100 << 10) + i * 7919;
                *got = take(p[0], was, n, j % 4 == 3 ? ODD : LARGE);
            }
            if (by_kill) kill(getpid(), SIGKILL);
            _exit(0);
        }
        close(p[0]);
        signal(SIGPIPE, SIG_IGN);
        uint64_t pos = 0;
        for (unsigned j = 0;; j++) {
            ssize_t g = send1(p[1], pos, length(j));
            if (g < 0) break;
            CHECK(g > 0, "a write gave 0");
            pos += g;
            if ((size_t)g < length(j)) {
                FAILS(write(p[1], "", 1), EPIPE);
                break;
            }
        }
        IS(errno, EPIPE);
        int s = reap(r);
        CHECK(by_kill ? WIFSIGNALED(s) : s == 0, "the reader's status was 0x%x", s);
        CHECK(pos >= *got && pos <= *got + more, "%lu bytes were read, and %lu counted as written", *got, pos);
        close(p[1]);
    }
}
static void reader_closes(void) { left(0); }
static void reader_killed(void) { left(1); }
/* LINUX pipe(7): O_NONBLOCK: what fits, or EAGAIN. */
static void nonblocking(void) {
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        close(p[0]);
        setfl(p[1], O_NONBLOCK, 0);
        uint64_t pos = 0, end = total(MANY);
        for (unsigned i = 0; pos < end; i++) {
            size_t k = length(i) < end - pos ? length(i) : end - pos;
            ssize_t g = send1(p[1], pos, k);
            CHECK(g > 0 || (g < 0 && errno == EAGAIN), "a write that may not wait gave %zd", g);
            if (g > 0) pos += g;
            else sched_yield();
        }
        _exit(0);
    }
    close(p[1]);
    IS(take(p[0], 0, UINT32_MAX, LARGE), total(MANY));
    REAP0(c);
}
int main(int c, char **v) {
    static const struct test t[] = {
        T(large_reads), T(odd_reads), T(reads_change), T(several_buffers), T(stopped), T(stopped_for_long),
        T(handled_and_restarted), T(handled_and_not), T(with_handler), T(with_thread), T(handler_writes),
        T(reader_interrupted), T(killed), T(reader_closes), T(reader_killed), T(nonblocking), {0}};
    for (int i = 0; i < PERIOD + MOST; i++) sea[i] = pat(i % PERIOD);
    return run_all(t, c > 1 ? v[1] : 0);
}
