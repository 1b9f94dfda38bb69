/* Shared by poll_wait.c, poll_set.c and poll_stream.c, which include check.h first: poll, ppoll, select and pselect6 as one
 * call that waits. glibc's select() is pselect6, so select is made by its number. */
enum { POLL, PPOLL, SELECT, PSELECT, CALLS };
#define EACH_CALL(how) for (int how = 0; how < CALLS; how++)
static volatile int hits;
static void on(int s) { hits++; }
/* What select tells of an end, in the bits of poll(2). */
static short as_select(short events, short shown) {
    int in = shown & (POLLIN | POLLHUP | POLLERR | POLLNVAL) ? POLLIN : 0, out = shown & (POLLOUT | POLLERR) ? POLLOUT : 0;
    return events & (in | out);
}
/* Waits for `n` descriptors that are asked for POLLIN and POLLOUT; ms < 0 is no limit. Returns how many are ready; their
 * revents have the bits that as_select has. A set of signals, or 0, for the calls that take one. */
static int await_masked(int how, struct pollfd *q, int n, int ms, const sigset_t *mask) {
    struct timespec ts = {ms / 1000, ms % 1000 * 1000000L};
    struct timeval tv = {ms / 1000, ms % 1000 * 1000L};
    fd_set r, w;
    int top = 0, got, ready = 0;
    if (how == POLL || how == PPOLL) {
        got = how == POLL ? poll(q, n, ms) : ppoll(q, n, ms < 0 ? 0 : &ts, mask);
        for (int i = 0; i < n && got >= 0; i++) {
            q[i].revents = as_select(q[i].events, q[i].revents);
            ready += q[i].revents != 0;
        }
        return got < 0 ? got : ready;
    }
    FD_ZERO(&r);
    FD_ZERO(&w);
    for (int i = 0; i < n; i++) {
        if (q[i].events & POLLIN) FD_SET(q[i].fd, &r);
        if (q[i].events & POLLOUT) FD_SET(q[i].fd, &w);
        if (q[i].fd >= top) top = q[i].fd + 1;
    }
    got = how == SELECT ? (int)syscall(SYS_select, top, &r, &w, 0, ms < 0 ? 0 : &tv)
                        : pselect(top, &r, &w, 0, ms < 0 ? 0 : &ts, mask);
    for (int i = 0; i < n && got >= 0; i++) {
        q[i].revents = (q[i].events & POLLIN && FD_ISSET(q[i].fd, &r) ? POLLIN : 0) |
                       (q[i].events & POLLOUT && FD_ISSET(q[i].fd, &w) ? POLLOUT : 0);
        ready += q[i].revents != 0;
    }
    return got < 0 ? got : ready;
}
static int await(int how, struct pollfd *q, int n, int ms) { return await_masked(how, q, n, ms, 0); }
/* The bits of one descriptor; a signal ends it with -1. */
static int await1(int how, int fd, short events, int ms) {
    struct pollfd q = {fd, events, 0};
    return await(how, &q, 1, ms) < 0 ? -1 : q.revents;
}
