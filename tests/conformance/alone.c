/* A writer that has long been alone, and then is not: joined by another, killed, stopped, interrupted; or the pipe's reader does
 * what needs the pipe's writers out of the way. Records of 16 to 200 bytes, each whole and each writer's in order; and longer writes. */
#include "check.h"
enum { LONG = 5000, WRITERS = 4 };
struct record {
    uint32_t writer, number, len, sum;
    unsigned char rest[184];
};
static size_t length(uint32_t i) { return 16 + (i * 37) % 185; }
static void send1(int w, uint32_t who, uint32_t i) {
    struct record r = {who, i, (uint32_t)length(i), who * 31 + i};
    fill(r.rest, r.len - 16, (uint64_t)who << 20 | i);
    IS(write(w, &r, r.len), r.len);
}
static void send_all(int w, uint32_t who, uint32_t from, uint32_t n) {
    for (uint32_t i = from; i < from + n; i++) send1(w, who, i);
}
/* Reads whole records until EOF, or `most`; next[] counts what each writer has sent. */
static uint32_t check_all(int r, uint32_t *next, uint32_t most) {
    uint32_t n = 0;
    struct record b;
    while (n < most) {
        size_t k = read_n(r, &b, 16);
        if (!k) break;
        CHECK(k == 16, "EOF came in the midst of record %u", n);
        CHECK(b.writer < WRITERS && b.len >= 16 && b.len <= 200 && b.sum == b.writer * 31 + b.number,
              "record %u is no record: %x %x %x", n, b.writer, b.number, b.len);
        CHECK(b.number == next[b.writer], "record %u of writer %u came where %u was due", b.number, b.writer,
              next[b.writer]);
        CHECK(b.len == length(b.number), "record %u has %u bytes", b.number, b.len);
        IS(read_n(r, b.rest, b.len - 16), b.len - 16);
        verify(b.rest, b.len - 16, (uint64_t)b.writer << 20 | b.number);
        next[b.writer]++;
        n++;
    }
    return n;
}
static pid_t writer(int p[2], uint32_t who, uint32_t n) {
    pid_t k = child();
    if (k) return k;
    close(p[0]);
    send_all(p[1], who, 0, n);
    _exit(0);
}
/* LINUX pipe(7): what several write, each at most PIPE_BUF at a time, is not mixed. */
static void joined(void) {
    int p[2];
    uint32_t next[WRITERS] = {0};
    mkpipe(p);
    pid_t a = writer(p, 0, 8 * LONG);
    check_all(p[0], next, LONG);
    pid_t b = writer(p, 1, 2 * LONG);
    check_all(p[0], next, LONG);
    pid_t c = writer(p, 2, 2 * LONG);
    close(p[1]);
    check_all(p[0], next, UINT32_MAX);
    REAP0(a);
    REAP0(b);
    REAP0(c);
    CHECK(next[0] == 8 * LONG && next[1] == 2 * LONG && next[2] == 2 * LONG, "records are missing");
}
static void turns(void) {
    int p[2], go[2], back[2];
    uint32_t next[WRITERS] = {0};
    mkpipe(p);
    IS(pipe(go) | pipe(back), 0);
    for (uint32_t who = 0; who < 2; who++) {
        if (child()) continue;
        char c = 0;
        for (int turn = 0; turn < 8; turn++) {
            IS(read(who ? go[0] : back[0], &c, 1), 1);
            send_all(p[1], who, turn * LONG, LONG);
            IS(write(who ? back[1] : go[1], &c, 1), 1);
        }
        _exit(0);
    }
    close(p[1]);
    IS(write(back[1], "", 1), 1);
    for (int turn = 0; turn < 8; turn++)
        for (int who = 0; who < 2; who++) {
            uint32_t was = next[who];
            check_all(p[0], next, LONG);
            CHECK(next[who] == was + LONG, "writer %d wrote before its turn", who);
        }
    AT_EOF(p[0]);
    wait(0), wait(0);
}
static void forked(void) {
    int p[2];
    uint32_t next[WRITERS] = {0};
    mkpipe(p);
    pid_t a = child();
    if (!a) {
        close(p[0]);
        send_all(p[1], 0, 0, LONG);
        pid_t b = child();
        send_all(p[1], b ? 0 : 1, b ? LONG : 0, 2 * LONG);
        if (b) REAP0(b);
        _exit(0);
    }
    close(p[1]);
    check_all(p[0], next, UINT32_MAX);
    REAP0(a);
    CHECK(next[0] == 3 * LONG && next[1] == 2 * LONG, "records are missing");
}
static void *second_thread(void *w) {
    send_all((int)(intptr_t)w, 1, 0, 2 * LONG);
    return 0;
}
static void threaded(void) {
    int p[2];
    uint32_t next[WRITERS] = {0};
    mkpipe(p);
    pid_t a = child();
    if (!a) {
        pthread_t t;
        close(p[0]);
        send_all(p[1], 0, 0, LONG);
        pthread_create(&t, 0, second_thread, (void *)(intptr_t)p[1]);
        send_all(p[1], 0, LONG, 2 * LONG);
        pthread_join(t, 0);
        _exit(0);
    }
    close(p[1]);
    check_all(p[0], next, UINT32_MAX);
    REAP0(a);
    CHECK(next[0] == 3 * LONG && next[1] == 2 * LONG, "records are missing");
}
static void killed(void) {
    for (int round = 0; round < 40; round++) {
        int p[2], status;
        uint32_t next[WRITERS] = {0};
        mkpipe(p);
        pid_t a = writer(p, 0, UINT32_MAX), b = writer(p, 1, 3 * LONG);
        close(p[1]);
        check_all(p[0], next, 2 * LONG + round * 997 % LONG);
        kill(a, SIGKILL);
        check_all(p[0], next, UINT32_MAX);
        status = reap(a);
        CHECK(WIFSIGNALED(status), "the writer ended by itself: 0x%x", status);
        REAP0(b);
        IS(next[1], 3 * LONG);
        close(p[0]);
    }
}
static void stopped(void) {
    int p[2];
    uint32_t next[WRITERS] = {0};
    mkpipe(p);
    pid_t a = writer(p, 0, 30 * LONG), b = writer(p, 1, 10 * LONG);
    close(p[1]);
    pid_t storm = child();
    if (!storm)
        for (int i = 0; i < 200; i++) {
            kill(a, SIGSTOP);
            sleep_ms(i % 3);
            kill(a, SIGCONT);
            for (volatile int k = 0; k < i * 997; k++);
            if (i == 199) _exit(0);
        }
    check_all(p[0], next, UINT32_MAX);
    REAP0(storm);
    REAP0(a);
    REAP0(b);
    CHECK(next[0] == 30 * LONG && next[1] == 10 * LONG, "records are missing");
}
/* The last reader goes while the writer writes: SIGPIPE, not a write into nowhere. */
static void left(void) {
    for (int round = 0; round < 40; round++) {
        int p[2];
        uint32_t next[WRITERS] = {0};
        mkpipe(p);
        pid_t a = writer(p, 0, UINT32_MAX);
        close(p[1]);
        check_all(p[0], next, LONG + round * 331);
        close(p[0]);
        int s = reap(a);
        CHECK(WIFSIGNALED(s) && WTERMSIG(s) == SIGPIPE, "the writer must get SIGPIPE, its status was 0x%x", s);
    }
}
/* What the kernel does with the pipe itself, amid the stream. */
static void looked_into(void) {
    for (int round = 0; round < 20; round++) {
        int p[2], q[2];
        uint32_t next[WRITERS] = {0};
        mkpipe(p);
        IS(pipe(q), 0);
        pid_t a = writer(p, 0, 6 * LONG);
        close(p[1]);
        check_all(p[0], next, LONG + round * 173);
        struct record b;
        for (;;) { /* one record by splice(2): whole, and the next in turn */
            ssize_t k = splice(p[0], 0, q[1], 0, 16, 0);
            CHECK(k > 0, "splice failed");
            size_t g = k;
            while (g < 16) {
                k = splice(p[0], 0, q[1], 0, 16 - g, 0);
                CHECK(k > 0, "splice failed");
                g += k;
            }
            IS(read_n(q[0], &b, 16), 16);
            IS(b.number, next[0]);
            IS(read_n(p[0], b.rest, b.len - 16), b.len - 16);
            verify(b.rest, b.len - 16, b.number);
            next[0]++;
            break;
        }
        check_all(p[0], next, UINT32_MAX);
        REAP0(a);
        IS(next[0], 6 * LONG);
        close(p[0]), close(q[0]), close(q[1]);
    }
}
/* Writes of more than PIPE_BUF: LINUX pipe(7): they may be mixed. Each of their words counts on. */
enum { WORDS = 7500 };
static void count_on(int w, uint64_t who, uint64_t n) {
    static uint64_t b[WORDS];
    for (uint64_t i = 0; i < n;) {
        size_t k = i % 3 ? 1024 : WORDS;
        for (size_t j = 0; j < k; j++) b[j] = who << 32 | i++;
        IS(write(w, b, 8 * k), 8 * k);
    }
    _exit(0);
}
static void check_words(int r, uint64_t *next, uint64_t most) {
    static uint64_t b[8192];
    size_t n;
    for (uint64_t i = 1; most && (n = read_n(r, b, 8 * (1 + i * 977 % 8192))); i++) {
        CHECK(n % 8 == 0, "a read of %zu bytes", n);
        for (size_t j = 0; j < n / 8; j++) {
            uint64_t who = b[j] >> 32;
            CHECK(who < 2 && b[j] == (who << 32 | next[who]), "read %lu has %lx where %lx was due", i, b[j], next[who & 1]);
            next[who]++;
        }
        most -= n / 8 < most ? n / 8 : most;
    }
}
static void pieces(void) {
    for (int round = 0; round < 4; round++) {
        int p[2];
        uint64_t next[2] = {0}, all = 8 << 20;
        mkpipe(p);
        pid_t a = child();
        if (!a) close(p[0]), count_on(p[1], 0, round % 2 ? UINT64_MAX : all);
        check_words(p[0], next, all / 2);
        pid_t b = child();
        if (!b) close(p[0]), count_on(p[1], 1, all / 4);
        close(p[1]);
        check_words(p[0], next, all / 8);
        if (round % 2) kill(a, SIGKILL);
        check_words(p[0], next, UINT64_MAX);
        int s = reap(a);
        CHECK(round % 2 ? WIFSIGNALED(s) : s == 0, "the first writer's status was 0x%x", s);
        REAP0(b);
        CHECK((round % 2 || next[0] >= all) && next[1] >= all / 4, "words are missing");
        close(p[0]);
    }
}
static int handlers_end;
static volatile uint32_t handled;
static void on_alarm(int s) { send1(handlers_end, 1, handled++); }
/* A handler comes late, and writes into the pipe that it may have interrupted a write to. */
static void handled_late(void) {
    int p[2];
    uint32_t next[WRITERS] = {0}, *sent = shared(4096);
    mkpipe(p);
    pid_t a = child();
    if (!a) {
        close(p[0]);
        send_all(p[1], 0, 0, LONG);
        handlers_end = p[1];
        handle(SIGALRM, on_alarm, SA_RESTART);
        struct itimerval each = {{0, 100}, {0, 100}}, none = {{0, 0}, {0, 0}};
        setitimer(ITIMER_REAL, &each, 0);
        send_all(p[1], 0, LONG, 20 * LONG);
        setitimer(ITIMER_REAL, &none, 0);
        *sent = handled;
        _exit(0);
    }
    close(p[1]);
    check_all(p[0], next, UINT32_MAX);
    REAP0(a);
    CHECK(next[0] == 21 * LONG && next[1] == *sent, "records are missing");
}
MAIN(T(joined), T(turns), T(forked), T(threaded), T(killed), T(stopped), T(left), T(looked_into), T(pieces), T(handled_late))
