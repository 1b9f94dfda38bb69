/* Checks: two processes use a connection in both directions, and one of them is SIGKILLed at any moment. The survivor reads all
 * that the dead had written completely, perhaps more of its stream, and nothing else; its own writes end with EPIPE or
 * ECONNRESET.
 *   unix_kill [CASE[/MODE]] [KILLS [SEED]]      KILLS (200) are shared by the modes; of one mode named, it has them all
 * Does not check: stops, both killed. */
#define MODES "pair", "path", "abstract", "tcp", "tcp6", "seq-pair"
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
static int rounds = 200, young;
static void one_round(int i) {
    static const long sizes[] = {100, 4096, 10000, 60000};
    struct tally *dead;
    uint64_t came;
    here = links;
    /* A small one leaves bytes under way. */
    receive_buffer = i % 3 ? 0 : 16384;
    if (young)
        joins(1);
    else
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
    /* TCP resets a connection that is left with bytes unread, and those under way are lost. */
    CHECK(is_tcp() || came >= dead->done, "round %d: %llu bytes were written, and %llu came", i, (unsigned long long)dead->done,
          (unsigned long long)came);
    CHECK(came <= dead->begun, "round %d: %llu bytes were begun, and %llu came", i, (unsigned long long)dead->begun,
          (unsigned long long)came);
}
static void kills(void) {
    tallies = shared(4096);
    for (int i = 0; i < rounds; i++) {
        alarm(20);
        one_round(i);
    }
}
/* The same of connections that have carried nothing yet: some die while the two ends find each other. */
static void kills_young(void) {
    young = 1;
    kills();
}
/* Two processes write records by one end, and one of them is killed; the reader waits by epoll, by edge. Every record comes that
 * was written, whole and in its writer's order. */
struct record {
    uint32_t by, number;
    char more[248];
};
static long reads_by_edge(long none) {
    int e = epoll_create1(0);
    uint64_t *seen = (uint64_t *)(tallies + 4);
    struct epoll_event v = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
    IS(epoll_ctl(e, EPOLL_CTL_ADD, here->fd, &v), 0);
    no_delay(0);
    for (;;) {
        struct record r;
        ssize_t k = recv(here->fd, &r, sizeof r, MSG_DONTWAIT);
        if (!k) return 0;
        if (k < 0) {
            IS(errno, EAGAIN);
            IS(epoll_wait(e, &v, 1, -1), 1);
            continue;
        }
        CHECK(k == sizeof r && r.by < 2 && r.number == seen[r.by], "record %u of %u came after %lu", r.number, r.by, seen[r.by]);
        same(r.more, sizeof r.more, r.number);
        seen[r.by]++;
    }
}
static void one_of_two_writers(void) {
    tallies = shared(4096);
    uint64_t *seen = (uint64_t *)(tallies + 4), *done = seen + 2;
    for (int i = 0; i < rounds / 10 + 1; i++) {
        pid_t c[2];
        volatile int *stop = (volatile int *)(seen + 4);
        alarm(20);
        memset(seen, 0, 64);
        here = links;
        meet();
        for (int by = 0; by < 2; by++)
            if (!(c[by] = child())) {
                struct record r = {.by = by};
                for (; !*stop; r.number++) {
                    memcpy(r.more, at(r.number), sizeof r.more);
                    IS(write(here->fd, &r, sizeof r), sizeof r);
                    done[by]++;
                    if (r.number % 50 == 49) usleep(100); /* the reader falls asleep now and then */
                }
                _exit(0);
            }
        close(here->fd);
        ask(reads_by_edge, 0);
        usleep(next() % 3000);
        int victim = next() % 2;
        kill(c[victim], SIGKILL);
        reap(c[victim]);
        uint64_t before = done[!victim];
        UNTIL(*(volatile uint64_t *)(done + !victim) > before + 200); /* the other goes on */
        *stop = 1;
        REAP0(c[!victim]);
        answer();
        IS(seen[!victim], done[!victim]);
        CHECK(seen[victim] == done[victim] || seen[victim] == done[victim] + 1, "the dead wrote %lu, and %lu came", done[victim],
              seen[victim]);
        kill_peer();
    }
}
int main(int c, char **v) {
    static const struct test t[] = {T(kills), T(kills_young), T(one_of_two_writers), {0}};
    const char *only = c > 1 && !atoi(v[1]) ? v[1] : 0;
    int i = only ? 2 : 1;
    if (c > i && atoi(v[i]) > 0) rounds = atoi(v[i]);
    if (c > i + 1 && atoi(v[i + 1]) > 0) seed = atoi(v[i + 1]);
    if (!only || !strchr(only, '/')) rounds /= MODE_COUNT;
    sea_init();
    return run_all(t, only);
}
