/* Checks: a process whose writes pass through, and which then allows itself little: strict mode, a filter without
 * sched_yield(2), also one that another thread gives to all while one sleeps in a call, no time-stamp counter. It makes
 * nothing but read(2) and write(2) from then on, so it lives, and what it wrote is read. The reader sleeps at each
 * write, on one CPU most of all: there more can follow a write than the write (conformance.sh runs it so).
 * Does not check: what a sandbox does to pipes that carry (deopt.c), filters that were there before the program. */
#include "pass_through.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
/* Enough to pass through in a process of its own; so few that the next ones are none that the library counts (64). */
enum { BEFORE = 20, AFTER = 4, ROUNDS = 4 };
static int P[2], Q[2];
static volatile int *may;
static void skip(const char *what) {
    dprintf(1, "skip: no %s here\n", what);
    _exit(0);
}
/* As strict mode allows it: _exit is exit_group(2). By libc's instruction, for a program that has one of its own takes no
 * part under Byway. */
static void __attribute__((noreturn)) leave(long status) {
    for (;;) syscall(SYS_exit, status);
}
/* More than 50 us, without a call. */
static void spend(void) {
    for (volatile int i = 0; i < 300000; i++);
}
/* No CHECK in a sandbox: its exit is not allowed there. */
static void writes_on(int w, uint64_t at) {
    for (int i = 0; i < AFTER; i++) {
        char b[3];
        fill(b, 3, at + 3 * i);
        if (write(w, b, 3) != 3) leave(4);
        spend();
    }
}
static void reads_all(int r, uint64_t n) {
    close(P[1]);
    close(Q[1]);
    get(r, n, 0);
    AT_EOF(r);
}
/* The rest that follows a yield which a busy thread made late is over after a while. */
static void rests(void) { sleep_ms(60); }
static long strict(void) { return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); }
static long no_tsc(void) { return prctl(PR_SET_TSC, PR_TSC_SIGSEGV); }
static long filter(int flags) {
    struct sock_filter f[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog p = {sizeof f / sizeof *f, f};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ? -1 : syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &p);
}
static long filtered(void) { return filter(0); }
/* Asked of a process that ends with it. */
static int is_here(long (*sandbox)(void)) {
    pid_t c = child();
    if (!c) leave(sandbox() ? 1 : 0);
    return reap(c) == 0;
}
static void enters(long (*sandbox)(void), const char *name) {
    if (!is_here(sandbox)) skip(name);
    for (int i = 0; i < ROUNDS; i++) {
        hush(P);
        pid_t r = child();
        if (!r) {
            reads_all(P[0], BEFORE + 3 * AFTER);
            _exit(0);
        }
        pid_t w = child();
        if (!w) {
            chat(P[1], BEFORE, 0);
            rests();
            if (sandbox()) leave(5);
            writes_on(P[1], BEFORE);
            leave(0);
        }
        close(P[1]);
        int s = reap(w);
        CHECK(!s, "a writer in a sandbox (%s) must leave with 0, its wait status was 0x%x", name, s);
        REAP0(r);
        close(P[0]);
    }
}
static void in_strict_mode(void) { enters(strict, "strict mode"); }
static void without_sched_yield(void) { enters(filtered, "filter of calls"); }
static void without_a_time_stamp(void) { enters(no_tsc, "PR_TSC_SIGSEGV"); }
/* The other thread: all get its filter when the first one sleeps. */
static void *filters_all(void *main) {
    wait_asleep((int)(intptr_t)main);
    CHECK(!filter(SECCOMP_FILTER_FLAG_TSYNC), "no filter for all threads");
    *may = 1;
    return 0;
}
static void until_it_may(void) {
    while (!*may) sleep_ms(1);
}
static void by_another_thread(void (*sleeper)(void), void (*other)(void)) {
    if (!is_here(filtered)) skip("filter of calls");
    may = shared(sizeof *may);
    for (int i = 0; i < ROUNDS; i++) {
        *may = 0;
        hush(P);
        hush(Q);
        pid_t o = child();
        if (!o) {
            chat(P[1], 3, 0);
            other();
            _exit(0);
        }
        pid_t w = child();
        if (!w) {
            pthread_t t;
            get(P[0], 3, 0);
            chat(Q[1], BEFORE, 0);
            rests();
            IS(pthread_create(&t, 0, filters_all, (void *)(intptr_t)tid()), 0);
            sleeper();
            leave(*may ? 0 : 7);
        }
        close(P[1]);
        close(Q[1]);
        int s = reap(w);
        CHECK(!s, "a process that got a filter in a call must leave with 0, its wait status was 0x%x", s);
        REAP0(o);
        close(P[0]);
        close(Q[0]);
    }
}
/* A whole pipe and one write more, which waits for room, each of the size that passes through. */
enum { SLOTS = 16, PAGE = 4096 };
static void writes_into_a_full_one(void) {
    put(Q[1], (SLOTS + 1) * PAGE, BEFORE);
    writes_on(Q[1], BEFORE + (SLOTS + 1) * PAGE);
}
static void reads_when_it_may(void) {
    close(P[1]);
    close(Q[1]);
    get(Q[0], BEFORE, 0);
    until_it_may();
    get(Q[0], (SLOTS + 1) * PAGE + 3 * AFTER, BEFORE);
    AT_EOF(Q[0]);
}
static void a_filter_comes_over_a_write(void) { by_another_thread(writes_into_a_full_one, reads_when_it_may); }
static void reads_and_writes(void) {
    char b;
    if (read(P[0], &b, 1) != 1) leave(8);
    writes_on(Q[1], BEFORE);
}
static void *reads_q(void *a) {
    close(Q[1]);
    get(Q[0], BEFORE + 3 * AFTER, 0);
    return 0;
}
static void writes_when_it_may(void) {
    pthread_t t;
    pthread_create(&t, 0, reads_q, 0);
    until_it_may();
    put(P[1], 1, 3);
    pthread_join(t, 0);
    AT_EOF(Q[0]);
}
static void a_filter_comes_over_a_read(void) { by_another_thread(reads_and_writes, writes_when_it_may); }
MAIN(ONCE(in_strict_mode), ONCE(without_sched_yield), ONCE(without_a_time_stamp), ONCE(a_filter_comes_over_a_write),
     ONCE(a_filter_comes_over_a_read))
