/* Checks: sendfile from a regular file to a hot stream, beside writes: every byte once and in order; what it returns; where the
 * offset, or the file's own position, stands; the end of the file, a full socket, a reader that sleeps, a number that is none, signals
 * and threads.
 * Does not check: files of other kinds to pipes (deopt.c), one call on an idle connection (unix_outside.c). */
#include "unix_calls.h"
#include <sys/sendfile.h>
enum { FILE_BYTES = PERIOD + SEA / 2 };
static int file;
/* A file whose byte i is the sea's, and so the stream's. */
static void makes_file(void) {
    char path[] = "/tmp/byway-sendfile-XXXXXX";
    file = mkstemp(path);
    CHECK(file >= 0 && !unlink(path), "mkstemp");
    for (long n = 0, k; n < FILE_BYTES; n += k) {
        k = write(file, sea + n, FILE_BYTES - n);
        CHECK(k > 0, "write");
    }
}
static void meet_with_file(void) {
    if (!file) makes_file();
    meet_and_answer();
}
static off_t stands(void) { return lseek(file, 0, SEEK_CUR); }
/* The stream's next n bytes, of the file, by its own position or by an offset. */
static long sends_file(long n, int by_offset) {
    off_t from = (off_t)(here->out % PERIOD), other = 12345;
    if (by_offset) {
        off_t o = from;
        CHECK(lseek(file, other, SEEK_SET) == other, "lseek");
        ssize_t k = sendfile(here->fd, file, &o, n);
        IS(o, from + (k > 0 ? k : 0));
        IS(stands(), other);
        if (k > 0) here->out += k;
        return k;
    }
    CHECK(lseek(file, from, SEEK_SET) == from, "lseek");
    ssize_t k = sendfile(here->fd, file, 0, n);
    IS(stands(), from + (k > 0 ? k : 0));
    if (k > 0) here->out += k;
    return k;
}
static const long sizes[] = {1, 100, 4095, 4096, 4097, 5000, 20000, 32768, 32769, 48833, 65535, 65536, 100000};
enum { SIZES_OF = sizeof sizes / sizeof *sizes, SHORT = 8 };
static void beside_writes(void) {
    meet_with_file();
    for (int i = 0; i < 120; i++) {
        long n = sizes[i % (i < 60 ? SHORT : SIZES_OF)], sum = n + (i % 3 ? 77 : 0);
        if (i & 1) ask(takes, sum);
        if (i % 3) whole(70);
        IS(sends_file(n, i & 2), n);
        if (i % 3) whole(7);
        if (!(i & 1)) ask(takes, sum);
        IS(answer(), 0);
    }
    goes_on();
}
/* Each wakes a reader that sleeps. */
static long takes_parts(long k) {
    for (long i = 0; i < k; i++) takes(sizes[i % 6]);
    return 0;
}
static void a_reader_sleeps(void) {
    meet_with_file();
    for (int i = 0; i < 60; i++) {
        ask(takes_parts, 6);
        for (int k = 0; k < 6; k++) {
            if (i % 6 == k) sleep_ms(2);
            IS(sends_file(sizes[k], i & 1), sizes[k]);
        }
        IS(answer(), 0);
    }
}
/* Answers of a header and a file, as a web server has them; corked over TCP. */
static long serves(long n) {
    int on = 1, off = 0;
    makes_file();
    for (; n > 0; n--) {
        takes(10);
        if (is_tcp()) IS(setsockopt(here->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on), 0);
        whole(238);
        IS(sends_file(4096, (int)n & 1), 4096);
        if (is_tcp()) IS(setsockopt(here->fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off), 0);
    }
    return 0;
}
static void a_server(void) {
    enum { ROUNDS = 1000 };
    meet_with_file();
    ask(serves, ROUNDS);
    for (int i = 0; i < ROUNDS; i++) {
        whole(10);
        takes(238 + 4096);
    }
    IS(answer(), 0);
    goes_on();
}
static void to_the_end(void) {
    off_t o = FILE_BYTES - 30;
    meet_with_file();
    /* To where the file's last bytes are the stream's. */
    while (here->out % PERIOD != (FILE_BYTES - 30) % PERIOD) {
        long n = ((FILE_BYTES - 30) % PERIOD + PERIOD - (long)(here->out % PERIOD)) % PERIOD;
        if (n > 4096) n = 4096;
        whole(n);
        TELL(takes, n, 0);
    }
    IS(sendfile(here->fd, file, &o, 100), 30);
    IS(o, FILE_BYTES);
    here->out += 30;
    IS(sendfile(here->fd, file, &o, 100), 0);
    IS(o, FILE_BYTES);
    TELL(takes, 30, 0);
    lseek(file, FILE_BYTES, SEEK_SET);
    IS(sendfile(here->fd, file, 0, 100), 0);
    o = FILE_BYTES + 5000;
    IS(sendfile(here->fd, file, &o, 100), 0);
    IS(o, FILE_BYTES + 5000);
    o = 0;
    IS(sendfile(here->fd, file, &o, 0), 0);
    goes_on();
}
static void what_is_wrong(void) {
    off_t o = -1;
    int p[2], w = open("/dev/null", O_WRONLY), z = open("/proc/self/stat", O_RDONLY);
    meet_with_file();
    FAILS(sendfile(here->fd, file, &o, 10), EINVAL);
    FAILS(sendfile(here->fd, file, (void *)8, 10), EFAULT);
    o = 0;
    FAILS(sendfile(here->fd, 999, &o, 10), EBADF);
    FAILS(sendfile(here->fd, w, &o, 10), EBADF);
    FAILS(sendfile(999, file, &o, 10), EBADF);
    IS(pipe(p), 0);
    FAILS(sendfile(here->fd, p[0], &o, 10), ESPIPE);
    FAILS(sendfile(here->fd, here->fd, 0, 10), EINVAL);
    IS(o, 0);
    static char a[64], b[64];
    o = 3;
    IS(pread(z, a, 9, 3), 9);
    ssize_t k = sendfile(here->fd, z, &o, 9);
    if (k > 0) {
        IS(k, 9);
        IS(o, 12);
        /* Bytes that are none of the stream's pattern. */
        memcpy(b, a, 9);
    }
    close(w), close(z), close(p[0]), close(p[1]);
    kill_peer();
}
static void nobody_reads(void) {
    off_t o = 50;
    meet_with_file();
    TELL(closes, 0, 0);
    UNTIL(shows() & POLLRDHUP);
    signal(SIGPIPE, SIG_IGN);
    if (is_tcp()) {
        IS(sendfile(here->fd, file, &o, 1), 1);
        UNTIL(shows() & POLLHUP);
        IS(o, 51);
    }
    long was = o;
    FAILS(sendfile(here->fd, file, &o, 1000), EPIPE);
    IS(o, was);
}
/* A call that may not wait sends what there is room for; one that may waits. */
static void is_full(void) {
    meet_with_file();
    for (int round = 0; round < 3; round++) {
        long n = 0, k;
        no_delay(0);
        while ((k = sends_file(20000, round & 1)) > 0) {
            n += k;
            CHECK(n < 64 << 20, "it never fills");
        }
        CHECK(k < 0 && errno == EAGAIN, "a full socket must say EAGAIN");
        no_delay(1);
        ask(takes, n + 60000);
        for (int i = 0; i < 3; i++) IS(sends_file(20000, i & 1), 20000);
        IS(answer(), 0);
        goes_on();
    }
}
static void on(int s) {}
/* So much of the file in calls of so much. */
static long piece;
static long sends_much(long n) {
    for (long k; n > 0; n -= k) {
        k = sends_file(n < piece ? n : piece, 1);
        if (k < 0) {
            IS(errno, EINTR);
            k = 0;
        }
    }
    return 0;
}
enum { MUCH = 8 << 20 };
/* A handler runs over calls that wait for room: nothing is lost or sent twice. */
static void signals_over(long n) {
    piece = n;
    for (int restart = 0; restart < 2; restart++) {
        meet_with_file();
        handle(SIGUSR1, on, restart ? SA_RESTART : 0);
        falls_asleep(0, sends_much, MUCH);
        for (int i = 0; i < 40; i++) {
            pthread_kill(sleepers[0].thread, SIGUSR1);
            TELL(takes, 30000, 0);
        }
        TELL(takes, MUCH - 40 * 30000, 0);
        IS(wakes(0), 0);
        goes_on();
        kill_peer();
        close(here->fd);
    }
}
static void signals(void) { signals_over(30000); }
/* Calls of more than a ring holds. */
enum { LONG = 400000 };
static void long_ones(void) {
    static const long longs[] = {65537, 131072, 200001, LONG, 500000};
    meet_with_file();
    for (int i = 0; i < 40; i++) {
        long n = longs[i % 5];
        ask(takes, n + 77);
        if (i % 3 == 1) sleep_ms(1);
        whole(70);
        IS(sends_file(n, i & 1), n);
        whole(7);
        IS(answer(), 0);
    }
    goes_on();
}
static void long_and_signals(void) { signals_over(LONG); }
/* Something that a ring knows nothing of, while such a call waits. */
static long shrinks(long n) { return set_option(here->fd, SO_RCVBUF, (int)n), 0; }
static long splices(long n) {
    int p[2];
    unsigned char b[4096];
    IS(pipe(p), 0);
    ssize_t k = splice(here->fd, 0, p[1], 0, n, 0);
    CHECK(k > 0, "splice");
    IS(read(p[0], b, sizeof b), k);
    same(b, k, here->in);
    here->in += k;
    close(p[0]), close(p[1]);
    return k;
}
static void long_and_interrupted(void) {
    piece = LONG;
    for (int i = 0; i < 2; i++) {
        meet_with_file();
        falls_asleep(0, sends_much, MUCH);
        TELL(takes, 50000, 0);
        long k = tell(i ? splices : shrinks, i ? 3000 : 100000);
        TELL(takes, MUCH - 50000 - k, 0);
        IS(wakes(0), 0);
        goes_on();
        kill_peer();
        close(here->fd);
    }
}
/* Nobody reads: the call says how much was sent before its time was over, and the offset is behind that. */
static void long_with_a_time(void) {
    long n = 0, k;
    meet_with_file();
    set_time(here->fd, SO_SNDTIMEO, 50);
    while ((k = sends_file(LONG, n & 1)) > 0) {
        n += k;
        CHECK(n < 64 << 20, "it never fills");
    }
    IS(errno, EAGAIN);
    TELL(takes, n, 0);
    goes_on();
}
/* The peer goes while the call waits. */
static long takes_and_goes(long n) {
    takes(n);
    lingers(0);
    return 0;
}
static long sends_until_it_fails(long none) {
    while (sends_file(LONG, 1) > 0);
    return errno;
}
static void long_and_the_peer_goes(void) {
    meet_with_file();
    signal(SIGPIPE, SIG_IGN);
    falls_asleep(0, sends_until_it_fails, 0);
    TELL(takes_and_goes, 50000, 0);
    long e = wakes(0);
    CHECK(e == EPIPE || e == ECONNRESET, "it must fail, and gave errno %ld", e);
}
/* Another thread makes the file's number another file's: what the call sends is the first one's. */
static int number;
static long sends_by_number(long n) {
    off_t from = (off_t)(here->out % PERIOD);
    return sendfile(here->fd, number, &from, n);
}
static void long_and_the_file_goes(void) {
    if (is_tcp()) return; /* its buffers may take all of the call */
    meet_with_file();
    FILE *other = tmpfile();
    static char bytes[FILE_BYTES];
    IS(write(fileno(other), bytes, sizeof bytes), sizeof bytes);
    number = dup(file);
    falls_asleep(0, sends_by_number, LONG);
    TELL(takes, 50000, 0);
    IS(dup2(fileno(other), number), number);
    ask(takes, LONG - 50000);
    long k = wakes(0);
    CHECK(k >= 50000 && k <= LONG, "it sent %ld", k);
    here->out += k;
    sends(LONG - k);
    IS(answer(), 0);
    goes_on();
}
/* Another thread takes the offset's memory away: the call tells it, though it has sent. */
static off_t *offset;
static long sends_by_offset(long n) {
    *offset = (off_t)(here->out % PERIOD);
    return sendfile(here->fd, file, offset, n);
}
static void long_and_the_offset_goes(void) {
    if (is_tcp()) return; /* its buffers may take all of the call */
    meet_with_file();
    offset = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    falls_asleep(0, sends_by_offset, LONG);
    IS(munmap(offset, 4096), 0);
    ask(takes, LONG);
    IS(wakes(0), -1);
    IS(errno, EFAULT);
    here->out += LONG;
    IS(answer(), 0);
    goes_on();
}
/* Several threads send the same file at a time, each to its own connection, more of them than there are buffers. */
static long sends_by_thread(long i) {
    off_t o = 0;
    for (long n = 0; n < 1 << 20; n += 4096) {
        o = (off_t)((links[i].out + n) % PERIOD);
        IS(sendfile(links[i].fd, file, &o, 4096), 4096);
    }
    return 0;
}
static long takes_of_each(long n) {
    for (long got = 0; got < n; got += 4096)
        for (long i = 0; i < 6; i++) {
            uses(i);
            takes(4096);
        }
    return uses(0);
}
static void threads(void) {
    if (!file) makes_file();
    meet_all(6);
    for (int i = 0; i < 6; i++) {
        sleepers[i] = (struct sleeper){.what = sends_by_thread, .arg = i};
        IS(pthread_create(&sleepers[i].thread, 0, sleeps, &sleepers[i]), 0);
    }
    TELL(takes_of_each, 1 << 20, 0);
    for (int i = 0; i < 6; i++) IS(wakes(i), 0);
    kill_peer();
}
UNIX_MAIN(T(beside_writes), T(a_reader_sleeps), T(a_server), T(to_the_end), T(what_is_wrong), T(nobody_reads), T(is_full), T(signals),
          T(long_ones), T(long_and_signals), T(long_and_interrupted), T(long_with_a_time), T(long_and_the_peer_goes),
          T(long_and_the_file_goes), T(long_and_the_offset_goes), T(threads))
