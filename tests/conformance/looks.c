/* Checks: calls that only look at a pipe (FIONREAD, F_GETPIPE_SZ, poll, ppoll, select and pselect that do not wait) tell what a read or
 * a write finds next, whatever its other end is doing, and leave no trace. Does not check: wake-ups (readiness.c). */
#include "check.h"
static volatile int hits;
static void on(int s) { hits++; }
static int there(int fd) {
    int n = -1;
    IS(ioctl(fd, FIONREAD, &n), 0);
    return n;
}
/* What each of the calls says of an end: IN, OUT, HUP and ERR as poll has them. */
static void says_(int line, int fd, int want) {
    static const struct timespec zero = {0};
    sigset_t none;
    sigemptyset(&none);
    for (int how = 0; how < 3; how++) {
        struct pollfd q = {fd, POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM, 77};
        int k = how == 0 ? poll(&q, 1, 0) : ppoll(&q, 1, &zero, how == 1 ? 0 : &none);
        int full = want | (want & POLLIN ? POLLRDNORM : 0) | (want & POLLOUT ? POLLWRNORM : 0);
        if (k != !!want || q.revents != full)
            failed(line, "poll (%d) must say 0x%x and said %d, 0x%x", how, full, k, q.revents);
        q.events = POLLIN;
        poll(&q, 1, 0);
        if (q.revents != (want & ~POLLOUT))
            failed(line, "poll for POLLIN must say 0x%x and said 0x%x", want & ~POLLOUT, q.revents);
        q.events = POLLPRI;
        poll(&q, 1, 0);
        if (q.revents != (want & (POLLHUP | POLLERR))) failed(line, "poll for POLLPRI said 0x%x", q.revents);
    }
    for (int how = 0; how < 3; how++) {
        fd_set r, w, x;
        struct timeval z = {0};
        FD_ZERO(&r);
        FD_ZERO(&w);
        FD_ZERO(&x);
        FD_SET(fd, &r);
        FD_SET(fd, &w);
        FD_SET(fd, &x);
        int k = how == 0 ? select(fd + 1, &r, &w, &x, &z) : pselect(fd + 1, &r, &w, &x, &zero, how == 1 ? 0 : &none);
        int in = !!(want & (POLLIN | POLLHUP | POLLERR)), out = !!(want & (POLLOUT | POLLERR));
        if (k != in + out || !FD_ISSET(fd, &r) != !in || !FD_ISSET(fd, &w) != !out || FD_ISSET(fd, &x))
            failed(line, "select (%d) must say %d %d and said %d: %d %d %d", how, in, out, k, FD_ISSET(fd, &r),
                   FD_ISSET(fd, &w), FD_ISSET(fd, &x));
    }
}
#define says(fd, want) says_(__LINE__, fd, want)
static void each_state(void) {
    int p[2];
    char b[4096];
    mkpipe(p);
    says(p[0], 0);
    says(p[1], POLLOUT);
    IS(there(p[0]), 0);
    put(p[1], 1, 0);
    says(p[0], POLLIN);
    says(p[1], POLLOUT);
    IS(there(p[0]), 1);
    IS(there(p[1]), 1);
    put(p[1], 5000, 1);
    IS(there(p[0]), 5001);
    get(p[0], 5001, 0);
    IS(there(p[0]), 0);
    says(p[0], 0);
    size_t n = fill_up(p[1], 0);
    says(p[0], POLLIN);
    says(p[1], 0);
    IS(there(p[0]), n);
    IS(fcntl(p[0], F_GETPIPE_SZ), 65536);
    IS(fcntl(p[1], F_GETPIPE_SZ), 65536);
    get(p[0], n, 0);
    says(p[0], 0);
    says(p[1], POLLOUT);
    put(p[1], 300, 0);
    close(p[1]);
    says(p[0], POLLIN | POLLHUP);
    IS(there(p[0]), 300);
    get(p[0], 300, 0);
    says(p[0], POLLHUP);
    IS(there(p[0]), 0);
    AT_EOF(p[0]);
}
static void reader_gone(void) {
    int p[2];
    mkpipe(p);
    put(p[1], 10, 0);
    close(p[0]);
    says(p[1], POLLOUT | POLLERR);
    mkpipe(p);
    fill_up(p[1], 0);
    close(p[0]);
    says(p[1], POLLERR);
}
/* LINUX pipe_poll: there is room as soon as a page is free; then a write of PIPE_BUF bytes does not wait. */
static void room_again(void) {
    /* One that is to hold less than the kernel's may open over a pipe that the kernel has filled. */
    if (holds() < 65536 && warm_mode == COLD) return;
    for (int blocking = 0; blocking < 2; blocking++) {
        int p[2];
        char b[4096];
        mkpipe(p);
        size_t n = fill_up(p[1], 0), at = 0;
        while (n - at >= 8192) {
            get(p[0], 8192, at);
            at += 8192;
            says(p[1], POLLOUT);
            if (!blocking) setfl(p[1], O_NONBLOCK, 0);
            fill(b, 4096, n);
            IS(write(p[1], b, 4096), 4096);
            n += 4096;
            IS(there(p[0]), n - at);
        }
    }
}
/* By single bytes until EAGAIN: "there is room" is never said where a byte finds none. */
static void byte_by_byte(void) {
    int p[2];
    char c;
    mkpipe(p);
    setfl(p[1], O_NONBLOCK, 0);
    size_t n = 0, at = 0;
    for (int round = 0; round < 3; round++) {
        for (;;) {
            short out = events(p[1], POLLOUT, 0);
            c = pat(n);
            ssize_t k = write(p[1], &c, 1);
            CHECK(k == 1 || errno == EAGAIN, "write");
            CHECK(k == 1 || !out, "poll said that there is room, and a byte found none after %zu", n - at);
            if (k != 1) break;
            n++;
        }
        IS(there(p[0]), n - at);
        get(p[0], (n - at) / 3, at);
        at += (n - at) / 3;
        IS(there(p[0]), n - at);
    }
    get(p[0], n - at, at);
}
static unsigned rnd(unsigned *s) { return *s = *s * 1664525 + 1013904223, *s >> 8; }
enum { TOTAL = 6 << 20 };
static void writes_at_random(int w, int most, int naps) {
    static char b[200000];
    unsigned s = 7;
    for (size_t at = 0; at < TOTAL;) {
        size_t k = 1 + rnd(&s) % (s % 4 ? 3000 : most);
        if (k > TOTAL - at) k = TOTAL - at;
        fill(b, k, at);
        write_all(w, b, k);
        at += k;
        if (naps && rnd(&s) % naps == 0) usleep(rnd(&s) % 300);
    }
}
static pid_t random_writer(int p[2], int naps) { /* the child alone has the write end then */
    pid_t c = child();
    if (!c) {
        close(p[0]);
        writes_at_random(p[1], 200000, naps);
        _exit(0);
    }
    close(p[1]);
    return c;
}
/* A lone reader: what FIONREAD says is there, and more never less. */
static void count_while_written(void) {
    for (int naps = 0; naps < 100; naps += 33) {
        int p[2];
        static char b[1 << 20];
        mkpipe(p);
        pid_t c = random_writer(p, naps);
        unsigned s = 3;
        for (size_t at = 0; at < TOTAL;) {
            int n = there(p[0]), again = there(p[0]);
            CHECK(again >= n, "there were %d bytes, and then %d", n, again);
            if (again == 0) {
                IS(read(p[0], b, 1), 1);
                verify(b, 1, at++);
                continue;
            }
            n = 1 + rnd(&s) % again;
            setfl(p[0], O_NONBLOCK, 0);
            for (int got = 0; got < n;) {
                ssize_t k = read(p[0], b, n - got);
                CHECK(k > 0, "FIONREAD said %d, and after %d bytes there were no more", n, got);
                verify(b, k, at);
                got += k;
                at += k;
            }
            setfl(p[0], 0, O_NONBLOCK);
        }
        IS(read(p[0], b, 1), 0);
        REAP0(c);
    }
}
/* What poll says, the next call finds; where it says nothing, the read finds nothing or what has just come. */
static void poll_while_written(void) {
    for (int naps = 0; naps < 100; naps += 33) {
        int p[2];
        static char b[1 << 17];
        mkpipe(p);
        pid_t c = random_writer(p, naps);
        unsigned s = 5;
        size_t at = 0;
        for (;;) {
            short e = events(p[0], POLLIN, 0);
            if (!e && rnd(&s) % 8) continue;
            if (e) setfl(p[0], O_NONBLOCK, 0);
            ssize_t k = read(p[0], b, 1 + rnd(&s) % sizeof b);
            CHECK(k >= 0, "poll said 0x%x, and the read failed at %zu", e, at);
            CHECK(e != POLLHUP || k == 0, "poll said the end, and there were bytes at %zu", at);
            CHECK(k || at == TOTAL, "the end came at %zu", at);
            if (e) setfl(p[0], 0, O_NONBLOCK);
            if (!k) break;
            verify(b, k, at);
            at += k;
        }
        REAP0(c);
    }
}
static void poll_while_read(void) {
    for (int naps = 0; naps < 100; naps += 33) {
        int p[2];
        static char b[65536];
        mkpipe(p);
        pid_t c = child();
        if (!c) {
            close(p[1]);
            unsigned s = 9;
            size_t at = 0, k;
            while ((k = read(p[0], b, 1 + rnd(&s) % sizeof b))) {
                verify(b, k, at);
                at += k;
                if (naps && rnd(&s) % naps == 0) usleep(rnd(&s) % 300);
            }
            IS(at, TOTAL);
            _exit(0);
        }
        close(p[0]);
        setfl(p[1], O_NONBLOCK, 0);
        unsigned s = 1;
        for (size_t at = 0; at < TOTAL;) {
            size_t n = rnd(&s) % 2 ? 1 : 4096;
            if (n > TOTAL - at) n = TOTAL - at;
            if (!events(p[1], POLLOUT, 0)) continue;
            fill(b, n, at);
            IS(write(p[1], b, n), n);
            at += n;
        }
        close(p[1]);
        REAP0(c);
    }
}
/* Others in the same call: each has its own answer, and the count is that of all. */
static void a_mixed_set(void) {
    int p[2], q[2], s[2];
    mkpipe(p);
    mkpipe(q);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, s), "socketpair");
    write(s[1], "x", 1);
    fill_up(q[1], 0);
    struct pollfd f[8] = {{p[0], POLLIN, 9}, {p[1], POLLOUT, 9}, {-1, POLLIN, 9}, {999, POLLIN | POLLOUT, 9}, {s[0], POLLIN, 9},
                          {q[0], POLLIN, 9}, {q[1], POLLOUT, 9}, {p[1], 0, 9}};
    static const short want[8] = {0, POLLOUT, 0, POLLNVAL, POLLIN, POLLIN, 0, 0};
    for (int wait = -1; wait < 2; wait++) {
        IS(poll(f, 8, wait * 1000), 4);
        for (int i = 0; i < 8; i++) CHECK(f[i].revents == want[i], "entry %d: 0x%x", i, f[i].revents);
    }
    fd_set r, w;
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_SET(p[0], &r);
    FD_SET(q[0], &r);
    FD_SET(s[0], &r);
    FD_SET(p[1], &w);
    FD_SET(q[1], &w);
    struct timeval t = {1, 0};
    int n = (s[1] > q[1] ? s[1] : q[1]) + 1;
    IS(select(n, &r, &w, 0, &t), 3);
    CHECK(!FD_ISSET(p[0], &r) && FD_ISSET(q[0], &r) && FD_ISSET(s[0], &r), "the set of readers");
    CHECK(FD_ISSET(p[1], &w) && !FD_ISSET(q[1], &w), "the set of writers");
    FD_SET(p[0], &r);
    FD_SET(62, &r);
    FAILS(select(63, &r, 0, 0, &t), EBADF);
    FAILS(select(-1, &r, 0, 0, &t), EINVAL);
    FD_ZERO(&r);
    FD_SET(q[0], &r);
    FD_SET(q[1], &r); /* what lies above the count is not asked for, and cleared */
    IS(select((q[0] < q[1] ? q[0] : q[1]) + 1, &r, 0, 0, 0), q[0] < q[1]);
    CHECK(!FD_ISSET(q[1], &r), "a descriptor above the count");
}
/* xargs: descriptors 0 to 63 for bytes and room; only what is not open counts. */
static void which_are_open(void) {
    int p[2];
    mkpipe(p);
    put(p[1], 20, 0);
    struct pollfd f[64];
    for (int i = 0; i < 64; i++) f[i] = (struct pollfd){i, POLLIN | POLLOUT, 0};
    CHECK(poll(f, 64, 0) > 50, "most are not open");
    IS(f[p[0]].revents, POLLIN);
    IS(f[p[1]].revents, POLLOUT);
    IS(f[63].revents, POLLNVAL);
    get(p[0], 20, 0);
}
/* LINUX ppoll(2): with something ready no signal is taken in, with nothing one that the mask lets through is. */
static void masks(void) {
    for (int sel = 0; sel < 2; sel++) {
        int p[2];
        mkpipe(p);
        handle(SIGUSR1, on, 0);
        hits = 0;
        sigset_t s, z;
        sigemptyset(&z);
        sigemptyset(&s);
        sigaddset(&s, SIGUSR1);
        sigprocmask(SIG_BLOCK, &s, 0);
        put(p[1], 1, 0);
        raise(SIGUSR1);
        for (int wait = 0; wait < 2; wait++) {
            struct pollfd q = {p[0], POLLIN, 0};
            struct timespec t = {wait, 0};
            fd_set r;
            FD_ZERO(&r);
            FD_SET(p[0], &r);
            IS(sel ? pselect(p[0] + 1, &r, 0, 0, &t, &z) : ppoll(&q, 1, &t, &z), 1);
            IS(hits, 0);
        }
        get(p[0], 1, 0);
        struct pollfd q = {p[0], POLLIN, 0};
        struct timespec t = {0};
        fd_set r;
        FD_ZERO(&r);
        FD_SET(p[0], &r);
        FAILS(sel ? pselect(p[0] + 1, &r, 0, 0, &t, &z) : ppoll(&q, 1, &t, &z), EINTR);
        IS(hits, 1);
        sigprocmask(SIG_UNBLOCK, &s, 0);
    }
}
static void refused(void) {
    int p[2], n;
    char *m = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(m + 4096, 4096, PROT_NONE);
    mkpipe(p);
    put(p[1], 7, 0);
    FAILS(ioctl(p[0], FIONREAD, 0), EFAULT);
    FAILS(ioctl(p[0], FIONREAD, m + 4094), EFAULT);
    IS(there(p[0]), 7);
    struct pollfd *f = (struct pollfd *)(m + 4096) - 1;
    *f = (struct pollfd){p[0], POLLIN, 0};
    FAILS(poll(f, 2, 0), EFAULT);
    IS(poll(f, 1, 0), 1);
    struct timespec bad = {0, -1}, worse = {-1, 0};
    FAILS(ppoll(f, 1, &bad, 0), EINVAL);
    FAILS(ppoll(f, 1, &worse, 0), EINVAL);
    FAILS(syscall(SYS_ppoll, f, 1, &(struct timespec){0}, &(sigset_t){0}, 5), EINVAL);
    FAILS(syscall(SYS_ppoll, f, 1, m + 8000, 0, 8), EFAULT);
    fd_set r;
    FD_ZERO(&r);
    FD_SET(p[0], &r);
    FAILS(select(p[0] + 1, &r, 0, 0, &(struct timeval){-1, 0}), EINVAL);
    FAILS(select(p[0] + 1, (fd_set *)(m + 4096), 0, 0, &(struct timeval){0}), EFAULT);
    IS(select(p[0] + 1, &r, 0, 0, &(struct timeval){0, 2000000}), 1);
    close(p[0]);
    close(p[1]);
    FAILS(ioctl(p[0], FIONREAD, &n), EBADF);
    FAILS(fcntl(p[0], F_GETPIPE_SZ), EBADF);
    IS(poll(f, 1, 0), 1);
    IS(f->revents, POLLNVAL);
}
/* A list of one descriptor, again and again: the descriptor becomes another file's, the list is taken away. */
static void list_of_one(void) {
    int p[2], d = open("/dev/null", O_RDONLY);
    char *m = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct pollfd *f = (struct pollfd *)(m + 4096) - 1;
    mprotect(m + 4096, 4096, PROT_NONE);
    mkpipe(p);
    *f = (struct pollfd){d, POLLIN, 0};
    for (int i = 0; i < 5; i++) IS(poll(f, 1, i - 1), 1);
    dup2(p[0], d);
    IS(poll(f, 1, 0), 0);
    put(p[1], 3, 0);
    for (int i = 0; i < 5; i++) IS(poll(f, 1, i - 1), 1);
    get(d, 3, 0);
    IS(poll(f, 1, 1), 0);
    put(p[1], 3, 0);
    for (int i = 0; i < 5; i++) IS(poll(f, 1, i - 1), 1);
    get(d, 3, 0);
    for (int i = 0; i < 5; i++) IS(poll(f, 1, 0), 0);
    FAILS(poll((struct pollfd *)((char *)f + 4), 1, 0), EFAULT);
    FAILS(poll((struct pollfd *)-4, 1, 0), EFAULT);
    FAILS(poll((struct pollfd *)-8, 1, 0), EFAULT);
    mprotect(m, 4096, PROT_READ);
    FAILS(poll(f, 1, 0), EFAULT);
    mprotect(m, 4096, PROT_NONE);
    FAILS(poll(f, 1, 0), EFAULT);
    munmap(m, 8192);
    FAILS(poll(f, 1, 0), EFAULT);
}
/* Polls that find bytes, and then an end: whoever made it, the next poll says so. */
static void ends_between_polls(void) {
    for (int how = 0; how < 4; how++) {
        int p[2], q[2];
        mkpipe(p);
        IS(pipe(q), 0);
        pid_t c = child();
        if (!c) {
            put(p[1], 3000, 0);
            char go;
            IS(read(q[0], &go, 1), 1);
            if (how == 1) {
                close(p[1]);
                pause();
            }
            if (how == 2) kill(getpid(), SIGKILL);
            if (how == 3) execl("/bin/true", "true", (char *)0);
            _exit(0);
        }
        if (how) close(p[1]);
        for (int i = 0; i < 50; i++) {
            IS(events(p[0], POLLIN, -1), POLLIN);
            get(p[0], 10, i * 10);
        }
        IS(write(q[1], "g", 1), 1);
        if (how == 1) {
            while (!(events(p[0], POLLIN, 0) & POLLHUP)) usleep(100);
            kill(c, SIGKILL);
        }
        waitpid(c, 0, 0);
        if (!how) close(p[1]);
        IS(events(p[0], POLLIN, -1), POLLIN | POLLHUP);
        get(p[0], 2500, 500);
        IS(events(p[0], POLLIN, -1), POLLHUP);
        close(p[0]);
        close(q[0]);
        close(q[1]);
    }
}
/* Looks by one thread while another reads and a third writes. */
static volatile int over;
static void *looks(void *fd) {
    while (!over) {
        there((int)(intptr_t)fd);
        events((int)(intptr_t)fd, POLLIN | POLLOUT, 0);
    }
    return 0;
}
static void by_another_thread(void) {
    int p[2];
    pthread_t t, u;
    mkpipe(p);
    over = 0;
    pthread_create(&t, 0, looks, (void *)(intptr_t)p[0]);
    pthread_create(&u, 0, looks, (void *)(intptr_t)p[1]);
    pid_t c = child();
    if (!c) {
        close(p[0]);
        writes_at_random(p[1], 200000, 50);
        _exit(0);
    }
    get(p[0], TOTAL, 0);
    over = 1;
    pthread_join(t, 0);
    pthread_join(u, 0);
    REAP0(c);
}
MAIN(T(each_state), T(reader_gone), T(room_again), T(byte_by_byte), T(count_while_written), T(poll_while_written),
     T(poll_while_read), T(a_mixed_set), T(which_are_open), T(masks), T(refused), T(list_of_one), T(ends_between_polls),
     T(by_another_thread))
