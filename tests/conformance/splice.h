/* Shared by splice_pipes.c and splice_waits.c, which include check.h, records.h and sea.h first: two pipes, what moves bytes
 * between them, and the ends of a stream. */
enum { TOTAL = 24 << 20, LONGEST = 1 << 17 };
/* What a pipe holds without a reader. */
static size_t some(void) { return holds() < 20000 ? holds() : 20000; }
static int P[2], Q[2];
static void both(void) {
    sea_init();
    mkpipe(P);
    mkpipe(Q);
}
/* All of n bytes, however many calls that takes. */
static void splice_all(int from, int to, size_t n) {
    while (n) {
        ssize_t k = splice(from, 0, to, 0, n, 0);
        CHECK(k > 0, "splice gave %zd", k);
        n -= k;
    }
}
/* Splices to the end, as much at a time as `most` says, or at random. */
static size_t relay(int from, int to, size_t most, unsigned seed, int flags) {
    size_t n = 0;
    for (;;) {
        size_t k = most ? most : 1 + rnd(&seed) % (rnd(&seed) % 3 ? 700 : LONGEST);
        ssize_t g = splice(from, 0, to, 0, k, flags);
        if (!g) return n;
        if (g < 0 && errno == EAGAIN) {
            CHECK(events(from, POLLIN, 15000), "no bytes come");
            CHECK(events(to, POLLOUT, 15000), "no room comes");
            continue;
        }
        CHECK(g > 0 && g <= (ssize_t)k, "splice gave %zd of %zu", g, k);
        n += g;
    }
}
static void writes(int w, size_t total, unsigned s) {
    for (size_t n = 0, k; n < total; n += k) {
        k = 1 + rnd(&s) % (rnd(&s) % 3 ? 900 : LONGEST);
        if (k > total - n) k = total - n;
        write_all(w, at(n), k);
    }
}
static void reads(int r, size_t total, unsigned s) {
    static char b[LONGEST];
    size_t n = 0;
    for (;;) {
        ssize_t g = read(r, b, 1 + rnd(&s) % (rnd(&s) % 3 ? 900 : LONGEST));
        CHECK(g >= 0, "read");
        if (!g) break;
        same(b, g, n);
        n += g;
    }
    IS(n, total);
}
