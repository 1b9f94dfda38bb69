/* The calls of together.c, each on ends of the thread whose turn it is.
 * Invariant: a call that may sleep claims the flows for which it may, and says what it has moved
 * (together.h). Not here: processes, threads, exec and what passes between them (together.c). */
static void makes(struct end *unused) {
    int kind = draw(KINDS), p[2], one = 1;
    char name[32];
    struct sockaddr_storage a = {.ss_family = AF_INET};
    struct sockaddr_in names_of[2];
    (void)unused;
    if (all->n_flows > FLOWS - 3 || table()->n > ENDS - 4) return;
    says(0, "makes %s %d", names[kind], all->n_flows);
    if (kind == LISTENER) {
        int unixes = draw(2);
        socklen_t n = unixes ? sizeof a.ss_family : sizeof a;
        if (unixes)
            a.ss_family = AF_UNIX;
        else
            ((struct sockaddr_in *)&a)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        p[0] = socket(a.ss_family, SOCK_STREAM, 0);
        if (unixes) {
            struct sockaddr_un u = {AF_UNIX, ""};
            snprintf(u.sun_path, sizeof u.sun_path, "l%d", all->n_listeners);
            unlink(u.sun_path);
            if (bind(p[0], (void *)&u, sizeof u)) dies("bind");
        } else if (bind(p[0], (void *)&a, n))
            dies("bind");
        if (listen(p[0], 16) || getsockname(p[0], (void *)&a, &(socklen_t){sizeof a})) dies("listen");
        all->listeners[all->n_listeners].kind = unixes ? PATH : TCP;
        all->listeners[all->n_listeners].port =
            unixes ? all->n_listeners : ((struct sockaddr_in *)&a)->sin_port;
        all->listeners[all->n_listeners++].flow = all->n_flows;
        add(p[0], LISTENER, all->n_flows++, -1);
        return;
    }
    switch (kind) {
    case PIPE:
        if (pipe(p)) dies("pipe");
        break;
    case FIFO:
        snprintf(name, sizeof name, "f%d", all->n_fifos);
        all->fifos[all->n_fifos++] = all->n_flows;
        if (mkfifo(name, 0600)) dies("mkfifo");
        p[0] = open(name, O_RDONLY | O_NONBLOCK);
        p[1] = open(name, O_WRONLY);
        fcntl(p[0], F_SETFL, O_RDONLY);
        break;
    case PAIR:
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, p)) dies("socketpair");
        break;
    case SET:
        add(epoll_create1(0), SET, -1, -1);
        return;
    case UDP:
        ((struct sockaddr_in *)&a)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        for (int i = 0; i < 2; i++) {
            struct sockaddr_in each = *(struct sockaddr_in *)&a;
            p[i] = socket(AF_INET, SOCK_DGRAM, 0);
            if (bind(p[i], (void *)&each, sizeof each) ||
                getsockname(p[i], (void *)&names_of[i], &(socklen_t){sizeof each}))
                dies("bind");
        }
        for (int i = 0; i < 2; i++)
            if (connect(p[i], (void *)&names_of[!i], sizeof *names_of)) dies("connect");
        break;
    default: {
        int l = socket(a.ss_family = kind == TCP ? AF_INET : AF_UNIX, SOCK_STREAM, 0);
        socklen_t n = kind == TCP ? sizeof a : sizeof a.ss_family;
        if (kind == TCP) ((struct sockaddr_in *)&a)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (bind(l, (void *)&a, n) || getsockname(l, (void *)&a, &(socklen_t){sizeof a}) || listen(l, 1))
            dies("listen");
        p[0] = socket(a.ss_family, SOCK_STREAM, 0);
        if (connect(p[0], (void *)&a, kind == TCP ? sizeof a : sizeof a.ss_family + 6)) dies("connect");
        p[1] = accept(l, 0, 0);
        close(l);
        for (int i = 0; i < 2 && kind == TCP; i++)
            setsockopt(p[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    }
    pair_of(p[0], p[1], kind, kind > FIFO);
}
static void writes(struct end *e) {
    size_t n = length();
    if (!moves_bytes(e) || !has_room(e, n) || !claims(e->out, 1)) return;
    fill(n);
    int how = draw(4), parts = draw(2) + 1;
    struct iovec v[2] = {{out, n / parts}, {out + n / parts, n - n / parts}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    long r = CALL(how < 2                      ? write(e->fd, out, n)
                  : how == 2 || e->kind < PAIR ? writev(e->fd, v, 2)
                                               : sendmsg(e->fd, &m, MSG_NOSIGNAL));
    wrote(e, r);
    says(e, "write of %zu: %ld", n, r);
}
static void writes_much(struct end *e) {
    size_t n = 600000 + draw(400000); /* more than a ring takes, too */
    if (!moves_bytes(e) || e->kind == UDP || !has_room(e, 1) || me == all->workers) return;
    if (is_nonblocking(e) || !claims(e->out, 1)) return;
    struct flow *f = out_of(e);
    /* a reader that sleeps may have any part of it, and so may one that is told of an end behind each part */
    if (f->taken[0] || f->is_shut) return;
    fill(n);
    f->big = me - all->workers + 1, f->bytes += n, me->big = 1 + e->out;
    says(e, "write of %zu", n);
    me->cut = CALL(write(e->fd, out, n)) != (long)n;
}
/* All of k bytes that are, or will be, there. */
static void reads_exactly(struct end *e) {
    struct flow *f = in_of(e);
    if (!moves_bytes(e) || e->kind == UDP || !f || f->bytes <= 0 || !claims(e->in, 0) || is_nonblocking(e))
        return;
    long k = 1 + draw(f->bytes < 200000 || !draw(3) ? f->bytes : 200000), got = 0, r = 0;
    unsigned h = SUM;
    while (got < k && (r = CALL(read(e->fd, into, k - got))) > 0) h = sum(h, into, r), got += r;
    took(e, got);
    says(e, "read of all %ld: %ld %ld %x", k, got, r > 0 ? 0 : r, h);
}
static void reads(struct end *e) {
    static const int flags_[] = {
        0, 0, 0, MSG_DONTWAIT, MSG_WAITALL, MSG_PEEK, MSG_PEEK | MSG_DONTWAIT, MSG_WAITALL | MSG_DONTWAIT};
    size_t n = draw(2) ? 65536 : length();
    struct flow *f = in_of(e);
    if (!moves_bytes(e) || !f || f->big || f->bytes > MOST_BYTES || !claims(e->in, 0)) return;
    int how = draw(4), flags = ONE_OF(flags_);
    struct iovec v[2] = {{into, n / 2}, {into + n / 2, n - n / 2}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    if (e->kind < PAIR && how > 1) how -= 2;
    me->waits_for_all = how > 1 && flags & MSG_WAITALL;
    long r = CALL(how == 0   ? read(e->fd, into, n)
                  : how == 1 ? readv(e->fd, v, 2)
                  : how == 2 ? recv(e->fd, into, n, flags)
                             : recvmsg(e->fd, &m, flags));
    if (how < 2 || !(flags & MSG_PEEK)) took(e, r);
    says(e, "read %d of %zu, flags %x: %ld %x", how, n, how > 1 ? flags : 0, r, sum(SUM, into, r));
    if (how == 3) says(0, "%x", m.msg_flags & MSG_TRUNC);
}
/* The turn lasts until the time is over. */
static void reads_in_time(struct end *e) {
    struct timeval some = {0, 3000}, any = {0, 0};
    struct flow *f = in_of(e);
    if (!moves_bytes(e) || e->kind < PAIR || !f || f->big || f->bytes > MOST_BYTES || !claims(e->in, 0))
        return;
    long set = answer(setsockopt(e->fd, SOL_SOCKET, SO_RCVTIMEO, &some, sizeof some));
    long r = answer(draw(2) ? read(e->fd, into, 3000) : recv(e->fd, into, 3000, draw(2) ? MSG_WAITALL : 0));
    took(e, r);
    says(e, "read in time: %ld %ld %x", set, r, sum(SUM, into, r));
    if (setsockopt(e->fd, SOL_SOCKET, SO_RCVTIMEO, &any, sizeof any)) dies("SO_RCVTIMEO");
}
static void polls(struct end *unused) {
    static const short wanted[] = {POLLIN, POLLIN, POLLOUT, POLLIN | POLLOUT, POLLIN | POLLRDHUP, 0};
    struct pollfd p[4];
    struct end *of[4];
    struct timespec t = {0, 0};
    int n = 1 + draw(4), now = draw(3) == 0 ? 1 + draw(2) : 0, how = draw(2);
    (void)unused;
    if (now > 1) t.tv_nsec = 2000000;
    for (int i = 0; i < n; i++) {
        struct end *e = any();
        if (e->kind == SET || is_unsure(e->in) || is_unsure(e->out)) return;
        if (!now && (!claims(e->in, 0) || !claims(e->out, 1))) return;
        p[i] = (struct pollfd){e->fd, ONE_OF(wanted), 77};
        /* docs/sockets.md: a reset is not told where nothing is asked for */
        if (e->kind == TCP) p[i].events |= POLLRDHUP;
        of[i] = e;
    }
    for (int i = 0; i < n; i++) says(of[i], "%x", p[i].events);
    if (now)
        says(0, "poll %d: %ld", now, answer(how ? poll(p, n, now > 1 ? 2 : 0) : ppoll(p, n, &t, 0)));
    else
        says(0, "poll: %ld", CALL(how ? poll(p, n, -1) : ppoll(p, n, 0, 0)));
    for (int i = 0; i < n; i++) says(0, "%x", p[i].revents);
}
static void selects(struct end *e) {
    fd_set r, w;
    struct timeval now = {0, 0};
    int is_now = draw(2), reads = draw(2);
    struct end *o = any();
    if (!moves_bytes(e) || !moves_bytes(o) || is_unsure(e->in) || is_unsure(o->out)) return;
    if (e->fd >= FD_SETSIZE || o->fd >= FD_SETSIZE || !claims(e->in, 0) || !claims(o->out, 1)) return;
    /* what it waits for is not closed meanwhile */
    if ((e->in < 0 && !claims(e->out, 1)) || (o->out < 0 && !claims(o->in, 0))) return;
    FD_ZERO(&r);
    FD_ZERO(&w);
    if (reads) FD_SET(e->fd, &r);
    if (!reads || draw(2)) FD_SET(o->fd, &w);
    says(e, "select to %d.%d, %d: %ld", o->in, o->out, is_now,
         CALL(select(FD_SETSIZE, &r, &w, 0, is_now ? &now : 0)));
    says(0, "%d %d", !!FD_ISSET(e->fd, &r), !!FD_ISSET(o->fd, &w));
}
static void controls_a_set(struct end *e) {
    static const unsigned events[] = {
        EPOLLIN, EPOLLIN, EPOLLOUT, EPOLLIN | EPOLLONESHOT, EPOLLIN | EPOLLRDHUP, 0};
    static const int commands[] = {EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL};
    struct end *set = any_of(SET);
    struct epoll_event event = {ONE_OF(events), {.u64 = all->n_members}};
    int command = ONE_OF(commands);
    if (!set || e->kind == SET || all->n_members > FLOWS - 1 || !claims(e->in, 0) || !claims(e->out, 1))
        return;
    int is_edge = all->has_edges && draw(2);
    if (is_edge) event.events |= EPOLLET;
    long r = answer(epoll_ctl(set->fd, command, e->fd, &event));
    if (command != EPOLL_CTL_DEL && r == 0) {
        all->members[all->n_members].in = e->in, all->members[all->n_members].out = e->out;
        all->members[all->n_members].is_edge = is_edge, all->members[all->n_members++].has_news = 1;
    }
    says(e, "epoll_ctl %d %x: %ld", command, event.events, r);
}
static void waits_for_a_set(struct end *unused) {
    struct epoll_event event[64];
    struct end *set = any_of(SET);
    unsigned long h = 0;
    int now = all->has_edges || draw(2) ? 1 + draw(2) : 0, told = 0;
    (void)unused;
    if (!set) return;
    for (int i = 0; i < all->n_members; i++) {
        int in = all->members[i].in, to = all->members[i].out;
        if (is_unsure(in) || is_unsure(to)) return;
        if (!now && (me->n_claims > CLAIMS - 3 || !claims(in, 0) || !claims(to, 1))) return;
    }
    long r = now ? answer(epoll_wait(set->fd, event, 64, now > 1 ? 2 : 0))
                 : CALL(epoll_wait(set->fd, event, 64, -1));
    for (int i = 0; i < r; i++) {
        int m = event[i].data.u64, is_edge = all->members[m].is_edge;
        unsigned is = event[i].events;
        /* An edge may be told once too often, where a ring is handed back; never too seldom. */
        if (is_edge) {
            int over = is & (EPOLLHUP | EPOLLRDHUP) && !all->members[m].is_over,
                news = is & EPOLLIN && all->members[m].has_news;
            if (!over && !news) continue;
            all->members[m].is_over |= over;
            if (news) all->members[m].has_news = 0;
            is &= ~EPOLLOUT;
        }
        h += (m * 31ul + is) * 2654435761ul, told++;
    }
    says(set, "epoll_wait %d: %ld %lx", now, r < 0 ? r : told, h);
}
static void splices(struct end *from) {
    struct end *to = any();
    size_t n = length();
    n = n < 4096 ? n : 4096;
    if (!moves_bytes(from) || !moves_bytes(to) || from->kind == UDP || to->kind == UDP || from->in < 0)
        return;
    if (in_of(from)->big || !has_room(to, 4096)) return;
    /* LINUX splice(2): one that waits for a socket keeps all others from the pipe meanwhile */
    if (from->kind > FIFO && in_of(from)->bytes <= 0) return;
    if (!has_places(to) || !claims(from->in, 0) || !claims(to->out, 1)) return;
    long r = CALL(splice(from->fd, 0, to->fd, 0, n, 0));
    took(from, r), wrote(to, r);
    says(from, "splice to %s %d.%d of %zu: %ld", names[to->kind], to->in, to->out, n, r);
}
static void sends_a_file(struct end *e) {
    size_t n = length();
    off_t at = 0;
    if (!moves_bytes(e) || e->kind == UDP || !has_room(e, n) || !has_places(e) || !claims(e->out, 1)) return;
    int file = memfd_create("file", 0);
    fill(n);
    if (write(file, out, n) != (long)n) dies("memfd");
    long r = CALL(sendfile(e->fd, file, &at, n));
    wrote(e, r);
    says(e, "sendfile of %zu: %ld %ld", n, r, (long)at);
    close(file);
}
static void tees(struct end *from) {
    struct end *to = any();
    if (from->kind > FIFO || to->kind > FIFO || from->in < 0 || in_of(from)->big || !has_room(to, 4096))
        return;
    if (!has_places(to) || !claims(from->in, 0) || !claims(to->out, 1)) return;
    long r = CALL(tee(from->fd, to->fd, 4096, draw(2) ? SPLICE_F_NONBLOCK : 0));
    wrote(to, r);
    says(from, "tee to %d.%d: %ld", to->in, to->out, r);
}
/* The pages are the pipe's from then on. */
static void gives_pages(struct end *e) {
    size_t n = length();
    if (e->kind > FIFO || !has_room(e, n) || !has_places(e) || !claims(e->out, 1)) return;
    struct iovec v = {malloc(n + 1), n};
    fill(n);
    memcpy(v.iov_base, out, n);
    long r = CALL(vmsplice(e->fd, &v, 1, 0));
    wrote(e, r);
    says(e, "vmsplice of %zu: %ld", n, r);
}
static void asks_a_ring(struct end *e) {
    static const int ops[] = {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_RECV, IORING_OP_SEND};
    size_t n = 1 + length();
    int how = draw(4), is_write = how % 2;
    if (!moves_bytes(e) ||
        (is_write ? !has_room(e, n) : e->in < 0 || is_unsure(e->in) || in_of(e)->bytes <= 0))
        return;
    if (!claims(is_write ? e->out : e->in, is_write)) return;
    if (is_write) fill(n);
    long r = answer(by_ring(ops[how], e->fd, is_write ? out : into, n));
    if (is_write)
        wrote(e, r);
    else
        took(e, r);
    says(e, "ring %d of %zu: %ld %x", how, n, r, is_write ? 0 : sum(SUM, into, r));
}
static void sizes(struct end *e) {
    static const int each[] = {65536, 100000, 131072, 1 << 20};
    if (!moves_bytes(e) || is_unsure(e->in) || is_unsure(e->out)) return;
    long r = draw(2) ? answer(fcntl(e->fd, F_SETPIPE_SZ, ONE_OF(each))) : 0;
    says(e, "size: %ld %ld", r, answer(fcntl(e->fd, F_GETPIPE_SZ)));
}
static void asks(struct end *e) {
    int n = -1, how = draw(3);
    if (how == 0 && (e->in < 0 || is_unsure(e->in))) return;
    if (how == 0) {
        long r = answer(ioctl(e->fd, FIONREAD, &n));
        return says(e, "FIONREAD: %ld %d", r, r == 0 ? n : 0);
    }
    if (how == 1) return says(e, "F_GETFL: %x", fcntl(e->fd, F_GETFL));
    long r = answer(getsockopt(e->fd, SOL_SOCKET, SO_ERROR, &n, &(socklen_t){sizeof n}));
    says(e, "SO_ERROR: %ld %d", r, n);
}
static void blocks(struct end *e) {
    int on = draw(2);
    if (!moves_bytes(e) || (e->out >= 0 && out_of(e)->big)) return;
    if (draw(2))
        says(e, "FIONBIO %d: %ld", on, answer(ioctl(e->fd, FIONBIO, &on)));
    else
        says(e, "F_SETFL %d: %ld", on, answer(fcntl(e->fd, F_SETFL, on ? O_NONBLOCK : 0)));
}
/* The last close(2) will reset. */
static void lingers(struct end *e) {
    struct linger l = {1, 0};
    if (e->kind != TCP) return;
    says(e, "SO_LINGER: %ld", answer(setsockopt(e->fd, SOL_SOCKET, SO_LINGER, &l, sizeof l)));
}
static void duplicates(struct end *e) {
    if (table()->n > ENDS - 3) return;
    int how = draw(3), fd = how == 0 ? dup(e->fd) : fcntl(e->fd, how == 1 ? F_DUPFD_CLOEXEC : F_DUPFD, 50);
    add(fd, e->kind, e->in, e->out);
    me->added[0].is_cloexec = how == 1;
    says(e, "dup %d", how);
}
static void opens_again(struct end *e) {
    static const int ways[] = {O_RDONLY, O_WRONLY, O_RDWR};
    char name[32];
    int how = draw(3), number = all->n_fifos ? draw(all->n_fifos) : 0,
        x = all->n_fifos ? all->fifos[number] : -1, by_name = draw(2), nonblock = draw(3) ? O_NONBLOCK : 0;
    if (table()->n > ENDS - 3) return;
    if (by_name && x >= 0) {
        if (me == all->workers) nonblock = O_NONBLOCK;
        snprintf(name, sizeof name, "f%d", number);
        if (how != 1 && !claims(x, 0)) return;
        if (how == 1 && !claims(x, 1)) return;
    } else {
        if (e->kind > FIFO) return;
        snprintf(name, sizeof name, "/proc/self/fd/%d", e->fd);
        x = e->in >= 0 ? e->in : e->out;
        nonblock = O_NONBLOCK;
    }
    says(0, "open %d of flow %d by name %d, %x", how, x, by_name, nonblock);
    int fd = CALL(open(name, ways[how] | nonblock));
    says(0, "%d", fd < 0 ? fd : 0);
    /* docs/fifo.md: one that takes no part finds the bytes after some milliseconds */
    if (by_name && nonblock && how != 1) usleep(30000);
    if (fd >= 0) add(fd, e->kind == FIFO || by_name ? FIFO : PIPE, how == 1 ? -1 : x, how == 0 ? -1 : x);
}
/* Another FIFO by the name of one that some may have. */
static void renews(struct end *unused) {
    int number = all->n_fifos ? draw(all->n_fifos) : 0;
    char name[32];
    (void)unused;
    if (!all->n_fifos || all->n_flows > FLOWS - 3 || all->flows[all->fifos[number]].taken[0] ||
        all->flows[all->fifos[number]].taken[1])
        return;
    snprintf(name, sizeof name, "f%d", number);
    if (unlink(name) || mkfifo(name, 0600)) dies("mkfifo");
    all->fifos[number] = all->n_flows++;
    says(0, "flow %d for %s", all->fifos[number], name);
}
static void closes(struct end *e) {
    if (table()->n < 6 || draw(2)) return;
    int how = draw(3);
    /* a call that waits has the file, by a number that may be another's when a signal makes it begin again */
    for (int i = 0; i < all->n_workers; i++)
        for (int k = 0; k < all->workers[i].n_claims && all->workers[i].tab == me->tab; k++)
            if (all->workers[i].claims[k].flow == e->in || all->workers[i].claims[k].flow == e->out) return;
    says(e, "close %d: %ld", how,
         answer(how == 1   ? close_range(e->fd, e->fd, 0)
                : how == 2 ? dup3(MAIL, e->fd, O_CLOEXEC) == e->fd ? close(e->fd) : -1
                           : close(e->fd)));
    drop(e->fd);
}
static void shuts(struct end *e) {
    int how = draw(3);
    if (!moves_bytes(e) || is_unsure(e->out) || draw(4)) return;
    /* LINUX tcp_rcv_state_process: what comes behind it resets; a segment may wait for an acknowledgement */
    if (e->kind == TCP && how != SHUT_WR && in_of(e)->bytes) return;
    if (e->kind >= PAIR && how != SHUT_WR) in_of(e)->is_shut = 1;
    says(e, "shutdown %d: %ld", how, answer(shutdown(e->fd, how)));
}
static void connects(struct end *unused) {
    if (!all->n_listeners || table()->n > ENDS - 3 || all->n_flows > FLOWS - 3) return;
    int i = draw(all->n_listeners), one = 1;
    struct sockaddr_un u = {AF_UNIX, ""};
    struct sockaddr_in t = {
        .sin_family = AF_INET, .sin_port = all->listeners[i].port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int is_tcp = all->listeners[i].kind == TCP, s = socket(is_tcp ? AF_INET : AF_UNIX, SOCK_STREAM, 0);
    struct flow *l = &all->flows[all->listeners[i].flow];
    (void)unused;
    snprintf(u.sun_path, sizeof u.sun_path, "l%d", all->listeners[i].port);
    if (l->writes > 3) {
        close(s);
        return;
    }
    /* the flows of those that wait to be accepted, in order */
    long before = l->bytes;
    int first = all->n_flows;
    l->writes++, l->bytes = before * 1000 + first;
    long r = CALL(is_tcp ? connect(s, (void *)&t, sizeof t) : connect(s, (void *)&u, sizeof u));
    says(0, "connect to %d: %ld", i, r);
    if (r) {
        l->writes--, l->bytes = before;
        close(s);
        return;
    }
    if (is_tcp) setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    add(s, is_tcp ? TCP : PATH, first, first + 1);
    all->n_flows += 2;
}
static void accepts(struct end *unused) {
    struct end *e = any_of(LISTENER);
    (void)unused;
    if (!e || table()->n > ENDS - 3 || !claims(e->in, 0)) return;
    int in = e->in, one = 1;
    int fd = CALL(accept4(e->fd, 0, 0, 0));
    says(0, "accept at %d: %d", in, fd < 0 ? fd : 0);
    if (fd < 0) return;
    int first = oldest(all->flows[in].bytes).flow, is_tcp = 0;
    me->accepted = in + 1;
    for (int i = 0; i < all->n_listeners; i++)
        if (all->listeners[i].flow == in) is_tcp = all->listeners[i].kind == TCP;
    if (is_tcp) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    add(fd, is_tcp ? TCP : PATH, first + 1, first);
}
