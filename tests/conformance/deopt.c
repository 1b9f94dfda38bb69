/* Checks: calls that need the real pipe, with bytes in flight before and order after, and a poll and an epoll
 * waiter registered beforehand in other processes. Does not check: sub-page gifts of vmsplice. */
#include "check.h"
#include <sys/resource.h>
static int P[2], *ev;
static pid_t A, B;
static void start(void) {
    mkpipe(P);
    ev = shared(4096);
    A = child();
    if (!A) {
        close(P[1]);
        CHECK(events(P[0], POLLIN, 15000) & POLLIN, "the poll waiter was not woken");
        _exit(0);
    }
    B = child();
    if (!B) {
        close(P[1]);
        int e = epoll_create1(0);
        struct epoll_event v = {.events = EPOLLIN | EPOLLET};
        epoll_ctl(e, EPOLL_CTL_ADD, P[0], &v);
        do {
            IS(epoll_wait(e, &v, 1, 15000), 1);
            __sync_fetch_and_add(ev, 1);
        } while (!(v.events & EPOLLHUP));
        _exit(0);
    }
    wait_asleep(A);
    wait_asleep(B);
    put(P[1], 5000, 0);
    REAP0(A);
    double t = now();
    while (!*(volatile int *)ev && now() - t < 5) sleep_ms(1);
    wait_asleep(B);
    *ev = 0;
}
static void more(void) {
    double t = now();
    while (!*(volatile int *)ev) {
        CHECK(now() - t < 5, "the epoll waiter got no edge for the new bytes");
        sleep_ms(1);
    }
}
static void end(size_t n) {
    put(P[1], 3000, n);
    get(P[0], n + 3000, 0);
    close(P[1]);
    AT_EOF(P[0]);
    REAP0(B);
}
static int file(void) {
    int f = memfd_create("f", 0);
    char b[6000];
    fill(b, 6000, 5000);
    write_all(f, b, 6000);
    lseek(f, 0, SEEK_SET);
    return f;
}
/* LINUX: splice(2), tee(2), vmsplice(2), sendfile(2), copy_file_range(2). */
static void splice_in(void) {
    start();
    int f = file();
    IS(splice(f, 0, P[1], 0, 6000, 0), 6000);
    more();
    end(11000);
}
static void sendfile_in(void) {
    start();
    int f = file();
    IS(sendfile(P[1], f, 0, 6000), 6000);
    more();
    end(11000);
}
static void vmsplice_in(void) {
    start();
    char *b = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(b, 6000, 5000);
    struct iovec v = {b, 6000};
    IS(vmsplice(P[1], &v, 1, 0), 6000);
    more();
    end(11000);
}
static void splice_out(void) {
    start();
    int q[2];
    mkpipe(q);
    IS(splice(P[0], 0, q[1], 0, 2000, 0), 2000);
    get(q[0], 2000, 0);
    put(P[1], 3000, 5000);
    get(P[0], 6000, 2000);
    close(P[1]);
    AT_EOF(P[0]);
    REAP0(B);
}
static void splice_to_file(void) {
    start();
    int f = memfd_create("o", 0);
    size_t n = 0;
    while (n < 5000) {
        ssize_t g = splice(P[0], 0, f, 0, 5000 - n, 0);
        CHECK(g > 0, "splice");
        n += g;
    }
    lseek(f, 0, SEEK_SET);
    get(f, 5000, 0);
    put(P[1], 3000, 5000);
    get(P[0], 3000, 5000);
    close(P[1]);
    AT_EOF(P[0]);
    REAP0(B);
}
static void tee_out(void) {
    start();
    int q[2];
    mkpipe(q);
    IS(tee(P[0], q[1], 5000, 0), 5000);
    get(q[0], 5000, 0);
    end(5000);
}
static void copy_file_range_refused(void) {
    start();
    int f = file();
    FAILS(copy_file_range(f, 0, P[1], 0, 100, 0), EINVAL);
    FAILS(copy_file_range(P[0], 0, f, 0, 100, 0), EINVAL);
    end(5000);
}
/* LINUX: pipe(2) O_DIRECT: each write is a packet, a short read drops the packet's rest
 * (a packet may merge into a partly filled page written before the mode was set: only the bytes are checked
 * there). */
static void packets(void) {
    start();
    setfl(P[1], O_DIRECT, 0);
    put(P[1], 100, 5000);
    more();
    put(P[1], 50, 5100);
    get(P[0], 5150, 0);
    char b[999];
    put(P[1], 100, 5000);
    put(P[1], 50, 0);
    IS(read(P[0], b, 999), 100);
    verify(b, 100, 5000);
    IS(read(P[0], b, 10), 10);
    put(P[1], 7, 0);
    IS(read(P[0], b, 999), 7);
    setfl(P[1], 0, O_DIRECT);
    end(0);
}
static volatile int hits;
static void on(int s) { hits++; }
static void sigio(void) {
    start();
    handle(SIGIO, on, SA_RESTART);
    fcntl(P[0], F_SETOWN, getpid());
    setfl(P[0], O_ASYNC, 0);
    pid_t c = child();
    if (!c) {
        put(P[1], 3000, 5000);
        _exit(0);
    }
    REAP0(c);
    double t = now();
    while (!hits) {
        CHECK(now() - t < 5, "SIGIO must come for new bytes");
        sleep_ms(1);
    }
    more();
    setfl(P[0], 0, O_ASYNC);
    end(8000);
}
static void scm_rights(void) {
    start();
    int s[2];
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    pid_t c = child();
    union {
        char b[CMSG_SPACE(sizeof(int))];
        struct cmsghdr h;
    } u = {{0}};
    char x = 'x';
    struct iovec v = {&x, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = u.b, .msg_controllen = sizeof u.b};
    if (!c) {
        close(P[0]);
        close(P[1]);
        IS(recvmsg(s[1], &m, 0), 1);
        int r;
        memcpy(&r, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof r);
        get(r, 9000, 1000);
        AT_EOF(r);
        _exit(0);
    }
    get(P[0], 1000, 0);
    u.h.cmsg_level = SOL_SOCKET;
    u.h.cmsg_type = SCM_RIGHTS;
    u.h.cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(&u.h), &P[0], sizeof(int));
    IS(sendmsg(s[0], &m, 0), 1);
    close(P[0]);
    put(P[1], 5000, 5000);
    close(P[1]);
    REAP0(c);
    REAP0(B);
}
/* A process at its limit of descriptors (EMFILE) asks what needs the real pipe: nothing is lost, and it need not be told. */
static void exhausted(int end) {
    const int N = holds() < 65536 ? (int)holds() / 2 : 40000;
    mkpipe(P);
    put(P[1], N, 0);
    struct rlimit l;
    IS(getrlimit(RLIMIT_NOFILE, &l), 0);
    l.rlim_cur = P[1] + 20;
    IS(setrlimit(RLIMIT_NOFILE, &l), 0);
    while (dup(0) >= 0);
    IS(errno, EMFILE);
    CHECK(events(P[end], end ? POLLOUT : POLLIN, 0) & (end ? POLLOUT : POLLIN), "the pipe is ready");
    int q = 0;
    IS(ioctl(P[end], FIONREAD, &q), 0);
    IS(q, N);
    CHECK(fcntl(P[1], F_GETPIPE_SZ) >= N, "what it holds is its size at least");
    put(P[1], 1000, N);
    get(P[0], N + 1000, 0);
    close(P[1]);
    AT_EOF(P[0]);
}
static void exhausted_reader(void) { exhausted(0); }
static void exhausted_writer(void) { exhausted(1); }
/* The mode of a pipe's inode is nothing to who has it open; here both ends ask what needs the real pipe. */
static void mode_taken_away(void) {
    const int N = holds() < 65536 ? (int)holds() / 2 : 40000;
    struct stat s;
    mkpipe(P);
    put(P[1], N, 0);
    IS(fchmod(P[0], 0), 0);
    CHECK(events(P[0], POLLIN, 0) & POLLIN, "bytes are there");
    IS(fstat(P[1], &s), 0);
    IS(s.st_mode & 0777, 0);
    CHECK(events(P[1], POLLOUT, 0) & POLLOUT, "there is room");
    put(P[1], 1000, N);
    get(P[0], N + 1000, 0);
    close(P[1]);
    AT_EOF(P[0]);
}
/* More full pipes than an unprivileged user's pipes may hold together if each were made large (pipe-user-pages-soft): all are
 * asked what needs the real pipe, by the process that is to read them. */
static void many_full(void) {
    enum { PIPES = 150 };
    static int p[PIPES][2];
    static size_t n[PIPES];
    for (int i = 0; i < PIPES; i++) {
        CHECK(!pipe(p[i]), "pipe failed");
        for (int k = 0; k < 64; k++) {
            put(p[i][1], 4096, 0);
            get(p[i][0], 4096, 0);
        }
        n[i] = fill_up(p[i][1], 0);
    }
    for (int i = 0; i < PIPES; i++) {
        CHECK(events(p[i][0], POLLIN, 0) & POLLIN, "bytes are there");
        /* A smaller pipe that is full is not when it is the kernel's. */
        if (holds() >= 65536) IS(events(p[i][1], POLLOUT, 0) & POLLOUT, 0);
    }
    for (int i = 0; i < PIPES; i++) {
        get(p[i][0], n[i], 0);
        close(p[i][1]);
        AT_EOF(p[i][0]);
    }
}
MAIN(T(splice_in), T(sendfile_in), T(vmsplice_in), T(splice_out), T(splice_to_file), T(tee_out),
     T(copy_file_range_refused), T(packets), T(sigio), T(scm_rights),
     T(exhausted_reader), T(exhausted_writer), T(mode_taken_away),
     ONCE(many_full))
