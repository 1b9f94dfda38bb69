/* Checks: many FIFOs and many openings: nothing is mixed up, nothing leaks, limits change speed and not
 * bytes. Does not check: the limits' exact figures, which are the machine's. */
#include "fifo_common.h"
#include <dirent.h>
#include <sys/resource.h>
enum { MANY = 200 };
static int fds(void) {
    DIR *d = opendir("/proc/self/fd");
    int n = -3;
    while (readdir(d)) n++;
    closedir(d);
    return n;
}
static long resident_kib(void) {
    long a = 0, b = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f && fscanf(f, "%ld %ld", &a, &b) == 2, "statm");
    fclose(f);
    return b * 4;
}
static void many_filled_at_once(void) {
    static int p[MANY][2];
    static size_t n[MANY];
    char name[MANY][24];
    for (int i = 0; i < MANY; i++) {
        snprintf(name[i], 24, "m%d.%d", getpid(), i);
        CHECK(!mkfifo(name[i], 0600), "mkfifo");
        open_both(name[i], p[i]);
        heat(p[i][0], p[i][1]);
    }
    for (int i = 0; i < MANY; i++) { /* each with bytes of its own */
        setfl(p[i][1], O_NONBLOCK, 0);
        for (ssize_t g; (g = write(p[i][1], at(i * 131 + n[i]), 4096)) > 0;) n[i] += g;
        CHECK(errno == EAGAIN && n[i] >= 4096, "FIFO %d took %zu bytes", i, n[i]);
    }
    for (int i = MANY - 1; i >= 0; i--) qget(p[i * 7 % MANY][0], n[i * 7 % MANY], i * 7 % MANY * 131, 8192);
    for (int i = 0; i < MANY; i++) {
        char x;
        setfl(p[i][0], O_NONBLOCK, 0);
        FAILS(read(p[i][0], &x, 1), EAGAIN);
        IS(write(p[i][1], "y", 1), 1);
        IS(read(p[i][0], &x, 1), 1);
        close(p[i][1]);
        AT_EOF(p[i][0]);
        unlink(name[i]);
    }
}
static void many_by_processes(void) { /* 100 writers, each on a FIFO of its own, all at once; one reader */
    enum { N = 100, BYTES = 300000 };
    static int r[N];
    static uint64_t n[N];
    static char b[SEA];
    pid_t c[N];
    char name[24];
    for (int i = 0; i < N; i++) {
        snprintf(name, 24, "p%d.%d", getpid(), i);
        CHECK(!mkfifo(name, 0600), "mkfifo");
        c[i] = writer(name, BYTES, i);
        r[i] = OPEN(name, O_RDONLY);
        unlink(name);
    }
    for (int left = N; left;)
        for (int i = 0; i < N; i++) {
            if (r[i] < 0) continue;
            ssize_t g = read(r[i], b, 10000);
            CHECK(g >= 0, "read");
            same(b, g, i + n[i]);
            n[i] += g;
            if (g) continue;
            IS(n[i], BYTES);
            close(r[i]);
            r[i] = -1;
            left--;
        }
    for (int i = 0; i < N; i++) REAP0(c[i]);
}
static void many_openings_of_one(void) {
    enum { N = 100 };
    int r[N], w[N], p[2];
    const char *f = mkff(p);
    for (int i = 0; i < N; i++) {
        r[i] = OPEN(f, O_RDONLY);
        w[i] = OPEN(f, i % 3 ? O_WRONLY : O_RDWR);
    }
    for (int k = 0; k < 20; k++) { /* by turns, 300 bytes each; read by turns, 500 each */
        for (int i = 0; i < N; i++) qput(w[i], 300, i * 300, 300);
        for (int i = 0; i < N * 300 / 500; i++) qget(r[i * 7 % N], 500, i * 500, 500);
    }
    for (int i = 0; i < N; i += 25) flood(r[i], w[N - 1 - i], 300000, i);
    for (int i = 0; i < N; i++) close(w[i]);
    for (int i = 0; i < N - 1; i++) close(r[i]);
    qput(p[1], 10, 0, 10);
    close(p[1]);
    close(p[0]);
    qget(r[N - 1], 10, 0, 10);
    AT_EOF(r[N - 1]);
}
static void opened_2000_times(void) {
    const char *f = newfifo();
    char x;
    int p[2], h = -1, before = 0;
    long kib = 0;
    for (int i = 0; i < 2100; i++) {
        if (i == 100) { /* what is made once is made */
            before = fds();
            kib = resident_kib();
        }
        open_both(f, p);
        IS(write(p[1], at(i), 100), 100);
        if (i % 3) qget(p[0], 100, i, 100);
        close(p[i & 1]);
        close(p[!(i & 1)]);
    }
    IS(fds(), before);
    kib = resident_kib() - kib;
    CHECK(kib < 4096, "memory grew by %ld KiB", kib);
}
static void opened_100_times_heavy(void) {
    const char *f = newfifo();
    int p[2], before = 0;
    long kib = 0;
    for (int i = 0; i < 120; i++) {
        if (i == 20) {
            before = fds();
            kib = resident_kib();
        }
        open_both(f, p);
        heat(p[0], p[1]);
        if (!warm_mode) flood(p[0], p[1], 200000, i);
        qput(p[1], 5000, i, 5000);
        if (i % 3) qget(p[0], 5000, i, 5000);
        close(p[i & 1]);
        close(p[!(i & 1)]);
    }
    IS(fds(), before);
    kib = resident_kib() - kib;
    CHECK(kib < 8192, "memory grew by %ld KiB", kib);
}
static void made_and_removed_1000_times(void) {
    int p[2], before = fds();
    for (int i = 0; i < 1000; i++) {
        const char *f = newfifo();
        open_both(f, p);
        IS(write(p[1], at(i), 3000), 3000);
        unlink(f);
        qget(p[0], 3000, i, 3000);
        close(p[0]);
        close(p[1]);
    }
    IS(fds(), before);
}
static void opened_in_vain(void) { /* ENXIO, EEXIST, EMFILE leave nothing open */
    int p[2];
    const char *f = mkff(p), *g = newfifo();
    int before = fds();
    for (int i = 0; i < 500; i++) {
        FAILS(open(g, O_WRONLY | O_NONBLOCK), ENXIO);
        FAILS(open(f, O_CREAT | O_EXCL | O_RDWR, 0600), EEXIST);
    }
    IS(fds(), before);
    struct rlimit l = {p[1] + 5, p[1] + 5};
    IS(setrlimit(RLIMIT_NOFILE, &l), 0);
    int o[10], n = 0;
    while (n < 10 && (o[n] = open(f, O_RDONLY)) >= 0) n++;
    CHECK(n < 10 && errno == EMFILE, "EMFILE");
    FAILS(open(g, O_RDONLY | O_NONBLOCK), EMFILE);
    put(p[1], 1000, 0);
    get(p[0], 1000, 0);
    while (n--) close(o[n]);
    flood(p[0], p[1], 300000, 0);
    close(p[1]);
    AT_EOF(p[0]);
    close(p[0]);
    FAILS(open(g, O_WRONLY | O_NONBLOCK), ENXIO); /* the opening that failed is no reader */
}
/* LINUX: pipe(7), /proc/sys/fs/pipe-user-pages-soft: above it an ordinary user's new pipes hold one or two
 * pages, and F_SETPIPE_SZ fails with EPERM. The bytes are the same. */
static void beyond_the_users_pages(void) {
    pid_t c = child();
    if (!c) {
        as_nobody();
        static int p[180][2];
        char name[24];
        int n = 0, refused = 0;
        for (; n < 80 && !refused; n++) { /* 80 MiB; the usual soft limit is 64 MiB */
            snprintf(name, 24, "u%d.%d", getpid(), n);
            CHECK(!mkfifo(name, 0600), "mkfifo");
            open_both(name, p[n]);
            int g = fcntl(p[n][1], F_SETPIPE_SZ, 1 << 20);
            CHECK(g == 1 << 20 || errno == EPERM, "F_SETPIPE_SZ gave %d", g);
            refused = g < 0;
            unlink(name);
        }
        int big = n;
        for (; n < big + 60; n++) {
            const char *f = newfifo();
            open_both(f, p[n]);
            unlink(f);
        }
        for (int i = big; i < n; i++) {
            size_t k = 0;
            setfl(p[i][1], O_NONBLOCK, 0);
            for (ssize_t g; (g = write(p[i][1], at(i + k), 1000)) > 0;) k += g;
            CHECK(errno == EAGAIN && k >= 1000, "FIFO %d took %zu bytes", i, k);
            qget(p[i][0], k, i, 8192);
            setfl(p[i][1], 0, O_NONBLOCK);
        }
        for (int i = big - 2; i < n; i += 10) {
            flood(p[i][0], p[i][1], 400000, i);
            IS(ioctl(p[i][0], FIONREAD, &refused), 0);
            IS(refused, 0);
        }
        _exit(0);
    }
    REAP0(c);
}
FIFO_MAIN(T(many_filled_at_once), ONCE(many_by_processes), T(many_openings_of_one), ONCE(opened_2000_times),
          T(opened_100_times_heavy), ONCE(made_and_removed_1000_times), T(opened_in_vain),
          T(beyond_the_users_pages))
