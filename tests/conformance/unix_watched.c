/* Checks: sockets that are in an epoll set before they are connected, or while their connection is young: the events of one that is
 * not connected, and those of a busy one after ADD, MOD, DEL, close and dup of the set, a fork, a thread, a handler.
 * Does not check: connections that are hot when they are added (unix_ready.c), pipes in sets (epoll_*.c). */
#define MODES "path", "abstract", "tcp", "tcp6"
#include "unix_calls.h"
#include "epoll_calls.h"
#include <sys/eventfd.h>
enum { TURNS = 1500, SIZE = 100, DATA = 77 };
static address A;
static socklen_t LENGTH;
static pid_t echo;
/* A process that sends back what one connection sends, from then on. */
static void begins(void) {
    int l = listens(&A, &LENGTH);
    echo = child();
    if (!echo) {
        char b[4096];
        int fd = accept(l, 0, 0);
        for (long k; (k = read(fd, b, sizeof b)) > 0;) write_all(fd, b, k);
        _exit(0);
    }
    close(l);
}
static void ends(int fd) {
    close(fd);
    REAP0(echo);
    unnames(&A);
}
static int unconnected(void) {
    int fd = socket(family(), SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0, "socket");
    return fd;
}
static void connects(int fd) {
    CHECK(!connect(fd, &A.any, LENGTH) || errno == EINPROGRESS, "connect");
    no_delay_of_writes(fd);
}
/* All n bytes from pos on come back, each part after an event of the set with this data. */
static void turn(int e, int fd, long pos, uint64_t data) {
    unsigned char b[SIZE];
    write_all(fd, at(pos), SIZE);
    for (long had = 0, k; had < SIZE;) {
        struct epoll_event v[4];
        int n = epoll_wait(e, v, 4, 5000), mine = 0;
        CHECK(n > 0, "nothing is told at %ld: %d", pos + had, n);
        for (int i = 0; i < n; i++) mine |= v[i].data.u64 == data && v[i].events & EPOLLIN;
        while (mine && (k = read(fd, b, SIZE - had)) > 0) {
            same(b, k, pos + had);
            had += k;
        }
    }
    IS(told(WAIT, e, 0) & EPOLLIN, 0);
}
static void turns(int e, int fd, uint64_t data) {
    for (long i = 0; i < TURNS; i++) turn(e, fd, i * SIZE, data);
}
/* The connection becomes busy, and the set tells nothing of what is there to read. */
static void untold(int e, int fd) {
    unsigned char b;
    for (int i = 0, n = 0; i < 400; i++, n = 0) {
        write_all(fd, at(i), 1);
        while (n == 0) IS(ioctl(fd, FIONREAD, &n), 0);
        IS(told(WAIT, e, 0), 0);
        IS(read(fd, &b, 1), 1);
        same(&b, 1, i);
    }
}
enum { IN = EPOLLIN | EPOLLRDHUP };
static const uint32_t KINDS[] = {IN, IN | EPOLLET, IN | EPOLLOUT | EPOLLET};
#define EACH_KIND(k) for (int k = 0; k < 3; k++)
/* LINUX unix_poll: one that is not connected has room, and has hung up; by edge that is told once. */
static void before_connect(void) {
    begins();
    int fd = unconnected(), e = set_of(fd, IN | EPOLLOUT), edge = set_of(fd, IN | EPOLLOUT | EPOLLET);
    for (int i = 0; i < 3; i++) IS(told(WAIT, e, 0), EPOLLOUT | EPOLLHUP);
    IS(told(WAIT, edge, 0), EPOLLOUT | EPOLLHUP);
    IS(told(WAIT, edge, 0), 0);
    connects(fd);
    IS(told(WAIT, e, 0), EPOLLOUT);
    write_all(fd, at(0), 1);
    while ((told(WAIT, edge, 5000) & EPOLLIN) == 0) {}
    IS(told(WAIT, e, 5000), EPOLLIN | EPOLLOUT);
    close(e);
    close(edge);
    ends(fd);
}
static void busy(void) {
    EACH_KIND(k) for (int before = 0; before < 2; before++) {
        begins();
        int fd = unconnected(), e;
        if (!before) connects(fd);
        e = set_of(fd, KINDS[k]);
        if (before) connects(fd);
        turns(e, fd, fd);
        shutdown(fd, SHUT_WR);
        int end;
        while (((end = told(WAIT, e, 5000)) & EPOLLRDHUP) == 0) CHECK(end > 0, "no end");
        char b;
        IS(read(fd, &b, 1), 0);
        close(e);
        ends(fd);
    }
}
/* Most waits end for another descriptor, so the socket was waited for in vain; then its answer comes. Afterwards it is busy alone. */
static void others_come(void) {
    EACH_KIND(k) {
        begins();
        int fd = unconnected(), other = eventfd(0, EFD_NONBLOCK);
        connects(fd);
        int e = set_of(fd, KINDS[k]);
        add(e, other, EPOLLIN, DATA);
        for (long i = 0; i < TURNS; i++) {
            for (int n = 0; n < 3; n++) {
                struct epoll_event v[4];
                uint64_t count = 1;
                IS(write(other, &count, 8), 8);
                int told = epoll_wait(e, v, 4, 5000), others = 0;
                for (int j = 0; j < told; j++) {
                    others += v[j].data.u64 == DATA;
                    CHECK(v[j].data.u64 == DATA || !(v[j].events & EPOLLIN), "told of bytes at %ld", i);
                }
                IS(others, 1);
                IS(read(other, &count, 8), 8);
                IS(count, 1);
            }
            turn(e, fd, i * SIZE, fd);
        }
        turns(e, fd, fd);
        close(e);
        close(other);
        ends(fd);
    }
}
/* What MOD said last holds, at any time. */
static void changed(void) {
    EACH_KIND(k) for (int after = 0; after < 2000; after = after * 5 + 20) {
        begins();
        int fd = unconnected(), e = set();
        add(e, fd, EPOLLOUT, 1);
        mod(e, fd, KINDS[k], 2);
        connects(fd);
        IS(ctl(e, EPOLL_CTL_ADD, fd, 0, 3), -1); /* EEXIST */
        for (long i = 0; i < after; i++) turn(e, fd, i * SIZE, 2);
        mod(e, fd, KINDS[k], DATA);
        for (long i = after; i < after + 200; i++) turn(e, fd, i * SIZE, DATA);
        mod(e, fd, 0, DATA);
        write_all(fd, at(0), 1);
        IS(told(WAIT, e, 30), 0);
        mod(e, fd, KINDS[k], 4);
        IS(told(WAIT, e, 5000) & EPOLLIN, EPOLLIN);
        close(e);
        ends(fd);
    }
}
/* One that was taken out is not told of, though its connection becomes busy; and it may come back. */
static void taken_out(void) {
    EACH_KIND(k) {
        begins();
        int fd = unconnected(), e = set_of(fd, KINDS[k]);
        connects(fd);
        del(e, fd);
        IS(ctl(e, EPOLL_CTL_DEL, fd, 0, 0), -1); /* ENOENT */
        untold(e, fd);
        add(e, fd, KINDS[k], DATA);
        turns(e, fd, DATA);
        close(e);
        ends(fd);
    }
}
/* Both sets tell. */
static void in_two_sets(void) {
    begins();
    int fd = unconnected(), one = set_of(fd, IN), other;
    connects(fd);
    other = set_of(fd, IN);
    for (long i = 0; i < 300; i++) {
        turn(i % 2 ? one : other, fd, i * SIZE, fd);
        IS(told(WAIT, i % 2 ? other : one, 0), 0);
    }
    close(one);
    for (long i = 0; i < 300; i++) turn(other, fd, i * SIZE, fd);
    close(other);
    ends(fd);
}
/* Beside a pipe that always has something to read, the socket is told of all the same. */
static void beside_a_pipe(void) {
    int p[2];
    char b[10];
    begins();
    IS(pipe(p), 0);
    int fd = unconnected(), e = set();
    connects(fd);
    add(e, fd, IN, DATA);
    add(e, p[0], EPOLLIN, 1);
    for (int i = 0; i < 400; i++) {
        write_all(p[1], "0123456789", 10);
        IS(told(WAIT, e, 5000), EPOLLIN);
        IS(read(p[0], b, 10), 10);
    }
    for (int i = 0; i < 30; i++) {
        struct epoll_event v[4];
        int mine = 0;
        write_all(p[1], "0123456789", 10);
        write_all(fd, at(i), 1);
        for (int n, turns = 0; !mine; turns++) {
            CHECK((n = epoll_wait(e, v, 4, 5000)) > 0 && turns < 1000000, "the socket is not told of");
            for (int k = 0; k < n; k++) mine |= v[k].data.u64 == DATA;
        }
        IS(read(fd, b, 10), 1);
        IS(read(p[0], b, 10), 10);
    }
    close(p[0]);
    close(p[1]);
    close(e);
    ends(fd);
}
/* Another set by the number of one that was closed knows nothing of its sockets. */
static void the_sets_number_again(void) {
    begins();
    int fd = unconnected(), e = set_of(fd, IN);
    connects(fd);
    close(e);
    IS(set(), e);
    untold(e, fd);
    add(e, fd, IN, DATA);
    turns(e, fd, DATA);
    close(e);
    ends(fd);
}
/* The same of a socket whose number was closed with others, and is a new connection's. */
static void the_sockets_number_again(void) {
    EACH_KIND(k) for (int before = 0; before < 2; before++) {
        int e = set(), fd;
        begins();
        for (int i = 0; i < 2; i++) {
            fd = unconnected();
            if (i || before) connects(fd);
            if (!i) add(e, fd, KINDS[k], DATA);
            if (!i) IS(syscall(SYS_close_range, fd, fd, 0), 0);
            if (!i && before) REAP0(echo);
            if (!i && before) unnames(&A);
            if (!i && before) begins();
        }
        untold(e, fd);
        add(e, fd, KINDS[k], DATA + 1);
        turns(e, fd, DATA + 1);
        close(e);
        ends(fd);
    }
}
/* One number registers, another waits, and that of the first may be another set's. */
static void a_set_by_two_numbers(void) {
    for (int how = 0; how < 4; how++) {
        begins();
        int fd = unconnected(), e = set_of(fd, IN), d, f = -1;
        if (how % 2) connects(fd);
        d = how < 2 ? dup(e) : dup2(e, 50);
        close(e);
        if (how % 2) IS(f = set(), e);
        if (how % 2 == 0) connects(fd);
        turns(d, fd, fd);
        close(d);
        close(f);
        ends(fd);
    }
}
/* Parent and child take turns at a socket that was in a set before the fork. */
static void forked(void) {
    for (int before = 0; before < 2; before++) {
        begins();
        int fd = unconnected(), e = set_of(fd, IN), go[2];
        IS(pipe(go), 0);
        if (!before) connects(fd);
        pid_t c = child();
        if (!c) {
            char b;
            IS(read(go[0], &b, 1), 1);
            for (long i = 0; i < 500; i++) turn(e, fd, i * SIZE, fd);
            _exit(0);
        }
        if (before) connects(fd);
        for (long i = 0; i < 500; i++) turn(e, fd, i * SIZE, fd);
        write_all(go[1], "", 1);
        REAP0(c);
        for (long i = 0; i < 500; i++) turn(e, fd, i * SIZE, fd);
        close(go[0]);
        close(go[1]);
        close(e);
        ends(fd);
    }
}
/* A handler makes the end busy while its thread waits in the set. */
static int talker;
static void talks(int s) {
    char b[1];
    int error = errno;
    for (int i = 0; i < 200; i++) {
        write_all(talker, at(0), 1);
        while (read(talker, b, 1) != 1) {}
    }
    errno = error;
}
static void a_handler(void) {
    EACH_KIND(k) {
        begins();
        int e;
        talker = unconnected();
        e = set_of(talker, KINDS[k]);
        connects(talker);
        struct sigaction a = {.sa_handler = talks};
        IS(sigaction(SIGALRM, &a, 0), 0);
        for (long i = 0; i < 40; i++) {
            struct itimerval t = {{0, 30000}, {0, 1 + i * 50}}, never = {0};
            IS(setitimer(ITIMER_REAL, &t, 0), 0);
            for (int n = 0; (n = told(WAIT, e, 5000)) != -1;) CHECK(n != 0, "no signal");
            IS(setitimer(ITIMER_REAL, &never, 0), 0);
            turn(e, talker, i * SIZE, talker);
        }
        signal(SIGALRM, SIG_DFL);
        close(e);
        ends(talker);
    }
}
/* The other end is a static program's, which takes no part in what carries this one: for longer than anybody asks for it. */
static void an_outsider(void) {
    const char *cat = neighbour("static_cat");
    if (!cat) return;
    EACH_KIND(k) {
        int l = listens(&A, &LENGTH);
        echo = child();
        if (!echo) {
            int fd = accept(l, 0, 0);
            dup2(fd, 0);
            dup2(fd, 1);
            close(fd);
            execl(cat, "cat", (char *)0);
            _exit(9);
        }
        close(l);
        int fd = unconnected(), e = set_of(fd, KINDS[k]);
        connects(fd);
        for (long i = 0; i < 5 * TURNS; i++) turn(e, fd, i * SIZE, fd);
        close(e);
        ends(fd);
    }
}
/* A thread that came later waits in the set, and this one makes the end busy. */
static int E, F;
static long answers(long n) {
    unsigned char b[SIZE];
    for (long had = 0, k; had < n;) {
        struct epoll_event v;
        IS(epoll_wait(E, &v, 1, 5000), 1);
        while ((k = read(F, b, SIZE)) > 0) {
            same(b, k, had);
            had += k;
        }
    }
    return 0;
}
static void a_thread(void) {
    for (int before = 0; before < 2; before++) {
        begins();
        F = unconnected();
        E = set_of(F, before ? IN : IN | EPOLLET);
        if (before) connects(F);
        falls_asleep(0, answers, TURNS * SIZE);
        if (!before) connects(F);
        for (long i = 0; i < TURNS; i++) {
            ssize_t n;
            while ((n = write(F, at(i * SIZE), SIZE)) < 0 && errno == EAGAIN) sched_yield();
            IS(n, SIZE);
        }
        IS(wakes(0), 0);
        close(E);
        ends(F);
    }
}
UNIX_MAIN(T(before_connect), T(busy), T(others_come), T(changed), T(taken_out), T(in_two_sets), T(beside_a_pipe), T(the_sets_number_again), T(the_sockets_number_again), T(a_set_by_two_numbers),
          T(forked), T(a_handler), T(an_outsider), T(a_thread))
