/* Checks: a hot UNIX stream that another program or process takes over: exec of a dynamic and of a static program as reader and
 * writer, with bytes unread, after a half-close, a close or a death of the other side, with a stopped writer; SCM_RIGHTS of an
 * end; fork, vfork, spawn, prefork. Does not check: numbers that are closed or used again (unix_numbers.c), calls that are not
 * carried (unix_outside.c), a kill at any moment (unix_kill.c). */
#include "unix_calls.h"
enum { MUCH = 100000 };
static int result; /* the memory file that a program's output goes to */
static struct shared_words {
    uint64_t from;
    int go, peer;
} *W;
static const char *const programs[] = {"/bin/cat", "static_cat"};
static const char *program(int i) { return i ? neighbour(programs[1]) : programs[0]; }
static void become(const char *what, int in, int out) {
    dup2(in, 0);
    dup2(out, 1);
    close_range(3, ~0u, 0);
    execl(what, what, (char *)0);
    _exit(99);
}
static void begin(void) {
    result = memfd_create("result", 0);
    W = shared(4096);
    job = shared(4096);
    memset(W, 0, sizeof *W);
}
static long size_of(int file) {
    struct stat s;
    IS(fstat(file, &s), 0);
    return s.st_size;
}
static void result_is(long n, uint64_t from) {
    static unsigned char b[4 * MUCH];
    IS(size_of(result), n);
    IS(pread(result, b, sizeof b, 0), n);
    same(b, n, from);
}
static long ends_after(long n) {
    sends(n);
    _exit(0);
}
static long stops_and_ends(long n) {
    raise(SIGSTOP);
    return ends_after(n);
}
/* The reader becomes a program that may not take part. How the writer is then: */
enum { WRITES, SHUT, CLOSED, EXITED, KILLED, STOPPED, OWN_SHUT, HIDDEN, NOBODY, STATES };
/* Other processes of this user may not reach into it any more. */
static long hides(long state) {
    if (state == HIDDEN) return prctl(PR_SET_DUMPABLE, 0);
    if (getuid()) return 0;
    return setresgid(65534, 65534, 65534) | setresuid(65534, 65534, 65534);
}
static void reader_execs(int which, int state, long unread_bytes) {
    const char *what = program(which);
    long after = state == WRITES || state == STOPPED || state >= HIDDEN ? MUCH : 0;
    if (!what) return;
    begin();
    pid_t m = child();
    if (!m) {
        siginfo_t i;
        meet();
        if (state >= HIDDEN) TELL(hides, state, 0);
        TELL(sends, unread_bytes, 0);
        if (state == WRITES || state >= HIDDEN) ask(ends_after, after);
        if (state == OWN_SHUT) IS(shutdown(here->fd, SHUT_RD), 0);
        if (state == SHUT) TELL(shuts, SHUT_WR, 0);
        if (state == CLOSED) TELL(closes, 0, 0);
        if (state == EXITED) peer_exits();
        if (state == KILLED) kill_peer();
        if (state == STOPPED) {
            ask(stops_and_ends, after);
            IS(waitid(P_PID, peer, &i, WSTOPPED), 0);
        }
        W->peer = peer;
        W->from = here->in;
        become(what, here->fd, result);
    }
    if (state == STOPPED) {
        UNTIL(W->from && size_of(result) == unread_bytes);
        kill(W->peer, SIGCONT);
    }
    REAP0(m);
    result_is(unread_bytes + after, W->from);
    close(result);
}
static void readers_exec(int which) {
    for (int state = 0; state < STATES; state++) {
        reader_execs(which, state, 0);
        reader_execs(which, state, 5);
        reader_execs(which, state, MUCH);
    }
}
static void reader_execs_dynamic(void) { readers_exec(0); }
static void reader_execs_static(void) { readers_exec(1); }
/* The writer becomes one, with bytes unread before it. */
static int gate[2];
static long waits_and_takes(long n) {
    close(gate[1]);
    UNTIL(W->go);
    takes(n);
    AT_EOF(here->fd);
    return n;
}
static void writer_execs(int which, long before) {
    const char *what = program(which);
    if (!what) return;
    begin();
    IS(pipe2(gate, O_CLOEXEC), 0);
    pid_t m = child();
    if (!m) {
        close(gate[0]);
        meet();
        sends(before);
        write_all(result, at(here->out), MUCH);
        lseek(result, 0, SEEK_SET);
        ask(waits_and_takes, before + MUCH);
        dup2(result, 0);
        dup2(here->fd, 1);
        close_range(3, ~0u, CLOSE_RANGE_CLOEXEC); /* so that the gate says when it is done */
        execl(what, what, (char *)0);
        _exit(99);
    }
    close(gate[1]);
    AT_EOF(gate[0]);
    close(gate[0]);
    W->go = 1;
    REAP0(m);
    UNTIL(answered());
    IS(job->result, before + MUCH);
}
static void writers_exec(int which) {
    writer_execs(which, 0);
    writer_execs(which, 5);
    writer_execs(which, 80000);
}
static void writer_execs_dynamic(void) { writers_exec(0); }
static void writer_execs_static(void) { writers_exec(1); }
/* Both ends become static programs. */
static long becomes_cat(long none) {
    become(neighbour("static_cat"), here->fd, result);
    return 0;
}
static void both_exec(void) {
    if (!neighbour("static_cat")) return;
    begin();
    pid_t m = child();
    if (!m) {
        int in = memfd_create("in", 0);
        meet();
        sends(60000);
        W->from = here->out - 60000;
        write_all(in, at(here->out), MUCH);
        lseek(in, 0, SEEK_SET);
        ask(becomes_cat, 0);
        become(neighbour("static_cat"), in, here->fd);
    }
    REAP0(m);
    UNTIL(size_of(result) == 60000 + MUCH);
    result_is(60000 + MUCH, W->from);
}
/* An end that is closed by exec ends with it. */
static long takes_and_reset(long n) {
    char c;
    takes(n);
    FAILS(read(here->fd, &c, 1), ECONNRESET);
    AT_EOF(here->fd);
    return 0;
}
static long takes_and_end(long n) {
    takes(n);
    AT_EOF(here->fd);
    return n;
}
static void closed_by_exec(void) {
    int p[2];
    begin();
    IS(pipe(p), 0);
    pid_t m = child();
    if (!m) {
        close(p[1]);
        meet();
        IS(fcntl(here->fd, F_SETFD, FD_CLOEXEC), 0);
        sends(50000);
        ask(takes_and_end, 50000);
        dup2(p[0], 0);
        execl("/bin/cat", "cat", (char *)0);
        _exit(99);
    }
    UNTIL(job->asked && answered());
    UNTIL(job->result == 50000);
    close(p[1]);
    close(p[0]);
    REAP0(m);
}
/* A static program that has had an end since before it was hot writes into it. */
static void static_from_before(void) {
    int p[2];
    const char *what = program(1);
    if (!what) return;
    joins(1);
    IS(pipe(p), 0);
    pid_t c = child();
    if (!c) {
        close(p[1]);
        become(what, p[0], here->fd);
    }
    close(p[0]);
    heats(1);
    for (int i = 0; i < 10; i++) {
        long n = i % 2 ? 50 : 3000;
        sends(10000);
        write_all(p[1], at(here->out), n);
        here->out += n;
        UNTIL(tell(finds, 0) == 10000 + n);
        sends(10000);
        TELL(takes, 20000 + n, 0);
    }
    close(p[1]);
    REAP0(c);
    ask(sends, HOT);
    takes(HOT);
    answer();
}
/* A program that is started with an end, while the connection goes on here. */
static void spawned(int how) {
    const char *what = program(how % 2);
    extern char **environ;
    if (!what) return;
    result = memfd_create("result", 0);
    meet();
    TELL(sends, MUCH, 0);
    TELL(shuts, SHUT_WR, 0);
    uint64_t from = here->in;
    posix_spawn_file_actions_t a;
    pid_t c;
    char *args[] = {(char *)what, 0};
    posix_spawn_file_actions_init(&a);
    posix_spawn_file_actions_adddup2(&a, here->fd, 0);
    posix_spawn_file_actions_adddup2(&a, result, 1);
    if (how < 2)
        IS(posix_spawn(&c, what, &a, 0, args, environ), 0);
    else if (!(c = vfork())) {
        dup2(here->fd, 0);
        dup2(result, 1);
        execl(what, what, (char *)0);
        _exit(99);
    }
    sends(60000);
    TELL(takes, 60000, 0);
    REAP0(c);
    result_is(MUCH, from);
    AT_EOF(here->fd);
}
static void spawned_dynamic(void) { spawned(0); }
static void spawned_static(void) { spawned(1); }
static void vforked_dynamic(void) { spawned(2); }
static void vforked_static(void) { spawned(3); }
/* One after another, processes go on with a connection where the last has stopped; also in a vfork child. */
static void in_turn(void) {
    struct link *l = shared(4096);
    meet();
    *l = *here;
    ask(sends, 500000);
    for (int i = 0; i < 50; i++) {
        pid_t c = i % 7 == 3 ? vfork() : fork();
        if (!c) {
            *here = *l;
            takes(10000);
            *l = *here;
            _exit(0);
        }
        REAP0(c);
    }
    answer();
    ask(takes, 500000);
    for (int i = 0; i < 50; i++) {
        pid_t c = child();
        if (!c) {
            *here = *l;
            sends(10000);
            *l = *here;
            _exit(0);
        }
        REAP0(c);
    }
    answer();
}
/* Both sides fork: the parents write and the children read. */
static long forks_and_writes(long n) {
    pid_t c = child();
    if (!c) {
        takes(n);
        _exit(0);
    }
    sends(n);
    REAP0(c);
    return n;
}
static void both_fork(void) {
    meet();
    ask(forks_and_writes, 1 << 20);
    forks_and_writes(1 << 20);
    IS(answer(), 1 << 20);
}
/* Several processes accept by one socket, each connection becomes hot; the listener goes on. */
static void echo(int fd) {
    static char b[8192];
    for (ssize_t n; (n = read(fd, b, sizeof b)) > 0;) write_all(fd, b, n);
    close(fd);
}
static void prefork(void) {
    enum { WORKERS = 3, CONNECTIONS = 9 };
    if (mode_is("pair")) return;
    address a;
    socklen_t size;
    int l = listens(&a, &size);
    pid_t c[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        if (!(c[i] = child()))
            for (;;) echo(accept(l, 0, 0));
    for (int i = 0; i < CONNECTIONS; i++) {
        *here = (struct link){calls(&a, size), i, i};
        pid_t w = child();
        if (!w) {
            sends(2 * HOT);
            IS(shutdown(here->fd, SHUT_WR), 0);
            _exit(0);
        }
        takes(2 * HOT);
        AT_EOF(here->fd);
        REAP0(w);
        close(here->fd);
    }
    for (int i = 0; i < WORKERS; i++) kill(c[i], SIGKILL);
    unnames(&a);
}
/* A process that is given the end by SCM_RIGHTS, and then does something with it. */
struct order {
    struct link link;
    task *what;
    long arg;
};
static pid_t other;
static int to_other;
static void message(struct msghdr *m, struct iovec *v, void *b, size_t n, char *room) {
    *v = (struct iovec){b, n};
    *m = (struct msghdr){.msg_iov = v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = CMSG_SPACE(sizeof(int))};
}
static void starts_other(void) { /* before the connection is there */
    int s[2];
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
    begin();
    if ((other = child())) {
        close(s[1]);
        to_other = s[0];
        return;
    }
    struct order o;
    struct msghdr m;
    struct iovec v;
    char room[CMSG_SPACE(sizeof(int))];
    close(s[0]);
    UNTIL(W->go);
    message(&m, &v, &o, sizeof o, room);
    IS(recvmsg(s[1], &m, 0), sizeof o);
    *here = o.link;
    memcpy(&here->fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
    close(s[1]);
    o.what(o.arg);
    _exit(0);
}
static void gives(task *what, long arg) {
    struct order o = {*here, what, arg};
    struct msghdr m;
    struct iovec v;
    char room[CMSG_SPACE(sizeof(int))] = {0};
    message(&m, &v, &o, sizeof o, room);
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    *h = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(h), &here->fd, sizeof(int));
    IS(sendmsg(to_other, &m, 0), sizeof o);
    close(here->fd);
}
static long both_there(long n) {
    takes(n);
    sends(n);
    return 0;
}
static long as_cat(long which) {
    become(program(which), here->fd, result);
    return 0;
}
static void given(int unread_bytes, int state) { /* read and then written to by the other */
    siginfo_t i;
    starts_other();
    meet();
    TELL(sends, unread_bytes, 0);
    sends(unread_bytes);
    gives(both_there, unread_bytes + (state == STOPPED ? 0 : MUCH));
    if (state == STOPPED) {
        ask(stops_and_ends, 0);
        IS(waitid(P_PID, peer, &i, WSTOPPED), 0);
        W->go = 1;
        REAP0(other);
        return;
    }
    IS(tell(shows_task, 0) & POLLHUP, 0);
    TELL(sends, 20000, 0); /* while it is in flight */
    ask(sends, MUCH - 20000);
    W->go = 1;
    answer();
    TELL(takes, 2 * unread_bytes + MUCH, 0);
    REAP0(other);
    TELL(takes_and_end, 0, 0);
}
static void given_empty(void) { given(0, WRITES); }
static void given_with_unread(void) { given(50000, WRITES); }
static void given_by_a_stopped_writer(void) { given(80000, STOPPED); }
static void given_and_exec(void) {
    for (int which = 0; which < 2; which++) {
        if (!program(which)) return;
        starts_other();
        meet();
        TELL(sends, MUCH, 0);
        uint64_t from = here->in;
        gives(as_cat, which);
        TELL(sends, 20000, 0);
        if (!which) TELL(shuts, SHUT_WR, 0);
        kill_peer();
        W->go = 1;
        REAP0(other);
        result_is(MUCH + 20000, from);
    }
}
/* It dies in flight: the other end sees a close with bytes unread. */
static void given_and_lost(void) {
    starts_other();
    meet();
    sends(5000);
    TELL(sends, 5000, 0);
    gives(takes, 5000);
    kill(other, SIGKILL);
    reap(other);
    TELL(takes_and_reset, 5000, 0);
}
/* The giver keeps its number: both have the end. */
static void given_and_held(void) {
    starts_other();
    meet();
    TELL(sends, 50000, 0);
    int mine = dup(here->fd);
    gives(takes, 30000);
    here->fd = mine;
    W->go = 1;
    REAP0(other);
    here->in += 30000;
    takes(20000);
    sends(60000);
    TELL(takes, 60000, 0);
}
UNIX_MAIN(T(reader_execs_dynamic), T(reader_execs_static), T(writer_execs_dynamic), T(writer_execs_static), T(both_exec),
          T(closed_by_exec), T(static_from_before), T(spawned_dynamic), T(spawned_static), T(vforked_dynamic), T(vforked_static),
          T(in_turn), T(both_fork), T(prefork), T(given_empty), T(given_with_unread), T(given_by_a_stopped_writer),
          T(given_and_exec), T(given_and_lost), T(given_and_held))
