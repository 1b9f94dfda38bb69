/* Checks: the numbers of a hot UNIX connection: dup and its like; close and dup2 by one thread in the midst of another's call; a
 * number that is used again. A call ends with the connection that it began with.
 * Does not check: descriptors in other processes (unix_leave.c). */
#define MODES "pair", "path", "abstract", "tcp", "tcp6", "seq-pair"
#include "unix_calls.h"
enum { MUCH = 60000 };
static long at_end(long none) {
    AT_EOF(here->fd);
    return 0;
}
/* All numbers of a connection are it. */
static void many_numbers(void) {
    meet();
    int n[5] = {here->fd, dup(here->fd), fcntl(here->fd, F_DUPFD, 100), fcntl(here->fd, F_DUPFD_CLOEXEC, 200),
                dup3(here->fd, 300, O_CLOEXEC)};
    TELL(sends, MUCH, 0);
    for (int i = 0; i < 10; i++) {
        here->fd = n[i % 5];
        takes(PIECE);
        sends(1000);
    }
    takes(MUCH - 10 * PIECE);
    TELL(takes, 10000, 0);
    for (int i = 0; i < 4; i++) {
        here->fd = n[i + 1];
        IS(close(n[i]), 0);
        FAILS(read(n[i], &i, 1), EBADF);
        FAILS(write(n[i], "x", 1), EBADF);
        goes_on();
        IS(shows(), POLLOUT);
    }
    sends(MUCH);
    IS(close_range(here->fd, here->fd, 0), 0);
    TELL(takes, MUCH, 0);
    TELL(at_end, 0, 0);
}
/* dup2 of another over an end: the number is the other's, and the end's connection ends. */
static void dup_over(void) {
    meet_all(2);
    int a = links[0].fd, b = links[1].fd;
    sends(5000);
    if (type() == SOCK_STREAM) TELL(sends, 5000, 0);
    IS(dup2(b, a), a);
    TELL(takes, 5000, 0);
    tell(uses, 1);
    for (int i = 0; i < 2; i++) {
        uses(1);
        here->fd = i ? a : b;
        goes_on();
        TELL(sends, 5000, 0);
        takes(5000);
    }
}
/* A thread sleeps in a call; the number is closed, or made another connection's. The call ends with its own. */
static int to_close, with;
static void loses_its_number(int how) {
    if (how == 0) IS(close(to_close), 0);
    if (how == 1) IS(dup2(with, to_close), to_close);
    if (how == 2) IS(dup3(with, to_close, O_CLOEXEC), to_close);
    if (how == 3) IS(close_range(to_close, to_close, 0), 0);
}
static struct link *A;
static long writes_on_a(long n) { return write(A->fd, at(A->out), n); }
static void in_the_midst_of_a_write(void) {
    if (is_tcp()) return;
    if (type() != SOCK_STREAM) return;
    for (int how = 0; how < 4; how++)
        for (int reuse = 0; reuse < 2; reuse++) {
            meet_all(2);
            A = links;
            to_close = A->fd;
            with = links[1].fd;
            falls_asleep(0, writes_on_a, 1 << 20);
            TELL(takes, MUCH, 0);
            still_asleep(0);
            loses_its_number(how);
            if (reuse && how % 3 == 0) IS(fcntl(with, F_DUPFD, to_close), to_close);
            still_asleep(0);
            TELL(takes, (1 << 20) - MUCH, 0);
            IS(wakes(0), 1 << 20);
            TELL(at_end, 0, 0);
            tell(uses, 1);
            uses(1);
            TELL(finds, 0, 0);
            goes_on();
            if (reuse || how % 3) {
                here->fd = to_close;
                goes_on();
            }
            for (int i = 3; i < 20; i++) close(i);
            kill_peer();
        }
}
static long reads_on_a(long n) {
    static char b[8192];
    ssize_t k = read(A->fd, b, n);
    if (k > 0) same(b, k, A->in);
    return k;
}
static void in_the_midst_of_a_read(void) {
    if (is_tcp()) return;
    for (int how = 0; how < 4; how++)
        for (int reuse = 0; reuse < 2; reuse++) {
            meet_all(2);
            A = links;
            to_close = A->fd;
            with = links[1].fd;
            falls_asleep(0, reads_on_a, 3000);
            loses_its_number(how);
            if (reuse && how % 3 == 0) IS(fcntl(with, F_DUPFD, to_close), to_close);
            tell(uses, 1);
            TELL(sends, 500, 0);
            still_asleep(0);
            tell(uses, 0);
            TELL(whole, 300, 300);
            IS(wakes(0), 300);
            UNTIL(tell(shows_task, 0) & POLLHUP);
            TELL(at_end, 0, 0);
            tell(uses, 1);
            uses(1);
            if (reuse || how % 3) here->fd = to_close;
            takes(500);
            goes_on();
            for (int i = 3; i < 20; i++) close(i);
            kill_peer();
        }
}
/* A reader is woken on purpose: its number is made a connection that has ended, and a signal comes. */
static volatile int hits;
static void on(int s) { hits++; }
static long reads_until_end(long none) {
    char c;
    ssize_t k;
    int times = 0;
    while ((k = read(to_close, &c, 1)) < 0 && errno == EINTR) times++;
    return k ? -1 : times;
}
static void woken_by_a_marker(void) {
    int s[2];
    meet();
    to_close = here->fd;
    here->fd = dup(here->fd);
    handle(SIGUSR1, on, 0);
    IS(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
    close(s[1]);
    falls_asleep(0, reads_until_end, 0);
    IS(dup2(s[0], to_close), to_close);
    CHECK(interrupts(0) >= 1, "the signal ends the read of the old connection, and the next read is of the new one");
    TELL(sends, 1000, 0);
    takes(1000);
    goes_on();
}
/* The peer's write that sleeps for room goes on when the number here becomes another's; then it ends. */
static long breaks(long n) {
    signal(SIGPIPE, SIG_IGN);
    ssize_t k = write(here->fd, at(here->out), n);
    CHECK(k > 0 && k < n, "a part: %zd", k);
    FAILS(write(here->fd, at(here->out), n), EPIPE);
    return k;
}
static void reader_is_dupped_over(void) {
    if (is_tcp()) return;
    if (type() != SOCK_STREAM) return;
    meet_all(2);
    ask(breaks, 1 << 20);
    takes(MUCH);
    IS(dup2(links[1].fd, links[0].fd), links[0].fd);
    CHECK(answer() >= MUCH, "what was read went in");
    tell(uses, 1);
    uses(1);
    goes_on();
}
/* Numbers are closed and used again and again, by turns hot and cold, while a thread writes to another connection. */
static long writes_long(long n) {
    struct link *l = links;
    for (long k; n; n -= k) {
        k = n < PIECE ? n : PIECE;
        IS(write(l->fd, at(l->out), k), k);
        l->out += k;
    }
    return 0;
}
static void numbers_come_and_go(void) {
    meet();
    ask(takes, 1 << 20);
    sleepers[0] = (struct sleeper){.what = writes_long, .arg = 1 << 20};
    pthread_create(&sleepers[0].thread, 0, sleeps, &sleepers[0]);
    static char b[PIECE];
    for (int i = 0; i < 60; i++) {
        int s[2];
        IS(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
        for (int k = 0; k < 20; k++) {
            IS(write(s[k % 2], at(i * k), PIECE), PIECE);
            IS(read_n(s[!(k % 2)], b, PIECE), PIECE);
            same(b, PIECE, i * k);
        }
        if (i % 2) IS(dup2(s[0], s[1]), s[1]);
        close(s[0]);
        close(s[1]);
    }
    IS(wakes(0), 0);
    answer();
    goes_on();
}
/* What the number shows is the connection's that it is now. */
static void polls_by_number(void) {
    meet_all(2);
    int a = links[0].fd, b = links[1].fd;
    tell(uses, 0);
    TELL(sends, 100, 0);
    IS(events(a, POLLIN, 0), POLLIN);
    IS(events(b, POLLIN, 0), 0);
    int first = dup(a);
    IS(dup2(b, a), a);
    IS(events(a, POLLIN, 0), 0);
    IS(events(first, POLLIN, 0), POLLIN);
    tell(uses, 1);
    TELL(sends, 100, 0);
    IS(events(a, POLLIN, 0), POLLIN);
    uses(1);
    takes(100);
    IS(events(a, POLLIN, 0), 0);
    uses(0);
    here->fd = first;
    takes(100);
    IS(events(first, POLLIN, 0), 0);
}
UNIX_MAIN(T(many_numbers), T(dup_over), T(in_the_midst_of_a_write), T(in_the_midst_of_a_read),
          T(woken_by_a_marker), T(reader_is_dupped_over),
          T(numbers_come_and_go), T(polls_by_number))
