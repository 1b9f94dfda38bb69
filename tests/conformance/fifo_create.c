/* Checks: making, naming and un-naming FIFOs, and that an open FIFO is the object and not its name.
 * Does not check: which process opens first (fifo_open.c), other users' quotas, time stamps of a FIFO in
 * heavy use. */
#include "fifo_common.h"
static mode_t mode_of(const char *f) {
    struct stat s;
    CHECK(!lstat(f, &s), "lstat");
    return s.st_mode;
}
static void mkfifo_makes(void) {
    struct stat s;
    umask(022);
    const char *f = fresh();
    IS(mkfifo(f, 0644), 0);
    IS(stat(f, &s), 0);
    IS(s.st_mode, S_IFIFO | 0644);
    IS(s.st_size, 0);
    IS(s.st_nlink, 1);
    IS(s.st_blocks, 0);
    IS(s.st_rdev, 0);
    IS(s.st_uid, geteuid());
    IS(access(f, R_OK | W_OK), 0);
    IS(unlink(f), 0);
    FAILS(stat(f, &s), ENOENT);
}
static void mode_and_umask(void) {
    static const struct {
        mode_t mask, ask, get;
    } t[] = {{0, 0666, 0666}, {077, 0666, 0600}, {027, 0777, 0750}, {022, 0, 0},
             {0777, 0666, 0}, {0, 01755, 01755}, {0222, 0222, 0},   {0, 0444, 0444}};
    for (unsigned i = 0; i < sizeof t / sizeof *t; i++) {
        umask(t[i].mask);
        const char *f = fresh(), *g = fresh(), *h = fresh();
        IS(mkfifo(f, t[i].ask), 0);
        IS(mknod(g, S_IFIFO | t[i].ask, 0), 0);
        IS(mkfifoat(AT_FDCWD, h, t[i].ask), 0);
        IS(mode_of(f), S_IFIFO | t[i].get);
        IS(mode_of(g), S_IFIFO | t[i].get);
        IS(mode_of(h), S_IFIFO | t[i].get);
    }
}
/* FREEBSD PR kern/74242: mknod(S_IFIFO) must work for everyone. */
static void pr74242_mknod_unprivileged(void) {
    pid_t c = child();
    if (!c) {
        as_nobody();
        struct stat s;
        const char *f = fresh(), *g = fresh(), *h = fresh();
        IS(mknod(f, S_IFIFO | 0600, 0), 0);
        IS(mknod(g, S_IFIFO | 0600, makedev(1, 3)), 0); /* the device number is not looked at */
        IS(mknodat(AT_FDCWD, h, S_IFIFO | 0600, 0), 0);
        IS(stat(f, &s), 0);
        IS(s.st_mode & S_IFMT, S_IFIFO);
        IS(s.st_uid, geteuid());
        IS(stat(g, &s), 0);
        IS(s.st_mode & S_IFMT, S_IFIFO);
        IS(s.st_rdev, 0);
        FAILS(mknod(fresh(), S_IFCHR | 0600, makedev(1, 3)), EPERM);
        FAILS(mknod(f, S_IFIFO | 0600, 0), EEXIST);
        int p[2];
        open_both(f, p);
        flood(p[0], p[1], 300000, 0);
        _exit(0);
    }
    REAP0(c);
}
static void unprivileged_stream(void) {
    pid_t c = child();
    if (!c) {
        as_nobody();
        int p[2];
        mkff(p);
        flood(p[0], p[1], 1 << 20, 0);
        close(p[1]);
        AT_EOF(p[0]);
        _exit(0);
    }
    REAP0(c);
}
static void existing_path(void) {
    const char *f = newfifo(), *reg = fresh(), *dir = fresh(), *sym = fresh();
    close(OPEN(reg, O_CREAT | O_WRONLY));
    IS(mkdir(dir, 0700), 0);
    IS(symlink("nowhere", sym), 0);
    const char *all[] = {f, reg, dir, sym, ".", "/"};
    for (int i = 0; i < 6; i++) {
        FAILS(mkfifo(all[i], 0600), EEXIST);
        FAILS(mknod(all[i], S_IFIFO | 0600, 0), EEXIST);
    }
    FAILS(open(f, O_CREAT | O_EXCL | O_RDWR, 0600), EEXIST);
    FAILS(mkfifo("missing/f", 0600), ENOENT);
    FAILS(mkfifo("", 0600), ENOENT);
    char p[400];
    snprintf(p, sizeof p, "%s/f", reg);
    FAILS(mkfifo(p, 0600), ENOTDIR);
    memset(p, 'a', 300), p[300] = 0;
    FAILS(mkfifo(p, 0600), ENAMETOOLONG);
    FAILS(mkfifo((char *)8, 0600), EFAULT);
    rmdir(dir);
}
static void existing_path_with_traffic(void) {
    int p[2];
    const char *f = mkff(p);
    put(p[1], 100, 0);
    FAILS(mkfifo(f, 0600), EEXIST);
    FAILS(open(f, O_CREAT | O_EXCL | O_RDONLY | O_NONBLOCK, 0600), EEXIST);
    get(p[0], 100, 0);
}
static void mkfifoat_folder(void) {
    const char *dir = fresh();
    IS(mkdir(dir, 0700), 0);
    int d = OPEN(dir, O_RDONLY | O_DIRECTORY);
    IS(mkfifoat(d, "x", 0600), 0);
    FAILS(mkfifoat(d, "x", 0600), EEXIST);
    FAILS(mkfifoat(99, "x", 0600), EBADF);
    int r = openat(d, "x", O_RDONLY | O_NONBLOCK), w = openat(d, "x", O_WRONLY);
    CHECK(r >= 0 && w >= 0, "openat");
    setfl(r, 0, O_NONBLOCK);
    flood(r, w, 300000, 0);
    IS(unlinkat(d, "x", 0), 0);
    flood(r, w, 300000, 7);
    IS(rmdir(dir), 0);
    put(w, 10, 0);
    close(w);
    get(r, 10, 0);
    AT_EOF(r);
}
static void permissions(void) {
    umask(0);
    const char *f = fresh(), *r = fresh(), *w = fresh(), *dir = fresh();
    IS(mkfifo(f, 0600), 0);
    IS(mkfifo(r, 0444), 0);
    IS(mkfifo(w, 0222), 0);
    IS(mkdir(dir, 0755), 0);
    pid_t c = child();
    if (!c) {
        if (getuid()) _exit(0);
        as_nobody();
        FAILS(open(f, O_RDONLY | O_NONBLOCK), EACCES);
        FAILS(open(f, O_WRONLY | O_NONBLOCK), EACCES);
        FAILS(open(f, O_RDWR), EACCES);
        FAILS(open(r, O_WRONLY | O_NONBLOCK), EACCES);
        FAILS(open(r, O_RDWR), EACCES);
        CHECK(open(r, O_RDONLY | O_NONBLOCK) >= 0, "0444 must open for reading");
        FAILS(open(w, O_RDONLY | O_NONBLOCK), EACCES);
        FAILS(open(w, O_WRONLY | O_NONBLOCK), ENXIO); /* the right is there, a reader is not */
        char p[100];
        snprintf(p, sizeof p, "%s/f", dir);
        FAILS(mkfifo(p, 0600), EACCES);
        _exit(0);
    }
    REAP0(c);
    rmdir(dir);
}
/* rights are asked at open(2) only */
static void chmod_while_open(void) {
    int p[2];
    struct stat s;
    const char *f = mkff(p);
    put(p[1], 100, 0);
    IS(chmod(f, 0), 0);
    IS(fstat(p[0], &s), 0);
    IS(s.st_mode, S_IFIFO);
    get(p[0], 100, 0);
    flood(p[0], p[1], 300000, 0);
    IS(fchmod(p[1], 0640), 0);
    IS(mode_of(f), S_IFIFO | 0640);
}
static void stat_with_data(void) {
    int p[2];
    struct stat a, b, c;
    const char *f = mkff(p);
    put(p[1], 5000, 0);
    IS(fstat(p[0], &a) | fstat(p[1], &b) | stat(f, &c), 0);
    CHECK(a.st_ino == b.st_ino && a.st_ino == c.st_ino && a.st_dev == c.st_dev, "one object");
    IS(a.st_size | b.st_size | c.st_size, 0);
    IS(a.st_mode & S_IFMT, S_IFIFO);
    IS(a.st_blksize, c.st_blksize);
    get(p[0], 5000, 0);
}
/* LINUX: a write into a FIFO sets its modification time. */
static void first_write_sets_mtime(void) {
    int p[2];
    struct stat s;
    struct timespec old[2] = {{1000000000, 0}, {1000000000, 0}};
    const char *f = newfifo();
    IS(utimensat(AT_FDCWD, f, old, 0), 0);
    open_both(f, p);
    IS(stat(f, &s), 0);
    IS(s.st_mtime, 1000000000);
    put(p[1], 5, 0);
    IS(stat(f, &s), 0);
    CHECK(s.st_mtime > 1000000000, "mtime must be set by the write");
}
static void unlink_while_open(void) {
    int p[2];
    struct stat s;
    const char *f = mkff(p);
    put(p[1], 4000, 0);
    IS(unlink(f), 0);
    FAILS(open(f, O_RDONLY | O_NONBLOCK), ENOENT);
    IS(fstat(p[0], &s), 0);
    IS(s.st_nlink, 0);
    get(p[0], 4000, 0);
    flood(p[0], p[1], 1 << 20, 0);
    char n[64];
    snprintf(n, sizeof n, "/proc/self/fd/%d", p[0]);
    int w = OPEN(n, O_WRONLY); /* still opens, by what it is */
    put(w, 3000, 0);
    close(p[1]);
    get(p[0], 3000, 0);
    heat(p[0], w);
    close(w);
    AT_EOF(p[0]);
}
static void unlink_with_reader_blocked(void) {
    int p[2];
    const char *f = mkff(p);
    pid_t c = child();
    if (!c) {
        close(p[1]);
        get(p[0], 70000, 0);
        AT_EOF(p[0]);
        _exit(0);
    }
    wait_asleep(c);
    IS(unlink(f), 0);
    close(p[0]);
    put(p[1], 70000, 0);
    close(p[1]);
    REAP0(c);
}
static void new_object_same_path(void) {
    int p[2], q[2];
    struct stat a, b;
    char x;
    const char *f = mkff(p);
    put(p[1], 100, 0);
    IS(unlink(f), 0);
    IS(mkfifo(f, 0600), 0);
    FAILS(open(f, O_WRONLY | O_NONBLOCK), ENXIO); /* the old reader is no reader of it */
    open_both(f, q);
    IS(fstat(p[0], &a) | fstat(q[0], &b), 0);
    CHECK(a.st_ino != b.st_ino, "a new object");
    setfl(q[0], O_NONBLOCK, 0);
    FAILS(read(q[0], &x, 1), EAGAIN);
    setfl(q[0], 0, O_NONBLOCK);
    heat(q[0], q[1]);
    put(q[1], 200, 5000);
    put(p[1], 50, 100);
    close(p[1]);
    get(p[0], 150, 0);
    AT_EOF(p[0]);
    get(q[0], 200, 5000);
    close(p[0]);
    flood(q[0], q[1], 1 << 20, 0);
    close(q[1]);
    AT_EOF(q[0]);
}
/* file systems give the inode number of a removed file to the next one: nothing of the old stream may show */
static void same_inode_again(void) {
    const char *f = fresh();
    char x;
    for (int i = 0; i < 20; i++) {
        int p[2];
        IS(mkfifo(f, 0600), 0);
        open_both(f, p);
        setfl(p[0], O_NONBLOCK, 0);
        FAILS(read(p[0], &x, 1), EAGAIN);
        setfl(p[0], 0, O_NONBLOCK);
        heat(p[0], p[1]);
        put(p[1], 1000 + i * 777 % (holds() - 1000), i);
        if (i % 3 == 1) get(p[0], 500, i);
        IS(unlink(f), 0);
        close(p[i & 1]);
        close(p[!(i & 1)]);
    }
}
static void rename_while_open(void) {
    int p[2];
    const char *f = mkff(p), *g = fresh();
    put(p[1], 1000, 0);
    IS(rename(f, g), 0);
    FAILS(open(f, O_WRONLY | O_NONBLOCK), ENOENT);
    int w = OPEN(g, O_WRONLY | O_NONBLOCK);
    setfl(w, 0, O_NONBLOCK);
    put(w, 1000, 1000);
    put(p[1], 1000, 2000);
    close(p[1]);
    get(p[0], 3000, 0);
    flood(p[0], w, 1 << 20, 0);
    close(w);
    AT_EOF(p[0]);
}
static void rename_over_another(void) {
    int p[2], q[2], s[2];
    const char *f = mkff(p), *g = mkff(q);
    put(p[1], 100, 0);
    put(q[1], 100, 7000);
    IS(rename(f, g), 0); /* q's object has no name now */
    s[0] = OPEN(g, O_RDONLY | O_NONBLOCK);
    s[1] = OPEN(g, O_WRONLY);
    put(s[1], 100, 100);
    get(p[0], 150, 0);
    setfl(s[0], 0, O_NONBLOCK);
    get(s[0], 50, 150);
    put(q[1], 100, 7100);
    get(q[0], 200, 7000);
    heat(q[0], q[1]);
    close(q[1]);
    AT_EOF(q[0]);
    close(p[1]);
    heat(s[0], s[1]);
    close(s[1]);
    AT_EOF(s[0]);
    AT_EOF(p[0]);
}
static void names_exchanged(void) {
    int p[2], q[2];
    const char *f = mkff(p), *g = mkff(q);
    put(p[1], 100, 0);
    put(q[1], 100, 7000);
    if (syscall(SYS_renameat2, AT_FDCWD, f, AT_FDCWD, g, 2)) {
        CHECK(errno == EINVAL || errno == ENOSYS, "renameat2");
        dprintf(1, "skip: this file system does not exchange names\n");
        return;
    }
    pid_t a = child();
    if (!a) {
        close_range(3, ~0u, 0);
        put(OPEN(f, O_WRONLY), 200000, 7100);
        _exit(0);
    }
    pid_t b = child();
    if (!b) {
        close_range(3, ~0u, 0);
        put(OPEN(g, O_WRONLY), 200000, 100);
        _exit(0);
    }
    get(p[0], 200100, 0);
    get(q[0], 200100, 7000);
    REAP0(a);
    REAP0(b);
    close(p[1]);
    close(q[1]);
    AT_EOF(p[0]);
    AT_EOF(q[0]);
}
static void hard_link_and_symlink(void) {
    int p[2];
    struct stat s;
    const char *f = mkff(p), *h = fresh(), *l = fresh();
    IS(link(f, h), 0);
    IS(symlink(f, l), 0);
    IS(fstat(p[0], &s), 0);
    IS(s.st_nlink, 2);
    int a = OPEN(h, O_WRONLY), b = OPEN(l, O_WRONLY);
    for (int i = 0; i < 30; i++) put((int[]){p[1], a, b}[i % 3], 1000, i * 1000);
    get(p[0], 30000, 0);
    IS(unlink(f), 0);
    FAILS(open(l, O_RDONLY | O_NONBLOCK), ENOENT);
    int r = OPEN(h, O_RDONLY | O_NONBLOCK);
    setfl(r, 0, O_NONBLOCK);
    flood(r, a, 300000, 0);
    flood(p[0], b, 300000, 0);
    close(a);
    close(b);
    close(p[1]);
    AT_EOF(r);
    AT_EOF(p[0]);
}
/* two file systems may give two FIFOs the same inode number */
static void two_file_systems(void) {
    int p[2], q[2];
    char d[64];
    const char *f = mkff(p);
    snprintf(d, sizeof d, "/dev/shm/fifo-test-%d", getpid());
    unlink(d);
    if (mkfifo(d, 0600)) {
        dprintf(1, "skip: no /dev/shm\n");
        return;
    }
    open_both(d, q);
    unlink(d);
    heat(q[0], q[1]);
    put(p[1], 3000, 0);
    put(q[1], 3000, 9000);
    get(p[0], 3000, 0);
    get(q[0], 3000, 9000);
    close(p[1]);
    AT_EOF(p[0]);
    flood(q[0], q[1], 300000, 0);
    close(q[1]);
    AT_EOF(q[0]);
}
/* a FIFO is found through its mount; the folder above it may move */
static void folder_renamed(void) {
    char a[80], b[80];
    int p[2];
    const char *d = fresh(), *e = fresh();
    IS(mkdir(d, 0700), 0);
    snprintf(a, sizeof a, "%s/x", d);
    snprintf(b, sizeof b, "%s/x", e);
    IS(mkfifo(a, 0600), 0);
    open_both(a, p);
    heat(p[0], p[1]);
    put(p[1], 1000, 0);
    IS(rename(d, e), 0);
    int w = OPEN(b, O_WRONLY);
    put(w, 1000, 1000);
    get(p[0], 2000, 0);
    close(p[1]);
    heat(p[0], w);
    close(w);
    AT_EOF(p[0]);
}
FIFO_MAIN(ONCE(mkfifo_makes), ONCE(mode_and_umask), ONCE(pr74242_mknod_unprivileged), T(unprivileged_stream),
          ONCE(existing_path), T(existing_path_with_traffic), ONCE(mkfifoat_folder), ONCE(permissions),
          T(chmod_while_open), T(stat_with_data), ONCE(first_write_sets_mtime), T(unlink_while_open),
          T(unlink_with_reader_blocked), T(new_object_same_path), T(same_inode_again), T(rename_while_open),
          T(rename_over_another), T(names_exchanged), T(hard_link_and_symlink), T(two_file_systems),
          T(folder_renamed))
