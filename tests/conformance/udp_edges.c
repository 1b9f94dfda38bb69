/* Checks: the edges of the calls on UDP sockets of one host: calls of no bytes, what a message says of itself, and names that are
 * short, long or of another family; what the kernel sends by itself, and datagrams of a sender that is gone. Each case before the sockets are hot and after.
 * Does not check: the usual calls (udp_calls.c), which datagrams are carried (udp.sh). */
#include "udp_calls.h"
#include <sys/sendfile.h>
static void has_received(long i) {
    get_one(i, 20);
    nothing(R);
}
/* write(2) of no bytes is an empty datagram, writev(2) of none is nothing; readv(2) of none takes none */
static void no_bytes(void) {
    struct iovec none[2] = {{B, 0}, {0, 0}}, into = {C, 20};
    struct msghdr m = {.msg_iov = none, .msg_iovlen = 2};
    meet();
    if (named()) m.msg_name = &to, m.msg_namelen = to_len;
    for (long i = 0; i < 40; i++) {
        put_one(i, 20);
        IS(readv(R, none, 2), 0);
        IS(readv(R, none, 0), 0);
        IS(read(R, 0, 0), 0);
        IS(writev(S, none, 2), 0);
        IS(writev(S, none, 0), 0);
        IS(readv(R, &into, 1), 20);
        verify(C, 20, i);
        nothing(R);
        if (!named()) {
            IS(write(S, B, 0), 0);
            get_one(0, 0);
        }
        IS(sendmsg(S, &m, 0), 0);
        IS(sends(B, 0), 0);
        m.msg_iovlen = 0;
        IS(sendmsg(S, &m, 0), 0);
        m.msg_iovlen = 2;
        struct msghdr g = {.msg_iov = none, .msg_iovlen = i % 3};
        IS(recvmsg(R, &g, 0), 0);
        IS(g.msg_flags, 0);
        IS(recv(R, 0, 0, 0), 0);
        get_one(0, 0);
        put_one(i, 20);
        IS(recvmsg(R, &g, 0), 0);
        IS(g.msg_flags, MSG_TRUNC);
        nothing(R);
    }
}
static void message_flags(void) {
    static const int flags[] = {0, MSG_CMSG_CLOEXEC, MSG_TRUNC | MSG_CMSG_CLOEXEC, MSG_PEEK | MSG_CMSG_CLOEXEC, MSG_DONTWAIT};
    meet();
    for (long i = 0; i < 50; i++) {
        char control[64];
        size_t room = i % 2 ? 20 : 7;
        int f = flags[i % 5], cut = room < 20;
        struct iovec v = {C, room};
        struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = i % 3 ? control : 0, .msg_controllen = sizeof control, .msg_flags = 3};
        put_one(i, 20);
        IS(recvmsg(R, &m, f), f & MSG_TRUNC ? 20 : room);
        IS(m.msg_flags, (f & MSG_CMSG_CLOEXEC) | (cut ? MSG_TRUNC : 0));
        IS(m.msg_controllen, 0);
        verify(C, room, i);
        if (f & MSG_PEEK) get_one(i, 20);
        nothing(R);
    }
    for (long i = 0; i < 50; i++) {
        struct iovec v = {C, 20};
        struct mmsghdr m = {.msg_hdr = {.msg_iov = &v, .msg_iovlen = 1}};
        put_one(i, 20);
        IS(recvmmsg(R, &m, 1, MSG_CMSG_CLOEXEC, 0), 1);
        IS(m.msg_hdr.msg_flags, MSG_CMSG_CLOEXEC);
        verify(C, 20, i);
    }
}
static void names(void) {
    struct sockaddr_storage a[4]; /* one, and what is behind it */
    int own = warm_mode == UDP_MAPPED ? AF_INET : family(), is_long = own == AF_INET ? 16 : 28;
    meet();
    memset(a, 0, sizeof a);
    memcpy(a, &to, to_len);
    for (long i = 0; i < 30; i++) {
        struct iovec v = {B, 20};
        struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_name = a, .msg_namelen = 200};
        fill(B, 20, i);
        FAILS(sendto(S, B, 20, 0, (void *)a, 8), EINVAL);
        FAILS(sendto(S, B, 20, 0, (void *)a, own == AF_INET ? 15 : 23), EINVAL);
        FAILS(sendto(S, B, 20, 0, (void *)a, 129), EINVAL);
        FAILS(sendto(S, B, 20, 0, (void *)a, -1), EINVAL);
        nothing(R);
        IS(sendto(S, B, 20, 0, (void *)a, own == AF_INET ? 16 : 24), 20);
        has_received(i);
        IS(sendto(S, B, 20, 0, (void *)a, 128), 20);
        has_received(i);
        IS(sendmsg(S, &m, 0), 20);
        has_received(i);
        m.msg_namelen = -1;
        FAILS(sendmsg(S, &m, 0), EINVAL);
        if (own == AF_INET) {
            struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = ((struct sockaddr_in *)&to)->sin_port};
            inet_pton(AF_INET6, "::ffff:127.0.0.1", &six.sin6_addr);
            FAILS(sendto(S, B, 20, 0, (void *)&six, sizeof six), EAFNOSUPPORT);
        }
        nothing(R);
        /* LINUX ip(7): no family is that of the socket; it comes behind what was sent before */
        for (long k = 0; k < 3; k++) {
            fill(B, 20, i + k);
            IS(sendto(S, B, 20, 0, (void *)a, is_long), 20);
        }
        if (own == AF_INET) {
            a->ss_family = AF_UNSPEC;
            fill(B, 20, i + 3);
            IS(sendto(S, B, 20, 0, (void *)a, is_long), 20);
            a->ss_family = AF_INET;
        }
        for (long k = 0; k < 3 + (own == AF_INET); k++) get_one(i + k, 20);
        nothing(R);
    }
}
/* what the kernel sends by itself comes behind what was sent before */
static void in_order(void) {
    enum { N = 2000 };
    char name[] = "udp_edges.file";
    int p[2], f = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    fill(B, N, 0);
    IS(write(f, B, N), N);
    unlink(name);
    IS(pipe(p), 0);
    for (int how = 0; how < 6; how++) {
        meet();
        int d = how % 2 ? dup(S) : S;
        if (named()) IS(connect(S, (void *)&to, to_len), 0);
        for (long i = 0; i < 3; i++) put_one(i, 100 + i);
        lseek(f, 0, SEEK_SET);
        fill(B, N, 0);
        struct iovec v = {B, 300};
        if (how < 2) IS(sendfile(d, f, 0, 300), 300);
        else if (how < 4) {
            IS(write(p[1], B, 300), 300);
            IS(splice(p[0], 0, d, 0, 300, 0), 300);
        } else IS(pwritev2(d, &v, 1, -1, 0), 300);
        put_one(7, 50);
        for (long i = 0; i < 3; i++) get_one(i, 100 + i);
        get_one(0, 300);
        get_one(7, 50);
        nothing(R);
        if (d != S) close(d);
        close(S);
        close(R);
    }
}
/* A socket sends by two descriptors, of which one has sent more: each datagram comes in its turn. */
static void sends_by_two_descriptors(void) {
    for (int few = 1; few < 70; few += 17) {
        meet();
        int d = dup(S), s = S;
        for (long i = 0; i < 400 + few; i++) {
            S = i < few ? d : s;
            put_one(i, 20);
            get_one(i, 20);
        }
        for (long i = 0; i < 8; i++) {
            S = i % 2 ? d : s;
            put_one(i, 30 + i);
        }
        for (long i = 0; i < 8; i++) get_one(i, 30 + i);
        close(d);
        close(s);
        close(R);
    }
}
/* bytes of the next one, also where the one before came by another way */
static void how_many(void) {
    meet();
    for (long i = 0; i < 200; i++) {
        int n = -1;
        struct msghdr m = {.msg_iov = &(struct iovec){B, 30}, .msg_iovlen = 1};
        if (named()) m.msg_name = &to, m.msg_namelen = to_len;
        fill(B, 30, i);
        IS(sendmsg(S, &m, i % 3 ? 0 : MSG_CONFIRM), 30); /* that flag is the kernel's */
        if (i % 2) get_one(i, 30);
        put_one(i, 35);
        IS(ioctl(R, FIONREAD, &n), 0);
        IS(n, i % 2 ? 35 : 30);
        if (i % 2 == 0) get_one(i, 30);
        get_one(i, 35);
        IS(ioctl(R, FIONREAD, &n), 0);
        IS(n, 0);
    }
}
/* the sender is gone, and what it sent is there: also where the receiver's inbox is left meanwhile */
static void sender_is_gone(void) {
    for (int how = 0; how < 6; how++) {
        meet();
        pid_t c = how % 3 ? child() : 0;
        if (!c) {
            for (long i = 0; i < 20; i++) put_one(i, 100 + i);
            if (how % 3) _exit(0);
        }
        if (c) REAP0(c);
        if (how % 3 != 1) close(S);
        int on = 1;
        if (how > 2) IS(setsockopt(R, SOL_SOCKET, SO_TIMESTAMP, &on, sizeof on), 0);
        for (long i = 0; i < 20; i++) get_one(i, 100 + i);
        nothing(R);
        if (how % 3 == 1) close(S);
        close(R);
    }
}
/* the receiver had a child, which is gone: a close is the last all the same */
static void is_closed_after_a_fork(void) {
    meet();
    if (named()) return;
    for (int i = 0; i < 10; i++) {
        pid_t c = child();
        if (!c) _exit(0);
        REAP0(c);
        put_one(i, 20);
        get_one(i, 20);
        if (i == 8) IS(close(dup(R)), 0);
    }
    close(R);
    put_one(1, 10);
    FAILS(send(S, B, 10, 0), ECONNREFUSED);
}
MAIN({"in_order", in_order}, {"sends_by_two_descriptors", sends_by_two_descriptors}, {"is_closed_after_a_fork", is_closed_after_a_fork}, {"how_many", how_many}, {"sender_is_gone", sender_is_gone}, {"no_bytes", no_bytes}, {"message_flags", message_flags}, {"names", names})
