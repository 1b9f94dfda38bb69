/* The byte stream: order, ends, atomicity, reads in turn, death. Not here: signals, readiness. */
#include "check.h"

static void eof_after_data(void) {
    int p[2];
    warm_pipe(p);
    CHECK(write(p[1], "last", 4) == 4, "write");
    close(p[1]);
    char b[16];
    CHECK(read(p[0], b, 16) == 4 && !memcmp(b, "last", 4), "data before the end");
    CHECK(read(p[0], b, 16) == 0, "the end");
    CHECK(read(p[0], b, 16) == 0, "the end stays");
}

static void eof_wakes(void) {
    int p[2];
    warm_pipe(p);
    pid_t c = fork();
    if (c == 0) {
        msleep(100);
        _exit(0);
    }
    close(p[1]);
    char b;
    CHECK(read(p[0], &b, 1) == 0, "a blocked reader sees the end");
}

/* LINUX pipe(7): EPIPE as soon as the last read end is closed, whatever room there is. */
static void epipe_at_once(void) {
    int p[2];
    warm_pipe(p);
    signal(SIGPIPE, SIG_IGN);
    CHECK(write(p[1], "x", 1) == 1, "write with a reader");
    close(p[0]);
    CHECK(write(p[1], "x", 1) == -1 && errno == EPIPE, "EPIPE after close");
}

static void sigpipe_kills(void) {
    int p[2];
    warm_pipe(p);
    pid_t c = fork();
    if (c == 0) {
        signal(SIGPIPE, SIG_DFL);
        close(p[0]);
        char b[4096] = {0};
        for (;;)
            if (write(p[1], b, sizeof b) < 0) _exit(7);
    }
    msleep(50);
    close(p[0]);
    int s;
    waitpid(c, &s, 0);
    CHECK(WIFSIGNALED(s) && WTERMSIG(s) == SIGPIPE, "status %x", s);
}

static void reader_killed(void) {
    int p[2];
    warm_pipe(p);
    signal(SIGPIPE, SIG_IGN);
    pid_t c = fork();
    if (c == 0) {
        pause();
        _exit(0);
    }
    close(p[0]);
    CHECK(write(p[1], "x", 1) == 1, "write with a reader");
    kill(c, SIGKILL);
    waitpid(c, NULL, 0);
    CHECK(write(p[1], "x", 1) == -1 && errno == EPIPE, "EPIPE once the reader is reaped");
}

static void blocked_writer_sees_death(void) {
    int p[2];
    warm_pipe(p);
    signal(SIGPIPE, SIG_IGN);
    pid_t c = fork();
    if (c == 0) {
        msleep(200);
        _exit(0);
    }
    close(p[0]);
    static char b[4 << 20];
    ssize_t n = write(p[1], b, sizeof b);
    CHECK(n > 0 && n < (ssize_t)sizeof b, "partial count, got %zd", n);
    CHECK(write(p[1], b, 1) == -1 && errno == EPIPE, "then EPIPE");
}

/* LINUX pipe(7): writes of up to PIPE_BUF bytes are not interleaved. */
static void atomic_writes(void) {
    int p[2];
    warm_pipe(p);
    for (int k = 0; k < 4; k++)
        if (fork() == 0) {
            unsigned char m[4096];
            for (int i = 0; i < 1500; i++) {
                int n = 4 + (i * 37 + k * 911) % 4093;
                memset(m, k, n);
                m[0] = 0xff, m[1] = k, m[2] = n & 255, m[3] = n >> 8;
                if (write(p[1], m, n) != n) _exit(1);
            }
            _exit(0);
        }
    close(p[1]);
    FILE *f = fdopen(p[0], "r");
    unsigned char m[4096];
    int count = 0;
    while (fread(m, 1, 4, f) == 4) {
        int n = m[2] | m[3] << 8, k = m[1];
        CHECK(m[0] == 0xff && n >= 4 && n <= 4096, "a header at message %d", count);
        CHECK(fread(m, 1, n - 4, f) == (size_t)n - 4, "a whole message");
        for (int i = 0; i < n - 4; i++) CHECK(m[i] == k, "message %d holds a foreign byte", count);
        count++;
    }
    CHECK(count == 6000, "%d messages", count);
}

/* A read takes no more out of the pipe than it returns: two processes read in turn. */
static void reads_in_turn(void) {
    int p[2];
    warm_pipe(p);
    for (int i = 0; i < 1000; i++) {
        unsigned char c = pattern(i);
        CHECK(write(p[1], &c, 1) == 1, "write");
    }
    close(p[1]);
    for (int i = 0; i < 500; i++) {
        unsigned char c;
        CHECK(read(p[0], &c, 1) == 1 && c == pattern(i), "byte %d", i);
    }
    pid_t k = fork();
    if (k == 0) {
        for (int i = 500; i < 1000; i++) {
            unsigned char c;
            if (read(p[0], &c, 1) != 1 || c != pattern(i)) _exit(1);
        }
        _exit(0);
    }
    int s;
    waitpid(k, &s, 0);
    CHECK(s == 0, "the second reader");
}

/* Unread bytes survive an exec, of a program that takes part and of one that cannot. */
static void exec_keeps(const char *const *argv) {
    int p[2], q[2];
    warm_pipe(p);
    CHECK(pipe(q) == 0, "pipe");
    static char b[50000];
    for (size_t i = 0; i < sizeof b; i++) b[i] = pattern(i);
    CHECK(write(p[1], b, sizeof b) == sizeof b, "write");
    if (fork() == 0) {
        dup2(p[0], 0);
        dup2(q[1], 1);
        close(p[1]);
        close(q[0]);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    close(p[0]);
    close(q[1]);
    if (fork() == 0) {
        close(q[0]);
        for (int k = 0; k < 3; k++) CHECK(write(p[1], b, sizeof b) == sizeof b, "write after the exec");
        _exit(0);
    }
    close(p[1]);
    size_t n = 0;
    char c[4096];
    ssize_t k;
    while ((k = read(q[0], c, sizeof c)) > 0)
        for (ssize_t i = 0; i < k; i++, n++) CHECK(c[i] == (char)pattern(n % sizeof b), "byte %zu", n);
    CHECK(n == 4 * sizeof b, "%zu bytes", n);
}
static void exec_aware(void) { exec_keeps((const char *const[]){"cat", NULL}); }
static void exec_no_env(void) { exec_keeps((const char *const[]){"env", "-i", "/bin/cat", NULL}); }
static void exec_static(void) { exec_keeps((const char *const[]){"busybox", "cat", NULL}); }

static void stopped_reader(void) {
    int p[2];
    warm_pipe(p);
    pid_t c = fork();
    if (c == 0) {
        close(p[1]);
        static char b[65536];
        unsigned long n = 0;
        ssize_t k;
        while ((k = read(p[0], b, sizeof b)) > 0)
            for (ssize_t i = 0; i < k; i++, n++)
                if (b[i] != (char)pattern(n)) _exit(1);
        _exit(n == 3000000 ? 0 : 2);
    }
    close(p[0]);
    static char b[3000000];
    for (size_t i = 0; i < sizeof b; i++) b[i] = pattern(i);
    kill(c, SIGSTOP);
    pid_t k = fork();
    if (k == 0) {
        msleep(200);
        kill(c, SIGCONT);
        _exit(0);
    }
    CHECK(write(p[1], b, sizeof b) == sizeof b, "write past a stopped reader");
    close(p[1]);
    int s;
    waitpid(c, &s, 0);
    CHECK(s == 0, "reader's status %x", s);
}

/* Any of three processes is killed at any time: what arrives is a prefix, and nobody hangs. */
static void random_kills(void) {
    for (int round = 0; round < 60; round++) {
        int p[2], q[2];
        CHECK(pipe(p) == 0 && pipe(q) == 0, "pipe");
        pid_t w = fork();
        if (w == 0) {
            close(p[0]), close(q[0]), close(q[1]);
            static char b[40000];
            for (unsigned long n = 0;; n += sizeof b) {
                for (size_t i = 0; i < sizeof b; i++) b[i] = pattern(n + i);
                if (write(p[1], b, sizeof b) < 0) _exit(0);
            }
        }
        pid_t m = fork();
        if (m == 0) {
            close(p[1]), close(q[0]);
            char b[30000];
            ssize_t k;
            while ((k = read(p[0], b, sizeof b)) > 0)
                if (write(q[1], b, k) != k) break;
            _exit(0);
        }
        close(p[0]), close(p[1]), close(q[1]);
        pid_t killer = fork();
        if (killer == 0) {
            struct timespec t = {0, 500000 + round * 50021L % 3000000};
            nanosleep(&t, NULL);
            kill(round & 1 ? w : m, SIGKILL);
            _exit(0);
        }
        unsigned long n = 0;
        char b[50000];
        ssize_t k;
        while ((k = read(q[0], b, sizeof b)) > 0)
            for (ssize_t i = 0; i < k; i++, n++)
                CHECK(b[i] == (char)pattern(n), "round %d: byte %lu", round, n);
        CHECK(k == 0, "round %d: the end", round);
        close(q[0]);
        while (wait(NULL) > 0);
    }
}

int main(void) {
    run_case("eof after data", eof_after_data);
    run_case("eof wakes a reader", eof_wakes);
    run_case("EPIPE at once", epipe_at_once);
    run_case("SIGPIPE kills", sigpipe_kills);
    run_case("reader killed", reader_killed);
    run_case("blocked writer sees death", blocked_writer_sees_death);
    run_case("atomic writes", atomic_writes);
    run_case("reads in turn", reads_in_turn);
    run_case("exec keeps bytes", exec_aware);
    run_case("exec without environment keeps bytes", exec_no_env);
    run_case("exec of a static program keeps bytes", exec_static);
    run_case("stopped reader", stopped_reader);
    run_case("random kills", random_kills);
    return bad;
}
