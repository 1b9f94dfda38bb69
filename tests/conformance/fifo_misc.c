/* Checks: every other call that a FIFO's descriptor may be given, and who may hold it: dup, fork, exec,
 * SCM_RIGHTS, stdio, splice. The errors are those that Linux 6.1 to 6.18 give; where these differ, the case
 * says so. Does not check: io_uring, leases, quotas. */
#include "fifo_common.h"
#include <sys/file.h>
#include <sys/inotify.h>
static volatile int *S;
static void no_position(void) {
    int p[2];
    char b[16];
    struct iovec v = {b, 16};
    const char *f = mkff(p);
    put(p[1], 100, 0);
    for (int i = 0; i < 2; i++) {
        FAILS(lseek(p[i], 0, SEEK_SET), ESPIPE);
        FAILS(lseek(p[i], 0, SEEK_CUR), ESPIPE);
        FAILS(lseek(p[i], 10, SEEK_END), ESPIPE);
    }
    FAILS(pread(p[0], b, 16, 0), ESPIPE);
    FAILS(preadv(p[0], &v, 1, 0), ESPIPE);
    FAILS(pwrite(p[1], b, 16, 0), ESPIPE);
    FAILS(pwritev(p[1], &v, 1, 0), ESPIPE);
    FAILS(pread(p[0], b, 16, 5), ESPIPE);
    FAILS(posix_fallocate(p[1], 0, 10) ? (errno = ESPIPE, -1) : 0, ESPIPE);
    FAILS(fallocate(p[1], 0, 0, 10), ESPIPE);
    IS(posix_fadvise(p[0], 0, 0, POSIX_FADV_SEQUENTIAL), ESPIPE);
    FAILS(sync_file_range(p[1], 0, 10, SYNC_FILE_RANGE_WRITE), ESPIPE);
    FAILS(readahead(p[0], 0, 10), EINVAL);
    get(p[0], 100, 0); /* nothing was taken */
    heat(p[0], p[1]);
}
static void preadv2_without_position(void) { /* offset -1 is read and write */
    int p[2];
    char b[500];
    struct iovec v = {b, 500};
    mkff(p);
    fill(b, 500, 0);
    IS(pwritev2(p[1], &v, 1, -1, 0), 500);
    put(p[1], 500, 500);
    memset(b, 0, 500);
    IS(preadv2(p[0], &v, 1, -1, 0), 500);
    verify(b, 500, 0);
    get(p[0], 500, 500);
    FAILS(preadv2(p[0], &v, 1, -1, RWF_NOWAIT),
          EOPNOTSUPP); /* LINUX: EAGAIN on a pipe of pipe(2), but not here */
}
static void not_a_file(void) {
    int p[2];
    char b[400];
    const char *f = mkff(p);
    put(p[1], 100, 0);
    FAILS(ftruncate(p[1], 0), EINVAL);
    FAILS(ftruncate(p[0], 0), EINVAL);
    FAILS(truncate(f, 0), EINVAL);
    FAILS(fsync(p[0]), EINVAL);
    FAILS(fsync(p[1]), EINVAL);
    FAILS(fdatasync(p[1]), EINVAL);
    CHECK(mmap(0, 4096, PROT_READ, MAP_SHARED, p[0], 0) == MAP_FAILED && errno == ENODEV, "mmap, shared");
    CHECK(mmap(0, 4096, PROT_READ, MAP_PRIVATE, p[0], 0) == MAP_FAILED && errno == ENODEV, "mmap, private");
    CHECK(mmap(0, 4096, PROT_READ, MAP_SHARED, p[1], 0) == MAP_FAILED && errno == EACCES, "mmap, write end");
    int rw = OPEN(f, O_RDWR);
    CHECK(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, rw, 0) == MAP_FAILED && errno == ENODEV, "mmap");
    FAILS(syscall(SYS_getdents64, p[0], b, 400), ENOTDIR);
    FAILS(fchdir(p[0]), ENOTDIR);
    FAILS(openat(p[0], "x", O_RDONLY), ENOTDIR);
    IS(isatty(p[0]), 0);
    IS(errno, ENOTTY);
    struct sockaddr_storage sa;
    socklen_t sl = sizeof sa;
    FAILS(getsockname(p[0], (void *)&sa, &sl), ENOTSOCK);
    FAILS(send(p[1], "x", 1, 0), ENOTSOCK);
    FAILS(recv(p[0], b, 1, 0), ENOTSOCK);
    char path[400], real[400];
    snprintf(path, sizeof path, "/proc/self/fd/%d", p[0]);
    ssize_t k = readlink(path, b, 399);
    CHECK(k > 0, "readlink");
    b[k] = 0;
    CHECK(realpath(f, real) && !strcmp(real, b), "/proc/self/fd must lead to the path and says %s", b);
    get(p[0], 100, 0);
    flood(p[0], p[1], 100000, 0);
}
static void metadata_calls(void) {
    int p[2];
    struct stat s;
    const char *f = mkff(p);
    struct timespec t[2] = {{5, 0}, {6, 0}};
    put(p[1], 100, 0);
    IS(fchmod(p[0], 0644), 0);
    IS(fchown(p[0], -1, -1), 0);
    IS(futimens(p[1], t), 0);
    IS(fstat(p[0], &s), 0);
    IS(s.st_mtime, 6);
    IS(s.st_mode, S_IFIFO | 0644);
    IS(flock(p[0], LOCK_EX), 0);
    FAILS(flock(p[1], LOCK_EX | LOCK_NB), EWOULDBLOCK); /* another opening */
    IS(flock(p[0], LOCK_UN), 0);
    struct flock l = {.l_type = F_RDLCK};
    IS(fcntl(p[0], F_SETLK, &l), 0);
    FAILS(fcntl(p[1], F_SETLK, &l), EBADF);
    get(p[0], 100, 0);
}
static void getfl(void) {
    int p[2];
    const char *f = mkff(p);
    int m = O_ACCMODE | O_NONBLOCK | O_APPEND | O_ASYNC | O_DIRECT | O_SYNC;
    IS(fcntl(p[0], F_GETFL) & m, O_RDONLY);
    IS(fcntl(p[1], F_GETFL) & m, O_WRONLY);
    int b = OPEN(f, O_RDWR | O_NONBLOCK | O_APPEND);
    IS(fcntl(b, F_GETFL) & m, O_RDWR | O_NONBLOCK | O_APPEND);
    setfl(p[1], O_APPEND, 0);
    IS(fcntl(p[1], F_GETFL) & m, O_WRONLY | O_APPEND);
    IS(fcntl(p[1], F_GETFD), 0);
    IS(fcntl(p[1], F_SETFD, FD_CLOEXEC), 0);
    IS(fcntl(p[1], F_GETFD), FD_CLOEXEC);
    put(p[1], 10, 0);
    setfl(b, 0, O_NONBLOCK);
    get(b, 10, 0);
    heat(p[0], p[1]);
    heat(b, b);
}
static void dups(void) {
    int p[2];
    char x;
    const char *f = mkff(p);
    put(p[1], 100, 0);
    int w = dup(p[1]), w2 = fcntl(p[1], F_DUPFD, 200), r = dup2(p[0], 210), r2 = dup3(p[0], 211, O_CLOEXEC);
    CHECK(w > 0 && w2 >= 200 && r == 210 && r2 == 211, "dup");
    close(p[0]);
    close(p[1]);
    put(w, 100, 100);
    put(w2, 100, 200);
    get(r, 150, 0);
    get(r2, 150, 150);
    heat(r2, w);
    heat(r, w2);
    IS(dup2(w, w2), w2);
    put(w2, 5, 0);
    get(r, 5, 0);
    int q[2];
    const char *g = mkff(q);
    put(w, 50, 0);
    put(q[1], 50, 900);
    IS(dup2(q[1], w), w); /* w is now the other FIFO's; w2 still writes to the first */
    put(w, 50, 950);
    put(w2, 50, 50);
    close(w2);
    get(r, 100, 0);
    AT_EOF(r);
    get(q[0], 100, 900);
    IS(dup2(q[0], r), r);
    put(w, 10, 0);
    get(r, 10, 0);
    close(q[1]);
    close(w);
    AT_EOF(r);
    AT_EOF(q[0]);
    AT_EOF(r2);
}
static void descriptor_used_again(void) { /* the number of a closed FIFO becomes a file, then another FIFO */
    int p[2], q[2];
    char b[100];
    const char *f = mkff(p), *g = fresh();
    close(p[0]);
    int o = OPEN(g, O_CREAT | O_RDWR);
    IS(o, p[0]);
    IS(write(o, "hello", 5), 5);
    IS(pread(o, b, 100, 0), 5);
    close(o);
    close(p[1]);
    open_both(newfifo(), q);
    IS(q[0], p[0]);
    heat(q[0], q[1]);
    put(q[1], 100, 0);
    get(q[0], 100, 0);
    close_range(q[0], q[1], 0);
    FAILS(read(q[0], b, 1), EBADF);
    FAILS(write(q[1], b, 1), EBADF);
}
static void fork_shares(void) {
    int p[2];
    const char *f = mkff(p);
    S = shared(4096);
    pid_t c = child();
    if (!c) {
        for (int i = 0; i < 50; i++) { /* it writes the odd parts and reads the odd parts */
            UNTIL(S[0] == 2 * i + 1);
            put(p[1], 997, (2 * i + 1) * 997);
            get(p[0], 997, (2 * i + 1) * 997);
            S[0] = 2 * i + 2;
        }
        _exit(0);
    }
    for (int i = 0; i < 50; i++) {
        UNTIL(S[0] == 2 * i);
        put(p[1], 997, 2 * i * 997);
        get(p[0], 997, 2 * i * 997);
        S[0] = 2 * i + 1;
    }
    REAP0(c);
    close(p[1]);
    AT_EOF(p[0]);
}
static void grandchildren(void) {
    int p[2];
    mkff(p);
    pid_t c = child();
    if (!c) {
        c = child();
        if (!c) {
            put(p[1], 50000, 0);
            _exit(0);
        }
        REAP0(c);
        put(p[1], 10000, 50000);
        _exit(0);
    }
    close(p[1]);
    get(p[0], 60000, 0);
    REAP0(c);
    AT_EOF(p[0]);
}
/* cat between two FIFOs; the heavy part is in fifo_hot.c */
static void exec_cat(void) {
    int p[2], q[2];
    const char *f = mkff(p), *g = mkff(q);
    put(p[1], 3000, 0);
    pid_t c = child();
    if (!c) {
        dup2(p[0], 0);
        dup2(q[1], 1);
        close_range(3, ~0u, 0);
        execlp("cat", "cat", (char *)0);
        _exit(9);
    }
    close(p[0]);
    close(q[1]);
    pid_t w = child();
    if (!w) {
        qput(p[1], 1 << 20, 0, 4096);
        _exit(0);
    }
    close(p[1]);
    get(q[0], 3000, 0);
    qget(q[0], 1 << 20, 0, 8192);
    AT_EOF(q[0]);
    REAP0(w);
    REAP0(c);
}
static pid_t shell(const char *how, const char *f, const char *g) {
    char cmd[200];
    snprintf(cmd, sizeof cmd, how, f, g);
    pid_t c = child();
    if (c) return c;
    close_range(3, ~0u, 0);
    execlp("sh", "sh", "-c", cmd, (char *)0);
    _exit(9);
}
static void shell_by_path(void) { /* the shell opens them */
    static const char *const how[] = {"cat <%s | cat >%s", "head -c 50000 %s >%s",
                                      "exec 3<%s; head -c 50000 <&3 >%s", "cat %s | tee %s >/dev/null"};
    int p[2], q[2];
    const char *f = mkff(p), *g = mkff(q);
    close(p[0]);
    close(p[1]);
    for (int i = 0; i < 4; i++) {
        pid_t c = shell(how[i], f, g);
        p[1] = OPEN(f, O_WRONLY);
        qput(p[1], 50000, i, 4096);
        qget(q[0], 50000, i, 4096);
        close(p[1]);
        REAP0(c);
    }
    close(q[1]);
    AT_EOF(q[0]);
}
static void close_on_exec(void) {
    int p[2], go[2];
    char x;
    const char *f = mkff(p);
    fcntl(p[1], F_SETFD, FD_CLOEXEC);
    socketpair(AF_UNIX, SOCK_STREAM, 0, go);
    pid_t c = child();
    if (!c) {
        put(p[1], 777, 0);
        dup2(go[1], 0);
        dup2(go[1], 1);
        close(go[0]);
        execl("/bin/cat", "cat", (char *)0);
        _exit(9);
    }
    close(p[1]);
    get(p[0], 777, 0);
    AT_EOF(p[0]); /* though the process lives */
    close(go[1]);
    write(go[0], "y", 1);
    IS(read(go[0], &x, 1), 1);
    shutdown(go[0], SHUT_WR);
    REAP0(c);
}
static void passed_by_scm_rights(void) {
    int p[2], s[2];
    const char *f = mkff(p);
    socketpair(AF_UNIX, SOCK_STREAM, 0, s);
    pid_t c = child();
    char d = 'x', cb[CMSG_SPACE(sizeof(int))];
    struct iovec v = {&d, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = cb, .msg_controllen = sizeof cb};
    if (!c) {
        close(p[0]);
        close(p[1]);
        close(s[0]);
        IS(recvmsg(s[1], &m, 0), 1);
        int w;
        memcpy(&w, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof w);
        put(w, 300000, 100);
        _exit(0);
    }
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    *h = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(h), &p[1], sizeof(int));
    put(p[1], 100, 0);
    IS(sendmsg(s[0], &m, 0), 1);
    close(p[1]);
    get(p[0], 300100, 0);
    REAP0(c);
    close(s[0]);
    close(s[1]);
    AT_EOF(p[0]);
}
static void stdio(void) {
    const char *f = newfifo();
    pid_t c = child();
    if (!c) {
        FILE *o = fopen(f, "w");
        for (int i = 0; i < 100000; i++) {
            fprintf(o, "line %d of the test\n", i);
            if (i % 1000 == 0) fflush(o);
        }
        fclose(o);
        _exit(0);
    }
    FILE *in = fopen(f, "r");
    char l[100], want[100];
    for (int i = 0; i < 100000; i++) {
        CHECK(fgets(l, sizeof l, in), "line %d is missing", i);
        snprintf(want, sizeof want, "line %d of the test\n", i);
        CHECK(!strcmp(l, want), "line %d is %s", i, l);
    }
    IS(fgetc(in), EOF);
    CHECK(feof(in) && !ferror(in), "EOF");
    fclose(in);
    REAP0(c);
}
static int temp(size_t n, uint64_t pos) {
    int t = OPEN(fresh(), O_CREAT | O_RDWR);
    if (n) write_all(t, at(pos), n);
    lseek(t, 0, SEEK_SET);
    return t;
}
static void splice_out(void) {
    int p[2], k[2];
    static char b[SEA];
    const char *f = mkff(p);
    int t = temp(0, 0);
    qput(p[1], 10000, 0, 4096);
    size_t n = 0;
    while (n < 10000) {
        ssize_t g = splice(p[0], 0, t, 0, 10000 - n, 0);
        CHECK(g > 0, "splice to a file");
        n += g;
    }
    IS(pread(t, b, SEA, 0), 10000);
    same(b, 10000, 0);
    CHECK(!pipe(k), "pipe");
    qput(p[1], 5000, 3, 5000);
    for (n = 0; n < 5000;) {
        ssize_t g = splice(p[0], 0, k[1], 0, 5000 - n, 0);
        CHECK(g > 0, "splice to a pipe");
        n += g;
    }
    qget(k[0], 5000, 3, 8192);
    FAILS(splice(p[0], 0, t, 0, 10, SPLICE_F_NONBLOCK), EAGAIN);
    FAILS(splice(p[0], 0, p[1], 0, 10, 0), EINVAL);
    loff_t off = 0;
    FAILS(splice(p[0], &off, t, 0, 10, 0), ESPIPE);
    close(p[1]);
    IS(splice(p[0], 0, t, 0, 10, 0), 0);
}
static void splice_in(void) {
    int p[2], k[2];
    const char *f = mkff(p);
    int t = temp(40000, 0);
    put(p[1], 100, 0);
    for (size_t n = 0; n < 40000;) {
        ssize_t g = splice(t, 0, p[1], 0, 40000 - n, 0);
        CHECK(g > 0, "splice from a file");
        n += g;
    }
    get(p[0], 100, 0);
    qget(p[0], 40000, 0, 8192);
    IS(lseek(t, 0, SEEK_SET), 0);
    for (size_t n = 0; n < 40000;) {
        ssize_t g = sendfile(p[1], t, 0, 40000 - n);
        CHECK(g > 0, "sendfile");
        n += g;
    }
    qput(p[1], 100, 1, 100);
    qget(p[0], 40000, 0, 8192);
    qget(p[0], 100, 1, 8192);
    struct iovec v = {(void *)at(0), 4096};
    IS(vmsplice(p[1], &v, 1, 0), 4096);
    qget(p[0], 4096, 0, 8192);
    signal(SIGPIPE, SIG_IGN);
    close(p[0]);
    lseek(t, 0, SEEK_SET);
    FAILS(splice(t, 0, p[1], 0, 100, 0), EPIPE);
}
static void tee_out(void) {
    int p[2], k[2];
    const char *f = mkff(p);
    CHECK(!pipe(k), "pipe");
    qput(p[1], 3000, 0, 3000);
    IS(tee(p[0], k[1], 3000, 0), 3000);
    qget(k[0], 3000, 0, 8192);
    qget(p[0], 3000, 0, 8192); /* tee took nothing */
    FAILS(tee(p[0], k[1], 10, SPLICE_F_NONBLOCK), EAGAIN);
    heat(p[0], p[1]);
}
static void splice_moves_a_stream(void) { /* as cat of coreutils does */
    enum { TOTAL = 4 << 20 };
    int p[2];
    const char *f = mkff(p), *g = newfifo();
    pid_t w = child();
    if (!w) {
        close(p[0]);
        qput(p[1], TOTAL, 0, 5000);
        _exit(0);
    }
    close(p[1]);
    qget(p[0], 1 << 20, 0, 8192);
    pid_t m = child();
    if (!m) {
        int o = OPEN(g, O_WRONLY);
        ssize_t k;
        while ((k = splice(p[0], 0, o, 0, 65536, SPLICE_F_MOVE)) > 0);
        IS(k, 0);
        _exit(0);
    }
    close(p[0]);
    int r = OPEN(g, O_RDONLY);
    qget(r, TOTAL - (1 << 20), 1 << 20, 8192);
    AT_EOF(r);
    REAP0(w);
    REAP0(m);
}
static void read_after_unlink(void) {
    int p[2];
    const char *f = mkff(p);
    qput(p[1], 30000, 0, 4096);
    close(p[1]);
    IS(unlink(f), 0);
    qget(p[0], 30000, 0, 999);
    AT_EOF(p[0]);
}
/* LINUX: a FIFO that nobody polls or splices still tells inotify; asked here before traffic is heavy only. */
static void inotify_sees(void) {
    struct inotify_event *e;
    char b[4096], x;
    uint32_t seen = 0;
    int p[2], n = inotify_init1(IN_NONBLOCK);
    const char *f = newfifo();
    CHECK(n >= 0 && inotify_add_watch(n, f, IN_ALL_EVENTS) >= 0, "inotify");
    open_both(f, p);
    put(p[1], 10, 0);
    get(p[0], 10, 0);
    close(p[1]);
    close(p[0]);
    unlink(f);
    for (ssize_t g; (g = read(n, b, sizeof b)) > 0;)
        for (char *q = b; q < b + g; q += sizeof *e + e->len) {
            e = (void *)q;
            seen |= e->mask;
        }
    IS(seen & IN_ALL_EVENTS,
       IN_OPEN | IN_MODIFY | IN_ACCESS | IN_CLOSE_WRITE | IN_CLOSE_NOWRITE | IN_ATTRIB | IN_DELETE_SELF);
}
static void copy_calls(void) {
    int p[2];
    const char *f = mkff(p);
    int t = temp(100, 0), u = temp(0, 0);
    put(p[1], 100, 0);
    FAILS(copy_file_range(p[0], 0, t, 0, 10, 0), EINVAL);
    FAILS(copy_file_range(t, 0, p[1], 0, 10, 0), EINVAL);
    FAILS(sendfile(u, p[0], 0, 10), EINVAL);
    get(p[0], 100, 0);
}
FIFO_MAIN(T(no_position), T(preadv2_without_position), T(not_a_file), T(metadata_calls), T(getfl), T(dups),
          T(descriptor_used_again), T(fork_shares), T(grandchildren), T(exec_cat), T(shell_by_path),
          T(close_on_exec), T(passed_by_scm_rights), ONCE(stdio), T(splice_out), T(splice_in), T(tee_out),
          T(splice_moves_a_stream), T(read_after_unlink), ONCE(inotify_sees), T(copy_calls))
