/* Checks: pipes whose every write has found the reader asleep, again and again, so that they are left to the kernel: what is
 * read, errors, signals, death, a full pipe, and a stream that begins then, whoever is inside a call.
 * Does not check: how such a pipe comes to be one (asleep.c), other calls than read and write on it. */
#include "pass_through.h"
static int P[2];
/* The call after some like it. */
static void used(int *p) {
    for (int i = 0; i < 3; i++) {
        put(p[1], 1, i);
        get(p[0], 1, i);
    }
}
static void each_finds_what_was_written(void) {
    static const size_t SIZES[] = {1, 100, 4096, 4097, 24576, 60000, 3};
    hush(P);
    pid_t c = child();
    uint64_t at = 0;
    if (!c) {
        static char b[65536];
        close(P[1]);
        for (ssize_t k; (k = read(P[0], b, sizeof b)) > 0; at += k) verify(b, k, at);
        _exit(at == 10 * 92873 ? 0 : 3);
    }
    for (int i = 0; i < 70; i++) {
        size_t n = SIZES[i % 7];
        if (i % 3) nap(EACH_US);
        put(P[1], n, at);
        at += n;
    }
    close(P[1]);
    REAP0(c);
}
/* Far more writes than make it worth a ring again, and then long ones; for the parent, to the end of the stream. */
static void carries_a_stream(void) {
    enum { SMALL = 3000, LARGE = 3 << 20 };
    pid_t w = child();
    if (!w) {
        close(P[0]);
        for (int i = 0; i < SMALL; i++) put(P[1], 1, i);
        put(P[1], LARGE, SMALL);
        _exit(0);
    }
    close(P[1]);
    get(P[0], SMALL + LARGE, 0);
    AT_EOF(P[0]);
    REAP0(w);
}
static void a_stream_begins(void) {
    hush(P);
    carries_a_stream();
}
/* Each byte is one reader's, though one may have slept there since before the stream. */
static void a_stream_to_three_readers(void) {
    enum { SMALL = 3000, MANY = 1 << 20 };
    hush(P);
    uint64_t *sum = shared(3 * sizeof *sum), want = 0;
    pid_t c[3];
    for (int i = 0; i < 3; i++) {
        c[i] = child();
        if (!c[i]) {
            unsigned char b[4096];
            close(P[1]);
            for (ssize_t k; (k = read(P[0], b, i ? sizeof b : 1)) > 0;)
                while (k) sum[i] += 1 + b[--k];
            _exit(0);
        }
    }
    for (int i = 0; i < SMALL + MANY; i++) want += 1 + pat(i);
    for (int i = 0; i < SMALL; i++) put(P[1], 1, i);
    put(P[1], MANY, SMALL);
    close(P[1]);
    for (int i = 0; i < 3; i++) REAP0(c[i]);
    IS(sum[0] + sum[1] + sum[2], want);
}
static void *sleeps(void *to) {
    unsigned char b;
    if (read(P[0], &b, 1) == 1) *(int *)to = 1 + b;
    return 0;
}
/* One thread sleeps in it while the other, of its process, goes on. */
static void over_a_thread_asleep(void) {
    hush(P);
    used(P);
    for (int round = 0; round < 3; round++) {
        int got = 0;
        pthread_t t;
        pthread_create(&t, 0, sleeps, &got);
        sleep_ms(5);
        uint64_t want = 0, sum = 0;
        for (int i = 0; i < 2000; i++) {
            put(P[1], 2, 2 * i);
            want += pat(2 * i) + pat(2 * i + 1);
            unsigned char b[2];
            size_t n = !i && !got ? 1 : 2;
            sum += (n = read(P[0], b, n)) > 0 ? b[0] : 0;
            if (n == 2) sum += b[1];
            if (!i) pthread_join(t, 0), sum += got - 1;
            if (!i && n == 2) CHECK(0, "three bytes of two");
        }
        IS(sum, want);
    }
}
static void the_writer_closes(void) {
    hush(P);
    pid_t c = child();
    if (!c) {
        close(P[1]);
        get(P[0], 20, 0);
        AT_EOF(P[0]);
        _exit(0);
    }
    chat(P[1], 20, 0);
    wait_asleep(c);
    close(P[1]);
    REAP0(c);
}
static void the_writer_is_killed(void) {
    hush(P);
    pid_t w = child();
    if (!w) {
        close(P[0]);
        chat(P[1], 20, 0);
        for (;;) pause();
    }
    close(P[1]);
    get(P[0], 20, 0);
    kill(w, SIGKILL);
    AT_EOF(P[0]);
    reap(w);
}
static volatile int hits;
static void on(int s) { hits++; }
static void the_reader_is_killed(void) {
    hush(P);
    handle(SIGPIPE, on, 0);
    pid_t c = child();
    if (!c) {
        close(P[1]);
        for (uint64_t at = 0;; at++) get(P[0], 1, at);
    }
    close(P[0]);
    chat(P[1], 20, 0);
    wait_asleep(c);
    kill(c, SIGKILL);
    reap(c);
    for (int i = 1; i < 4; i++) {
        FAILS(write(P[1], "x", 1), EPIPE);
        IS(hits, i);
    }
}
/* Who was killed inside leaves nothing that keeps the next ones out. */
static void a_stream_after_a_killed_reader(void) {
    hush(P);
    pid_t c = child();
    if (!c) {
        for (uint64_t at = 0;; at++) get(P[0], 1, at);
    }
    chat(P[1], 20, 0);
    wait_asleep(c);
    kill(c, SIGKILL);
    reap(c);
    carries_a_stream();
}
/* POSIX read: EINTR by a handler without SA_RESTART; with it the read goes on. */
static void a_handler_ends_it_or_not(void) {
    hush(P);
    for (int restart = 0; restart < 2; restart++) {
        pid_t c = child();
        if (!c) {
            char b;
            handle(SIGUSR1, on, restart ? SA_RESTART : 0);
            get(P[0], 10, 0);
            if (restart) IS(read(P[0], &b, 1), 1);
            else FAILS(read(P[0], &b, 1), EINTR);
            IS(hits, 1);
            if (!restart) get(P[0], 1, 10);
            _exit(0);
        }
        chat(P[1], 10, 0);
        wait_asleep(c);
        kill(c, SIGUSR1);
        wait_asleep(c);
        put(P[1], 1, 10);
        REAP0(c);
    }
}
/* The handler comes over a read, and reads and writes itself: in the same pipe, and in another. */
static int Q[2];
static void writes(int s) {
    char b;
    hits++;
    put(Q[1], 1, hits);
    IS(read(Q[0], &b, 1), 1);
    verify(&b, 1, hits);
    put(P[1], 1, hits);
}
static void a_handler_that_reads_and_writes(void) {
    hush(P);
    hush(Q);
    used(P);
    used(Q);
    handle(SIGUSR1, writes, SA_RESTART);
    int me = getpid();
    pid_t c = child();
    if (!c) {
        for (int i = 0; i < 10; i++) {
            wait_asleep(me);
            kill(me, SIGUSR1);
        }
        _exit(0);
    }
    for (int i = 1; i <= 10; i++) get(P[0], 1, i);
    REAP0(c);
    carries_a_stream();
}
static sigjmp_buf out;
static void jumps(int s) { siglongjmp(out, 1); }
static void a_handler_that_jumps_out(void) {
    hush(P);
    used(P);
    handle(SIGALRM, jumps, 0);
    for (int i = 0; i < 5; i++) {
        char b;
        struct itimerval t = {{0, 0}, {0, 3000}};
        if (!sigsetjmp(out, 1)) {
            setitimer(ITIMER_REAL, &t, 0);
            IS(read(P[0], &b, 1), 1);
            CHECK(0, "there was nothing to be read");
        }
        used(P);
    }
    carries_a_stream();
}
/* LINUX pipe(7): EAGAIN at an empty pipe and at a full one, which stays full until somebody reads. */
static void without_waiting(void) {
    char b[4096];
    hush(P);
    used(P);
    setfl(P[0], O_NONBLOCK, 0);
    for (int i = 0; i < 5; i++) FAILS(read(P[0], b, 1), EAGAIN);
    size_t n = fill_up(P[1], 0);
    setfl(P[1], O_NONBLOCK, 0);
    for (int i = 0; i < 3000; i++) FAILS(write(P[1], b, i % 2 ? 1 : 4096), EAGAIN);
    IS(events(P[1], POLLOUT, 0), 0);
    IS(events(P[0], POLLIN, 0), POLLIN);
    setfl(P[0], 0, O_NONBLOCK);
    setfl(P[1], 0, O_NONBLOCK);
    get(P[0], n, 0);
    used(P);
}
static void a_writer_that_waits_for_room(void) {
    hush(P);
    pid_t w = child();
    if (!w) {
        put(P[1], 1 << 20, 0);
        _exit(0);
    }
    wait_asleep(w);
    get(P[0], 1 << 20, 0);
    REAP0(w);
}
/* LINUX pipe_write: of a long write without waiting what there is room for. */
static void long_ones_without_waiting(void) {
    enum { N = 20480 };
    static char b[N];
    hush(P);
    used(P);
    setfl(P[1], O_NONBLOCK, 0);
    size_t n = 0, parts = 0;
    for (ssize_t k;; n += k, parts += k != N) {
        fill(b, N, n);
        if ((k = write(P[1], b, N)) < 0) break;
        CHECK(!parts, "%zd bytes went into a pipe that was full", k);
    }
    FAILS(write(P[1], b, N), EAGAIN);
    IS(events(P[1], POLLOUT, 0), 0);
    CHECK(parts && n >= holds(), "a full pipe had %zu bytes, %zu writes in part", n, parts);
    setfl(P[1], 0, O_NONBLOCK);
    get(P[0], n, 0);
    used(P);
}
/* LINUX pipe_write: a handler ends a wait for room; what went in before counts. */
static void a_handler_ends_writes_of(size_t size) {
    static char b[20480];
    hush(P);
    used(P);
    hits = 0;
    size_t *all = shared(sizeof *all), n = 0;
    pid_t w = child();
    if (!w) {
        handle(SIGUSR1, on, 0);
        ssize_t k;
        do {
            fill(b, size, n);
            k = write(P[1], b, size);
            if (k > 0) n += k;
        } while (!hits);
        int part = size > 4096 && k > 0 && k < size;
        CHECK(part || (k < 0 && errno == EINTR), "a write of %zu bytes into a full pipe said %zd", size, k);
        *all = n;
        _exit(0);
    }
    wait_asleep(w);
    kill(w, SIGUSR1);
    REAP0(w);
    CHECK(*all >= holds(), "a full pipe had %zu bytes", *all);
    get(P[0], *all, 0);
}
static void a_writer_that_a_handler_ends(void) {
    a_handler_ends_writes_of(4096);
    a_handler_ends_writes_of(20480);
}
static void by_parent_and_child(void) {
    hush(P);
    used(P);
    for (int i = 0; i < 5; i++) {
        pid_t c = child();
        if (!c) {
            get(P[0], 3, 7);
            _exit(0);
        }
        chat(P[1], 3, 7);
        REAP0(c);
        c = child();
        if (!c) {
            put(P[1], 3, 9);
            _exit(0);
        }
        get(P[0], 3, 9);
        REAP0(c);
    }
}
/* POSIX dup2: the descriptor is another pipe from then on. */
static void another_under_its_number(void) {
    int q[2];
    hush(P);
    used(P);
    mkpipe(q);
    IS(dup2(q[0], P[0]), P[0]);
    IS(dup2(q[1], P[1]), P[1]);
    put(P[1], 5, 0);
    get(q[0], 2, 0);
    put(q[1], 5, 5);
    get(P[0], 8, 2);
    close(P[1]);
    close(q[1]);
    AT_EOF(P[0]);
}
static void *takes(void *a) {
    get(P[0], 100000, 0);
    return 0;
}
static volatile int waiter;
static void *waits(void *a) {
    char b;
    get(P[0], 3, 0);
    waiter = tid();
    read(P[0], &b, 1);
    return 0;
}
static void a_thread_is_cancelled(void) {
    pthread_t t;
    void *r;
    waiter = 0;
    hush(P);
    pthread_create(&t, 0, waits, 0);
    chat(P[1], 3, 0);
    while (!waiter) sleep_ms(1);
    wait_asleep(waiter);
    pthread_cancel(t);
    pthread_join(t, &r);
    CHECK(r == PTHREAD_CANCELED, "a thread that is cancelled in its read must end so");
    pthread_create(&t, 0, takes, 0);
    put(P[1], 100000, 0);
    pthread_join(t, 0);
}
/* As `syscall` leaves them: what a call of the kernel's gives and takes, and 16 registers around it. */
long keeps(long nr, long fd, void *b, long n, uint64_t *after);
asm(".text\n.type keeps, @function\nkeeps: push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\npush %r8\n"
    "mov $11, %ebx\nmov $12, %ebp\nmov $13, %r12d\nmov $14, %r13d\nmov $15, %r14d\nmov $16, %r15d\n"
    "mov $21, %r8d\nmov $22, %r9d\npushq $0\npushq $23\ncall syscall@PLT\n"
    "mov 16(%rsp), %rcx\nadd $24, %rsp\n"
    "mov %rdi, (%rcx)\nmov %rsi, 8(%rcx)\nmov %rdx, 16(%rcx)\nmov %r10, 24(%rcx)\nmov %r8, 32(%rcx)\nmov %r9, 40(%rcx)\n"
    "mov %rbx, 48(%rcx)\nmov %rbp, 56(%rcx)\nmov %r12, 64(%rcx)\nmov %r13, 72(%rcx)\nmov %r14, 80(%rcx)\nmov %r15, 88(%rcx)\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n.size keeps, . - keeps\n");
static void called(long nr, int fd, long n) {
    char b[64] = "";
    uint64_t after[12], want[12] = {fd, (uint64_t)b, n, 21, 22, 23, 11, 12, 13, 14, 15, 16};
    IS(keeps(nr, fd, b, n, after), n);
    for (int i = 0; i < 12; i++) CHECK(after[i] == want[i], "register %d is %lx after a call, %lx before", i, after[i], want[i]);
}
/* LINUX syscall(2): rax, rcx and r11 are all that it changes. */
static void registers_are_kept(void) {
    hush(P);
    pid_t c = child();
    if (!c) {
        close(P[1]);
        for (int i = 0; i < 200; i++) called(SYS_read, P[0], 3);
        _exit(0);
    }
    for (int i = 0; i < 200; i++) {
        if (i % 2) nap(EACH_US);
        called(SYS_write, P[1], 3);
    }
    REAP0(c);
}
MAIN(T(each_finds_what_was_written), T(a_stream_begins), T(a_stream_to_three_readers), T(over_a_thread_asleep),
     T(the_writer_closes), T(the_writer_is_killed), T(the_reader_is_killed), T(a_stream_after_a_killed_reader),
     T(a_handler_ends_it_or_not), T(a_handler_that_reads_and_writes), T(a_handler_that_jumps_out), T(without_waiting), T(long_ones_without_waiting),
     T(a_writer_that_waits_for_room), T(a_writer_that_a_handler_ends), T(by_parent_and_child), T(another_under_its_number),
     T(a_thread_is_cancelled), T(registers_are_kept))
