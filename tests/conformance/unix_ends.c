/* Checks: what poll, epoll, read, write and SO_ERROR tell at each kind of end of a hot UNIX stream or seqpacket connection: a
 * half-close of either side, a close, an exit, SIGKILL; with bytes unread there, here, or not; and which sleepers wake.
 * Does not check: ends at an exec or with the end passed on (unix_leave.c), random kills under load (unix_kill.c). */
#define MODES "pair", "path", "abstract", "seq-pair", "seq-path"
#include "unix_calls.h"
/* How the other side ends. For sleepers the last three are as a close. */
enum { WR, RD, RDWR, CLOSE, KILL, EXIT, LINGER, DUP2, WAYS, DISTINCT = EXIT };
static long dups_over(long none) {
    int n = open("/dev/null", O_RDONLY);
    IS(dup2(n, here->fd), here->fd);
    return close(n);
}
static void ends(int way) {
    switch (way) {
    case WR: TELL(shuts, SHUT_WR, 0); break;
    case RD: TELL(shuts, SHUT_RD, 0); break;
    case RDWR: TELL(shuts, SHUT_RDWR, 0); break;
    case CLOSE: TELL(closes, 0, 0); break;
    case EXIT: peer_exits(); break;
    case KILL: kill_peer(); break;
    case LINGER: TELL(lingers, 0, 0); break;
    case DUP2: TELL(dups_over, 0, 0); break;
    }
}
static int other;
static long dups(long none) { return (other = dup(here->fd)) > 0 ? 0 : -1; }
static long closes_other(long none) { return close(other); }
static long forks(long none) {
    pid_t c = child();
    if (!c) for (;;) pause();
    return c;
}
static long at_end(long none) {
    AT_EOF(here->fd);
    return 0;
}
static long reads_10(long none) {
    char b[10];
    return read(here->fd, b, 10);
}
static long writes_much(long n) { return write(here->fd, at(here->out), n); }
static int gone(int way) { return way >= CLOSE; }
static ssize_t look(void) {
    char c;
    return recv(here->fd, &c, 1, MSG_DONTWAIT);
}
static void writes_end(int first) { /* each write fails: the first so, the others with EPIPE */
    struct iovec v = {"xyz", 3};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    if (first == ECONNRESET)
        FAILS(send(here->fd, "xyz", 3, MSG_NOSIGNAL), ECONNRESET);
    FAILS(send(here->fd, "xyz", 3, MSG_NOSIGNAL), EPIPE);
    FAILS(write(here->fd, "x", 1), EPIPE);
    FAILS(writev(here->fd, &v, 1), EPIPE);
    FAILS(sendmsg(here->fd, &m, 0), EPIPE);
    FAILS(sendto(here->fd, "x", 1, MSG_DONTWAIT, 0, 0), EPIPE);
}
static void reads_end(int eof) {
    if (!eof) {
        FAILS(look(), EAGAIN);
        return;
    }
    IS(look(), 0);
    AT_EOF(here->fd);
    IS(unread(), 0);
}
static void writes_on(void) {
    sends(HOT / 4);
    TELL(takes, HOT / 4, 0);
}
static int epoll_shows(void) {
    int e = epoll_create1(0);
    struct epoll_event v = {.events = ALL | EPOLLET};
    IS(epoll_ctl(e, EPOLL_CTL_ADD, here->fd, &v), 0);
    v.events = 0;
    CHECK(epoll_wait(e, &v, 1, 0) >= 0, "epoll_wait");
    close(e);
    return v.events;
}
/* LINUX: unix(7), af_unix.c: one row of what is shown. theirs: bytes of the other's that are unread here; ours: unread there. */
static void row(int way, long theirs, long ours, int writes_first) {
    int reset = gone(way) && ours, packets = type() != SOCK_STREAM, eof = way != RD, broken = way != WR;
    short out = ours > 4096 && !reset && way == WR ? 0 : POLLOUT;
    short want = POLLOUT | POLLIN | POLLRDHUP | (gone(way) || way == RDWR ? POLLHUP : 0) | (reset ? POLLERR : 0);
    if (way == RD) want = POLLOUT | (theirs ? POLLIN : 0);
    meet();
    signal(SIGPIPE, SIG_IGN);
    TELL(sends, theirs, 0);
    sends(ours);
    ends(way);
    if (ours > 4096 && !gone(way)) want = (want & ~POLLOUT) | (shows() & POLLOUT);
    IS(shows(), want);
    IS(epoll_shows(), want);
    if (!packets) IS(unread(), theirs);
    if (writes_first && broken) writes_end(reset && packets ? ECONNRESET : 0);
    if (reset && packets && !writes_first) FAILS(look(), ECONNRESET);
    takes(theirs);
    if (reset && !packets) FAILS(look(), ECONNRESET);
    reads_end(eof);
    if (reset) want &= ~POLLERR;
    if (way == RD) want &= ~POLLIN;
    IS(shows() & ~POLLOUT, want & ~POLLOUT);
    IS(option(here->fd, SO_ERROR), 0);
    if (broken) writes_end(0);
    else if (!gone(way)) {
        TELL(takes, ours, 0);
        writes_on();
    }
    reads_end(eof);
}
static void in_a_child(int way, long theirs, long ours, int writes_first) {
    pid_t c = child();
    if (!c) {
        size_t n = strlen(case_name);
        snprintf(case_name + n, sizeof case_name - n, " (theirs %ld, ours %ld, writes first %d)", theirs, ours, writes_first);
        row(way, theirs, ours, writes_first);
        _exit(0);
    }
    REAP0(c);
}
static void rows(int way) {
    static const long sizes[][2] = {{0, 0}, {5, 0}, {0, 3}, {5, 3}, {60000, 0}, {0, 60000}, {60000, 60000}};
    for (int i = 0; i < 7; i++)
        for (int first = 0; first < 2; first++) in_a_child(way, sizes[i][0], sizes[i][1], first);
}
static void peer_shuts_writing(void) { rows(WR); }
static void peer_shuts_reading(void) { rows(RD); }
static void peer_shuts_both(void) { rows(RDWR); }
static void peer_closes(void) { rows(CLOSE); }
static void peer_ends(void) { rows(EXIT); }
static void peer_is_killed(void) { rows(KILL); }
static void peer_lingers(void) { rows(LINGER); }
static void peer_dups_over(void) { rows(DUP2); }
/* SO_ERROR tells the reset instead of the read, and once. */
static void error_is_told_once(void) {
    meet();
    TELL(sends, 5, 0);
    sends(3);
    kill_peer();
    IS(option(here->fd, SO_ERROR), ECONNRESET);
    IS(option(here->fd, SO_ERROR), 0);
    takes(5);
    IS(look(), 0);
    IS(shows(), POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
}
/* LINUX unix_stream_read_generic: a look with MSG_PEEK is told of it as a read is, and once; behind what is there. */
static void error_is_told_to_a_look(int way, int how, long theirs) {
    static const int flags[] = {MSG_PEEK, MSG_PEEK | MSG_DONTWAIT, MSG_PEEK | MSG_WAITALL};
    char b[64];
    struct iovec v = {b, sizeof b};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    int f = flags[how % 3];
    meet();
    if (theirs) TELL(sends, theirs, 0);
    sends(3);
    ends(way);
    takes(theirs);
    FAILS(how < 3 ? recv(here->fd, b, sizeof b, f) : recvmsg(here->fd, &m, f), ECONNRESET);
    IS(how < 3 ? recv(here->fd, b, sizeof b, f) : recvmsg(here->fd, &m, f), 0);
    IS(look(), 0);
}
static void peeks_at_a_reset(void) {
    static const int ways[] = {CLOSE, KILL, DUP2, EXIT};
    for (int i = 0; i < 48; i++) {
        pid_t c = child();
        if (!c) {
            error_is_told_to_a_look(ways[i % 4], i / 4 % 6, type() == SOCK_STREAM ? i / 24 * 5 : 0);
            _exit(0);
        }
        REAP0(c);
    }
}
/* An end that has read a part of the last message or piece has left the rest unread. */
static void part_read_is_unread(void) {
    meet();
    sends(3000);
    TELL(takes, 3000, 0);
    sends(3000);
    if (type() == SOCK_STREAM) {
        TELL(takes, 2999, 0);
        TELL(closes, 0, 0);
        FAILS(look(), ECONNRESET);
    } else { /* the rest of a message goes with its read */
        TELL(reads_10, 0, 10);
        TELL(closes, 0, 0);
    }
    IS(look(), 0);
}
/* A peek leaves the bytes unread. */
static long peeks(long n) {
    static char b[65536];
    return recv(here->fd, b, n, MSG_PEEK);
}
static void peeked_is_unread(void) {
    meet();
    sends(3000);
    TELL(peeks, 3000, 3000);
    TELL(closes, 0, 0);
    FAILS(look(), ECONNRESET);
    IS(look(), 0);
}
/* LINUX: af_unix.c: its own SHUT_RD: what is there is read, then the end; the other's writes fail. */
static long fails_to_write(long none) {
    signal(SIGPIPE, SIG_IGN);
    FAILS(write(here->fd, "x", 1), EPIPE);
    return 0;
}
static void own_shut_rd(void) {
    for (int n = 0; n < 3; n++) {
        long bytes = n == 0 ? 0 : n == 1 ? 5 : 60000;
        meet();
        TELL(sends, bytes, 0);
        IS(shutdown(here->fd, SHUT_RD), 0);
        IS(shows(), POLLIN | POLLOUT | POLLRDHUP);
        takes(bytes);
        reads_end(1);
        IS(shows(), POLLIN | POLLOUT | POLLRDHUP);
        TELL(fails_to_write, 0, 0);
        writes_on();
        TELL(closes, 0, 0);
        IS(shows(), POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
        kill_peer();
        close(here->fd);
    }
}
static void own_shut_wr(void) {
    meet();
    signal(SIGPIPE, SIG_IGN);
    sends(60000);
    IS(shutdown(here->fd, SHUT_WR), 0);
    writes_end(0);
    short with_room = shows();
    CHECK(!(with_room & ~POLLOUT), "nothing but room is shown: %x", with_room);
    TELL(takes, 60000, 0);
    ask(sends, HOT);
    takes(HOT);
    answer();
    IS(shutdown(here->fd, SHUT_WR), 0);
    TELL(closes, 0, 0);
    reads_end(1);
    IS(shows(), POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
}
/* All that was written before the end is read before it, and both directions end alone. */
static void bytes_before_the_end(void) {
    for (int way = 0; way < WAYS; way++) {
        meet();
        ask(sends, 100000);
        long first = type() == SOCK_STREAM ? 40017 : 10 * PIECE;
        takes(first);
        answer();
        ends(way);
        takes(100000 - first);
        if (way != RD) reads_end(1);
        kill_peer();
        close(here->fd);
    }
}
static void half_closed_goes_on(void) {
    meet();
    TELL(sends, 1000, 0);
    TELL(shuts, SHUT_WR, 0);
    ask(takes, 3 * HOT);
    sends(3 * HOT);
    answer();
    takes(1000);
    reads_end(1);
    ask(takes, HOT);
    sends(HOT);
    answer();
    IS(shutdown(here->fd, SHUT_WR), 0);
    TELL(at_end, 0, 0);
    IS(shows(), POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
}
/* The end comes with the last of those that hold it. */
static void last_holder(void) {
    meet();
    pid_t c = tell(forks, 0);
    TELL(sends, 5000, 0);
    kill_peer();
    takes(5000);
    IS(shows(), POLLOUT);
    FAILS(look(), EAGAIN);
    kill(c, SIGKILL);
    AT_EOF(here->fd);
    IS(shows(), POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
}
static void last_number(void) {
    meet();
    TELL(dups, 0, 0);
    TELL(sends, 5000, 0);
    TELL(closes, 0, 0);
    takes(5000);
    IS(shows(), POLLOUT);
    TELL(closes_other, 0, 0);
    AT_EOF(here->fd);
}
/* A shutdown is the connection's, not the number's or the process's. */
static void shutdown_is_for_all(void) {
    meet();
    signal(SIGPIPE, SIG_IGN);
    sends(5000);
    pid_t c = child();
    if (!c) {
        IS(shutdown(here->fd, SHUT_WR), 0);
        _exit(0);
    }
    REAP0(c);
    FAILS(write(here->fd, "x", 1), EPIPE);
    TELL(takes, 5000, 0);
    TELL(at_end, 0, 0);
    TELL(sends, HOT / 4, 0);
    takes(HOT / 4);
}
/* The sleepers: a reader, one that wants more than comes, a poll, an edge, a set. */
static long reads(long none) {
    char c;
    return read(here->fd, &c, 1);
}
static long wants_more(long none) {
    static char b[8192];
    return recv(here->fd, b, sizeof b, MSG_WAITALL);
}
static long polls(long what) { return events(here->fd, what, -1); }
static long edge(long what) {
    struct epoll_event v = {.events = (uint32_t)what | EPOLLET};
    int e = epoll_create1(0);
    IS(epoll_ctl(e, EPOLL_CTL_ADD, here->fd, &v), 0);
    IS(epoll_wait(e, &v, 1, -1), 1);
    return v.events;
}
static void readers_wake(void) {
    for (int way = 0; way < DISTINCT; way++) {
        if (way == RD) continue;
        short hup = gone(way) || way == RDWR ? POLLHUP : 0;
        meet();
        falls_asleep(0, wants_more, 0);
        TELL(sends, 3000, 0);
        if (type() != SOCK_STREAM) {
            IS(wakes(0), 3000);
            falls_asleep(0, wants_more, 0);
        }
        still_asleep(0);
        ends(way);
        IS(wakes(0), type() == SOCK_STREAM ? 3000 : 0);
        close(here->fd);
        kill_peer();
        meet();
        falls_asleep(0, reads, 0);
        falls_asleep(1, polls, POLLIN);
        falls_asleep(2, polls, POLLRDHUP);
        falls_asleep(3, edge, EPOLLIN | EPOLLRDHUP);
        if (hup) falls_asleep(4, polls, 0);
        ends(way);
        IS(wakes(0), 0);
        IS(wakes(1), POLLIN | hup);
        IS(wakes(2), POLLRDHUP | hup);
        IS(wakes(3), EPOLLIN | EPOLLRDHUP | hup);
        if (hup) IS(wakes(4), POLLHUP);
        close(here->fd);
        kill_peer();
    }
}
/* LINUX unix_poll: a reset is told by each poll that waits, whatever it asks for: by those that sleep, and by those that come later. */
static void waits_tell_a_reset(void) {
    static const int ways[] = {CLOSE, KILL, DUP2, EXIT};
    static const short asked[] = {POLLIN, 0, POLLRDHUP, POLLIN | POLLRDHUP};
    enum { RESET = POLLHUP | POLLERR };
    for (int i = 0; i < 4; i++) {
        meet();
        for (int k = 0; k < 4; k++) falls_asleep(k, polls, asked[k]);
        falls_asleep(4, edge, EPOLLIN);
        sends(3);
        for (int k = 0; k < 5; k++) still_asleep(k);
        ends(ways[i]);
        for (int k = 0; k < 4; k++) IS(wakes(k), asked[k] | RESET);
        IS(wakes(4), EPOLLIN | RESET);
        for (int k = 0; k < 4; k++) {
            struct pollfd p = {.fd = here->fd, .events = asked[k]};
            IS(polls(asked[k]), asked[k] | RESET);
            IS(events(here->fd, asked[k], 0), asked[k] | RESET);
            IS(ppoll(&p, 1, 0, 0), 1);
            IS(p.revents, asked[k] | RESET);
            /* LINUX poll(2): of the number the lower half counts */
            p.revents = 0;
            IS(syscall(SYS_poll, &p, (1ul << 61) + 1, -1), 1);
            IS(p.revents, asked[k] | RESET);
        }
        FAILS(look(), ECONNRESET);
        IS(polls(0), POLLHUP);
        close(here->fd);
        kill_peer();
    }
}
static void own_shut_rd_wakes(void) {
    meet();
    falls_asleep(0, reads, 0);
    falls_asleep(1, polls, POLLIN);
    IS(shutdown(here->fd, SHUT_RD), 0);
    IS(wakes(0), 0);
    IS(wakes(1), POLLIN);
}
/* A reader sleeps on when the other has only shut its own reading. */
static void shut_rd_wakes_no_reader(void) {
    meet();
    falls_asleep(0, reads, 0);
    TELL(shuts, SHUT_RD, 0);
    still_asleep(0);
    TELL(whole, 1, 1);
    IS(wakes(0), 1);
}
/* A writer that sleeps for room is told of the end by its result alone.
 * LINUX: af_unix.c: the wait for room gives EPIPE without SIGPIPE, or the reset, which no read is told of then. */
static volatile int pipes;
static void on(int s) { pipes++; }
static long writes_1(long none) { return write(here->fd, at(here->out), 1); }
static void writers_wake(void) {
    for (int way = RD; way < DISTINCT; way++) {
        meet();
        handle(SIGPIPE, on, 0);
        pipes = 0;
        long n = fills(1);
        falls_asleep(0, writes_1, 0);
        falls_asleep(1, polls, POLLOUT);
        ends(way);
        IS(wakes(0), -1);
        IS(errno, gone(way) ? ECONNRESET : EPIPE);
        IS(pipes, 0);
        if (way == RD) { /* LINUX: af_unix.c: room is what poll tells, and the bytes still lie there */
            still_asleep(1);
            TELL(takes, n, 0);
        }
        IS(wakes(1) & (way == RD ? POLLOUT : POLLHUP), way == RD ? POLLOUT : POLLHUP);
        if (way != RDWR) IS(shows() & POLLOUT, POLLOUT);
        reads_end(way != RD);
        close(here->fd);
        kill_peer();
    }
}
static void part_of_a_write(void) {
    if (type() != SOCK_STREAM) return;
    for (int way = RD; way < DISTINCT; way++) {
        meet();
        signal(SIGPIPE, SIG_IGN);
        falls_asleep(0, writes_much, 1 << 20);
        TELL(takes, 50000, 0);
        still_asleep(0);
        ends(way);
        long n = wakes(0);
        CHECK(n >= 50000 && n < 1 << 20, "a part of it went in: %ld", n);
        if (!gone(way)) TELL(takes, n - 50000, 0);
        FAILS(write(here->fd, "x", 1), EPIPE);
        reads_end(way != RD);
        close(here->fd);
        kill_peer();
    }
}
static void own_shut_wr_wakes(void) {
    meet();
    handle(SIGPIPE, on, 0);
    fills(1);
    falls_asleep(0, writes_1, 0);
    IS(shutdown(here->fd, SHUT_WR), 0);
    IS(wakes(0), -1);
    IS(errno, EPIPE);
    IS(pipes, 0);
}
/* LINUX: unix(7): on a stream SIGPIPE comes with EPIPE, unless MSG_NOSIGNAL is given; a seqpacket never makes one. */
static void sigpipe(void) {
    int each = type() == SOCK_STREAM;
    struct iovec v = {"ab", 2};
    struct mmsghdr m = {.msg_hdr = {.msg_iov = &v, .msg_iovlen = 1}};
    meet();
    handle(SIGPIPE, on, SA_RESTART);
    TELL(closes, 0, 0);
    FAILS(write(here->fd, "x", 1), EPIPE);
    IS(pipes, each);
    FAILS(send(here->fd, "x", 1, MSG_NOSIGNAL), EPIPE);
    IS(pipes, each);
    FAILS(send(here->fd, "x", 1, 0), EPIPE);
    IS(pipes, 2 * each);
    FAILS(write(here->fd, "x", 0), EPIPE);
    IS(pipes, 3 * each);
    FAILS(sendmmsg(here->fd, &m, 1, 0), EPIPE);
    IS(pipes, 4 * each);
    FAILS(sendmmsg(here->fd, &m, 1, MSG_NOSIGNAL), EPIPE);
    IS(pipes, 4 * each);
    handle(SIGPIPE, SIG_DFL, 0);
    pid_t c = child();
    if (!c) write(here->fd, "x", 1), _exit(0);
    int s = reap(c);
    CHECK(each ? WIFSIGNALED(s) && WTERMSIG(s) == SIGPIPE : s == 0, "a write must kill: 0x%x", s);
}
UNIX_MAIN(T(peer_shuts_writing), T(peer_shuts_reading), T(peer_shuts_both), T(peer_closes), T(peer_ends), T(peer_is_killed),
          T(peeks_at_a_reset), T(peer_lingers), T(peer_dups_over), T(error_is_told_once), T(part_read_is_unread), T(peeked_is_unread),
          T(own_shut_rd), T(own_shut_wr), T(bytes_before_the_end), T(half_closed_goes_on), T(last_holder), T(last_number),
          T(shutdown_is_for_all), T(readers_wake), T(waits_tell_a_reset), T(own_shut_rd_wakes), T(shut_rd_wakes_no_reader), T(writers_wake),
          T(part_of_a_write), T(own_shut_wr_wakes), T(sigpipe))
