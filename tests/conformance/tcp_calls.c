/* Checks: what TCP has and UNIX sockets have not, on hot connections of this host: Nagle's algorithm, corks, bytes out of band, low
 * water, addresses, windows, connections that are made without waiting, dissolved, or made to themselves.
 * Does not check: its ends (tcp_ends.c), what all stream sockets have alike (the unix_*.c programs, which have modes of TCP). */
#define MODES "tcp", "tcp6"
#include "unix_calls.h"
#include <sys/epoll.h>
static int tcp_option(int fd, int what) {
    int v = -1;
    socklen_t n = sizeof v;
    IS(getsockopt(fd, IPPROTO_TCP, what, &v, &n), 0);
    return !!v;
}
static int delay_off(int fd) { return tcp_option(fd, TCP_NODELAY); }
static void set_tcp(int fd, int what, int v) { IS(setsockopt(fd, IPPROTO_TCP, what, &v, sizeof v), 0); }
static long sets_no_delay(long on) { return set_tcp(here->fd, TCP_NODELAY, (int)on), 0; }
static long tells_no_delay(long none) { return delay_off(here->fd); }
static long answers(long n) {
    for (; n > 0; n--) {
        takes(1);
        whole(1);
    }
    return 0;
}
static void asks(long n) {
    ask(answers, n);
    for (long i = 0; i < n; i++) {
        whole(1);
        takes(1);
    }
    IS(answer(), 0);
}
/* An answer that waits for an acknowledgement takes 40 ms: the watchdog ends such a case. */
static void nagle(void) {
    for (int on = 0; on < 4; on++) {
        meet();
        sets_no_delay(on & 1);
        tell(sets_no_delay, on >> 1);
        for (int i = 0; i < 3; i++) {
            asks(400);
            goes_on();
            IS(delay_off(here->fd), on & 1);
            TELL(tells_no_delay, 0, on >> 1);
        }
        /* By calls that are the kernel's, in one direction alone. */
        for (int i = 0; i < 200; i++) {
            char c;
            ask(answers, 1);
            whole(1);
            IS(recv(here->fd, &c, 1, MSG_WAITALL), 1);
            here->in++;
            IS(answer(), 0);
        }
        for (int i = 0; i < 4; i++) {
            sets_no_delay(i & 1);
            IS(delay_off(here->fd), i & 1);
            sends(i & 2 ? 100 : 20000);
            TELL(takes, i & 2 ? 100 : 20000, 0);
            IS(delay_off(here->fd), i & 1);
        }
        goes_on();
        kill_peer();
        close(here->fd);
    }
}
static long sets_cork(long on) { return set_tcp(here->fd, TCP_CORK, (int)on), 0; }
static long tells_cork(long none) { return tcp_option(here->fd, TCP_CORK); }
/* A write with a flag that says nothing here, and that is no ring's. */
static void by_the_kernel(long n) {
    IS(send(here->fd, at(here->out), n, MSG_CONFIRM), n);
    here->out += n;
}
/* What is corked goes at the latest with the cork; and what an end has set it is told, whoever carries its bytes. */
static void corks_some(long by_kernel) {
    for (int i = 0; i < 20; i++) {
        long n = 107 + (i % 3 == 2) * 9000 + by_kernel;
        sets_cork(1);
        IS(tells_cork(0), 1);
        TELL(tells_cork, 0, 0);
        whole(100);
        whole(7);
        IS(tells_cork(0), 1);
        if (by_kernel) by_the_kernel(by_kernel);
        if (i % 3 == 2) sends(9000);
        IS(tells_cork(0), 1);
        sets_cork(0);
        IS(tells_cork(0), 0);
        TELL(takes, n, 0);
        sends(9000);
        TELL(takes, 9000, 0);
    }
}
static void cork(void) {
    for (int corked_first = 0; corked_first < 2; corked_first++) {
        joins(1);
        if (corked_first) {
            sets_cork(1);
            whole(5);
            ask(takes, 5);
            sets_cork(0);
            IS(answer(), 0);
            sets_cork(1);
            IS(tells_cork(0), 1);
        }
        goes_on();
        IS(tells_cork(0), corked_first);
        sets_cork(0);
        for (int i = 0; i < 2; i++) {
            asks(1500);
            corks_some(0);
            corks_some(5);
        }
        sets_cork(1);
        goes_on();
        IS(tells_cork(0), 1);
        /* As far as four bytes are asked for. */
        unsigned char b[4] = {7, 7, 7, 7};
        socklen_t few = 1;
        IS(getsockopt(here->fd, IPPROTO_TCP, TCP_CORK, b, &few), 0);
        CHECK(few == 1 && b[0] == 1 && b[1] == 7, "one byte: %d %d %d", few, b[0], b[1]);
        FAILS(setsockopt(here->fd, IPPROTO_TCP, TCP_CORK, b, 3), EINVAL);
        FAILS(setsockopt(here->fd, IPPROTO_TCP, TCP_CORK, (void *)8, 4), EFAULT);
        kill_peer();
        IS(tells_cork(0), 1);
        close(here->fd);
    }
}
/* After a call that the kernel has carried out the socket is corked again, as the program has it. */
static void stays_corked(void) {
    int unsent = 0;
    meet();
    asks(600);
    sets_cork(1);
    sends(HOT);
    TELL(takes, HOT, 0);
    for (int i = 0; i < 50 && unsent != 5; i++) {
        by_the_kernel(5);
        unsent = asked_of(here->fd, SIOCOUTQNSD);
        IS(tells_cork(0), 1);
        TELL(takes, 5, 0);
    }
    IS(unsent, 5);
    by_the_kernel(5);
    sets_cork(0);
    IS(asked_of(here->fd, SIOCOUTQNSD), 0);
    TELL(takes, 5, 0);
    goes_on();
}
/* As a web server does with its headers: an answer that waits takes 40 ms, or 200, and the watchdog ends such a case. */
static long answers_corked(long n) {
    for (; n > 0; n--) {
        takes(1);
        sets_no_delay(0);
        sets_cork(1);
        whole(100);
        whole(7);
        sets_cork(0);
        sets_no_delay(n & 1);
    }
    return 0;
}
static long answers_with_more(long n) {
    for (; n > 0; n--) {
        struct iovec v = {(void *)at(here->out + 100), 5};
        struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
        takes(1);
        IS(send(here->fd, at(here->out), 100, MSG_MORE), 100);
        IS(sendmsg(here->fd, &m, MSG_MORE | MSG_NOSIGNAL), 5);
        here->out += 105;
        whole(2);
    }
    return 0;
}
static void at_once(task *answers_so) {
    enum { ROUNDS = 1000 };
    for (int waits = 0; waits < 2; waits++) {
        meet();
        ask(answers_so, ROUNDS);
        for (int i = 0; i < ROUNDS; i++) {
            whole(1);
            if (waits) IS(events(here->fd, POLLIN, 5000), POLLIN);
            takes(107);
        }
        IS(answer(), 0);
        TELL(tells_cork, 0, 0);
        goes_on();
        kill_peer();
        close(here->fd);
    }
}
static void corked_answers(void) { at_once(answers_corked); }
static void answers_in_parts(void) { at_once(answers_with_more); }
/* One thread corks and uncorks, while another writes and the bytes change hands: in the end it is uncorked. */
static void *corks_on(void *until) {
    while (!__atomic_load_n((int *)until, __ATOMIC_RELAXED))
        for (int on = 1; on >= 0; on--) sets_cork(on);
    return 0;
}
static void corks_beside_a_writer(void) {
    for (int i = 0; i < 6; i++) {
        pthread_t t;
        int until = 0;
        meet();
        asks(600);
        IS(pthread_create(&t, 0, corks_on, &until), 0);
        asks(20);
        by_the_kernel(5);
        TELL(takes, 5, 0);
        asks(1500);
        by_the_kernel(5);
        __atomic_store_n(&until, 1, __ATOMIC_RELAXED);
        pthread_join(t, 0);
        TELL(takes, 5, 0);
        IS(tells_cork(0), 0);
        by_the_kernel(5);
        IS(asked_of(here->fd, SIOCOUTQNSD), 0);
        TELL(takes, 5, 0);
        kill_peer();
        close(here->fd);
    }
}
static void more_is_to_come(void) {
    meet();
    for (int i = 0; i < 40; i++) {
        IS(send(here->fd, at(here->out), 100, MSG_MORE), 100);
        here->out += 100;
        if (i & 1) sends(30000);
        whole(3);
        TELL(takes, 103 + (i & 1) * 30000, 0);
        IS(send(here->fd, at(here->out), 9, MSG_MORE), 9);
        here->out += 9;
        ask(takes, 9); /* it comes after 200 ms, or with the next ones */
        if (i % 8) whole(1);
        IS(answer(), 0);
        if (i % 8) TELL(takes, 1, 0);
    }
    goes_on();
}
static long takes_urgent(long none) {
    char c = 0;
    IS(recv(here->fd, &c, 1, MSG_OOB), 1);
    return c;
}
static void out_of_band(void) {
    meet();
    for (int i = 0; i < 10; i++) {
        sends(5000);
        IS(send(here->fd, "!", 1, MSG_OOB), 1);
        sends(300);
        TELL(takes, 5000, 0);
        TELL(takes_urgent, 0, '!');
        TELL(takes, 300, 0);
        sends(20000);
        TELL(takes, 20000, 0);
    }
    goes_on();
}
/* LINUX tcp(7): poll obeys SO_RCVLOWAT. */
static void low_water(void) {
    meet();
    set_option(here->fd, SO_RCVLOWAT, 1000);
    TELL(sends, 500, 0);
    UNTIL(unread() == 500);
    IS(shows() & POLLIN, 0);
    TELL(sends, 500, 0);
    UNTIL(shows() & POLLIN);
    takes(1000);
    set_option(here->fd, SO_RCVLOWAT, 1);
    goes_on();
}
/* Both ends of a connection that a child made: hot in both directions. */
static void heats_both(int fd, pid_t c) {
    static unsigned char b[4096];
    long pos = 0, total = WARM, k;
    if (!c) {
        for (; pos < total; pos += k) {
            k = read(fd, b, sizeof b);
            CHECK(k > 0, "read gave %ld", k);
            same(b, k, pos);
            write_all(fd, at(pos), k);
        }
        _exit(0);
    }
    for (; pos < total; pos += 4096) {
        write_all(fd, at(pos), 4096);
        for (long had = 0; had < 4096; had += k) {
            k = read(fd, b, 4096 - had);
            CHECK(k > 0, "read gave %ld", k);
            same(b, k, pos + had);
        }
    }
    AT_EOF(fd);
    REAP0(c);
    close(fd);
}
static int listens_at(const address *a, socklen_t n, int *port) {
    address b = *a;
    int l = socket(a->any.sa_family, SOCK_STREAM, 0), off = 0;
    if (a->any.sa_family == AF_INET6) IS(setsockopt(l, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off), 0);
    CHECK(l >= 0 && !bind(l, &b.any, n) && !listen(l, 8), "bind and listen");
    IS(getsockname(l, &b.any, &n), 0);
    *port = a->any.sa_family == AF_INET6 ? b.in6.sin6_port : b.in.sin_port;
    return l;
}
static address v4(uint32_t host, int port) {
    return (address){.in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(host), .sin_port = (in_port_t)port}};
}
/* IPv4 by an IPv6 listener; from another address of the loopback network; to no address at all, which is this host. */
static void addresses(void) {
    address any6 = {.in6 = {.sin6_family = AF_INET6}}, any = v4(0, 0);
    int six = mode_is("tcp6"), port;
    for (int way = 0; way < 3; way++) {
        int l = listens_at(six ? &any6 : &any, six ? sizeof any6.in6 : sizeof any.in, &port);
        pid_t c = child();
        if (c) {
            int fd = accept(l, 0, 0);
            CHECK(fd >= 0, "accept");
            close(l);
            heats_both(fd, c);
            continue;
        }
        int s = socket(AF_INET, SOCK_STREAM, 0);
        address own = v4(0x7f000002, 0), to = v4(way == 2 ? 0 : 0x7f000001, port);
        if (way == 1) IS(bind(s, &own.any, sizeof own.in), 0);
        IS(connect(s, &to.any, sizeof to.in), 0);
        heats_both(s, 0);
    }
}
static void without_waiting(void) {
    for (int way = 0; way < 4; way++) {
        address a;
        socklen_t n;
        int l = listens(&a, &n);
        pid_t c = child();
        if (c) {
            int fd = accept(l, 0, 0);
            CHECK(fd >= 0, "accept");
            close(l);
            heats_both(fd, c);
            continue;
        }
        int s = socket(family(), SOCK_STREAM | SOCK_NONBLOCK, 0), e = epoll_create1(0);
        struct epoll_event v = {.events = EPOLLOUT | (way == 2 ? EPOLLET : 0)};
        if (way == 3) IS(epoll_ctl(e, EPOLL_CTL_ADD, s, &v), 0);
        int k = connect(s, &a.any, n);
        CHECK(!k || errno == EINPROGRESS, "connect");
        if (way == 0) IS(events(s, POLLOUT, 5000), POLLOUT);
        if (way == 1) UNTIL(!connect(s, &a.any, n) || errno == EISCONN);
        if (way == 2) IS(epoll_ctl(e, EPOLL_CTL_ADD, s, &v), 0);
        if (way >= 2) IS(epoll_wait(e, &v, 1, 5000), 1);
        IS(option(s, SO_ERROR), 0);
        setfl(s, 0, O_NONBLOCK);
        heats_both(s, 0);
    }
}
static void refused(void) {
    address a;
    socklen_t n;
    close(listens(&a, &n));
    int s = socket(family(), SOCK_STREAM, 0);
    FAILS(connect(s, &a.any, n), ECONNREFUSED);
    FAILS(send(s, "x", 1, MSG_NOSIGNAL), EPIPE);
    close(s);
}
/* LINUX connect(2): AF_UNSPEC dissolves the connection, and the socket makes another one. */
static void dissolved(void) {
    address a, none = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t n;
    meet();
    TELL(sends, 5000, 0);
    int l = listens(&a, &n);
    IS(connect(here->fd, &none.any, sizeof none.any), 0);
    FAILS(send(here->fd, "x", 1, MSG_NOSIGNAL), ECONNRESET);
    kill_peer();
    pid_t c = child();
    if (!c) {
        close(l);
        IS(connect(here->fd, &a.any, n), 0);
        heats_both(here->fd, 0);
    }
    int fd = accept(l, 0, 0);
    CHECK(fd >= 0, "accept");
    close(here->fd);
    heats_both(fd, c);
}
/* A connection of one socket with itself. */
static void with_itself(void) {
    address a;
    socklen_t n = name(&a, 0);
    int s = socket(family(), SOCK_STREAM, 0);
    IS(bind(s, &a.any, n), 0);
    IS(getsockname(s, &a.any, &n), 0);
    IS(connect(s, &a.any, n), 0);
    for (long pos = 0; pos < HOT; pos += 500) {
        write_all(s, at(pos), 500);
        unsigned char b[500];
        IS(recv(s, b, 500, MSG_WAITALL), 500);
        same(b, 500, pos);
    }
    close(s);
}
/* Megabytes that nobody reads: then EAGAIN and no POLLOUT, until they are read. */
static void much(void) {
    meet();
    long n = fills(30000);
    UNTIL(!(shows() & POLLOUT));
    TELL(takes, n, 0);
    UNTIL(shows() & POLLOUT);
    goes_on();
}
/* LINUX tcp(7): sendto and recvfrom take a name, which says nothing. */
static void names_in_calls(void) {
    static unsigned char b[4000];
    address a = {0};
    socklen_t n = 0;
    meet();
    for (int i = 0; i < 200; i++) {
        a.any.sa_family = i % 3;
        IS(sendto(here->fd, at(here->out), 1000, 0, i % 2 ? &a.any : 0, i % 128), 1000);
        here->out += 1000;
        TELL(takes, 1000, 0);
        TELL(whole, 1000, 1000);
        n = i % 100;
        memset(&a, 7, sizeof a);
        IS(recvfrom(here->fd, b, 1000, 0, &a.any, &n), 1000);
        same(b, 1000, here->in);
        here->in += 1000;
        IS(n, 0);
        IS(a.any.sa_family, 0x0707);
    }
    FAILS(sendto(here->fd, b, 10, 0, &a.any, 129), EINVAL);
    FAILS(sendto(here->fd, b, 10, 0, (void *)8, 16), EFAULT);
    TELL(whole, 10, 10);
    n = 16;
    IS(recvfrom(here->fd, b, 10, MSG_PEEK, &a.any, &n), 10);
    IS(n, 0);
    takes(10);
    n = 16;
    FAILS(recvfrom(here->fd, b, 10, MSG_DONTWAIT, &a.any, &n), EAGAIN);
    IS(n, 16);
    TELL(closes, 0, 0);
    IS(recvfrom(here->fd, b, 10, 0, &a.any, &n), 0);
    IS(n, 0);
}
/* A reader's buffer of a few KiB: the writer's takes less than half of what it is shown as. What is written ends, though nobody
 * reads, and comes whole. */
static long narrows(long bytes) { return setsockopt(here->fd, SOL_SOCKET, SO_RCVBUF, &(int){bytes}, sizeof(int)); }
static void fills_and_ends(void) {
    long n = fills(PIECE);
    IS(shutdown(here->fd, SHUT_WR), 0);
    TELL(takes, n, 0);
    TELL(takes_most, 1, 0);
}
static void small_window(void) {
    receive_buffer = 1;
    send_buffer = 65500;
    meet();
    fills_and_ends();
}
/* The same, where it gets small afterwards. */
static void smaller_window(void) {
    send_buffer = 65500;
    meet();
    TELL(narrows, 16384, 0);
    ask(takes, 64 << 10);
    sends(64 << 10);
    answer();
    fills_and_ends();
}
UNIX_MAIN(T(small_window), T(smaller_window), T(nagle), T(cork), T(stays_corked),
          T(corked_answers), T(answers_in_parts), T(corks_beside_a_writer), T(more_is_to_come), T(out_of_band), T(low_water), T(addresses), T(names_in_calls), T(without_waiting), T(refused), T(dissolved),
          T(with_itself), T(much))
