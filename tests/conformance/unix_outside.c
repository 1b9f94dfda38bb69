/* Checks: calls that reach a hot UNIX stream past read, write, send and recv, with bytes unread before and order after: splice,
 * sendfile, io_uring, kernel AIO, copy_file_range; and what takes away a process's rights: ids, root, seccomp, landlock, other
 * descriptors. Does not check: exec and SCM_RIGHTS (unix_leave.c). */
#include "unix_calls.h"
#include <grp.h>
#include <linux/aio_abi.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
enum { MUCH = 100000 };
static unsigned char B[1 << 20];
static void skip(const char *what) {
    dprintf(1, "skip: no %s here\n", what);
    _exit(0);
}
static int file_of(long n, uint64_t from) { /* n of the sea's bytes */
    int f = memfd_create("file", 0);
    while (n) {
        long k = n < SEA ? n : SEA;
        write_all(f, at(from), k);
        from += k;
        n -= k;
    }
    lseek(f, 0, SEEK_SET);
    return f;
}
/* LINUX: splice(2): from the socket into a pipe. */
static long splices_out(long n, int flags) {
    int p[2];
    long left = n;
    IS(pipe(p), 0);
    while (left) {
        ssize_t k = splice(here->fd, 0, p[1], 0, left < 4096 ? left : 4096, flags), g;
        CHECK(k > 0, "splice gave %zd with %ld to come", k, left);
        IS(g = read_n(p[0], B, k), k);
        same(B, k, here->in);
        here->in += k;
        left -= k;
    }
    close(p[0]);
    close(p[1]);
    return n;
}
static long splice_out(long n) { return splices_out(n, 0); }
static void splice_from(void) {
    if (is_tcp()) return;
    int p[2];
    meet();
    for (int round = 0; round < 3; round++) {
        TELL(sends, MUCH, 0);
        takes(100);
        splices_out(MUCH / 2, SPLICE_F_MOVE);
        TELL(sends, 3000, 0);
        takes(1000);
        splices_out(MUCH / 2 + 3000 - 1100, 0);
        IS(unread(), 0);
    }
    IS(pipe(p), 0);
    FAILS(splice(here->fd, 0, p[1], 0, 100, SPLICE_F_NONBLOCK), EAGAIN);
    falls_asleep(0, splice_out, 3000);
    TELL(whole, 3000, 3000);
    IS(wakes(0), 3000);
    goes_on();
    TELL(sends, 3000, 0);
    TELL(closes, 0, 0);
    splices_out(3000, 0);
    IS(splice(here->fd, 0, p[1], 0, 100, 0), 0);
}
/* A reader splices all of a stream while its writer writes on. */
static void splice_all(void) {
    meet();
    ask(sends, 1 << 20);
    splices_out(1 << 20, 0);
    answer();
    goes_on();
}
static void splice_to(void) {
    int p[2];
    meet();
    IS(pipe(p), 0);
    for (int round = 0; round < 3; round++) {
        sends(20000);
        for (long i = 0; i < 10; i++) {
            write_all(p[1], at(here->out), 5000);
            IS(splice(p[0], 0, here->fd, 0, 5000, i % 2 ? SPLICE_F_MORE : 0), 5000);
            here->out += 5000;
        }
        sends(20000);
        TELL(takes, 90000, 0);
        goes_on();
    }
    long n = fills(is_tcp() ? 30000 : 1);
    write_all(p[1], at(here->out), 10);
    setfl(here->fd, O_NONBLOCK, 0);
    FAILS(splice(p[0], 0, here->fd, 0, 10, SPLICE_F_NONBLOCK), EAGAIN);
    setfl(here->fd, 0, O_NONBLOCK);
    TELL(takes, n, 0);
    IS(splice(p[0], 0, here->fd, 0, 10, 0), 10);
    here->out += 10;
    TELL(takes, 10, 0);
}
/* LINUX: sendfile(2): from a file to the socket, in the place of a write. */
static void sendfile_to(void) {
    static const long sizes[] = {1, 100, 4096, 10000, 65536, MUCH, 1 << 20};
    meet();
    for (int i = 0; i < 7; i++) {
        sends(10000);
        int f = file_of(sizes[i] + 50, here->out - 20);
        off_t from = 20;
        ask(takes, 20000 + sizes[i]);
        for (long left = sizes[i]; left;) {
            ssize_t k = sendfile(here->fd, f, &from, left);
            CHECK(k > 0, "sendfile gave %zd", k);
            left -= k;
            here->out += k;
        }
        IS(from, 20 + sizes[i]);
        IS(sendfile(here->fd, f, &from, 100), 30); /* to the end of the file */
        here->out += 30;
        IS(sendfile(here->fd, f, &from, 100), 0);
        IS(lseek(f, 0, SEEK_CUR), 0);
        sends(10000 - 30);
        answer();
        close(f);
    }
    goes_on();
}
static void sendfile_and_full(void) {
    if (is_tcp()) return;
    meet();
    int f = file_of(1 << 20, here->out);
    no_delay(0);
    ssize_t n = sendfile(here->fd, f, 0, 1 << 20);
    CHECK(n > 0 && n < 1 << 20, "a part: %zd", n);
    here->out += n;
    FAILS(sendfile(here->fd, f, 0, 1 << 20), EAGAIN);
    TELL(takes, n, 0);
    signal(SIGPIPE, SIG_IGN);
    TELL(closes, 0, 0);
    FAILS(sendfile(here->fd, f, 0, 100), EPIPE);
}
static void refused(void) {
    if (is_tcp()) return;
    int p[2], f = file_of(1000, 0);
    meet();
    IS(pipe(p), 0);
    TELL(sends, 1000, 0);
    FAILS(tee(here->fd, p[1], 100, 0), EINVAL);
    FAILS(copy_file_range(f, 0, here->fd, 0, 100, 0), EINVAL);
    FAILS(copy_file_range(here->fd, 0, f, 0, 100, 0), EINVAL);
    IS(sendfile(p[1], here->fd, 0, 100), 100); /* LINUX: into a pipe it is a splice */
    IS(read_n(p[0], B, 100), 100);
    same(B, 100, here->in);
    here->in += 100;
    CHECK(mmap(0, 4096, PROT_READ, MAP_SHARED, here->fd, 0) == MAP_FAILED && errno == ENODEV, "no map of a socket");
    FAILS(ftruncate(here->fd, 0), EINVAL);
    FAILS(fsync(here->fd), EINVAL);
    takes(900);
    goes_on();
}
/* io_uring(7): a ring, a request in it, and what it gives. */
static struct {
    int fd;
    struct io_uring_params p;
    char *sq, *cq;
    struct io_uring_sqe *e;
} U;
static void ring_begins(void) {
    int prot = PROT_READ | PROT_WRITE;
    memset(&U.p, 0, sizeof U.p);
    if ((U.fd = syscall(SYS_io_uring_setup, 4, &U.p)) < 0) skip("io_uring");
    U.sq = mmap(0, U.p.sq_off.array + U.p.sq_entries * 4, prot, MAP_SHARED, U.fd, IORING_OFF_SQ_RING);
    U.cq = mmap(0, U.p.cq_off.cqes + U.p.cq_entries * sizeof(struct io_uring_cqe), prot, MAP_SHARED, U.fd, IORING_OFF_CQ_RING);
    U.e = mmap(0, U.p.sq_entries * sizeof *U.e, prot, MAP_SHARED, U.fd, IORING_OFF_SQES);
    CHECK(U.sq != MAP_FAILED && U.cq != MAP_FAILED && U.e != MAP_FAILED, "io_uring maps");
}
static void requests(int op, void *b, size_t n) {
    unsigned *tail = (unsigned *)(U.sq + U.p.sq_off.tail), i = *tail % U.p.sq_entries;
    U.e[i] = (struct io_uring_sqe){.opcode = op, .fd = here->fd, .addr = (uintptr_t)b, .len = n};
    if (op == IORING_OP_READ || op == IORING_OP_WRITE) U.e[i].off = -1;
    if (op == IORING_OP_POLL_ADD) U.e[i].poll32_events = POLLIN;
    ((unsigned *)(U.sq + U.p.sq_off.array))[i] = i;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    IS(syscall(SYS_io_uring_enter, U.fd, 1, 0, 0, 0, 0), 1);
}
static int has_result(void) {
    return *(unsigned *)(U.cq + U.p.cq_off.head) != __atomic_load_n((unsigned *)(U.cq + U.p.cq_off.tail), __ATOMIC_ACQUIRE);
}
static long gives(void) {
    unsigned *head = (unsigned *)(U.cq + U.p.cq_off.head);
    if (!has_result()) IS(syscall(SYS_io_uring_enter, U.fd, 0, 1, IORING_ENTER_GETEVENTS, 0, 0), 0);
    CHECK(has_result(), "a result");
    long res = ((struct io_uring_cqe *)(U.cq + U.p.cq_off.cqes))[*head % U.p.cq_entries].res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return res;
}
static long by_ring(int op, void *b, size_t n) {
    ring_begins();
    requests(op, b, n);
    long res = gives();
    close(U.fd);
    return res;
}
/* A request waits in the ring while bytes come by other calls. */
static void ring_pending(void) {
    meet();
    ring_begins();
    requests(IORING_OP_RECV, B, 3000);
    CHECK(!has_result(), "it waits");
    TELL(sends, 1000, 0);
    IS(gives(), 1000);
    same(B, 1000, here->in);
    here->in += 1000;
    goes_on();
    requests(IORING_OP_POLL_ADD, 0, 0);
    CHECK(!has_result(), "it waits");
    TELL(sends, 1000, 0);
    CHECK(gives() & POLLIN, "readable");
    takes(1000);
    requests(IORING_OP_POLL_ADD, 0, IORING_POLL_ADD_MULTI);
    for (int i = 0; i < 5; i++) {
        CHECK(!has_result(), "it waits");
        TELL(whole, 1000, 1000);
        CHECK(gives() & POLLIN, "readable");
        takes(1000);
    }
    close(U.fd);
    goes_on();
}
static void ring(void) {
    static const int reads[] = {IORING_OP_READ, IORING_OP_RECV}, writes[] = {IORING_OP_WRITE, IORING_OP_SEND};
    meet();
    for (int i = 0; i < 2; i++) {
        TELL(sends, MUCH, 0);
        takes(100);
        IS(by_ring(reads[i], B, 50000), 50000);
        same(B, 50000, here->in);
        here->in += 50000;
        takes(MUCH - 50100);
        sends(50000);
        IS(by_ring(writes[i], (void *)at(here->out), 30000), 30000);
        here->out += 30000;
        sends(10000);
        TELL(takes, 90000, 0);
        goes_on();
    }
}
/* io_submit(2): a read, a write and a poll. */
static void kernel_aio(void) {
    aio_context_t c = 0;
    struct iocb r = {0}, *list[] = {&r};
    struct io_event e;
    meet();
    if (syscall(SYS_io_setup, 4, &c)) skip("kernel AIO");
    TELL(sends, MUCH, 0);
    sends(20000);
    for (int i = 0; i < 3; i++) {
        r = (struct iocb){.aio_fildes = here->fd, .aio_nbytes = 20000};
        r.aio_lio_opcode = i == 0 ? IOCB_CMD_PREAD : i == 1 ? IOCB_CMD_PWRITE : IOCB_CMD_POLL;
        r.aio_buf = i == 0 ? (uintptr_t)B : i == 1 ? (uintptr_t)at(here->out) : POLLIN;
        if (i == 2) r.aio_nbytes = 0;
        IS(syscall(SYS_io_submit, c, 1, list), 1);
        IS(syscall(SYS_io_getevents, c, 1, 1, &e, 0), 1);
        if (i == 2) CHECK(e.res & POLLIN, "readable");
        else
            IS(e.res, 20000);
        if (i == 0) same(B, 20000, here->in), here->in += 20000;
        if (i == 1) here->out += 20000;
    }
    takes(MUCH - 20000);
    sends(20000);
    TELL(takes, 60000, 0);
    goes_on();
}
/* A process that may do less from then on; bytes lie unread in both directions. */
static void in_a_child(void (*change)(void)) {
    struct link *l = shared(4096);
    meet();
    TELL(sends, 60000, 0);
    sends(60000);
    pid_t c = child();
    if (!c) {
        change();
        takes(50000);
        sends(5000);
        *l = *here;
        _exit(0);
    }
    REAP0(c);
    *here = *l;
    takes(10000);
    TELL(takes, 65000, 0);
    goes_on();
}
static void ids(void) {
    if (getuid()) return;
    setgroups(0, 0);
    CHECK(!setresgid(65534, 65534, 65534) && !setresuid(65534, 65534, 65534), "cannot become nobody");
}
static void another_root(void) {
    if (getuid()) return;
    if (chroot("/usr/lib")) skip("right to change the root");
}
static void filter(void) {
    struct sock_filter f = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog p = {1, &f};
    IS(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    IS(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p), 0);
}
static void not_dumpable(void) { IS(prctl(PR_SET_DUMPABLE, 0), 0); }
static void landlocked(void) {
    struct {
        uint64_t fs;
    } attr = {0x1fff};
    int rules = (int)syscall(444, &attr, sizeof attr, 0);
    if (rules < 0) skip("landlock");
    IS(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    IS(syscall(446, rules, 0), 0);
}
static void other_descriptors(void) { IS(unshare(CLONE_FILES | CLONE_FS), 0); }
static void strict(void) { IS(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT), 0); }
static void after_ids(void) { in_a_child(ids); }
static void after_root(void) { in_a_child(another_root); }
static void after_filter(void) { in_a_child(filter); }
static void after_not_dumpable(void) { in_a_child(not_dumpable); }
static void after_landlock(void) { in_a_child(landlocked); }
static void after_unshare(void) { in_a_child(other_descriptors); }
/* Only read, write and exit are left. */
static void after_strict(void) {
    meet();
    TELL(sends, 60000, 0);
    sends(30000);
    pid_t c = child();
    if (!c) {
        strict();
        for (long left = 60000, k; left; left -= k)
            if ((k = read(here->fd, B, left < 5000 ? left : 5000)) <= 0) syscall(SYS_exit, 1);
        syscall(SYS_exit, write(here->fd, at(here->out), 5000) != 5000);
    }
    REAP0(c);
    here->in += 60000;
    here->out += 5000;
    TELL(takes, 35000, 0);
    goes_on();
}
UNIX_MAIN(T(splice_from), T(splice_all), T(splice_to), T(sendfile_to), T(sendfile_and_full), T(refused), T(ring), T(ring_pending),
          T(kernel_aio), T(after_ids), T(after_root), T(after_filter), T(after_not_dumpable), T(after_landlock),
          T(after_unshare), T(after_strict))
