/* Checks: who waits for whom in open(2) of a FIFO, what each opening gets, and what becomes of the bytes when
 * ends close and open again. Does not check: EOF and EPIPE themselves (fifo_eof.c), death (fifo_hangup.c),
 * O_DIRECT. */
#include "fifo_common.h"
static volatile int *S;
static void on(int s) { S[0]++; }
/* POSIX: "An open() for reading-only shall block the calling thread until a thread opens the file for
 * writing", and the other way round. */
static void reader_waits_for_writer(void) {
    const char *f = newfifo();
    pid_t c = reader(f, 400000, 0, 1);
    wait_asleep(c);
    IS(waitpid(c, 0, WNOHANG), 0);
    int w = OPEN(f, O_WRONLY); /* returns at once */
    qput(w, 400000, 0, 4096);
    close(w);
    REAP0(c);
}
static void writer_waits_for_reader(void) {
    const char *f = newfifo();
    pid_t c = writer(f, 400000, 0);
    wait_asleep(c);
    IS(waitpid(c, 0, WNOHANG), 0);
    int r = OPEN(f, O_RDONLY);
    qget(r, 400000, 0, 8192);
    REAP0(c);
    AT_EOF(r);
}
static void *opens_for_writing(void *f) { return (void *)(intptr_t)open(f, O_WRONLY); }
static void threads_of_one_process(void) {
    const char *f = newfifo();
    pthread_t t;
    void *w;
    pthread_create(&t, 0, opens_for_writing, (void *)f);
    int r = OPEN(f, O_RDONLY);
    pthread_join(t, &w);
    flood(r, (int)(intptr_t)w, 1 << 20, 0);
    close((int)(intptr_t)w);
    AT_EOF(r);
}
/* again with traffic before, so that the object is not a fresh one */
static void both_orders_after_traffic(void) {
    int p[2];
    const char *f = mkff(p);
    close(p[0]);
    close(p[1]);
    pid_t c = reader(f, 300000, 11, 1);
    wait_asleep(c);
    IS(waitpid(c, 0, WNOHANG), 0);
    pid_t d = writer(f, 300000, 11);
    REAP0(c);
    REAP0(d);
    d = writer(f, 300000, 12);
    wait_asleep(d);
    IS(waitpid(d, 0, WNOHANG), 0);
    c = reader(f, 300000, 12, 1);
    REAP0(c);
    REAP0(d);
}
static void nonblocking_reader_at_once(void) {
    const char *f = newfifo();
    char x;
    int r = OPEN(f, O_RDONLY | O_NONBLOCK);
    IS(read(r, &x, 1), 0); /* no writer: EOF, not EAGAIN */
    IS(fcntl(r, F_GETFL) & (O_ACCMODE | O_NONBLOCK), O_NONBLOCK);
    setfl(r, 0, O_NONBLOCK);
    AT_EOF(r); /* nor does it block */
    int w = OPEN(f, O_WRONLY);
    setfl(r, O_NONBLOCK, 0);
    FAILS(read(r, &x, 1), EAGAIN);
    setfl(r, 0, O_NONBLOCK);
    heat(r, w);
    put(w, 10, 0);
    get(r, 10, 0);
    close(w);
    AT_EOF(r);
}
static void nonblocking_writer_enxio(void) {
    const char *f = newfifo();
    int p[2];
    FAILS(open(f, O_WRONLY | O_NONBLOCK), ENXIO);
    for (int i = 0; i < 3; i++) {
        int r = OPEN(f, O_RDONLY | O_NONBLOCK), w = OPEN(f, O_WRONLY | O_NONBLOCK);
        setfl(r, 0, O_NONBLOCK);
        setfl(w, 0, O_NONBLOCK);
        heat(r, w);
        close(r);
        FAILS(open(f, O_WRONLY | O_NONBLOCK), ENXIO); /* a writer is no reader */
        close(w);
        FAILS(open(f, O_WRONLY | O_NONBLOCK), ENXIO);
    }
}
/* LINUX: fifo(7): "opening for read and write will succeed both in blocking and nonblocking mode". */
static void read_write_never_blocks(void) {
    const char *f = newfifo();
    char x;
    int b = OPEN(f, O_RDWR), w = OPEN(f, O_WRONLY | O_NONBLOCK), r = OPEN(f, O_RDONLY);
    int n = OPEN(f, O_RDWR | O_NONBLOCK);
    IS(fcntl(b, F_GETFL) & O_ACCMODE, O_RDWR);
    FAILS(read(n, &x, 1), EAGAIN);
    put(b, 1000, 0);
    get(r, 1000, 0);
    heat(b, b);
    close(w);
    close(r);
    close(n);
    put(b, 1000, 0);
    get(b, 1000, 0);
    setfl(b, O_NONBLOCK, 0);
    FAILS(read(b, &x, 1), EAGAIN); /* its own write end counts */
    setfl(b, 0, O_NONBLOCK);
    flood(b, b, 1 << 20, 0);
}
static void interrupted(int flags, int restart) {
    const char *f = newfifo();
    S = shared(4096);
    pid_t c = child();
    if (!c) {
        handle(SIGUSR1, on, restart ? SA_RESTART : 0);
        S[1] = 1;
        int d = open(f, flags);
        if (!restart) {
            CHECK(d == -1 && errno == EINTR, "open must fail with EINTR and gave %d", d);
            handle(SIGUSR1, SIG_IGN, 0);
            FAILS(open(f, O_WRONLY | O_NONBLOCK), ENXIO); /* it left nothing behind */
            _exit(0);
        }
        CHECK(d >= 0, "open must be restarted");
        if (flags == O_RDONLY) qget(d, 100000, 0, 999);
        if (flags == O_WRONLY) qput(d, 100000, 0, 999);
        _exit(0);
    }
    UNTIL(S[1]);
    if (!restart) {
        double t = now();
        int s;
        pid_t r;
        while (!(r = waitpid(c, &s, WNOHANG))) {
            kill(c, SIGUSR1);
            sleep_ms(2);
            CHECK(now() - t < 10, "open was not interrupted");
        }
        IS(s, 0);
        return;
    }
    for (int i = 0; i < 4; i++) {
        wait_asleep(c);
        int h = S[0];
        kill(c, SIGUSR1);
        UNTIL(S[0] > h);
    }
    IS(waitpid(c, 0, WNOHANG), 0);
    int d = OPEN(f, flags == O_RDONLY ? O_WRONLY : O_RDONLY);
    if (flags == O_RDONLY) qput(d, 100000, 0, 4096);
    if (flags == O_WRONLY) qget(d, 100000, 0, 4096);
    REAP0(c);
}
static void reader_eintr(void) { interrupted(O_RDONLY, 0); }
static void writer_eintr(void) { interrupted(O_WRONLY, 0); }
static void reader_sa_restart(void) { interrupted(O_RDONLY, 1); }
static void writer_sa_restart(void) { interrupted(O_WRONLY, 1); }
static void many_wait(int flags) {
    const char *f = newfifo();
    int peer = flags == O_RDONLY ? O_WRONLY : O_RDONLY;
    pid_t c[5];
    S = shared(4096);
    for (int i = 0; i < 5; i++)
        if (!(c[i] = child())) {
            int d = OPEN(f, flags);
            __sync_fetch_and_add(&S[0], 1);
            UNTIL(S[1]);
            _exit(0);
        }
    for (int i = 0; i < 5; i++) wait_asleep(c[i]);
    IS(S[0], 0);
    int d = OPEN(f, peer);
    UNTIL(S[0] == 5);
    S[1] = 1;
    for (int i = 0; i < 5; i++) REAP0(c[i]);
}
static void readers_wait_for_one_writer(void) { many_wait(O_RDONLY); }
static void writers_wait_for_one_reader(void) { many_wait(O_WRONLY); }
/* LINUX: a reader that is still blocked in open counts as a reader; once killed it does not. */
static void blocked_opener_counts(void) {
    const char *f = newfifo();
    int w = -1;
    pid_t c = child();
    if (!c) {
        close_range(3, ~0u, 0);
        open(f, O_RDONLY);
        for (;;) pause();
    }
    UNTIL((w = open(f, O_WRONLY | O_NONBLOCK)) >= 0);
    close(w);
    pid_t d = child();
    if (!d) {
        open(f, O_RDONLY);
        _exit(9);
    }
    wait_asleep(d);
    kill(c, SIGKILL);
    reap(c);
    kill(d, SIGKILL);
    reap(d);
    FAILS(open(f, O_WRONLY | O_NONBLOCK), ENXIO);
}
/* LINUX: who waited in open is let through even if the peer has closed again before it looks. */
static void peer_gone_at_once(void) {
    int p[2];
    const char *f = mkff(p);
    close(p[0]);
    close(p[1]);
    signal(SIGPIPE, SIG_IGN);
    S = shared(4096);
    for (int i = 0; i < 10; i++) {
        pid_t c = child();
        if (!c) {
            int w = OPEN(f, O_WRONLY);
            UNTIL(S[0] > i);
            FAILS(write(w, "x", 1), EPIPE);
            _exit(0);
        }
        wait_asleep(c);
        close(OPEN(f, O_RDONLY)); /* needs the writer, which may still be asleep when it is gone */
        S[0] = i + 1;
        REAP0(c);
        c = child();
        if (!c) {
            int r = OPEN(f, O_RDONLY);
            UNTIL(S[1] > i);
            get(r, 3, i);
            AT_EOF(r);
            _exit(0);
        }
        wait_asleep(c);
        int w = OPEN(f, O_WRONLY);
        put(w, 3, i);
        close(w);
        S[1] = i + 1;
        REAP0(c);
    }
}
static void writers_come_and_go(void) { /* the reader stays, and reads on after EOF without opening again */
    int p[2];
    const char *f = mkff(p);
    close(p[1]);
    AT_EOF(p[0]);
    for (int i = 0; i < 4; i++) {
        int w = OPEN(f, O_WRONLY);
        heat(p[0], w);
        put(w, 1000, i);
        if (i & 1) close(w);
        get(p[0], 1000, i);
        if (!(i & 1)) close(w);
        AT_EOF(p[0]);
    }
}
static void left_data_is_read_by_the_reader_that_stayed(void) {
    int p[2];
    const char *f = mkff(p);
    put(p[1], 20000, 0);
    close(p[1]);
    get(p[0], 7, 0);
    int w = OPEN(f, O_WRONLY); /* the next writer's bytes come behind those */
    put(w, 20000, 20000);
    get(p[0], 39993, 7);
    close(w);
    AT_EOF(p[0]);
}
static void left_data_is_gone_with_the_last_end(void) {
    int p[2];
    char x;
    const char *f = mkff(p);
    for (int i = 0; i < 6; i++) {
        put(p[1], i % 2 ? 60000 : 1, 5 + i);
        close(p[i / 2 % 2]);
        close(p[!(i / 2 % 2)]);
        p[0] = OPEN(f, O_RDONLY | O_NONBLOCK);
        IS(read(p[0], &x, 1), 0);
        p[1] = OPEN(f, O_WRONLY);
        FAILS(read(p[0], &x, 1), EAGAIN);
        setfl(p[0], 0, O_NONBLOCK);
        put(p[1], 10, i);
        get(p[0], 10, i);
        heat(p[0], p[1]);
    }
}
static void data_waits_with_the_writer_for_the_next_reader(void) {
    int p[2];
    const char *f = mkff(p);
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < 3; i++) {
        put(p[1], 20000, 0);
        get(p[0], 100, 0);
        close(p[0]);
        FAILS(write(p[1], "x", 1), EPIPE);
        p[0] = OPEN(f, O_RDONLY); /* a writer is there: at once */
        get(p[0], 10000, 100);
        put(p[1], 1000, 20000);
        get(p[0], 10900, 10100);
        heat(p[0], p[1]);
    }
    close(p[1]);
    AT_EOF(p[0]);
}
static void read_write_holder_keeps_all(void) {
    int p[2];
    const char *f = mkff(p);
    int h = OPEN(f, O_RDWR);
    heat(p[0], h);
    uint64_t at = 0;
    for (int i = 0; i < 8; i++) {
        close(p[1]);
        close(p[0]);
        pid_t c = writer(f, 30000, at);
        REAP0(c);
        p[0] = OPEN(f, O_RDONLY);
        p[1] = OPEN(f, O_WRONLY);
        qget(p[0], 20000, at, 700);
        c = reader(f, 10000, at + 20000, 0);
        REAP0(c);
        at += 30000;
        heat(p[0], p[1]);
    }
    char x;
    close(p[1]);
    setfl(p[0], O_NONBLOCK, 0);
    FAILS(read(p[0], &x, 1), EAGAIN);
    close(h);
    AT_EOF(p[0]);
}
static void by_proc_self_fd(void) {
    int p[2];
    char n[64], m[64];
    struct stat a, b;
    const char *f = mkff(p);
    put(p[1], 100, 0);
    snprintf(n, sizeof n, "/proc/self/fd/%d", p[0]);
    snprintf(m, sizeof m, "/proc/%d/fd/%d", getpid(), p[1]);
    int w = OPEN(n, O_WRONLY), r = OPEN(m, O_RDONLY), b2 = OPEN(n, O_RDWR | O_NONBLOCK);
    IS(fstat(w, &a) | stat(f, &b), 0);
    CHECK(a.st_ino == b.st_ino, "the same object");
    put(w, 100, 100);
    put(b2, 100, 200);
    get(r, 150, 0);
    get(b2, 100, 150);
    get(p[0], 50, 250);
    setfl(b2, 0, O_NONBLOCK);
    flood(r, w, 1 << 20, 0);
    flood(p[0], b2, 300000, 0);
    close(b2);
    close(p[1]);
    pid_t c = child();
    if (!c) {
        int o = OPEN(n, O_RDONLY);
        get(o, 5000, 0);
        _exit(0);
    }
    put(w, 5000, 0);
    REAP0(c);
    close(w);
    AT_EOF(r);
    AT_EOF(p[0]);
}
/* LINUX open(2): O_PATH takes a place, not an end, also while the FIFO has bytes. */
static void is_no_end(int o) {
    char x;
    int n;
    FAILS(read(o, &x, 1), EBADF);
    FAILS(write(o, &x, 1), EBADF);
    FAILS(ioctl(o, FIONREAD, &n), EBADF);
    IS(events(o, POLLIN | POLLOUT, 0), POLLNVAL);
}
static void o_path_is_no_end(void) {
    int p[2];
    char n[64];
    const char *f = newfifo();
    int o = OPEN(f, O_PATH);
    FAILS(open(f, O_WRONLY | O_NONBLOCK), ENXIO);
    is_no_end(o);
    snprintf(n, sizeof n, "/proc/self/fd/%d", o);
    open_both(n, p);
    heat(p[0], p[1]);
    put(p[1], 10, 0);
    is_no_end(o);
    is_no_end(OPEN(f, O_PATH | O_RDWR));
    is_no_end(dup(o));
    close(p[1]);
    get(p[0], 10, 0);
    AT_EOF(p[0]);
}
/* O_CREAT, O_TRUNC and O_APPEND do nothing to a FIFO that exists; each way of opening leads to the same
 * stream */
static void ways_to_open(void) {
    int p[2];
    char a[400], c[350];
    const char *f = mkff(p), *l = fresh();
    put(p[1], 100, 0);
    IS(symlink(f, l), 0);
    getcwd(c, sizeof c);
    snprintf(a, sizeof a, "%s/%s", c, f);
    struct {
        uint64_t flags, mode, resolve;
    } how = {O_WRONLY, 0, 0};
    int d = OPEN(".", O_RDONLY | O_DIRECTORY), w[12], n = 0;
    w[n++] = OPEN(f, O_WRONLY | O_CREAT | O_TRUNC);
    w[n++] = creat(f, 0600);
    w[n++] = OPEN(f, O_WRONLY | O_APPEND);
    w[n++] = OPEN(f, O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC | O_SYNC);
    w[n++] = OPEN(a, O_WRONLY);
    w[n++] = OPEN(l, O_WRONLY | O_NONBLOCK);
    w[n++] = openat(d, f, O_WRONLY);
    w[n++] = (int)syscall(SYS_open, f, O_WRONLY, 0);
    w[n++] = (int)syscall(SYS_openat, d, f, O_RDWR, 0);
    w[n++] = (int)syscall(SYS_openat2, d, f, &how, sizeof how);
    FILE *s = fopen(f, "w");
    w[n++] = dup(fileno(s));
    fclose(s);
    FAILS(open(l, O_WRONLY | O_NOFOLLOW), ELOOP);
    FAILS(open(f, O_RDONLY | O_DIRECTORY), ENOTDIR);
    FAILS(open(f, O_RDWR | O_TMPFILE), ENOTDIR);
    IS(fcntl(w[3], F_GETFD), FD_CLOEXEC);
    IS(fcntl(w[2], F_GETFL) & O_APPEND, O_APPEND);
    for (int i = 0; i < n; i++) {
        CHECK(w[i] >= 0, "way %d did not open", i);
        put(w[i], 50, 100 + i * 50);
    }
    get(p[0], 100 + n * 50, 0);
    for (int i = 0; i < n; i++) {
        setfl(w[i], 0, O_NONBLOCK);
        flood(p[0], w[i], 120000, i);
    }
    close(p[1]);
    for (int i = 0; i < n; i++) close(w[i]);
    AT_EOF(p[0]);
    s = fopen(f, "r+");
    CHECK(s, "fopen r+");
    put(fileno(s), 10, 0);
    char b[10];
    IS(fread(b, 1, 10, s), 10);
    verify(b, 10, 0);
    fclose(s);
}
/* flags belong to one opening */
static void flags_of_each_opening(void) {
    int p[2];
    char x;
    const char *f = mkff(p);
    int r = OPEN(f, O_RDONLY | O_NONBLOCK | O_CLOEXEC), d = dup(r);
    IS(fcntl(r, F_GETFD), FD_CLOEXEC);
    IS(fcntl(d, F_GETFD), 0);
    IS(fcntl(p[0], F_GETFL) & O_NONBLOCK, 0);
    FAILS(read(r, &x, 1), EAGAIN);
    setfl(p[0], O_NONBLOCK, 0);
    setfl(d, 0, O_NONBLOCK);
    IS(fcntl(r, F_GETFL) & O_NONBLOCK, 0);
    FAILS(read(p[0], &x, 1), EAGAIN);
    put(p[1], 3, 0);
    get(r, 3, 0);
}
FIFO_MAIN(ONCE(reader_waits_for_writer), ONCE(writer_waits_for_reader), ONCE(threads_of_one_process),
          T(both_orders_after_traffic), T(nonblocking_reader_at_once), T(nonblocking_writer_enxio),
          T(read_write_never_blocks), ONCE(reader_eintr), ONCE(writer_eintr), ONCE(reader_sa_restart),
          ONCE(writer_sa_restart), ONCE(readers_wait_for_one_writer), ONCE(writers_wait_for_one_reader),
          ONCE(blocked_opener_counts), T(peer_gone_at_once), T(writers_come_and_go),
          T(left_data_is_read_by_the_reader_that_stayed), T(left_data_is_gone_with_the_last_end),
          T(data_waits_with_the_writer_for_the_next_reader), T(read_write_holder_keeps_all),
          T(by_proc_self_fd), T(o_path_is_no_end), T(ways_to_open), T(flags_of_each_opening))
