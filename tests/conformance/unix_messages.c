/* Checks: sendmmsg and recvmmsg on hot streams: how many messages and bytes each says, calls that wait and that do not, MSG_WAITFORONE,
 * MSG_WAITALL, a time, the end, a reset, bad addresses, descriptors among the messages, signals, a number that another thread closes.
 * Does not check: a full socket (unix_full.c), MSG_PEEK and MSG_DONTWAIT on an idle connection (unix_flags.c), SIGPIPE (unix_ends.c). */
#define _GNU_SOURCE
#include "unix_calls.h"
enum { MANY = 64, LONGEST = 8192 };
/* Messages of n bytes each, as the stream has them next. */
struct messages {
    struct mmsghdr m[MANY];
    struct iovec v[MANY][2];
    unsigned char b[MANY][LONGEST];
};
static _Thread_local struct messages M;
static void buffers(int k, const long *n, int sends) {
    uint64_t pos = here->out;
    for (int i = 0; i < k; i++) {
        unsigned char *p = sends ? (unsigned char *)at(pos) : M.b[i];
        M.v[i][0] = (struct iovec){p, n[i] / 2};
        M.v[i][1] = (struct iovec){p + n[i] / 2, n[i] - n[i] / 2};
        M.m[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = M.v[i], .msg_iovlen = 2}, .msg_len = 77};
        pos += n[i];
    }
}
static int sends_them(int k, const long *n, int flags) {
    buffers(k, n, 1);
    int did = sendmmsg(here->fd, M.m, k, flags);
    for (int i = 0; i < did; i++) here->out += M.m[i].msg_len;
    return did;
}
static int takes_them(int k, const long *n, int flags, struct timespec *t) {
    buffers(k, n, 0);
    int did = recvmmsg(here->fd, M.m, k, flags, t);
    for (int i = 0; i < did; i++) {
        same(M.b[i], M.m[i].msg_len, here->in);
        here->in += M.m[i].msg_len;
        IS(M.m[i].msg_hdr.msg_flags, flags & MSG_CMSG_CLOEXEC);
    }
    for (int i = did < 0 ? 0 : did; i < k; i++) IS(M.m[i].msg_len, 77);
    return did;
}
static const long sizes[] = {1, 100, 4096, 0, 5000, 8192, 7, 300};
enum { SIZES_OF = sizeof sizes / sizeof *sizes, SUM = 1 + 100 + 4096 + 5000 + 8192 + 7 + 300 };
static const long hundreds[MANY] = {[0 ... MANY - 1] = 100};
/* All are there; or they come while nobody waits, or somebody does. */
static void whole_messages(void) {
    long none = 0;
    meet_and_answer();
    for (int round = 0; round < 20; round++) {
        int k = round % 2 ? SIZES_OF : 3;
        long sum = k == 3 ? 4197 : SUM;
        if (round % 4 < 2) ask(takes, sum);
        IS(sends_them(k, sizes, round % 3 ? MSG_NOSIGNAL : MSG_MORE), k);
        for (int i = 0; i < k; i++) IS(M.m[i].msg_len, sizes[i]);
        if (round % 4 >= 2) ask(takes, sum);
        IS(answer(), 0);
        TELL(sends, 4197, 0);
        UNTIL(unread() == 4197);
        IS(takes_them(3, sizes, round % 3 ? MSG_CMSG_CLOEXEC : 0, 0), 3);
        for (int i = 0; i < 3; i++) IS(M.m[i].msg_len, sizes[i]);
        TELL(sends, 250, 0);
        UNTIL(unread() == 250);
        IS(takes_them(4, hundreds, MSG_DONTWAIT, 0), 3);
        IS(M.m[2].msg_len, 50);
        FAILS(takes_them(4, hundreds, MSG_DONTWAIT, 0), EAGAIN);
    }
    IS(sends_them(0, &none, 0), 0);
    IS(takes_them(0, &none, 0, 0), 0);
    goes_on();
}
/* LINUX: sendmmsg(2): at most UIO_MAXIOV. */
static void more_than_a_thousand(void) {
    static struct mmsghdr m[1100];
    static struct iovec v[1100];
    meet_and_answer();
    for (int i = 0; i < 1100; i++) {
        v[i] = (struct iovec){(void *)at(here->out + i * 3), 3};
        m[i].msg_hdr = (struct msghdr){.msg_iov = v + i, .msg_iovlen = 1};
    }
    ask(takes, 3072);
    IS(sendmmsg(here->fd, m, 1100, 0), 1024);
    here->out += 3072;
    IS(answer(), 0);
    goes_on();
}
static long takes_three(long flags) { return takes_them(3, hundreds, (int)flags, 0); }
/* Each message waits; with MSG_WAITFORONE the first alone; with MSG_WAITALL for all of its bytes. */
static void waits(void) {
    meet_and_answer();
    for (int round = 0; round < 6; round++) {
        falls_asleep(0, takes_three, 0);
        for (int i = 0; i < 3; i++) {
            TELL(whole, 100, 100);
            if (i < 2) still_asleep(0);
        }
        IS(wakes(0), 3);
        falls_asleep(0, takes_three, MSG_WAITFORONE);
        TELL(whole, 30, 30);
        IS(wakes(0), 1);
        falls_asleep(0, takes_three, MSG_WAITALL);
        for (int i = 0; i < 3; i++) {
            TELL(whole, 99, 99);
            still_asleep(0);
        }
        TELL(whole, 10, 10);
        IS(wakes(0), 3);
        IS(unread(), 7);
        takes(7);
        TELL(sends, 150, 0);
        UNTIL(unread() == 150);
        IS(takes_three(MSG_WAITFORONE), 2);
    }
    no_delay(0);
    FAILS(takes_three(0), EAGAIN);
    TELL(whole, 150, 150);
    UNTIL(unread() == 150);
    IS(takes_three(0), 2);
    no_delay(1);
    set_time(here->fd, SO_RCVTIMEO, 60);
    FAILS(takes_three(0), EAGAIN);
    TELL(whole, 150, 150);
    UNTIL(unread() == 150);
    IS(takes_three(0), 2);
    set_time(here->fd, SO_RCVTIMEO, 0);
    /* LINUX: recvmmsg(2): the time is looked at after each message. */
    struct timespec t = {0, 1};
    TELL(whole, 250, 250);
    UNTIL(unread() == 250);
    IS(takes_them(3, hundreds, 0, &t), 1);
    takes(150);
    goes_on();
}
static void the_end(void) {
    for (int bytes = 0; bytes < 2; bytes++) {
        meet_and_answer();
        TELL(sends, bytes * 150, 0);
        TELL(closes, 0, 0);
        UNTIL(shows() & POLLRDHUP);
        IS(takes_three(0), 3);
        IS(M.m[0].msg_len, bytes * 100);
        IS(M.m[1].msg_len, bytes * 50);
        IS(M.m[2].msg_len, 0);
        kill_peer();
        close(here->fd);
    }
}
/* LINUX: do_recvmmsg: an error is told before what there is to read; one behind messages at the next call. */
static void a_reset(void) {
    for (int kills = 0; kills < 2; kills++) {
        meet_and_answer();
        whole(30);
        UNTIL(tell(finds, 0) == 30);
        TELL(sends, 150, 0);
        UNTIL(unread() == 150);
        if (kills) kill_peer();
        else
            TELL(closes, 0, 0);
        UNTIL(shows() & POLLERR);
        FAILS(takes_three(0), ECONNRESET);
        IS(takes_three(0), 3);
        IS(M.m[1].msg_len, 50);
        IS(takes_three(0), 3);
        IS(M.m[0].msg_len, 0);
        kill_peer();
        close(here->fd);
    }
}
/* the error that waits for the one who reads is not told to the one who sends */
static void a_reset_behind_a_send(void) {
    if (is_tcp()) return; /* who is told first, whoever it is */
    meet_and_answer();
    whole(30);
    UNTIL(tell(finds, 0) == 30);
    TELL(closes, 0, 0);
    UNTIL(shows() & POLLERR);
    FAILS(sends_them(3, hundreds, MSG_NOSIGNAL), EPIPE);
    char c;
    FAILS(recv(here->fd, &c, 1, 0), ECONNRESET);
    IS(recv(here->fd, &c, 1, 0), 0);
}
static void nobody_reads(void) {
    meet_and_answer();
    TELL(closes, 0, 0);
    UNTIL(shows() & POLLRDHUP);
    if (is_tcp()) {
        IS(send(here->fd, "x", 1, MSG_NOSIGNAL), 1);
        UNTIL(shows() & POLLHUP);
    }
    FAILS(sends_them(3, hundreds, MSG_NOSIGNAL), EPIPE);
}
static void bad_addresses(void) {
    meet_and_answer();
    FAILS(sendmmsg(here->fd, (void *)8, 2, 0), EFAULT);
    FAILS(recvmmsg(here->fd, (void *)8, 2, MSG_DONTWAIT, 0), EFAULT);
    buffers(3, hundreds, 1);
    M.v[1][0].iov_base = (void *)8;
    IS(sendmmsg(here->fd, M.m, 3, 0), 1);
    IS(M.m[0].msg_len, 100);
    IS(M.m[1].msg_len, 77);
    here->out += 100;
    TELL(takes, 100, 0);
    M.m[0].msg_hdr.msg_iov = (void *)8;
    FAILS(sendmmsg(here->fd, M.m, 3, 0), EFAULT);
    TELL(sends, 250, 0);
    UNTIL(unread() == 250);
    buffers(3, hundreds, 0);
    M.v[1][0].iov_base = (void *)8;
    M.v[1][1].iov_base = (void *)8;
    IS(recvmmsg(here->fd, M.m, 3, 0, 0), 1);
    same(M.b[0], 100, here->in);
    here->in += 100;
    /* LINUX: the error behind it is the socket's, and told once. */
    if (option(here->fd, SO_ERROR)) {}
    takes(150);
    goes_on();
}
/* LINUX: unix(7): descriptors stay with their bytes, and a read ends behind them. */
static union {
    struct cmsghdr c;
    char room[CMSG_SPACE(sizeof(int))];
} control[3];
static long sends_descriptors(long none) {
    int fd = open("/dev/null", O_RDONLY);
    buffers(3, hundreds, 1);
    control[1].c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&control[1].c), &fd, sizeof fd);
    M.m[1].msg_hdr.msg_control = &control[1];
    M.m[1].msg_hdr.msg_controllen = sizeof control[1];
    IS(sendmmsg(here->fd, M.m, 3, 0), 3);
    for (int i = 0; i < 3; i++) IS(M.m[i].msg_len, 100);
    here->out += 300;
    return close(fd);
}
static void descriptors(void) {
    if (is_tcp()) return;
    meet_and_answer();
    for (int round = 0; round < 4; round++) {
        TELL(sends_descriptors, 0, 0);
        buffers(3, hundreds, 0);
        for (int i = 0; i < 3; i++) {
            M.m[i].msg_hdr.msg_control = &control[i];
            M.m[i].msg_hdr.msg_controllen = sizeof control[i];
        }
        IS(recvmmsg(here->fd, M.m, 3, 0, 0), 3);
        for (int i = 0; i < 3; i++) {
            IS(M.m[i].msg_len, 100);
            IS(M.m[i].msg_hdr.msg_controllen, i == 1 ? sizeof control[1] : 0);
            same(M.b[i], 100, here->in);
            here->in += 100;
        }
        int fd;
        memcpy(&fd, CMSG_DATA(&control[1].c), sizeof fd);
        IS(close(fd), 0);
        goes_on();
    }
}
static void on(int s) {}
/* A signal ends it with the messages that it has. */
static void a_signal(void) {
    meet_and_answer();
    handle(SIGUSR1, on, 0);
    falls_asleep(0, takes_three, 0);
    IS(interrupts(0), -1);
    IS(errno, EINTR);
    falls_asleep(0, takes_three, 0);
    TELL(whole, 100, 100);
    still_asleep(0);
    IS(interrupts(0), 1);
}
static unsigned seed;
static long some(long most) {
    seed = seed * 1103515245 + 12345;
    return 1 + (seed >> 8) % most;
}
static int draws(long *n, long left) {
    int k = 0, most = (int)some(MANY);
    long longest = some(3) == 1 ? LONGEST : 60;
    while (k < most && left > 0) {
        n[k] = some(longest);
        if (n[k] > left) n[k] = left;
        left -= n[k++];
    }
    return k;
}
static long sends_pieces(long left) {
    long n[MANY];
    seed = 7;
    while (left > 0) {
        uint64_t was = here->out;
        int k = draws(n, left);
        if (some(4) == 1) whole(n[0]);
        else
            IS(sends_them(k, n, some(2) == 1 ? MSG_MORE : 0), k);
        left -= here->out - was;
        if (some(40) == 1) sleep_ms(1);
    }
    return 0;
}
static void at_random(void) {
    enum { MUCH = 12 << 20 };
    long n[MANY], left = MUCH;
    meet_and_answer();
    ask(sends_pieces, MUCH);
    while (left > 0) {
        uint64_t was = here->in;
        int k = draws(n, left);
        if (some(4) == 1) takes(n[0]);
        else
            CHECK(takes_them(k, n, some(3) == 1 ? MSG_WAITALL : MSG_WAITFORONE, 0) > 0, "recvmmsg");
        left -= here->in - was;
    }
    IS(answer(), 0);
    goes_on();
}
/* Another thread makes the number another connection's over a message: no byte of that is read. */
static void another_takes_the_number(void) {
    for (int way = 0; way < 2; way++) {
        meet_all(2);
        uses(0);
        round_trips();
        tell(uses, 1);
        TELL(sends, 100, 0);
        tell(uses, 0);
        falls_asleep(0, takes_three, 0);
        if (way) {
            TELL(whole, 100, 100);
            still_asleep(0);
        }
        IS(dup2(links[1].fd, here->fd), here->fd);
        for (int i = way; i < 3 && !__atomic_load_n(&sleepers[0].done, __ATOMIC_ACQUIRE); i++) {
            TELL(whole, 100, 100);
            sleep_ms(3);
        }
        /* LINUX: the file is held over all messages. Fewer of them are allowed too. */
        long k = wakes(0);
        CHECK(k >= 1 && k <= 3, "recvmmsg gave %ld", k);
        uses(1);
        takes(100);
        kill_peer();
        close(links[0].fd);
        close(links[1].fd);
    }
}
/* LINUX unix_stream_sendmsg, tcp_sendmsg: a short write comes whole to a reader that sleeps, also where a ring opens with it. */
enum { SHORT = 9000 };
static long takes_what_comes(long how) {
    static unsigned char b[65536];
    struct iovec v = {b, sizeof b};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    long n = how == 0 ? read(here->fd, b, sizeof b) : how == 1 ? recv(here->fd, b, sizeof b, 0) : recvmsg(here->fd, &m, 0);
    if (n > 0) same(b, n, here->in), here->in += n;
    return n;
}
/* A writer that loses its CPU amid a write, on a busy machine, is not waited for: then all is tried once more. */
static int is_cut(long how) {
    int cut = 0;
    joins(1);
    for (int i = 0; i < 100; i++) {
        ask(takes_what_comes, how);
        wait_asleep(peer);
        IS(write(here->fd, at(here->out), SHORT), SHORT);
        here->out += SHORT;
        long n = answer();
        CHECK(n > 0, "a read must have bytes, and gave %ld", n);
        if (n == SHORT) continue;
        cut++;
        TELL(takes, SHORT - n, 0);
    }
    kill_peer();
    close(here->fd);
    return cut;
}
static void comes_whole(void) {
    for (int how = 0; how < 3; how++) {
        int tries = 1;
        while (is_cut(how) && tries < 5) tries++;
        CHECK(tries < 5, "a short write comes in parts, by way %d", how);
    }
}
UNIX_MAIN(T(whole_messages), T(comes_whole), T(more_than_a_thousand), T(waits), T(the_end), T(a_reset), T(a_reset_behind_a_send), T(nobody_reads),
          T(bad_addresses), T(descriptors), T(a_signal), T(at_random), T(another_takes_the_number))
