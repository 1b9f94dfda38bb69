/* Checks: control messages on a hot UNIX stream: SCM_RIGHTS and SCM_CREDENTIALS stay with their bytes, among bytes without any;
 * a reader that asks for none; too little room; a peek; limits. The descriptors are of memory files that hold their numbers.
 * Does not check: an end that is passed on (unix_leave.c), control messages on seqpackets (unix_seqpacket.c). */
#define MODES "pair", "path", "abstract"
#include "unix_calls.h"
enum { MOST = 253 };
/* A memory file that says which one it is. */
static int numbered(int number) {
    int f = memfd_create("numbered", MFD_CLOEXEC);
    CHECK(f >= 0 && write(f, &number, sizeof number) == sizeof number, "memfd_create");
    return f;
}
static int number_of(int f) {
    int number = -1;
    IS(pread(f, &number, sizeof number, 0), sizeof number);
    return number;
}
/* Writes n bytes with `count` descriptors, numbered from `first`. */
static long with_rights(long n, int count, int first, int flags) {
    char room[CMSG_SPACE(sizeof(int) * MOST)] = {0};
    int fds[MOST];
    struct iovec v = {(void *)at(here->out), n};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    *h = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int) * count)};
    for (int i = 0; i < count; i++) fds[i] = numbered(first + i);
    memcpy(CMSG_DATA(h), fds, sizeof(int) * count);
    ssize_t k = sendmsg(here->fd, &m, flags);
    for (int i = 0; i < count; i++) close(fds[i]);
    if (k > 0) here->out += k;
    return k;
}
static long sends_1_right(long n) { return with_rights(n, 1, 100, 0); }
static long sends_3_rights(long n) { return with_rights(n, 3, 200, 0); }
/* What a read with room for control messages gave. */
static struct got {
    long n;
    int flags, count, fds[MOST];
    struct ucred by;
    int has_creds;
} G;
static void reads_with_room(long most, size_t room, int flags) {
    static unsigned char b[1 << 20];
    static char c[CMSG_SPACE(sizeof(int) * MOST) + 100];
    struct iovec v = {b, most};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = room};
    G = (struct got){.n = recvmsg(here->fd, &m, flags)};
    if (G.n < 0) return;
    same(b, G.n, here->in);
    if (!(flags & MSG_PEEK)) here->in += G.n;
    G.flags = m.msg_flags;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
        IS(h->cmsg_level, SOL_SOCKET);
        if (h->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&G.by, CMSG_DATA(h), sizeof G.by);
            G.has_creds++;
        } else if (h->cmsg_type == SCM_RIGHTS) {
            G.count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
            memcpy(G.fds, CMSG_DATA(h), sizeof(int) * G.count);
        }
    }
}
#define ROOM CMSG_SPACE(sizeof(int) * MOST)
static void has(int line, long n, int count, int first) {
    if (G.n != n || G.count != count)
        failed(line, "%ld bytes with %d descriptors must come, and %ld came with %d", n, count, G.n, G.count);
    for (int i = 0; i < count; i++) {
        IS(number_of(G.fds[i]), first + i);
        close(G.fds[i]);
    }
}
#define HAS(n, count, first) has(__LINE__, n, count, first)
static int free_number(void) { /* the lowest descriptor that is not in use */
    int f = dup(0);
    close(f);
    return f;
}
/* LINUX: af_unix.c: a read joins bytes before the descriptors with those that have them, and ends with that piece. */
static void stay_with_their_bytes(void) {
    meet();
    for (int i = 0; i < 20; i++) {
        int before = free_number();
        TELL(sends, 10, 0);
        TELL(sends_1_right, 5, 5);
        TELL(sends, 10, 0);
        TELL(sends_3_rights, 7, 7);
        TELL(sends_1_right, 3, 3);
        TELL(sends, 4, 0);
        reads_with_room(4, ROOM, 0);
        HAS(4, 0, 0);
        reads_with_room(1000, ROOM, 0);
        HAS(11, 1, 100);
        reads_with_room(1000, ROOM, 0);
        HAS(17, 3, 200);
        reads_with_room(2, ROOM, 0);
        HAS(2, 1, 100);
        reads_with_room(1000, ROOM, 0);
        HAS(5, 0, 0);
        IS(free_number(), before);
        TELL(sends, HOT / 4, 0);
        takes(HOT / 4);
    }
}
/* A part of the bytes that have a descriptor takes it; the rest comes without. */
static void with_the_first_byte(void) {
    meet();
    ask(sends_1_right, 200000);
    reads_with_room(1, ROOM, 0);
    HAS(1, 1, 100);
    long left = 199999;
    while (left) {
        reads_with_room(50000, ROOM, 0);
        CHECK(G.n > 0 && !G.count, "only bytes");
        left -= G.n;
    }
    IS(answer(), 200000);
}
/* A reader without room lets go of them: the last holder's file is closed. */
static long sends_pipe(long n) { /* the write end of a pipe whose read end this process has */
    static int p[2];
    char room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec v = {(void *)at(here->out), n};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (!n) return events(p[0], POLLIN, 0) & POLLHUP ? close(p[0]), 1 : 0;
    CHECK(!pipe(p), "pipe");
    *h = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(h), &p[1], sizeof(int));
    IS(sendmsg(here->fd, &m, 0), n);
    close(p[1]);
    here->out += n;
    return n;
}
static void without_room(void) {
    unsigned char b[100];
    meet();
    for (int how = 0; how < 6; how++) {
        struct iovec v = {b, 100};
        struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
        struct mmsghdr mm = {m};
        int before = free_number();
        long n = 0;
        TELL(sends, 10, 0);
        TELL(sends_pipe, 5, 5);
        TELL(sends, 10, 0);
        TELL(sends_pipe, 0, 0);
        if (how == 0) n = read(here->fd, b, 100);
        if (how == 1) n = readv(here->fd, &v, 1);
        if (how == 2) n = recv(here->fd, b, 100, 0);
        if (how == 3) n = recvmsg(here->fd, &m, 0);
        if (how == 4) n = recvmmsg(here->fd, &mm, 1, 0, 0) == 1 ? mm.msg_len : -1;
        if (how == 5) n = recvfrom(here->fd, b, 100, 0, 0, 0);
        IS(n, 15);
        same(b, 15, here->in);
        here->in += 15;
        if (how == 3) IS(m.msg_flags & MSG_CTRUNC, MSG_CTRUNC);
        takes(10);
        IS(free_number(), before);
        UNTIL(tell(sends_pipe, 0) == 1);
    }
}
static void room_for_some(void) {
    meet();
    int before = free_number();
    TELL(sends_3_rights, 9, 9);
    reads_with_room(100, CMSG_LEN(sizeof(int) * 2), 0);
    IS(G.flags & MSG_CTRUNC, MSG_CTRUNC);
    HAS(9, 2, 200);
    IS(free_number(), before);
    TELL(sends_1_right, 9, 9);
    reads_with_room(100, CMSG_LEN(1), 0);
    IS(G.flags & MSG_CTRUNC, MSG_CTRUNC);
    HAS(9, 0, 0);
    IS(free_number(), before);
    TELL(sends, 100, 0);
    reads_with_room(100, ROOM, 0);
    IS(G.flags, 0);
    HAS(100, 0, 0);
}
static void close_on_exec(void) {
    meet();
    for (int on = 0; on < 2; on++) {
        TELL(sends_1_right, 9, 9);
        reads_with_room(100, ROOM, on ? MSG_CMSG_CLOEXEC : 0);
        IS(fcntl(G.fds[0], F_GETFD), on ? FD_CLOEXEC : 0);
        IS(G.flags & ~MSG_CMSG_CLOEXEC, 0);
        HAS(9, 1, 100);
    }
}
/* A peek gives descriptors of its own, and leaves those that come. */
static void peeked(void) {
    meet();
    TELL(sends, 10, 0);
    TELL(sends_1_right, 5, 5);
    TELL(sends, 10, 0);
    for (int i = 0; i < 3; i++) {
        reads_with_room(100, ROOM, MSG_PEEK);
        HAS(15, 1, 100);
        IS(unread(), 25);
    }
    reads_with_room(100, ROOM, 0);
    HAS(15, 1, 100);
    reads_with_room(100, ROOM, 0);
    HAS(10, 0, 0);
}
/* LINUX: af_unix.c: MSG_WAITALL ends with a piece that has descriptors. */
static void wait_all_ends(void) {
    meet();
    TELL(sends, 10, 0);
    TELL(sends_1_right, 5, 5);
    TELL(sends, 10, 0);
    reads_with_room(20, ROOM, MSG_WAITALL);
    HAS(15, 1, 100);
    reads_with_room(10, ROOM, MSG_WAITALL);
    HAS(10, 0, 0);
}
static void limits(void) {
    meet();
    TELL(finds, 0, 0);
    char room[CMSG_SPACE(sizeof(int) * (MOST + 1))] = {0};
    struct iovec v = {"abcd", 4};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    *h = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int) * (MOST + 1))};
    FAILS(sendmsg(here->fd, &m, 0), EINVAL);
    h->cmsg_len = CMSG_LEN(sizeof(int));
    *(int *)CMSG_DATA(h) = 9999;
    m.msg_controllen = CMSG_SPACE(sizeof(int));
    FAILS(sendmsg(here->fd, &m, 0), EBADF);
    h->cmsg_type = 99;
    FAILS(sendmsg(here->fd, &m, 0), EINVAL);
    h->cmsg_len = 3;
    FAILS(sendmsg(here->fd, &m, 0), EINVAL);
    h->cmsg_len = CMSG_LEN(sizeof(int));
    h->cmsg_type = SCM_RIGHTS;
    *(int *)CMSG_DATA(h) = 0;
    v.iov_len = 0; /* nothing is written: nothing goes with it */
    IS(sendmsg(here->fd, &m, 0), 0);
    TELL(finds, 0, 0);
    sends(HOT / 4);
    TELL(takes, HOT / 4, 0);
}
static long sends_most_rights(long n) { return with_rights(n, MOST, 1000, 0); }
static void many_at_once(void) {
    meet();
    for (int i = 0; i < 3; i++) {
        TELL(sends, 1000, 0);
        TELL(sends_most_rights, 1, 1);
        TELL(sends, 1000, 0);
        reads_with_room(9000, ROOM, 0);
        HAS(1001, MOST, 1000);
        reads_with_room(9000, ROOM, 0);
        HAS(1000, 0, 0);
    }
}
/* A stream of many bytes with descriptors now and then: each comes once, in order, with a read that ends in its piece. */
enum { ROUNDS = 400, EVERY = 7 };
static long round_size(long i) { return 1 + i * i * 31 % (i % 11 ? 900 : 30000); }
static long now_and_then(long none) {
    for (int i = 0; i < ROUNDS; i++)
        if (i % EVERY == 3)
            IS(with_rights(round_size(i), 1 + i % 3, 10 * i, i % 2 ? MSG_NOSIGNAL : 0), round_size(i));
        else
            whole(round_size(i));
    return 0;
}
static void reads_now_and_then(void) {
    long total = 0, done = 0, begin = 0;
    int next = 0; /* the round whose descriptors come next */
    for (int i = 0; i < ROUNDS; i++) total += round_size(i);
    while (next < ROUNDS && next % EVERY != 3) begin += round_size(next++);
    for (int i = 0; done < total; i++) {
        long most = 1 + i * 37 % 5000;
        reads_with_room(most < total - done ? most : total - done, ROOM, i % 5 == 1 ? MSG_WAITALL : 0);
        CHECK(G.n > 0, "recvmsg gave %ld", G.n);
        int comes = next < ROUNDS && done + G.n > begin;
        IS(G.count, comes ? 1 + next % 3 : 0);
        done += G.n;
        if (!comes) continue;
        CHECK(done <= begin + round_size(next), "a read went beyond the descriptors of round %d", next);
        HAS(G.n, 1 + next % 3, 10 * next);
        do begin += round_size(next++);
        while (next < ROUNDS && next % EVERY != 3);
    }
}
static void among_many_bytes(void) {
    meet();
    int before = free_number();
    ask(now_and_then, 0);
    reads_now_and_then();
    answer();
    IS(free_number(), before);
}
static long reads_them(long none) {
    reads_now_and_then();
    return 0;
}
static void among_many_bytes_back(void) {
    meet();
    ask(reads_them, 0);
    now_and_then(0);
    answer();
    sends(HOT / 4);
    TELL(takes, HOT / 4, 0);
}
/* A reader that waits is woken by bytes with descriptors. */
static long waits_with_room(long most) {
    reads_with_room(most, ROOM, 0);
    return G.n;
}
static void wakes_a_reader(void) {
    meet();
    falls_asleep(0, waits_with_room, 100);
    TELL(sends_1_right, 5, 5);
    IS(wakes(0), 5);
    HAS(5, 1, 100);
}
/* What is in flight when its sender dies still comes; when its reader dies it is closed. */
static void in_flight(void) {
    meet();
    TELL(sends, 1000, 0);
    TELL(sends_3_rights, 9, 9);
    kill_peer();
    reads_with_room(5000, ROOM, 0);
    HAS(1009, 3, 200);
    AT_EOF(here->fd);
    meet();
    sends(1000);
    IS(sends_pipe(5), 5);
    IS(sends_pipe(0), 0);
    kill_peer();
    UNTIL(sends_pipe(0) == 1);
}
/* LINUX: unix(7): SO_PASSCRED: each read says who wrote; it never joins what two have written. */
static long creds(long n) { /* says so itself */
    char room[CMSG_SPACE(sizeof(struct ucred))] = {0};
    struct ucred u = {getpid(), getuid(), getgid()};
    struct iovec v = {(void *)at(here->out), n};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    *h = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS, .cmsg_len = CMSG_LEN(sizeof u)};
    memcpy(CMSG_DATA(h), &u, sizeof u);
    ssize_t k = sendmsg(here->fd, &m, 0);
    if (k > 0) here->out += k;
    return k;
}
static long child_sends(long n) {
    pid_t c = child();
    if (!c) {
        whole(n);
        _exit(0);
    }
    REAP0(c);
    here->out += n;
    return c;
}
static void by(pid_t who, long n) {
    reads_with_room(1000, ROOM, 0);
    HAS(n, 0, 0);
    IS(G.has_creds, 1);
    IS(G.by.pid, who);
    IS(G.by.uid, getuid());
    IS(G.by.gid, getgid());
}
static void credentials(void) {
    meet();
    TELL(creds, 10, 10);
    reads_with_room(100, ROOM, 0); /* not asked for */
    HAS(10, 0, 0);
    IS(G.has_creds, 0);
    set_option(here->fd, SO_PASSCRED, 1);
    IS(option(here->fd, SO_PASSCRED), 1);
    TELL(sends, 10, 0);
    by(peer, 10);
    pid_t c = tell(child_sends, 10);
    TELL(sends, 10, 0);
    TELL(sends, 10, 0);
    by(c, 10);
    by(peer, 20);
    TELL(creds, 10, 10);
    by(peer, 10);
    c = tell(child_sends, 500);
    pid_t d = tell(child_sends, 500);
    by(c, 500);
    by(d, 500);
    TELL(sends_1_right, 5, 5);
    reads_with_room(100, ROOM, 0);
    IS(G.has_creds, 1);
    IS(G.by.pid, peer);
    HAS(5, 1, 100);
    set_option(here->fd, SO_PASSCRED, 0);
    TELL(sends, HOT / 4, 0);
    takes(HOT / 4);
    reads_with_room(100, ROOM, MSG_DONTWAIT);
    IS(errno, EAGAIN);
}
/* It is turned on with bytes unread: those are told as the kernel tells them. */
static void credentials_late(void) {
    meet();
    TELL(sends, 60000, 0);
    set_option(here->fd, SO_PASSCRED, 1);
    reads_with_room(1000, ROOM, 0);
    IS(G.n, 1000);
    IS(G.has_creds, 1);
    long left = 59000;
    while (left) {
        reads_with_room(7000, ROOM, 0);
        CHECK(G.n > 0 && G.has_creds == 1, "bytes with their writer");
        left -= G.n;
    }
    TELL(sends, 10, 0);
    by(peer, 10);
    char b[10];
    TELL(sends, 10, 0);
    IS(read(here->fd, b, 10), 10);
    same(b, 10, here->in);
}
/* Another's credentials are refused, but to the privileged. */
static void false_credentials(void) {
    meet();
    pid_t c = child();
    if (!c) {
        char room[CMSG_SPACE(sizeof(struct ucred))] = {0};
        struct ucred u = {getppid(), 0, 0};
        struct iovec v = {"x", 1};
        struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        *h = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS, .cmsg_len = CMSG_LEN(sizeof u)};
        if (!getuid()) CHECK(!setgid(65534) && !setuid(65534), "nobody");
        memcpy(CMSG_DATA(h), &u, sizeof u);
        FAILS(sendmsg(here->fd, &m, 0), EPERM);
        _exit(0);
    }
    REAP0(c);
    TELL(finds, 0, 0);
    sends(1000);
    TELL(takes, 1000, 0);
}
/* LINUX: SO_PASSSEC and SO_PASSPIDFD (6.5) are accepted; a pid's descriptor comes with the bytes. */
static void other_options(void) {
    int one = 1;
    meet();
    if (!setsockopt(here->fd, SOL_SOCKET, SO_PASSSEC, &one, sizeof one)) {
        TELL(sends, 60000, 0);
        takes(60000);
        set_option(here->fd, SO_PASSSEC, 0);
    }
#ifndef SO_PASSPIDFD
#define SO_PASSPIDFD 76
#endif
    if (!setsockopt(here->fd, SOL_SOCKET, SO_PASSPIDFD, &one, sizeof one)) {
        int before = free_number(), f;
        char b[100], c[100];
        struct iovec v = {b, 100};
        struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = c, .msg_controllen = sizeof c};
        TELL(sends, 60, 0);
        IS(recvmsg(here->fd, &m, 0), 60);
        same(b, 60, here->in);
        here->in += 60;
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        CHECK(h && h->cmsg_type == 4, "SCM_PIDFD");
        memcpy(&f, CMSG_DATA(h), sizeof f);
        IS(syscall(SYS_pidfd_send_signal, f, 0, 0, 0), 0);
        close(f);
        IS(free_number(), before);
    }
    TELL(sends, HOT / 4, 0);
    takes(HOT / 4);
}
UNIX_MAIN(T(stay_with_their_bytes), T(with_the_first_byte), T(without_room), T(room_for_some), T(close_on_exec), T(peeked),
          T(wait_all_ends), T(limits), T(many_at_once), T(among_many_bytes), T(among_many_bytes_back), T(wakes_a_reader),
          T(in_flight), T(credentials), T(credentials_late), T(false_credentials), T(other_options))
