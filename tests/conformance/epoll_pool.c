/* Checks: threads that share one set: pools that wait in it at the same time, one that waits while others read, one-shots
 * that another thread arms or reads. Contents, exactly one event for one arming, no lost event. Does not check: processes in
 * one set (epoll_wait.c), workers on one pipe (epoll_stream.c). */
#include "check.h"
#include "epoll_calls.h"
#include <sys/eventfd.h>
enum { THREADS = 4, PIPES = 100, STOP = 1 << 20 };
static struct one {
    int r, w, busy, ended;
    size_t at;
    pthread_mutex_t lock;
} all[PIPES];
static int the_set, stop, open_pipes, drains;
static uint32_t the_way;
static unsigned rnd_of(unsigned *s) { return rand_r(s) >> 4; }
/* A process that writes to all pipes: `rounds` messages, many short and some long, now and then with a pause. */
static pid_t writer(int pipes, int rounds, size_t longest, int pauses) {
    pid_t c = child();
    if (c) {
        for (int i = 0; i < pipes; i++) close(all[i].w);
        return c;
    }
    static size_t at[PIPES];
    static char b[1 << 17];
    unsigned s = 5;
    for (int i = 0; i < pipes; i++) close(all[i].r);
    for (int n = 0; n < rounds; n++) {
        int i = n % 3 ? rnd_of(&s) % 5 % pipes : rnd_of(&s) % pipes;
        size_t k = 1 + rnd_of(&s) % (n % 4 ? 300 : longest);
        fill(b, k, at[i]);
        write_all(all[i].w, b, k);
        at[i] += k;
        if (pauses && n % pauses == 0) usleep(rnd_of(&s) % 300);
    }
    _exit(0);
}
static void begin(int pipes, uint32_t way, int drain) {
    the_set = set();
    the_way = way;
    drains = drain;
    open_pipes = pipes;
    stop = eventfd(0, EFD_NONBLOCK);
    add(the_set, stop, EPOLLIN, STOP);
    for (int i = 0; i < pipes; i++) {
        int p[2];
        if (i % 10)
            CHECK(!pipe(p), "pipe");
        else
            mkpipe(p);
        all[i] = (struct one){.r = p[0], .w = p[1], .lock = PTHREAD_MUTEX_INITIALIZER};
        setfl(p[0], O_NONBLOCK, 0);
        add(the_set, p[0], way, i);
    }
}
/* Takes what pipe `i` has, as its event wants it. */
static void handles(int i, char *b, size_t most) {
    struct one *o = &all[i];
    int once = (the_way & EPOLLONESHOT) != 0;
    if (once) CHECK(!__sync_lock_test_and_set(&o->busy, 1), "pipe %d: two events for one arming", i);
    if (!once) pthread_mutex_lock(&o->lock);
    ssize_t k;
    do {
        k = o->ended ? -1 : read(o->r, b, most);
        if (o->ended) errno = EAGAIN;
        CHECK(k >= 0 || (errno == EAGAIN && (!once || drains)), "pipe %d: read failed", i);
        if (k > 0) verify(b, k, o->at);
        if (k > 0) o->at += k;
    } while (k > 0 && drains);
    int last = 0;
    if (!k) {
        o->ended = 1;
        del(the_set, o->r);
        last = !__sync_sub_and_fetch(&open_pipes, 1);
    }
    if (once) __sync_lock_release(&o->busy);
    if (once && k) mod(the_set, o->r, the_way, i);
    if (!once) pthread_mutex_unlock(&o->lock);
    uint64_t x = 1;
    if (last) IS(write(stop, &x, 8), 8);
}
static void *pools(void *how) {
    static __thread char b[20000];
    int n = (int)(intptr_t)how;
    for (;; n++) {
        struct epoll_event v[8];
        int k = waits(n % CALLS, the_set, v, 1 + n % 8, 15000, 0);
        CHECK(k > 0, "an event was lost, %d pipes are open", open_pipes);
        for (int j = 0; j < k; j++) {
            if (v[j].data.u64 == STOP) return 0;
            handles(v[j].data.u64, b, 500 + n % 5 * 4875);
        }
    }
}
static void runs(void *(*does)(void *), int pipes, uint32_t way, int drain, int rounds, size_t longest, int pauses) {
    pthread_t t[THREADS];
    begin(pipes, way, drain);
    pid_t c = writer(pipes, rounds, longest, pauses);
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], 0, does, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], 0);
    REAP0(c);
    for (int i = 0; i < pipes; i++) close(all[i].r);
    close(stop);
    close(the_set);
}
/* Each thread waits for itself. By level without a read until EAGAIN too. */
static void a_pool(void) {
    for (int pauses = 0; pauses < 20; pauses += 19) {
        runs(pools, PIPES, EPOLLIN, 1, 1500, 30000, pauses);
        runs(pools, PIPES, EPOLLIN | EPOLLET, 1, 1500, 30000, pauses);
        runs(pools, PIPES, EPOLLIN | EPOLLONESHOT, 1, 1500, 30000, pauses);
        runs(pools, PIPES, EPOLLIN | EPOLLET | EPOLLONESHOT, 0, 1500, 30000, pauses);
    }
}
static void a_pool_of_few_pipes(void) {
    for (int drain = 0; drain < 2; drain++) {
        runs(pools, 3, EPOLLIN | EPOLLONESHOT, drain, 1000, 50000, 0);
        runs(pools, 3, EPOLLIN | EPOLLONESHOT, drain, 300, 5000, 3);
    }
    runs(pools, 3, EPOLLIN | EPOLLET, 1, 700, 50000, 0);
    runs(pools, 3, EPOLLIN, 0, 700, 50000, 0);
}
/* As Boost.Asio, tokio and .NET: one thread at a time waits, by edge, and whoever is free takes what it was told of. */
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_more = PTHREAD_COND_INITIALIZER;
static int queue[1 << 16], first, after, waits_now, over;
static void *reactors(void *how) {
    static __thread char b[20000];
    struct epoll_event v[16];
    pthread_mutex_lock(&queue_lock);
    for (int n = 0; !over; n++) {
        if (first != after) {
            int i = queue[first++ % (1 << 16)];
            pthread_mutex_unlock(&queue_lock);
            handles(i, b, sizeof b);
            pthread_mutex_lock(&queue_lock);
        } else if (!waits_now) {
            waits_now = 1;
            pthread_mutex_unlock(&queue_lock);
            int k = waits(n % CALLS, the_set, v, 16, 15000, 0);
            CHECK(k > 0, "an event was lost, %d pipes are open", open_pipes);
            pthread_mutex_lock(&queue_lock);
            for (int j = 0; j < k; j++) {
                over |= v[j].data.u64 == STOP;
                if (v[j].data.u64 != STOP) queue[after++ % (1 << 16)] = v[j].data.u64;
            }
            waits_now = 0;
            pthread_cond_broadcast(&queue_more);
        } else
            pthread_cond_wait(&queue_more, &queue_lock);
    }
    pthread_cond_broadcast(&queue_more);
    pthread_mutex_unlock(&queue_lock);
    return 0;
}
static void one_waits_and_all_read(void) {
    static const uint32_t WAYS[] = {EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT};
    for (int w = 0; w < 2; w++) for (int pauses = 0; pauses < 20; pauses += 19) {
        first = after = waits_now = over = 0;
        runs(reactors, PIPES, WAYS[w], 1, 1500, 30000, pauses);
        first = after = waits_now = over = 0;
        runs(reactors, 3, WAYS[w], 1, 700, 50000, pauses);
    }
}
/* Sleepers in one set, and one-shots that this thread arms: one event for each arming, whatever comes meanwhile. */
static volatile int told_n, told_data, told_events;
static void *tells(void *how) {
    for (;;) {
        struct epoll_event v[2];
        int k = waits((int)(intptr_t)how % CALLS, the_set, v, 1, -1, 0);
        IS(k, 1);
        if (v[0].data.u64 == STOP) return 0;
        told_data = v[0].data.u64;
        told_events = v[0].events;
        __sync_fetch_and_add(&told_n, 1);
    }
}
static void armed_by_another(void) {
    for (int edge = 0; edge < 2; edge++) {
        pthread_t t[THREADS];
        struct one *o = all;
        begin(2, EPOLLIN | EPOLLONESHOT | (edge ? EPOLLET : 0), 0);
        for (int i = 0; i < THREADS; i++) pthread_create(&t[i], 0, tells, (void *)(intptr_t)i);
        size_t at = 0;
        told_n = 0;
        for (int i = 0; i < 60; i++) {
            size_t n = 1 + i % 5 * 1500;
            if (i % 3) usleep(500);
            put(o->w, n, at);
            UNTIL(told_n == 2 * i + 1);
            IS(told_events, EPOLLIN);
            put(o->w, 10, at + n);
            if (i % 4 == 0) get(o->r, n, at);
            usleep(i % 2 ? 1000 : 0);
            IS(told_n, 2 * i + 1);
            mod(the_set, o->r, the_way, i); /* there is something: told at once */
            UNTIL(told_n == 2 * i + 2);
            IS(told_data, i);
            get(o->r, i % 4 ? n + 10 : 10, i % 4 ? at : at + n);
            at += n + 10;
            usleep(i % 5 ? 0 : 1000);
            IS(told_n, 2 * i + 2);
            mod(the_set, o->r, the_way, i);
        }
        put(o->w, 10, at);
        UNTIL(told_n == 121);
        close(o->w);
        usleep(3000);
        IS(told_n, 121); /* nor is the end told */
        mod(the_set, o->r, the_way, 0);
        UNTIL(told_n == 122);
        IS(told_events, EPOLLIN | EPOLLHUP);
        mod(the_set, stop, EPOLLIN, STOP);
        uint64_t x = 1;
        IS(write(stop, &x, 8), 8);
        for (int i = 0; i < THREADS; i++) pthread_join(t[i], 0);
        for (int i = 3; i < 12; i++) close(i);
    }
}
/* A one-shot that is armed anew at any moment, with an event under way or not, and read at any moment by a third thread: no byte
 * stays unread. `way`: 0 MOD, 1 DEL and ADD, 2 reads, 3 all. */
static volatile int done;
static int meddles_by;
static void *meddles(void *how) {
    static char b[3000];
    unsigned s = 9;
    struct one *o = all;
    while (!done) {
        int k = meddles_by < 3 ? meddles_by : rnd_of(&s) % 3;
        pthread_mutex_lock(&o->lock);
        if (k == 0) mod(the_set, o->r, the_way, 0);
        if (k == 1) {
            del(the_set, o->r);
            add(the_set, o->r, the_way, 0);
        }
        ssize_t n = k == 2 ? read(o->r, b, 1 + rnd_of(&s) % sizeof b) : -1;
        if (n > 0) verify(b, n, o->at);
        if (n > 0) o->at += n;
        pthread_mutex_unlock(&o->lock);
        usleep(rnd_of(&s) % 150);
    }
    return 0;
}
static void *takes_part(void *total) {
    static __thread char b[5000];
    struct one *o = all;
    for (int n = 0;; n++) {
        struct epoll_event v;
        int k = waits(n % CALLS, the_set, &v, 1, 15000, 0);
        CHECK(k == 1, "an event was lost at %zu", o->at);
        if (v.data.u64 == STOP) return 0;
        pthread_mutex_lock(&o->lock);
        ssize_t g;
        while ((g = read(o->r, b, 1 + n % 5 * 1249)) > 0) {
            verify(b, g, o->at);
            o->at += g;
            if (n % 3 == 0) break;
        }
        mod(the_set, o->r, the_way, 0);
        pthread_mutex_unlock(&o->lock);
        uint64_t x = 1;
        if (!g) IS(write(stop, &x, 8), 8);
    }
}
static void armed_at_any_moment(void) {
    for (meddles_by = 0; meddles_by < 4; meddles_by++) for (int waiters = 1; waiters < 4; waiters += 2) {
        pthread_t t[3], m;
        begin(1, EPOLLIN | EPOLLONESHOT, 0);
        done = 0;
        pid_t c = writer(1, 800, 5000, 2);
        for (int i = 0; i < waiters; i++) pthread_create(&t[i], 0, takes_part, 0);
        pthread_create(&m, 0, meddles, 0);
        for (int i = 0; i < waiters; i++) pthread_join(t[i], 0);
        done = 1;
        pthread_join(m, 0);
        REAP0(c);
        AT_EOF(all[0].r);
        for (int i = 3; i < 8; i++) close(i);
    }
}
/* Room is told once for each arming too, to one of several threads. */
static void room(void) {
    int p[2];
    mkpipe(p);
    pthread_t t[THREADS];
    begin(0, 0, 0);
    uint32_t once = EPOLLOUT | EPOLLONESHOT;
    add(the_set, p[1], once, 1);
    told_n = 0;
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], 0, tells, (void *)(intptr_t)i);
    UNTIL(told_n == 1);
    for (int i = 0; i < 20; i++) {
        size_t n = fill_up(p[1], 0);
        usleep(300);
        mod(the_set, p[1], once, 1);
        usleep(300);
        IS(told_n, i + 1);
        get(p[0], n, 0);
        UNTIL(told_n == i + 2);
        put(p[1], 10, 0);
        get(p[0], 10, 0);
        IS(told_n, i + 2);
    }
    uint64_t x = 1;
    IS(write(stop, &x, 8), 8);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], 0);
}
MAIN(T(a_pool), T(a_pool_of_few_pipes), T(one_waits_and_all_read), T(armed_by_another), T(armed_at_any_moment), T(room))
