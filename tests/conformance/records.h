/* Shared by poll_stream.c and epoll_stream.c, which include check.h first: sizes at random, and records that are written
 * whole (PIPE_BUF), each with its writer and number. */
static unsigned rnd(unsigned *s) { return *s = *s * 1664525 + 1013904223, *s >> 8; }
struct record {
    uint32_t by, number, sum, size;
    char more[240];
};
static uint32_t sum_of(const struct record *r) {
    uint32_t sum = r->by * 31 + r->number;
    for (unsigned i = 0; i < sizeof r->more; i++) sum = sum * 31 + (unsigned char)r->more[i];
    return sum;
}
static void write_records(int w, int by, int count) {
    struct record r = {.by = by, .size = sizeof r};
    for (int i = 0; i < count; i++) {
        r.number = i;
        fill(r.more, sizeof r.more, by * 1000 + i);
        r.sum = sum_of(&r);
        IS(write(w, &r, sizeof r), sizeof r);
    }
}
enum { WRITERS = 4, READERS = 3, RECORDS = 2500 };
/* Takes one record: 1; none is there now: -1; the end: 0. `next` has the least number that each writer's can have. */
static int take_record(int r, int *next) {
    struct record m;
    ssize_t g = read(r, &m, sizeof m);
    CHECK(g >= 0 || errno == EAGAIN, "read");
    if (g <= 0) return (int)g;
    CHECK(g == sizeof m && m.size == sizeof m, "a part of a record: %zd", g);
    CHECK(m.sum == sum_of(&m), "a record was changed");
    CHECK((int)m.number >= next[m.by], "record %u of writer %u came after %d", m.number, m.by, next[m.by] - 1);
    next[m.by] = m.number + 1;
    return 1;
}
