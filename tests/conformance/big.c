/* Checks: 64 MiB through each write size, every byte at its position, then EOF. Reads use other sizes.
 * Does not check: speed. Size 1 carries 256 KiB only, 7 carries 2 MiB, to stay quick on the kernel. */
#include "check.h"
/* LINUX: pipe(7): the channel is a byte stream; order kept, no message boundaries. */
static void run(size_t sz, size_t total, size_t rd) {
    int p[2];
    mkpipe(p);
    char pad = 0;
    size_t per = 1 << 20;
    unsigned char *src = malloc(per + sz + 256), *b = malloc(rd);
    /* pattern of period 1 MiB - 1 plus the position's high part: a shift by any amount shows */
    for (size_t i = 0; i < per + sz; i++) src[i] = pat(i % (per - 1));
    pid_t c = child();
    if (!c) {
        close(p[0]);
        for (size_t at = 0; at < total;) {
            size_t k = total - at < sz ? total - at : sz;
            write_all(p[1], src + at % (per - 1), k);
            at += k;
        }
        _exit(0);
    }
    close(p[1]);
    size_t at = 0;
    ssize_t g;
    while ((g = read(p[0], b, rd)) > 0)
        for (ssize_t o = 0; o < g;) {
            size_t s = at % (per - 1), k = per - 1 - s;
            if (k > (size_t)(g - o)) k = g - o;
            CHECK(!memcmp(b + o, src + s, k), "bytes at %zu..%zu of the stream are not those written", at,
                  at + k);
            at += k;
            o += k;
        }
    IS(g, 0);
    IS(at, total);
    REAP0(c);
}
static void size_1(void) { run(1, 256 << 10, 4096); }
static void size_7(void) { run(7, 2 << 20, 5000); }
static void size_511(void) { run(511, 16 << 20, 65536); }
static void size_4096(void) { run(4096, 64 << 20, 65536); }
static void size_65536(void) { run(65536, 64 << 20, 4096); }
static void size_1000000(void) { run(1000000, 64 << 20, 131072); }
static void read_1(void) { run(4096, 256 << 10, 1); }
MAIN(ONCE(size_1), ONCE(size_7), ONCE(size_511), ONCE(size_4096), ONCE(size_65536), ONCE(size_1000000),
     ONCE(read_1))
