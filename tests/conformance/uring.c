/* Checks: requests of io_uring(7) on pipes and UNIX sockets that have bytes in flight: reads, writes, closes, polls,
 * splices, epoll_ctl, connect and accept, messages with descriptors, registered files; by a forked child, another
 * number of the ring, a thread of the kernel's; a ring that is closed takes nothing more. Each byte comes in order.
 * Does not check: that other pipes stay carried; explain.sh does. */
#include "uring.h"
#include <sys/un.h>
enum { BYTES = 3000 };
static char b[64 * 1024];
/* Two ends with bytes in flight, [0, BYTES) of the pattern: of a pipe, or of a connection. */
typedef void (*maker)(int p[2]);
static void by_pipe(int p[2]) {
    mkpipe(p);
    put(p[1], BYTES, 0);
}
static void by_socket(int p[2]) {
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, p), "socketpair");
    warm(p[0], p[1]);
    put(p[1], BYTES, 0);
}
static void rest(int p[2], uint64_t from, uint64_t pos) {
    put(p[1], BYTES, pos);
    get(p[0], pos - from + BYTES, from);
    close(p[1]);
    AT_EOF(p[0]);
}
static void reads(maker make) {
    struct uring u = ring_of(0);
    int p[2];
    make(p);
    IS(does(&u, request(IORING_OP_READ, p[0], b, 1000)), 1000);
    verify(b, 1000, 0);
    get(p[0], 500, 1000);
    struct iovec v[2] = {{b, 300}, {b + 300, 200}};
    IS(does(&u, request(IORING_OP_READV, p[0], v, 2)), 500);
    verify(b, 500, 1500);
    rest(p, 2000, BYTES);
}
static void writes(maker make) {
    struct uring u = ring_of(0);
    int p[2];
    make(p);
    fill(b, 1000, BYTES);
    IS(does(&u, request(IORING_OP_WRITE, p[1], b, 1000)), 1000);
    put(p[1], 1000, BYTES + 1000);
    rest(p, 0, BYTES + 2000);
}
/* One that waits is ended by what comes next. */
static void waits(maker make) {
    struct uring u = ring_of(0);
    int p[2];
    make(p);
    get(p[0], BYTES, 0);
    submit(&u, request(IORING_OP_READ, p[0], b, sizeof b));
    IS(has_answer(&u), 0);
    pid_t c = child();
    if (!c) {
        sleep_ms(20);
        put(p[1], 2000, BYTES);
        _exit(0);
    }
    IS(answer(&u), 2000);
    verify(b, 2000, BYTES);
    REAP0(c);
    rest(p, BYTES + 2000, BYTES + 2000);
}
static void closes(maker make) {
    struct uring u = ring_of(0);
    int p[2], q[2];
    make(p);
    IS(does(&u, request(IORING_OP_CLOSE, p[1], 0, 0)), 0);
    FAILS(fcntl(p[1], F_GETFD), EBADF);
    get(p[0], BYTES, 0);
    AT_EOF(p[0]);
    /* the number is another's */
    make(q);
    int n = dup(q[1]);
    IS(n, p[1] == q[0] || p[1] == q[1] ? n : p[1]);
    put(n, 1000, BYTES);
    get(q[0], BYTES + 1000, 0);
    close(n);
    signal(SIGPIPE, SIG_IGN);
    IS(does(&u, request(IORING_OP_CLOSE, q[0], 0, 0)), 0);
    FAILS(write(q[1], b, 1), EPIPE);
}
/* Write and close in one chain: the next file under the number is another. */
static void chain(maker make) {
    struct uring u = ring_of(0);
    int p[2], q[2];
    make(p);
    fill(b, 1000, BYTES);
    struct io_uring_sqe s = request(IORING_OP_WRITE, p[1], b, 1000);
    s.flags = IOSQE_IO_LINK;
    publish(&u, s);
    publish(&u, request(IORING_OP_CLOSE, p[1], 0, 0));
    IS(enter(u.fd, 2, 2), 2);
    IS(answer(&u), 1000);
    IS(answer(&u), 0);
    get(p[0], BYTES + 1000, 0);
    AT_EOF(p[0]);
    close(p[0]);
    make(q);
    rest(q, 0, BYTES);
}
static void polls(maker make) {
    struct uring u = ring_of(0);
    int p[2];
    make(p);
    struct io_uring_sqe s = request(IORING_OP_POLL_ADD, p[0], 0, 0);
    s.poll32_events = POLLIN;
    IS(does(&u, s) & POLLIN, POLLIN);
    get(p[0], BYTES, 0);
    submit(&u, s);
    IS(has_answer(&u), 0);
    put(p[1], 10, BYTES);
    IS(answer(&u) & POLLIN, POLLIN);
    rest(p, BYTES, BYTES + 10);
}
static void splices(void) {
    struct uring u = ring_of(0);
    int p[2], q[2];
    by_pipe(p);
    mkpipe(q);
    struct io_uring_sqe s = request(IORING_OP_SPLICE, q[1], 0, 1000);
    s.splice_fd_in = p[0];
    s.off = s.splice_off_in = -1;
    IS(does(&u, s), 1000);
    get(q[0], 1000, 0);
    put(q[1], 500, 1000);
    s = request(IORING_OP_TEE, q[1], 0, 700);
    s.splice_fd_in = p[0];
    IS(does(&u, s), 700);
    get(q[0], 500, 1000);
    get(q[0], 700, 1000);
    rest(p, 1000, BYTES);
}
static struct io_uring_sqe ctl(int set, int op, int fd, struct epoll_event *e) {
    struct io_uring_sqe s = request(IORING_OP_EPOLL_CTL, set, e, op);
    s.off = fd;
    return s;
}
/* How many events the set has, within ms. */
static int told(int set, int ms) {
    struct epoll_event e[4];
    return epoll_wait(set, e, 4, ms);
}
static void sets(maker make) {
    struct uring u = ring_of(0);
    int p[2], q[2], set = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = 1}, f = {.events = EPOLLIN, .data.fd = 2};
    make(p);
    make(q);
    /* another one is there already */
    IS(epoll_ctl(set, EPOLL_CTL_ADD, q[0], &f), 0);
    get(q[0], BYTES, 0);
    IS(told(set, 0), 0);
    IS(does(&u, ctl(set, EPOLL_CTL_ADD, p[0], &e)), 0);
    IS(told(set, 1000), 1);
    get(p[0], BYTES, 0);
    IS(told(set, 0), 0);
    pid_t c = child();
    if (!c) {
        sleep_ms(30);
        put(p[1], 100, BYTES);
        _exit(0);
    }
    IS(told(set, 5000), 1);
    REAP0(c);
    put(q[1], 100, BYTES);
    IS(told(set, 1000), 2);
    get(p[0], 100, BYTES);
    get(q[0], 100, BYTES);
    /* the first one, by a ring from now on */
    f.events = EPOLLIN | EPOLLET;
    IS(does(&u, ctl(set, EPOLL_CTL_MOD, q[0], &f)), 0);
    put(q[1], 100, BYTES + 100);
    IS(told(set, 1000), 1);
    IS(told(set, 0), 0);
    IS(does(&u, ctl(set, EPOLL_CTL_DEL, p[0], &e)), 0);
    put(p[1], 100, BYTES + 100);
    IS(told(set, 50), 0);
    IS(does(&u, ctl(set, EPOLL_CTL_DEL, q[0], &f)), 0);
    put(q[1], 100, BYTES + 200);
    IS(told(set, 50), 0);
    rest(p, BYTES + 100, BYTES + 200);
    rest(q, BYTES + 100, BYTES + 300);
}
/* Both ends of a connection, made by rings, are used by read(2) and write(2), and the reverse. */
static void connections(void) {
    struct uring u = ring_of(0);
    struct sockaddr_un a = {AF_UNIX, ""};
    socklen_t n = sizeof(sa_family_t);
    int l = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(!bind(l, (void *)&a, n) && !listen(l, 8), "a listening socket");
    n = sizeof a;
    CHECK(!getsockname(l, (void *)&a, &n), "getsockname");
    submit(&u, request(IORING_OP_ACCEPT, l, 0, 0));
    struct io_uring_sqe s = request(IORING_OP_CONNECT, c, &a, 0);
    s.off = n;
    struct uring v = ring_of(0);
    IS(does(&v, s), 0);
    int d = answer(&u);
    CHECK(d >= 0, "accept gave %d", d);
    int one[2] = {d, c}, other[2] = {c, d};
    for (int way = 0; way < 2; way++) {
        int *p = way ? other : one;
        for (int i = 0; i < 64; i++) {
            put(p[1], 4096, i);
            get(p[0], 4096, i);
        }
        put(p[1], BYTES, 0);
        IS(does(&u, request(IORING_OP_RECV, p[0], b, 1000)), 1000);
        verify(b, 1000, 0);
        get(p[0], BYTES - 1000, 1000);
    }
    /* one end by a ring alone */
    int e = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(!connect(e, (void *)&a, n), "connect");
    d = does(&u, request(IORING_OP_ACCEPT, l, 0, 0));
    CHECK(d >= 0, "accept gave %d", d);
    for (int i = 0; i < 100; i++) {
        put(e, 1000, 1000 * i);
        IS(does(&u, request(IORING_OP_RECV, d, b, 1000)), 1000);
        verify(b, 1000, 1000 * i);
        IS(does(&u, request(IORING_OP_SEND, d, b, 1000)), 1000);
        get(e, 1000, 1000 * i);
    }
    IS(does(&u, request(IORING_OP_SHUTDOWN, d, 0, SHUT_WR)), 0);
    AT_EOF(e);
}
/* A pipe that a request sends to another process, which reads what was in flight. */
static void passes(void) {
    struct uring u = ring_of(0);
    int p[2], s[2];
    by_pipe(p);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s), "socketpair");
    union {
        char room[CMSG_SPACE(sizeof(int))];
        struct cmsghdr head;
    } control = {.head = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec v = {b, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    memcpy(CMSG_DATA(&control.head), &p[0], sizeof(int));
    pid_t c = child();
    if (!c) {
        int got;
        close(p[0]);
        close(p[1]);
        IS(recvmsg(s[1], &m, 0), 1);
        memcpy(&got, CMSG_DATA(&control.head), sizeof got);
        get(got, BYTES + 1000, 0);
        AT_EOF(got);
        _exit(0);
    }
    IS(does(&u, request(IORING_OP_SENDMSG, s[0], &m, 1)), 1);
    close(p[0]);
    put(p[1], 1000, BYTES);
    close(p[1]);
    REAP0(c);
}
static void registered(maker make) {
    struct uring u = ring_of(0);
    int p[2], q[2], none[2] = {-1, -1};
    make(p);
    make(q);
    int files[2] = {p[0], -1};
    IS(syscall(SYS_io_uring_register, u.fd, IORING_REGISTER_FILES, files, 2), 0);
    struct io_uring_sqe s = request(IORING_OP_READ, 0, b, 1000);
    s.flags = IOSQE_FIXED_FILE;
    IS(does(&u, s), 1000);
    verify(b, 1000, 0);
    struct io_uring_files_update change = {.offset = 1, .fds = (uintptr_t)&q[0]};
    IS(syscall(SYS_io_uring_register, u.fd, IORING_REGISTER_FILES_UPDATE, &change, 1), 1);
    s.fd = 1;
    IS(does(&u, s), 1000);
    verify(b, 1000, 0);
    rest(p, 1000, BYTES);
    /* by a request; and the number may go */
    int r[2];
    make(r);
    struct io_uring_sqe t = request(IORING_OP_FILES_UPDATE, -1, &r[0], 1);
    t.off = 1;
    IS(does(&u, t), 1);
    int end = r[0];
    IS(does(&u, s), 1000);
    verify(b, 1000, 0);
    put(r[1], 100, BYTES);
    get(end, BYTES - 900, 1000);
    close(end);
    put(r[1], 1000, BYTES + 100);
    IS(does(&u, s), 1000);
    verify(b, 1000, BYTES + 100);
    rest(q, 1000, BYTES);
}
static void by_a_child(maker make) {
    struct uring u = ring_of(0);
    int p[2], q[2];
    make(p);
    IS(does(&u, request(IORING_OP_NOP, 0, 0, 0)), 0);
    pid_t c = child();
    if (!c) {
        IS(does(&u, request(IORING_OP_READ, p[0], b, 1000)), 1000);
        verify(b, 1000, 0);
        munmap(u.map, u.bytes);
        close(u.fd);
        get(p[0], 1000, 1000);
        _exit(0);
    }
    REAP0(c);
    make(q);
    IS(does(&u, request(IORING_OP_READ, q[0], b, 1000)), 1000);
    verify(b, 1000, 0);
    rest(p, 2000, BYTES);
    rest(q, 1000, BYTES);
}
static void by_another_number(maker make) {
    struct uring u = ring_of(0);
    int p[2], n = dup(u.fd), was = u.fd;
    make(p);
    u.fd = n;
    IS(does(&u, request(IORING_OP_READ, p[0], b, 1000)), 1000);
    verify(b, 1000, 0);
    close(was);
    IS(does(&u, request(IORING_OP_READ, p[0], b, 500)), 500);
    verify(b, 500, 1000);
    rest(p, 1500, BYTES);
}
/* A thread of the kernel's takes the requests. */
static void unseen(maker make) {
    struct uring u = ring_of(IORING_SETUP_SQPOLL);
    int p[2];
    make(p);
    publish(&u, request(IORING_OP_READ, p[0], b, 1000));
    IS(syscall(SYS_io_uring_enter, u.fd, 1, 0, IORING_ENTER_SQ_WAKEUP, 0, 0), 1);
    IS(answer(&u), 1000);
    verify(b, 1000, 0);
    rest(p, 1000, BYTES);
}
/* LINUX: a ring that nobody has any more ends its requests. One that waits for bytes takes none that come later. */
static void ended(maker make) {
    int p[2];
    make(p);
    get(p[0], BYTES, 0);
    for (int how = 0; how < 3; how++) {
        struct uring u = ring_of(0);
        submit(&u, request(IORING_OP_READ, p[0], b, sizeof b));
        munmap(u.map, u.bytes);
        munmap(u.requests, u.request_bytes);
        if (how == 0) IS(close(u.fd), 0);
        if (how == 1) IS(dup2(p[1], u.fd), u.fd);
        if (how == 2) IS(close_range(u.fd, u.fd, 0), 0);
        sleep_ms(200);
        put(p[1], 100, BYTES + 100 * how);
        IS(events(p[0], POLLIN, 1000), POLLIN);
        get(p[0], 100, BYTES + 100 * how);
        if (how == 1) close(u.fd);
    }
    rest(p, BYTES + 300, BYTES + 300);
}
/* Two threads enter one ring in turn, and two more use the pipe. */
static struct uring common;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static void *nops(void *n) {
    for (int i = 0; i < 5000; i++) {
        pthread_mutex_lock(&turn);
        IS(does(&common, request(IORING_OP_NOP, -1, 0, 0)), 0);
        pthread_mutex_unlock(&turn);
    }
    return 0;
}
static void *streams(void *w) {
    put((int)(intptr_t)w, 8 << 20, 0);
    return 0;
}
static void threads(maker make) {
    int p[2], q[2];
    pthread_t t[3];
    common = ring_of(0);
    make(p);
    get(p[0], BYTES, 0);
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, nops, 0);
    pthread_create(&t[2], 0, streams, (void *)(intptr_t)p[1]);
    get(p[0], 4 << 20, 0);
    pthread_mutex_lock(&turn);
    int n = does(&common, request(IORING_OP_READ, p[0], b, 1000));
    pthread_mutex_unlock(&turn);
    CHECK(n > 0 && n <= 1000, "a read gave %d", n);
    verify(b, n, 4 << 20);
    get(p[0], (4 << 20) - n, (4 << 20) + n);
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    rest(p, 0, 0);
}
static void refused(void) {
    struct io_uring_params p = {0};
    struct uring u = ring_of(0);
    FAILS(syscall(SYS_io_uring_setup, 4, 8), EFAULT);
    FAILS(syscall(SYS_io_uring_setup, 0, &p), EINVAL);
    FAILS(enter(-1, 1, 0), EBADF);
    FAILS(syscall(SYS_io_uring_register, u.fd, IORING_REGISTER_FILES, 8, 2), EFAULT);
    IS(does(&u, request(IORING_OP_READ, -1, b, 1)), -EBADF);
    IS(does(&u, request(IORING_OP_CLOSE, u.fd, 0, 0)), -EBADF);
    int c[2];
    by_pipe(c);
    IS(does(&u, request(IORING_OP_READ, c[0], (void *)8, 1)), -EFAULT);
    IS(does(&u, request(255, c[0], b, 1)), -EINVAL);
    rest(c, 0, BYTES);
}
#define BOTH(f)                                                                                              \
    static void f##_pipe(void) { f(by_pipe); }                                                               \
    static void f##_socket(void) { f(by_socket); }
BOTH(reads)
BOTH(writes)
BOTH(waits)
BOTH(closes)
BOTH(chain)
BOTH(polls)
BOTH(sets)
BOTH(registered)
BOTH(by_a_child)
BOTH(by_another_number)
BOTH(unseen)
BOTH(ended)
BOTH(threads)
MAIN(T(reads_pipe), T(reads_socket), T(writes_pipe), T(writes_socket), T(waits_pipe), T(waits_socket), T(closes_pipe),
     T(closes_socket), T(chain_pipe), T(chain_socket), T(polls_pipe), T(polls_socket), T(splices), T(sets_pipe),
     T(sets_socket), ONCE(connections), T(passes), T(registered_pipe), T(registered_socket), T(by_a_child_pipe),
     T(by_a_child_socket), T(by_another_number_pipe), T(by_another_number_socket), T(unseen_pipe), T(unseen_socket),
     T(ended_pipe), T(ended_socket), T(threads_pipe), T(threads_socket), ONCE(refused))
