/* Shared by unix_random.c, which includes it: one send or receive, drawn from a process's own numbers. A send takes its bytes from
 * the sea at me.out, a receive checks what it got. Not here: the steps of both processes, descriptors, signals. */
/* --- waits --- */
static int listens_to(int fd, int events) {
    int e = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event v = {.events = events};
    CHECK(e >= 0 && !epoll_ctl(e, EPOLL_CTL_ADD, fd, &v), "a set");
    return e;
}
static int one_wait(int way, short what, int ms) {
    struct pollfd p = {me.fd, what, 0};
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    struct timeval tv = {ms / 1000, ms % 1000 * 1000};
    struct epoll_event v;
    fd_set s;
    int e, k;
    switch (way) {
    case 0: return poll(&p, 1, ms);
    case 1: return ppoll(&p, 1, ms < 0 ? 0 : &t, 0);
    case 2:
        if (me.fd >= FD_SETSIZE) return poll(&p, 1, ms);
        FD_ZERO(&s);
        FD_SET(me.fd, &s);
        return select(me.fd + 1, what == POLLIN ? &s : 0, what == POLLOUT ? &s : 0, 0, ms < 0 ? 0 : &tv);
    default:
        e = listens_to(me.fd, (what == POLLIN ? EPOLLIN : EPOLLOUT) | (way == 4 ? EPOLLET : way == 5 ? EPOLLONESHOT : 0));
        k = epoll_wait(e, &v, 1, ms);
        int error = errno;
        close(e);
        errno = error;
        return k;
    }
}
static _Thread_local int last_way; /* for what is said of a failure */
static void waits_for(short what) {
    int way = own(exotic ? 6 : 4), k;
    while (interrupts_here(k = one_wait(way, what, -1)));
    CHECK(k == 1, "wait %d for %d gave %d", way, what, k);
    last_way = way;
}
/* By the set that the connection has for its life, by edge: only after EAGAIN. */
static void waits_by_edge(void) {
    struct epoll_event v;
    int k;
    if (me.set < 0) {
        waits_for(POLLIN);
        return;
    }
    while (interrupts_here(k = epoll_wait(me.set, &v, 1, -1)));
    CHECK(k == 1 && v.events & (EPOLLIN | EPOLLRDHUP), "an edge gave %d, 0x%x", k, v.events);
}

/* --- sends: at most n bytes; returns how many went --- */
static ssize_t by_splice(long n) {
    int p[2];
    ssize_t k, left;
    CHECK(!pipe(p), "pipe");
    n = most(n, 32768);
    IS(write(p[1], at(me.out), n), n);
    for (left = n; left; left -= k) {
        while (interrupts_here(k = splice(p[0], 0, me.fd, 0, left, own(2) && left > 1 ? SPLICE_F_MORE : 0)));
        CHECK(k > 0, "splice gave %zd", k);
        if (left - k && own(4) == 0) { /* the rest in another way */
            static _Thread_local unsigned char rest[32768];
            me.out += k;
            left -= k;
            IS(read(p[0], rest, left), left);
            close(p[0]), close(p[1]);
            return me.out -= k, k;
        }
    }
    close(p[0]), close(p[1]);
    return n;
}
static ssize_t by_file(long n) {
    static int file = -1;
    if (file < 0) {
        file = memfd_create("sea", MFD_CLOEXEC);
        CHECK(file >= 0 && write(file, sea, sizeof sea) == sizeof sea, "a file");
    }
    off_t from = me.out % PERIOD;
    ssize_t k = sendfile(me.fd, file, &from, n);
    CHECK(k < 0 || from == (off_t)(me.out % PERIOD) + k, "sendfile moved its offset by another number");
    return k;
}
static ssize_t by_parts(int how, long n, int flags) {
    const unsigned char *b = at(me.out);
    long a = own(n + 1), c = a + own(n - a + 1), rest = n - c, more = own(4) ? 1 : 13 + own(100);
    struct iovec v[3 + 113] = {{(void *)b, a}, {(void *)(b + a), c - a}, {0, 0}};
    for (long k = 0; k < more; k++) v[3 + k] = (struct iovec){(void *)(b + c + rest * k / more), rest * (k + 1) / more - rest * k / more};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 3 + more};
    struct mmsghdr mm[2] = {{.msg_hdr = {.msg_iov = v, .msg_iovlen = 2}}, {.msg_hdr = {.msg_iov = v + 2, .msg_iovlen = 1 + more}}};
    if (how == 0) return writev(me.fd, v, 3 + more);
    if (how == 1) return sendmsg(me.fd, &m, flags);
    int k = sendmmsg(me.fd, mm, 2, flags);
    if (k < 0) return k;
    /* A message that went in part is the last that counts. */
    ssize_t went = mm[0].msg_len + (k > 1 ? mm[1].msg_len : 0);
    if (!went) return errno = EAGAIN, -1; /* the first had no bytes, and the second no room */
    CHECK(k == 2 || mm[0].msg_len <= c, "sendmmsg: %d messages, %u", k, mm[0].msg_len);
    if (k == 2 && mm[0].msg_len < c) failed(__LINE__, "sendmmsg went on after a part of a message");
    return went;
}
static ssize_t send_once(long n, long left, int *waited) {
    int more = n < left && own(3) == 0 ? MSG_MORE : 0, how = own(!exotic ? 6 : me.calls == ALL_CALLS ? 13 : 11);
    const unsigned char *b = at(me.out);
    ssize_t k;
    *waited = 1;
    switch (how) {
    case 0: return write(me.fd, b, n);
    case 1: return send(me.fd, b, n, MSG_NOSIGNAL);
    case 2: return by_parts(0, n, 0);
    case 3: return by_parts(1, n, MSG_NOSIGNAL);
    case 4: *waited = 0; return send(me.fd, b, n, MSG_DONTWAIT);
    case 5: *waited = 0; return by_parts(1, n, MSG_DONTWAIT);
    case 6: *waited = 0; return by_parts(2, n, own(2) ? MSG_DONTWAIT : 0);
    case 7: return send(me.fd, b, n, more);
    case 8: return by_parts(1, n, more);
    case 11: *waited = 0; return by_splice(n);
    case 12: *waited = 0; return by_file(n);
    default:
        *waited = 0;
        if (threaded) return write(me.fd, b, n);
        blocking(me.fd, 0);
        k = own(2) ? write(me.fd, b, n) : by_parts(0, n, 0);
        int error = errno;
        blocking(me.fd, 1);
        errno = error;
        return k;
    }
}
static void sends_all(long n, long longest) {
    while (n > 0) {
        int waited;
        long k = most(n, 1 + own(longest));
        ssize_t went = send_once(k, n, &waited);
        if (interrupts_here(went)) continue;
        if (went < 0 && errno == EAGAIN && !waited) {
            waits_for(POLLOUT);
            continue;
        }
        CHECK(went > 0 && went <= k, "a send of %ld gave %zd", k, went);
        CHECK(went == k || !waited || me.interrupted, "a send of %ld that waits gave %zd", k, went);
        me.out += went;
        n -= went;
    }
}

/* --- receives: some bytes; 0 is the end --- */
static _Thread_local unsigned char got[BIG + 1];
static void checks(long k) {
    if (k > 0) same(got, k, me.in), me.in += k;
}
static ssize_t into_parts(int how, long n, int flags) {
    long a = own(n + 1);
    char control[64];
    struct iovec v[3] = {{got, a}, {0, 0}, {got + a, n - a}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 3, .msg_control = own(2) ? control : 0};
    m.msg_controllen = m.msg_control ? sizeof control : 0;
    if (how == 0) return readv(me.fd, v, 3);
    ssize_t k = recvmsg(me.fd, &m, flags);
    CHECK(k < 0 || !(m.msg_controllen | (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC | MSG_OOB))) || flags & MSG_TRUNC,
          "recvmsg: control %zu, flags 0x%x", m.msg_controllen, m.msg_flags);
    return k;
}
static ssize_t through_pipe(long n) {
    int p[2];
    ssize_t k;
    CHECK(!pipe(p), "pipe");
    k = splice(me.fd, 0, p[1], 0, most(n, 32768), 0);
    int error = errno;
    if (k > 0) IS(read(p[0], got, k), k);
    close(p[0]), close(p[1]);
    errno = error;
    return k;
}
static ssize_t peeks(long n, int flags) {
    static _Thread_local unsigned char again[BIG];
    ssize_t k = recv(me.fd, got, n, MSG_PEEK | flags), j;
    if (k <= 0) return k;
    same(got, k, me.in);
    j = recv(me.fd, again, k, MSG_DONTWAIT);
    CHECK(j > 0 && j <= k, "%zd bytes were seen, and read gave %zd", k, j);
    CHECK(j == k || !is_tcp(), "TCP: %zd bytes were seen, and %zd read", k, j);
    memcpy(got, again, j);
    return j;
}
static ssize_t promised(long n) {
    int there = asked_of(me.fd, FIONREAD);
    if (!there) return recv(me.fd, got, n, 0);
    CHECK(there > 0, "FIONREAD: %d", there);
    IS(recv(me.fd, got, most(there, n), MSG_DONTWAIT | (own(2) ? MSG_WAITALL : 0)), most(there, n));
    return most(there, n);
}
static ssize_t skips(long n) {
    memset(got, 0xee, most(n, 64));
    ssize_t k = recv(me.fd, got, n, MSG_TRUNC);
    if (k > 0 && is_tcp()) { /* LINUX tcp(7): the bytes are discarded */
        for (long i = 0; i < most(n, 64); i++) CHECK(got[i] == 0xee, "MSG_TRUNC wrote");
        memcpy(got, at(me.in), k);
    }
    return k;
}
static ssize_t ready_then(long n) {
    waits_for(POLLIN);
    ssize_t k = own(2) ? recv(me.fd, got, n, MSG_DONTWAIT) : into_parts(1, n, MSG_DONTWAIT);
    CHECK(k >= 0, "wait %d promised bytes; now FIONREAD is %d, and poll shows 0x%x", last_way, asked_of(me.fd, FIONREAD),
          events(me.fd, ALL, 0));
    return k;
}
static ssize_t receive_once(long n, long due) {
    int how = own(!exotic ? 8 : me.calls == ALL_CALLS ? 19 : 18);
    ssize_t k;
    switch (how) {
    case 0: return read(me.fd, got, n);
    case 1: return recv(me.fd, got, n, 0);
    case 2: return into_parts(0, n, 0);
    case 3: return into_parts(1, n, MSG_CMSG_CLOEXEC);
    case 4:
        k = recv(me.fd, got, n, MSG_DONTWAIT);
        if (k < 0 && errno == EAGAIN) return waits_by_edge(), errno = EAGAIN, -1;
        return k;
    case 5:
    case 6: return ready_then(n);
    case 7: return ready_then(n);
    case 8: return peeks(n, 0);
    case 9: return peeks(n, MSG_DONTWAIT);
    case 10:
        if (due <= 0) return read(me.fd, got, n);
        n = most(due, n);
        k = recv(me.fd, got, n, MSG_WAITALL);
        CHECK(k == n || me.interrupted, "MSG_WAITALL of %ld gave %zd", n, k);
        return k;
    case 11: return promised(n);
    case 18: return through_pipe(n);
    case 12:
    case 13: return skips(n);
    case 14: {
        if (threaded) return read(me.fd, got, n);
        set_time(me.fd, SO_RCVTIMEO, 1 + own(3));
        k = recv(me.fd, got, n, 0);
        int error = errno;
        set_time(me.fd, SO_RCVTIMEO, 0);
        errno = error;
        return k;
    }
    case 15: {
        struct iovec v[2] = {{got, n / 2}, {got + n / 2, n - n / 2}};
        struct mmsghdr m[2] = {{.msg_hdr = {.msg_iov = v, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = v + 1, .msg_iovlen = 1}}};
        if (n < 2) return read(me.fd, got, n);
        int c = recvmmsg(me.fd, m, 2, MSG_WAITFORONE, 0);
        if (c <= 0) return c;
        if (c == 2) memmove(got + m[0].msg_len, v[1].iov_base, m[1].msg_len);
        return m[0].msg_len + (c == 2 ? m[1].msg_len : 0);
    }
    default: {
        if (threaded) return read(me.fd, got, n);
        blocking(me.fd, 0);
        k = own(2) ? read(me.fd, got, n) : into_parts(0, n, 0);
        int error = errno;
        blocking(me.fd, 1);
        if (k < 0 && error == EAGAIN) waits_for(POLLIN);
        errno = error;
        return k;
    }
    }
}
static void receives_all(long longest) {
    while (me.in < me.due) {
        ssize_t k = receive_once(1 + own(longest), me.due - me.in);
        if (interrupts_here(k) || (k < 0 && errno == EAGAIN)) continue;
        CHECK(k > 0, "a receive gave %zd at %llu of %llu", k, (unsigned long long)me.in, (unsigned long long)me.due);
        checks(k);
    }
}
