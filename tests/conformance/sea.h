/* Shared by programs that carry megabytes, which include check.h first: a pattern that costs nothing for each byte. */
/* every byte at position i of a stream is sea[i % PERIOD]: no cost per byte to make, memcmp to check */
enum { PERIOD = 99991, SEA = 1 << 20 };
static unsigned char sea[PERIOD + SEA];
static void sea_init(void) {
    uint64_t x = 88172645463325252ull;
    for (int i = 0; i < PERIOD + SEA; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        sea[i] = i < PERIOD ? (unsigned char)(x >> 24) : sea[i - PERIOD];
    }
}
static const unsigned char *at(uint64_t pos) { return sea + pos % PERIOD; } /* SEA bytes from there */
static void same_(int line, const void *b, size_t n, uint64_t pos) {
    if (!memcmp(b, at(pos), n)) return;
    for (size_t i = 0; i < n; i++)
        if (((const unsigned char *)b)[i] != at(pos)[i])
            failed(line, "the byte at position %llu of the stream is not the one written there",
                   (unsigned long long)(pos + i));
}
#define same(b, n, pos) same_(__LINE__, b, n, pos)
