/* Checks: two pipes that pass through A and B, and a handler that writes to B at each instruction of a write to A, from before it
 * until its system call: every byte arrives, in its order. And where the write to A is made quietly (docs/pipe.md), of
 * which the kernel alone knows nothing, it says the same of itself as one that no handler came over: what it announces
 * is A's, and so is what it looked at. A tracer, which takes the steps, sees that: the registers that a call keeps are
 * the same, and so is the word at one of them that is something in the call and 0 after it.
 * Does not check: a handler that comes over a read (the same code), or into the call itself (pass_through.c). */
#include "pass_through.h"
#include <sys/ptrace.h>
#include <sys/user.h>
/* LINUX: glibc's cancellation bridge (2.41), as in bridge.c. */
asm(".text\n.type bridge, @function\nbridge:\n.cfi_startproc\n"
    "  movl (%rdi), %eax\n  testb $2, %al\n  jne bridge_stop\n"
    "  movq %rdi, %r11\n  movq %rsi, %rax\n  movq %rdx, %rdi\n  movq %rcx, %rsi\n  movq %r8, %rdx\n"
    "  movq %r9, %r10\n  movq 8(%rsp), %r8\n  movq 16(%rsp), %r9\n  movq %r11, 8(%rsp)\n"
    "  syscall\n  ret\n.cfi_endproc\n.size bridge, . - bridge\n");
long bridge(volatile int *state, long nr, long a, long b, long c, long d, long e, long f);
__attribute__((used)) void bridge_stop(void) { _exit(9); }
enum { KEPT = 6, WORDS = 16, AFTER = 40, TRIES = 100, FAR = 2000, LONG_WAY = 300 };
static int A[2], B[2], by_bridge;
static volatile int state;
static volatile uint64_t *sent; /* to A, to B */
static volatile int *enough;
static void sends(int w, volatile uint64_t *at) {
    char b = pat(*at);
    long n = by_bridge && w == A[1] ? bridge(&state, SYS_write, w, (long)&b, 1, 0, 0, 0) : write(w, &b, 1);
    if (n != 1) _exit(3);
    ++*at;
}
/* It stops at its end, so that nobody need step through it. */
static void to_b(int s) {
    sends(B[1], sent + 1);
    asm volatile("int3" : : : "memory");
}
/* The traced one. Its first write after a handler's is the long way, and makes the next one pass through again. */
static void __attribute__((noreturn)) writes(void) {
    handle(SIGUSR1, to_b, SA_RESTART);
    if (ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(4);
    while (!*enough) {
        nap(EACH_US);
        sends(A[1], sent);
        nap(EACH_US);
        asm volatile("int3" : : : "memory");
        sends(A[1], sent);
    }
    _exit(0);
}
static pid_t reads(int *p, int i) {
    pid_t c = child();
    if (c) return c;
    uint64_t at = 0;
    char b;
    close(A[1]);
    close(B[1]);
    for (; read(p[0], &b, 1) == 1; at++) verify(&b, 1, at);
    IS(at, sent[i]);
    _exit(0);
}
/* What a call says of itself. */
struct call {
    unsigned long rip, above, kept[KEPT];
    uint32_t words[KEPT][WORDS];
};
static pid_t W;
static struct user_regs_struct regs;
/* It stands after its int3 or after one instruction; otherwise it is gone. */
static int stops(int request, int sig) {
    int s;
    CHECK(!ptrace(request, W, 0, (long)sig), "the traced process does not go on");
    IS(waitpid(W, &s, 0), W);
    if (WIFEXITED(s)) return 0;
    CHECK(WIFSTOPPED(s) && WSTOPSIG(s) == SIGTRAP, "the traced process has status 0x%x", s);
    CHECK(!ptrace(PTRACE_GETREGS, W, 0, &regs), "no registers");
    return 1;
}
static long peek(unsigned long at) { /* 0 where there is nothing */
    errno = 0;
    long v = ptrace(PTRACE_PEEKDATA, W, at, 0);
    return errno ? 0 : v;
}
static int is_at_its_call(void) {
    return regs.rax == SYS_write && regs.rdi == (unsigned)A[1] && (peek(regs.rip) & 0xffff) == 0x050f;
}
static void words(struct call *c) {
    for (int r = 0; r < KEPT; r++)
        for (int i = 0; i < WORDS; i++) c->words[r][i] = peek(c->kept[r] + 4 * i);
}
static void look(struct call *c) {
    *c = (struct call){regs.rip, peek(regs.rsp), {regs.rbx, regs.rbp, regs.r12, regs.r13, regs.r14, regs.r15}};
    words(c);
}
/* From the int3 to the call, with a signal after k instructions. It made the call before; it stands there; it goes the
 * long way, which nobody need step through. */
enum { BEFORE, THERE, ELSEWHERE };
static int steps_to_its_call(int k) {
    CHECK(stops(PTRACE_CONT, 0), "the traced process is gone");
    for (int n = 0; n < k + LONG_WAY; n++) {
        if (n != k && is_at_its_call()) return n > k ? THERE : BEFORE;
        if (n == k) CHECK(stops(PTRACE_CONT, SIGUSR1), "the traced process is gone");
        CHECK(stops(PTRACE_SINGLESTEP, 0), "the traced process is gone");
    }
    return ELSEWHERE;
}
/* A word that was something in the call and is 0 after it; not of the stack, where a program keeps what it likes. */
static int same[KEPT], at_register, at_word;
static int finds_a_word(const struct call *in, const struct call *after) {
    for (int r = 0; r < KEPT; r++) {
        long from_stack = in->kept[r] - regs.rsp;
        if (in->kept[r] < 4096 || labs(from_stack) < 1 << 20) continue;
        for (int w = 0; w < WORDS; w++)
            if (in->words[r][w] && !after->words[r][w]) {
                at_register = r;
                at_word = w;
                return 1;
            }
    }
    return 0;
}
/* Without a handler: what is the same from one write to the next. The kernel's own has no such word. */
static int finds_what_it_announces(struct call *c) {
    struct call was = {0}, after;
    for (int i = 0; i < TRIES; i++, was = *c) {
        if (steps_to_its_call(-1) != THERE) continue;
        look(c);
        after = *c;
        for (int n = 0; n < AFTER; n++) stops(PTRACE_SINGLESTEP, 0);
        words(&after);
        for (int r = 0; r < KEPT; r++) same[r] = c->kept[r] == was.kept[r];
        if (finds_a_word(c, &after) && c->rip == was.rip && c->above == was.above && same[at_register] &&
            c->words[at_register][at_word] == was.words[at_register][at_word])
            return 1;
    }
    return 0;
}
/* A signal after k instructions, and then a pass-through write all the same. */
static int is_quiet(int is, const struct call *clean, struct call *now) {
    if (is != THERE) return 0;
    look(now);
    return now->rip == clean->rip && now->above == clean->above;
}
static void a_handler_at_each_instruction(void) {
    struct call clean = {0}, now;
    int k = 0, passing = 0, before = 0, is;
    hush(A);
    hush(B);
    sent = shared(2 * sizeof *sent);
    enough = shared(sizeof *enough);
    pid_t a = reads(A, 0), b = reads(B, 1);
    W = child();
    if (!W) writes();
    close(A[1]);
    close(B[1]);
    int s;
    IS(waitpid(W, &s, 0), W);
    if (WIFEXITED(s) && WEXITSTATUS(s) == 4) {
        dprintf(1, "skip: nothing is traced here\n");
        _exit(0);
    }
    CHECK(WIFSTOPPED(s) && WSTOPSIG(s) == SIGTRAP, "the traced process has status 0x%x", s);
    int known = finds_what_it_announces(&clean);
    /* Until B passes through too: its write takes A's place, and the next to A goes the long way. */
    while (known && before < TRIES) {
        before++;
        if (!is_quiet(steps_to_its_call(0), &clean, &now)) break;
    }
    for (; k < FAR && (is = steps_to_its_call(k)) != BEFORE; k++) {
        if (!known || !is_quiet(is, &clean, &now)) continue;
        passing++;
        uint32_t says = now.words[at_register][at_word], said = clean.words[at_register][at_word];
        CHECK(says == said, "a handler wrote to B at instruction %d of a write to A, which then announced %x, not %x", k,
              says, said);
        for (int r = 0; r < KEPT; r++)
            CHECK(!same[r] || now.kept[r] == clean.kept[r],
                  "a handler wrote to B at instruction %d of a write to A, which then had %lx in register %d, not %lx",
                  k, now.kept[r], r, clean.kept[r]);
    }
    CHECK(k > 1 && k < FAR, "a write of %d instructions", k);
    *enough = 1;
    while (stops(PTRACE_CONT, 0));
    REAP0(a);
    REAP0(b);
    IS(sent[1], before + k);
    dprintf(1, "%s: %d instructions, %d calls made quietly\n", case_name, k, passing);
}
static void over_a_write(void) { a_handler_at_each_instruction(); }
static void over_a_write_by_a_bridge(void) {
    by_bridge = 1;
    a_handler_at_each_instruction();
}
MAIN(T(over_a_write), T(over_a_write_by_a_bridge))
