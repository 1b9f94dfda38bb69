/* Checks: the calls that need the real pipe, with the pipe full to its last byte, with its reader or its
 * writer stopped, and io_uring. Does not check: waiters registered beforehand (deopt.c). */
#include "check.h"
#include <linux/io_uring.h>
static int P[2];
/* LINUX: splice(2), tee(2), sendfile(2), ioctl_pipe(2) FIONREAD, fcntl(2) F_SETPIPE_SZ, unix(7) SCM_RIGHTS.
 */
static int send_fd(int s, int fd) {
    union {
        char b[CMSG_SPACE(sizeof(int))];
        struct cmsghdr h;
    } u = {{0}};
    char x = 'x';
    struct iovec v = {&x, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = u.b, .msg_controllen = sizeof u.b};
    u.h.cmsg_level = SOL_SOCKET;
    u.h.cmsg_type = SCM_RIGHTS;
    u.h.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&u.h), &fd, sizeof(int));
    return sendmsg(s, &m, 0);
}
static int receive_fd(int s) {
    union {
        char b[CMSG_SPACE(sizeof(int))];
        struct cmsghdr h;
    } u = {{0}};
    char x;
    struct iovec v = {&x, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = u.b, .msg_controllen = sizeof u.b};
    IS(recvmsg(s, &m, 0), 1);
    int r;
    memcpy(&r, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof r);
    return r;
}
/* Each takes some bytes out from position `at` on, checks them, and says how many. */
static size_t by_splice(size_t at) {
    int q[2];
    CHECK(!pipe(q), "pipe");
    ssize_t n = splice(P[0], 0, q[1], 0, 3000, 0);
    CHECK(n > 0 && n <= 3000, "splice gave %zd", n);
    get(q[0], n, at);
    return n;
}
static size_t by_tee(size_t at) {
    int q[2];
    CHECK(!pipe(q), "pipe");
    ssize_t n = tee(P[0], q[1], 3000, 0);
    CHECK(n > 0 && n <= 3000, "tee gave %zd", n);
    get(q[0], n, at);
    return 0;
}
static size_t by_count(size_t at) {
    int n = -1;
    IS(ioctl(P[0], FIONREAD, &n), 0);
    CHECK(n > 0, "FIONREAD says %d", n);
    return 0;
}
static size_t by_poll(size_t at) {
    CHECK(events(P[0], POLLIN, 0) == POLLIN, "poll must say POLLIN");
    return 0;
}
static size_t by_epoll(size_t at) {
    int e = epoll_create1(0);
    struct epoll_event v = {.events = EPOLLIN};
    IS(epoll_ctl(e, EPOLL_CTL_ADD, P[0], &v), 0);
    IS(epoll_wait(e, &v, 1, 0), 1);
    close(e);
    return 0;
}
static size_t by_async(size_t at) {
    setfl(P[0], O_ASYNC, 0);
    setfl(P[0], 0, O_ASYNC);
    return 0;
}
static size_t by_packets(size_t at) {
    setfl(P[1], O_DIRECT, 0);
    setfl(P[1], 0, O_DIRECT);
    return 0;
}
static size_t by_passing(size_t at) {
    int s[2];
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
    IS(send_fd(s[0], P[0]), 1);
    int r = receive_fd(s[1]);
    get(r, 2000, at);
    close(r);
    close(s[0]);
    close(s[1]);
    return 2000;
}
static size_t by_static(size_t at) {
    char e[512] = {0};
    if (readlink("/proc/self/exe", e, 400) < 0) return 0;
    char *s = strrchr(e, '/');
    strcpy(s ? s + 1 : e, "static_cat");
    if (access(e, X_OK)) return 0;
    /* It starts, reads nothing that is not there, and is killed: what it took is lost with it, so it gets no
     * input. */
    pid_t c = child();
    if (!c) {
        int n = open("/dev/null", O_RDWR);
        dup2(n, 0);
        dup2(n, 1);
        execl(e, "cat", (char *)0);
        _exit(9);
    }
    REAP0(c);
    return 0;
}
/* io_uring(7): one read of the pipe through a ring of one entry. */
static size_t by_ring(size_t at) {
    struct io_uring_params p = {0};
    int u = syscall(SYS_io_uring_setup, 2, &p);
    if (u < 0) return 0; /* the machine forbids it */
    char *sq =
        mmap(0, p.sq_off.array + p.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, u, IORING_OFF_SQ_RING);
    char *cq = mmap(0, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE,
                    MAP_SHARED, u, IORING_OFF_CQ_RING);
    struct io_uring_sqe *e =
        mmap(0, p.sq_entries * sizeof *e, PROT_READ | PROT_WRITE, MAP_SHARED, u, IORING_OFF_SQES);
    CHECK(sq != MAP_FAILED && cq != MAP_FAILED && e != MAP_FAILED, "io_uring maps");
    static char b[3000];
    memset(e, 0, sizeof *e);
    e->opcode = IORING_OP_READ;
    e->fd = P[0];
    e->addr = (uintptr_t)b;
    e->len = sizeof b;
    e->off = -1;
    ((unsigned *)(sq + p.sq_off.array))[0] = 0;
    __atomic_store_n((unsigned *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
    IS(syscall(SYS_io_uring_enter, u, 1, 1, IORING_ENTER_GETEVENTS, 0, 0), 1);
    struct io_uring_cqe *c = (struct io_uring_cqe *)(cq + p.cq_off.cqes);
    CHECK(c->res > 0, "the ring's read gave %d", c->res);
    verify(b, c->res, at);
    size_t n = c->res;
    close(u);
    return n;
}
static void full(size_t (*take)(size_t)) {
    mkpipe(P);
    size_t n = fill_up(P[1], 0), k = take(0);
    get(P[0], n - k, k);
    put(P[1], 3000, n);
    get(P[0], 3000, n);
    close(P[1]);
    AT_EOF(P[0]);
}
/* LINUX pipe_write: who still writes while O_DIRECT is set writes packets, of which a short read drops the rest: so there the writer has to
 * have stopped. Elsewhere the calls may come before it has. */
static void stop(pid_t w, size_t (*take)(size_t)) {
    int status;
    kill(w, SIGSTOP);
    if (take != by_packets) return;
    IS(waitpid(w, &status, WUNTRACED), w);
    CHECK(WIFSTOPPED(status), "the writer is to be stopped");
}
/* A writer streams and is stopped in the middle of it; the calls come; it goes on. */
static void stopped_writer(size_t (*take)(size_t)) {
    mkpipe(P);
    pid_t w = child();
    if (!w) {
        close(P[0]);
        put(P[1], 4 << 20, 0);
        _exit(0);
    }
    size_t at = 300000;
    get(P[0], at, 0);
    wait_asleep(w);
    stop(w, take);
    sleep_ms(5);
    at += take(at);
    kill(w, SIGCONT);
    get(P[0], 100000, at);
    at += 100000;
    stop(w, take);
    at += take(at);
    kill(w, SIGCONT);
    close(P[1]);
    get(P[0], (4 << 20) - at, at);
    AT_EOF(P[0]);
    REAP0(w);
}
/* A reader is stopped in the middle of its work; the writer's end makes the calls. */
static void stopped_reader(void) {
    mkpipe(P);
    pid_t r = child();
    if (!r) {
        close(P[1]);
        get(P[0], 1400000, 0);
        AT_EOF(P[0]);
        _exit(0);
    }
    int n, f = memfd_create("f", 0);
    char b[4000];
    put(P[1], 400000, 0);
    kill(r, SIGSTOP);
    sleep_ms(5);
    size_t at = 400000;
    fill(b, 4000, at);
    write_all(f, b, 4000);
    lseek(f, 0, SEEK_SET);
    setfl(P[1], O_NONBLOCK, 0);
    ssize_t g = sendfile(P[1], f, 0, 4000);
    CHECK(g > 0 || errno == EAGAIN, "sendfile into a pipe whose reader is stopped");
    if (g > 0) at += g;
    setfl(P[1], 0, O_NONBLOCK);
    IS(ioctl(P[1], FIONREAD, &n), 0);
    kill(r, SIGCONT);
    put(P[1], 1400000 - at, at);
    close(P[1]);
    close(P[0]);
    REAP0(r);
}
#define BOTH(name)                                                                                           \
    static void full_##name(void) { full(by_##name); }                                                       \
    static void stopped_##name(void) { stopped_writer(by_##name); }
BOTH(splice)
BOTH(tee) BOTH(count) BOTH(poll) BOTH(epoll) BOTH(async) BOTH(packets) BOTH(passing) BOTH(static) BOTH(ring)
#define TB(name) T(full_##name), T(stopped_##name)
    MAIN(TB(splice), TB(tee), TB(count), TB(poll), TB(epoll), TB(async), TB(packets), TB(passing), TB(static),
         TB(ring), T(stopped_reader))
