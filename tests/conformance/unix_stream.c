/* Checks: bytes of a hot UNIX stream: every call that writes against every call that reads, in both directions at once; sizes
 * from 0 to 1 MiB; several writers and readers; bad buffers; signals; what names the connection.
 * Does not check: flags (unix_flags.c), ends (unix_ends.c), messages (unix_seqpacket.c). */
#include "unix_calls.h"
#include "records.h"
/* The calls, by number; all write or read n bytes, in up to five buffers. */
enum { WRITES = 7, READS = 7, BUFFERS = 5 };
static int cut(struct iovec *v, unsigned char *b, long n, unsigned *seed) { /* n bytes in some buffers, some of them empty */
    int count = 1 + rnd(seed) % BUFFERS;
    for (int i = 0; i < count; i++) {
        long k = i == count - 1 ? n : rnd(seed) % 3 ? (long)(rnd(seed) % (n + 1)) : 0;
        v[i] = (struct iovec){b, k};
        b += k;
        n -= k;
    }
    return count;
}
static ssize_t many(struct mmsghdr *m, struct iovec *v, int count) { /* one message for each buffer */
    for (int i = 0; i < count; i++) m[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = v + i, .msg_iovlen = 1}};
    return count;
}
static ssize_t sum(const struct mmsghdr *m, int count) {
    ssize_t n = 0;
    for (int i = 0; i < count; i++) n += m[i].msg_len;
    return n;
}
static ssize_t writes_by(int call, int fd, const void *from, long n, unsigned *seed) {
    struct iovec v[BUFFERS];
    struct mmsghdr m[BUFFERS];
    int count = cut(v, (void *)from, n, seed), got;
    struct msghdr h = {.msg_iov = v, .msg_iovlen = count};
    switch (call) {
    case 0: return write(fd, from, n);
    case 1: return writev(fd, v, count);
    case 2: return send(fd, from, n, 0);
    case 3: return sendto(fd, from, n, MSG_NOSIGNAL, 0, 0);
    case 4: return sendmsg(fd, &h, 0);
    case 5: return (got = sendmmsg(fd, m, many(m, v, count), 0)) < 0 ? got : sum(m, got);
    default: return syscall(SYS_pwritev2, fd, v, count, -1L, -1L, 0);
    }
}
static ssize_t reads_by(int call, int fd, void *to, long n, unsigned *seed) {
    struct iovec v[BUFFERS];
    struct mmsghdr m[BUFFERS];
    int count = cut(v, to, n, seed), got;
    struct msghdr h = {.msg_iov = v, .msg_iovlen = count};
    switch (call) {
    case 0: return read(fd, to, n);
    case 1: return readv(fd, v, count);
    case 2: return recv(fd, to, n, 0);
    case 3: return recvfrom(fd, to, n, 0, 0, 0);
    case 4: return recvmsg(fd, &h, 0);
    case 5: /* one message: of several each but the last may be short, and leave a gap */
        return (got = recvmmsg(fd, m, many(m, &(struct iovec){to, n}, 1), MSG_WAITFORONE, 0)) < 0 ? got : sum(m, got);
    default: return syscall(SYS_preadv2, fd, v, count, -1L, -1L, 0);
    }
}
/* Up to `most` bytes at a time, by the call, or by any. */
static struct plan {
    int call;
    long most, total;
    unsigned seed;
} out_plan, in_plan;
static long size_of(struct plan *p, long left) {
    long k = rnd(&p->seed) % 4 ? 1 + rnd(&p->seed) % 300 : 1 + rnd(&p->seed) % p->most;
    return k < left ? k : left;
}
static long writes_plan(long none) {
    struct plan *p = &out_plan;
    for (long left = p->total; left;) {
        long k = size_of(p, left);
        int call = p->call < 0 ? (int)(rnd(&p->seed) % WRITES) : p->call;
        IS(writes_by(call, here->fd, at(here->out), k, &p->seed), k);
        here->out += k;
        left -= k;
    }
    return 0;
}
static long reads_plan(long none) {
    static unsigned char b[70000];
    struct plan *p = &in_plan;
    for (long left = p->total; left;) {
        long k = size_of(p, left);
        int call = p->call < 0 ? (int)(rnd(&p->seed) % READS) : p->call;
        ssize_t g = reads_by(call, here->fd, b, k, &p->seed);
        CHECK(g > 0 && g <= k, "call %d read %zd of %ld", call, g, k);
        same(b, g, here->in);
        here->in += g;
        left -= g;
    }
    return 0;
}
/* Each process sets both of its plans by one number: the calls are its parts. */
static long plans(long both) {
    out_plan = (struct plan){both % 10 - 1, 60000, 300000, 7 + both};
    in_plan = (struct plan){both / 10 - 1, 60000, 300000, 99 + both};
    return 0;
}
static void every_call(void) {
    meet();
    for (int w = 0; w <= WRITES; w++)
        for (int r = 0; r <= READS; r++) {
            plans(w + 10 * r);
            tell(plans, w + 10 * r);
            if ((w + r) % 2) {
                ask(writes_plan, 0);
                reads_plan(0);
            } else {
                ask(reads_plan, 0);
                writes_plan(0);
            }
            answer();
        }
}
static void *in_thread(void *what) {
    ((task *)what)(0);
    return 0;
}
static long both_ways(long none) {
    pthread_t t;
    pthread_create(&t, 0, in_thread, (void *)writes_plan);
    reads_plan(0);
    pthread_join(t, 0);
    return 0;
}
static long long_plans(long n) {
    plans(0);
    out_plan.total = in_plan.total = n;
    return 0;
}
static void duplex(void) {
    meet();
    long_plans(3 << 20);
    tell(long_plans, 3 << 20);
    ask(both_ways, 0);
    both_ways(0);
    answer();
}
static const long sizes[] = {1,     2,     47,    48,     49,     192,    193,    1000,   4095,    4096,   4097,       8192,
                             32768, 36864, 65535, 65536, 100000, 106432, 180224, 192 << 10, 212992, 219264, 256 << 10, 1 << 20};
static void each_size(void) {
    unsigned seed = 3;
    meet();
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int call = i % WRITES;
        ask(takes, sizes[i]);
        IS(writes_by(call, here->fd, at(here->out), sizes[i], &seed), sizes[i]);
        here->out += sizes[i];
        answer();
        ask(whole, sizes[i]);
        takes(sizes[i]);
        answer();
        IS(unread(), 0);
    }
}
/* LINUX: af_unix.c: a write of nothing is nothing on a stream, and a read of nothing takes nothing. */
static void nothing(void) {
    char c;
    struct iovec v[3] = {{&c, 0}, {&c, 0}, {&c, 0}};
    meet();
    for (int unread_bytes = 0; unread_bytes < 2; unread_bytes++) {
        IS(write(here->fd, "", 0), 0);
        IS(send(here->fd, "", 0, 0), 0);
        IS(writev(here->fd, v, 3), 0);
        TELL(finds, 0, 0);
        if (unread_bytes) {
            TELL(sends, 5000, 0);
            IS(read(here->fd, &c, 0), 0);
            IS(readv(here->fd, v, 3), 0);
            IS(recv(here->fd, &c, 0, 0), 0);
        }
        IS(unread(), 5000 * unread_bytes);
    }
    takes(5000);
    sends(3000);
    TELL(takes, 3000, 0);
}
static long reads_many_buffers(long n) { /* into as many buffers as one call takes */
    static unsigned char b[1024 * 60];
    static struct iovec v[1024];
    unsigned char *p = b;
    for (int i = 0; i < 1024; i++) {
        v[i] = (struct iovec){p, i % 5 ? 60 : 0};
        p += v[i].iov_len;
    }
    ssize_t k = readv(here->fd, v, 1024);
    CHECK(k == (n < p - b ? n : p - b), "readv gave %zd of %ld", k, n);
    same(b, k, here->in);
    here->in += k;
    return k;
}
/* LINUX: UIO_MAXIOV is 1024. */
static void many_buffers(void) {
    enum { MAX = 1024 };
    static struct iovec v[MAX + 1];
    struct msghdr m = {.msg_iov = v, .msg_iovlen = MAX + 1};
    meet();
    for (int twice = 0; twice < 2; twice++) {
        long n = 0;
        for (int i = 0; i <= MAX; i++) {
            v[i] = (struct iovec){(void *)(at(here->out) + n), i % 7 && i < MAX ? i % 50 : 0};
            n += v[i].iov_len;
        }
        FAILS(writev(here->fd, v, MAX + 1), EINVAL);
        FAILS(readv(here->fd, v, MAX + 1), EINVAL);
        m.msg_iovlen = MAX + 1;
        FAILS(sendmsg(here->fd, &m, 0), EMSGSIZE);
        m.msg_iovlen = MAX;
        IS(twice ? sendmsg(here->fd, &m, 0) : writev(here->fd, v, MAX), n);
        here->out += n;
        TELL(finds, 0, n);
        TELL(reads_many_buffers, n, n);
        TELL(finds, 0, 0);
    }
}
/* A record has its writer, number and size; its bytes say which it is. */
struct head {
    uint32_t by, number, size;
};
enum { HANDS = 4, TIMES = 400, LONGEST = 32000 };
static void write_some(int by) {
    static _Thread_local unsigned char b[LONGEST];
    unsigned seed = by;
    for (int i = 0; i < TIMES; i++) {
        struct head h = {by, i, rnd(&seed) % 3 ? rnd(&seed) % 300 : rnd(&seed) % (LONGEST - sizeof h)};
        struct iovec v[2] = {{&h, sizeof h}, {(void *)at(by * 7000 + i), h.size}};
        memcpy(b, &h, sizeof h);
        memcpy(b + sizeof h, at(by * 7000 + i), h.size);
        IS(i % 2 ? writev(here->fd, v, 2) : write(here->fd, b, sizeof h + h.size), sizeof h + h.size);
    }
}
static void *write_some_in_thread(void *by) {
    write_some((int)(intptr_t)by);
    return 0;
}
static long reads_records(long none) {
    static unsigned char b[LONGEST];
    uint32_t next[HANDS] = {0};
    for (int i = 0; i < HANDS * TIMES; i++) {
        struct head h;
        IS(read_n(here->fd, &h, sizeof h), sizeof h);
        CHECK(h.by < HANDS && h.size <= LONGEST && h.number == next[h.by], "a record was cut by another");
        next[h.by]++;
        IS(read_n(here->fd, b, h.size), h.size);
        same(b, h.size, h.by * 7000 + h.number);
    }
    return 0;
}
/* LINUX: af_unix.c: what one write puts in is one piece, up to 32 KiB: no other writer's bytes come between. */
static void several_writers(void) {
    if (is_tcp()) return;
    pid_t c[2];
    pthread_t t[2];
    meet();
    ask(reads_records, 0);
    for (int i = 0; i < 2; i++)
        if (!(c[i] = child())) {
            write_some(i);
            _exit(0);
        }
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, write_some_in_thread, (void *)(intptr_t)(2 + i));
    for (int i = 0; i < 2; i++) {
        REAP0(c[i]);
        pthread_join(t[i], 0);
    }
    answer();
    sends(HOT / 4);
    TELL(takes, HOT / 4, 0);
}
/* A read takes what is there as one piece too: several readers and writers of records. */
static long several_read(long none) {
    pid_t c[READERS];
    long *taken = shared(4096);
    for (int i = 0; i < READERS; i++)
        if (!(c[i] = child())) {
            int next[WRITERS] = {0}, k;
            while ((k = take_record(here->fd, next)) == 1) __sync_fetch_and_add(taken, 1);
            IS(k, 0);
            _exit(0);
        }
    for (int i = 0; i < READERS; i++) REAP0(c[i]);
    return *taken;
}
/* LINUX: tcp_sendmsg: a write may go out in two segments, and a reader come between; 1 of 240 plain runs beside others. */
static void several_of_each(void) {
    if (is_tcp()) return;
    pid_t c[WRITERS];
    meet();
    ask(several_read, 0);
    for (int i = 0; i < WRITERS; i++)
        if (!(c[i] = child())) {
            write_records(here->fd, i, RECORDS / 4);
            _exit(0);
        }
    for (int i = 0; i < WRITERS; i++) REAP0(c[i]);
    IS(shutdown(here->fd, SHUT_WR), 0);
    IS(answer(), WRITERS * (RECORDS / 4));
}
/* One byte to 64 KiB there and back, by turns. */
static long echoes(long turns) {
    for (long i = 0; i < turns; i++) {
        long n = 1 + (i * i * 37) % (i % 5 ? 200 : 65536);
        takes(n);
        whole(n);
    }
    return 0;
}
static void by_turns(void) {
    meet();
    ask(echoes, 1000);
    for (long i = 0; i < 1000; i++) {
        long n = 1 + (i * i * 37) % (i % 5 ? 200 : 65536);
        whole(n);
        takes(n);
    }
    answer();
}
/* LINUX: af_unix.c: a bad buffer takes nothing and puts nothing in; what lies before it in the same piece is not moved. */
static void bad_buffers(void) {
    char *bad = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(bad + 4096, 4096, PROT_NONE);
    meet();
    FAILS(write(here->fd, bad + 4096, 10), EFAULT);
    FAILS(write(here->fd, bad + 4000, 200), EFAULT);
    struct iovec v[2] = {{bad, 100}, {bad + 4096, 100}};
    FAILS(writev(here->fd, v, 2), EFAULT);
    FAILS(send(here->fd, (void *)8, 5000, 0), EFAULT);
    TELL(finds, 0, 0);
    sends(3000);
    TELL(takes, 3000, 0);
    TELL(whole, 150, 150);
    FAILS(read(here->fd, bad + 4096, 10), EFAULT);
    FAILS(recv(here->fd, bad + 4000, 150, 0), EFAULT);
    FAILS(readv(here->fd, v, 2), EFAULT);
    FAILS(readv(here->fd, (void *)8, 2), EFAULT);
    IS(unread(), 150);
    takes(150);
    mprotect(bad, 4096, PROT_READ);
    TELL(whole, 150, 150);
    FAILS(read(here->fd, bad, 10), EFAULT);
    takes(150);
}
/* What names the connection, and calls that are not for it. */
static void names(void) {
    if (is_tcp()) return;
    address a, b;
    socklen_t n = sizeof a, m = sizeof b;
    struct stat s;
    struct ucred u;
    char c[10];
    meet();
    IS(option(here->fd, SO_TYPE), SOCK_STREAM);
    IS(option(here->fd, SO_DOMAIN), family());
    IS(option(here->fd, SO_ACCEPTCONN), 0);
    IS(fstat(here->fd, &s), 0);
    CHECK(S_ISSOCK(s.st_mode), "it is a socket");
    IS(getsockname(here->fd, (void *)&a, &n), 0);
    IS(getpeername(here->fd, (void *)&b, &m), 0);
    IS(n > 2, mode_is("path"));
    IS(m > 2, mode_is("abstract"));
    n = sizeof u;
    IS(getsockopt(here->fd, SOL_SOCKET, SO_PEERCRED, &u, &n), 0);
    IS(u.pid, mode_is("path") ? peer : getpid());
    TELL(sends, 20, 0);
    n = sizeof a;
    IS(recvfrom(here->fd, c, 10, 0, (void *)&a, &n), 10);
    same(c, 10, here->in);
    here->in += 10;
    IS(n, mode_is("abstract") ? m : 0);
    FAILS(sendto(here->fd, "x", 1, 0, (void *)&b, sizeof b.any.sa_family + 1), EISCONN);
    FAILS(pread(here->fd, c, 1, 0), ESPIPE);
    FAILS(pwrite(here->fd, c, 1, 0), ESPIPE);
    FAILS(lseek(here->fd, 0, SEEK_CUR), ESPIPE);
    FAILS(connect(here->fd, (void *)&a, sizeof a.any.sa_family), EINVAL);
    FAILS(accept(here->fd, 0, 0), EINVAL);
    takes(10);
}
/* A signal ends a wait that has nothing to give: EINTR, or the call goes on with SA_RESTART. With a part it gives the part. */
static volatile int hits;
static void on(int s) { hits++; }
static long reads_one(long none) {
    char c;
    ssize_t n = read(here->fd, &c, 1);
    if (n == 1) here->in++;
    return n;
}
static void interrupted_reader(void) {
    meet();
    handle(SIGUSR1, on, 0);
    falls_asleep(0, reads_one, 0);
    IS(interrupts(0), -1);
    IS(errno, EINTR);
    hits = 0;
    handle(SIGUSR1, on, SA_RESTART);
    falls_asleep(0, reads_one, 0);
    pthread_kill(sleepers[0].thread, SIGUSR1);
    UNTIL(hits == 1);
    still_asleep(0);
    TELL(sends, 1, 0);
    IS(wakes(0), 1);
}
static long writes_long(long n) {
    ssize_t k = write(here->fd, at(here->out), n);
    if (k > 0) here->out += k;
    return k;
}
static void interrupted_writer(void) {
    if (is_tcp()) return;
    meet();
    for (int flags = 0; flags < 2; flags++) {
        handle(SIGUSR1, on, flags ? SA_RESTART : 0);
        falls_asleep(0, writes_long, 1 << 20);
        long n = interrupts(0);
        CHECK(n > 0 && n < 1 << 20, "a part of it: %ld", n);
        fills(1);
        falls_asleep(0, writes_long, 1);
        hits = 0;
        if (flags) {
            pthread_kill(sleepers[0].thread, SIGUSR1);
            UNTIL(hits == 1);
            still_asleep(0);
        } else {
            IS(interrupts(0), -1);
            IS(errno, EINTR);
        }
        TELL(takes, tell(finds, 0), 0);
        if (flags) IS(wakes(0), 1);
        TELL(takes, tell(finds, 0), 0);
    }
    sends(HOT / 4);
    TELL(takes, HOT / 4, 0);
}
/* A writer that sleeps most of the time, and signals all the time: what went in went in once. No call with SA_RESTART says EINTR. */
static long takes_slowly(long n) {
    struct timespec t = {0, 100000};
    for (; n > 0; n -= PIECE) {
        takes(PIECE);
        nanosleep(&t, 0);
    }
    return 0;
}
static void writer_is_often_interrupted(void) {
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0}};
    enum { ALL = 512 * PIECE };
    meet();
    for (int flags = 0; flags < 2; flags++) {
        long cut = 0;
        handle(SIGALRM, on, flags ? SA_RESTART : 0);
        ask(takes_slowly, ALL);
        IS(setitimer(ITIMER_REAL, &often, 0), 0);
        for (long left = ALL, k; left > 0; left -= k) {
            long n = left < 20000 ? left : 20000;
            k = writes_long(n);
            cut += k < n;
            if (k >= 0) continue;
            IS(errno, EINTR);
            IS(flags, 0);
            k = 0;
        }
        IS(setitimer(ITIMER_REAL, &never, 0), 0);
        answer();
        CHECK(flags || cut || is_tcp(), "no call was cut");
        TELL(finds, 0, 0);
    }
}
/* A handler that writes to and reads from the connection of the call that it interrupts. */
static void in_handler(int s) {
    hits++;
    IS(write(here->fd, "\xff\xff\xff\xff\xff\xff\xff\xff", 8), 8);
}
static long counts_to(long n) { /* numbers, and all ones from the handler, to the end */
    long handlers = 0, next = 0;
    int64_t got;
    while (read_n(here->fd, &got, 8) == 8) {
        CHECK(got == -1 || got == next, "number %ld came, not %ld", (long)got, next);
        got == -1 ? handlers++ : next++;
    }
    IS(next, n);
    return handlers;
}
static void handler_writes(void) {
    meet();
    handle(SIGALRM, in_handler, SA_RESTART);
    ask(counts_to, 40000);
    struct itimerval t = {{0, 300}, {0, 300}}, none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &t, 0);
    for (uint64_t i = 0; i < 40000; i++) IS(write(here->fd, &i, 8), 8);
    setitimer(ITIMER_REAL, &none, 0);
    IS(shutdown(here->fd, SHUT_WR), 0);
    IS(answer(), hits);
    handle(SIGALRM, SIG_DFL, 0);
    alarm(20);
}
/* LINUX: a handler that jumps out leaves each message as it is: written or not, and once more when it is written again. */
static sigjmp_buf back;
static void jumps(int s) { siglongjmp(back, 1); }
static long counts_repeats(long n) {
    int64_t got, next = 0;
    while (read_n(here->fd, &got, 8) == 8) {
        CHECK(got == next || got == next - 1, "number %ld came, not %ld", (long)got, (long)next);
        next = got + 1;
    }
    IS(next, n);
    return 0;
}
static void handler_jumps(void) {
    static volatile int64_t i;
    struct itimerval t = {{0, 300}, {0, 300}}, none = {{0, 0}, {0, 0}};
    meet();
    ask(counts_repeats, 40000);
    handle(SIGALRM, jumps, 0);
    sigsetjmp(back, 1);
    setitimer(ITIMER_REAL, &t, 0);
    for (; i < 40000; i++) {
        int64_t number = i;
        IS(write(here->fd, &number, 8), 8);
    }
    setitimer(ITIMER_REAL, &none, 0);
    handle(SIGALRM, SIG_DFL, 0);
    alarm(20);
    IS(shutdown(here->fd, SHUT_WR), 0);
    answer();
}
/* A reader that is cancelled has taken nothing. */
static void cancelled(void) {
    meet();
    for (int i = 0; i < 5; i++) {
        void *end;
        falls_asleep(0, reads_one, 0);
        IS(pthread_cancel(sleepers[0].thread), 0);
        pthread_join(sleepers[0].thread, &end);
        CHECK(end == PTHREAD_CANCELED, "a read can be cancelled");
        TELL(sends, 5000, 0);
        takes(5000);
    }
}
/* A reader that is always behind: some bytes are unread at any moment. */
static void reader_lags(void) {
    joins(1);
    for (int cold = 0; cold < 2; cold++) {
        ask(sends, 1 << 20);
        for (long left = 1 << 20; left;) {
            UNTIL(unread() > 20000 || answered());
            long n = left > 30000 ? 5000 : left;
            takes(n);
            left -= n;
        }
        answer();
        heats(1);
    }
}
/* What was written before it was accepted, and whether the other is still there then. */
static void before_accept(void) {
    if (mode_is("pair")) return;
    for (int way = 0; way < 3; way++) {
        address a;
        socklen_t size;
        int l = listens(&a, &size);
        pid_t c = child();
        if (!c) {
            *here = (struct link){calls(&a, size), 7, 0};
            sends(HOT);
            if (way == 1) IS(shutdown(here->fd, SHUT_WR), 0);
            if (way == 2) sends(HOT); /* it waits for the reader */
            _exit(0);
        }
        if (way < 2) REAP0(c);
        else
            wait_asleep(c);
        *here = (struct link){accept(l, 0, 0), 0, 7};
        takes(way == 2 ? 2 * HOT : HOT);
        AT_EOF(here->fd);
        if (way == 2) REAP0(c);
        close(here->fd);
        close(l);
        unnames(&a);
    }
}
UNIX_MAIN(T(every_call), T(duplex), T(each_size), T(nothing), T(many_buffers), T(several_writers), T(several_of_each),
          T(by_turns), T(bad_buffers), T(names), T(interrupted_reader), T(interrupted_writer), T(writer_is_often_interrupted), T(handler_writes),
          T(handler_jumps), T(cancelled), T(reader_lags), T(before_accept))
