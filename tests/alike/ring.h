/* One request by an io_uring(7) of the thread's own, and its answer. The programs of alike.sh make some calls so.
 * Invariant: the request does not wait. The ring stays: where one goes, the kernel interrupts the calls of its thread
 * that wait.
 * Not here: several requests at once (conformance/uring.c). */
#include <linux/io_uring.h>
#include <stdint.h>
#include <sys/mman.h>
static struct io_uring_params asked = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
/* As read(2) and its like answer. */
static long by_ring(int op, int fd, void *at, unsigned n) {
    static __thread struct {
        int pid, fd;
        struct io_uring_params p;
        char *m;
        struct io_uring_sqe *s;
    } u;
    if (u.pid != getpid()) {
        u.p = asked;
        int ring = syscall(SYS_io_uring_setup, 1, &u.p);
        if (ring < 0) return -1;
        u.fd = fcntl(ring, F_DUPFD_CLOEXEC, 800);
        close(ring);
        size_t l = u.p.cq_off.cqes + u.p.cq_entries * sizeof(struct io_uring_cqe);
        u.m = mmap(0, l, PROT_READ | PROT_WRITE, MAP_SHARED, u.fd, IORING_OFF_SQ_RING);
        u.s = mmap(0, sizeof *u.s, PROT_READ | PROT_WRITE, MAP_SHARED, u.fd, IORING_OFF_SQES);
        if (u.m == MAP_FAILED || u.s == MAP_FAILED) return -1;
        u.pid = getpid();
    }
    unsigned *head = (unsigned *)(u.m + u.p.cq_off.head), *tail = (unsigned *)(u.m + u.p.cq_off.tail);
    unsigned submits = 1, *published = (unsigned *)(u.m + u.p.sq_off.tail);
    *u.s = (struct io_uring_sqe){.opcode = op, .fd = fd, .addr = (uintptr_t)at, .len = n};
    if (op == IORING_OP_POLL_ADD) u.s->addr = u.s->len = 0, u.s->poll32_events = n;
    if (op == IORING_OP_READ || op == IORING_OP_WRITE || op == IORING_OP_READV || op == IORING_OP_WRITEV)
        u.s->off = -1;
    ((unsigned *)(u.m + u.p.sq_off.array))[0] = 0;
    __atomic_store_n(published, *published + 1, __ATOMIC_RELEASE);
    while (*head == __atomic_load_n(tail, __ATOMIC_ACQUIRE)) {
        long r = syscall(SYS_io_uring_enter, u.fd, submits, 1, IORING_ENTER_GETEVENTS, 0, 0);
        if (r < 0 && errno != EINTR) return -1;
        submits -= r > 0;
    }
    struct io_uring_cqe *each = (struct io_uring_cqe *)(u.m + u.p.cq_off.cqes);
    long r = each[*head % u.p.cq_entries].res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    if (r < 0) errno = -r;
    return r < 0 ? -1 : r;
}
