/* Checks: calls that reach a pipe past read(2) and write(2), or take away what a hand-back needs, while bytes are in flight: kernel AIO's
 * requests, landlock, another fs id, another root.
 * Does not check: readiness by poll, select and epoll (readiness.c), seccomp (pass_through_sandbox.c, deopt.c). */
#include "check.h"
#include <linux/aio_abi.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
enum { BYTES = 3000 };
static void skip(const char *what) {
    dprintf(1, "skip: no %s here\n", what);
    _exit(0);
}
static void rest(int *p) {
    get(p[0], BYTES, 0);
    put(p[1], BYTES, BYTES);
    get(p[0], BYTES, BYTES);
    close(p[1]);
    AT_EOF(p[0]);
}
/* A request for readiness is answered at once where bytes are there, and when they come. */
static void aio_poll(void) {
    int p[2];
    aio_context_t ctx = 0;
    struct iocb r = {.aio_lio_opcode = IOCB_CMD_POLL, .aio_buf = POLLIN}, *list[] = {&r};
    struct io_event e;
    struct timespec ten = {10, 0};
    if (syscall(SYS_io_setup, 4, &ctx)) skip("kernel AIO");
    mkpipe(p);
    put(p[1], BYTES, 0);
    r.aio_fildes = p[0];
    IS(syscall(SYS_io_submit, ctx, 1, list), 1);
    IS(syscall(SYS_io_getevents, ctx, 1, 1, &e, &ten), 1);
    CHECK(e.res & POLLIN, "readable");
    get(p[0], BYTES, 0);
    IS(syscall(SYS_io_submit, ctx, 1, list), 1);
    pid_t c = child();
    if (!c) {
        sleep_ms(50);
        put(p[1], BYTES, BYTES);
        _exit(0);
    }
    IS(syscall(SYS_io_getevents, ctx, 1, 1, &e, &ten), 1);
    REAP0(c);
    get(p[0], BYTES, BYTES);
    FAILS(syscall(SYS_io_submit, ctx, 1, (void *)8), EFAULT);
}
/* A writer that allows itself no file any more: its reader is another process. */
static void landlock(void) {
    int p[2];
    struct { uint64_t fs; } attr = {0x1fff};
    mkpipe(p);
    put(p[1], BYTES, 0);
    pid_t c = child();
    if (!c) {
        int rules = (int)syscall(444, &attr, sizeof attr, 0);
        if (rules < 0) _exit(77);
        IS(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        IS(syscall(446, rules, 0), 0);
        put(p[1], BYTES, BYTES);
        struct pollfd f = {p[0], POLLIN, 0};
        IS(poll(&f, 1, 0), 1);
        _exit(0);
    }
    int s = reap(c);
    if (WIFEXITED(s) && WEXITSTATUS(s) == 77) skip("landlock");
    IS(s, 0);
    get(p[0], 2 * BYTES, 0);
    close(p[1]);
    AT_EOF(p[0]);
}
static void fs_ids(void) {
    int p[2], n;
    if (geteuid()) skip("privilege");
    mkpipe(p);
    put(p[1], BYTES, 0);
    setfsgid(65534);
    setfsuid(65534);
    IS(ioctl(p[0], FIONREAD, &n), 0);
    IS(n, BYTES);
    rest(p);
}
/* Where /proc is no longer to be found. */
static void another_root(void) {
    int p[2], n;
    if (geteuid()) skip("privilege");
    mkpipe(p);
    put(p[1], BYTES, 0);
    if (chroot("/usr/lib")) skip("right to change the root");
    IS(ioctl(p[0], FIONREAD, &n), 0);
    IS(n, BYTES);
    rest(p);
}
MAIN(T(aio_poll), T(landlock), T(fs_ids), T(another_root))
