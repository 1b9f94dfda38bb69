/* Makes calls drawn from a seed in several processes and threads that share pipes, FIFOs, sockets and epoll sets, and
 * prints each with its answer. alike.sh runs it twice, once plain and once carried, and compares what it has printed.
 *
 *   together SEED [CALLS]        400 calls
 *
 * Some processes exec it anew, and some its static copy, together.static, which takes no part. Some are killed,
 * stopped for a while, or get a signal.
 *
 * Invariant: one thread has the turn, until its call has returned or sleeps in the kernel. Of two that sleep neither
 * waits for what the other does. So the kernel's answers are the same at each run.
 *
 * Does not check: two readers or two writers that sleep at once, datagrams that are refused or of two senders, edges
 * of epoll that are told once too often. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "drawn.h"
#include "ring.h"
#include "together.h"
#include "together_calls.h"
static const char *program;
static void sleeps_on(unsigned *word, unsigned value) {
    syscall(SYS_futex, word, FUTEX_WAIT, value, 0, 0, 0);
}
static void wakes(unsigned *word) { syscall(SYS_futex, word, FUTEX_WAKE, 10, 0, 0, 0); }
static void works(struct worker *w);
static void *runs(void *w) {
    works(w);
    return 0;
}
static struct worker *next(int tab) {
    int i = all->n_workers++;
    all->workers[i] = (struct worker){.is_alive = 1, .tab = tab};
    return &all->workers[i];
}
static int living(void) {
    int n = 0;
    for (int i = 0; i < all->n_workers; i++) n += all->workers[i].is_alive;
    return n;
}
static void begins(struct worker *w) { all->tables[w->tab].pid = getpid(); }
/* What a process has after an exec. */
static void keeps(struct table *t) {
    int n = 0;
    for (int i = 0; i < t->n; i++)
        if (!t->ends[i].is_cloexec) t->ends[n++] = t->ends[i];
    t->n = n;
}
/* The program again, or its static copy, as worker w. */
static struct image {
    char area[16], number[16], path[300];
    char *args[5];
} *image_of(struct worker *w, const char *how, int is_static) {
    static __thread struct image i;
    snprintf(i.area, sizeof i.area, "%d", AREA);
    snprintf(i.number, sizeof i.number, "%d", (int)(w - all->workers));
    snprintf(i.path, sizeof i.path, "%s%s", program, is_static ? ".static" : "");
    i.args[0] = (char *)program, i.args[1] = (char *)how, i.args[2] = i.area, i.args[3] = i.number,
    i.args[4] = 0;
    return &i;
}
static void forks(struct end *unused) {
    int how = draw(4);
    pid_t p;
    (void)unused;
    if (living() >= BUSY || all->n_workers == WORKERS || all->n_tables == TABLES || draw(2)) return;
    int t = all->n_tables++;
    struct worker *w = next(t);
    says(0, "%s %d", how < 2 ? "forks" : "spawns", (int)(w - all->workers));
    all->tables[t] = *table();
    if (how < 2 && !(p = fork())) begins(w), works(w);
    if (how > 1) {
        struct image *i = image_of(w, "spawned", how == 3);
        keeps(&all->tables[t]);
        p = posix_spawn(&p, i->path, 0, 0, i->args, environ) ? -1 : p;
    }
    if (p < 0) dies("fork");
    while (!__atomic_load_n(&w->tid, __ATOMIC_SEQ_CST)) usleep(50);
}
static void starts_a_thread(struct end *unused) {
    pthread_t id;
    (void)unused;
    if (living() >= BUSY || all->n_workers == WORKERS || draw(2)) return;
    struct worker *w = next(me->tab);
    says(0, "thread %d", (int)(w - all->workers));
    if (pthread_create(&id, 0, runs, w)) dies("thread");
    while (!__atomic_load_n(&w->tid, __ATOMIC_SEQ_CST)) usleep(50);
}
/* All else of this process ends with it. What it waited for may have been in part. */
static void others_end(int tab, struct worker *but) {
    for (int i = 0; i < all->n_workers; i++) {
        struct worker *w = &all->workers[i];
        if (!w->is_alive || w->tab != tab || w == but) continue;
        if (w->big) all->flows[w->big - 1].is_spoiled = 1;
        w->is_alive = w->is_blocked = 0;
        gives_back(w);
    }
}
/* One that waits for several may see the first of the ends that a death closes, or all. */
static int polls_sleep(void) {
    int n = 0;
    for (int i = 0; i < all->n_workers; i++)
        n += all->workers[i].is_alive && all->workers[i].is_blocked && all->workers[i].n_claims > 2;
    return n;
}
static void executes(struct end *unused) {
    int is_static = draw(2);
    (void)unused;
    if (draw(3)) return;
    if (polls_sleep() || (me == all->workers && is_static) || (me != all->workers && !me->tab)) return;
    says(0, "exec %d", is_static);
    struct image *i = image_of(me, "resume", is_static);
    keeps(table());
    others_end(me->tab, me);
    me->tid = 0;
    execv(i->path, i->args);
    dies("exec");
}
static void passes(struct end *e) {
    if (draw(2)) return;
    char control[CMSG_SPACE(4)];
    struct iovec v = {out, 1};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct worker *w = &all->workers[draw(all->n_workers)];
    if (!w->is_alive || w->is_blocked || w == me || all->tables[w->tab].n > ENDS - 3 || w->job ||
        all->tables[w->tab].is_stopped)
        return;
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    *h = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(4)};
    memcpy(CMSG_DATA(h), &e->fd, 4);
    if (sendmsg(MAIL, &m, 0) != 1) dies("mail");
    w->job = 1, w->kind = e->kind, w->in = e->in, w->out = e->out;
    says(e, "goes to %d", (int)(w - all->workers));
}
static void comes(void) {
    char control[CMSG_SPACE(4)];
    struct iovec v = {into, 1};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fd;
    me->job = 0;
    if (recvmsg(MAIL + 1, &m, 0) != 1 || !CMSG_FIRSTHDR(&m)) dies("mail");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), 4);
    add(fd, me->kind, me->in, me->out);
    says(0, "has %d.%d", me->in, me->out);
}
static const struct {
    void (*makes)(struct end *);
    int weight;
} calls[] = {{makes, 3},          {writes, 24},         {writes_much, 2}, {reads, 22},
             {reads_exactly, 6},  {reads_in_time, 2},   {polls, 4},       {selects, 2},
             {controls_a_set, 3}, {waits_for_a_set, 3}, {splices, 2},     {sends_a_file, 2},
             {tees, 1},           {gives_pages, 1},     {sizes, 1},       {asks_a_ring, 2},
             {asks, 3},           {blocks, 2},          {duplicates, 2},  {opens_again, 3},
             {renews, 1},         {lingers, 1},         {closes, 6},      {shuts, 1},
             {connects, 3},       {accepts, 3},         {forks, 2},       {starts_a_thread, 2},
             {executes, 2},       {passes, 2}};
static void handles(int unused) {
    (void)unused;
    if (me) me->handled++;
}
static void works(struct worker *w) {
    int weights = 0;
    me = w;
    out = malloc(LENGTH), into = malloc(LENGTH);
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) weights += calls[i].weight;
    __atomic_store_n(&w->turn, w->turn & 2, __ATOMIC_SEQ_CST);
    __atomic_store_n(&w->tid, gettid(), __ATOMIC_SEQ_CST);
    for (;;) {
        while (!__atomic_load_n(&w->turn, __ATOMIC_SEQ_CST)) sleeps_on(&w->turn, 0);
        if (w->turn == 2) {
            /* after an exec: the turn goes on */
        } else if (w->job == 1)
            comes();
        else {
            for (int tries = 0; tries < 50 && !w->line[0]; tries++) {
                int at = draw(weights), i = 0;
                gives_back(w);
                while ((at -= calls[i].weight) >= 0) i++;
                if (table()->n < 4) i = 0;
                calls[i].makes(table()->n ? any() : 0);
            }
        }
        __atomic_store_n(&w->turn, 0, __ATOMIC_SEQ_CST);
    }
}
/* ---- whose turn it is ---- */
/* Nobody is left behind. */
static void ends(int status) {
    fflush(stdout);
    for (int i = 0; i < all->n_tables; i++) kill(all->tables[i].pid, SIGKILL);
    while (wait(0) > 0) continue;
    exit(status);
}
static char state_of(int tid) {
    char name[64], text[300], *at;
    snprintf(name, sizeof name, "/proc/%d/stat", tid);
    int fd = open(name, O_RDONLY), n;
    if (fd < 0) return 'X';
    n = read(fd, text, sizeof text - 1);
    close(fd);
    if (n <= 0) return 'X';
    text[n] = 0;
    at = strrchr(text, ')');
    return at ? at[2] : 'X';
}
/* Not where it pauses for a moment, in nanosleep(2). */
static int sleeps(int tid) {
    char name[64], text[8] = "";
    if (state_of(tid) != 'S') return 0;
    snprintf(name, sizeof name, "/proc/%d/syscall", tid);
    int fd = open(name, O_RDONLY);
    if (fd >= 0 && read(fd, text, 3) < 0) text[0] = 0;
    close(fd);
    return strncmp(text, "35 ", 3) && state_of(tid) == 'S';
}
static int is_done(struct worker *w) { return !__atomic_load_n(&w->turn, __ATOMIC_SEQ_CST); }
static void tells(struct worker *w) {
    long under_way = 0;
    for (int i = 0; i < all->n_flows; i++) under_way += all->flows[i].bytes;
    printf("%ld %d: %s handled %d, %ld %lx\n", all->call, (int)(w - all->workers), w->line, w->handled,
           under_way, all->state >> 48);
    fflush(stdout);
    w->line[0] = 0, w->handled = 0;
}
/* What a big write says waits until there is room for all of it, or no reader: how much a ring or the kernel
 * takes is nobody's.
 */
static int may_tell(struct worker *w) {
    return is_done(w) &&
           (!w->big || w->cut || all->flows[w->big - 1].bytes <= LITTLE || !has_reader(w->big - 1));
}
static void has_ended(struct worker *w) {
    counts(w);
    gives_back(w);
    if (w->big) {
        struct flow *f = &all->flows[w->big - 1];
        w->cut |= f->bytes > LITTLE;
        f->big = 0, f->is_spoiled |= w->cut;
        strcat(w->line, w->cut ? "cut; " : "all; ");
    }
    w->is_blocked = w->big = w->cut = 0;
    tells(w);
}
/* Until those that wait have returned, or sleep. */
static void settles(void) {
    for (int i = 0, still = 0; still < 4; i++) {
        int awake = 0;
        for (int k = 0; k < all->n_workers; k++) {
            struct worker *w = &all->workers[k];
            awake += w->is_alive && w->is_blocked && !is_done(w) && !all->tables[w->tab].is_stopped &&
                     !sleeps(w->tid);
        }
        still = awake ? 0 : still + 1;
        if (i > 20000) {
            fprintf(stderr, "call %ld does not settle\n", all->call);
            ends(4);
        }
        usleep(awake ? 50 : 150);
    }
    for (int k = 0; k < all->n_workers; k++) {
        struct worker *w = &all->workers[k];
        if (!w->is_alive || !w->is_blocked || !may_tell(w)) continue;
        printf("  returns ");
        has_ended(w);
    }
}
static void turns(struct worker *w) {
    int still = 0;
    w->turn = 1;
    wakes(&w->turn);
    for (int i = 0; !is_done(w) && still < 8; i++) {
        int tid = __atomic_load_n(&w->tid, __ATOMIC_SEQ_CST);
        if (!tid) {
            still = 0;
            usleep(100);
        } else if (__atomic_load_n(&w->waits, __ATOMIC_SEQ_CST) && sleeps(tid))
            still++, usleep(200);
        else
            still = 0, i < 200 ? sched_yield() : usleep(50);
        if (i > 100000) {
            fprintf(stderr, "call %ld of %d does not end: %s\n", all->call, (int)(w - all->workers), w->line);
            ends(4);
        }
        char s;
        if (i % 1000 == 999 && tid && ((s = state_of(tid)) == 'Z' || s == 'X')) {
            fprintf(stderr, "call %ld: %d has died: %s\n", all->call, (int)(w - all->workers), w->line);
            ends(5);
        }
    }
    if (may_tell(w))
        has_ended(w);
    else {
        w->is_blocked = 1;
        printf("%ld %d: waits\n", all->call, (int)(w - all->workers));
        if (getenv("DEBUG")) {
            char name[64], text[200];
            snprintf(name, sizeof name, "/proc/%d/syscall", w->tid);
            int fd = open(name, O_RDONLY), got = read(fd, text, sizeof text - 1);
            close(fd);
            fprintf(stderr, "  in %.*s", got, text);
        }
    }
}
static void kills(int tab) {
    printf("%ld: kills the process of", all->call);
    for (int i = 0; i < all->n_workers; i++)
        if (all->workers[i].is_alive && all->workers[i].tab == tab) printf(" %d", i);
    printf("\n");
    kill(all->tables[tab].pid, SIGKILL);
    /* Its descriptors close with the last of its threads. */
    for (int i = 0; i < all->n_workers; i++) {
        struct worker *w = &all->workers[i];
        if (!w->is_alive || w->tab != tab) continue;
        for (char s; (s = state_of(w->tid)) != 'X' && (s != 'Z' || w->tid != all->tables[tab].pid);) {
            usleep(50);
            waitpid(all->tables[tab].pid, 0, WNOHANG);
        }
    }
    others_end(tab, 0);
}
/* Until SIGCONT. Not where one waits whom the kernel then tells of a part: it goes on waiting at a ring
 * (docs/compatibility.md). */
static void stops(int tab) {
    for (int i = 0; i < all->n_workers; i++) {
        struct worker *w = &all->workers[i];
        if (w->is_alive && w->tab == tab && w->is_blocked && (w->big || w->waits_for_all)) return;
    }
    printf("%ld: stops the process of", all->call);
    kill(all->tables[tab].pid, SIGSTOP);
    all->tables[tab].is_stopped = 1;
    for (int i = 0; i < all->n_workers; i++) {
        if (!all->workers[i].is_alive || all->workers[i].tab != tab) continue;
        printf(" %d", i);
        while (state_of(all->workers[i].tid) != 'T') usleep(50);
    }
    printf("\n");
}
static void continues(int tab) {
    printf("%ld: goes on: table %d\n", all->call, tab);
    all->tables[tab].is_stopped = 0;
    kill(all->tables[tab].pid, SIGCONT);
}
static void shares(int fd) {
    all = mmap(0, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (all == MAP_FAILED) dies("mmap");
    state = &all->state, filled = &all->filled;
}
int main(int n, char **a) {
    struct sigaction now = {.sa_handler = handles}, again = {.sa_handler = handles, .sa_flags = SA_RESTART};
    if (n < 2) return fprintf(stderr, "usage: together SEED [CALLS]\n"), 2;
    program = a[0];
    signal(SIGPIPE, SIG_IGN);
    sigaction(SIGUSR1, &now, 0);
    sigaction(SIGUSR2, &again, 0);
    if (n == 4) {
        shares(atoi(a[2]));
        struct worker *w = &all->workers[atoi(a[3])];
        if (!strcmp(a[1], "resume")) w->turn = 2;
        begins(w);
        works(w);
    }
    /* Whose parent is killed is ours. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int area = memfd_create("together", 0), p[2], mine;
    long most = n > 2 ? atol(a[2]) : 400;
    if (ftruncate(area, sizeof *all) || dup2(area, AREA) < 0 || socketpair(AF_UNIX, SOCK_DGRAM, 0, p) ||
        dup2(p[0], MAIL) < 0 || dup2(p[1], MAIL + 1) < 0)
        dies("area");
    close(area), close(p[0]), close(p[1]);
    shares(AREA);
    seeds(strtoul(a[1], 0, 0));
    all->has_edges = draw(2);
    all->n_tables = 1;
    struct worker *w = next(0);
    if (!(mine = fork())) begins(w), works(w);
    while (!__atomic_load_n(&w->tid, __ATOMIC_SEQ_CST)) usleep(50);
    for (all->call = 1; all->call <= most; all->call++) {
        struct worker *who = &all->workers[draw(all->n_workers)];
        int what = draw(60);
        if (!who->is_alive) continue;
        if (all->tables[who->tab].is_stopped) {
            if (what < 20) continues(who->tab);
        } else if (what == 4)
            stops(who->tab);
        else if (what == 0 && who->tab && !who->job && !polls_sleep())
            kills(who->tab);
        else if (what < 4 && who->is_blocked && !who->big) {
            int is_again = draw(2);
            printf("%ld: signal %d to %d\n", all->call, is_again, (int)(who - all->workers));
            syscall(SYS_tgkill, all->tables[who->tab].pid, who->tid, is_again ? SIGUSR2 : SIGUSR1);
            if (!is_again)
                for (int i = 0; i < 2000 && !is_done(who); i++) usleep(50);
            else
                for (int i = 0; i < 2000 && !is_done(who) && !*(volatile int *)&who->handled; i++) usleep(50);
        } else if (!who->is_blocked) {
            turns(who);
            for (int i = 0; i < all->n_workers; i++)
                if (all->workers[i].job) turns(&all->workers[i]);
        } else {
            int can = 0;
            for (int i = 0; i < all->n_workers; i++)
                can += all->workers[i].is_alive && !all->workers[i].is_blocked &&
                       !all->tables[all->workers[i].tab].is_stopped;
            if (!can && all->tables[0].is_stopped)
                continues(0);
            else if (!can) {
                printf("%ld: signal to the first\n", all->call);
                syscall(SYS_tgkill, all->tables[0].pid, all->workers[0].tid, SIGUSR1);
                for (int i = 0; i < 2000 && !is_done(&all->workers[0]); i++) usleep(50);
            }
        }
        settles();
    }
    printf("end, %d workers\n", all->n_workers);
    ends(0);
}
