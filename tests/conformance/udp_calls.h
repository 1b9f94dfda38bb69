/* Shared by the programs of UDP sockets: one that sends and one that receives, of every family, cold or hot. Datagram i has the bytes
 * of the pattern from i on. */
#define MODES "cold", "hot", "hot-named", "hot6", "hot-mapped"
#include "check.h"
#include <netinet/in.h>
#include <arpa/inet.h>
enum { UDP_COLD, UDP_HOT, UDP_NAMED, UDP_SIX, UDP_MAPPED };
enum { LONGEST = 65507, RTTS = 400 };
static unsigned char B[1 << 17], C[1 << 17];
static int S, R; /* the one that sends, connected but where it is named; the one that receives */
static struct sockaddr_storage to, from;
static socklen_t to_len, from_len;
static int family(void) { return warm_mode == UDP_SIX || warm_mode == UDP_MAPPED ? AF_INET6 : AF_INET; }
static int named(void) { return warm_mode == UDP_NAMED; }
static int udp(int f) {
    int s = socket(f, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(s >= 0, "socket failed");
    return s;
}
static void bind_any_port(int s, int f) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 b = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (warm_mode == UDP_MAPPED) b.sin6_addr = in6addr_any;
    IS(f == AF_INET6 ? bind(s, (void *)&b, sizeof b) : bind(s, (void *)&a, sizeof a), 0);
}
static void name_of(int s, struct sockaddr_storage *a, socklen_t *n) {
    *n = sizeof *a;
    IS(getsockname(s, (void *)a, n), 0);
}
static ssize_t sends(const void *b, size_t n) {
    return named() ? sendto(S, b, n, 0, (void *)&to, to_len) : send(S, b, n, 0);
}
/* datagram i has n bytes of the pattern from i on */
static void put_one(long i, size_t n) {
    fill(B, n, i);
    IS(sends(B, n), n);
}
static void get_one_(int line, int fd, long i, size_t n) {
    ssize_t k = recv(fd, C, sizeof C, 0);
    if (k != (ssize_t)n) failed(line, "datagram %ld must have %zu bytes and has %zd", i, n, k);
    verify_(line, C, n, i);
}
#define get_one(i, n) get_one_(__LINE__, R, i, n)
#define nothing(fd) FAILS(recv(fd, C, sizeof C, MSG_DONTWAIT), EAGAIN)
static void meet(void) {
    int f = family(), g = warm_mode == UDP_MAPPED ? AF_INET : f;
    R = udp(f);
    bind_any_port(R, f);
    name_of(R, &to, &to_len);
    S = udp(g);
    if (warm_mode == UDP_MAPPED) { /* the sender is of IPv4 */
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        a.sin_port = ((struct sockaddr_in6 *)&to)->sin6_port;
        memcpy(&to, &a, sizeof a);
        to_len = sizeof a;
    }
    if (!named()) IS(connect(S, (void *)&to, to_len), 0);
    for (int i = 0; i < (warm_mode == UDP_COLD ? 1 : RTTS); i++) {
        put_one(i, 20);
        get_one(i, 20);
    }
    name_of(S, &from, &from_len);
}
