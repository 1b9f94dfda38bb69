/* Checks: a read returns what is there and takes exactly that; the rest is for whoever reads next.
 * Does not check: fairness between concurrent readers. */
#include "check.h"
/* LINUX: read(2): it is not an error if fewer bytes come than asked; "bytes actually available right now". */
static void short_read(void) {
    int p[2];
    char b[100];
    mkpipe(p);
    put(p[1], 10, 0);
    IS(read(p[0], b, 100), 10);
    verify(b, 10, 0);
}
static void blocked_read_gets_first_write(void) {
    int p[2];
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        char b[1000];
        close(p[1]);
        IS(read(p[0], b, 1000), 3);
        verify(b, 3, 0);
        _exit(0);
    }
    wait_asleep(c);
    put(p[1], 3, 0);
    REAP0(c);
}
static void rest_for_another_process(void) {
    int p[2];
    char b[100];
    mkpipe(p);
    put(p[1], 100, 0);
    IS(read(p[0], b, 30), 30);
    pid_t c = child();
    if (!c) {
        IS(read(p[0], b, 100), 70);
        verify(b, 70, 30);
        _exit(0);
    }
    REAP0(c);
}
static void two_processes_in_turn(void) {
    enum { TOTAL = 1 << 20 };
    int p[2], s[2];
    mkpipe(p);
    socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s);
    pid_t w = child();
    if (!w) {
        close(p[0]);
        put(p[1], TOTAL, 0);
        _exit(0);
    }
    close(p[1]);
    pid_t c = child();
    int me = s[c ? 0 : 1];
    uint64_t pos = 0;
    if (c) write(s[0], &pos, 8);
    unsigned x = c ? 1 : 2;
    static char b[9000];
    close(s[c ? 1 : 0]);
    for (;;) {
        if (read(me, &pos, 8) != 8) break;
        x = x * 1103515245 + 12345;
        ssize_t k = 1 + (x >> 10) % 9000, g = read(p[0], b, k);
        CHECK(g >= 0 && g <= k, "read gave %zd for %zd", g, k);
        verify(b, g, pos);
        pos += g;
        if (g == 0) {
            IS(pos, TOTAL);
            break;
        }
        if (write(me, &pos, 8) != 8) break;
    }
    close(me);
    if (!c) _exit(0);
    REAP0(c);
    REAP0(w);
}
static void concurrent_readers_share(void) {
    enum { TOTAL = 1 << 20 };
    int p[2];
    mkpipe(p);
    uint64_t *h = shared(3 * 2048);
    pid_t c[3];
    for (int i = 0; i < 3; i++)
        if (!(c[i] = child())) {
            close(p[1]);
            unsigned char b[3000];
            ssize_t g;
            while ((g = read(p[0], b, 1 + 997 * (i + 1))) > 0)
                while (g) h[i * 256 + b[--g]]++;
            IS(g, 0);
            _exit(0);
        }
    put(p[1], TOTAL, 0);
    close(p[1]);
    for (int i = 0; i < 3; i++) REAP0(c[i]);
    for (uint64_t i = 0; i < TOTAL; i++) h[pat(i)]--;
    for (int i = 0; i < 256; i++)
        CHECK(h[i] + h[i + 256] + h[i + 512] == 0, "the readers together must get each byte once");
}
static void cat_rest(int r, int keep, size_t n, uint64_t pos,
                     char *const argv[]) { /* argv copies stdin = r to our pipe o */
    int o[2];
    mkpipe(o);
    pid_t c = child();
    if (!c) {
        close(keep);
        dup2(r, 0);
        dup2(o[1], 1);
        close(o[0]);
        close(o[1]);
        execv(argv[0], argv);
        _exit(9);
    }
    close(keep);
    close(o[1]);
    get(o[0], n, pos);
    AT_EOF(o[0]);
    REAP0(c);
}
static void one_byte_reads_then_cat(void) {
    int p[2];
    char x;
    mkpipe(p);
    put(p[1], 20000, 0);
    for (int i = 0; i < 1234; i++) {
        IS(read(p[0], &x, 1), 1);
        verify(&x, 1, i);
    }
    cat_rest(p[0], p[1], 20000 - 1234, 1234, (char *[]){"/bin/cat", 0});
}
static void one_byte_reads_then_cat_live_writer(void) {
    int p[2];
    char x;
    mkpipe(p);
    pid_t w = child();
    if (!w) {
        close(p[0]);
        put(p[1], 300000, 0);
        _exit(0);
    }
    for (int i = 0; i < 1234; i++) {
        IS(read(p[0], &x, 1), 1);
        verify(&x, 1, i);
    }
    cat_rest(p[0], p[1], 300000 - 1234, 1234, (char *[]){"/bin/cat", 0});
    REAP0(w);
}
static void shell_read_then_cat(void) {
    int p[2];
    mkpipe(p);
    write_all(p[1], "one\ntwo\n", 8);
    put(p[1], 9000, 5);
    cat_rest(p[0], p[1], 9000, 5,
             (char *[]){"/bin/sh", "-c", "read a; read b; test \"$a$b\" = onetwo && cat", 0});
}
static void head_then_cat(void) {
    int p[2];
    mkpipe(p);
    put(p[1], 9000, 0);
    cat_rest(p[0], p[1], 8990, 10,
             (char *[]){"/bin/sh", "-c", "dd bs=1 count=10 of=/dev/null 2>/dev/null; cat", 0});
}
MAIN(T(short_read), T(blocked_read_gets_first_write), T(rest_for_another_process), T(two_processes_in_turn),
     T(concurrent_readers_share), T(one_byte_reads_then_cat), T(one_byte_reads_then_cat_live_writer),
     T(shell_read_then_cat), T(head_then_cat))
