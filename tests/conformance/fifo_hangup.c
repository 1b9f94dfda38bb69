/* Checks: processes that die, stop or come back on a FIFO: survivors see every byte that was written, then
 * EOF or EPIPE; generations follow each other without losing or doubling a byte. Does not check: two writers
 * of which one is stopped inside its write. */
#include "fifo_common.h"
static volatile uint64_t *S;
static volatile int hits;
static void on(int s) { hits++; }
static int ended(int line, pid_t p) { /* within 10 s */
    int s;
    double t = now();
    while (!waitpid(p, &s, WNOHANG)) {
        if (now() - t > 10) failed(line, "a survivor hung for 10 s");
        usleep(200);
    }
    return s;
}
static void writer_killed_all_bytes_then_eof(void) {
    int p[2];
    const char *f = mkff(p);
    const size_t left = holds() < 30000 ? 3000 : 30000;
    S = shared(4096);
    for (int i = 0; i < 4; i++) {
        pid_t c = child();
        if (!c) {
            close_range(3, ~0u, 0);
            int w = OPEN(f, O_WRONLY);
            S[1] = i + 1;
            qput(w, (i & 1 ? 1 << 20 : 0) + left, 0, 3000);
            S[0] = i + 1;
            for (;;) pause();
        }
        UNTIL(S[1] == i + 1); /* or there would be an EOF before it has come */
        close(p[1]);
        if (i & 1) qget(p[0], 1 << 20, 0, 8192);
        UNTIL(S[0] == i + 1);
        kill(c, SIGKILL);
        if (i & 2) IS(WTERMSIG(reap(c)), SIGKILL);
        qget(p[0], left, i & 1 ? 1 << 20 : 0, 8192);
        if (!(i & 2)) IS(WTERMSIG(reap(c)), SIGKILL);
        AT_EOF(p[0]);
        p[1] = OPEN(f, O_WRONLY);
        heat(p[0], p[1]);
    }
}
static void writer_killed_in_its_write(void) {
    int p[2];
    const char *f = mkff(p);
    pid_t c = child();
    if (!c) {
        close_range(3, ~0u, 0);
        int w = OPEN(f, O_WRONLY);
        for (uint64_t n = 0;; n += SEA) write_all(w, at(n), SEA);
    }
    qget(p[0], 3 * SEA + 5, 0, 60000);
    close(p[1]);
    wait_asleep(c);
    kill(c, SIGKILL);
    reap(c);
    static char b[2 * SEA];
    size_t n = read_n(p[0], b, sizeof b);
    CHECK(n >= 4096 && n < SEA, "what was put in must stay, %zu bytes did", n);
    same(b, n, 3 * SEA + 5);
    AT_EOF(p[0]);
}
static void one_of_two_writers_killed(void) {
    int p[2];
    char x;
    const char *f = mkff(p);
    S = shared(4096);
    pid_t c[2];
    for (int i = 0; i < 2; i++)
        if (!(c[i] = child())) {
            close_range(3, ~0u, 0);
            int w = OPEN(f, O_WRONLY);
            __sync_fetch_and_add(&S[0], 1);
            UNTIL(S[1] == i + 1);
            qput(w, 200000, i, 4096);
            S[2] = i + 1;
            for (;;) pause();
        }
    UNTIL(S[0] == 2);
    close(p[1]);
    S[1] = 1;
    qget(p[0], 200000, 0, 8192);
    UNTIL(S[2] == 1);
    kill(c[0], SIGKILL);
    reap(c[0]);
    setfl(p[0], O_NONBLOCK, 0);
    FAILS(read(p[0], &x, 1), EAGAIN); /* no EOF */
    setfl(p[0], 0, O_NONBLOCK);
    S[1] = 2;
    qget(p[0], 200000, 1, 8192);
    UNTIL(S[2] == 2);
    kill(c[1], SIGKILL);
    AT_EOF(p[0]);
    reap(c[1]);
}
static void last_reader_killed_epipe(void) {
    int p[2];
    const char *f = mkff(p);
    S = shared(4096);
    handle(SIGPIPE, on, 0);
    pid_t c[2];
    for (int i = 0; i < 2; i++)
        if (!(c[i] = child())) {
            close_range(3, ~0u, 0);
            int r = OPEN(f, O_RDONLY);
            __sync_fetch_and_add(&S[0], 1);
            UNTIL(S[1] == i + 1);
            qget(r, 300000, 0, 8192);
            S[2] = i + 1;
            for (;;) pause();
        }
    UNTIL(S[0] == 2);
    close(p[0]);
    for (int i = 0; i < 2; i++) {
        S[1] = i + 1;
        qput(p[1], 300000, 0, 4096);
        UNTIL(S[2] == i + 1);
        IS(hits, 0);
        kill(c[i], SIGKILL);
        reap(c[i]);
        if (!i) IS(write(p[1], "", 0), 0);
    }
    FAILS(write(p[1], "x", 1), EPIPE);
    IS(hits, 1);
    FAILS(write(p[1], sea, 70000), EPIPE);
    IS(hits, 2);
    FAILS(open(f, O_WRONLY | O_NONBLOCK), ENXIO);
}
static void reader_killed_wakes_the_writer(void) {
    int p[2];
    const char *f = mkff(p);
    S = shared(4096);
    handle(SIGPIPE, on, SA_RESTART);
    pid_t c = child();
    if (!c) {
        close(p[1]);
        for (;;) pause();
    }
    close(p[0]);
    pid_t k = child();
    if (!k) {
        int w = getppid();
        close(p[1]);
        UNTIL(S[0]);
        wait_asleep(w);
        kill(c, SIGKILL);
        _exit(0);
    }
    S[0] = 1;
    ssize_t n = write(p[1], sea, SEA), m = 0;
    if (n == SEA) m = write(p[1], sea, SEA);
    CHECK((n > 0 && n < SEA) || m == -1 || m < SEA, "the write must end, it gave %zd", n);
    IS(hits, 1);
    FAILS(write(p[1], "x", 1), EPIPE);
    reap(c);
    REAP0(k);
}
/* writer -> relay -> reader, one of them killed somewhere; the others see an exact prefix */
static void killed_in_mid_stream(void) {
    unsigned x = 4711;
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < 120; i++) {
        alarm(20);
        const char *f = newfifo(), *g = newfifo();
        size_t ws = (size_t[]){100, 4096, 10000, 70000}[rnd(&x) % 4];
        S = shared(4096);
        pid_t p[3];
        if (!(p[0] = child())) {
            int w = OPEN(f, O_WRONLY);
            for (uint64_t n = 0;;) {
                ssize_t k = write(w, at(n), ws);
                if (k < 0) {
                    CHECK(errno == EPIPE, "the writer must see EPIPE");
                    _exit(0);
                }
                n += k;
            }
        }
        if (!(p[1] = child())) {
            int r = OPEN(f, O_RDONLY), w = OPEN(g, O_WRONLY);
            static char b[9000];
            for (uint64_t n = 0;;) {
                ssize_t k = read(r, b, sizeof b);
                CHECK(k >= 0, "relay read");
                if (!k) _exit(0);
                same(b, k, n);
                n += k;
                for (ssize_t o = 0; o < k;) {
                    ssize_t m = write(w, b + o, k - o);
                    if (m < 0) {
                        CHECK(errno == EPIPE, "the relay must see EPIPE");
                        _exit(0);
                    }
                    o += m;
                }
            }
        }
        if (!(p[2] = child())) {
            int r = OPEN(g, O_RDONLY);
            static char b[7000];
            for (uint64_t n = 0;;) {
                ssize_t k = read(r, b, sizeof b);
                CHECK(k >= 0, "reader read");
                if (!k) _exit(0);
                same(b, k, n);
                S[0] = n += k;
            }
        }
        UNTIL(S[0] > (i % 3 ? 1 << 20 : 0)); /* mostly after heavy traffic */
        usleep(rnd(&x) % 2000);
        int v = rnd(&x) % 3;
        if (i % 10 == 9) {
            kill(p[v], SIGSTOP); /* stopped first: it dies of SIGKILL all the same */
            usleep(300);
        }
        kill(p[v], SIGKILL);
        for (int k = 0; k < 3; k++) {
            int s = ended(__LINE__, p[k]);
            CHECK(k == v ? WIFSIGNALED(s) && WTERMSIG(s) == SIGKILL : s == 0,
                  "round %d: process %d of 3 ended with 0x%x after process %d was killed", i, k, s, v);
        }
        unlink(f);
        unlink(g);
        munmap((void *)S, 4096);
    }
}
static int stopped(pid_t c) {
    int s;
    IS(waitpid(c, &s, WUNTRACED), c);
    return WIFSTOPPED(s);
}
static void reader_stopped(void) {
    enum { TOTAL = 3 << 20 };
    const char *f = newfifo();
    pid_t c = reader(f, TOTAL, 0, 1);
    int w = OPEN(f, O_WRONLY);
    qput(w, 1 << 20, 0, 4096);
    kill(c, SIGSTOP);
    CHECK(stopped(c), "the reader must stop");
    setfl(w, O_NONBLOCK, 0);
    uint64_t n = 1 << 20;
    ssize_t g;
    for (int turn = 0; turn < 2; turn++) { /* what poll says is true of the next write */
        while ((g = write(w, at(n), 4096)) > 0) n += g;
        CHECK(g == -1 && errno == EAGAIN && n < TOTAL, "a stopped reader lets the FIFO fill");
        if (events(w, POLLOUT, 0) == 0) break;
    }
    IS(events(w, POLLOUT, 0), 0);
    setfl(w, 0, O_NONBLOCK);
    kill(c, SIGCONT);
    qput(w, TOTAL - n, n, 4096);
    close(w);
    REAP0(c);
}
static void writer_stopped(void) {
    enum { TOTAL = 3 << 20 };
    static char b[SEA];
    const char *f = newfifo();
    pid_t c = writer(f, TOTAL, 0);
    int r = OPEN(f, O_RDONLY);
    qget(r, 1 << 20, 0, 8192);
    kill(c, SIGSTOP);
    CHECK(stopped(c), "the writer must stop");
    setfl(r, O_NONBLOCK, 0);
    uint64_t n = 1 << 20;
    ssize_t g;
    while ((g = read(r, b, 8192)) > 0) {
        same(b, g, n);
        n += g;
    }
    CHECK(g == -1 && errno == EAGAIN && n < TOTAL, "a stopped writer is no EOF");
    setfl(r, 0, O_NONBLOCK);
    kill(c, SIGCONT);
    qget(r, TOTAL - n, n, 8192);
    AT_EOF(r);
    REAP0(c);
}
static void stopped_and_killed(void) {
    const char *f = newfifo();
    pid_t c = writer(f, 100 << 20, 0);
    int r = OPEN(f, O_RDONLY);
    static char b[SEA];
    qget(r, 1 << 20, 0, 8192);
    kill(c, SIGSTOP);
    CHECK(stopped(c), "the writer must stop");
    kill(c, SIGKILL);
    uint64_t n = 1 << 20;
    ssize_t g;
    while ((g = read(r, b, 8192)) > 0) {
        same(b, g, n);
        n += g;
    }
    IS(g, 0);
    reap(c);
}
static void other_writer_while_one_is_stopped(void) { /* outside its write */
    int p[2];
    const char *f = mkff(p);
    S = shared(4096);
    pid_t c = child();
    if (!c) {
        qput(p[1], 200000, 0, 4096);
        S[0] = 1;
        for (;;) pause();
    }
    qget(p[0], 200000, 0, 8192);
    UNTIL(S[0]);
    wait_asleep(c);
    kill(c, SIGSTOP);
    CHECK(stopped(c), "it must stop");
    flood(p[0], p[1], 1 << 20, 7);
    close(p[1]);
    pid_t d = writer(f, 200000, 3);
    qget(p[0], 200000, 3, 8192);
    REAP0(d);
    char x;
    setfl(p[0], O_NONBLOCK, 0);
    FAILS(read(p[0], &x, 1), EAGAIN);
    setfl(p[0], 0, O_NONBLOCK);
    kill(c, SIGKILL);
    AT_EOF(p[0]);
    reap(c);
}
/* open, write, close, G times, against open, read until EOF, close. A writer must not meet the reader of the
 * generation before (its bytes would die with that reader, on the kernel too), so it waits for its close. */
static void generations(int count, size_t least, int by_child) {
    const char *f = newfifo();
    S = shared(4096);
    pid_t c = child();
    if (!c) {
        uint64_t pos = 0;
        for (int i = 0; i < count; i++) {
            UNTIL(S[0] == i);
            size_t n = least + i * 997 % 5000;
            if (by_child) {
                REAP0(writer(f, n, pos));
            } else {
                int w = OPEN(f, O_WRONLY);
                qput(w, n, pos, 4096);
                close(w);
            }
            pos += n;
        }
        _exit(0);
    }
    static char b[SEA];
    uint64_t pos = 0;
    for (int i = 0; i < count; i++) {
        int r = OPEN(f, O_RDONLY);
        uint64_t want = pos + least + i * 997 % 5000;
        ssize_t g;
        while ((g = read(r, b, 6000)) > 0) {
            same(b, g, pos);
            pos += g;
        }
        IS(g, 0);
        IS(pos, want);
        close(r);
        S[0] = i + 1;
    }
    REAP0(c);
}
static void generations_200(void) { generations(200, 1, 0); }
static void generations_200_writer_exits(void) { generations(200, 1, 1); }
static void generations_heavy(void) { generations(40, 300000, 0); }
static void generations_heavy_writer_exits(void) { generations(40, 300000, 1); }
/* no waiting: a bystander holds the read end, so that nothing is lost between two readers; EOFs may melt
 * together */
static void generations_kept(size_t least, int count) {
    const char *f = newfifo();
    int h = OPEN(f, O_RDONLY | O_NONBLOCK);
    pid_t c = child();
    if (!c) {
        close(h);
        uint64_t pos = 0;
        for (int i = 0; i < count; i++) {
            int w = OPEN(f, O_WRONLY);
            size_t n = least + i * 997 % 5000;
            qput(w, n, pos, 4096);
            close(w);
            pos += n;
        }
        _exit(0);
    }
    uint64_t all = 0, pos = 0;
    for (int i = 0; i < count; i++) all += least + i * 997 % 5000;
    static char b[SEA];
    double t = now();
    while (pos < all) {
        int r = OPEN(f, O_RDONLY | O_NONBLOCK);
        setfl(r, 0, O_NONBLOCK);
        ssize_t g;
        while ((g = read(r, b, 6000)) > 0) {
            same(b, g, pos);
            pos += g;
        }
        IS(g, 0);
        close(r);
        CHECK(now() - t < 15, "stuck at %llu of %llu", (unsigned long long)pos, (unsigned long long)all);
    }
    IS(pos, all);
    AT_EOF(h);
    REAP0(c);
}
static void generations_kept_200(void) { generations_kept(1, 200); }
static void generations_kept_heavy(void) { generations_kept(300000, 40); }
static void generations_of_killed_writers(void) { /* each is killed when its bytes are in */
    const char *f = newfifo();
    S = shared(4096);
    static char b[SEA];
    for (int i = 0; i < 40; i++) {
        size_t n = i % 2 ? 200000 : 1000;
        pid_t c = child();
        if (!c) {
            qput(OPEN(f, O_WRONLY), n, i, 4096);
            S[0] = i + 1;
            for (;;) pause();
        }
        int r = OPEN(f, O_RDONLY);
        qget(r, n - 1000, i, 8192);
        UNTIL(S[0] == i + 1);
        kill(c, SIGKILL);
        qget(r, 1000, i + n - 1000, 8192);
        AT_EOF(r);
        reap(c);
        close(r);
    }
}
static void generations_of_killed_readers(void) { /* the writer stays and goes on with the next reader */
    const char *f = newfifo();
    S = shared(4096);
    signal(SIGPIPE, SIG_IGN);
    int h = OPEN(f, O_RDONLY | O_NONBLOCK), w = OPEN(f, O_WRONLY);
    uint64_t pos = 0;
    for (int i = 0; i < 30; i++) {
        size_t n = i % 2 ? 200000 : 1000;
        pid_t c = child();
        if (!c) {
            close_range(3, ~0u, 0);
            qget(OPEN(f, O_RDONLY), n, pos, 8192);
            S[0] = i + 1;
            for (;;) pause();
        }
        qput(w, n, pos, 4096);
        UNTIL(S[0] == i + 1);
        qput(w, 500, pos + n, 500);
        kill(c, SIGKILL);
        reap(c);
        setfl(h, 0, O_NONBLOCK);
        qget(h, 500, pos + n, 500);
        pos += n + 500;
    }
    close(h);
    FAILS(write(w, "x", 1), EPIPE);
}
static void killed_in_open(void) { /* leaves no reader and no writer behind */
    int p[2];
    const char *f = mkff(p);
    close(p[0]);
    close(p[1]);
    for (int i = 0; i < 5; i++) {
        pid_t c = child();
        if (!c) {
            open(f, i & 1 ? O_WRONLY : O_RDONLY);
            _exit(9);
        }
        wait_asleep(c);
        kill(c, SIGKILL);
        reap(c);
        FAILS(open(f, O_WRONLY | O_NONBLOCK), ENXIO);
        int r = OPEN(f, O_RDONLY | O_NONBLOCK);
        char x;
        IS(read(r, &x, 1), 0);
        close(r);
    }
    open_both(f, p);
    heat(p[0], p[1]);
}
static void crashed_writer(void) {
    enum { TOTAL = 1500000 }; /* more than any pipe holds: the writer is there when the reader opens */
    int p[2];
    const char *f = mkff(p);
    close(p[1]);
    for (int i = 0; i < 3; i++) {
        pid_t c = child();
        if (!c) {
            signal(SIGSEGV, SIG_DFL);
            close_range(3, ~0u, 0);
            qput(OPEN(f, O_WRONLY), TOTAL, i, 4096);
            if (i == 0) raise(SIGSEGV);
            if (i == 1) abort();
            syscall(SYS_exit_group, 3);
        }
        int r = OPEN(f, O_RDONLY);
        qget(r, TOTAL, i, 8192);
        AT_EOF(r);
        reap(c);
        close(r);
    }
    AT_EOF(p[0]);
}
FIFO_MAIN(T(writer_killed_all_bytes_then_eof), T(writer_killed_in_its_write), T(one_of_two_writers_killed),
          T(last_reader_killed_epipe), T(reader_killed_wakes_the_writer), ONCE(killed_in_mid_stream),
          ONCE(reader_stopped), ONCE(writer_stopped), ONCE(stopped_and_killed),
          T(other_writer_while_one_is_stopped), ONCE(generations_200), ONCE(generations_200_writer_exits),
          ONCE(generations_heavy), ONCE(generations_heavy_writer_exits), ONCE(generations_kept_200),
          ONCE(generations_kept_heavy), ONCE(generations_of_killed_writers),
          ONCE(generations_of_killed_readers), T(killed_in_open), T(crashed_writer))
