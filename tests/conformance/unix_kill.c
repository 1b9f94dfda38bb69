/* Checks: N rounds (argument, default 200) of two processes that write to and read from a hot UNIX connection in both directions;
 * one of them is SIGKILLed at any moment. The survivor reads all that the dead had written completely, perhaps more of its
 * stream, and nothing else; its own writes end with EPIPE or ECONNRESET. Does not check: stops, both killed. */
#define MODES "pair", "path", "abstract", "seq-pair"
#include "unix_calls.h"
/* What a process has written completely, and what it has begun. */
static struct tally {
    uint64_t done, begun;
} *tallies;
static unsigned seed = 12345;
static unsigned next(void) { return (seed = seed * 1103515245 + 12345) >> 12; }
static struct tally *mine;
static long longest;
static void *writes(void *none) {
    for (unsigned x = longest;;) {
        long n = 1 + (x = x * 1103515245 + 12345) / 65536 % longest;
        __atomic_store_n(&mine->begun, here->out + n, __ATOMIC_RELAXED);
        ssize_t k = send(here->fd, at(here->out), n, MSG_NOSIGNAL);
        if (k < 0) {
            CHECK(errno == EPIPE || errno == ECONNRESET, "a write to the dead");
            return 0;
        }
        here->out += k;
        __atomic_store_n(&mine->done, here->out, __ATOMIC_RELAXED);
        if (k < n) return 0;
    }
}
static void reads_to_the_end(int slowly) {
    static unsigned char b[70000];
    int resets = 0;
    for (;;) {
        ssize_t k = read(here->fd, b, type() == SOCK_STREAM && slowly ? 3000 : sizeof b);
        if (!k) return;
        if (k < 0) {
            CHECK(errno == ECONNRESET && !resets++, "one reset at most");
            continue;
        }
        same(b, k, here->in);
        here->in += k;
    }
}
static long runs(long side) {
    pthread_t t;
    mine = tallies + side;
    pthread_create(&t, 0, writes, 0);
    reads_to_the_end((int)side);
    pthread_join(t, 0);
    return here->in;
}
static long set_longest(long n) { return longest = n; }
static int rounds = 200;
static void one_round(int i) {
    static const long sizes[] = {100, 4096, 10000, 60000};
    struct tally *dead;
    uint64_t came;
    here = links;
    meet();
    set_longest(sizes[next() % 4]);
    tell(set_longest, longest);
    tallies[0] = (struct tally){here->out, here->out};
    tallies[1] = (struct tally){here->in, here->in};
    tallies[2].done = 0;
    pid_t c = child(); /* this side's process */
    if (!c) {
        tallies[2].done = runs(0);
        _exit(0);
    }
    close(here->fd);
    ask(runs, 1);
    usleep(next() % 3000);
    int victim = next() % 2;
    if (victim) {
        kill(peer, SIGKILL);
        reap(peer);
        peer = 0;
        REAP0(c);
        dead = tallies + 1;
        came = tallies[2].done;
    } else {
        kill(c, SIGKILL);
        reap(c);
        came = answer();
        dead = tallies;
        kill_peer();
    }
    CHECK(came >= dead->done, "round %d: %llu bytes were written, and %llu came", i, (unsigned long long)dead->done,
          (unsigned long long)came);
    CHECK(came <= dead->begun, "round %d: %llu bytes were begun, and %llu came", i, (unsigned long long)dead->begun,
          (unsigned long long)came);
}
static void kills(void) {
    tallies = shared(4096);
    for (int i = 0; i < rounds / MODE_COUNT; i++) {
        alarm(20);
        one_round(i);
    }
}
int main(int c, char **v) {
    if (c > 1 && atoi(v[1]) > 0) rounds = atoi(v[1]);
    static const struct test t[] = {T(kills), {0}};
    sea_init();
    return run_all(t, 0);
}
