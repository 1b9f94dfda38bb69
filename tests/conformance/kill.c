/* Checks: N rounds (argument, default 200) of writer -> relay -> reader, one SIGKILLed after 0..3 ms:
 * survivors see an exact prefix, then EOF or EPIPE, within 5 s. Does not check: SIGKILL of several at once;
 * stops (life.c). */
#include "check.h"
/* LINUX: a dead process's ends are closed: readers see EOF after what was written, writers EPIPE. */
static int rounds = 200;
static void all(void) {
    unsigned x = 12345;
    uint64_t *got = shared(4096);
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < rounds; i++) {
        alarm(20);
        int a[2], b[2];
        pid_t p[3];
        CHECK(!pipe(a) && !pipe(b), "pipe");
        got[0] = 0;
        x = x * 1103515245 + 12345;
        size_t ws = (size_t[]){100, 4096, 10000, 70000}[(x >> 16) % 4];
        if (!(p[0] = child())) {
            close(a[0]);
            close(b[0]);
            close(b[1]);
            static char d[70000];
            for (uint64_t at = 0;;) {
                fill(d, ws, at);
                ssize_t g = write(a[1], d, ws);
                if (g < 0) {
                    CHECK(errno == EPIPE, "the writer must see EPIPE");
                    _exit(0);
                }
                at += g;
            }
        }
        if (!(p[1] = child())) {
            close(a[1]);
            close(b[0]);
            static char d[9000];
            uint64_t at = 0;
            for (;;) {
                ssize_t g = read(a[0], d, sizeof d);
                CHECK(g >= 0, "relay read");
                if (!g) _exit(0);
                verify(d, g, at);
                at += g;
                for (ssize_t o = 0; o < g;) {
                    ssize_t k = write(b[1], d + o, g - o);
                    if (k < 0) {
                        CHECK(errno == EPIPE, "the relay must see EPIPE");
                        _exit(0);
                    }
                    o += k;
                }
            }
        }
        if (!(p[2] = child())) {
            close(a[0]);
            close(a[1]);
            close(b[1]);
            static char d[7000];
            uint64_t at = 0;
            for (;;) {
                ssize_t g = read(b[0], d, sizeof d);
                CHECK(g >= 0, "reader read");
                if (!g) _exit(0);
                verify(d, g, at);
                at += g;
            }
        }
        close(a[0]);
        close(a[1]);
        close(b[0]);
        close(b[1]);
        x = x * 1103515245 + 12345;
        int v = (x >> 16) % 3;
        x = x * 1103515245 + 12345;
        usleep((x >> 12) % 3000);
        kill(p[v], SIGKILL);
        double t0 = now();
        for (int k = 0; k < 3; k++) {
            int s;
            pid_t r;
            while (!(r = waitpid(p[k], &s, WNOHANG))) {
                CHECK(now() - t0 < 5, "round %d: process %d of 3 hung 5 s after process %d was killed", i, k,
                      v);
                usleep(200);
            }
            CHECK(k == v ? WIFSIGNALED(s) && WTERMSIG(s) == SIGKILL : s == 0,
                  "round %d: process %d ended with 0x%x after process %d was killed", i, k, s, v);
        }
    }
}
int main(int c, char **v) {
    if (c > 1 && atoi(v[1]) > 0) rounds = atoi(v[1]);
    static const struct test t[] = {{"all", all, 1}, {0}};
    return run_all(t, 0);
}
