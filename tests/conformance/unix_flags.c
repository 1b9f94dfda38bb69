/* Checks: the flags of send and recv, the options and the ioctls of a hot UNIX stream: MSG_PEEK, WAITALL, DONTWAIT, TRUNC, OOB;
 * SO_RCVTIMEO, SO_SNDTIMEO, SO_SNDBUF, SO_RCVLOWAT, SO_PEEK_OFF; FIONREAD, SIOCOUTQ, FIONBIO, FIOASYNC.
 * Does not check: MSG_NOSIGNAL, SO_ERROR and SO_LINGER (unix_ends.c), control messages (unix_control.c), how much goes in until
 * a writer waits (unix_full.c). */
#include "unix_calls.h"
static unsigned char B[1 << 20];
static long gets(long n, int flags) { /* what recv gives; moves no position */
    return recv(here->fd, B, n, flags);
}
static long takes_by(long n, int flags) {
    ssize_t k = recv(here->fd, B, n, flags);
    if (k > 0) same(B, k, here->in), here->in += k;
    return k;
}
static void peek(void) {
    meet();
    FAILS(gets(10, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
    TELL(sends, 50000, 0);
    has_come(50000);
    for (int i = 0; i < 3; i++) {
        for (long n = 1; n < 60000; n = n * 3 + 1) {
            IS(gets(n, MSG_PEEK), n < 50000 ? n : 50000);
            same(B, n < 50000 ? n : 50000, here->in);
        }
        IS(unread(), 50000);
    }
    takes(777);
    IS(gets(1000, MSG_PEEK | MSG_DONTWAIT), 1000);
    same(B, 1000, here->in);
    IS(gets(60000, MSG_PEEK | MSG_DONTWAIT), 49223);
    same(B, 49223, here->in);
    TELL(sends, 10000, 0);
    has_come(59223);
    IS(gets(60000, MSG_PEEK), 59223);
    same(B, 59223, here->in);
    takes(59223);
    FAILS(gets(1, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
    TELL(sends, 3, 0);
    TELL(closes, 0, 0);
    IS(gets(10, MSG_PEEK), 3);
    same(B, 3, here->in);
    takes(3);
    IS(gets(10, MSG_PEEK), 0);
    IS(gets(10, 0), 0);
}
/* What a peek shows is what the next read takes, whatever a writer does meanwhile; the end is shown behind all. */
static void peek_beside_a_writer(void) {
    enum { ALL_OF_IT = 2 << 20 };
    long shown, step = 1, came = 0;
    meet();
    ask(sends, ALL_OF_IT);
    while (came < ALL_OF_IT) {
        while ((shown = gets(step, MSG_PEEK | MSG_DONTWAIT)) < 0) IS(errno, EAGAIN);
        CHECK(shown, "the end is shown too early");
        same(B, shown, here->in);
        takes(step % 3 ? shown : 1 + shown / 2);
        came += step % 3 ? shown : 1 + shown / 2;
        step = step * 7 % 50021;
    }
    answer();
    ask(sends, 5);
    while (gets(10, MSG_PEEK | MSG_DONTWAIT) != 5) sleep_ms(1);
    answer();
    peer_exits();
    IS(gets(10, MSG_PEEK | MSG_DONTWAIT), 5);
    takes(5);
    IS(gets(10, MSG_PEEK | MSG_DONTWAIT), 0);
}
/* A peek that waits wakes with the first byte, leaves it, and so does each of several. */
static long peeks(long n) {
    static _Thread_local char b[64];
    return recv(here->fd, b, n, MSG_PEEK);
}
static void peek_waits(void) {
    meet();
    for (int i = 0; i < 2; i++) falls_asleep(i, peeks, 10);
    TELL(whole, 5, 5);
    for (int i = 0; i < 2; i++) IS(wakes(i), 5);
    IS(unread(), 5);
    takes(5);
    TELL(sends, HOT / 4, 0);
    takes(HOT / 4);
}
static void peek_by_message(void) {
    meet();
    TELL(sends, 9000, 0);
    struct iovec v[3] = {{B, 100}, {B + 100, 0}, {B + 100, 20000}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 3};
    struct mmsghdr mm[2] = {{m}, {m}};
    IS(recvmsg(here->fd, &m, MSG_PEEK), 9000);
    IS(m.msg_flags, 0);
    same(B, 9000, here->in);
    IS(recvmmsg(here->fd, mm, 2, MSG_PEEK | MSG_DONTWAIT, 0), 2);
    IS(mm[0].msg_len, 9000);
    IS(mm[1].msg_len, 9000);
    takes(9000);
}
/* LINUX: socket(7): SO_PEEK_OFF: a peek begins there and moves it on; a read moves it back. */
static void peek_offset(void) {
    meet();
    IS(option(here->fd, SO_PEEK_OFF), -1);
    set_option(here->fd, SO_PEEK_OFF, 0);
    TELL(sends, 20000, 0);
    for (int at_byte = 0; at_byte < 20000; at_byte += 5000) {
        IS(option(here->fd, SO_PEEK_OFF), at_byte);
        IS(gets(5000, MSG_PEEK), 5000);
        same(B, 5000, here->in + at_byte);
    }
    takes(15000);
    IS(option(here->fd, SO_PEEK_OFF), 5000);
    set_option(here->fd, SO_PEEK_OFF, 1000);
    IS(gets(100, MSG_PEEK), 100);
    same(B, 100, here->in + 1000);
    set_option(here->fd, SO_PEEK_OFF, -1);
    IS(gets(100, MSG_PEEK), 100);
    same(B, 100, here->in);
    takes(5000);
}
/* MSG_WAITALL sleeps on over what comes in parts. */
static long waits_for_all(long n) { return takes_by(n, MSG_WAITALL); }
static void wait_all(void) {
    meet();
    falls_asleep(0, waits_for_all, 300000);
    for (int i = 0; i < 3; i++) {
        TELL(sends, 60000, 0);
        still_asleep(0);
    }
    TELL(sends, 120000 + 50, 0);
    IS(wakes(0), 300000);
    has_come(50);
    IS(unread(), 50);
    IS(takes_by(50, MSG_WAITALL), 50);
    falls_asleep(0, waits_for_all, 8192);
    TELL(whole, 4096, 4096);
    still_asleep(0);
    TELL(whole, 4096, 4096);
    IS(wakes(0), 8192);
    TELL(whole, 100, 100);
    IS(takes_by(8192, MSG_WAITALL | MSG_DONTWAIT), 100);
    FAILS(gets(10, MSG_WAITALL | MSG_DONTWAIT), EAGAIN);
    no_delay(0);
    TELL(whole, 100, 100);
    IS(takes_by(8192, MSG_WAITALL), 100);
    no_delay(1);
}
static void wait_all_by_message(void) {
    meet();
    for (int i = 0; i < 2; i++) {
        falls_asleep(0, waits_for_all, 6000);
        TELL(whole, 3000, 3000);
        still_asleep(0);
        if (i) TELL(shuts, SHUT_WR, 0);
        else
            TELL(whole, 3000, 3000);
        IS(wakes(0), i ? 3000 : 6000);
    }
    IS(takes_by(10, MSG_WAITALL), 0);
}
static volatile int hits;
static void on(int s) { hits++; }
/* LINUX: af_unix.c: a signal ends it with what it has, also where the handler is SA_RESTART; with nothing it goes on. */
static void wait_all_and_a_signal(void) {
    for (int restart = 0; restart < 2; restart++) {
        meet();
        handle(SIGUSR1, on, restart ? SA_RESTART : 0);
        falls_asleep(0, waits_for_all, 8192);
        TELL(whole, 100, 100);
        still_asleep(0);
        IS(interrupts(0), 100);
        falls_asleep(0, waits_for_all, 8192);
        hits = 0;
        if (restart) {
            pthread_kill(sleepers[0].thread, SIGUSR1);
            UNTIL(hits == 1);
            still_asleep(0);
            TELL(sends, 8192, 0);
            IS(wakes(0), 8192);
        } else {
            IS(interrupts(0), -1);
            IS(errno, EINTR);
        }
        close(here->fd);
        kill_peer();
    }
}
static void wait_all_to_the_end(void) {
    meet();
    falls_asleep(0, waits_for_all, 8192);
    TELL(whole, 100, 100);
    still_asleep(0);
    TELL(closes, 0, 0);
    IS(wakes(0), 100);
    IS(takes_by(10, MSG_WAITALL), 0);
}
static void dont_wait(void) {
    meet();
    FAILS(gets(1, MSG_DONTWAIT), EAGAIN);
    TELL(sends, 10, 0);
    IS(takes_by(100, MSG_DONTWAIT), 10);
    FAILS(gets(1, MSG_DONTWAIT), EAGAIN);
    struct mmsghdr m[3] = {0};
    struct iovec v = {B, 4096};
    for (int i = 0; i < 3; i++) m[i].msg_hdr = (struct msghdr){.msg_iov = &v, .msg_iovlen = 1};
    FAILS(recvmmsg(here->fd, m, 3, MSG_DONTWAIT, 0), EAGAIN);
    TELL(sends, 6000, 0);
    IS(recvmmsg(here->fd, m, 3, MSG_DONTWAIT, 0), 2);
    IS(m[0].msg_len, 4096);
    IS(m[1].msg_len, 1904);
    here->in += 6000;
    /* LINUX: recvmmsg(2): MSG_WAITFORONE waits for the first only. */
    TELL(sends, 10, 0);
    IS(recvmmsg(here->fd, m, 3, MSG_WAITFORONE, 0), 1);
    IS(m[0].msg_len, 10);
    here->in += 10;
    CHECK(fcntl(here->fd, F_GETFL) == O_RDWR, "the flag is of one call");
    long n = fills(4096);
    FAILS(send(here->fd, B, 4096, MSG_DONTWAIT), EAGAIN);
    TELL(takes, n, 0);
    sends(100);
    TELL(takes, 100, 0);
}
/* LINUX: af_unix.c: MSG_TRUNC means nothing on a stream, neither do MSG_MORE, MSG_EOR and MSG_CONFIRM of a writer. */
static void flags_without_meaning(void) {
    if (is_tcp()) return;
    static const int some[] = {MSG_MORE, MSG_EOR, MSG_CONFIRM, MSG_DONTROUTE, MSG_NOSIGNAL};
    meet();
    TELL(sends, 100, 0);
    IS(takes_by(30, MSG_TRUNC), 30);
    struct iovec v = {B, 20};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    IS(recvmsg(here->fd, &m, MSG_TRUNC), 20);
    IS(m.msg_flags & MSG_TRUNC, 0);
    same(B, 20, here->in);
    here->in += 20;
    IS(unread(), 50);
    IS(gets(60, MSG_TRUNC | MSG_PEEK), 50);
    takes(50);
    for (int i = 0; i < 5; i++) {
        struct iovec part = {(void *)at(here->out + 1000), 500};
        struct msghdr one = {.msg_iov = &part, .msg_iovlen = 1};
        IS(send(here->fd, at(here->out), 1000, some[i]), 1000);
        IS(sendmsg(here->fd, &one, some[i]), 500);
        here->out += 1500;
        TELL(takes, 1500, 0);
    }
}
/* LINUX: af_unix.c: one byte out of band; a read stops before it, and SIOCATMARK tells. */
static long sends_oob(long none) {
    ssize_t n = send(here->fd, at(here->out), 1, MSG_OOB);
    if (n == 1) here->out++;
    return n;
}
static void out_of_band(void) {
    unsigned char c;
    int mark = -1;
    meet();
    FAILS(recv(here->fd, &c, 1, MSG_OOB), EINVAL);
    TELL(sends, 10, 0);
    if (tell(sends_oob, 0) < 0) {
        CHECK(errno == EOPNOTSUPP, "MSG_OOB");
        dprintf(1, "skip: no MSG_OOB for UNIX sockets here\n");
        return;
    }
    TELL(sends, 10, 0);
    IS(shows(), POLLIN | POLLOUT | POLLPRI);
    IS(ioctl(here->fd, SIOCATMARK, &mark), 0);
    IS(mark, 0);
    IS(takes_by(100, 0), 10);
    IS(ioctl(here->fd, SIOCATMARK, &mark), 0);
    IS(mark, 1);
    IS(recv(here->fd, &c, 1, MSG_OOB), 1);
    same(&c, 1, here->in);
    here->in++;
    takes(10);
    set_option(here->fd, SO_OOBINLINE, 1);
    TELL(sends, 10, 0);
    TELL(sends_oob, 0, 1);
    TELL(sends, 10, 0);
    IS(takes_by(100, 0), 10);
    IS(takes_by(100, 0), 11);
    TELL(sends, HOT / 4, 0);
    takes(HOT / 4);
}
/* LINUX: manage_oob: a byte out of band that a read has passed over is nothing to read for poll. */
static void passed_over(void) {
    if (is_tcp()) return;
    unsigned char c;
    meet();
    if (tell(sends_oob, 0) < 0) {
        dprintf(1, "skip: no MSG_OOB for UNIX sockets here\n");
        return;
    }
    IS(shows() & POLLIN, POLLIN);
    for (int i = 0; i < 3; i++) {
        FAILS(recv(here->fd, &c, 1, MSG_DONTWAIT), EAGAIN);
        IS(shows() & POLLIN, 0);
    }
    here->in++;
    TELL(sends, HOT / 4, 0);
    takes(HOT / 4);
}
/* LINUX: socket(7): with a time, a wait ends with EAGAIN, or with the part that it has. */
enum { TIME = 60, LEAST = 50 };
static double since;
static int long_enough(void) { return (now() - since) * 1000 >= LEAST; }
static void receive_timeout(void) {
    meet();
    set_time(here->fd, SO_RCVTIMEO, TIME);
    for (int i = 0; i < 3; i++) {
        since = now();
        if (i == 0) FAILS(read(here->fd, B, 10), EAGAIN);
        if (i == 1) FAILS(gets(10, MSG_PEEK), EAGAIN);
        if (i == 2) {
            TELL(sends, 5000, 0);
            IS(takes_by(8192, MSG_WAITALL), 5000);
        }
        CHECK(long_enough(), "it took %.1f ms, not %d", (now() - since) * 1000, TIME);
        TELL(sends, 5000, 0);
        takes(5000);
    }
    set_time(here->fd, SO_RCVTIMEO, 0);
    falls_asleep(0, waits_for_all, 10);
    TELL(sends, 10, 0);
    IS(wakes(0), 10);
    set_time(here->fd, SO_RCVTIMEO, 15000);
    falls_asleep(0, waits_for_all, 10);
    TELL(sends, 10, 0);
    IS(wakes(0), 10);
    falls_asleep(0, waits_for_all, 10);
    TELL(closes, 0, 0);
    IS(wakes(0), 0);
}
/* LINUX: signal(7): with a time, a handler ends the wait with EINTR, SA_RESTART or not. */
static void timeout_and_a_signal(void) {
    meet();
    handle(SIGUSR1, on, SA_RESTART);
    set_time(here->fd, SO_RCVTIMEO, 15000);
    falls_asleep(0, waits_for_all, 10);
    IS(interrupts(0), -1);
    IS(errno, EINTR);
}
static void send_timeout(void) {
    if (is_tcp()) return;
    meet();
    set_time(here->fd, SO_SNDTIMEO, TIME);
    since = now();
    ssize_t n = write(here->fd, at(here->out), sizeof B);
    CHECK(n > 0 && n < (long)sizeof B && long_enough(), "a part after the time: %zd", n);
    here->out += n;
    TELL(takes, n, 0);
    n = fills(1);
    since = now();
    FAILS(write(here->fd, B, 1), EAGAIN);
    CHECK(long_enough(), "it took %.1f ms, not %d", (now() - since) * 1000, TIME);
    TELL(takes, n, 0);
    set_time(here->fd, SO_SNDTIMEO, 0);
    ask(takes, 500000);
    whole(500000);
    answer();
}
/* A time is the connection's: of both its numbers and processes. */
static void timeouts_are_shared(void) {
    meet();
    int d = dup(here->fd);
    set_time(d, SO_RCVTIMEO, TIME);
    FAILS(read(here->fd, B, 10), EAGAIN);
    pid_t c = child();
    if (!c) {
        FAILS(read(here->fd, B, 10), EAGAIN);
        set_time(here->fd, SO_RCVTIMEO, 0);
        _exit(0);
    }
    REAP0(c);
    falls_asleep(0, waits_for_all, 10);
    TELL(sends, 10, 0);
    IS(wakes(0), 10);
}
/* LINUX: socket(7): the kernel doubles what is asked for, and has a least. */
static void buffer_sizes(void) {
    meet();
    int before = option(here->fd, SO_SNDBUF);
    set_option(here->fd, SO_SNDBUF, 16384);
    IS(option(here->fd, SO_SNDBUF), 32768);
    set_option(here->fd, SO_SNDBUF, 1);
    IS(option(here->fd, SO_SNDBUF), 4608);
    TELL(finds, 0, 0);
    ask(takes, HOT);
    sends(HOT);
    answer();
    IS(option(here->fd, SO_SNDBUF), 4608);
    set_option(here->fd, SO_SNDBUF, before / 2);
    IS(option(here->fd, SO_SNDBUF), before);
    set_option(here->fd, SO_RCVBUF, 8192);
    IS(option(here->fd, SO_RCVBUF), 16384);
    ask(sends, HOT);
    takes(HOT);
    answer();
    IS(option(here->fd, SO_ERROR), 0);
}
/* LINUX: af_unix.c: a read waits until SO_RCVLOWAT bytes have come; poll does not. */
static long reads_some(long n) { return takes_by(n, 0); }
static void low_water(void) {
    if (is_tcp()) return;
    meet();
    set_option(here->fd, SO_RCVLOWAT, 100);
    falls_asleep(0, reads_some, 200);
    TELL(whole, 50, 50);
    UNTIL(!unread());
    still_asleep(0);
    TELL(whole, 70, 70);
    IS(wakes(0), 120);
    TELL(whole, 50, 50);
    IS(shows(), POLLIN | POLLOUT);
    IS(takes_by(200, MSG_DONTWAIT), 50);
    set_option(here->fd, SO_RCVLOWAT, 1);
    TELL(whole, 5, 5);
    IS(takes_by(200, 0), 5);
}
static void counts(void) {
    if (is_tcp()) return;
    meet();
    IS(asked_of(here->fd, FIONREAD), 0);
    IS(asked_of(here->fd, SIOCOUTQ), 0);
    long n = 0;
    for (int i = 1; i < 60; i++) {
        TELL(whole, i * 37, i * 37);
        IS(asked_of(here->fd, FIONREAD), n += i * 37);
        IS(asked_of(here->fd, SIOCINQ), n);
    }
    takes(n - 1);
    IS(unread(), 1);
    takes(1);
    IS(unread(), 0);
    for (int i = 1; i < 20; i++) {
        int before = asked_of(here->fd, SIOCOUTQ);
        whole(1000);
        CHECK(asked_of(here->fd, SIOCOUTQ) > before, "what is unread counts");
        TELL(finds, 0, i * 1000);
    }
    TELL(takes, 18500, 0);
    CHECK(asked_of(here->fd, SIOCOUTQ) > 0, "a part is unread");
    TELL(takes, 500, 0);
    IS(asked_of(here->fd, SIOCOUTQ), 0);
    FAILS(ioctl(here->fd, SIOCATMARK, (void *)8), EFAULT);
    FAILS(ioctl(here->fd, FIONREAD, (void *)8), EFAULT);
    FAILS(ioctl(here->fd, TIOCGWINSZ, B), ENOTTY);
}
/* O_NONBLOCK is the connection's, however it is set, and holds for a call that begins after it. */
static void non_blocking(void) {
    int yes = 1, no = 0;
    meet();
    int d = dup(here->fd);
    for (int i = 0; i < 3; i++) {
        pid_t c = child();
        if (!c) {
            if (i == 0) IS(ioctl(d, FIONBIO, &yes), 0);
            if (i == 1) setfl(d, O_NONBLOCK, 0);
            if (i == 2) IS(ioctl(here->fd, FIONBIO, &yes), 0);
            _exit(0);
        }
        REAP0(c);
        FAILS(read(here->fd, B, 10), EAGAIN);
        FAILS(gets(10, MSG_WAITALL), EAGAIN);
        IS(fcntl(here->fd, F_GETFL), O_RDWR | O_NONBLOCK);
        TELL(sends, 1000, 0);
        takes(1000);
        long n = 0, k;
        while ((k = write(here->fd, at(here->out), PIECE)) > 0) here->out += k, n += k;
        IS(errno, EAGAIN);
        TELL(takes, n, 0);
        IS(ioctl(d, FIONBIO, &no), 0);
        IS(fcntl(here->fd, F_GETFL), O_RDWR);
        falls_asleep(0, waits_for_all, 10);
        setfl(here->fd, O_NONBLOCK, 0);
        still_asleep(0);
        setfl(here->fd, 0, O_NONBLOCK);
        TELL(sends, 10, 0);
        IS(wakes(0), 10);
    }
}
/* LINUX: fcntl(2): O_ASYNC: SIGIO to the owner when bytes come. */
static void asynchronous(void) {
    int yes = 1;
    meet();
    handle(SIGIO, on, SA_RESTART);
    for (int i = 0; i < 2; i++) {
        hits = 0;
        IS(fcntl(here->fd, F_SETOWN, getpid()), 0);
        if (i) IS(ioctl(here->fd, FIOASYNC, &yes), 0);
        else
            setfl(here->fd, O_ASYNC, 0);
        TELL(sends, 100, 0);
        UNTIL(hits);
        takes(100);
        hits = 0;
        TELL(sends, 100, 0);
        UNTIL(hits);
        takes(100);
        setfl(here->fd, 0, O_ASYNC);
    }
    TELL(sends, HOT / 4, 0);
    takes(HOT / 4);
}
UNIX_MAIN(T(peek), T(peek_beside_a_writer), T(peek_waits), T(peek_by_message), T(peek_offset), T(wait_all), T(wait_all_by_message),
          T(wait_all_and_a_signal), T(wait_all_to_the_end), T(dont_wait), T(flags_without_meaning), T(out_of_band), T(passed_over),
          T(receive_timeout), T(timeout_and_a_signal), T(send_timeout), T(timeouts_are_shared), T(buffer_sizes), T(low_water),
          T(counts), T(non_blocking), T(asynchronous))
