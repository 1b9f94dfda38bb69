/* Checks: messages of a hot UNIX seqpacket or datagram connection: their limits and order, by every call; short buffers,
 * MSG_TRUNC, PEEK, empty messages, the largest; full; several writers; control messages; a datagram's ends.
 * Does not check: a seqpacket's ends (unix_ends.c), readiness (unix_ready.c). */
#define MODES "seq-pair", "seq-path", "seq-abstract", "dgram-pair", "dgram-path"
#include "unix_calls.h"
#include "records.h"
static unsigned char B[1 << 20];
static int is_dgram(void) { return type() == SOCK_DGRAM; }
/* One message of n bytes by some call; it is whole. */
static long message(long n) {
    static _Thread_local unsigned call;
    struct iovec v[3] = {{(void *)at(here->out), n / 3}, {0, 0}, {(void *)(at(here->out) + n / 3), n - n / 3}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 3};
    struct mmsghdr mm = {m};
    switch (n ? call++ % 6 : call++ % 4 + 2) { /* writev of nothing sends nothing */
    case 0: IS(write(here->fd, at(here->out), n), n); break;
    case 1: IS(writev(here->fd, v, 3), n); break;
    case 2: IS(send(here->fd, at(here->out), n, MSG_EOR), n); break;
    case 3: IS(sendto(here->fd, at(here->out), n, MSG_NOSIGNAL, 0, 0), n); break;
    case 4: IS(sendmsg(here->fd, &m, 0), n); break;
    case 5:
        IS(sendmmsg(here->fd, &mm, 1, 0), 1);
        IS(mm.msg_len, n);
    }
    here->out += n;
    return n;
}
/* Takes one message, which must have n bytes, by some call. */
static long gets(long n) {
    static _Thread_local unsigned call;
    static _Thread_local unsigned char b[1 << 19];
    struct iovec v[3] = {{b, 10}, {0, 0}, {b + 10, sizeof b - 10}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 3};
    struct mmsghdr mm = {m};
    switch (call++ % 6) {
    case 0: IS(read(here->fd, b, sizeof b), n); break;
    case 1: IS(readv(here->fd, v, 3), n); break;
    case 2: IS(recv(here->fd, b, sizeof b, MSG_WAITALL), n); break;
    case 3: IS(recvfrom(here->fd, b, sizeof b, MSG_TRUNC, 0, 0), n); break;
    case 4:
        IS(recvmsg(here->fd, &m, 0), n);
        IS(m.msg_flags, 0);
        break;
    case 5:
        IS(recvmmsg(here->fd, &mm, 1, 0, 0), 1);
        IS(mm.msg_len, n);
        IS(mm.msg_hdr.msg_flags, 0);
    }
    same(b, n, here->in);
    here->in += n;
    return n;
}
static long round_size(long i) { return i % 13 == 5 ? 0 : 1 + i * i * 37 % (i % 9 ? 700 : 30000); }
static long all_messages(long n) {
    for (long i = 0; i < n; i++) message(round_size(i));
    return 0;
}
static long gets_all(long n) {
    for (long i = 0; i < n; i++) gets(round_size(i));
    return 0;
}
/* No message is cut or joined, none is lost, and they come in order; an empty one is one. */
static void limits_and_order(void) {
    meet();
    ask(all_messages, 3000);
    gets_all(3000);
    answer();
    ask(gets_all, 3000);
    all_messages(3000);
    answer();
}
static void *writes_in_thread(void *n) {
    all_messages((long)n);
    return 0;
}
static long both_ways(long n) {
    pthread_t t;
    pthread_create(&t, 0, writes_in_thread, (void *)n);
    gets_all(n);
    pthread_join(t, 0);
    return 0;
}
static void duplex(void) {
    meet();
    ask(both_ways, 2000);
    both_ways(2000);
    answer();
}
/* What does not fit in the buffer is dropped with its read, and MSG_TRUNC says so. */
static void short_buffers(void) {
    meet();
    for (int i = 0; i < 4; i++) {
        struct iovec v = {B, 100};
        struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
        TELL(message, 5000, 5000);
        TELL(message, 7, 7);
        if (i == 0) IS(read(here->fd, B, 100), 100);
        if (i == 1) IS(recv(here->fd, B, 100, MSG_TRUNC), 5000);
        if (i == 2) {
            IS(recvmsg(here->fd, &m, 0), 100);
            IS(m.msg_flags, MSG_TRUNC);
        }
        if (i == 3) {
            IS(recvmsg(here->fd, &m, MSG_TRUNC | MSG_PEEK), 5000);
            IS(m.msg_flags, MSG_TRUNC);
            IS(recv(here->fd, B, 0, 0), 0);
        }
        if (i < 3) same(B, 100, here->in);
        here->in += 5000;
        gets(7);
    }
}
static void peek(void) {
    meet();
    TELL(message, 3000, 3000);
    TELL(message, 0, 0);
    TELL(message, 20, 20);
    for (int i = 0; i < 3; i++) {
        IS(recv(here->fd, B, 5000, MSG_PEEK), 3000);
        same(B, 3000, here->in);
        IS(recv(here->fd, B, 10, MSG_PEEK), 10);
        IS(recv(here->fd, B, 0, MSG_PEEK | MSG_TRUNC), 3000);
    }
    gets(3000);
    IS(recv(here->fd, B, 10, MSG_PEEK | MSG_DONTWAIT), 0);
    gets(0);
    gets(20);
    FAILS(recv(here->fd, B, 10, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
}
/* LINUX: FIONREAD: the next message of a datagram, all bytes of a seqpacket. */
static void counts(void) {
    meet();
    TELL(message, 3000, 3000);
    TELL(message, 500, 500);
    IS(unread(), is_dgram() ? 3000 : 3500);
    gets(3000);
    IS(unread(), 500);
    gets(500);
    IS(unread(), 0);
    sends(1000);
    CHECK(asked_of(here->fd, SIOCOUTQ) > 0, "it is unread");
    TELL(gets, 1000, 1000);
    IS(asked_of(here->fd, SIOCOUTQ), 0);
}
static long finds_none(long none) {
    FAILS(recv(here->fd, B, 10, MSG_DONTWAIT), EAGAIN);
    return 0;
}
/* An empty message is no end. LINUX: read_write.c: writev of nothing sends none, and a read of nothing takes none. */
static void empty(void) {
    struct iovec v = {B, 0};
    meet();
    IS(writev(here->fd, &v, 1), 0);
    TELL(finds_none, 0, 0);
    IS(write(here->fd, B, 0), 0);
    TELL(gets, 0, 0);
    TELL(message, 20, 20);
    IS(read(here->fd, B, 0), 0);
    IS(readv(here->fd, &v, 1), 0);
    gets(20);
    for (int i = 0; i < 3; i++) TELL(message, 0, 0);
    IS(events(here->fd, POLLIN, 0), POLLIN);
    for (int i = 0; i < 3; i++) gets(0);
    FAILS(recv(here->fd, B, 10, MSG_DONTWAIT), EAGAIN);
    TELL(message, 10, 10);
    gets(10);
}
/* LINUX: af_unix.c: a message is at most SO_SNDBUF less 32 bytes. */
static void largest(void) {
    meet();
    long most = option(here->fd, SO_SNDBUF) - 32;
    CHECK(most > 4096, "SO_SNDBUF");
    ask(gets, most);
    message(most);
    answer();
    FAILS(write(here->fd, B, most + 1), EMSGSIZE);
    FAILS(send(here->fd, B, sizeof B, MSG_DONTWAIT), EMSGSIZE);
    set_option(here->fd, SO_SNDBUF, 5000);
    FAILS(write(here->fd, B, 10000 - 31), EMSGSIZE);
    ask(gets, 10000 - 32);
    message(10000 - 32);
    answer();
    message(100);
    TELL(gets, 100, 100);
}
/* Many messages by one call; as many as are there. */
static void many_by_one_call(void) {
    enum { N = 40 };
    struct mmsghdr m[N] = {0};
    struct iovec v[N];
    meet();
    for (int round = 0; round < 3; round++) {
        long n = 0, from = here->out;
        for (int i = 0; i < N; i++) {
            v[i] = (struct iovec){(void *)at(from + n), i * 10};
            m[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = v + i, .msg_iovlen = 1}};
            n += i * 10;
        }
        IS(sendmmsg(here->fd, m, N, 0), N);
        for (int i = 0; i < N; i++) IS(m[i].msg_len, i * 10);
        here->out += n;
        for (int i = 0; i < N; i++) TELL(gets, i * 10, i * 10);
        for (int i = 0; i < N - 5; i++) TELL(message, 100 + i, 100 + i);
        for (int i = 0; i < N; i++) {
            v[i] = (struct iovec){B + 1000 * i, i == 3 ? 50 : 1000};
            m[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = v + i, .msg_iovlen = 1}};
        }
        IS(recvmmsg(here->fd, m, N, round == 1 ? MSG_WAITFORONE : MSG_DONTWAIT, 0), N - 5);
        for (int i = 0; i < N - 5; i++) {
            IS(m[i].msg_len, i == 3 ? 50 : 100 + i);
            IS(m[i].msg_hdr.msg_flags, i == 3 ? MSG_TRUNC : 0);
            same(B + 1000 * i, m[i].msg_len, here->in);
            here->in += 100 + i;
        }
        struct timespec t = {0, 20000000};
        TELL(message, 5, 5);
        IS(recvmmsg(here->fd, m, 1, 0, &t), 1);
        here->in += 5;
    }
}
/* LINUX: af_unix.c: full by memory, as a stream; a writer waits for room for all of its message. */
static long writes_message(long n) { return message(n); }
static void full(void) {
    static const long pieces[] = {1, 100, 4096, 30000};
    meet();
    for (int i = 0; i < 4; i++) {
        long n = fills(pieces[i]);
        CHECK(n >= 200 * (pieces[i] < 200 ? pieces[i] : 200) && n < 3 * option(here->fd, SO_SNDBUF), "%ld bytes", n);
        IS(events(here->fd, POLLOUT, 0), 0);
        falls_asleep(0, writes_message, pieces[i]);
        for (long k = n / pieces[i]; k; k--) TELL(gets, pieces[i], pieces[i]);
        IS(wakes(0), pieces[i]);
        TELL(gets, pieces[i], pieces[i]);
        IS(events(here->fd, POLLOUT, 0), POLLOUT);
    }
    set_time(here->fd, SO_SNDTIMEO, 50);
    long n = fills(1000);
    double t = now();
    FAILS(write(here->fd, at(here->out), 1000), EAGAIN);
    CHECK(now() - t > 0.04, "after the time");
    for (long k = n / 1000; k; k--) TELL(gets, 1000, 1000);
}
static long takes_records(long n) {
    int next[WRITERS] = {0};
    for (long i = 0; i < n; i++) IS(take_record(here->fd, next), 1);
    return n;
}
static void several_writers(void) {
    pid_t c[WRITERS];
    meet();
    for (int i = 0; i < WRITERS; i++)
        if (!(c[i] = child())) {
            write_records(here->fd, i, 400);
            _exit(0);
        }
    TELL(takes_records, WRITERS * 400, WRITERS * 400);
    for (int i = 0; i < WRITERS; i++) REAP0(c[i]);
}
/* Several readers: each message comes to one of them, whole. */
static long reads_shared(long n) {
    static volatile long *taken;
    pid_t c[READERS];
    taken = shared(4096);
    for (int i = 0; i < READERS; i++)
        if (!(c[i] = child())) {
            int next[WRITERS] = {0};
            struct record m;
            while (read(here->fd, &m, sizeof m) == sizeof m && m.size) {
                CHECK(m.sum == sum_of(&m) && (int)m.number >= next[m.by], "a record was changed or out of order");
                next[m.by] = m.number + 1;
                __sync_fetch_and_add(taken, 1);
            }
            _exit(0);
        }
    for (int i = 0; i < READERS; i++) REAP0(c[i]);
    return *taken;
}
static void several_readers(void) {
    struct record last = {0};
    meet();
    ask(reads_shared, 0);
    for (int i = 0; i < WRITERS; i++) write_records(here->fd, i, 400);
    for (int i = 0; i < READERS; i++) IS(write(here->fd, &last, sizeof last), sizeof last);
    IS(answer(), WRITERS * 400);
}
/* A descriptor and the writer's credentials come with their message, and with no other; a short buffer keeps them. */
static long with_right(long n) {
    char room[CMSG_SPACE(sizeof(int))] = {0};
    int fd = memfd_create("right", 0);
    struct iovec v = {(void *)at(here->out), n};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    *h = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    IS(ftruncate(fd, n), 0);
    memcpy(CMSG_DATA(h), &fd, sizeof fd);
    IS(sendmsg(here->fd, &m, 0), n);
    here->out += n;
    return close(fd);
}
static void control(void) {
    meet();
    for (int creds = 0; creds < 2; creds++) {
        set_option(here->fd, SO_PASSCRED, creds);
        TELL(message, 100, 100);
        for (int i = 0; i < 3; i++) TELL(with_right, i * 77, 0);
        TELL(message, 100, 100);
        for (int i = 0; i < 5; i++) {
            char room[200];
            struct iovec v = {B, 60};
            struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
            long n = i == 0 || i == 4 ? 100 : (i - 1) * 77;
            int rights = 0, who = 0;
            IS(recvmsg(here->fd, &m, MSG_CMSG_CLOEXEC), n < 60 ? n : 60);
            IS(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC), n > 60 ? MSG_TRUNC : 0);
            same(B, n < 60 ? n : 60, here->in);
            here->in += n;
            for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
                struct stat s;
                struct ucred u;
                int fd;
                if (h->cmsg_type == SCM_CREDENTIALS) {
                    memcpy(&u, CMSG_DATA(h), sizeof u);
                    IS(u.pid, peer);
                    who++;
                    continue;
                }
                memcpy(&fd, CMSG_DATA(h), sizeof fd);
                IS(fstat(fd, &s), 0);
                IS(s.st_size, n);
                rights += !close(fd);
            }
            IS(rights, i > 0 && i < 4);
            IS(who, creds);
        }
    }
}
/* A sleeping reader: a message, a time, a signal, the end. */
static long reads(long n) { return recv(here->fd, B, n, MSG_WAITALL); }
static volatile int hits;
static void on(int s) { hits++; }
static void reader_sleeps(void) {
    meet();
    falls_asleep(0, reads, 100);
    TELL(message, 30, 30);
    IS(wakes(0), 30);
    falls_asleep(0, reads, 100);
    TELL(message, 0, 0);
    IS(wakes(0), 0);
    handle(SIGUSR1, on, 0);
    falls_asleep(0, reads, 100);
    IS(interrupts(0), -1);
    IS(errno, EINTR);
    set_time(here->fd, SO_RCVTIMEO, 50);
    double t = now();
    FAILS(read(here->fd, B, 10), EAGAIN);
    CHECK(now() - t > 0.04, "after the time");
    set_time(here->fd, SO_RCVTIMEO, 0);
    falls_asleep(0, reads, 100);
    IS(shutdown(here->fd, SHUT_RD), 0);
    IS(wakes(0), 0);
}
/* LINUX: af_unix.c: a datagram socket is told nothing of the other's end; a write is refused, and drops what is unread here. */
static void datagram_ends(void) {
    for (int way = 0; way < 3; way++)
        for (int first = 0; first < 2; first++) {
            if (!is_dgram()) return;
            meet();
            TELL(whole, 5, 5);
            whole(300);
            if (way == 0) TELL(closes, 0, 0);
            if (way == 1) peer_exits();
            if (way == 2) kill_peer();
            IS(shows(), POLLIN | POLLOUT);
            if (first) {
                takes(5);
                FAILS(recv(here->fd, B, 10, MSG_DONTWAIT), EAGAIN);
            }
            FAILS(send(here->fd, "x", 1, 0), ECONNREFUSED);
            FAILS(send(here->fd, "x", 1, 0), ENOTCONN);
            IS(shows(), POLLOUT);
            FAILS(recv(here->fd, B, 10, MSG_DONTWAIT), EAGAIN);
            IS(option(here->fd, SO_ERROR), 0);
            close(here->fd);
            kill_peer();
        }
}
UNIX_MAIN(T(limits_and_order), T(duplex), T(short_buffers), T(peek), T(counts), T(empty), T(largest), T(many_by_one_call), T(full),
          T(several_writers), T(several_readers), T(control), T(reader_sleeps), T(datagram_ends))
