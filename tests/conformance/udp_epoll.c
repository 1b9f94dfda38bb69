/* Checks: UDP sockets in sets of epoll's: by level, by edge, told once, changed, taken out, closed, with another number, in another
 * process, beside a pipe with room for one, put in before they are hot, in two sets, by threads. Datagrams of both lanes, in order.
 * Does not check: many senders and kills (udp_random.c); which of them are carried (udp.sh). */
#include "udp_calls.h"
#include "epoll_calls.h"
/* the socket that receives, in a set, and hot where the mode says so */
static int a_set(uint32_t events) {
    meet();
    return set_of(R, events);
}
static void by_level(void) {
    int e = a_set(EPOLLIN);
    IS(told(WAIT, e, 0), 0);
    for (long i = 0; i < 60; i++) {
        int n = 1 + i % 3;
        for (int k = 0; k < n; k++) put_one(i + k, k ? 100 : i % 2 * 50);
        for (int k = 0; k < n; k++) {
            IS(told(i % CALLS, e, 0), EPOLLIN);
            IS(told(i % CALLS, e, -1), EPOLLIN);
            get_one(i + k, k ? 100 : i % 2 * 50);
        }
        IS(told(i % CALLS, e, 0), 0);
        if (i % 10 == 0) IS(told(i % CALLS, e, 2), 0);
    }
    nothing(R);
}
/* An event for each datagram that has come since the last, and none for what was told. */
static void by_edge(void) {
    int e = a_set(EPOLLIN | EPOLLET);
    IS(told(WAIT, e, 0), 0);
    for (long i = 0; i < 60; i++) {
        put_one(i, 100);
        IS(told(i % CALLS, e, i % 2 ? -1 : 0), EPOLLIN);
        IS(told(i % CALLS, e, 0), 0);
        put_one(i + 1, 100);
        put_one(i + 2, 100);
        IS(told(i % CALLS, e, i % 2 ? 100 : 0), EPOLLIN);
        IS(told(i % CALLS, e, 0), 0);
        get_one(i, 100);
        IS(told(i % CALLS, e, 0), 0);
        put_one(i + 3, 100);
        IS(told(i % CALLS, e, 0), EPOLLIN);
        for (int k = 1; k < 4; k++) get_one(i + k, 100);
        nothing(R);
        put_one(i, 10); /* read before it is told */
        get_one(i, 10);
        IS(told(i % CALLS, e, 0), 0);
        if (i % 10 == 0) IS(told(i % CALLS, e, 2), 0);
    }
}
/* It waits beside a datagram that was told, and is told of the next. */
static void an_edge_beside_unread(void) {
    int e = a_set(EPOLLIN | EPOLLET);
    for (long i = 0; i < 5; i++) {
        put_one(i, 100);
        IS(told(WAIT, e, -1), EPOLLIN);
        pid_t c = child();
        if (!c) {
            sleep_ms(20);
            put_one(i + 1, 100);
            _exit(0);
        }
        IS(told(WAIT, e, -1), EPOLLIN);
        get_one(i, 100);
        REAP0(c);
        get_one(i + 1, 100);
        while (told(WAIT, e, 0)) {}
    }
}
static void told_once(void) {
    int e = a_set(EPOLLIN | EPOLLONESHOT);
    for (long i = 0; i < 60; i++) {
        put_one(i, 100);
        IS(told(i % CALLS, e, -1), EPOLLIN);
        put_one(i + 1, 100);
        IS(told(i % CALLS, e, i % 10 ? 0 : 2), 0);
        get_one(i, 100);
        mod(e, R, EPOLLIN | EPOLLONESHOT | (i % 2 ? EPOLLET : 0), 5);
        IS(told(i % CALLS, e, 0), EPOLLIN);
        get_one(i + 1, 100);
        mod(e, R, EPOLLIN | EPOLLONESHOT, 5);
        IS(told(i % CALLS, e, 0), 0);
    }
}
static void is_changed(void) {
    struct epoll_event v[4];
    int e = a_set(EPOLLIN | EPOLLET);
    for (long i = 0; i < 40; i++) {
        put_one(i, 100);
        IS(told(i % CALLS, e, -1), EPOLLIN);
        mod(e, R, EPOLLIN | EPOLLET, 9 + i); /* what is there is told anew */
        IS(waits(i % CALLS, e, v, 4, 0, 0), 1);
        IS(v[0].data.u64, 9 + i);
        IS(told(i % CALLS, e, 0), 0);
        mod(e, R, EPOLLOUT, 3);
        IS(told(i % CALLS, e, 0), EPOLLOUT);
        mod(e, R, 0, 3);
        IS(told(i % CALLS, e, 0), 0);
        mod(e, R, EPOLLIN | EPOLLOUT, 3);
        IS(told(i % CALLS, e, 0), EPOLLIN | EPOLLOUT);
        del(e, R);
        IS(told(i % CALLS, e, 0), 0);
        FAILS(ctl(e, EPOLL_CTL_DEL, R, 0, 0), ENOENT);
        FAILS(ctl(e, EPOLL_CTL_MOD, R, EPOLLIN, 0), ENOENT);
        add(e, R, EPOLLIN | EPOLLRDNORM, 4);
        FAILS(ctl(e, EPOLL_CTL_ADD, R, EPOLLIN, 0), EEXIST);
        IS(told(i % CALLS, e, 0), EPOLLIN | EPOLLRDNORM);
        get_one(i, 100);
        IS(told(i % CALLS, e, 0), 0);
        mod(e, R, EPOLLIN | EPOLLOUT | EPOLLET, 4);
        IS(told(i % CALLS, e, -1), EPOLLOUT);
        mod(e, R, EPOLLIN | EPOLLET, 4);
    }
}
static void is_closed(void) {
    int e = a_set(EPOLLIN), d = -1;
    put_one(1, 10);
    IS(told(WAIT, e, 0), EPOLLIN);
    close(R);
    IS(told(WAIT, e, 0), 0);
    IS(told(WAIT, e, 2), 0);
    for (int k = 0; k < 3; k++) { /* the number is another socket's */
        close(S);
        meet();
        add(e, R, EPOLLIN, 1);
        d = k < 2 ? dup(R) : -1;
        put_one(1, 10);
        IS(told(WAIT, e, -1), EPOLLIN);
        if (k == 0) { /* the registration ends with the last number */
            close(R);
            IS(told(WAIT, e, -1), EPOLLIN);
            get_one_(__LINE__, d, 1, 10);
            IS(told(WAIT, e, 2), 0);
            put_one(2, 10);
            IS(told(WAIT, e, -1), EPOLLIN);
            R = d;
        } else if (k == 1) {
            close(d);
            IS(told(WAIT, e, -1), EPOLLIN);
        } else
            dup2(S, R);
        if (k != 2) {
            close(R);
            IS(told(WAIT, e, 0), 0);
        }
    }
    IS(told(WAIT, e, 0), 0);
}
/* The set goes, and the socket is put into another. */
static void the_set_goes(void) {
    int e = a_set(EPOLLIN);
    for (long i = 0; i < 20; i++) {
        put_one(i, 10);
        if (i % 2) IS(told(WAIT, e, -1), EPOLLIN);
        close(e);
        e = set_of(R, EPOLLIN | (i % 3 ? 0 : EPOLLET));
        IS(told(WAIT, e, i % 4 ? 0 : -1), EPOLLIN);
        get_one(i, 10);
        IS(told(WAIT, e, i % 5 ? 0 : 1), 0);
    }
}
static void by_another_number(void) {
    int e = a_set(EPOLLIN), d = dup(R), f = dup(e);
    add(e, d, EPOLLIN, 77);
    for (long i = 0; i < 40; i++) {
        struct epoll_event v[4];
        put_one(i, 10);
        IS(waits(i % CALLS, i % 2 ? e : f, v, 4, -1, 0), 2);
        CHECK(v[0].data.u64 != v[1].data.u64, "one of them twice");
        get_one_(__LINE__, i % 3 ? d : R, i, 10);
        IS(waits(i % CALLS, e, v, 4, 0, 0), 0);
    }
}
static void after_a_fork(void) {
    for (int way = 0; way < 3; way++) { /* the child reads, waits for the set, and both */
        int e = a_set(EPOLLIN | (way == 1 ? EPOLLET : 0));
        for (long i = 0; i < 4; i++) put_one(i, 10);
        if (way) IS(told(WAIT, e, -1), EPOLLIN);
        pid_t c = child();
        if (!c) {
            for (long i = 0; i < 104;) {
                if (way && i >= 4) told(WAIT, e, 1000);
                do get_one(i++, 10);
                while (i < 104 && way && events(R, POLLIN, 0) & POLLIN);
            }
            _exit(0);
        }
        for (long i = 4; i < 104; i++) {
            put_one(i, 10);
            if (i % 50 == 0) sleep_ms(2);
        }
        REAP0(c);
        IS(told(WAIT, e, 0) & EPOLLOUT, 0);
        while (told(WAIT, e, 0)) {}
        put_one(7, 10);
        IS(told(WAIT, e, -1), EPOLLIN);
        get_one(7, 10);
        close(e), close(R), close(S);
    }
}
/* Room for one, a pipe beside it, both ready all the time. */
static void room_for_one(void) {
    for (int way = 0; way < 2; way++) {
        int p[2], e = set(), seen[3] = {0}, most = 1 + way;
        long sent = 0, got = 0;
        meet();
        CHECK(!pipe(p), "pipe");
        add(e, p[0], EPOLLIN, 1);
        add(e, R, EPOLLIN, 2);
        IS(write(p[1], "x", 1), 1);
        for (int i = 0; i < 300; i++) {
            struct epoll_event v[2];
            if (sent - got < 3) put_one(sent++, 10);
            int n = waits(i % CALLS, e, v, most, i % 2 ? -1 : 0, 0);
            CHECK(n >= 1 && n <= most, "%d entries", n);
            CHECK(n < 2 || v[0].data.u64 != v[1].data.u64, "one of them twice");
            for (int k = 0; k < n; k++) {
                IS(v[k].events, EPOLLIN);
                seen[v[k].data.u64]++;
                if (v[k].data.u64 == 2) get_one(got++, 10);
            }
        }
        CHECK(seen[1] >= 75 && seen[2] >= 75, "the pipe was told %d times, the socket %d", seen[1], seen[2]);
        while (got < sent) get_one(got++, 10);
        IS(told(WAIT, e, 0), EPOLLIN);
        close(e), close(R), close(S);
    }
}
/* What comes by the kernel, of senders that are not hot, and by the ring. */
static void both_lanes(void) {
    enum { OTHERS = 40 };
    for (int way = 0; way < 2; way++) {
        int e = a_set(EPOLLIN | (way ? EPOLLET : 0));
        long next[OTHERS + 1] = {0}, sent[OTHERS + 1] = {0}, got = 0, all = 0;
        int other[OTHERS];
        for (int k = 0; k < OTHERS; k++) other[k] = udp(warm_mode == UDP_MAPPED ? AF_INET : family());
        unsigned seed = 3;
        for (int i = 0; i < 400; i++) {
            for (int k = rand_r(&seed) % 4; k >= 0; k--, all++) {
                unsigned char b[2];
                int who = rand_r(&seed) % 2 ? OTHERS : rand_r(&seed) % OTHERS;
                b[0] = who, b[1] = sent[who]++;
                IS(who == OTHERS ? sends(b, 2) : sendto(other[who], b, 2, 0, (void *)&to, to_len), 2);
            }
            if (way || i % 3 == 0) IS(told(i % CALLS, e, i % 7 ? 0 : -1), EPOLLIN);
            if (way) IS(told(i % CALLS, e, 0), 0);
            for (int k = way ? 100 : rand_r(&seed) % 5; k > 0 && got < all; k--, got++) {
                unsigned char b[4];
                if (!way) IS(told(i % CALLS, e, 0), EPOLLIN);
                IS(recv(R, b, 4, MSG_DONTWAIT), 2);
                CHECK(b[0] <= OTHERS && b[1] == (unsigned char)next[b[0]], "of %d %d came, not %ld", b[0], b[1], next[b[0]]);
                next[b[0]]++;
            }
            if (way) nothing(R);
        }
        for (; got < all; got++) {
            unsigned char b[4];
            IS(told(WAIT, e, 0) | (way ? EPOLLIN : 0), EPOLLIN);
            IS(recv(R, b, 4, MSG_DONTWAIT), 2);
        }
        nothing(R);
        close(e), close(R), close(S);
        for (int k = 0; k < OTHERS; k++) close(other[k]);
    }
}
/* Put into a set before it has moved anything, as servers do; by each way, and of one that stays so. */
static void becomes_hot(void) {
    static const uint32_t ways[] = {EPOLLIN, EPOLLIN | EPOLLET, EPOLLIN | EPOLLONESHOT, EPOLLIN | EPOLLOUT | EPOLLET};
    for (unsigned w = 0; w < sizeof ways / sizeof *ways; w++) {
        int mode = warm_mode;
        if (warm_mode == UDP_HOT) warm_mode = UDP_COLD; /* a connected one of IPv4: meet() makes it, and leaves it cold */
        meet();
        warm_mode = mode;
        int e = set(), u = udp(family()), v[2];
        bind_any_port(u, family());
        close(R);
        R = u;
        struct sockaddr_storage a;
        socklen_t n;
        name_of(R, &a, &n);
        if (warm_mode == UDP_MAPPED) {
            ((struct sockaddr_in *)&to)->sin_port = ((struct sockaddr_in6 *)&a)->sin6_port;
            a = to, n = to_len;
        } else
            to = a;
        if (!named()) IS(connect(S, (void *)&a, n), 0);
        add(e, R, ways[w], 5);
        if (ways[w] & EPOLLOUT) IS(told(WAIT, e, -1), EPOLLOUT);
        for (long i = 0; i < 400; i++) {
            put_one(i, 20);
            int got = told(i % CALLS, e, i % 3 ? -1 : 0);
            CHECK(got & EPOLLIN, "round %ld: it was told %d", i, got);
            get_one(i, 20);
            if (ways[w] & EPOLLONESHOT) mod(e, R, ways[w], 5);
            IS(told(i % CALLS, e, 0), 0);
        }
        close(e), close(R), close(S);
    }
}
static void in_two_sets(void) {
    int e = a_set(EPOLLIN), f = set();
    put_one(0, 10);
    for (long i = 0; i < 100; i++) {
        if (i == 40) add(f, R, EPOLLIN, 8);
        IS(told(i % CALLS, e, -1), EPOLLIN);
        if (i >= 40) IS(told(i % CALLS, f, -1), EPOLLIN);
        get_one(i, 10);
        IS(told(i % CALLS, e, 0), 0);
        IS(told(i % CALLS, f, 0), 0);
        put_one(i + 1, 10);
    }
    int outer = set_of(e, EPOLLIN); /* a set in a set */
    IS(told(WAIT, outer, -1), EPOLLIN);
    IS(events(e, POLLIN, 0), POLLIN);
}
static void exclusive(void) {
    meet();
    int e = set_of(R, EPOLLIN | EPOLLEXCLUSIVE);
    for (long i = 0; i < 100; i++) {
        put_one(i, 10);
        IS(told(i % CALLS, e, -1), EPOLLIN);
        get_one(i, 10);
        IS(told(i % CALLS, e, 0), 0);
    }
}
static void *sends_late(void *n) {
    for (long i = 0; i < (long)n; i++) {
        sleep_ms(i % 5 == 0 ? 15 : 1);
        put_one(i, 33);
    }
    return 0;
}
static void sleeps(void) {
    for (int way = 0; way < 2; way++) {
        pthread_t t;
        int e = a_set(EPOLLIN | (way ? EPOLLET : 0));
        double t0 = now();
        IS(told(WAIT, e, 30), 0);
        CHECK(now() - t0 > 0.025, "it must wait");
        pthread_create(&t, 0, sends_late, (void *)40L);
        for (long i = 0; i < 40;) {
            IS(told(i % CALLS, e, -1), EPOLLIN);
            do get_one(i++, 33);
            while (events(R, POLLIN, 0));
        }
        pthread_join(t, 0);
        close(e), close(R), close(S);
    }
}
/* An error is told with what is unread, and of that the rest. */
static void is_refused(void) {
    meet();
    if (named() || warm_mode == UDP_MAPPED) return;
    for (long i = 0; i < RTTS; i++) {
        fill(B, 30, i);
        IS(sendto(R, B, 30, 0, (void *)&from, from_len), 30);
        get_one_(__LINE__, S, i, 30);
    }
    int e = set_of(S, EPOLLIN);
    for (long i = 0; i < 3; i++) {
        fill(B, 30, i);
        IS(sendto(R, B, 30, 0, (void *)&from, from_len), 30);
    }
    close(R);
    IS(send(S, B, 10, 0), 10);
    UNTIL(events(S, POLLIN, 0) & POLLERR);
    IS(told(WAIT, e, 0), EPOLLIN | EPOLLERR);
    int err = 0;
    socklen_t n = sizeof err;
    IS(getsockopt(S, SOL_SOCKET, SO_ERROR, &err, &n), 0);
    IS(err, ECONNREFUSED);
    for (long i = 0; i < 3; i++) {
        IS(told(WAIT, e, 0), EPOLLIN);
        get_one_(__LINE__, S, i, 30);
    }
    IS(told(WAIT, e, 0), 0);
}
/* What is unread goes to the kernel's queue, and is told on. */
static void asks_for_more(void) {
    for (int way = 0; way < 2; way++) {
        int on = 1, e = a_set(EPOLLIN | (way ? EPOLLET : 0));
        for (long i = 0; i < 3; i++) put_one(i, 10);
        if (way) IS(told(WAIT, e, -1), EPOLLIN);
        if (family() == AF_INET) IS(setsockopt(R, IPPROTO_IP, IP_PKTINFO, &on, sizeof on), 0);
        else IS(setsockopt(R, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof on), 0);
        for (long i = 0; i < 3; i++) {
            if (!way) IS(told(WAIT, e, -1), EPOLLIN);
            get_one(i, 10);
        }
        while (told(WAIT, e, 0)) CHECK(way, "nothing is there");
        put_one(9, 10);
        IS(told(WAIT, e, -1), EPOLLIN);
        get_one(9, 10);
        del(e, R);
        close(e), close(R), close(S);
    }
}
/* Of several sockets those with something are told, each once, also where all have the same data. */
static void several(void) {
    enum { N = 12 };
    for (int alike = 0; alike < 2; alike++) {
        int r[N], s[N], e = set();
        long in[N] = {0}, out[N] = {0};
        unsigned seed = 5;
        for (int i = 0; i < N; i++) {
            meet();
            r[i] = R, s[i] = S;
            add(e, r[i], EPOLLIN, alike ? 1 : i);
        }
        struct sockaddr_storage name[N];
        for (int i = 0; i < N; i++) {
            socklen_t n;
            name_of(r[i], &name[i], &n);
        }
        for (int round = 0; round < 200; round++) {
            struct epoll_event v[2 * N];
            int some = 0;
            for (int k = 0; k < 5; k++) {
                int i = rand_r(&seed) % N;
                S = s[i];
                in_port_t p = ((struct sockaddr_in *)&name[i])->sin_port;
                ((struct sockaddr_in *)&to)->sin_port = p;
                put_one(in[i]++, 20);
            }
            for (int i = 0; i < N; i++) some += in[i] > out[i];
            IS(waits(round % CALLS, e, v, 2 * N, round % 2 ? -1 : 0, 0), some);
            for (int k = 0; k < some; k++) {
                IS(v[k].events, EPOLLIN);
                int i = v[k].data.u64;
                if (!alike) get_one_(__LINE__, r[i], out[i]++, 20);
            }
            for (int i = 0; i < N && alike; i++)
                if (in[i] > out[i]) get_one_(__LINE__, r[i], out[i]++, 20);
        }
        for (int i = 0; i < N; i++) close(r[i]), close(s[i]);
        close(e);
    }
}
static int the_set;
static volatile int got, doubled;
static unsigned char seen[4000];
static void *serves(void *way) {
    for (;;) {
        struct epoll_event v;
        uint16_t n;
        if (epoll_wait(the_set, &v, 1, -1) < 1) continue;
        do {
            ssize_t k = recv(R, &n, sizeof n, MSG_DONTWAIT);
            if (k < 0) break;
            if (n == 0xffff) return 0;
            if (__atomic_fetch_add(&seen[n], 1, __ATOMIC_RELAXED)) doubled++;
            __atomic_fetch_add(&got, 1, __ATOMIC_RELAXED);
        } while (way);
    }
}
static void by_threads(void) {
    for (int way = 0; way < 2; way++) {
        pthread_t t[2];
        int late = warm_mode % 2; /* the threads are there before the socket is in the set */
        uint32_t how = EPOLLIN | (way ? EPOLLET : 0);
        meet();
        the_set = set();
        got = 0;
        memset(seen, 0, sizeof seen);
        if (!late) add(the_set, R, how, 1);
        for (int k = 0; k < 2; k++) pthread_create(&t[k], 0, serves, (void *)(intptr_t)way);
        if (late) sleep_ms(5), add(the_set, R, how, 1);
        for (uint16_t n = 0; n < 4000; n++) {
            IS(sends(&n, sizeof n), sizeof n);
            if (n % 16 == 15) UNTIL(__atomic_load_n(&got, __ATOMIC_RELAXED) == n + 1);
        }
        IS(doubled, 0);
        for (int k = 0; k < 2; k++) {
            uint16_t end = 0xffff;
            IS(sends(&end, sizeof end), sizeof end);
            sleep_ms(5);
        }
        for (int k = 0; k < 2; k++) pthread_join(t[k], 0);
        close(the_set), close(R), close(S);
    }
}
MAIN({"by_level", by_level}, {"by_edge", by_edge}, {"an_edge_beside_unread", an_edge_beside_unread}, {"told_once", told_once},
     {"is_changed", is_changed}, {"is_closed", is_closed}, {"the_set_goes", the_set_goes}, {"by_another_number", by_another_number},
     {"after_a_fork", after_a_fork}, {"room_for_one", room_for_one}, {"both_lanes", both_lanes}, {"becomes_hot", becomes_hot},
     {"in_two_sets", in_two_sets}, {"exclusive", exclusive}, {"sleeps", sleeps}, {"is_refused", is_refused},
     {"asks_for_more", asks_for_more}, {"several", several}, {"by_threads", by_threads})
