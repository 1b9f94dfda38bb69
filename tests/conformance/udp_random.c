/* Checks: one UDP server and several clients that do random things: sizes, calls, waits, forks, sleeps; some are killed. No
 * datagram is lost where no more are under way than a receiver has room for; each client's come in order, and whole.
 *   udp_random [SEED [ROUNDS [CASE]]]
 * Does not check: single calls and their errors (udp_calls.c). */
#define MODES "udp", "udp6", "udp-epoll"
enum { UDP_FOUR, UDP_SIX, UDP_EPOLL };
#include "check.h"
#include <arpa/inet.h>
#include <netinet/in.h>
enum { CLIENTS = 3, WINDOW = 8, HEAD = 24, LONGEST = 4000 };
static long seed = 1, rounds = 3000;
static unsigned long state;
static unsigned rnd(unsigned n) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % n;
}
struct head {
    uint64_t client, seq, size;
};
static struct sockaddr_storage server;
static socklen_t server_len;
static unsigned char b[1 << 16];
static int udp(void) {
    int s = socket(warm_mode == UDP_SIX ? AF_INET6 : AF_INET, SOCK_DGRAM, 0);
    CHECK(s >= 0, "socket failed");
    return s;
}
static size_t make(uint64_t client, uint64_t seq) {
    struct head h = {client, seq, HEAD + (rnd(3) ? rnd(60) : rnd(LONGEST))};
    memcpy(b, &h, sizeof h);
    fill(b + HEAD, h.size - HEAD, client * 7919 + seq);
    return h.size;
}
static struct head check(ssize_t n) {
    struct head h;
    CHECK(n >= HEAD, "a datagram of %zd bytes", n);
    memcpy(&h, b, sizeof h);
    CHECK(h.size == (uint64_t)n, "datagram %llu of client %llu has %zd of %llu bytes", (unsigned long long)h.seq,
          (unsigned long long)h.client, n, (unsigned long long)h.size);
    verify(b + HEAD, n - HEAD, h.client * 7919 + h.seq);
    return h;
}
/* The server's set, what it asks for, and the pipe that is in it, too. */
static int beside[2];
static uint32_t way;
static int set_of(int s) {
    struct epoll_event v = {.events = way = EPOLLIN, .data.fd = s}, w = {.events = EPOLLIN, .data.fd = -1};
    int e = epoll_create1(0);
    IS(pipe(beside), 0);
    IS(epoll_ctl(e, EPOLL_CTL_ADD, s, &v), 0);
    IS(epoll_ctl(e, EPOLL_CTL_ADD, beside[0], &w), 0);
    return e;
}
/* Waits by set `e`, which has `s` and a pipe that is ready now and then, and is changed in between. */
static void waits_by(int e, int s) {
    struct epoll_event v[3];
    int changes = !rnd(20);
    if (!rnd(300)) IS(write(beside[1], b, 1), 1);
    if (changes) way = EPOLLIN | (rnd(2) ? EPOLLET : 0) | (rnd(3) ? 0 : EPOLLOUT);
    struct epoll_event to = {.events = way, .data.fd = s};
    /* by edge, what is left is told again after a change alone */
    if (changes && rnd(2)) {
        IS(epoll_ctl(e, EPOLL_CTL_DEL, s, &to), 0);
        IS(epoll_ctl(e, EPOLL_CTL_ADD, s, &to), 0);
    } else if (changes || way & EPOLLET)
        IS(epoll_ctl(e, EPOLL_CTL_MOD, s, &to), 0);
    for (double t = now(); now() - t < 8;) {
        int n = epoll_wait(e, v, 1 + rnd(3), rnd(4) ? 8000 : 0), there = 0;
        CHECK(n >= 0, "epoll_wait");
        for (int i = 0; i < n; i++) {
            if (v[i].data.fd == -1) IS(read(beside[0], b, 1), 1);
            else there = v[i].events & EPOLLIN;
        }
        if (there) return;
    }
    CHECK(0, "it must come");
}
/* Waits for a datagram, at most 8 s, and takes it, by some call. */
static ssize_t takes(int s, int e, struct sockaddr_storage *a, socklen_t *an) {
    struct iovec v[2] = {{b, 11}, {b + 11, sizeof b - 11}};
    struct msghdr m = {.msg_name = a, .msg_namelen = sizeof *a, .msg_iov = v, .msg_iovlen = 2};
    struct timeval tv = {8, 0};
    fd_set set;
    *an = sizeof *a;
    if (e >= 0 && rnd(8)) waits_by(e, s);
    else switch (rnd(6)) {
    case 0: CHECK(events(s, POLLIN, 8000) & POLLIN, "it must come"); break;
    case 1:
        FD_ZERO(&set);
        FD_SET(s, &set);
        IS(select(s + 1, &set, 0, 0, &tv), 1);
        break;
    case 2:
        for (double t = now(); !(events(s, POLLIN, 0) & POLLIN);) CHECK(now() - t < 8, "it must come");
        break;
    case 3: CHECK(recv(s, b, rnd(30), MSG_PEEK) >= 0, "a look failed"); break;
    }
    if (rnd(2)) return recvfrom(s, b, sizeof b, 0, (void *)a, an);
    ssize_t n = recvmsg(s, &m, 0);
    *an = m.msg_namelen;
    return n;
}
static void serves(int s, unsigned long mine) {
    static uint64_t next[1 << 12];
    state = mine;
    int e = warm_mode == UDP_EPOLL ? set_of(s) : -1;
    for (;;) {
        struct sockaddr_storage a;
        socklen_t an;
        if (!rnd(e < 0 ? 400 : 1500)) {
            pid_t c = child();
            if (c) { /* the child goes on */
                int st = reap(c);
                _exit(WIFEXITED(st) ? WEXITSTATUS(st) : 1);
            }
            if (e >= 0 && rnd(4)) { /* with a set of its own */
                close(e);
                e = set_of(s);
            }
        }
        ssize_t n = takes(s, e, &a, &an);
        struct head h = check(n);
        if (h.client == ~0ull) _exit(0);
        CHECK(h.client < 1 << 12, "client");
        CHECK(h.seq == next[h.client], "client %llu: %llu came, and %llu was next", (unsigned long long)h.client,
              (unsigned long long)h.seq, (unsigned long long)next[h.client]);
        next[h.client]++;
        size_t k = make(h.client, h.seq);
        sendto(s, b, k, 0, (void *)&a, an);
        if (!rnd(200)) usleep(rnd(3000));
    }
}
static void asks(uint64_t client, unsigned long mine) {
    state = mine;
    int s = udp(), named = rnd(2), one_by_one = rnd(2);
    if (!named) IS(connect(s, (void *)&server, server_len), 0);
    uint64_t out = 0, in = 0;
    while (in < (uint64_t)rounds) {
        unsigned window = one_by_one ? 1 : 1 + rnd(WINDOW);
        while (out < (uint64_t)rounds && out - in < window) {
            size_t n = make(client, out++);
            IS(named ? sendto(s, b, n, 0, (void *)&server, server_len) : send(s, b, n, rnd(2) ? MSG_DONTWAIT : 0), n);
        }
        if (!rnd(300)) usleep(rnd(3000));
        if (!rnd(900)) {
            pid_t c = child();
            if (c) {
                int st = reap(c);
                _exit(WIFEXITED(st) ? WEXITSTATUS(st) : 1);
            }
        }
        if (!rnd(700)) { /* by another number */
            int d = dup(s);
            close(s);
            s = d;
        }
        struct sockaddr_storage a;
        socklen_t an;
        ssize_t n = takes(s, -1, &a, &an);
        CHECK(an == server_len && !memcmp(&a, &server, an), "it must be the server's");
        struct head h = check(n);
        CHECK(h.client == client && h.seq == in, "client %llu: %llu came, and %llu was next", (unsigned long long)client,
              (unsigned long long)h.seq, (unsigned long long)in);
        in++;
    }
    _exit(0);
}
static void random_things(int kills) {
    int s = udp();
    struct sockaddr_in a4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    IS(warm_mode == UDP_SIX ? bind(s, (void *)&a6, sizeof a6) : bind(s, (void *)&a4, sizeof a4), 0);
    server_len = sizeof server;
    IS(getsockname(s, (void *)&server, &server_len), 0);
    pid_t srv = child();
    if (!srv) serves(s, seed * 100 + 1);
    close(s);
    state = seed * 31 + 7;
    pid_t all[CLIENTS];
    uint64_t client = 0;
    for (int i = 0; i < CLIENTS; i++, client++)
        if (!(all[i] = child())) asks(client, seed * 100 + 10 + client);
    for (int k = 0; k < kills; k++) {
        int i = rnd(CLIENTS), st;
        usleep(rnd(60000));
        kill(all[i], SIGKILL);
        st = reap(all[i]);
        CHECK(!st || WIFSIGNALED(st), "a client failed");
        if (!(all[i] = child())) asks(client, seed * 100 + 10 + client);
        client++;
    }
    for (int i = 0; i < CLIENTS; i++) REAP0(all[i]);
    s = udp();
    size_t n = make(~0ull, 0);
    IS(sendto(s, b, n, 0, (void *)&server, server_len), n);
    REAP0(srv);
}
static void in_order(void) { random_things(0); }
static void are_killed(void) {
    rounds /= 2;
    random_things(12);
}
static const struct test tests[] = {{"in_order", in_order}, {"are_killed", are_killed}, {0}};
int main(int c, char **v) {
    if (c > 1) seed = atol(v[1]);
    if (c > 2) rounds = atol(v[2]);
    return run_all(tests, c > 3 ? v[3] : 0);
}
