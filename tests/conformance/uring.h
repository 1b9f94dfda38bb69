/* Shared by the programs that use io_uring(7): a ring by raw system calls, one request, its answer. Not a test by
 * itself. Where the kernel has no io_uring, or forbids it, a case says so and passes. */
#include "check.h"
#include <linux/io_uring.h>
struct uring {
    int fd;
    unsigned *head, *tail, *array, *cq_head, *cq_tail;
    unsigned mask, cq_mask;
    struct io_uring_sqe *requests;
    struct io_uring_cqe *answers;
    void *map;
    size_t bytes, request_bytes;
};
static struct uring ring_of(unsigned flags) {
    struct io_uring_params p = {.flags = flags};
    struct uring u = {.fd = (int)syscall(SYS_io_uring_setup, 16, &p)};
    if (u.fd < 0 && (errno == ENOSYS || errno == EPERM)) {
        dprintf(1, "skip: the kernel has no io_uring, or forbids it\n");
        _exit(0);
    }
    CHECK(u.fd >= 0, "io_uring_setup failed");
    u.bytes = p.sq_off.array + p.sq_entries * 4;
    size_t cq = p.cq_off.cqes + p.cq_entries * sizeof *u.answers;
    if (cq > u.bytes) u.bytes = cq;
    u.request_bytes = p.sq_entries * sizeof *u.requests;
    char *m = mmap(0, u.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, u.fd, IORING_OFF_SQ_RING);
    u.requests = mmap(0, u.request_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, u.fd, IORING_OFF_SQES);
    CHECK(m != MAP_FAILED && u.requests != MAP_FAILED, "no mapping of a ring");
    u.map = m;
    u.head = (unsigned *)(m + p.sq_off.head);
    u.tail = (unsigned *)(m + p.sq_off.tail);
    u.mask = *(unsigned *)(m + p.sq_off.ring_mask);
    u.array = (unsigned *)(m + p.sq_off.array);
    u.cq_head = (unsigned *)(m + p.cq_off.head);
    u.cq_tail = (unsigned *)(m + p.cq_off.tail);
    u.cq_mask = *(unsigned *)(m + p.cq_off.ring_mask);
    u.answers = (struct io_uring_cqe *)(m + p.cq_off.cqes);
    return u;
}
static struct io_uring_sqe request(int op, int fd, const void *at, unsigned n) {
    return (struct io_uring_sqe){.opcode = op, .fd = fd, .addr = (uintptr_t)at, .len = n};
}
/* The request is published, and not submitted yet. */
static void publish(struct uring *u, struct io_uring_sqe s) {
    unsigned t = *u->tail, i = t & u->mask;
    u->requests[i] = s;
    u->array[i] = i;
    __atomic_store_n(u->tail, t + 1, __ATOMIC_RELEASE);
}
static int enter(int fd, unsigned submit, unsigned wait) {
    return (int)syscall(SYS_io_uring_enter, fd, submit, wait, wait ? IORING_ENTER_GETEVENTS : 0, 0, 0);
}
static int answer(struct uring *u) { /* of the next one that has ended */
    while (*u->cq_head == __atomic_load_n(u->cq_tail, __ATOMIC_ACQUIRE))
        CHECK(enter(u->fd, 0, 1) >= 0 || errno == EINTR, "io_uring_enter");
    int r = u->answers[*u->cq_head & u->cq_mask].res;
    __atomic_store_n(u->cq_head, *u->cq_head + 1, __ATOMIC_RELEASE);
    return r;
}
static int has_answer(struct uring *u) { return *u->cq_head != __atomic_load_n(u->cq_tail, __ATOMIC_ACQUIRE); }
static void submit(struct uring *u, struct io_uring_sqe s) {
    publish(u, s);
    IS(enter(u->fd, 1, 0), 1);
}
static int does(struct uring *u, struct io_uring_sqe s) {
    submit(u, s);
    return answer(u);
}
