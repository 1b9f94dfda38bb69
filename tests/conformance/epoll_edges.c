/* Checks: sleepers by edge: a reader that leaves bytes unread is told of each write that comes later, one that has read all
 * sleeps, a writer without room is told of room. Does not check: what a call tells that does not sleep (epoll_rules.c). */
#include "check.h"
#include "epoll_calls.h"
#include <sys/eventfd.h>
static volatile size_t *S;
/* Reads `part` of each message, or less, and sleeps. The other process writes one whenever this one sleeps. */
static void parts(size_t size, size_t part, int rounds) {
    int p[2];
    mkpipe(p);
    S = shared(4096);
    pid_t c = child();
    if (!c) {
        int e = set_of(p[0], EPOLLIN | EPOLLET);
        for (size_t i = 0, at = 0; i < (size_t)rounds; i++) {
            /* LINUX pipe_write: a write of several pages may be told while it goes on, and again. */
            while (S[0] * size < (i + 1) * size) IS(told(i % CALLS, e, 15000), EPOLLIN);
            get(p[0], part, at);
            at += part;
            S[1] = i + 1;
        }
        _exit(0);
    }
    for (int i = 0; i < rounds; i++) {
        if (i % 2) wait_asleep(c);
        S[0] = i + 1;
        put(p[1], size, i * size);
        UNTIL(S[1] == (size_t)i + 1);
    }
    REAP0(c);
    get(p[0], rounds * (size - part), rounds * part);
    for (int i = 3; i < 6; i++) close(i);
}
static void some_left(void) {
    parts(100, 40, 30);
    parts(1, 1, 30);
    if (holds() >= 65536) parts(3000, 1000, 15);
}
/* Told once, all read: it sleeps until the next one, also beside other descriptors, and the end is told once. */
static void all_read(void) {
    int p[2], e = set(), t = eventfd(0, EFD_NONBLOCK), some = 0;
    size_t at = 0;
    mkpipe(p);
    add(e, p[0], EPOLLIN | EPOLLET | EPOLLRDHUP, 7);
    add(e, t, EPOLLIN | EPOLLET, 8);
    struct epoll_event v[4];
    for (int i = 0; i < 60; i++) {
        size_t n = 1 + i % 5 * 700;
        uint64_t one = 1;
        if (i % 3) IS(write(t, &one, 8), 8);
        put(p[1], n, at);
        IS(waits(i % CALLS, e, v, 4, -1, 0), i % 3 ? 2 : 1);
        if (i % 2) get(p[0], n, at), at += n, n = 0;
        IS(waits(i % CALLS, e, v, 4, 0, 0), 0);
        get(p[0], n, at);
        at += n;
        IS(waits(i % CALLS, e, v, 4, i % 10 ? 0 : 2, 0), 0);
    }
    put(p[1], 10, at);
    close(p[1]);
    IS(told(WAIT, e, -1), EPOLLIN | EPOLLHUP);
    IS(told(WAIT, e, 0), 0);
    get(p[0], 10, at);
    AT_EOF(p[0]);
    IS(told(WAIT, e, 1), 0);
}
/* A writer by edge that was told EAGAIN sleeps; what is read makes room, and it is told. */
static void room(void) {
    enum { ALL = 2 << 20 };
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        close(p[0]);
        int e = set_of(p[1], EPOLLOUT | EPOLLET);
        size_t at = 0;
        IS(told(WAIT, e, -1), EPOLLOUT);
        while (at < ALL) {
            at += fill_up(p[1], at);
            IS(told(at % CALLS, e, 15000) & EPOLLOUT, EPOLLOUT);
        }
        _exit(0);
    }
    close(p[1]);
    size_t at = 0, n;
    static char b[100000];
    for (int i = 0; at < ALL; i++) {
        if (i % 4 == 0) wait_asleep(c);
        n = read(p[0], b, i % 3 ? sizeof b : 3000);
        verify(b, n, at);
        at += n;
    }
    while ((n = read(p[0], b, sizeof b))) {
        verify(b, n, at);
        at += n;
        sleep_ms(1); /* it is to find the pipe full once more, and then it ends */
    }
    REAP0(c);
}
MAIN(T(some_left), T(all_read), T(room))
