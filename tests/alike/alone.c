/* Makes calls drawn from a seed on pipes, FIFOs, sockets and epoll sets, and prints each with its answer. alike.sh runs it twice, once
 * plain and once carried, and compares what it has printed.
 *   alone SEED [CALLS]                                                                                  1,500 calls
 * Invariant: it has both ends of each object, waits for nothing, and has few bytes under way: so the kernel's answers are the same at
 * each run. A child acts only while its parent waits for it.
 * Does not check: calls that wait, threads, what a buffer holds, when an edge is told once too often (conformance). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "drawn.h"
#include "ring.h"
enum kind { PIPE, FIFO, PAIR, PATH, TCP, TCP6, UDP, SET, REGULAR, KINDS };
static const char *const names[] = {"pipe", "fifo", "pair", "path", "tcp", "tcp6", "udp", "set", "file"};
/* What is under way in one direction: bytes, and writes since it was empty. */
struct flow {
    long bytes, writes;
};
struct end {
    int fd;
    enum kind kind;
    struct flow *in, *out;
};
enum { ENDS = 40, FLOWS = 64, LENGTH = 1 << 17, FILE_LENGTH = 20000, WARM = 200, MOST_BYTES = 12000, MOST_WRITES = 30 };
static struct end ends[ENDS];
static struct flow flows[FLOWS];
static int n_ends, n_flows;
static long call;
static unsigned char out[LENGTH], into[LENGTH];

static void fill(size_t n) { fill_at(out, n); }
static void says(const struct end *e, const char *format, ...) {
    va_list a;
    va_start(a, format);
    if (e) printf("%ld %s %d ", call, names[e->kind], (int)(e - ends));
    else printf("%ld ", call);
    vprintf(format, a);
    putchar('\n');
    va_end(a);
}
static void dies(const char *what) {
    perror(what);
    exit(3);
}

static int is_pipe(const struct end *e) { return e->kind <= FIFO; }
static int is_tcp(const struct end *e) { return e->kind == TCP || e->kind == TCP6; }
static int moves_bytes(const struct end *e) { return e->kind < SET; }
static int has_room(const struct end *e, size_t n) {
    return !e->out || (e->out->bytes + (long)n <= MOST_BYTES && e->out->writes < MOST_WRITES);
}
static void wrote(struct end *e, long r) {
    if (e->out && r >= 0) e->out->bytes += r, e->out->writes++;
}
static void took(struct end *e, long r) {
    if (!e->in || r < 0) return;
    e->in->bytes -= r;
    if (e->in->bytes <= 0) e->in->bytes = e->in->writes = 0;
    if (e->kind == UDP && e->in->writes > 0) e->in->writes--;
}
static struct end *any(void) { return &ends[draw(n_ends)]; }
static struct end *any_of(enum kind kind) {
    for (int from = draw(n_ends), i = 0; i < n_ends; i++)
        if (ends[(from + i) % n_ends].kind == kind) return &ends[(from + i) % n_ends];
    return 0;
}
/* The n bytes at `at` in a few buffers, some of them empty. */
static int cut(struct iovec *v, unsigned char *at, size_t n) {
    int parts = 1 + draw(4);
    for (int i = 0; i < parts; i++) {
        size_t k = i == parts - 1 ? n : n / (1 + draw(4)) * draw(2);
        v[i] = (struct iovec){at, k};
        at += k, n -= k;
    }
    return parts;
}
static void *bad(void) { return draw(2) ? (void *)16 : (void *)-4096; }

static void add(int fd, enum kind kind, struct flow *in, struct flow *out_) {
    if (fd < 0 || fd >= FD_SETSIZE) dies("a descriptor");
    if (n_ends == ENDS) close(fd);
    else ends[n_ends++] = (struct end){fd, kind, in, out_};
}
static void pair_of(int a, int b, enum kind kind, int both) {
    struct flow *to = &flows[n_flows++], *from = both ? &flows[n_flows++] : 0;
    int fd[2] = {a, b};
    /* so that it is carried */
    for (int k = 0; k <= both; k++)
        for (int i = 0; i < WARM; i++) {
            long n;
            if (write(fd[!k], out, 9) != 9) dies("write");
            while ((n = read(fd[k], into, 64)) < 0 && errno == EAGAIN) usleep(10);
            if (n != 9) dies("read");
        }
    for (int k = 0; k < 2; k++) fcntl(fd[k], F_SETFL, fcntl(fd[k], F_GETFL) | O_NONBLOCK);
    add(a, kind, to, from);
    add(b, kind, from, to);
}
static void connects(int p[2], enum kind kind) {
    struct sockaddr_storage a = {.ss_family = kind == PATH ? AF_UNIX : kind == TCP6 ? AF_INET6 : AF_INET}, b;
    socklen_t n = kind == PATH ? sizeof a.ss_family : sizeof a, m = sizeof b;
    int one = 1, type = kind == UDP ? SOCK_DGRAM : SOCK_STREAM;
    if (kind == TCP6) ((struct sockaddr_in6 *)&a)->sin6_addr = in6addr_loopback;
    else if (kind != PATH) ((struct sockaddr_in *)&a)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    b = a;
    int l = socket(a.ss_family, type, 0);
    p[0] = socket(a.ss_family, type, 0);
    if (bind(l, (void *)&a, n) || getsockname(l, (void *)&a, &(socklen_t){sizeof a})) dies("bind");
    n = kind == PATH ? sizeof a.ss_family + 6 : sizeof a;
    if (kind == UDP) {
        if (bind(p[0], (void *)&b, sizeof b) || getsockname(p[0], (void *)&b, &m)) dies("bind");
        if (connect(p[0], (void *)&a, n) || connect(l, (void *)&b, m)) dies("connect");
        p[1] = l;
        return;
    }
    if (listen(l, 1) || connect(p[0], (void *)&a, n)) dies("connect");
    p[1] = accept(l, 0, 0);
    close(l);
    /* a byte that waits for an acknowledgement would come at another moment each time */
    for (int i = 0; i < 2 && kind != PATH; i++) setsockopt(p[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}
static void make(enum kind kind) {
    int p[2];
    char name[32];
    if (n_flows > FLOWS - 2 || n_ends > ENDS - 4) return;
    snprintf(name, sizeof name, "%s.%d", names[kind], n_flows + n_ends);
    switch (kind) {
    case PIPE:
        if (pipe(p)) dies("pipe");
        break;
    case FIFO:
        if (mkfifo(name, 0600)) dies("mkfifo");
        p[0] = open(name, O_RDONLY | O_NONBLOCK);
        p[1] = open(name, O_WRONLY | O_NONBLOCK);
        unlink(name);
        break;
    case PAIR:
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, p)) dies("socketpair");
        break;
    case SET: return add(epoll_create1(0), kind, 0, 0);
    case REGULAR:
        p[0] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        unlink(name);
        fill(FILE_LENGTH);
        if (write(p[0], out, FILE_LENGTH) != FILE_LENGTH) dies("write");
        return add(p[0], kind, 0, 0);
    default: connects(p, kind);
    }
    pair_of(p[0], p[1], kind, kind > FIFO);
}

/* ---- calls ---- */
static int send_flags(void) {
    static const int flags[] = {0, 0, 0, 0, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_NOSIGNAL, MSG_EOR, MSG_DONTROUTE, MSG_CONFIRM, MSG_WAITALL,
                                MSG_PEEK, MSG_TRUNC, MSG_CMSG_CLOEXEC, MSG_NOSIGNAL | MSG_DONTWAIT};
    return ONE_OF(flags);
}
static int receive_flags(void) {
    static const int flags[] = {0, 0, 0, MSG_PEEK, MSG_DONTWAIT, MSG_WAITALL, MSG_TRUNC, MSG_CMSG_CLOEXEC, MSG_ERRQUEUE, MSG_NOSIGNAL,
                                MSG_PEEK | MSG_TRUNC, MSG_PEEK | MSG_WAITALL, MSG_DONTROUTE, MSG_MORE, MSG_EOR, MSG_OOB};
    int f = ONE_OF(flags);
    return draw(4) ? f : f | (ONE_OF(flags) & ~MSG_OOB);
}
static void writes(struct end *e) {
    size_t n = length();
    struct iovec v[4];
    if ((!e->out && draw(8)) || !has_room(e, n)) return;
    fill(n);
    int how = draw(10), parts = cut(v, out, n), flags = send_flags();
    struct msghdr m = {.msg_iov = v, .msg_iovlen = parts, .msg_flags = draw(256)};
    long r;
    if (how < 4) r = write(e->fd, out, n);
    else if (how < 6) r = writev(e->fd, v, draw(20) ? parts : (int)draw(2) - 1);
    else if (how == 6) r = pwritev2(e->fd, v, parts, -1, draw(2) && !is_pipe(e) ? RWF_NOWAIT : 0);
    else if (how == 7) r = send(e->fd, out, n, flags);
    else {
        if (!draw(10)) m.msg_iovlen = draw(2) * 2000;
        r = sendmsg(e->fd, &m, flags);
    }
    r = answer(r);
    wrote(e, r);
    says(e, "writes %d of %zu, flags %x: %ld", how, n, flags, r);
}
static void writes_two(struct end *e) {
    size_t n = length();
    if (!has_room(e, 2 * n)) return;
    fill(2 * n);
    struct iovec v[2] = {{out, n}, {out + n, n}};
    struct mmsghdr m[2] = {{.msg_hdr = {.msg_iov = v, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = v + 1, .msg_iovlen = 1}}};
    long r = answer(sendmmsg(e->fd, m, 2, send_flags()));
    for (int i = 0; i < r; i++) wrote(e, m[i].msg_len);
    says(e, "sendmmsg of %zu: %ld, %u %u", n, r, m[0].msg_len, m[1].msg_len);
}
static void writes_by_name(struct end *e) {
    struct sockaddr_storage a;
    socklen_t l = sizeof a;
    size_t n = length();
    if (e->kind < PAIR || !moves_bytes(e) || !has_room(e, n)) return;
    if (e->kind != UDP || getpeername(e->fd, (void *)&a, &l)) {
        struct sockaddr_in nobody = {.sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        if (e->kind == UDP) return;
        memcpy(&a, &nobody, sizeof nobody);
        l = draw(2) ? sizeof nobody : 0;
    }
    fill(n);
    struct iovec v[4];
    struct msghdr m = {.msg_iov = v, .msg_iovlen = cut(v, out, n), .msg_name = &a, .msg_namelen = l};
    int flags = send_flags() | MSG_NOSIGNAL, how = draw(2);
    long r = answer(how ? sendto(e->fd, out, n, flags, (void *)&a, l) : sendmsg(e->fd, &m, flags));
    wrote(e, r);
    says(e, "%s of %zu to a name, flags %x: %ld", how ? "sendto" : "sendmsg", n, flags, r);
}
static void reads(struct end *e) {
    size_t n = draw(2) ? sizeof into : length();
    struct iovec v[4];
    if (!e->in && draw(8)) return;
    int how = draw(10), parts = cut(v, into, n), flags = receive_flags();
    long r;
    if (how < 4) r = read(e->fd, into, n);
    else if (how < 6) r = readv(e->fd, v, draw(20) ? parts : (int)draw(2) - 1);
    else if (how == 6) r = preadv2(e->fd, v, parts, -1, draw(2) && !is_pipe(e) ? RWF_NOWAIT : 0);
    else r = recv(e->fd, into, n, flags);
    r = answer(r);
    if (how < 7 || !(flags & MSG_PEEK)) took(e, r);
    /* LINUX tcp(7): with MSG_TRUNC the bytes are not copied */
    int is_cut = how > 6 && flags & MSG_TRUNC;
    says(e, "reads %d of %zu, flags %x: %ld %x", how, n, how > 6 ? flags : 0, r, is_cut ? 0 : sum(SUM, into, r));
}
static void receives(struct end *e) {
    unsigned char name[128], control[256];
    size_t n = length();
    int flags = receive_flags();
    struct iovec v[4];
    struct msghdr m = {.msg_iov = v, .msg_iovlen = cut(v, into, n), .msg_name = draw(3) ? 0 : name,
                       .msg_namelen = draw(3) ? 128 : draw(20), .msg_control = draw(2) ? control : 0,
                       .msg_controllen = draw(2) ? 256 : draw(20), .msg_flags = draw(256)};
    if (!draw(12)) m.msg_iovlen = draw(2) * 3000;
    long r = answer(recvmsg(e->fd, &m, flags));
    if (!(flags & MSG_PEEK)) took(e, r);
    if (r < 0) return says(e, "recvmsg of %zu, flags %x: %ld", n, flags, r);
    says(e, "recvmsg of %zu, flags %x: %ld %x, flags %x, name %u, control %zu", n, flags, r,
         flags & MSG_TRUNC || r > (long)n ? 0 : sum(SUM, into, r), m.msg_flags, m.msg_namelen, m.msg_controllen);
}
static void receives_two(struct end *e) {
    size_t n = length();
    struct iovec v[2] = {{into, n}, {into + n, n}};
    struct mmsghdr m[2] = {{.msg_hdr = {.msg_iov = v, .msg_iovlen = 1}}, {.msg_hdr = {.msg_iov = v + 1, .msg_iovlen = 1}}};
    struct timespec long_time = {10, 0};
    int flags = receive_flags() & ~MSG_ERRQUEUE;
    long r = answer(recvmmsg(e->fd, m, 2, flags, draw(2) ? &long_time : 0));
    for (int i = 0; i < r && !(flags & MSG_PEEK); i++) took(e, m[i].msg_len);
    says(e, "recvmmsg of %zu, flags %x: %ld, %u %x", n, flags, r, m[0].msg_len, r > 0 ? m[0].msg_hdr.msg_flags : 0);
}
static void receives_from(struct end *e) {
    struct sockaddr_storage a;
    socklen_t l = draw(3) ? sizeof a : draw(20);
    size_t n = length();
    long r = answer(recvfrom(e->fd, into, n, 0, (void *)&a, &l));
    took(e, r);
    says(e, "recvfrom of %zu: %ld %x, name %u", n, r, sum(SUM, into, r), r < 0 ? 0 : l);
}
/* a read that may wait, where it has something; one with a time */
static void reads_that_wait(struct end *e) {
    if (!e->in) return;
    int off = 0, on = 1;
    size_t n = length();
    struct timeval t = {0, 2000}, none = {0, 0};
    struct pollfd p = {e->fd, POLLIN, 0};
    int is_stream = e->kind > FIFO && e->kind < UDP, least = 1;
    if (is_stream) getsockopt(e->fd, SOL_SOCKET, SO_RCVLOWAT, &least, &(socklen_t){sizeof least});
    int is_timed = is_stream && (draw(2) || least > 1);
    if (!is_timed && poll(&p, 1, 0) != 1) return;
    ioctl(e->fd, FIONBIO, &off);
    if (is_timed) setsockopt(e->fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    long r = answer(is_timed && draw(2) ? recv(e->fd, into, n, MSG_WAITALL) : read(e->fd, into, n));
    took(e, r);
    says(e, "waits for %zu, timed %d: %ld %x", n, is_timed, r, sum(SUM, into, r));
    if (is_timed) setsockopt(e->fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof none);
    ioctl(e->fd, FIONBIO, &on);
}
static void asks_a_ring(struct end *e) {
    size_t n = 1 + length();
    struct iovec v = {0, n};
    struct pollfd p = {e->fd, POLLIN | POLLOUT, 0};
    int how = draw(7), is_write = how == 1 || how == 3 || how == 5;
    static const int ops[] = {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_READV, IORING_OP_WRITEV, IORING_OP_RECV, IORING_OP_SEND,
                              IORING_OP_POLL_ADD};
    if (!moves_bytes(e) || (is_write ? !e->out || !has_room(e, n) : !e->in)) return;
    if (!is_write && how < 6) p.events = POLLIN;
    if (poll(&p, 1, 0) != 1) return;
    if (is_write) fill(n);
    v.iov_base = is_write ? out : into;
    int is_vector = how == 2 || how == 3;
    long r = answer(by_ring(ops[how], e->fd, is_vector ? (void *)&v : v.iov_base, how == 6 ? POLLIN | POLLOUT : is_vector ? 1 : n));
    if (is_write) wrote(e, r);
    else if (how < 6) took(e, r);
    says(e, "ring %d of %zu: %ld %x", how, n, r, is_write || how == 6 ? 0 : sum(SUM, into, r));
}
static void bad_arguments(struct end *e) {
    static const size_t lengths[] = {1ul << 40, -1ul, 1ul << 31, 0x7ffff000, 1ul << 63};
    size_t n = 1 + length(), much = ONE_OF(lengths);
    struct iovec v[3] = {{bad(), n}, {into, 4}, {bad(), 50}}, huge[2] = {{into, 1ul << 62}, {into, 1ul << 62}};
    int how = draw(10);
    long r = 0;
    if (!moves_bytes(e)) return;
    switch (how) {
    case 0: r = write(e->fd, v->iov_base, n); break;
    case 1: r = read(e->fd, v->iov_base, n); break;
    case 2: r = writev(e->fd, v, 1); break;
    case 3: r = writev(e->fd, v->iov_base, 2); break;
    case 4: r = recvmsg(e->fd, v->iov_base, 0); break;
    case 5: r = sendmsg(e->fd, v->iov_base, 0); break;
    case 6: r = read(e->fd, into, much); break;
    case 7: r = recv(e->fd, into, much, 0); break;
    case 8: r = draw(2) ? writev(e->fd, huge, 2) : readv(e->fd, huge, 2); break;
    /* of a connection's segments some may fit */
    case 9: r = is_tcp(e) ? 0 : readv(e->fd, v + 1, 2);
    }
    r = answer(r);
    if (how > 5) took(e, r);
    says(e, "bad arguments %d: %ld %x", how, r, how > 5 ? sum(SUM, into, r) : 0);
}
static void asks(struct end *e) {
    static const int controls[] = {FIONREAD, FIONREAD, FIONREAD, FIONCLEX, FIOCLEX, 0x5401, 0x1234};
    static const int options[] = {SO_ERROR, SO_TYPE, SO_SNDBUF, SO_RCVBUF, SO_ACCEPTCONN, SO_PROTOCOL, SO_DOMAIN, SO_KEEPALIVE};
    struct stat s;
    struct sockaddr_storage a;
    int n = -1, how = draw(7), what;
    socklen_t l = draw(8) ? sizeof n : draw(4);
    long r;
    switch (how) {
    case 0:
        r = answer(ioctl(e->fd, what = ONE_OF(controls), &n));
        return says(e, "ioctl %x: %ld %d", what, r, r == 0 && what == FIONREAD ? n : 0);
    case 1:
        r = answer(fstat(e->fd, &s));
        return says(e, "fstat: %ld %o %ld", r, s.st_mode, e->kind == REGULAR ? 0 : (long)s.st_size);
    case 2: return says(e, "F_GETFL: %x", fcntl(e->fd, F_GETFL));
    case 3: return says(e, "F_GETPIPE_SZ: %ld", answer(fcntl(e->fd, F_GETPIPE_SZ)));
    case 4:
        r = answer(getsockopt(e->fd, SOL_SOCKET, what = ONE_OF(options), &n, &l));
        if (is_tcp(e) && (what == SO_SNDBUF || what == SO_RCVBUF)) n = 0; /* the kernel moves them */
        return says(e, "SO %d: %ld %x %u", what, r, n, l);
    case 5:
        l = sizeof a;
        r = answer(draw(2) ? getsockname(e->fd, (void *)&a, &l) : getpeername(e->fd, (void *)&a, &l));
        return says(e, "name: %ld %u", r, r ? 0 : l);
    default: says(e, "lseek: %ld, pread: %ld", answer(lseek(e->fd, 0, SEEK_CUR)), answer(pread(e->fd, into, 4, 0)));
    }
}
static void sets(struct end *e) {
    static const int sizes[] = {65536, 131072, 1 << 20, 65537}, options[] = {SO_KEEPALIVE, SO_PRIORITY, SO_PASSCRED, SO_RCVLOWAT};
    int one = 1, what;
    if (e->kind <= FIFO || !draw(4)) {
        what = ONE_OF(sizes);
        return says(e, "F_SETPIPE_SZ %d: %ld", what, answer(fcntl(e->fd, F_SETPIPE_SZ, what)));
    }
    what = ONE_OF(options);
    if (what == SO_RCVLOWAT) one = draw(200);
    if (what != SO_PASSCRED || !draw(4)) says(e, "sets SO %d: %ld", what, answer(setsockopt(e->fd, SOL_SOCKET, what, &one, sizeof one)));
}
static void polls(struct end *unused) {
    static const short wanted[] = {POLLIN, POLLOUT, POLLIN | POLLOUT, POLLIN | POLLPRI | POLLRDHUP, POLLRDNORM, POLLWRNORM | POLLIN, 0,
                                   POLLRDBAND, POLLIN | POLLRDHUP | POLLOUT | POLLMSG};
    struct pollfd p[6];
    struct timespec now = {0, 0};
    int n = 1 + draw(6);
    (void)unused;
    for (int i = 0; i < n; i++) {
        struct end *e = any();
        p[i] = (struct pollfd){e->kind == SET ? -1 : e->fd, ONE_OF(wanted), 77};
    }
    says(0, "poll: %ld", answer(draw(2) ? poll(p, n, 0) : ppoll(p, n, &now, 0)));
    for (int i = 0; i < n; i++) printf("  %x/%x\n", p[i].events, p[i].revents);
}
static void selects(struct end *unused) {
    fd_set s[3];
    struct end *of[6];
    struct timeval now = {0, 0};
    int n = 1 + draw(6), most = 0;
    (void)unused;
    memset(s, 0, sizeof s);
    for (int i = 0; i < n; i++) {
        of[i] = any();
        if (of[i]->kind == SET) of[i] = &ends[0];
        for (int k = 0; k < 3; k++)
            if (draw(2)) FD_SET(of[i]->fd, &s[k]);
        if (of[i]->fd > most) most = of[i]->fd;
    }
    says(0, "select: %ld", answer(select(most + 1, &s[0], draw(4) ? &s[1] : 0, draw(4) ? &s[2] : 0, &now)));
    for (int i = 0; i < n; i++)
        printf("  %d%d%d\n", !!FD_ISSET(of[i]->fd, &s[0]), !!FD_ISSET(of[i]->fd, &s[1]), !!FD_ISSET(of[i]->fd, &s[2]));
}
/* By level: an edge may be told once too often where a ring is handed back. */
static void controls_a_set(struct end *e) {
    static const unsigned events[] = {EPOLLIN, EPOLLOUT, EPOLLIN | EPOLLOUT, EPOLLIN | EPOLLONESHOT, EPOLLIN | EPOLLRDHUP,
                                      EPOLLEXCLUSIVE | EPOLLIN, 0};
    static const int commands[] = {EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL};
    struct end *set = any_of(SET);
    struct epoll_event event = {ONE_OF(events), {.u64 = call}};
    int command = ONE_OF(commands);
    if (set && e->kind != SET) says(e, "epoll_ctl %d %x: %ld", command, event.events, answer(epoll_ctl(set->fd, command, e->fd, &event)));
}
static void waits_for_a_set(struct end *unused) {
    struct epoll_event event[64];
    struct end *set = any_of(SET);
    unsigned long all = 0;
    (void)unused;
    if (!set) return;
    long r = answer(epoll_wait(set->fd, event, 64, 0));
    for (int i = 0; i < r; i++) all += (event[i].data.u64 * 31 + event[i].events) * 2654435761ul; /* their order is nobody's */
    says(set, "epoll_wait: %ld %lx", r, all);
}
static void splices(struct end *from) {
    struct end *to = any();
    size_t n = length();
    if (!moves_bytes(from) || !moves_bytes(to) || !has_room(to, 4096)) return;
    n = n < 4096 ? n : 4096;
    int tees = draw(2);
    long r = tees ? tee(from->fd, to->fd, n, SPLICE_F_NONBLOCK) : splice(from->fd, 0, to->fd, 0, n, SPLICE_F_NONBLOCK);
    r = answer(r);
    if (!tees) took(from, r);
    if (r > 0 || !tees) wrote(to, r);
    says(from, "%s to %s %d of %zu: %ld", tees ? "tee" : "splice", names[to->kind], (int)(to - ends), n, r);
}
static void sends_a_file(struct end *e) {
    struct end *file = any_of(REGULAR);
    off_t at = draw(FILE_LENGTH - 1000);
    size_t n = length();
    if (!file || !moves_bytes(e) || !has_room(e, n)) return;
    long r = answer(sendfile(e->fd, file->fd, &at, n));
    wrote(e, r);
    says(e, "sendfile of %zu: %ld %ld", n, r, (long)at);
}
static void duplicates(struct end *e) {
    int how = draw(3), fd = how == 0 ? dup(e->fd) : how == 1 ? fcntl(e->fd, F_DUPFD_CLOEXEC, 50) : dup3(e->fd, 100 + draw(10), 0);
    says(e, "dup %d", how);
    for (int i = 0; i < n_ends; i++)
        if (ends[i].fd == fd) {
            ends[i] = (struct end){fd, e->kind, e->in, e->out};
            return;
        }
    add(fd, e->kind, e->in, e->out);
}
static void opens_again(struct end *e) {
    static const int ways[] = {O_RDONLY, O_WRONLY, O_RDWR};
    char name[32];
    int how = draw(3);
    if (!is_pipe(e) || n_ends > 30) return;
    snprintf(name, sizeof name, "/proc/self/fd/%d", e->fd);
    int fd = open(name, ways[how] | O_NONBLOCK);
    struct flow *f = e->in ? e->in : e->out;
    says(e, "open %d: %d", how, fd < 0 ? -errno : 0);
    if (fd >= 0) add(fd, e->kind, how == 1 ? 0 : f, how == 0 ? 0 : f);
}
static void closes(struct end *e) {
    if (n_ends < 14 || draw(3)) return;
    int how = draw(2);
    says(e, "close %d: %ld", how, answer(how ? close_range(e->fd, e->fd, 0) : close(e->fd)));
    *e = ends[--n_ends];
}
static void shuts(struct end *e) {
    int how = draw(3);
    if (!draw(6)) says(e, "shutdown %d: %ld", how, answer(shutdown(e->fd, how)));
}
static void makes(struct end *unused) {
    (void)unused;
    enum kind kind = draw(KINDS);
    if (n_ends > 30) return;
    says(0, "makes a %s", names[kind]);
    make(kind);
}
/* A child uses the end, and another one. What it sends of datagrams may overtake what its parent has sent. */
static void forks(struct end *e) {
    struct end *other = any();
    size_t n = 1 + draw(100);
    if (draw(3) || !moves_bytes(e) || !moves_bytes(other)) return;
    fflush(stdout);
    pid_t p = fork();
    if (!p) {
        for (int i = 0; i < 3; i++) {
            if (e->out && e->kind != UDP) {
                fill(n);
                says(e, "a child writes %zu: %ld", n, answer(write(e->fd, out, n)));
            }
            if (other->in) {
                long r = answer(read(other->fd, into, 30));
                says(other, "a child reads: %ld %x", r, sum(SUM, into, r));
            }
        }
        fflush(stdout);
        _exit(0);
    }
    waitpid(p, 0, 0);
    if (e->out) e->out->writes += 3, e->out->bytes += 300;
}
/* A program that takes part, or one that is static and does not, reads some of it. */
static void executes(struct end *e) {
    int is_static = draw(2), status;
    if (draw(8) || !e->in) return;
    fflush(stdout);
    pid_t p = fork();
    if (!p) {
        dup2(e->fd, 0);
        if (is_static) execlp("busybox", "busybox", "head", "-c", "20", NULL);
        execlp("head", "head", "-c", "20", NULL);
        _exit(9);
    }
    waitpid(p, &status, 0);
    says(e, "head: %d", status);
    e->in->bytes = e->in->writes = 0;
}
/* The end goes through a socket, and comes back by another number. */
static void passes(struct end *e) {
    struct end *by = any_of(draw(2) ? PAIR : PATH), *far = 0;
    char control[CMSG_SPACE(4)];
    struct iovec v = {out, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (draw(3) || !by || e->kind == SET || !by->out || !has_room(by, 1)) return;
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    *h = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(4)};
    memcpy(CMSG_DATA(h), &e->fd, 4);
    fill(1);
    long r = answer(sendmsg(by->fd, &m, MSG_NOSIGNAL));
    wrote(by, r);
    says(e, "goes by %s %d: %ld", names[by->kind], (int)(by - ends), r);
    for (int i = 0; i < n_ends && !far; i++)
        if (ends[i].in == by->out) far = &ends[i];
    for (int i = 0; r == 1 && far && i < 200; i++) {
        v.iov_base = into, m.msg_controllen = sizeof control;
        long n = answer(recvmsg(far->fd, &m, 0));
        if (n <= 0) return;
        took(far, n);
        says(far, "has %x, flags %x, control %zu", sum(SUM, into, n), m.msg_flags, m.msg_controllen);
        h = CMSG_FIRSTHDR(&m);
        if (h && h->cmsg_type == SCM_RIGHTS) {
            int fd;
            memcpy(&fd, CMSG_DATA(h), 4);
            return add(fd, e->kind, e->in, e->out);
        }
    }
}
static const struct {
    void (*makes)(struct end *);
    int weight;
} calls[] = {{writes, 12}, {writes_two, 1}, {writes_by_name, 2}, {reads, 12}, {receives, 3}, {receives_two, 1}, {receives_from, 1},
             {reads_that_wait, 2}, {bad_arguments, 3}, {asks, 5}, {sets, 2}, {polls, 3}, {selects, 1}, {controls_a_set, 2},
             {waits_for_a_set, 4}, {splices, 2}, {sends_a_file, 1}, {duplicates, 1}, {opens_again, 1}, {closes, 2}, {shuts, 1}, {makes, 1},
             {forks, 1}, {executes, 1}, {passes, 1}, {asks_a_ring, 1}};
int main(int n, char **a) {
    long all = n > 2 ? atol(a[2]) : 1500;
    int weights = 0;
    if (n < 2) return fprintf(stderr, "usage: alone SEED [CALLS]\n"), 2;
    static unsigned long first;
    static unsigned bytes;
    state = &first, filled = &bytes;
    seeds(strtoul(a[1], 0, 0));
    signal(SIGPIPE, SIG_IGN);
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) weights += calls[i].weight;
    for (enum kind kind = 0; kind < KINDS; kind++) make(kind);
    for (call = 1; call <= all; call++) {
        int at = draw(weights), i = 0;
        while ((at -= calls[i].weight) >= 0) i++;
        calls[i].makes(any());
    }
    return 0;
}
