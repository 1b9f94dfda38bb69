/* Checks: a hot UNIX stream that is full: how much goes in by each size until a writer waits, EAGAIN, POLLOUT off and on again,
 * its edge, a small SO_SNDBUF, sleeping writers, both directions full. A program that counts on a wait after SO_SNDBUF bytes
 * waits. Does not check: seqpackets that are full (unix_seqpacket.c), writers that sleep at an end (unix_ends.c). */
#define MODES "pair", "path", "abstract"
#include "unix_calls.h"
static const long pieces[] = {1, 16, 100, 1000, 4096, 10000, 65536, 1 << 20};
enum { PIECES = sizeof pieces / sizeof *pieces };
/* LINUX: af_unix.c: each piece counts by its memory, less than 1 KiB for one byte. A write goes in while that is below SO_SNDBUF,
 * so that the buffer bounds the bytes from below and from above. */
static void bounds(long n, long piece, long shown) {
    long least = shown / 1024 * (piece < 1000 ? piece : 0), most = 2 * shown + shown / 2;
    if (piece >= 1000) least = piece <= 4096 ? shown / 3 : shown * 3 / 4;
    if (shown < 10000) least = piece < 100 ? piece : 100;
    CHECK(n >= least, "%ld bytes by %ld fill %ld: less than %ld", n, piece, shown, least);
    CHECK(n <= most, "%ld bytes by %ld fill %ld: more than %ld", n, piece, shown, most);
}
static void full_and_again(long piece) {
    long shown = option(here->fd, SO_SNDBUF), n;
    IS(shows(), POLLOUT);
    n = fills(piece);
    bounds(n, piece, shown);
    IS(shows() & POLLOUT, 0);
    FAILS(send(here->fd, at(here->out), 1, MSG_DONTWAIT), EAGAIN);
    TELL(finds, 0, n);
    TELL(takes, n, 0);
    IS(shows(), POLLOUT);
    n = fills(piece);
    bounds(n, piece, shown);
    TELL(takes, n, 0);
}
static void by_each_size(void) {
    meet();
    for (int i = 0; i < PIECES; i++) full_and_again(pieces[i]);
    no_delay(0);
    for (int i = 0; i < PIECES; i++) full_and_again(pieces[i]);
}
static void small_buffers(void) {
    static const int sizes[] = {1, 4096, 16384, 131072};
    for (int i = 0; i < 4; i++) {
        meet();
        set_option(here->fd, SO_SNDBUF, sizes[i]);
        for (int k = 0; k < PIECES; k++) full_and_again(pieces[k]);
        kill_peer();
        close(here->fd);
    }
}
/* The size is set with bytes unread, smaller and larger: the next write goes by it. */
static void buffer_is_changed(void) {
    meet();
    int before = option(here->fd, SO_SNDBUF);
    sends(50000);
    set_option(here->fd, SO_SNDBUF, 4096);
    FAILS(send(here->fd, at(here->out), 1, MSG_DONTWAIT), EAGAIN);
    set_option(here->fd, SO_SNDBUF, before);
    sends(20000);
    TELL(takes, 70000, 0);
    set_option(here->fd, SO_SNDBUF, 4096);
    bounds(fills(100), 100, 8192);
    TELL(takes, tell(finds, 0), 0);
}
/* A writer that sleeps goes on when some has been read, and has written all of it when it returns. */
static long writes_all(long n) { return whole(n); }
static void writer_sleeps(void) {
    meet();
    for (int i = 0; i < PIECES; i++) {
        long n = fills(pieces[i]);
        falls_asleep(0, writes_all, pieces[i]);
        TELL(takes, n, 0);
        TELL(takes, pieces[i], 0);
        IS(wakes(0), pieces[i]);
    }
}
static void a_long_write_sleeps(void) {
    meet();
    falls_asleep(0, writes_all, 1 << 20);
    for (int i = 0; i < 4; i++) {
        TELL(takes, 100000, 0);
        still_asleep(0);
    }
    TELL(takes, (1 << 20) - 400000, 0);
    IS(wakes(0), 1 << 20);
    TELL(finds, 0, 0);
}
static long writes_by_10000(long n) {
    for (int i = 0; i < n; i++) whole(10000);
    return 0;
}
static void reader_is_slow(void) { /* by bytes, while the writer sleeps most of the time */
    meet();
    ask(writes_by_10000, 100);
    for (int i = 0; i < 1000; i++) takes(1000);
    answer();
    set_option(here->fd, SO_SNDBUF, 4096);
    ask(takes, 300000);
    sends(300000);
    answer();
}
/* LINUX: af_unix.c: not writable above a quarter of SO_SNDBUF in memory; writable below it, by the other's read. */
static long polls(long what) { return events(here->fd, what, -1); }
static void poll_wakes(void) {
    meet();
    for (int i = 0; i < PIECES; i++) {
        long n = fills(pieces[i]);
        falls_asleep(0, polls, POLLOUT);
        falls_asleep(1, polls, POLLIN | POLLOUT);
        TELL(takes, n, 0);
        IS(wakes(0), POLLOUT);
        IS(wakes(1), POLLOUT);
        sends(1);
        TELL(takes, 1, 0);
    }
}
static void poll_and_write(void) { /* an event loop: each POLLOUT lets one write in at least, and nothing is lost */
    meet();
    no_delay(0);
    ask(takes, 2 << 20);
    for (long left = 2 << 20, k; left;) {
        IS(polls(POLLOUT), POLLOUT);
        k = write(here->fd, at(here->out), left < 100000 ? left : 100000);
        CHECK(k > 0, "writable is writable: %ld", k);
        here->out += k;
        left -= k;
    }
    answer();
}
static int set_of(uint32_t what) {
    int e = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event v = {.events = what, .data.u64 = 0x123456789abcdefull};
    IS(epoll_ctl(e, EPOLL_CTL_ADD, here->fd, &v), 0);
    return e;
}
static int told(int e, int ms) {
    struct epoll_event v[2] = {0};
    int n = epoll_wait(e, v, 2, ms);
    CHECK(n == 0 || (n == 1 && v->data.u64 == 0x123456789abcdefull), "one entry with its data");
    return v->events;
}
static int E;
static long waits_in_set(long none) { return told(E, -1); }
static void level(void) {
    meet();
    E = set_of(EPOLLOUT);
    for (int i = 0; i < PIECES; i++) {
        IS(told(E, 0), EPOLLOUT);
        IS(told(E, 0), EPOLLOUT);
        long n = fills(pieces[i]);
        IS(told(E, 0), 0);
        falls_asleep(0, waits_in_set, 0);
        TELL(takes, n, 0);
        IS(wakes(0), EPOLLOUT);
    }
}
static void edge(void) {
    meet();
    E = set_of(EPOLLOUT | EPOLLET);
    IS(told(E, 0), EPOLLOUT);
    IS(told(E, 0), 0);
    for (int i = 0; i < PIECES; i++) {
        long n = fills(pieces[i]);
        IS(told(E, 0), 0);
        falls_asleep(0, waits_in_set, 0);
        TELL(takes, n, 0);
        IS(wakes(0), EPOLLOUT);
        while (told(E, 0)); /* each read that made room may have made one */
        IS(told(E, 0), 0);
    }
}
/* An event loop by edge: it writes to EAGAIN and waits; no edge is lost. */
static void edge_loop(void) {
    meet();
    no_delay(0);
    int e = set_of(EPOLLOUT | EPOLLET);
    ask(takes, 2 << 20);
    for (long left = 2 << 20, k; left;) {
        k = write(here->fd, at(here->out), left < 30000 ? left : 30000);
        if (k < 0) {
            IS(errno, EAGAIN);
            IS(told(e, -1), EPOLLOUT);
            continue;
        }
        here->out += k;
        left -= k;
    }
    answer();
}
static void one_shot(void) {
    meet();
    int e = set_of(EPOLLOUT | EPOLLONESHOT);
    struct epoll_event v = {.events = EPOLLOUT | EPOLLONESHOT, .data.u64 = 0x123456789abcdefull};
    IS(told(e, 0), EPOLLOUT);
    IS(told(e, 0), 0);
    long n = fills(4096);
    IS(epoll_ctl(e, EPOLL_CTL_MOD, here->fd, &v), 0);
    IS(told(e, 0), 0);
    E = e;
    falls_asleep(0, waits_in_set, 0);
    TELL(takes, n, 0);
    IS(wakes(0), EPOLLOUT);
    IS(told(e, 0), 0);
    n = fills(4096);
    TELL(takes, n, 0);
    IS(told(e, 0), 0);
}
/* Both directions full: neither side's bytes wait for the other's. */
static void both_full(void) {
    meet();
    long n = fills(4096), m = tell(fills, 4096);
    IS(shows(), POLLIN);
    takes(m);
    IS(shows() & POLLOUT, 0);
    TELL(takes, n, 0);
    IS(shows(), POLLOUT);
    sends(HOT / 4);
    TELL(takes, HOT / 4, 0);
}
/* Two that write to the full connection, from two processes: each comes whole. */
static void two_sleep(void) {
    meet();
    long n = fills(1);
    pid_t c[2];
    for (int i = 0; i < 2; i++)
        if (!(c[i] = child())) {
            IS(write(here->fd, at(here->out), 20000), 20000);
            _exit(0);
        }
    for (int i = 0; i < 2; i++) wait_asleep(c[i]);
    TELL(takes, n, 0);
    TELL(takes, 20000, 0);
    for (int i = 0; i < 2; i++) REAP0(c[i]);
    here->out += 20000;
    TELL(finds, 0, 20000);
}
/* sendmsg and writev of more than fits: non-blocking, a part; sendmmsg, as many messages as went in. */
static void parts(void) {
    struct iovec v[4];
    struct mmsghdr m[4] = {0};
    meet();
    no_delay(0);
    for (int i = 0; i < 4; i++) v[i] = (struct iovec){(void *)at(here->out + i * 300000), 300000};
    ssize_t n = writev(here->fd, v, 4);
    CHECK(n > 100000 && n < 1200000, "a part: %zd", n);
    here->out += n;
    TELL(takes, n, 0);
    struct msghdr h = {.msg_iov = v, .msg_iovlen = 4};
    for (int i = 0; i < 4; i++) v[i].iov_base = (void *)at(here->out + i * 300000);
    n = sendmsg(here->fd, &h, 0);
    CHECK(n > 100000 && n < 1200000, "a part: %zd", n);
    here->out += n;
    TELL(takes, n, 0);
    for (int i = 0; i < 4; i++) {
        v[i] = (struct iovec){(void *)at(here->out + i * 90000), 90000};
        m[i].msg_hdr = (struct msghdr){.msg_iov = v + i, .msg_iovlen = 1};
    }
    int k = sendmmsg(here->fd, m, 4, 0);
    CHECK(k >= 1 && k < 4, "some of them: %d", k);
    n = 0;
    for (int i = 0; i < k; i++) n += m[i].msg_len;
    here->out += n;
    TELL(takes, n, 0);
}
UNIX_MAIN(T(by_each_size), T(small_buffers), T(buffer_is_changed), T(writer_sleeps), T(a_long_write_sleeps), T(reader_is_slow),
          T(poll_wakes), T(poll_and_write), T(level), T(edge), T(edge_loop), T(one_shot), T(both_full), T(two_sleep), T(parts))
