/* Checks: datagrams of UDP sockets of one host, by every call: boundaries, order, short buffers, names, looks, readiness, a full
 * receiver, sleepers, and whoever gets or ends a socket that has some unread. Each case before the sockets are hot and after.
 * Does not check: many senders and kills (udp_random.c), which of them are carried (udp.sh). */
#include "udp_calls.h"
static void is_sender(const struct sockaddr_storage *a, socklen_t n) {
    in_port_t p = ((struct sockaddr_in *)&from)->sin_port;
    if (family() == AF_INET) {
        const struct sockaddr_in *b = (void *)a;
        IS(n, sizeof *b);
        IS(b->sin_family, AF_INET);
        IS(b->sin_port, p);
        IS(b->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
        return;
    }
    const struct sockaddr_in6 *b = (void *)a;
    struct in6_addr want = in6addr_loopback;
    if (warm_mode == UDP_MAPPED) inet_pton(AF_INET6, "::ffff:127.0.0.1", &want);
    IS(n, sizeof *b);
    IS(b->sin6_family, AF_INET6);
    IS(b->sin6_port, p);
    IS(memcmp(&b->sin6_addr, &want, sizeof want), 0);
    IS(b->sin6_scope_id, 0);
}
static void boundaries(void) {
    static const size_t sizes[] = {0, 1, 7, 8, 9, 0, 0, 100, 1472, 4096, 8192, 30000, 65500, LONGEST, 1, 0};
    meet();
    for (int round = 0; round < 40; round++)
        for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            put_one(i + round, sizes[i]);
            if (i % 2) {
                get_one(i - 1 + round, sizes[i - 1]);
                get_one(i + round, sizes[i]);
            }
        }
    nothing(R);
    int most = family() == AF_INET6 && warm_mode != UDP_MAPPED ? LONGEST + 20 : LONGEST;
    put_one(3, most);
    get_one(3, most);
    FAILS(sends(B, most + 1), EMSGSIZE);
    FAILS(sends(B, sizeof B), EMSGSIZE);
    put_one(1, 10);
    get_one(1, 10);
}
static void every_call(void) {
    meet();
    for (long i = 0; i < 600; i++) {
        size_t n = 1 + i * 37 % 3000;
        struct iovec v[3] = {{B, n / 3}, {0, 0}, {B + n / 3, n - n / 3}};
        struct msghdr m = {.msg_iov = v, .msg_iovlen = 3};
        struct mmsghdr mm;
        fill(B, n, i);
        if (named()) m.msg_name = &to, m.msg_namelen = to_len;
        mm.msg_hdr = m;
        int how = named() ? 2 + i % 3 : i % 5;
        switch (how) {
        case 0: IS(write(S, B, n), n); break;
        case 1: IS(writev(S, v, 3), n); break;
        case 2: IS(sendto(S, B, n, MSG_NOSIGNAL, named() ? (void *)&to : 0, named() ? to_len : 0), n); break;
        case 3: IS(sendmsg(S, &m, 0), n); break;
        case 4: IS(sendmmsg(S, &mm, 1, 0), 1); IS(mm.msg_len, n); break;
        }
        struct sockaddr_storage a;
        socklen_t al = sizeof a;
        struct iovec w[2] = {{C, 5}, {C + 5, sizeof C - 5}};
        struct msghdr g = {.msg_name = &a, .msg_namelen = sizeof a, .msg_iov = w, .msg_iovlen = 2, .msg_flags = 77};
        memset(C, 0, n);
        switch (i % 7) {
        case 0: IS(read(R, C, sizeof C), n); break;
        case 1: IS(readv(R, w, 2), n); break;
        case 2: IS(recv(R, C, sizeof C, MSG_WAITALL), n); break;
        case 3: IS(recvfrom(R, C, sizeof C, 0, (void *)&a, &al), n); is_sender(&a, al); break;
        case 4:
            IS(recvmsg(R, &g, 0), n);
            is_sender(&a, g.msg_namelen);
            IS(g.msg_flags, 0);
            IS(g.msg_controllen, 0);
            break;
        case 5: IS(recv(R, C, sizeof C, MSG_TRUNC | MSG_DONTWAIT), n); break;
        case 6: mm.msg_hdr = g; IS(recvmmsg(R, &mm, 1, 0, 0), 1); IS(mm.msg_len, n); break;
        }
        verify(C, n, i);
    }
    nothing(R);
}
static void short_buffers(void) {
    struct iovec v = {C, 10};
    struct sockaddr_storage a;
    memset(&a, 0x55, sizeof a);
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_name = &a, .msg_namelen = 3};
    meet();
    for (long i = 0; i < 6; i++) put_one(i, 1000 + i);
    IS(recv(R, C, 10, 0), 10);
    verify(C, 10, 0);
    IS(recv(R, C, 10, MSG_TRUNC), 1001);
    IS(recvmsg(R, &m, 0), 10);
    IS(m.msg_flags, MSG_TRUNC);
    IS(m.msg_namelen, family() == AF_INET ? 16 : 28);
    IS(((unsigned char *)&a)[3], 0x55);
    m.msg_name = 0;
    IS(recvmsg(R, &m, MSG_TRUNC), 1003);
    IS(m.msg_flags, MSG_TRUNC);
    IS(recv(R, C, 0, 0), 0); /* takes it */
    IS(read(R, C, 0), 0);    /* takes none */
    get_one(5, 1005);
    nothing(R);
}
static void looks(void) {
    int n;
    meet();
    nothing(R);
    IS(events(R, POLLIN | POLLOUT, 0), POLLOUT);
    IS(ioctl(R, FIONREAD, &n), 0);
    IS(n, 0);
    for (long i = 0; i < 3; i++) put_one(i, 50 + i);
    for (long i = 0; i < 3; i++) {
        IS(recv(R, C, sizeof C, MSG_PEEK), 50 + i);
        verify(C, 50 + i, i);
        IS(recv(R, C, 5, MSG_PEEK | MSG_TRUNC), 50 + i);
        IS(ioctl(R, FIONREAD, &n), 0);
        IS(n, 50 + i);
        IS(events(R, POLLIN | POLLOUT, 0), POLLIN | POLLOUT);
        fd_set s;
        FD_ZERO(&s);
        FD_SET(R, &s);
        struct timeval z = {0, 0};
        IS(select(R + 1, &s, 0, 0, &z), 1);
        CHECK(FD_ISSET(R, &s), "select must show it");
        get_one(i, 50 + i);
    }
    nothing(R);
    IS(events(R, POLLIN, 0), 0);
    put_one(9, 0); /* an empty one is readable */
    IS(events(R, POLLIN, 0), POLLIN);
    get_one(9, 0);
}
static void in_a_set(void) {
    struct epoll_event e = {EPOLLIN, {.u64 = 7}};
    meet();
    int p = epoll_create1(0);
    for (long i = 0; i < 5; i++) put_one(i, 100 + i);
    IS(epoll_ctl(p, EPOLL_CTL_ADD, R, &e), 0);
    for (long i = 0; i < 10; i++) {
        IS(epoll_wait(p, &e, 1, 1000), 1);
        IS(e.data.u64, 7);
        get_one(i, 100 + i);
        if (i < 5) put_one(i + 5, 105 + i);
    }
    IS(epoll_wait(p, &e, 1, 0), 0);
    nothing(R);
}
static void full(void) {
    long sent = 0, got = 0, last = -1;
    meet();
    for (; sent < 3000; sent++) put_one(sent, 1000); /* more than any receiver has room for: the rest is lost, and nobody waits */
    for (ssize_t k; (k = recv(R, C, sizeof C, MSG_DONTWAIT)) >= 0; got++) {
        IS(k, 1000);
        long i = last + 1;
        while (i < sent && C[0] != pat(i)) i++;
        verify(C, 1000, i);
        last = i;
    }
    CHECK(got >= 80 && got < sent, "%ld of %ld came", got, sent);
    put_one(5, 10);
    get_one(5, 10);
}
static void *sends_late(void *n) {
    sleep_ms(60);
    for (long i = 0; i < (long)n; i++) put_one(i, 33);
    return 0;
}
static void sleeps(void) {
    pthread_t t;
    struct timeval tv = {0, 50000};
    meet();
    for (int k = 0; k < 4; k++) {
        pthread_create(&t, 0, sends_late, (void *)20L);
        if (k == 1) IS(events(R, POLLIN, 2000), POLLIN);
        if (k == 2) {
            fd_set s;
            FD_ZERO(&s);
            FD_SET(R, &s);
            IS(select(R + 1, &s, 0, 0, 0), 1);
        }
        for (long i = 0; i < 20; i++) get_one(i, 33);
        pthread_join(t, 0);
    }
    setsockopt(R, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    double t0 = now();
    FAILS(recv(R, C, 10, 0), EAGAIN);
    CHECK(now() - t0 > 0.045, "it must wait");
    put_one(3, 10);
    get_one(3, 10);
}
static void on_alarm(int s) {}
static void interrupts(void) {
    struct itimerval t = {{0, 0}, {0, 40000}};
    meet();
    handle(SIGALRM, on_alarm, 0);
    setitimer(ITIMER_REAL, &t, 0);
    FAILS(recv(R, C, 10, 0), EINTR);
    put_one(4, 10);
    get_one(4, 10);
    handle(SIGALRM, on_alarm, SA_RESTART);
    setitimer(ITIMER_REAL, &t, 0);
    pthread_t p;
    pthread_create(&p, 0, sends_late, (void *)1L);
    get_one(0, 33);
    pthread_join(p, 0);
    handle(SIGALRM, SIG_DFL, 0);
}
static void is_closed(void) {
    struct sockaddr_storage a = to;
    meet();
    a = to;
    for (long i = 0; i < 3; i++) put_one(i, 10);
    close(R);
    UNTIL((named() ? sendto(S, B, 1, 0, (void *)&to, to_len) : send(S, B, 1, 0)) < 0 || named());
    R = udp(family());
    if (warm_mode == UDP_MAPPED) {
        struct sockaddr_in6 b = {.sin6_family = AF_INET6, .sin6_port = ((struct sockaddr_in *)&a)->sin_port};
        IS(bind(R, (void *)&b, sizeof b), 0);
    } else
        IS(bind(R, (void *)&a, to_len), 0);
    nothing(R);
    UNTIL((sends("new", 3), recv(R, C, sizeof C, MSG_DONTWAIT)) == 3);
}
static void forks(void) {
    meet();
    for (long i = 0; i < 6; i++) put_one(i, 20 + i);
    pid_t c = child();
    if (!c) {
        for (long i = 0; i < 3; i++) get_one(i, 20 + i);
        _exit(0);
    }
    REAP0(c);
    for (long i = 3; i < 6; i++) get_one(i, 20 + i);
    c = child();
    if (!c) {
        for (long i = 0; i < 120; i++) put_one(i, 20);
        _exit(0);
    }
    for (long i = 0; i < 120; i++) get_one(i, 20);
    REAP0(c);
    nothing(R);
}
/* a program that may take no part reads what is unread */
static void execs(void) {
    const char *cat = neighbour("static_cat");
    int p[2];
    if (!cat) return;
    meet();
    for (long i = 0; i < 5; i++) put_one(i, 100);
    IS(pipe(p), 0);
    pid_t c = child();
    if (!c) {
        dup2(R, 0);
        dup2(p[1], 1);
        execl(cat, cat, (char *)0);
        _exit(9);
    }
    close(p[1]);
    for (long i = 0; i < 5; i++) {
        IS(read_n(p[0], C, 100), 100);
        verify(C, 100, i);
    }
    put_one(5, 100);
    IS(read_n(p[0], C, 100), 100);
    put_one(6, 0); /* the end, for one that reads a stream */
    REAP0(c);
}
/* a program that may take no part sends by the socket, behind what its reader has not read */
static void execs_to_send(void) {
    const char *cat = neighbour("static_cat");
    static int reads;
    int p[2];
    if (!cat) return;
    meet();
    if (named()) return; /* it can send to no name */
    IS(pipe(p), 0);
    pid_t c = child();
    if (!c) {
        for (long i = 0; i < 120 + reads; i++) put_one(i, 10); /* hot, and its own */
        for (long i = 0; i < 5; i++) put_one(i, 10);
        dup2(p[0], 0);
        dup2(S, 1);
        close(p[1]);
        execl(cat, cat, (char *)0);
        _exit(9);
    }
    for (long i = 0; i < 120 + reads; i++) get_one(i, 10);
    fill(B, 10, 5);
    IS(write(p[1], B, 10), 10);
    close(p[1]);
    close(p[0]);
    REAP0(c);
    for (long i = 0; i < 6; i++) get_one(i, 10);
    nothing(R);
    close(R);
    close(S);
    if (++reads < 16) execs_to_send();
}
static void is_passed(void) {
    int u[2], fd;
    char c[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec v = {B, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = sizeof c};
    meet();
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, u), 0);
    for (long i = 0; i < 5; i++) put_one(i, 100);
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    *h = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(h), &R, sizeof fd);
    pid_t p = child();
    if (!p) {
        close(R);
        IS(recvmsg(u[1], &m, 0), 1);
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
        R = fd;
        for (long i = 0; i < 105; i++) get_one(i, 100);
        _exit(0);
    }
    IS(sendmsg(u[0], &m, 0), 1);
    for (long i = 5; i < 105; i++) put_one(i, 100);
    REAP0(p);
}
static void is_duplicated(void) {
    meet();
    for (long i = 0; i < 3; i++) put_one(i, 10);
    int d = dup(R);
    get_one_(__LINE__, d, 0, 10);
    get_one(1, 10);
    close(R);
    get_one_(__LINE__, d, 2, 10);
    for (long i = 0; i < 200; i++) {
        put_one(i, 10);
        get_one_(__LINE__, d, i, 10);
    }
    nothing(d);
}
/* from then on it hears one sender alone; what came before is there */
static void connects(void) {
    int other = udp(warm_mode == UDP_MAPPED ? AF_INET : family());
    meet();
    put_one(1, 10);
    struct sockaddr_storage a = from;
    socklen_t n = from_len;
    if (warm_mode == UDP_MAPPED) {
        struct sockaddr_in6 b = {.sin6_family = AF_INET6, .sin6_port = ((struct sockaddr_in *)&from)->sin_port};
        inet_pton(AF_INET6, "::ffff:127.0.0.1", &b.sin6_addr);
        memcpy(&a, &b, n = sizeof b);
    } else if (named()) /* from no address of its own */
        ((struct sockaddr_in *)&a)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    IS(connect(R, (void *)&a, n), 0);
    get_one(1, 10);
    sendto(other, B, 5, 0, (void *)&to, to_len);
    put_one(2, 10);
    get_one(2, 10);
    nothing(R);
}
/* what asks for more than bytes is the kernel's to say, also of what came before */
static void asks_for_more(void) {
    int on = 1;
    char c[256];
    struct iovec v = {C, sizeof C};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = sizeof c};
    meet();
    for (long i = 0; i < 3; i++) put_one(i, 10);
    if (family() == AF_INET) IS(setsockopt(R, IPPROTO_IP, IP_PKTINFO, &on, sizeof on), 0);
    else IS(setsockopt(R, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on), 0);
    for (long i = 0; i < 3; i++) {
        m.msg_controllen = sizeof c;
        IS(recvmsg(R, &m, 0), 10);
        verify(C, 10, i);
        CHECK(CMSG_FIRSTHDR(&m), "it must say where it came in");
    }
}
/* a send with more than bytes among others stays in its place */
static void says_more(void) {
    char c[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec v = {B, 10};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = sizeof c};
    int six = family() == AF_INET6 && warm_mode != UDP_MAPPED, ttl = 9;
    meet();
    if (named()) m.msg_name = &to, m.msg_namelen = to_len;
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_len = CMSG_LEN(sizeof ttl);
    h->cmsg_level = six ? IPPROTO_IPV6 : IPPROTO_IP;
    h->cmsg_type = six ? IPV6_HOPLIMIT : IP_TTL;
    memcpy(CMSG_DATA(h), &ttl, sizeof ttl);
    pid_t p = child();
    if (!p) {
        for (long i = 0; i < 120; i++) get_one(i, 10);
        _exit(0);
    }
    for (long i = 0; i < 120; i++)
        if (i % 7 == 3) {
            fill(B, 10, i);
            IS(sendmsg(S, &m, 0), 10);
        } else
            put_one(i, 10);
    REAP0(p);
}
/* a datagram in two parts, among whole ones; a reader looks at the kernel's queue once in so many reads: after any number of them */
static void in_parts(void) {
    static int reads;
    meet();
    for (long i = 0; i < reads; i++) {
        put_one(i, 10);
        get_one(i, 10);
    }
    for (long i = 0; i < 5; i++) put_one(i, 10);
    fill(B, 30, 5);
    IS(sendto(S, B, 10, MSG_MORE, named() ? (void *)&to : 0, named() ? to_len : 0), 10);
    IS(sendto(S, B + 10, 20, 0, named() ? (void *)&to : 0, named() ? to_len : 0), 20);
    put_one(6, 10);
    for (long i = 0; i < 7; i++) get_one(i, i == 5 ? 30 : 10);
    nothing(R);
    close(R);
    close(S);
    if (++reads < 16) in_parts();
}
static void sender_goes(void) {
    meet();
    int p[2];
    IS(pipe(p), 0);
    pid_t c = child();
    if (!c) {
        for (long i = 0; i < 200; i++) { /* hot, and its own */
            put_one(i, 10);
            get_one(i, 10);
        }
        for (long i = 0; i < 5; i++) put_one(i, 10);
        write(p[1], "x", 1);
        pause();
    }
    IS(read(p[0], B, 1), 1);
    kill(c, SIGKILL);
    reap(c);
    for (long i = 0; i < 5; i++) get_one(i, 10);
    nothing(R);
    put_one(9, 10);
    get_one(9, 10);
}
static void reader_is_killed(void) {
    meet();
    pid_t c = child();
    int keep = S;
    if (!c) {
        for (;;) recv(R, C, sizeof C, 0);
    }
    close(R);
    for (int i = 0; i < 500; i++) IS(sends(B, 100), 100);
    kill(c, SIGKILL);
    reap(c);
    if (named()) return;
    double t = now();
    for (int refused = 0; !refused;) {
        CHECK(now() - t < 5, "it must be refused");
        refused = send(keep, B, 10, 0) < 0;
        CHECK(!refused || errno == ECONNREFUSED, "refused");
        usleep(300);
    }
}
/* an error that waits, and datagrams that came before it */
static void is_refused(void) {
    meet();
    if (named() || warm_mode == UDP_MAPPED) return; /* the one is not connected, and the other is of another family */
    for (long i = 0; i < RTTS; i++) {
        fill(B, 30, i);
        IS(sendto(R, B, 30, 0, (void *)&from, from_len), 30);
        if (i < RTTS - 3) get_one_(__LINE__, S, i, 30);
    }
    close(R);
    IS(send(S, B, 10, 0), 10);
    int e = 0;
    socklen_t n = sizeof e;
    UNTIL(events(S, POLLIN, 0) & POLLERR);
    IS(getsockopt(S, SOL_SOCKET, SO_ERROR, &e, &n), 0);
    IS(e, ECONNREFUSED);
    for (long i = RTTS - 3; i < RTTS; i++) get_one_(__LINE__, S, i, 30);
    nothing(S);
    IS(send(S, B, 10, 0), 10);
    FAILS(send(S, B, 10, 0), ECONNREFUSED);
}
static void connects_elsewhere(void) {
    meet();
    if (named()) return;
    put_one(1, 10);
    int r = R;
    struct sockaddr_storage a;
    socklen_t n;
    R = udp(family());
    bind_any_port(R, family());
    name_of(R, &a, &n);
    if (warm_mode == UDP_MAPPED) {
        ((struct sockaddr_in *)&to)->sin_port = ((struct sockaddr_in6 *)&a)->sin6_port;
        a = to;
        n = to_len;
    }
    IS(connect(S, (void *)&a, n), 0);
    for (long i = 0; i < 300; i++) {
        put_one(i, 20);
        get_one(i, 20);
    }
    get_one_(__LINE__, r, 1, 10);
    nothing(r);
}
static volatile int stop;
static void *reads(void *n) {
    long *got = n;
    char b[64];
    while (!stop)
        if (recv(R, b, sizeof b, 0) == 40) ++*got;
    return 0;
}
static void two_readers(void) {
    pthread_t t[2];
    static long got[2];
    meet();
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, reads, &got[i]);
    for (long i = 0; i < 5000; i++) {
        put_one(i, 40);
        if (i % 8 == 7) {
            long want = i + 1;
            UNTIL(__atomic_load_n(&got[0], __ATOMIC_RELAXED) + __atomic_load_n(&got[1], __ATOMIC_RELAXED) == want);
        }
    }
    stop = 1;
    for (int i = 0; i < 2; i++) sends(B, 1);
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
}
static void bad_addresses(void) {
    meet();
    FAILS(named() ? sendto(S, (void *)16, 10, 0, (void *)&to, to_len) : send(S, (void *)16, 10, 0), EFAULT);
    put_one(1, 10);
    FAILS(recv(R, (void *)16, 10, 0), EFAULT); /* it is gone */
    put_one(2, 10);
    get_one(2, 10);
    nothing(R);
}
MAIN({"boundaries", boundaries}, {"every_call", every_call}, {"short_buffers", short_buffers}, {"looks", looks}, {"in_a_set", in_a_set},
     {"full", full}, {"sleeps", sleeps}, {"interrupts", interrupts}, {"is_closed", is_closed}, {"forks", forks}, {"execs", execs},
     {"execs_to_send", execs_to_send},
     {"is_passed", is_passed}, {"is_duplicated", is_duplicated}, {"connects", connects}, {"asks_for_more", asks_for_more},
     {"says_more", says_more}, {"in_parts", in_parts}, {"sender_goes", sender_goes}, {"reader_is_killed", reader_is_killed},
     {"is_refused", is_refused}, {"connects_elsewhere", connects_elsewhere}, {"two_readers", two_readers}, {"bad_addresses", bad_addresses})
