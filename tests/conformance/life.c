/* Checks: pipes across fork, vfork, posix_spawn, exec (dynamic and static) and stops. Does not check: clone
 * without CLONE_FILES variants. */
#include "check.h"
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/socket.h>
/* LINUX: pipe(7), execve(2): descriptors survive fork and exec; unread bytes stay in the pipe. */
extern char **environ;
static int O[2], P[2];
static void cl(void) {
    close(P[0]);
    close(P[1]);
    close(O[0]);
    close(O[1]);
}
static void both_sides_write(void) {
    mkpipe(P);
    char *b = calloc(1, 200000);
    pid_t c = child();
    if (!c) {
        memset(b, 'c', 4096);
        for (int i = 0; i < 20; i++) write_all(P[1], b, 4096);
        _exit(0);
    }
    pid_t d = child();
    if (!d) {
        memset(b, 'p', 4096);
        for (int i = 0; i < 20; i++) write_all(P[1], b, 4096);
        _exit(0);
    }
    close(P[1]);
    int n = 0;
    for (int i = 0; i < 40; i++) {
        IS(read_n(P[0], b, 4096), 4096);
        for (int k = 1; k < 4096; k++) CHECK(b[k] == b[0], "a block was mixed");
        n += b[0] == 'c';
    }
    IS(n, 20);
    AT_EOF(P[0]);
    REAP0(c);
    REAP0(d);
}
/* the descriptor that cat without the library reads; 0: the standard input */
static int number;
static void run(const char *prog, int how) {
    mkpipe(P);
    mkpipe(O);
    put(P[1], 20000, 0);
    get(P[0], 100, 0);
    pid_t c;
    if (how == 2) {
        posix_spawn_file_actions_t f;
        posix_spawn_file_actions_init(&f);
        posix_spawn_file_actions_adddup2(&f, P[0], 0);
        posix_spawn_file_actions_adddup2(&f, O[1], 1);
        for (int i = 0; i < 4; i++) posix_spawn_file_actions_addclose(&f, (int[]){P[0], P[1], O[0], O[1]}[i]);
        IS(posix_spawn(&c, prog, &f, 0, (char *[]){"cat", 0}, environ), 0);
    } else {
        c = how == 1 ? vfork() : fork();
        if (!c) {
            char from[32];
            snprintf(from, sizeof from, "/dev/fd/%d", number);
            dup2(P[0], number);
            dup2(O[1], 1);
            cl();
            if (how == 3) execle(prog, "cat", from, (char *)0, (char *[]){0}); /* the preload variables are gone */
            execl(prog, "cat", (char *)0);
            _exit(9);
        }
    }
    close(P[0]);
    close(O[1]);
    get(O[0], 19900, 100);
    pid_t w = child();
    if (!w) {
        close(O[0]);
        put(P[1], 300000, 20000);
        _exit(0);
    }
    close(P[1]);
    get(O[0], 300000, 20000);
    AT_EOF(O[0]);
    REAP0(w);
    REAP0(c);
}
static void exec_cat_with_unread_bytes(void) { run("/bin/cat", 0); }
static void exec_cat_without_environment(void) { run("/bin/cat", 3); }
/* whatever the numbers of the descriptors that an exec leaves open: a low one, and one behind each size of a table of them */
static void exec_of_high_numbers(void) {
    for (int i = 0; i < 5; i++) {
        number = (int[]){63, 64, 200, 400, 900}[i];
        run("/bin/cat", 3);
    }
}
static void vfork_cat(void) { run("/bin/cat", 1); }
static void posix_spawn_cat(void) { run("/bin/cat", 2); }
/* the cat that no library enters; 0 where there is none */
static char *static_cat(void) {
    static char e[512];
    memset(e, 0, sizeof e);
    readlink("/proc/self/exe", e, 400);
    char *s = strrchr(e, '/');
    strcpy(s ? s + 1 : e, "static_cat");
    if (!access(e, X_OK)) return e;
    dprintf(1, "skip: no static_cat beside the program\n");
    return 0;
}
static void st(int how) {
    char *e = static_cat();
    if (e) run(e, how);
}
static int unread(int fd) {
    int n = -1;
    ioctl(fd, FIONREAD, &n);
    return n;
}
/* A program without the library inside forks, and then execs cat: both write to the pipe. */
static void exec_by_another_image(void) {
    const char *e = neighbour("static_exec");
    int go[2];
    char b[216], c = 0, number[12];
    if (!e) return;
    mkpipe(P);
    mkpipe(O);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, go), "socketpair failed");
    pid_t p = child();
    if (!p) {
        dup2(P[0], 0);
        dup2(O[1], 1);
        cl();
        close(go[0]);
        snprintf(number, sizeof number, "%d", go[1]);
        execl(e, "static_exec", number, "/bin/cat", (char *)0);
        _exit(9);
    }
    close(P[0]);
    close(O[1]);
    close(go[1]);
    for (int i = 0; i < 100; i++) {
        put(P[1], 4000, 4000 * i);
        get(O[0], 4000, 4000 * i);
    }
    for (int i = 0; i < 10; i++) {
        put(P[1], 100, 0);
        UNTIL(unread(O[0]) == 100);
        IS(write(go[0], &c, 1), 1);
        IS(read(go[0], &c, 1), 1);
        put(P[1], 100, 100);
        UNTIL(unread(O[0]) == 208);
        get(O[0], 100, 0);
        IS(read_n(O[0], b, 8), 8);
        CHECK(!memcmp(b, "outside!", 8), "what another image wrote must come in its turn: %.8s", b);
        get(O[0], 100, 100);
    }
    close(P[1]);
    close(go[0]);
    AT_EOF(O[0]);
    REAP0(p);
}
static void static_reader_and_writer(void) { st(0); }
static void static_by_spawn(void) { st(2); }
static void *tw(void *a) {
    char b[512];
    memset(b, 'a' + (int)(intptr_t)a, 512);
    for (int i = 0; i < 500; i++) write_all(P[1], b, 512);
    return 0;
}
static void *tr(void *a) {
    char b[700];
    ssize_t g;
    size_t n = 0;
    while ((g = read(P[0], b, 700)) > 0) n += g;
    return (void *)n;
}
static void threads_share(void) {
    mkpipe(P);
    pthread_t w[3], r[3];
    for (intptr_t i = 0; i < 3; i++) {
        pthread_create(w + i, 0, tw, (void *)i);
        pthread_create(r + i, 0, tr, 0);
    }
    for (int i = 0; i < 3; i++) pthread_join(w[i], 0);
    close(P[1]);
    size_t n = 0;
    void *v;
    for (int i = 0; i < 3; i++) {
        pthread_join(r[i], &v);
        n += (size_t)v;
    }
    IS(n, 3 * 500 * 512);
}
static void stopped(int who) {
    mkpipe(P);
    pid_t w = child();
    if (!w) {
        close(P[0]);
        put(P[1], 3 << 20, 0);
        _exit(0);
    }
    pid_t r = child();
    if (!r) {
        close(P[1]);
        get(P[0], 3 << 20, 0);
        AT_EOF(P[0]);
        _exit(0);
    }
    close(P[0]);
    close(P[1]);
    pid_t v = who ? w : r;
    for (int i = 0; i < 5; i++) {
        kill(v, SIGSTOP);
        sleep_ms(8);
        kill(v, SIGCONT);
        sleep_ms(1);
    }
    REAP0(w);
    REAP0(r);
}
static void stopped_reader(void) { stopped(0); }
static void stopped_writer(void) { stopped(1); }
/* LINUX execve(2): the other threads end wherever they are, and the thread that called it goes on under the first one's id: whoever
 * was in the midst of a write then is gone, though its id is in use. */
static void *becomes_another(void *us) {
    struct timespec t = {0, (long)us * 1000};
    nanosleep(&t, 0);
    execl("/bin/sleep", "sleep", "60", (char *)0);
    return 0;
}
static void *drains(void *fd) {
    static char b[65536];
    while (read((int)(intptr_t)fd, b, sizeof b) > 0);
    return 0;
}
static void exec_by_a_second_thread(void) {
    for (int round = 0; round < 25; round++) {
        int done[2];
        mkpipe(P);
        CHECK(!pipe2(done, O_CLOEXEC), "pipe2 failed");
        fcntl(P[0], F_SETFD, FD_CLOEXEC);
        fcntl(P[1], F_SETFD, FD_CLOEXEC);
        pid_t c = child();
        if (!c) {
            pthread_t t;
            char *b = calloc(1, 65536);
            close(P[0]);
            pthread_create(&t, 0, becomes_another, (void *)(2000L + 97 * round));
            for (;;) write_all(P[1], b, 65536);
        }
        pthread_t t;
        pthread_create(&t, 0, drains, (void *)(intptr_t)P[0]);
        close(done[1]);
        AT_EOF(done[0]);
        /* That one sleeps, under the id of a thread that wrote. */
        put(P[1], 200000, 0);
        close(P[1]);
        pthread_join(t, 0);
        kill(c, SIGKILL);
        reap(c);
        close(P[0]);
        close(done[0]);
    }
}
/* LINUX pthread_exit(3) of the first thread: the process goes on, and /proc/PID shows a zombie without descriptors. */
static void *goes_on(void *us) {
    char stat[512] = "", *state = 0;
    for (int i = 0; i < 500 && !(state && state[2] == 'Z'); i++) {
        int f = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
        ssize_t n = read(f, stat, sizeof stat - 1);
        close(f);
        stat[n > 0 ? n : 0] = 0;
        state = strrchr(stat, ')');
        sleep_ms(1);
    }
    CHECK(state && state[2] == 'Z', "the first thread has not ended");
    ((void (*)(void))us)();
    _exit(0);
}
static void without_first_thread(void (*f)(void)) {
    pthread_t t;
    CHECK(!pthread_create(&t, 0, goes_on, (void *)f), "pthread_create failed");
    syscall(SYS_exit, 0);
}
static void writes_on(void) {
    close(P[0]);
    put(P[1], 2 << 20, 0);
    CHECK(fcntl(P[1], F_GETPIPE_SZ) > 0, "F_GETPIPE_SZ failed");
    put(P[1], 1 << 20, 2 << 20);
}
static void first_thread_ended_writer(void) {
    mkpipe(P);
    pid_t c = child();
    if (!c) without_first_thread(writes_on);
    close(P[1]);
    get(P[0], 3 << 20, 0);
    AT_EOF(P[0]);
    REAP0(c);
}
static int left[2];
static char *cat;
static void reads_on(void) {
    int n;
    close(P[1]);
    get(P[0], 1000000, 0);
    sleep_ms(5);
    CHECK(!ioctl(P[0], FIONREAD, &n) && n > 0, "FIONREAD must find what was not read, and found %d", n);
    get(P[0], 1000000, 1000000);
}
static void cats_on(void) {
    close(P[1]);
    get(P[0], 1000000, 0);
    sleep_ms(5);
    dup2(P[0], 0);
    dup2(left[1], 1);
    execl(cat, "cat", (char *)0);
    _exit(1);
}
static void first_thread_ended_reader(void) {
    mkpipe(P);
    pid_t c = child();
    if (!c) without_first_thread(reads_on);
    close(P[0]);
    put(P[1], 2000000, 0);
    REAP0(c);
}
static void first_thread_ended_exec(void) {
    if (!(cat = static_cat())) return;
    mkpipe(P);
    CHECK(!pipe2(left, O_CLOEXEC), "pipe2 failed");
    pid_t w = child();
    if (!w) {
        close(P[0]);
        put(P[1], 2000000, 0);
        _exit(0);
    }
    pid_t c = child();
    if (!c) without_first_thread(cats_on);
    close(P[0]);
    close(P[1]);
    close(left[1]);
    get(left[0], 1000000, 1000000);
    AT_EOF(left[0]);
    REAP0(c);
    REAP0(w);
}
/* What the only holder of a pipe has not read stays, however many pipes come and go. */
static atomic_int *stage;
static void holds_on(void) {
    put(P[1], 40000, 0);
    *stage = 1;
    while (*stage == 1) sleep_ms(1);
    get(P[0], 40000, 0);
}
static void held_by(void (*holder)(void)) {
    mkpipe(P);
    stage = shared(4096);
    pid_t c = child();
    if (!c) {
        holder();
        _exit(0);
    }
    close(P[0]);
    close(P[1]);
    while (!*stage) sleep_ms(1);
    for (int i = 0; i < 4000; i++) {
        int p[2];
        CHECK(!pipe(p), "pipe failed");
        close(p[0]);
        close(p[1]);
    }
    sleep_ms(300);
    *stage = 2;
    REAP0(c);
}
static void holds_without_first_thread(void) { without_first_thread(holds_on); }
static void first_thread_ended_holder(void) { held_by(holds_without_first_thread); }
/* LINUX prctl(2): only root may look into its /proc/PID/fd */
static void holds_undumpable(void) {
    CHECK(!prctl(PR_SET_DUMPABLE, 0), "prctl failed");
    holds_on();
}
static void undumpable_holder(void) { held_by(holds_undumpable); }
MAIN(T(both_sides_write), T(exec_cat_with_unread_bytes), T(exec_cat_without_environment), T(exec_of_high_numbers), T(vfork_cat),
     T(posix_spawn_cat), T(static_reader_and_writer), T(static_by_spawn), T(exec_by_another_image), T(threads_share), T(stopped_reader),
     T(stopped_writer), T(exec_by_a_second_thread),
     T(first_thread_ended_writer), T(first_thread_ended_reader), T(first_thread_ended_exec),
     T(first_thread_ended_holder), T(undumpable_holder))
