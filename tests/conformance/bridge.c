/* Checks: calls made through a function of the shape of glibc's cancellation bridge (2.41 and later), whose owner decides
 * by the interrupted address whether a call was under way: in a blocked call and in the instant before it, yes; after
 * it, no. So a thread that is told to stop stops, at once, and no byte is lost. On older glibc this is the only test
 * of such a bridge. Does not check: glibc's own (that is cancel.c, where glibc has one). */
#include "pass_through.h"
#include <ucontext.h>
/* LINUX: a call that a handler with SA_RESTART interrupts is made again from its own instruction. */
asm(".text\n.type bridge, @function\nbridge:\n.cfi_startproc\nbridge_start:\n"
    "  movl (%rdi), %eax\n  testb $2, %al\n  jne bridge_stop\n"
    "  movq %rdi, %r11\n  movq %rsi, %rax\n  movq %rdx, %rdi\n  movq %rcx, %rsi\n  movq %r8, %rdx\n"
    "  movq %r9, %r10\n  movq 8(%rsp), %r8\n  movq 16(%rsp), %r9\n  movq %r11, 8(%rsp)\n"
    "  syscall\nbridge_end:\n  ret\n.cfi_endproc\n.size bridge, . - bridge\n");
long bridge(volatile int *state, long nr, long a, long b, long c, long d, long e, long f);
extern char bridge_start[], bridge_end[];
enum { PENDING = 2 };
static int P[2];
static volatile int state, id;
static sigjmp_buf out;
__attribute__((used)) void bridge_stop(void) { siglongjmp(out, 1); }
static void told(int s, siginfo_t *i, void *u) {
    char *pc = (char *)((ucontext_t *)u)->uc_mcontext.gregs[REG_RIP];
    if (state & PENDING && pc >= bridge_start && pc < bridge_end) bridge_stop();
}
static void listen_(void) {
    struct sigaction a = {.sa_sigaction = told, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGUSR1, &a, 0);
}
static long call(long nr, int fd, void *b, size_t n) { return bridge(&state, nr, fd, (long)b, n, 0, 0, 0); }
static void usable(uint64_t pos) {
    pid_t c = child();
    if (!c) {
        put(P[1], 100000, pos);
        _exit(0);
    }
    get(P[0], 100000, pos);
    REAP0(c);
}
static void *reads(void *a) {
    char x;
    id = tid();
    if (!sigsetjmp(out, 1)) {
        call(SYS_read, P[0], &x, 1);
        return 0;
    }
    return (void *)1;
}
static void *reads_on(void *a) {
    char x;
    id = tid();
    if (!sigsetjmp(out, 1))
        for (;;) IS(call(SYS_read, P[0], &x, 1), 1);
    return (void *)1;
}
static void *writes(void *a) {
    id = tid();
    if (!sigsetjmp(out, 1)) {
        call(SYS_write, P[1], "x", 1);
        return 0;
    }
    return (void *)1;
}
static void *polls(void *a) {
    struct pollfd p = {P[0], POLLIN, 0};
    id = tid();
    if (!sigsetjmp(out, 1)) {
        /* LINUX: poll(2) is not made again, whatever the handler's flags: the owner looks at EINTR too */
        if (bridge(&state, SYS_poll, (long)&p, 1, -1, 0, 0, 0) == -EINTR && state) bridge_stop();
        return 0;
    }
    return (void *)1;
}
static void stopped(void *(*f)(void *)) {
    pthread_t t;
    void *r;
    id = state = 0;
    listen_();
    pthread_create(&t, 0, f, 0);
    while (!id) sched_yield();
    wait_asleep(id);
    state = PENDING;
    pthread_kill(t, SIGUSR1);
    pthread_join(t, &r);
    IS(r, 1);
    state = 0;
}
static void in_read(void) {
    mkpipe(P);
    for (int i = 0; i < 5; i++) {
        stopped(reads);
        usable(i);
    }
    close(P[1]);
    AT_EOF(P[0]);
}
static void in_a_read_of_a_quiet_pipe(void) {
    hush(P);
    for (int i = 0; i < 5; i++) {
        put(P[1], 10, 0);
        stopped(reads_on);
        usable(i);
        for (int k = 0; k < 200; k++) {
            char x = pat(k);
            IS(call(SYS_write, P[1], &x, 1), 1);
            get(P[0], 1, k);
        }
    }
    size_t n = fill_up(P[1], 0);
    stopped(writes);
    get(P[0], n, 0);
    usable(0);
}
static void in_write(void) {
    mkpipe(P);
    for (int i = 0; i < 3; i++) {
        size_t n = fill_up(P[1], 0);
        stopped(writes);
        get(P[0], n, 0);
        usable(i);
    }
}
static void in_poll(void) {
    mkpipe(P);
    stopped(polls);
    usable(0);
}
static void pending_takes_no_data(void) {
    mkpipe(P);
    put(P[1], 5, 0);
    state = PENDING;
    IS(reads(0), 1);
    state = 0;
    get(P[0], 5, 0);
    usable(0);
}
/* every argument arrives, of calls that are carried and of calls that are not */
static void arguments(void) {
    char b[64];
    mkpipe(P);
    put(P[1], 20, 0);
    IS(call(SYS_read, P[0], b, 7), 7);
    verify(b, 7, 0);
    struct iovec v[2] = {{b, 3}, {b + 3, 10}};
    IS(call(SYS_readv, P[0], v, 2), 13);
    verify(b, 13, 7);
    IS(call(SYS_read, -1, b, 1), -EBADF);
    void *m = (void *)bridge(&state, SYS_mmap, 0, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK((long)m > 0 && *(volatile char *)m == 0, "mmap with six arguments");
    munmap(m, 8192);
    usable(0);
}
/* Bytes come and the thread is stopped at every moment: it always stops, and every byte is read once, in order. */
enum { ROUNDS = 3000 };
static volatile uint64_t taken;
static volatile int asked, stops;
static void *takes(void *a) {
    while (asked < ROUNDS) {
        unsigned char b[64];
        if (sigsetjmp(out, 1)) {
            state = 0;
            stops++;
            continue;
        }
        long n = call(SYS_read, P[0], b, sizeof b);
        if (n == 0) break;
        CHECK(n > 0, "read gave %ld", n);
        verify(b, n, taken);
        taken += n;
    }
    return 0;
}
static void racing(void) {
    mkpipe(P);
    listen_();
    pthread_t t;
    uint64_t sent = 0;
    taken = 0;
    pthread_create(&t, 0, takes, 0);
    unsigned r = 7;
    for (int k = 0; k < ROUNDS; k++) {
        r = r * 1103515245 + 12345;
        size_t n = 1 + (r >> 20) % 40;
        if (r & 1 << 16) put(P[1], n, sent), sent += n;
        for (volatile unsigned i = 0; i < (r >> 8) % 4000; i++);
        int was = stops;
        state = PENDING;
        asked = k + 1;
        pthread_kill(t, SIGUSR1);
        if (r & 1 << 17) put(P[1], n, sent), sent += n;
        while (stops == was && k + 1 < ROUNDS) sched_yield();
    }
    close(P[1]);
    pthread_join(t, 0);
    get(P[0], sent - taken, taken);
    AT_EOF(P[0]);
}
MAIN(T(in_read), T(in_a_read_of_a_quiet_pipe), T(in_write), T(in_poll), T(pending_takes_no_data), T(arguments), T(racing))
