/* Checks: a handler that writes to the pipe that its thread is writing to, at instructions of that write from its first
 * to its last (each run at others, for steps take long), and waits until the reader has had what it wrote: each record
 * arrives once, each stream's in its order. Whatever the write has looked at before is old when it goes on: the stream
 * has gone on, and the pipe is empty. With a reader that is awake, one asleep in its read, and a full pipe, on which
 * the write sleeps, or the handler's.
 * Does not check: a write that passes through (pass_through_step.c), longer ones (signal.c). */
#include "check.h"
#include <sys/ptrace.h>
enum { NAP_US = 100, FAR = 20000, PLACES = 200, BEFORE = 50, BLOCKED_MS = 50 };
enum how { AWAKE, ASLEEP, FULL };
struct record {
    uint32_t stream, number;
    char pad[56];
};
static int P[2];
static enum how how;
/* Written so far, by stream. The reader reads until it has `asked` records of the handler's; it has had `seen`. */
static volatile struct { uint32_t next[2], asked, seen, enough; } *s;
static void nap(void) {
    struct timespec t = {0, NAP_US * 1000};
    nanosleep(&t, 0);
}
static ssize_t sends(int stream) {
    struct record r = {stream, s->next[stream], {0}};
    ssize_t n = write(P[1], &r, sizeof r);
    if (n == sizeof r) s->next[stream]++;
    return n;
}
/* It stops at its end, so that nobody need step through it. */
static void h_sends(int sig) {
    int e = errno;
    if (how == FULL) s->asked++;
    if (sends(1) != sizeof(struct record)) _exit(3);
    if (how == AWAKE) s->asked++;
    while (s->seen != s->asked) sched_yield();
    errno = e;
    asm volatile("int3" : : : "memory");
}
static void sends_all(int n) {
    for (int i = 0; i < n; i++) IS(sends(0), sizeof(struct record));
}
/* The traced one. */
static void __attribute__((noreturn)) writes(void) {
    close(P[0]);
    handle(SIGUSR1, h_sends, SA_RESTART);
    sends_all(32);
    if (ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(4);
    while (!s->enough) {
        if (how == ASLEEP) {
            /* One that wakes nobody; the reader has it, and comes back for more. */
            sends_all(1);
            s->asked++;
            nap();
        }
        if (how == FULL) {
            setfl(P[1], O_NONBLOCK, 0);
            while (sends(0) == sizeof(struct record));
            IS(errno, EAGAIN);
            setfl(P[1], 0, O_NONBLOCK);
        }
        asm volatile("int3" : : : "memory");
        sends_all(1);
        asm volatile("int3" : : : "memory");
    }
    _exit(0);
}
static void __attribute__((noreturn)) reads(void) {
    struct record r;
    uint32_t due[2] = {0};
    close(P[1]);
    for (;;) {
        while (s->seen == s->asked && !s->enough) nap();
        ssize_t n = read(P[0], &r, sizeof r);
        if (!n) break;
        IS(n, sizeof r);
        CHECK(r.stream < 2 && r.number == due[r.stream], "stream %u: %u came where %u was due", r.stream, r.number,
              due[r.stream & 1]);
        due[r.stream]++;
        if (r.stream) s->seen++;
    }
    IS(due[0], s->next[0]);
    IS(due[1], s->next[1]);
    _exit(0);
}
static pid_t W;
/* A step, or the way to the next int3: it stands there, sleeps in its call, or is gone. */
enum { STANDS, SLEEPS, GONE };
static int stops(int request, int sig) {
    int status, r;
    double end = now() + BLOCKED_MS * 1e-3;
    do {
        CHECK(!ptrace(request, W, 0, (long)sig), "the traced process does not go on");
        while (!(r = waitpid(W, &status, request == PTRACE_SINGLESTEP ? WNOHANG : 0))) {
            if (now() > end) return SLEEPS;
        }
        IS(r, W);
        if (WIFEXITED(status)) return GONE;
        CHECK(WIFSTOPPED(status), "the traced process has status 0x%x", status);
        sig = WSTOPSIG(status);
        CHECK(sig == SIGTRAP || sig == SIGUSR1, "the traced process got signal %d", sig);
    } while (sig != SIGTRAP); /* LINUX ptrace(2): a signal that was blocked comes again when it is not. */
    return STANDS;
}
/* The handler comes over the call in which it sleeps, or after it if it has just ended; to the handler's end. */
static void wakes(void) {
    int status;
    uint32_t was = s->next[1];
    kill(W, SIGUSR1);
    IS(waitpid(W, &status, 0), W);
    CHECK(WIFSTOPPED(status), "the traced process has status 0x%x", status);
    int sig = WSTOPSIG(status);
    do IS(stops(PTRACE_CONT, sig == SIGTRAP ? 0 : sig), STANDS);
    while (s->next[1] == was);
}
/* From one int3 to the next, with a signal after k instructions, or at the end of the write. How many there were, if less, or if it
 * slept then; else 0. */
static int steps(int k) {
    int is = STANDS, n = 0;
    uint32_t number = s->next[0];
    while (n < k && is == STANDS && s->next[0] == number) {
        is = stops(PTRACE_SINGLESTEP, 0);
        n++;
    }
    int ended = is == SLEEPS || s->next[0] != number;
    if (is == SLEEPS) wakes();
    else IS(stops(PTRACE_CONT, SIGUSR1), STANDS);
    IS(stops(PTRACE_CONT, 0), STANDS);
    return ended ? n : 0;
}
static void a_handler_at_each_instruction(enum how h) {
    int k, end, every, status;
    alarm(60); /* steps take long where others run */
    how = h;
    mkpipe(P);
    s = shared(sizeof *s);
    pid_t r = child();
    if (!r) reads();
    W = child();
    if (!W) writes();
    close(P[0]);
    close(P[1]);
    IS(waitpid(W, &status, 0), W);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 4) {
        dprintf(1, "skip: nothing is traced here\n");
        _exit(0);
    }
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP, "the traced process has status 0x%x", status);
    for (k = 0; k < BEFORE; k++) {
        steps(0);
        IS(stops(PTRACE_CONT, 0), STANDS);
    }
    end = steps(FAR);
    CHECK(end > 1, "a write of %d instructions, or more than %d", end, FAR);
    every = end / PLACES + 1;
    for (k = getpid() % every;; k += every) {
        IS(stops(PTRACE_CONT, 0), STANDS);
        if (steps(k)) break;
    }
    s->enough = 1;
    while (stops(PTRACE_CONT, 0) != GONE);
    REAP0(r);
    dprintf(1, "%s: at each %d of %d instructions\n", case_name, every, end);
}
static void reader_awake(void) { a_handler_at_each_instruction(AWAKE); }
static void reader_asleep(void) { a_handler_at_each_instruction(ASLEEP); }
static void pipe_full(void) { a_handler_at_each_instruction(FULL); }
MAIN(ONCE(reader_awake), ONCE(reader_asleep), ONCE(pipe_full))
