/* Checks: connections with names from their first byte on: short ones, calls that sleep before the first byte comes, sets and polls that
 * were there before the connection, fork, dup, exec and SCM_RIGHTS at each moment of a young connection, bytes before accept(2), a thread for each.
 * Does not check: connections that are hot when they are looked at (the other unix_*.c). */
#define MODES "path", "abstract", "tcp", "tcp6"
#include "unix_calls.h"
#include "epoll_calls.h"
#include "passing.h"
enum { MUCH = 1600000, LONG = 700 };
static int L; /* the listener */
static address A;
static socklen_t SIZE;
static void named(void) { L = listens(&A, &SIZE); }
static void forgets(void) {
    unnames(&A);
    close(L);
}
static int accepts(void) {
    int fd = accept(L, 0, 0);
    CHECK(fd >= 0, "accept");
    return fd;
}
/* Pieces of several lengths, from position 0 on: n bytes. */
static void sends_from(int fd, long pos, long n) {
    static const int lengths[] = {1, 64, 100, 1000, 7, 4096, 300, 64, 20000, 3};
    for (long k, i = 0, end = pos + n; pos < end; pos += k) {
        k = lengths[i++ % 10];
        if (k > end - pos) k = end - pos;
        write_all(fd, at(pos), k);
    }
}
static long takes_from(int fd, long pos, long n) {
    unsigned char b[9000];
    long k, had = 0;
    while (had < n && (k = read(fd, b, n - had < (long)sizeof b ? n - had : (long)sizeof b)) > 0) {
        same(b, k, pos + had);
        had += k;
    }
    return had;
}
/* A process that connects, sends n bytes, late if it is to, and ends. */
static int late;
static pid_t caller(long n) {
    pid_t c = child();
    if (c) return c;
    int fd = calls(&A, SIZE);
    sleep_ms(late);
    sends_from(fd, 0, n);
    IS(takes_from(fd, 0, 1), 1);
    _exit(0);
}
static void thanks(int fd, pid_t c) {
    write_all(fd, at(0), 1);
    REAP0(c);
}
/* One after the other, by the same numbers. */
static void short_ones(void) {
    named();
    pid_t c = child();
    if (!c) {
        for (int i = 0; i < 400; i++) {
            int fd = calls(&A, SIZE);
            for (int k = 0; k <= i % 20; k++) write_all(fd, at(i + 10 * k), 10);
            for (int k = 0; k <= i % 20; k++) IS(takes_from(fd, i + 10 * k, 10), 10);
            close(fd);
        }
        _exit(0);
    }
    for (int i = 0; i < 400; i++) {
        int fd = accepts();
        for (int k = 0; k <= i % 20; k++) {
            IS(takes_from(fd, i + 10 * k, 10), 10);
            write_all(fd, at(i + 10 * k), 10);
        }
        IS(takes_from(fd, 0, 1), 0);
        close(fd);
    }
    REAP0(c);
    forgets();
}
/* Both directions, of any number of calls: each side has read all of the other's before the end. */
static void grows(void) {
    named();
    for (int rounds = 1; rounds < 300; rounds += rounds / 3 + 1) {
        pid_t c = child();
        int fd = c ? accepts() : calls(&A, SIZE);
        for (long i = 0; i < rounds; i++) {
            if (c) write_all(fd, at(i * 700), 700);
            IS(takes_from(fd, i * LONG, LONG), LONG);
            if (!c) write_all(fd, at(i * 700), 700);
        }
        close(fd);
        if (!c) _exit(0);
        REAP0(c);
    }
    forgets();
}
static long reads_all(long fd) { return takes_from(fd, 0, MUCH); }
/* A thread sleeps in read before the first byte. */
static void a_sleeping_reader(void) {
    named();
    pid_t c = child();
    if (!c) {
        int fd = calls(&A, SIZE);
        sleep_ms(50);
        sends_from(fd, 0, MUCH);
        IS(takes_from(fd, 0, MUCH), MUCH);
        _exit(0);
    }
    int fd = accepts();
    falls_asleep(0, reads_all, fd);
    sends_from(fd, 0, MUCH);
    IS(wakes(0), MUCH);
    REAP0(c);
    forgets();
}
/* Two threads sleep in read at the same end: every byte comes to one of them. */
static volatile long got;
static long reads_some(long fd) {
    char b[512];
    long k;
    while ((k = read(fd, b, sizeof b)) > 0) __atomic_add_fetch(&got, k, __ATOMIC_SEQ_CST);
    return k;
}
static void two_readers(void) {
    named();
    late = 50;
    pid_t c = caller(MUCH);
    int fd = accepts();
    got = 0;
    falls_asleep(0, reads_some, fd);
    falls_asleep(1, reads_some, fd);
    UNTIL(__atomic_load_n(&got, __ATOMIC_SEQ_CST) == MUCH);
    thanks(fd, c);
    IS(wakes(0), 0);
    IS(wakes(1), 0);
    late = 0;
    forgets();
}
enum { LEVEL, EDGE, POLLS, SELECTS, WAITS };
/* Waits for fd in one of four ways, in a set that it was put into at once. */
static void waits_for(int how, int e, int fd) {
    fd_set r;
    struct epoll_event v;
    struct pollfd p = {fd, POLLIN, 0};
    FD_ZERO(&r);
    FD_SET(fd, &r);
    if (how <= EDGE) IS(epoll_wait(e, &v, 1, -1), 1);
    if (how == POLLS) IS(poll(&p, 1, -1), 1);
    if (how == SELECTS) IS(select(fd + 1, &r, 0, 0, 0), 1);
}
/* All that there is, without a wait. */
static long now_there(int fd, long pos) {
    unsigned char b[3000];
    long k, had = 0;
    while ((k = recv(fd, b, sizeof b, MSG_DONTWAIT)) > 0) {
        same(b, k, pos + had);
        had += k;
    }
    CHECK(k == 0 || errno == EAGAIN, "recv");
    return had;
}
static void waiters(void) {
    for (int how = 0; how < WAITS; how++) {
        named();
        pid_t c = child();
        int fd = c ? accepts() : calls(&A, SIZE);
        int e = set_of(fd, how == EDGE ? EPOLLIN | EPOLLET : EPOLLIN);
        for (long in = 0, out = 0; in < MUCH || out < MUCH;) {
            for (; out < MUCH && out <= in; out += 100) write_all(fd, at(out), 100);
            if (in < MUCH) waits_for(how, e, fd), in += now_there(fd, in);
        }
        if (!c) _exit(0);
        REAP0(c);
        close(e);
        close(fd);
        forgets();
    }
}
/* A thread waits in a set to which another adds the connection, and then sleeps on. */
static int E;
static long waits_in_set(long n) {
    struct epoll_event v;
    for (long in = 0; in < n;) {
        IS(epoll_wait(E, &v, 1, -1), 1);
        in += now_there((int)v.data.u64, in);
    }
    return 0;
}
static void added_to_a_waiter(void) {
    named();
    E = set_of(L, EPOLLIN); /* as servers do */
    del(E, L);
    falls_asleep(0, waits_in_set, MUCH);
    pid_t c = caller(MUCH);
    int fd = accepts();
    add(E, fd, EPOLLIN, fd);
    IS(wakes(0), 0);
    thanks(fd, c);
    forgets();
}
/* The set had the socket before it was connected. */
static void added_before(void) {
    named();
    pid_t c = child();
    if (!c) {
        int fd = socket(family(), SOCK_STREAM, 0), e = set_of(fd, EPOLLIN);
        struct epoll_event v;
        IS(connect(fd, (void *)&A, SIZE), 0);
        for (long in = 0; in < MUCH; in += now_there(fd, in)) {
            IS(epoll_wait(e, &v, 1, -1), 1);
            if (in < 200000) write_all(fd, at(0), 1);
        }
        _exit(0);
    }
    int fd = accepts();
    sends_from(fd, 0, MUCH);
    REAP0(c);
    forgets();
}
/* A child serves what its parent has accepted, after n bytes. */
static void served_by_a_child(void) {
    for (long n = 0; n < MUCH; n = n * 4 + 500) {
        named();
        pid_t c = caller(MUCH), s;
        int fd = accepts();
        IS(takes_from(fd, 0, n), n);
        if (!(s = child())) {
            close(L);
            IS(takes_from(fd, n, MUCH - n), MUCH - n);
            write_all(fd, at(0), 1);
            _exit(0);
        }
        close(fd);
        REAP0(s);
        REAP0(c);
        forgets();
    }
}
/* Parent and child take turns. */
static void shared_by_two(void) {
    named();
    pid_t c = caller(MUCH), s;
    int fd = accepts(), turn[2], back[2];
    char t = 0;
    IS(pipe(turn) | pipe(back), 0);
    if (!(s = child())) {
        for (long n = 1000; n < MUCH; n += 2000) {
            IS(read(turn[0], &t, 1), 1);
            IS(takes_from(fd, n, 1000), 1000);
            write_all(back[1], &t, 1);
        }
        _exit(0);
    }
    for (long n = 0; n < MUCH; n += 2000) {
        IS(takes_from(fd, n, 1000), 1000);
        write_all(turn[1], &t, 1);
        IS(read(back[0], &t, 1), 1);
    }
    REAP0(s);
    thanks(fd, c);
    forgets();
}
/* Bytes, and the end, before accept(2). */
static void before_accept(void) {
    named();
    for (int i = 0; i < 3; i++) {
        int fd = calls(&A, SIZE);
        here->fd = fd;
        here->out = 0;
        long n = fills(i ? 1000 : 100);
        if (i < 2) close(fd);
        int s = accepts();
        IS(takes_from(s, 0, n), n);
        if (i < 2) IS(takes_from(s, n, 1), 0);
        if (i == 2) {
            for (long k = 0; k < MUCH; k += 500) {
                sends_from(fd, n + k, 500);
                IS(takes_from(s, n + k, 500), 500);
            }
            close(fd);
        }
        close(s);
    }
    forgets();
}
/* By two numbers, made after n bytes. */
static void by_two_numbers(void) {
    for (long n = 0; n < MUCH; n = n * 4 + 500) {
        named();
        pid_t c = caller(MUCH);
        int fd = accepts();
        IS(takes_from(fd, 0, n), n);
        int d = n % 1000 ? dup(fd) : dup2(fd, 60);
        for (long k = 0; n + k < MUCH; k += 500)
            IS(takes_from(k % 1000 ? fd : d, n + k, n + k + 500 < MUCH ? 500 : MUCH - n - k),
               n + k + 500 < MUCH ? 500 : MUCH - n - k);
        close(fd);
        thanks(d, c);
        close(d);
        forgets();
    }
}
/* Passed on to a process that was there before, after n bytes. */
static void passed_on(void) {
    for (long n = 0; n < MUCH; n = n * 4 + 500) {
        int s[2];
        IS(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
        pid_t w = child();
        if (!w) {
            int fd = takes_passed(s[1]);
            IS(takes_from(fd, n, MUCH - n), MUCH - n);
            write_all(fd, at(0), 1);
            _exit(0);
        }
        named();
        pid_t c = caller(MUCH);
        int fd = accepts();
        IS(takes_from(fd, 0, n), n);
        passes(s[0], fd);
        close(fd);
        REAP0(w);
        REAP0(c);
        close(s[0]);
        close(s[1]);
        forgets();
    }
}
/* The standard input of another program, after n bytes: of one that may take part in what carries this one, and one that never
 * does. */
static void given_to_a_program(void) {
    for (long n = 0; n < MUCH; n = n * 4 + 500) for (int is_static = 0; is_static < 2; is_static++) {
        char path[500];
        ssize_t k = readlink("/proc/self/exe", path, 400);
        path[k < 0 ? 0 : k] = 0;
        strcpy(strrchr(path, '/') + 1, "static_cat");
        if (is_static && access(path, X_OK)) continue;
        int out[2];
        named();
        pid_t c = child();
        if (!c) {
            int fd = calls(&A, SIZE);
            sends_from(fd, 0, MUCH);
            _exit(0);
        }
        int fd = accepts();
        IS(takes_from(fd, 0, n), n);
        IS(pipe(out), 0);
        pid_t cat = child();
        if (!cat) {
            dup2(fd, 0);
            dup2(out[1], 1);
            close(fd);
            close(out[0]);
            close(out[1]);
            execlp(is_static ? path : "cat", "cat", (char *)0);
            _exit(9);
        }
        close(fd);
        close(out[1]);
        IS(takes_from(out[0], n, MUCH - n), MUCH - n);
        IS(takes_from(out[0], n, 1), 0);
        close(out[0]);
        REAP0(cat);
        REAP0(c);
        forgets();
    }
}
/* The listener has SO_PASSCRED: each message tells of its sender. */
static void credentials(void) {
    if (is_tcp()) return;
    named();
    set_option(L, SO_PASSCRED, 1);
    pid_t c = caller(MUCH);
    int fd = accepts();
    char b[1000], room[CMSG_SPACE(sizeof(struct ucred))];
    for (long n = 0, k; n < MUCH; n += k) {
        struct iovec v = {b, sizeof b};
        struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
        CHECK((k = recvmsg(fd, &m, 0)) > 0, "recvmsg");
        same(b, k, n);
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        CHECK(h && h->cmsg_type == SCM_CREDENTIALS, "no credentials at %ld", n);
        IS(((struct ucred *)CMSG_DATA(h))->pid, c);
    }
    thanks(fd, c);
    forgets();
}
/* A handler talks by the end at which its thread sleeps. */
static int talker;
static void talks(int s) {
    int e = errno;
    write_all(talker, at(0), 10);
    errno = e;
}
static void a_handler(void) {
    volatile int *accepted = shared(4096);
    *accepted = 0;
    named();
    signal(SIGUSR1, talks); /* SA_RESTART */
    pid_t me = getpid(), c = child();
    if (!c) {
        int fd = calls(&A, SIZE);
        UNTIL(*accepted);
        for (int i = 0; i < 300; i++) {
            sleep_ms(i < 20);
            kill(me, SIGUSR1);
            IS(takes_from(fd, 0, 10), 10);
            write_all(fd, at(i * 10), 10);
        }
        _exit(0);
    }
    talker = accepts();
    *accepted = 1;
    IS(takes_from(talker, 0, 3000), 3000);
    REAP0(c);
    signal(SIGUSR1, SIG_DFL);
    forgets();
}
/* Many at a time, of which each becomes hot. */
/* An end whose own writes are the kernel's for good before it knows the other end: by many buffers, or by shutdown(2). What it
 * reads it is told of all the same, by read or by a set. */
static void writes_left_to_kernel(void) {
    volatile int *stage = shared(4096);
    enum { PIECES = 140, SIZE_OF = 300, TURNS = 3 };
    for (int how = 0; how < 4; how++) {
        *stage = 0;
        named();
        pid_t c = child();
        if (!c) {
            int s = calls(&A, SIZE);
            no_delay_of_writes(s);
            for (int turn = 0; turn < TURNS; turn++) {
                UNTIL(*stage == 2 * turn + 1);
                for (int i = turn * PIECES; i < (turn + 1) * PIECES; i++) IS(write(s, at(i * SIZE_OF), SIZE_OF), SIZE_OF);
                *stage = 2 * turn + 2;
            }
            UNTIL(*stage == 2 * TURNS + 1);
            _exit(0);
        }
        int fd = accepts(), e = how & 2 ? set_of(fd, EPOLLIN) : -1;
        for (int i = 0; i < 70; i++) IS(write(fd, "x", 1), 1);
        if (how & 1) {
            struct iovec v[20];
            for (int i = 0; i < 20; i++) v[i] = (struct iovec){"y", 1};
            for (int i = 0; i < 2; i++) IS(writev(fd, v, 20), 20);
            IS(write(fd, "z", 1), 1);
        } else {
            IS(shutdown(fd, SHUT_WR), 0);
            FAILS(send(fd, "z", 1, MSG_NOSIGNAL), EPIPE);
        }
        for (long had = 0, turn = 0; turn < TURNS; turn++) {
            *stage = 2 * turn + 1;
            UNTIL(*stage == 2 * turn + 2); /* nobody reads meanwhile */
            while (had < (turn + 1) * PIECES * SIZE_OF) {
                unsigned char b[5000];
                struct epoll_event v;
                if (e >= 0) IS(epoll_wait(e, &v, 1, -1), 1);
                ssize_t k = read(fd, b, sizeof b);
                CHECK(k > 0, "read gave %zd", k);
                same(b, k, had);
                had += k;
            }
        }
        *stage = 2 * TURNS + 1;
        close(e);
        close(fd);
        REAP0(c);
        forgets();
    }
}
/* A handler reads all there is from an end at which its thread polls or selects, from the first byte on. */
static void takes_all(int s) {
    int e = errno;
    got += now_there(talker, got);
    errno = e;
}
static void a_handler_over_a_poll(void) {
    for (int how = POLLS; how <= SELECTS; how++) {
        handle(SIGUSR1, SIG_IGN, 0);
        pid_t me = getpid(), sender = child();
        while (!sender) {
            sleep_ms(1);
            kill(me, SIGUSR1);
        }
        named();
        late = 20;
        pid_t c = caller(MUCH);
        talker = accepts();
        got = 0;
        handle(SIGUSR1, takes_all, SA_RESTART);
        while (got < MUCH) {
            struct pollfd p = {talker, POLLIN, 0};
            fd_set r;
            FD_ZERO(&r);
            FD_SET(talker, &r);
            int n = how == POLLS ? poll(&p, 1, -1) : select(talker + 1, &r, 0, 0, 0);
            CHECK(n == 1 || (n == -1 && errno == EINTR), "it gave %d", n);
        }
        kill(sender, SIGKILL);
        waitpid(sender, 0, 0);
        handle(SIGUSR1, SIG_DFL, 0);
        thanks(talker, c);
        close(talker);
        late = 0;
        forgets();
    }
}
/* A thread for each connection, which waits for it before it reads: the writer asks for the other end meanwhile. */
enum { CONNECTIONS = 600 };
static void *answers(void *fd) {
    waits_for(SELECTS, 0, (long)fd);
    IS(takes_from((long)fd, 0, 100), 100);
    write_all((long)fd, at(0), 10);
    close((long)fd);
    return 0;
}
static long a_thread_each(long how) {
    pthread_t t;
    for (int i = 0; i < CONNECTIONS; i++) {
        long fd = accepts();
        if (how != 0) answers((void *)fd);
        else CHECK(!pthread_create(&t, 0, answers, (void *)fd) && !pthread_detach(t), "pthread_create");
    }
    return 0;
}
static void matched_while_polled(void) {
    for (int how = 0; how < 2; how++) {
        named();
        falls_asleep(0, a_thread_each, how);
        for (int i = 0; i < CONNECTIONS; i++) {
            int fd = calls(&A, SIZE);
            IS(poll(&(struct pollfd){fd, POLLOUT, 0}, 1, -1), 1);
            write_all(fd, at(0), 100);
            waits_for(POLLS, 0, fd);
            IS(takes_from(fd, 0, 10), 10);
            IS(takes_from(fd, 0, 1), 0);
            close(fd);
        }
        wakes(0);
        forgets();
    }
}
static void many(void) {
    enum { N = 60 };
    int fds[N];
    named();
    pid_t c = child();
    for (int i = 0; i < N; i++) fds[i] = c ? accepts() : calls(&A, SIZE);
    for (long k = 0; k < 150; k++) for (int i = 0; i < N; i++) {
        if (!c) write_all(fds[i], at(i + 90 * k), 90);
        IS(takes_from(fds[i], i + 90 * k, 90), 90);
        if (c) write_all(fds[i], at(i + 90 * k), 90);
    }
    if (!c) _exit(0);
    REAP0(c);
    for (int i = 0; i < N; i++) close(fds[i]);
    forgets();
}
UNIX_MAIN(T(short_ones), T(grows), T(writes_left_to_kernel), T(a_sleeping_reader), T(two_readers), T(waiters), T(added_to_a_waiter), T(added_before), T(served_by_a_child),
          T(shared_by_two), T(before_accept), T(by_two_numbers), T(passed_on), T(given_to_a_program), T(credentials), T(a_handler), T(a_handler_over_a_poll), T(matched_while_polled),
          T(many))
