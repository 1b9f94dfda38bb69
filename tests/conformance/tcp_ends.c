/* Checks: the ends of a hot TCP connection of this host: half-close, close, exit, SIGKILL, linger, with and without unread bytes; what
 * poll, read and write tell of each, and what comes of a stream that was cut.
 * Does not check: the same of UNIX sockets (unix_ends.c, unix_kill.c). */
#define MODES "tcp", "tcp6"
#include "unix_calls.h"
enum { WR, RDWR, CLOSE, KILL, EXIT, LINGER };
static void ends(int way) {
    switch (way) {
    case WR: TELL(shuts, SHUT_WR, 0); break;
    case RDWR: TELL(shuts, SHUT_RDWR, 0); break;
    case CLOSE: TELL(closes, 0, 0); break;
    case EXIT: peer_exits(); break;
    case KILL: kill_peer(); break;
    case LINGER: TELL(lingers, 0, 0); break;
    }
}
static ssize_t look(void) {
    char c;
    return recv(here->fd, &c, 1, MSG_DONTWAIT);
}
static ssize_t push(void) { return send(here->fd, "x", 1, MSG_NOSIGNAL); }
/* LINUX tcp(7), tcp_poll: one row of what is shown. theirs: bytes of the other's that are unread here; ours: unread there. */
static void row(int way, long theirs, long ours, int writes_first) {
    int reset = way == LINGER || (way >= CLOSE && ours);
    short want = POLLIN | POLLRDHUP | (reset ? POLLHUP | POLLERR : 0);
    meet();
    TELL(sends, theirs, 0);
    has_come(theirs);
    sends(ours);
    /* Bytes that come to an end which reads no more are a reset. */
    UNTIL(tell(finds, 0) == ours);
    ends(way);
    UNTIL((shows() & (want | POLLHUP)) == want);
    IS(unread(), theirs);
    if (reset && writes_first) {
        /* LINUX sk_stream_error: a call that is told of a reset makes no signal. */
        handle(SIGPIPE, SIG_DFL, 0);
        FAILS(write(here->fd, "x", 1), ECONNRESET);
        FAILS(push(), EPIPE);
    }
    takes(theirs);
    if (reset && !writes_first) FAILS(look(), ECONNRESET);
    IS(look(), 0);
    IS(option(here->fd, SO_ERROR), 0);
    if (way == WR) {
        TELL(takes, ours, 0);
        sends(HOT / 4);
        TELL(takes, HOT / 4, 0);
        return;
    }
    if (!reset) {
        /* The first write tells that nobody is there. */
        IS(push(), 1);
        UNTIL(shows() & POLLHUP);
    }
    FAILS(push(), EPIPE);
    FAILS(push(), EPIPE);
    IS(look(), 0);
}
static void rows(int way) {
    static const long sizes[][2] = {{0, 0}, {5, 0}, {0, 3}, {5, 3}, {60000, 0}, {0, 60000}, {60000, 60000}};
    for (int i = 0; i < 14; i++) {
        pid_t c = child();
        if (!c) {
            size_t n = strlen(case_name);
            const long *s = sizes[i / 2];
            snprintf(case_name + n, sizeof case_name - n, " (theirs %ld, ours %ld, writes first %d)", s[0], s[1], i % 2);
            row(way, s[0], s[1], i % 2);
            _exit(0);
        }
        REAP0(c);
    }
}
static void shuts_writing(void) { rows(WR); }
static void shuts_both(void) { rows(RDWR); }
static void closes_it(void) { rows(CLOSE); }
static void is_killed(void) { rows(KILL); }
static void exits_(void) { rows(EXIT); }
static void lingers_not(void) { rows(LINGER); }
/* The other end is killed with bytes unread, so what waits in its send queue is lost: nothing comes from behind the gap. */
static void is_cut(void) {
    static unsigned char b[HOT];
    ssize_t k;
    receive_buffer = 4096;
    joins(1);
    for (int i = 0; i < 60; i++) {
        TELL(sends, 1, 0);
        takes(1);
    }
    sends(3);
    shows();
    for (int i = 0; i < 200; i++) TELL(whole, 700, 700);
    kill_peer();
    UNTIL(shows() & POLLERR);
    while ((k = read(here->fd, b, sizeof b)) > 0) {
        same(b, k, here->in);
        here->in += k;
    }
    CHECK(k < 0 && errno == ECONNRESET, "a reset must be told, and read gave %zd", k);
    for (int i = 0; i < 3; i++) IS(read(here->fd, b, sizeof b), 0);
}
/* The other end is killed while a writer sleeps for room, or soon before: it is told of the reset, and gets no signal. */
static volatile int pipes;
static void on(int s) { pipes++; }
static long writes_on(long size) {
    while (write(here->fd, sea, size) > 0) continue;
    return -1;
}
static void resets_a_writer(void) {
    handle(SIGPIPE, on, 0);
    for (int i = 0; i < 36; i++) {
        static const long sizes[] = {1000, 30000, 100000};
        meet();
        sends(1);
        UNTIL(tell(finds, 0) == 1);
        struct sleeper *s = &sleepers[0];
        *s = (struct sleeper){.what = writes_on, .arg = sizes[i % 3]};
        IS(pthread_create(&s->thread, 0, sleeps, s), 0);
        usleep(i / 3 * 700);
        if (i > 30) still_asleep(0);
        kill_peer();
        IS(wakes(0), -1);
        IS(errno, ECONNRESET);
        IS(pipes, 0);
        FAILS(push(), EPIPE);
        IS(look(), 0);
    }
}
/* The other end is killed, and what it has sent is more than a UNIX socket takes. */
static void from_the_dead(int buffer) {
    enum { PIECES = 110, SIZE_OF = 1300 };
    char c;
    receive_buffer = buffer;
    joins(1);
    for (int i = 0; i < 60; i++) {
        TELL(sends, 1, 0);
        takes(1);
    }
    shows();
    for (int i = 0; i < PIECES; i++) TELL(whole, SIZE_OF, SIZE_OF);
    kill_peer();
    IS(recv(here->fd, &c, 1, MSG_PEEK), 1);
    takes(PIECES * SIZE_OF);
    IS(read(here->fd, &c, 1), 0);
}
static void much_of_the_dead(void) { from_the_dead(0); }
/* Of which most has not come yet, nor the end. */
static void late_from_the_dead(void) { from_the_dead(4096); }
/* LINUX tcp_poll: a reset is told by each poll that waits: by those that sleep, and by those that come later. */
static long polls(long what) { return events(here->fd, what, -1); }
static long in_a_set(long how) {
    struct epoll_event v = {.events = EPOLLIN | how};
    int e = epoll_create1(0);
    IS(epoll_ctl(e, EPOLL_CTL_ADD, here->fd, &v), 0);
    IS(epoll_wait(e, &v, 1, -1), 1);
    close(e);
    return v.events;
}
static void waits_tell_a_reset(void) {
    static const int ways[] = {CLOSE, KILL, EXIT, LINGER};
    static const short asked[] = {POLLIN, POLLRDHUP, POLLIN | POLLRDHUP};
    enum { RESET = POLLHUP | POLLERR };
    for (int i = 0; i < 4; i++) {
        meet();
        for (int k = 0; k < 3; k++) falls_asleep(k, polls, asked[k]);
        falls_asleep(3, in_a_set, 0);
        falls_asleep(4, in_a_set, EPOLLET);
        sends(3);
        UNTIL(tell(finds, 0) == 3);
        for (int k = 0; k < 5; k++) still_asleep(k);
        ends(ways[i]);
        for (int k = 0; k < 5; k++) IS(wakes(k), (k < 3 ? asked[k] : EPOLLIN) | RESET);
        for (int k = 0; k < 3; k++) {
            IS(polls(asked[k]), asked[k] | RESET);
            IS(events(here->fd, asked[k], 0), asked[k] | RESET);
        }
        FAILS(look(), ECONNRESET);
        IS(polls(POLLIN), POLLIN | POLLHUP);
        close(here->fd);
        kill_peer();
    }
}
UNIX_MAIN(T(shuts_writing), T(shuts_both), T(closes_it), T(is_killed), T(exits_), T(lingers_not), T(is_cut), T(much_of_the_dead),
          T(late_from_the_dead), T(resets_a_writer), T(waits_tell_a_reset))
