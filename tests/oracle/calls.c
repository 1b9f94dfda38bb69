/* Calls around the stream: signals, readiness, control, descriptors. Each with bytes in flight. Not here:
 * kills. */
#include "check.h"

static volatile int hits;
static void *volatile bad_address = (void *)16;
static void hit(int s) {
    (void)s;
    hits++;
}
static void handle(int flags) {
    struct sigaction a = {.sa_handler = hit, .sa_flags = flags};
    sigaction(SIGUSR1, &a, NULL);
}
static void poke(pid_t who, int after_ms, int w) {
    if (fork() == 0) {
        msleep(after_ms);
        kill(who, SIGUSR1);
        if (w >= 0) {
            msleep(100);
            if (write(w, "z", 1) != 1) _exit(1);
        }
        _exit(0);
    }
}

static void eintr_read(void) {
    int p[2];
    warm_pipe(p);
    handle(0);
    poke(getpid(), 100, -1);
    char b;
    CHECK(read(p[0], &b, 1) == -1 && errno == EINTR && hits == 1, "EINTR");
}
static void restart_read(void) {
    int p[2];
    warm_pipe(p);
    handle(SA_RESTART);
    poke(getpid(), 100, p[1]);
    char b;
    CHECK(read(p[0], &b, 1) == 1 && b == 'z' && hits == 1, "restarted");
}
/* LINUX pipe_write: interrupted after some bytes, it returns their count. */
static void partial_write(void) {
    int p[2];
    warm_pipe(p);
    handle(0);
    poke(getpid(), 100, -1);
    static char b[4 << 20];
    ssize_t n = write(p[1], b, sizeof b);
    CHECK(n >= 4096 && n < (ssize_t)sizeof b && hits == 1, "partial count %zd", n);
    poke(getpid(), 100, -1);
    char c;
    CHECK(write(p[1], b, 4096) == -1 && errno == EINTR, "EINTR with nothing written");
    for (ssize_t i = 0; i < n; i++)
        if (read(p[0], &c, 1) != 1) CHECK(0, "byte %zd of %zd", i, n);
}
static void *sleeper(void *fd) {
    char b;
    if (read(*(int *)fd, &b, 1) < 0) return fd;
    return NULL;
}
static void cancel(void) {
    int p[2];
    warm_pipe(p);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, sleeper, &p[0]) == 0, "thread");
    msleep(50);
    pthread_cancel(t);
    void *v;
    pthread_join(t, &v);
    CHECK(v == PTHREAD_CANCELED, "cancelled in read");
    CHECK(write(p[1], "y", 1) == 1, "write");
    char b;
    CHECK(read(p[0], &b, 1) == 1 && b == 'y', "read after a cancelled one");
}
static void nonblock(void) {
    int p[2];
    warm_pipe(p);
    if (fork() == 0) {
        fcntl(p[0], F_SETFL, O_NONBLOCK);
        fcntl(p[1], F_SETFL, O_NONBLOCK);
        _exit(0);
    }
    wait(NULL);
    char b[4096] = {0};
    CHECK(read(p[0], b, 1) == -1 && errno == EAGAIN, "EAGAIN on empty, set by another process");
    long n = 0;
    ssize_t k;
    while ((k = write(p[1], b, sizeof b)) > 0) n += k;
    CHECK(errno == EAGAIN && n >= 65536, "%ld bytes fit", n);
    while (n > 0 && (k = read(p[0], b, sizeof b)) > 0) n -= k;
    CHECK(n == 0, "all come back");
}
static void poll_bits(void) {
    int p[2];
    warm_pipe(p);
    struct pollfd f[2] = {{p[0], POLLIN, 0}, {p[1], POLLOUT, 0}};
    CHECK(poll(f, 2, 0) == 1 && f[0].revents == 0 && f[1].revents == POLLOUT, "empty");
    CHECK(write(p[1], "a", 1) == 1 && poll(f, 1, 0) == 1 && f[0].revents == POLLIN, "readable");
    close(p[1]);
    CHECK(poll(f, 1, 0) == 1 && f[0].revents == (POLLIN | POLLHUP), "readable and hung up");
    char c;
    CHECK(read(p[0], &c, 1) == 1 && poll(f, 1, 0) == 1 && f[0].revents == POLLHUP, "hung up");
}
static void poll_in_flight(void) {
    int p[2];
    warm_pipe(p);
    CHECK(write(p[1], "bytes", 5) == 5, "write");
    fd_set s;
    FD_ZERO(&s);
    FD_SET(p[0], &s);
    struct timeval t = {0, 0};
    CHECK(select(p[0] + 1, &s, NULL, NULL, &t) == 1, "select sees bytes in flight");
    int n;
    CHECK(ioctl(p[0], FIONREAD, &n) == 0 && n == 5, "FIONREAD says %d", n);
    close(p[0]);
    struct pollfd f = {p[1], POLLOUT, 0};
    CHECK(poll(&f, 1, 0) == 1 && f.revents & POLLERR, "POLLERR at the writer");
}
static void epoll_kinds(void) {
    int p[2];
    warm_pipe(p);
    CHECK(write(p[1], "12345", 5) == 5, "write");
    int e = epoll_create1(0), outer = epoll_create1(0);
    struct epoll_event v = {EPOLLIN | EPOLLET, {.u64 = 0x123456789abcull}}, got;
    CHECK(epoll_ctl(e, EPOLL_CTL_ADD, p[0], &v) == 0, "add");
    struct epoll_event o = {EPOLLIN, {.fd = e}};
    CHECK(epoll_ctl(outer, EPOLL_CTL_ADD, e, &o) == 0, "nested");
    CHECK(epoll_wait(outer, &got, 1, 0) == 1, "nested ready");
    CHECK(epoll_wait(e, &got, 1, 0) == 1 && got.data.u64 == 0x123456789abcull, "edge");
    CHECK(epoll_wait(e, &got, 1, 0) == 0, "one edge");
    CHECK(write(p[1], "6", 1) == 1 && epoll_wait(e, &got, 1, 0) == 1, "an edge a write");
    v.events = EPOLLIN | EPOLLONESHOT;
    CHECK(epoll_ctl(e, EPOLL_CTL_MOD, p[0], &v) == 0, "one-shot");
    CHECK(epoll_wait(e, &got, 1, 0) == 1 && epoll_wait(e, &got, 1, 0) == 0, "once");
    char b[8];
    CHECK(read(p[0], b, 8) == 6 && !memcmp(b, "123456", 6), "order");
}
static void control(void) {
    int p[2];
    warm_pipe(p);
    static char b[9000];
    CHECK(write(p[1], b, 9000) == 9000, "write");
    struct stat st;
    CHECK(fstat(p[0], &st) == 0 && S_ISFIFO(st.st_mode), "a FIFO");
    CHECK(lseek(p[0], 0, SEEK_CUR) == -1 && errno == ESPIPE, "ESPIPE");
    CHECK(write(p[1], bad_address, 10) == -1 && errno == EFAULT, "EFAULT on write");
    CHECK(read(p[0], bad_address, 10) == -1 && errno == EFAULT, "EFAULT on read");
    CHECK(read(p[0], b, 0) == 0, "nothing asked");
    struct iovec v[3] = {{b, 100}, {NULL, 0}, {b + 100, 200}};
    CHECK(readv(p[0], v, 3) == 300, "readv");
    CHECK(read(p[0], b, 9000) == 8700, "the rest");
    int q[2];
    warm_pipe(q);
    CHECK(fcntl(q[1], F_GETPIPE_SZ) == 65536, "default size");
    CHECK(fcntl(q[1], F_SETPIPE_SZ, 131072) == 131072, "larger");
}
static void descriptors(void) {
    int p[2];
    warm_pipe(p);
    int d = dup(p[1]), e = fcntl(p[1], F_DUPFD_CLOEXEC, 100);
    CHECK(write(p[1], "a", 1) == 1 && write(d, "b", 1) == 1 && write(e, "c", 1) == 1, "three names");
    char path[64], b[8];
    snprintf(path, sizeof path, "/proc/self/fd/%d", p[0]);
    int r = open(path, O_RDONLY);
    CHECK(r >= 0 && read(r, b, 2) == 2 && !memcmp(b, "ab", 2), "reopened");
    CHECK(dup2(r, 200) == 200 && read(200, b, 8) == 1 && b[0] == 'c', "dup2");
    close(p[1]);
    close(d);
    CHECK(close_range(100, 150, 0) == 0, "close_range");
    CHECK(read(p[0], b, 1) == 0, "the end after the last name");
}
static void splices(void) {
    int p[2], q[2];
    warm_pipe(p);
    CHECK(pipe(q) == 0, "pipe");
    CHECK(write(p[1], "before", 6) == 6, "write");
    CHECK(splice(p[0], NULL, q[1], NULL, 3, 0) == 3, "splice");
    CHECK(tee(p[0], q[1], 2, 0) == 2, "tee");
    struct iovec v = {"after", 5};
    CHECK(vmsplice(p[1], &v, 1, 0) == 5, "vmsplice");
    char b[16];
    CHECK(read(q[0], b, 16) == 5 && !memcmp(b, "befor", 5), "spliced and teed");
    CHECK(read(p[0], b, 16) == 8 && !memcmp(b, "oreafter", 8), "in order");
}
static void rights(void) {
    int p[2], s[2];
    warm_pipe(p);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, s) == 0, "socketpair");
    CHECK(write(p[1], "in flight", 9) == 9, "write");
    char c = 0, ctl[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec v = {&c, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = ctl, .msg_controllen = sizeof ctl};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET, h->cmsg_type = SCM_RIGHTS, h->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(h), &p[0], sizeof(int));
    CHECK(sendmsg(s[0], &m, 0) == 1, "sendmsg");
    close(p[0]);
    CHECK(recvmsg(s[1], &m, 0) == 1, "recvmsg");
    int r;
    memcpy(&r, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof r);
    char b[16];
    CHECK(read(r, b, 16) == 9 && !memcmp(b, "in flight", 9), "bytes arrive");
}
/* O_ASYNC: the kernel raises SIGIO when bytes come. */
static void async(void) {
    int p[2];
    warm_pipe(p);
    struct sigaction a = {.sa_handler = hit};
    sigaction(SIGIO, &a, NULL);
    fcntl(p[0], F_SETOWN, getpid());
    fcntl(p[0], F_SETFL, O_ASYNC);
    CHECK(write(p[1], "s", 1) == 1, "write");
    for (int i = 0; i < 100 && !hits; i++) msleep(5);
    CHECK(hits >= 1, "SIGIO");
}
static void vfork_child(void) {
    int p[2];
    warm_pipe(p);
    CHECK(write(p[1], "1", 1) == 1, "write");
    pid_t c = vfork();
    if (c == 0) {
        if (write(p[1], "2", 1) != 1) _exit(1);
        close(p[1]);
        _exit(0);
    }
    waitpid(c, NULL, 0);
    CHECK(write(p[1], "3", 1) == 1, "write");
    char b[8];
    size_t n = 0;
    while (n < 3) {
        ssize_t k = read(p[0], b + n, 8 - n);
        CHECK(k > 0, "read");
        n += k;
    }
    CHECK(!memcmp(b, "123", 3), "order");
}
static void two_sleepers(void) {
    int p[2];
    warm_pipe(p);
    pthread_t t[2];
    for (int i = 0; i < 2; i++) pthread_create(&t[i], NULL, sleeper, &p[0]);
    msleep(100);
    CHECK(write(p[1], "ab", 2) == 2, "write");
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
}

int main(void) {
    run_case("EINTR", eintr_read);
    run_case("SA_RESTART", restart_read);
    run_case("partial write", partial_write);
    run_case("pthread_cancel", cancel);
    run_case("O_NONBLOCK by another process", nonblock);
    run_case("poll bits", poll_bits);
    run_case("readiness with bytes in flight", poll_in_flight);
    run_case("epoll", epoll_kinds);
    run_case("control calls", control);
    run_case("descriptors", descriptors);
    run_case("splice, tee, vmsplice", splices);
    run_case("SCM_RIGHTS", rights);
    run_case("O_ASYNC", async);
    run_case("vfork", vfork_child);
    run_case("two sleeping readers", two_sleepers);
    return bad;
}
