/* Shared by the unix_*.c programs, which include it: a connection of sockets between two processes, and the other process, which
 * runs the tasks that it is told. The connection is hot: each side has read 1 MiB of the other, in 256 writes. The modes say
 * how it was made; a program may name others in MODES:
 *   NAME/pair      socketpair(2), inherited by the other process
 *   NAME/path      the other process connects to a named path; this one accepts
 *   NAME/abstract  this process connects to an abstract name; the other accepts
 *   NAME/tcp       TCP: the other process connects to 127.0.0.1; this one accepts
 *   NAME/tcp6      TCP: this process connects to ::1; the other accepts
 * "seq" in a mode's name is SOCK_SEQPACKET, "dgram" is SOCK_DGRAM, both ends connected to one another.
 * Byte i of a direction is the sea's. No case takes a time as proof: a sleep only gives a sleeper the time to fall asleep. */
#ifndef MODES
#define MODES "pair", "path", "abstract", "tcp", "tcp6"
#endif
#include "check.h"
#include "sea.h"
#include <linux/futex.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/un.h>
enum { HOT = 128 << 10, WARM = 1 << 20, PIECE = 4096, LINKS = 64 };
/* One connection as this process has it: its end, and how far it has written and read. */
static struct link {
    int fd;
    uint64_t out, in;
} links[LINKS], *here = links;
typedef long task(long);
static struct job {
    int asked, done, error;
    task *what;
    long arg, result;
} *job;
static pid_t peer;
/* The name of a socket of any of these families. */
typedef union {
    struct sockaddr any;
    struct sockaddr_un un;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
} address;
static int type(void) {
    const char *m = mode_name[warm_mode];
    return strstr(m, "seq") ? SOCK_SEQPACKET : strstr(m, "dgram") ? SOCK_DGRAM : SOCK_STREAM;
}
static int mode_is(const char *what) { return strstr(mode_name[warm_mode], what) != 0; }
static int family(void) { return mode_is("tcp6") ? AF_INET6 : mode_is("tcp") ? AF_INET : AF_UNIX; }
/* For what TCP has otherwise: buffers of megabytes, and ends that come with a delay (the tcp_*.c have their own cases). */
static int is_tcp(void) { return family() != AF_UNIX; }
/* The process that serves connects, and this one accepts; or the other way round. */
static int serves_calls(void) { return mode_is("path") || family() == AF_INET; }
/* One write of n bytes, which goes whole: a message, where there are messages. */
static long whole(long n) {
    IS(write(here->fd, at(here->out), n), n);
    here->out += n;
    return n;
}
static long sends(long n) {
    for (long k; n > 0; n -= k) whole(k = n < PIECE ? n : PIECE);
    return 0;
}
static long takes(long n) {
    static _Thread_local unsigned char b[65536];
    while (n > 0) {
        ssize_t k = read(here->fd, b, n < (long)sizeof b ? n : (long)sizeof b);
        if (k < 0 && errno == EINTR) continue;
        CHECK(k > 0, "read gave %zd at position %llu", k, (unsigned long long)here->in);
        same(b, k, here->in);
        here->in += k;
        n -= k;
    }
    return 0;
}
static long uses(long i) { return here = links + i, i; }
static long closes(long none) { return close(here->fd); }
static long lingers(long none) {
    struct linger l = {1, 0};
    IS(setsockopt(here->fd, SOL_SOCKET, SO_LINGER, &l, sizeof l), 0);
    return close(here->fd);
}
static long shuts(long how) { return shutdown(here->fd, how); }
static long exits(long status) { _exit(status); }
static long no_delay(long off) {
    setfl(here->fd, off ? 0 : O_NONBLOCK, off ? O_NONBLOCK : 0);
    return 0;
}
static void futex(int *word, int op, int value) {
    struct timespec t = {0, 50000000};
    syscall(SYS_futex, word, op, value, op == FUTEX_WAIT ? &t : 0, 0, 0);
}
static void serve(void) {
    for (int n = 1;; n++) {
        while (__atomic_load_n(&job->asked, __ATOMIC_ACQUIRE) < n) futex(&job->asked, FUTEX_WAIT, n - 1);
        errno = 0;
        job->result = job->what(job->arg);
        job->error = errno;
        __atomic_store_n(&job->done, n, __ATOMIC_RELEASE);
        futex(&job->done, FUTEX_WAKE, 1);
    }
}
/* The peer begins a task. */
static void ask(task *what, long arg) {
    job->what = what;
    job->arg = arg;
    __atomic_store_n(&job->asked, job->asked + 1, __ATOMIC_RELEASE);
    futex(&job->asked, FUTEX_WAKE, 1);
}
static int answered(void) { return __atomic_load_n(&job->done, __ATOMIC_ACQUIRE) == job->asked; }
/* What the peer's task returned; errno is what it was there. */
static long answer_(int line) {
    siginfo_t i;
    while (!answered()) {
        futex(&job->done, FUTEX_WAIT, job->asked - 1);
        i.si_pid = 0;
        if (!answered() && !waitid(P_PID, peer, &i, WEXITED | WNOHANG | WNOWAIT) && i.si_pid)
            failed(line, "the other process ended in its task (%d)", i.si_status);
    }
    errno = job->error;
    return job->result;
}
#define answer() answer_(__LINE__)
static long tell_(int line, task *what, long arg) { return ask(what, arg), answer_(line); }
#define tell(what, arg) tell_(__LINE__, what, arg)
#define TELL(what, arg, want) IS(tell(what, arg), want)
static socklen_t name(address *a, int i) {
    const char *tmp = getenv("TMPDIR");
    memset(a, 0, sizeof *a);
    a->any.sa_family = family();
    if (family() == AF_INET6) return a->in6.sin6_addr = in6addr_loopback, sizeof a->in6;
    if (family() == AF_INET) return a->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK), sizeof a->in;
    char *s = a->un.sun_path + mode_is("abstract");
    int n = snprintf(s, 100, "%s/byway-unix-%d.%d", tmp && *tmp && strlen(tmp) < 60 ? tmp : "/tmp", getpid(), i);
    return (socklen_t)(s + n - (char *)a);
}
static void both_connected(int v[2], int i) { /* SOCK_DGRAM by name: each end is bound, and connected to the other */
    address a[2];
    for (int k = 0; k < 2; k++) {
        socklen_t n = name(&a[k], 2 * i + k);
        CHECK((v[k] = socket(AF_UNIX, SOCK_DGRAM, 0)) >= 0 && !bind(v[k], (void *)&a[k], n), "bind");
    }
    for (int k = 0; k < 2; k++) IS(connect(v[k], (void *)&a[!k], name(&a[!k], 2 * i + !k)), 0);
    for (int k = 0; k < 2; k++) unlink(a[k].un.sun_path);
}
static void unnames(const address *a) {
    if (mode_is("path")) unlink(a->un.sun_path);
}
/* Bytes that a buffer takes, if that is not the kernel's choice: few go under way at once. */
static int receive_buffer, send_buffer;
static int makes(void) {
    int s = socket(family(), type(), 0);
    if (receive_buffer) IS(setsockopt(s, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer), 0);
    if (send_buffer) IS(setsockopt(s, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer), 0);
    return s;
}
static int listens(address *a, socklen_t *n) {
    int l = makes();
    *n = name(a, 0);
    unnames(a); /* of a process with this one's number, which was killed */
    CHECK(l >= 0 && !bind(l, &a->any, *n) && !listen(l, LINKS), "bind and listen");
    if (is_tcp()) IS(getsockname(l, &a->any, n), 0);
    return l;
}
/* Small writes go at once, as those of a UNIX socket do. */
static void no_delay_of_writes(int fd) {
    int on = 1;
    if (is_tcp()) IS(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
}
static int calls(const address *a, socklen_t n) {
    int s = makes();
    CHECK(s >= 0 && !connect(s, (void *)a, n), "connect");
    return s;
}
/* Bytes in both directions, enough to be hot. */
static void goes_on(void) {
    ask(sends, WARM);
    takes(WARM);
    answer();
    ask(takes, WARM);
    sends(WARM);
    answer();
}
static void heats(int n) {
    for (int i = 0; i < n; i++) {
        uses(i);
        tell(uses, i);
        goes_on();
    }
    uses(0);
    tell(uses, 0);
}
/* n connections, cold, and the peer, which serves from here on; both use the first. */
static void joins(int n) {
    int v[LINKS][2], listener = -1, pair = mode_is("pair") || type() == SOCK_DGRAM;
    address a;
    socklen_t size = 0;
    if (!job) job = shared(4096);
    memset(job, 0, sizeof *job);
    if (!pair) listener = listens(&a, &size);
    for (int i = 0; i < n && pair; i++)
        if (mode_is("pair"))
            IS(socketpair(AF_UNIX, type(), 0, v[i]), 0);
        else
            both_connected(v[i], i);
    peer = child();
    int accepts = serves_calls() == (peer != 0);
    for (int i = 0; i < n; i++) {
        if (pair) close(v[i][peer != 0]);
        int fd = pair ? v[i][peer == 0] : accepts ? accept(listener, 0, 0) : calls(&a, size);
        CHECK(fd >= 0, "accept");
        no_delay_of_writes(fd);
        links[i] = (struct link){fd, peer ? 0 : 50000, peer ? 50000 : 0};
    }
    uses(0);
    close(listener);
    if (!peer) {
        alarm(20);
        serve();
    }
    tell(uses, 0);
    if (!pair) unnames(&a);
}
static void meet_all(int n) {
    joins(n);
    heats(n);
}
static void meet(void) { meet_all(1); }
/* The peer is no more when this returns. */
static void kill_peer(void) {
    if (!peer) return;
    kill(peer, SIGKILL);
    reap(peer);
    peer = 0;
}
static void peer_exits(void) {
    ask(exits, 0);
    REAP0(peer);
    peer = 0;
}
enum { ALL = POLLIN | POLLOUT | POLLRDHUP | POLLPRI };
static short shows(void) { return events(here->fd, ALL, 0); }
static long shows_task(long none) { return shows(); }
static int option(int fd, int what) {
    int v = -1;
    socklen_t n = sizeof v;
    IS(getsockopt(fd, SOL_SOCKET, what, &v, &n), 0);
    return v;
}
static void set_option(int fd, int what, int v) { IS(setsockopt(fd, SOL_SOCKET, what, &v, sizeof v), 0); }
static void set_time(int fd, int what, int ms) {
    struct timeval t = {ms / 1000, ms % 1000 * 1000};
    IS(setsockopt(fd, SOL_SOCKET, what, &t, sizeof t), 0);
}
static int asked_of(int fd, int what) {
    int v = -1;
    IS(ioctl(fd, what, &v), 0);
    return v;
}
static int unread(void) { return asked_of(here->fd, FIONREAD); }
static long finds(long none) { return unread(); }
/* LINUX: tcp(7): what send() has taken may still be on its way, as where the window opens with the next acknowledgement. */
static void has_come(long n) {
    if (is_tcp()) UNTIL(unread() == n);
}
/* Writes pieces until there is no room; returns how many bytes went in. */
static long fills(long piece) {
    long n = 0, k;
    while ((k = send(here->fd, at(here->out), piece, MSG_DONTWAIT)) > 0) {
        here->out += k;
        n += k;
        CHECK(n < 64 << 20, "it never fills");
    }
    CHECK(k < 0 && errno == EAGAIN, "a full socket must say EAGAIN");
    return n;
}
/* Reads n bytes, or what there is before the end, whole and in order. */
static long takes_most(long n) {
    static unsigned char b[65536];
    long got = 0, k;
    while (got < n && (k = read(here->fd, b, n - got < (long)sizeof b ? n - got : (long)sizeof b)) > 0) {
        same(b, k, here->in);
        here->in += k;
        got += k;
    }
    return got;
}
/* A call that sleeps, in a thread of its own. */
static struct sleeper {
    pthread_t thread;
    task *what;
    long arg, result;
    int id, error, done;
} sleepers[8];
static void *sleeps(void *p) {
    struct sleeper *s = p;
    __atomic_store_n(&s->id, tid(), __ATOMIC_RELEASE);
    errno = 0;
    s->result = s->what(s->arg);
    s->error = errno;
    __atomic_store_n(&s->done, 1, __ATOMIC_RELEASE);
    return 0;
}
static int in_state_s(int id) {
    char p[64], b[512] = {0}, *q;
    snprintf(p, sizeof p, "/proc/self/task/%d/stat", id);
    int f = open(p, O_RDONLY | O_CLOEXEC);
    if (f < 0) return 0;
    read(f, b, sizeof b - 1);
    close(f);
    usleep(1500);
    return (q = strrchr(b, ')')) && q[2] == 'S';
}
static void still_asleep(int i) { /* wait_asleep() gives up on a busy machine; here it may not */
    int id = sleepers[i].id, seen = 0;
    UNTIL((seen = in_state_s(id) ? seen + 1 : 0) == 4 || __atomic_load_n(&sleepers[i].done, __ATOMIC_ACQUIRE));
    CHECK(!__atomic_load_n(&sleepers[i].done, __ATOMIC_ACQUIRE), "the call must wait, and gave %ld", sleepers[i].result);
}
static void falls_asleep(int i, task *what, long arg) {
    sleepers[i] = (struct sleeper){.what = what, .arg = arg};
    IS(pthread_create(&sleepers[i].thread, 0, sleeps, &sleepers[i]), 0);
    UNTIL(__atomic_load_n(&sleepers[i].id, __ATOMIC_ACQUIRE));
    still_asleep(i);
}
static long wakes(int i) {
    pthread_join(sleepers[i].thread, 0);
    errno = sleepers[i].error;
    return sleepers[i].result;
}
/* The same for a call that a signal ends. */
static long interrupts(int i) {
    while (!__atomic_load_n(&sleepers[i].done, __ATOMIC_ACQUIRE)) {
        pthread_kill(sleepers[i].thread, SIGUSR1);
        sleep_ms(5);
    }
    return wakes(i);
}
static long answers_each(long n) {
    for (; n > 0; n--) {
        takes(1);
        whole(1);
    }
    return 0;
}
/* Round trips: a ring opens for them, in both directions. */
static void round_trips(void) {
    ask(answers_each, 600);
    for (int i = 0; i < 600; i++) {
        whole(1);
        takes(1);
    }
    IS(answer(), 0);
}
static void meet_and_answer(void) {
    meet();
    round_trips();
}
#define UNIX_MAIN(...)                                                                                       \
    int main(int c, char **v) {                                                                              \
        static const struct test t_[] = {__VA_ARGS__, {0}};                                                  \
        sea_init();                                                                                          \
        return run_all(t_, c > 1 ? v[1] : 0);                                                                \
    }
