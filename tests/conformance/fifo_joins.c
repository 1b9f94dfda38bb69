/* Checks: ends that open and close in mid-stream, and bystanders that do so all the time: every byte once and in
 * order for those who stay. Does not check: who waits for whom in open(2) (fifo_open.c), death (fifo_hangup.c). */
#include "fifo_common.h"
extern char **environ;
static volatile int *S;
/* a third party opens and closes all the time; nothing of it may show in the stream */
static void bystanders(void) {
    enum { TOTAL = 4 << 20 };
    const char *f = newfifo();
    S = shared(4096);
    pid_t w = writer(f, TOTAL, 0);
    int r = OPEN(f, O_RDONLY);
    pid_t b[2];
    for (int i = 0; i < 2; i++)
        if (!(b[i] = child())) {
            close(r);
            for (int k = 0; !S[0]; k++) {
                int d = open(f, (i ? k % 2 ? O_RDWR : O_RDONLY : O_WRONLY) | O_NONBLOCK);
                CHECK(d >= 0 || errno == ENXIO, "a bystander could not open");
                if (k % 8 == 0) usleep(100);
                close(d);
            }
            _exit(0);
        }
    qget(r, TOTAL, 0, 5000);
    S[0] = 1;
    REAP0(w);
    REAP0(b[0]);
    REAP0(b[1]);
    AT_EOF(r);
}
/* in mid-stream, after 1 MiB */
static void reader_joins_in_mid_stream(void) {
    enum { M = 1 << 20 };
    const char *f = newfifo();
    S = shared(4096);
    pid_t w = writer(f, 5 * M, 0);
    int r = OPEN(f, O_RDONLY);
    qget(r, M + 123, 0, 8192);
    pid_t c = child();
    if (!c) {
        close(r);
        r = OPEN(f, O_RDONLY);
        qget(r, M, M + 123, 8192);
        S[0] = 1;
        UNTIL(S[1]);
        qget(r, M, 3 * M + 123, 3000);
        _exit(0);
    }
    UNTIL(S[0]);
    qget(r, M, 2 * M + 123, 8192);
    S[1] = 1;
    REAP0(c);
    qget(r, M - 123, 4 * M + 123, 8192);
    REAP0(w);
    AT_EOF(r);
}
static void reader_takes_over_in_mid_stream(void) {
    enum { M = 1 << 20 };
    const char *f = newfifo();
    S = shared(4096);
    pid_t w = writer(f, 5 * M, 0);
    int r = OPEN(f, O_RDONLY), o;
    for (int i = 0; i < 5; i++) {
        qget(r, M - 77, (uint64_t)i * (M - 77), 8192);
        o = r;
        r = OPEN(f, O_RDONLY | O_NONBLOCK); /* the writer may be gone the last time */
        setfl(r, 0, O_NONBLOCK);
        close(o);
    }
    qget(r, 5 * 77, 5 * (M - 77), 8192);
    REAP0(w);
    AT_EOF(r);
}
static void writer_joins_in_mid_stream(void) {
    enum { M = 1 << 20 };
    const char *f = newfifo();
    pid_t r = reader(f, 5 * M, 0, 1);
    int w = OPEN(f, O_WRONLY), v;
    qput(w, M, 0, 4096);
    pid_t c = writer(f, M, M);
    REAP0(c);
    qput(w, M, 2 * M, 4096);
    v = OPEN(f, O_WRONLY);
    qput(v, M, 3 * M, 3000);
    qput(w, M / 2, 4 * M, 4096);
    close(w);
    qput(v, M / 2, 4 * M + M / 2, 4096);
    close(v);
    REAP0(r);
}
static void writer_closes_and_opens_in_mid_stream(void) {
    enum { M = 1 << 20 };
    const char *f = newfifo();
    pid_t c = child();
    if (!c) {
        for (int i = 0; i < 5; i++) {
            int w = OPEN(f, O_WRONLY);
            qput(w, M, i * M, 4096);
            close(w);
        }
        _exit(0);
    }
    static char b[SEA];
    int r = OPEN(f, O_RDONLY);
    uint64_t pos = 0;
    double t = now();
    while (pos < 5 * M) {
        ssize_t g = read(r, b, 60000);
        CHECK(g >= 0 && now() - t < 15, "read gave %zd at %llu", g, (unsigned long long)pos);
        same(b, g, pos);
        pos += g;
        if (!g) usleep(100); /* between two openings */
    }
    REAP0(c);
    AT_EOF(r);
}
static void both_close_and_open_in_mid_stream(void) {
    enum { M = 1 << 20 };
    int p[2];
    const char *f = newfifo();
    for (int i = 0; i < 4; i++) {
        open_both(f, p);
        flood(p[0], p[1], M, 0);
        put(p[1], 3000, 0);
        close(p[i & 1]);
        close(p[!(i & 1)]);
    }
}
/* LINUX: the inode number of a FIFO that is no more is soon another's. What the first one's holder, which was killed, had not read
 * is not the second one's; nor is it for a child that comes to be in between. */
static void of_the_same_number(void) {
    volatile int *there = shared(4096);
    struct stat a, b;
    int p[2];
    for (int how = 0; how < 3; how++) {
        const char *f = newfifo();
        CHECK(!stat(f, &a), "stat failed");
        *there = 0;
        pid_t c = child();
        if (!c) {
            open_both(f, p);
            flood(p[0], p[1], 1 << 20, 0);
            qput(p[1], 30000, 5, 3000);
            *there = 1;
            pause();
        }
        while (!*there) sleep_ms(1);
        kill(c, SIGKILL);
        reap(c);
        unlink(f);
        f = newfifo();
        CHECK(!stat(f, &b), "stat failed");
        if (a.st_ino != b.st_ino) dprintf(1, "skip: numbers are not given out anew here\n");
        open_both(f, p);
        char *argv[] = {"true", 0};
        if (how == 0) CHECK(!posix_spawn(&c, "/bin/true", 0, 0, argv, environ), "posix_spawn failed");
        if (how == 1 && !(c = child())) _exit(execv("/bin/true", argv));
        if (how < 2) REAP0(c);
        qput(p[1], 5000, 77, 500);
        qget(p[0], 5000, 77, 500);
        close(p[1]);
        AT_EOF(p[0]);
        close(p[0]);
    }
}
FIFO_MAIN(T(of_the_same_number), ONCE(bystanders), ONCE(reader_joins_in_mid_stream), ONCE(reader_takes_over_in_mid_stream),
          ONCE(writer_joins_in_mid_stream), ONCE(writer_closes_and_opens_in_mid_stream),
          T(both_close_and_open_in_mid_stream))
