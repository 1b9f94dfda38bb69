/* Checks: EINTR, SA_RESTART, partial counts, jumps out of handlers, pipe calls inside handlers.
 * Does not check: signals that stop (life.c), SIGPIPE (epipe.c). */
#include "check.h"
/* LINUX: signal(7): read(2) and write(2) on a pipe are restarted under SA_RESTART when nothing was
 * transferred, else fail with EINTR; a write that transferred something returns that count in either case. */
static volatile int hits;
static int P[2];
static void on(int s) { hits++; }
/* signals us every 10 ms until killed */
static pid_t pester(void) {
    pid_t me = getpid(), c = child();
    if (!c) {
        close(P[0]);
        close(P[1]);
        wait_asleep(me);
        for (;;) {
            kill(me, SIGUSR1);
            sleep_ms(10);
        }
    }
    return c;
}
static void stop(pid_t c) {
    kill(c, SIGKILL);
    reap(c);
}
static void eintr_read(void) {
    char x;
    mkpipe(P);
    handle(SIGUSR1, on, 0);
    pid_t c = pester();
    FAILS(read(P[0], &x, 1), EINTR);
    CHECK(hits > 0, "handler ran");
    stop(c);
    put(P[1], 9, 0);
    get(P[0], 9, 0);
}
static void eintr_write(void) {
    mkpipe(P);
    size_t n = fill_up(P[1], 0);
    handle(SIGUSR1, on, 0);
    pid_t c = pester();
    FAILS(write(P[1], "x", 1), EINTR);
    CHECK(hits > 0, "handler ran");
    stop(c);
    close(P[1]);
    get(P[0], n, 0);
    AT_EOF(P[0]);
}
static void restart_read(void) {
    mkpipe(P);
    handle(SIGUSR1, on, SA_RESTART);
    pid_t me = getpid(), c = child();
    if (!c) {
        for (int i = 0; i < 4; i++) {
            wait_asleep(me);
            kill(me, SIGUSR1);
        }
        wait_asleep(me);
        put(P[1], 5, 0);
        _exit(0);
    }
    char b[9];
    IS(read(P[0], b, 9), 5);
    verify(b, 5, 0);
    CHECK(hits > 0, "the handler must have run");
    REAP0(c);
}
static void restart_write(void) {
    mkpipe(P);
    size_t n = fill_up(P[1], 0);
    handle(SIGUSR1, on, SA_RESTART);
    pid_t me = getpid(), c = child();
    if (!c) {
        close(P[1]);
        for (int i = 0; i < 4; i++) {
            wait_asleep(me);
            kill(me, SIGUSR1);
        }
        wait_asleep(me);
        get(P[0], n + 3000, 0);
        _exit(0);
    }
    char b[3000];
    fill(b, 3000, n);
    IS(write(P[1], b, 3000), 3000);
    CHECK(hits > 0, "the handler must have run");
    REAP0(c);
}
static char big[4 << 20];
static void partial(int flags) {
    mkpipe(P);
    handle(SIGUSR1, on, flags);
    fill(big, sizeof big, 0);
    pid_t me = getpid(), c = child();
    if (!c) {
        sleep_ms(30);
        for (;;) {
            wait_asleep(me);
            kill(me, SIGUSR1);
            sleep_ms(50);
        }
    }
    ssize_t n = write(P[1], big, sizeof big);
    stop(c);
    CHECK(n >= (ssize_t)holds() && n < (ssize_t)sizeof big, "an interrupted write must return what went in, it gave %zd",
          n);
    close(P[1]);
    get(P[0], n, 0);
    AT_EOF(P[0]);
}
static void partial_count(void) { partial(0); }
static void partial_count_sa_restart(void) { partial(SA_RESTART); }
static sigjmp_buf jb;
static void jump(int s) { siglongjmp(jb, 1); }
static void jump_out_of_read(void) {
    mkpipe(P);
    handle(SIGUSR1, jump, 0);
    pid_t me = getpid();
    for (volatile int i = 0; i < 8; i++) {
        volatile pid_t c = child();
        if (!c) {
            wait_asleep(me);
            kill(me, SIGUSR1);
            _exit(0);
        }
        if (!sigsetjmp(jb, 1)) {
            char x;
            read(P[0], &x, 1);
            CHECK(0, "read returned instead of being jumped out of");
        }
        REAP0(c);
        c = child();
        if (!c) {
            close(P[0]);
            put(P[1], 9000, i * 9000);
            _exit(0);
        }
        get(P[0], 9000, i * 9000);
        REAP0(c);
    }
    close(P[1]);
    AT_EOF(P[0]);
}
static void jump_out_of_write(void) {
    mkpipe(P);
    volatile size_t n = fill_up(P[1], 0);
    handle(SIGUSR1, jump, 0);
    pid_t me = getpid();
    volatile pid_t c = child();
    if (!c) {
        wait_asleep(me);
        kill(me, SIGUSR1);
        _exit(0);
    }
    if (!sigsetjmp(jb, 1)) {
        write(P[1], "x", 1);
        CHECK(0, "write returned instead of being jumped out of");
    }
    REAP0(c);
    c = child();
    if (!c) {
        close(P[0]);
        put(P[1], 9000, n);
        _exit(0);
    }
    close(P[1]);
    get(P[0], n + 9000, 0);
    AT_EOF(P[0]);
    REAP0(c);
}
static void h_write(int s) {
    char b[7];
    fill(b, 7, 0);
    if (!hits++) write(P[1], b, 7);
}
static void handler_writes_same_pipe(void) {
    mkpipe(P);
    handle(SIGUSR1, h_write, SA_RESTART);
    pid_t c = pester();
    char b[99];
    IS(read(P[0], b, 99), 7);
    verify(b, 7, 0);
    stop(c);
}
static char hb[8192];
static void h_read(int s) {
    if (!hits++) {
        ssize_t g = read(P[0], hb, sizeof hb);
        CHECK(g == sizeof hb, "the handler's read of a full pipe gave %zd", g);
    }
}
static void handler_reads_same_pipe(void) {
    mkpipe(P);
    size_t n = fill_up(P[1], 0);
    handle(SIGUSR1, h_read, SA_RESTART);
    pid_t c = pester();
    char b[3000];
    fill(b, 3000, n);
    IS(write(P[1], b, 3000), 3000);
    stop(c);
    verify(hb, 8192, 0);
    close(P[1]);
    get(P[0], n + 3000 - 8192, 8192);
    AT_EOF(P[0]);
}
static void storm(int flags) {
    enum { TOTAL = 8 << 20 };
    mkpipe(P);
    pid_t c = child();
    handle(SIGALRM, on, flags);
    struct itimerval t = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &t, 0);
    if (!c) {
        close(P[0]);
        put(P[1], TOTAL, 0);
        if (!hits) _exit(3);
        _exit(0);
    }
    close(P[1]);
    get(P[0], TOTAL, 0);
    struct itimerval z = {0};
    setitimer(ITIMER_REAL, &z, 0);
    AT_EOF(P[0]);
    REAP0(c);
}
/* Two streams of records in one pipe, one written by the handler that interrupts the other's writes: each keeps its
 * order, nothing is lost. The reader is slow now and then: the pipe is full, and empty. */
struct record {
    uint32_t stream, number;
    char pad[56];
};
static uint32_t storms;
static int storm_fd;
static void h_record(int s) {
    struct record r = {1, storms, {0}};
    int e = errno;
    if (write(storm_fd, &r, sizeof r) == sizeof r) storms++;
    errno = e;
    hits++;
}
static void storm_handler_writes(void) {
    enum { TOTAL = 60000 };
    mkpipe(P);
    pid_t c = child();
    if (!c) {
        close(P[0]);
        storm_fd = P[1];
        handle(SIGALRM, h_record, SA_RESTART);
        struct itimerval t = {{0, 50}, {0, 50}}, z = {0};
        setitimer(ITIMER_REAL, &t, 0);
        for (uint32_t i = 0; i < TOTAL; i++) {
            struct record r = {0, i, {0}};
            CHECK(write(P[1], &r, sizeof r) == sizeof r, "a record is written whole");
        }
        setitimer(ITIMER_REAL, &z, 0);
        struct record last = {2, storms, {0}};
        CHECK(write(P[1], &last, sizeof last) == sizeof last, "a record is written whole");
        _exit(0);
    }
    close(P[1]);
    uint32_t next[2] = {0};
    struct record r;
    for (uint32_t n = 0;; n++) {
        for (size_t k = 0; k < sizeof r;) {
            ssize_t g = read(P[0], (char *)&r + k, sizeof r - k);
            CHECK(g > 0, "the stream ended after %u and %u records", next[0], next[1]);
            k += g;
        }
        if (r.stream == 2) break;
        CHECK(r.stream < 2 && r.number == next[r.stream], "stream %u: %u came where %u was due", r.stream, r.number,
              next[r.stream]);
        next[r.stream]++;
        if (n % 512 == 0) sleep_ms(1);
    }
    IS(next[0], TOTAL);
    IS(next[1], r.number);
    REAP0(c);
    AT_EOF(P[0]);
}
/* The handler reads from the pipe that it finds somebody reading: each record comes once, to one of the two. */
enum { RECORDS = 60000 };
static unsigned char seen[RECORDS];
static int see(void) {
    struct record r;
    ssize_t g = read(P[0], &r, sizeof r);
    if (g <= 0) return g < 0 && errno == EINTR;
    CHECK(g == sizeof r && r.number < RECORDS, "a read of %zd bytes, record %u", g, r.number);
    CHECK(!seen[r.number]++, "record %u came twice", r.number);
    return 1;
}
static void h_see(int s) {
    int e = errno;
    see();
    errno = e;
}
static void storm_handler_reads(void) {
    mkpipe(P);
    pid_t c = child();
    if (!c) {
        close(P[0]);
        for (uint32_t i = 0; i < RECORDS; i++) {
            struct record r = {0, i, {0}};
            CHECK(write(P[1], &r, sizeof r) == sizeof r, "a record is written whole");
            if (i % 2048 == 0) sleep_ms(1);
        }
        _exit(0);
    }
    close(P[1]);
    handle(SIGALRM, h_see, SA_RESTART);
    struct itimerval t = {{0, 50}, {0, 50}}, z = {0};
    setitimer(ITIMER_REAL, &t, 0);
    while (see());
    setitimer(ITIMER_REAL, &z, 0);
    for (int i = 0; i < RECORDS; i++) CHECK(seen[i] == 1, "record %d was lost", i);
    REAP0(c);
}
static void timer_storm(void) { storm(0); }
static void timer_storm_sa_restart(void) { storm(SA_RESTART); }
static void masked_does_not_interrupt(void) {
    mkpipe(P);
    handle(SIGUSR1, on, 0);
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, SIGUSR1);
    sigprocmask(SIG_BLOCK, &s, 0);
    pid_t me = getpid(), c = child();
    if (!c) {
        wait_asleep(me);
        kill(me, SIGUSR1);
        sleep_ms(20);
        put(P[1], 4, 0);
        _exit(0);
    }
    char b[9];
    IS(read(P[0], b, 9), 4);
    IS(hits, 0);
    REAP0(c);
    sigprocmask(SIG_UNBLOCK, &s, 0);
    IS(hits, 1);
}
static void ignored_does_not_interrupt(void) {
    mkpipe(P);
    signal(SIGUSR1, SIG_IGN);
    pid_t me = getpid(), c = child();
    if (!c) {
        wait_asleep(me);
        kill(me, SIGUSR1);
        sleep_ms(20);
        put(P[1], 4, 0);
        _exit(0);
    }
    char b[9];
    IS(read(P[0], b, 9), 4);
    REAP0(c);
}
static void *reader(void *id) {
    *(volatile int *)id = tid();
    char x;
    FAILS(read(P[0], &x, 1), EINTR);
    return 0;
}
static void one_thread_only(void) {
    mkpipe(P);
    handle(SIGUSR1, on, 0);
    volatile int id = 0;
    pthread_t t;
    pthread_create(&t, 0, reader, (void *)&id);
    while (!id);
    while (pthread_tryjoin_np(t, 0)) {
        wait_asleep(id);
        pthread_kill(t, SIGUSR1);
        sleep_ms(10);
    }
    CHECK(hits > 0, "handler ran");
}
/* A handler makes a child over a call that sleeps, and both return from it. Another that sleeps in the same call still does. */
static volatile int made;
static void forks(int sig) { made = fork(); }
static void forks_over(int writes) {
    static char b[5000];
    mkpipe(P);
    for (int i = 0; i < 16; i++) { /* one more pays for a ring */
        write_all(P[1], b, 1);
        IS(read_n(P[0], b, 1), 1);
    }
    size_t n = writes ? fill_up(P[1], 0) : 0;
    pid_t c = child();
    if (!c) {
        handle(SIGALRM, forks, 0);
        struct itimerval t = {.it_value = {0, 50000}};
        setitimer(ITIMER_REAL, &t, 0);
        if (writes) FAILS(write(P[1], b, 100), EINTR);
        else FAILS(read(P[0], b, 100), EINTR);
        if (made) REAP0(made);
        _exit(0);
    }
    pid_t other = child();
    if (!other) {
        if (writes) put(P[1], 100, n);
        else get(P[0], 100, 0);
        _exit(0);
    }
    REAP0(c);
    wait_asleep(other);
    if (writes) get(P[0], n + 100, 0);
    else put(P[1], 100, 0);
    REAP0(other);
    for (int i = 0; i < 200; i++) {
        put(P[1], 5000, i * 5000);
        get(P[0], 5000, i * 5000);
    }
}
static void forks_over_a_read(void) { forks_over(0); }
static void forks_over_a_write(void) { forks_over(1); }
MAIN(T(eintr_read), T(eintr_write), T(restart_read), T(restart_write), T(partial_count),
     T(partial_count_sa_restart), T(jump_out_of_read), T(jump_out_of_write), T(handler_writes_same_pipe),
     T(handler_reads_same_pipe), T(storm_handler_writes), T(storm_handler_reads),
     T(timer_storm), T(timer_storm_sa_restart), T(masked_does_not_interrupt),
     T(ignored_does_not_interrupt), T(one_thread_only), T(forks_over_a_read), T(forks_over_a_write))
