/* Checks: MSG_WAITALL on hot streams, by recv, recvfrom and recvmsg: bytes that are there, that come in parts, by either lane and
 * both; the end, a reset, signals, SO_RCVTIMEO, calls that do not wait, descriptors among the bytes, a second thread that reads,
 * and one that closes the number.
 * Does not check: what one such call on an idle connection does (unix_flags.c). */
#include "unix_calls.h"
static long gets_by(int how, unsigned char *b, long n, int flags) {
    static _Thread_local address a;
    socklen_t size = sizeof a;
    struct iovec v[4] = {{b, n / 3}, {b + n / 3, 0}, {b + n / 3, n / 2 - n / 3}, {b + n / 2, n - n / 2}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 4};
    long k;
    if (how == 0) return recv(here->fd, b, n, flags);
    if (how == 1) return recvfrom(here->fd, b, n, flags, is_tcp() ? &a.any : 0, is_tcp() ? &size : 0);
    k = recvmsg(here->fd, &m, flags | MSG_CMSG_CLOEXEC);
    if (k >= 0) IS(m.msg_flags, MSG_CMSG_CLOEXEC);
    if (k >= 0) IS(m.msg_controllen, 0);
    return k;
}
static int by; /* 0 to 2: how it is received */
static long takes_so(long n, int flags) {
    static _Thread_local unsigned char b[1 << 19];
    ssize_t k = gets_by(by, b, n, flags | MSG_WAITALL);
    if (k > 0) same(b, k, here->in), here->in += k;
    return k;
}
static long takes_all(long n) { return takes_so(n, 0); }
static void each_way(void once(void)) {
    for (by = 0; by < 3; by++) {
        pid_t c = child();
        if (!c) {
            meet_and_answer();
            once();
            kill_peer();
            _exit(0);
        }
        REAP0(c);
    }
}
static const long sizes[] = {1, 100, 4096, 5000, 48832, 60000};
enum { SIZES_OF = sizeof sizes / sizeof *sizes };
/* Bytes that nobody has waited for; and those that came while somebody waited for the first. */
static void there_once(void) {
    for (int i = 0; i < SIZES_OF; i++) {
        TELL(sends, sizes[i] + 7, 0);
        IS(takes_all(sizes[i]), sizes[i]);
        IS(takes_all(7), 7);
        ask(sends, sizes[i]);
        IS(events(here->fd, POLLIN, 5000), POLLIN);
        IS(takes_all(sizes[i]), sizes[i]);
        IS(answer(), 0);
    }
}
static void there(void) { each_way(there_once); }
static void in_parts_once(void) {
    for (int i = 0; i < SIZES_OF; i++) {
        long n = 3 * sizes[i] + 10;
        falls_asleep(0, takes_all, n);
        for (int k = 0; k < 3; k++) {
            TELL(whole, sizes[i], sizes[i]);
            if (k != 1) still_asleep(0);
        }
        TELL(whole, 30, 30);
        IS(wakes(0), n);
        IS(takes_all(20), 20);
        IS(unread(), 0);
    }
}
static void in_parts(void) { each_way(in_parts_once); }
/* More than fits anywhere. */
static void much_once(void) {
    for (int i = 0; i < 4; i++) {
        falls_asleep(0, takes_all, 400000);
        TELL(sends, 400000 + 9, 0);
        IS(wakes(0), 400000);
        ask(sends, 400000);
        IS(takes_all(400000), 400000);
        IS(answer(), 0);
        IS(takes_all(9), 9);
    }
}
static void much(void) { each_way(much_once); }
static unsigned seed;
static long some(long most) {
    seed = seed * 1103515245 + 12345;
    return 1 + (seed >> 8) % most;
}
static long sends_pieces(long n) {
    seed = 99;
    while (n > 0) {
        long k = some(seed & 1 << 20 ? 20000 : 300);
        if (k > n) k = n;
        whole(k);
        n -= k;
        if (some(8) == 1) sched_yield();
        if (some(200) == 1) sleep_ms(1);
    }
    return 0;
}
static void at_random_once(void) {
    enum { MUCH = 6 << 20 };
    ask(sends_pieces, MUCH);
    for (long n = MUCH, k; n > 0; n -= k) {
        k = some(seed & 1 << 21 ? 40000 : 500);
        if (k > n) k = n;
        if (some(4) == 1) takes(k);
        else
            IS(takes_all(k), k);
    }
    IS(answer(), 0);
}
static void at_random(void) { each_way(at_random_once); }
/* The end, and a reset: what is there is returned, and then what the kernel says. */
enum { SHUT, CLOSED, EXITS, KILLED };
static void ends(int way) {
    if (way == SHUT) TELL(shuts, SHUT_WR, 0);
    if (way == CLOSED) TELL(closes, 0, 0);
    if (way == EXITS) peer_exits();
    if (way == KILLED) kill_peer();
}
/* the error of a reset, which is told once, to whichever call is the next: a read, a write, getsockopt, or another descriptor's */
static void is_told(int how) {
    char c;
    int e = 0, d = dup(here->fd);
    socklen_t n = sizeof e;
    if (how == 0) FAILS(recv(here->fd, &c, 1, 0), ECONNRESET);
    if (how == 1) FAILS(send(here->fd, "x", 1, MSG_NOSIGNAL), ECONNRESET);
    if (how == 2) {
        IS(getsockopt(here->fd, SOL_SOCKET, SO_ERROR, &e, &n), 0);
        IS(e, ECONNRESET);
    }
    if (how == 3) FAILS(recv(d, &c, 1, 0), ECONNRESET);
    close(d);
}
static void an_end(int way, long ours, int asleep, int how) {
    char c;
    int reset = ours && way != SHUT;
    meet_and_answer();
    sends(ours);
    UNTIL(tell(finds, 0) == ours);
    if (asleep) falls_asleep(0, takes_all, 60000);
    TELL(sends, 5000, 0);
    if (asleep) still_asleep(0);
    ends(way);
    IS(asleep ? wakes(0) : takes_all(60000), 5000);
    /* LINUX: tcp_recvmsg leaves the error to the next call; unix_stream_read_generic tells it to nobody. Without a wait between the
     * bytes and the end the ring of one that was killed may be seen to have ended before. */
    if (reset && is_tcp()) is_told(way == CLOSED && !asleep ? how : 0);
    IS(takes_all(10), 0);
    IS(recv(here->fd, &c, 1, MSG_DONTWAIT), 0);
    kill_peer();
}
static void the_end(int way) {
    for (int i = 0; i < 12; i++) {
        by = i % 3;
        pid_t c = child();
        if (!c) {
            an_end(way, i / 3 % 2 * 300, i / 6, i % 4);
            _exit(0);
        }
        REAP0(c);
    }
}
static void shut_down(void) { the_end(SHUT); }
static void closed(void) { the_end(CLOSED); }
static void exited(void) { the_end(EXITS); }
static void killed(void) { the_end(KILLED); }
static void on(int s) {}
/* LINUX: a signal ends it with the part that it has, whatever the handler's SA_RESTART; with nothing it is begun again, or EINTR. */
static void a_signal(int restart) {
    for (by = 0; by < 3; by++) {
        meet_and_answer();
        handle(SIGUSR1, on, restart ? SA_RESTART : 0);
        for (int i = 0; i < SIZES_OF; i++) {
            falls_asleep(0, takes_all, 100000);
            TELL(whole, sizes[i], sizes[i]);
            still_asleep(0);
            IS(interrupts(0), sizes[i]);
        }
        falls_asleep(0, takes_all, 5000);
        if (restart) {
            for (int i = 0; i < 3; i++) {
                pthread_kill(sleepers[0].thread, SIGUSR1);
                still_asleep(0);
            }
            TELL(sends, 5000, 0);
            IS(wakes(0), 5000);
        } else {
            IS(interrupts(0), -1);
            IS(errno, EINTR);
        }
        kill_peer();
        close(here->fd);
    }
}
static void a_signal_restarts(void) { a_signal(1); }
static void a_signal_interrupts(void) { a_signal(0); }
/* LINUX: socket(7): the time is that of the whole call. */
enum { TIME = 120, LEAST = 110, PARTS = 30 };
static long sends_slowly(long ms) {
    for (int i = 0; i < PARTS; i++) {
        whole(1);
        sleep_ms(ms);
    }
    return 0;
}
static void a_time(void) {
    double since;
    meet_and_answer();
    set_time(here->fd, SO_RCVTIMEO, TIME);
    for (by = 0; by < 3; by += 2) {
        since = now();
        FAILS(takes_all(10), EAGAIN);
        CHECK((now() - since) * 1000 >= LEAST, "it took %.1f ms, not %d", (now() - since) * 1000, TIME);
        TELL(sends, 5000, 0);
        since = now();
        IS(takes_all(9000), 5000);
        CHECK((now() - since) * 1000 >= LEAST, "it took %.1f ms, not %d", (now() - since) * 1000, TIME);
        ask(sends_slowly, 30);
        since = now();
        long n = takes_all(PARTS);
        CHECK(n > 0 && n < PARTS, "some of the parts come in time: %ld", n);
        CHECK((now() - since) * 1000 >= LEAST, "it took %.1f ms, not %d", (now() - since) * 1000, TIME);
        IS(answer(), 0);
        takes(PARTS - n);
        ask(sends, 60000);
        IS(takes_all(60000), 60000);
        IS(answer(), 0);
    }
    set_time(here->fd, SO_RCVTIMEO, 0);
    falls_asleep(0, takes_all, 10);
    TELL(sends, 10, 0);
    IS(wakes(0), 10);
    kill_peer();
}
/* LINUX: with a time, any handler ends a wait with EINTR, or with the part. */
static void a_time_and_a_signal(void) {
    meet_and_answer();
    handle(SIGUSR1, on, SA_RESTART);
    set_time(here->fd, SO_RCVTIMEO, 15000);
    falls_asleep(0, takes_all, 10);
    IS(interrupts(0), -1);
    IS(errno, EINTR);
    falls_asleep(0, takes_all, 10);
    TELL(whole, 3, 3);
    still_asleep(0);
    IS(interrupts(0), 3);
    kill_peer();
}
static void no_wait_once(void) {
    static unsigned char b[100000];
    for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
        int flags = nonblocking ? 0 : MSG_DONTWAIT;
        if (nonblocking) no_delay(0);
        for (int i = 0; i < SIZES_OF; i++) {
            FAILS(takes_so(10, flags), EAGAIN);
            TELL(sends, sizes[i], 0);
            has_come(sizes[i]);
            IS(takes_so(sizes[i] + 1, flags), sizes[i]);
            /* The first bytes come by the lane. */
            if (!nonblocking) falls_asleep(0, takes_all, 10);
            TELL(sends, sizes[i] + 10, 0);
            if (!nonblocking) IS(wakes(0), 10);
            has_come(sizes[i] + (nonblocking ? 10 : 0));
            IS(takes_so(sizes[i] + 11, flags), sizes[i] + (nonblocking ? 10 : 0));
            FAILS(takes_so(1, flags), EAGAIN);
        }
        if (nonblocking) no_delay(1);
    }
    for (int i = 0; i < SIZES_OF; i++) {
        TELL(sends, sizes[i] + 5, 0);
        has_come(sizes[i] + 5);
        IS(gets_by(by, b, sizes[i], MSG_PEEK | MSG_WAITALL), sizes[i]);
        same(b, sizes[i], here->in);
        IS(gets_by(by, b, sizes[i] + 9, MSG_PEEK | MSG_WAITALL | MSG_DONTWAIT), sizes[i] + 5);
        same(b, sizes[i] + 5, here->in);
        IS(takes_all(sizes[i] + 5), sizes[i] + 5);
    }
    FAILS(gets_by(by, b, 0, MSG_WAITALL | MSG_DONTWAIT), EAGAIN);
    FAILS(recv(here->fd, (void *)8, 10, MSG_WAITALL | MSG_DONTWAIT), EAGAIN);
    TELL(sends, 100, 0);
    FAILS(recv(here->fd, (void *)8, 10, MSG_WAITALL), EFAULT);
    IS(takes_all(100), 100);
}
static void no_wait(void) { each_way(no_wait_once); }
/* LINUX: unix(7): bytes with descriptors are the last of a call. */
static long sends_descriptor(long n) {
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec v = {(void *)at(here->out), n};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    int fd = open("/dev/null", O_RDONLY);
    *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    IS(sendmsg(here->fd, &m, 0), n);
    here->out += n;
    return close(fd);
}
static long takes_descriptor(long n) {
    static _Thread_local unsigned char b[5000];
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec v = {b, n};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    long k = recvmsg(here->fd, &m, MSG_WAITALL);
    int fd = -1;
    CHECK(k > 0, "recvmsg gave %ld", k);
    same(b, k, here->in);
    here->in += k;
    IS(m.msg_flags, 0);
    IS(m.msg_controllen, sizeof control);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    IS(close(fd), 0);
    return k;
}
static void descriptors(void) {
    if (is_tcp()) return;
    by = 0;
    meet_and_answer();
    for (int i = 0; i < 8; i++) {
        task *takes_so_much = i & 1 ? takes_descriptor : takes_all;
        if (i & 2) falls_asleep(0, takes_so_much, 4500);
        TELL(whole, 100, 100);
        if (i & 2) still_asleep(0);
        if (i & 4) {
            TELL(whole, 1000, 1000);
            if (i & 2) still_asleep(0);
        }
        TELL(sends_descriptor, 50, 0);
        long n = 150 + (i & 4) * 250;
        IS(i & 2 ? wakes(0) : takes_so_much(4500), n);
        TELL(whole, 200, 200);
        IS(takes_all(200), 200);
    }
    goes_on();
    kill_peer();
}
/* Two threads that wait for all: each gets as much as it has asked for. */
static long counts_all(long n) {
    static _Thread_local unsigned char b[5000];
    return recv(here->fd, b, n, MSG_WAITALL);
}
static void two_readers(void) {
    meet_and_answer();
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 2; k++) falls_asleep(k, counts_all, 5000);
        for (int k = 0; k < 4; k++) TELL(whole, 2500, 2500);
        for (int k = 0; k < 2; k++) IS(wakes(k), 5000);
        here->in += 10000;
    }
    goes_on();
    kill_peer();
}
/* Another thread closes the number over the call, or makes it another file's: the call's own bytes come. */
static void another_closes(void) {
    for (int way = 0; way < 4; way++) {
        by = 0;
        meet_all(2);
        uses(0);
        round_trips();
        falls_asleep(0, takes_all, 9000);
        if (way & 1) {
            TELL(whole, 100, 100);
            still_asleep(0);
        }
        if (way & 2) IS(dup2(links[1].fd, here->fd), here->fd);
        else
            IS(close(here->fd), 0);
        TELL(whole, 8900, 8900);
        if (!(way & 1)) {
            still_asleep(0);
            TELL(whole, 100, 100);
        }
        IS(wakes(0), 9000);
        kill_peer();
        if (way & 2) close(here->fd);
        close(links[1].fd);
    }
}
UNIX_MAIN(T(there), T(in_parts), T(much), T(at_random), T(shut_down), T(closed), T(exited), T(killed), T(a_signal_restarts),
          T(a_signal_interrupts), T(a_time), T(a_time_and_a_signal), T(no_wait), T(descriptors), T(two_readers), T(another_closes))
