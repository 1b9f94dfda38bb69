/* What the programs of alike.sh draw their calls from, and how they say what came of them.
 * Invariant: the same seed gives the same calls, with the same bytes; no two writes have the same.
 * Not here: which calls there are (alone.c, together_calls.h). */
#include <errno.h>
#include <stddef.h>
static unsigned long *state;
static unsigned *filled;
static unsigned draw(unsigned below) {
    *state = *state * 6364136223846793005ul + 1442695040888963407ul;
    return (*state >> 33) % below;
}
#define ONE_OF(list) (list)[draw(sizeof(list) / sizeof *(list))]
static void seeds(unsigned long seed) {
    *state = seed * 7919 + 1;
    for (int i = 0; i < 20; i++) draw(2);
}
/* The next bytes to write. */
static void fill_at(unsigned char *p, size_t n) {
    for (size_t i = 0; i < n; i++) p[i] = ((*filled)++ * 2654435761u) >> 24;
}
/* Goes on from the sum h; the first is SUM. */
enum { SUM = 16777619 };
static unsigned sum(unsigned h, const void *p, long n) {
    const unsigned char *at = p;
    for (long i = 0; i < n; i++) h = (h ^ at[i]) * 16777619u;
    return h;
}
static long answer(long r) { return r < 0 ? -errno : r; }
static size_t length(void) {
    static const size_t lengths[] = {0, 1, 1, 2, 7, 8, 9, 33, 64, 100, 100, 1000, 4095, 4096, 4097, 9000};
    return ONE_OF(lengths);
}
