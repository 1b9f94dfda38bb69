/* What the processes of together.c share: what is under way in each direction, who has which descriptors, who may
 * sleep for what.
 * Invariant: it changes only in the turn of one thread, and what a call has moved counts when it is told of
 * (together.c, has_ended).
 * Not here: the calls (together_calls.h), whose turn it is (together.c). */
enum kind { PIPE, FIFO, PAIR, PATH, TCP, UDP, LISTENER, SET, KINDS };
static const char *const names[] = {"pipe", "fifo", "pair", "path", "tcp", "udp", "listener", "set"};
enum { ENDS = 20, FLOWS = 400, TABLES = 24, WORKERS = 24, BUSY = 5, CLAIMS = 64 };
enum { LENGTH = 1 << 20, WARM = 200, MOST_BYTES = 12000, MOST_WRITES = 30, LITTLE = 4096, DATAGRAM = 2000 };
/* Numbers of their own: a socket by which descriptors go to another process, its other end, what they share. */
enum { MAIL = 900, AREA = 902 };
/* What is under way in one direction: bytes, or datagrams, and writes since it was empty. Of those who may
 * sleep for it there is one at most on each side. A big write is more than fits; where one was cut short
 * nobody knows how much is under way. Datagrams under way are of one process, one more than its table: those
 * of two may overtake one another. */
struct flow {
    long bytes, writes;
    int taken[2], big, is_spoiled, is_shut, by;
};
struct end {
    int fd, kind, in, out, is_cloexec;
};
/* The descriptors of one process. */
struct table {
    int pid, n, is_stopped;
    struct end ends[ENDS];
};
/* A thread. It has the turn until the call that it makes has returned; `big` is one more than the flow of a
 * big write. */
struct worker {
    int is_alive, tab, tid, is_blocked;
    unsigned turn, waits;
    int big, cut, handled, waits_for_all;
    struct {
        int flow, side;
    } claims[CLAIMS];
    struct {
        int flow;
        long bytes;
    } moves[4];
    /* `accepted` is one more than the listener's flow */
    struct end added[2];
    int n_claims, n_moves, n_added, accepted;
    /* the descriptor that comes by the mail */
    int job, kind, in, out;
    char line[4000];
};
static struct shared {
    unsigned long state;
    unsigned filled;
    long call;
    struct flow flows[FLOWS];
    struct table tables[TABLES];
    struct worker workers[WORKERS];
    struct {
        int port, kind, flow;
    } listeners[FLOWS];
    /* Of the sets. One by edge has news from a write on until it is told of. */
    struct {
        int in, out, is_edge, has_news, is_over;
    } members[FLOWS];
    /* the flow of each name */
    int fifos[FLOWS];
    int n_flows, n_tables, n_workers, n_listeners, n_members, n_fifos, has_edges;
} *all;
static __thread struct worker *me;
static __thread unsigned char *out, *into;

static void fill(size_t n) { fill_at(out, n); }
static void says(const struct end *e, const char *format, ...) {
    va_list a;
    size_t l = strlen(me->line);
    if (e) l += snprintf(me->line + l, sizeof me->line - l, "%s %d.%d ", names[e->kind], e->in, e->out);
    va_start(a, format);
    l += vsnprintf(me->line + l, sizeof me->line - l, format, a);
    va_end(a);
    snprintf(me->line + l, sizeof me->line - l, "; ");
}
static void dies(const char *what) {
    fprintf(stderr, "together: call %ld: ", all->call);
    perror(what);
    exit(3);
}
/* A call that may wait. */
#define CALL(expression)                                                                                     \
    ({                                                                                                       \
        __atomic_store_n(&me->waits, 1, __ATOMIC_SEQ_CST);                                                   \
        long answer_ = answer(expression);                                                                   \
        __atomic_store_n(&me->waits, 0, __ATOMIC_SEQ_CST);                                                   \
        answer_;                                                                                             \
    })
static struct table *table(void) { return &all->tables[me->tab]; }
/* Takes the right to sleep for a flow's bytes (side 0) or for its room (1). */
static int claims(int flow, int side) {
    struct flow *f = &all->flows[flow];
    if (flow < 0) return 1;
    if (f->taken[side] == me - all->workers + 1) return 1;
    if (f->taken[side] || f->is_spoiled) return 0;
    f->taken[side] = me - all->workers + 1;
    me->claims[me->n_claims].flow = flow, me->claims[me->n_claims++].side = side;
    return 1;
}
static void gives_back(struct worker *w) {
    while (w->n_claims) {
        w->n_claims--;
        all->flows[w->claims[w->n_claims].flow].taken[w->claims[w->n_claims].side] = 0;
    }
}
/* Whether nobody knows how much of it there is to read. */
static int is_unsure(int flow) { return flow >= 0 && (all->flows[flow].big || all->flows[flow].is_spoiled); }
static int has_reader(int flow) {
    int n = 0;
    for (int i = 0; i < all->n_workers; i++)
        for (int k = 0; k < all->tables[all->workers[i].tab].n && all->workers[i].is_alive; k++)
            n += all->tables[all->workers[i].tab].ends[k].in == flow;
    return n;
}
static struct flow *in_of(struct end *e) { return e->in < 0 ? 0 : &all->flows[e->in]; }
static struct flow *out_of(struct end *e) { return e->out < 0 ? 0 : &all->flows[e->out]; }
static int moves_bytes(struct end *e) { return e->kind < LISTENER; }
static int has_room(struct end *e, size_t n) {
    struct flow *f = out_of(e);
    if (!f || f->big || f->is_spoiled || f->writes == MOST_WRITES) return 0;
    /* One that nobody has any more is refused at the next send, or the one behind it. */
    if (e->kind == UDP) return n <= DATAGRAM && (!f->bytes || f->by == me->tab + 1) && has_reader(e->out);
    return f->bytes + (long)n <= MOST_BYTES;
}
/* LINUX pipe(7): pages that come by splice and its like take a place of 16 each. */
static int has_places(struct end *e) { return e->kind > FIFO || (e->out >= 0 && out_of(e)->writes < 3); }
/* What a call has moved counts when it is told of: it may end beside another. */
static void moved(int flow, long bytes) {
    if (flow < 0 || bytes == 0) return;
    me->moves[me->n_moves].flow = flow, me->moves[me->n_moves++].bytes = bytes;
}
static void wrote(struct end *e, long r) {
    if (e->kind == UDP && r >= 0) r = 1, out_of(e)->by = me->tab + 1;
    moved(e->out, r > 0 ? r : 0);
}
static void took(struct end *e, long r) {
    if (e->kind == UDP && r >= 0) r = 1;
    moved(e->in, r > 0 ? -r : 0);
}
/* Of those that wait to be accepted: their flows are digits to the base 1,000. */
static struct oldest {
    long flow, unit;
} oldest(long waits) {
    struct oldest o = {waits, 1};
    while (o.flow >= 1000) o.flow /= 1000, o.unit *= 1000;
    return o;
}
static void counts(struct worker *w) {
    for (int i = 0; i < w->n_moves; i++) {
        struct flow *f = &all->flows[w->moves[i].flow];
        f->bytes += w->moves[i].bytes, f->writes += w->moves[i].bytes > 0;
        for (int k = 0; k < all->n_members && w->moves[i].bytes > 0; k++)
            all->members[k].has_news |= all->members[k].in == w->moves[i].flow;
        if (f->bytes <= 0) f->bytes = f->writes = 0;
    }
    w->n_moves = 0;
    struct table *t = &all->tables[w->tab];
    for (int i = 0; i < w->n_added && t->n < ENDS; i++) t->ends[t->n++] = w->added[i];
    w->n_added = 0;
    if (!w->accepted) return;
    struct flow *l = &all->flows[w->accepted - 1];
    l->bytes -= oldest(l->bytes).unit * oldest(l->bytes).flow, l->writes--;
    w->accepted = 0;
}
static int is_nonblocking(struct end *e) { return !!(fcntl(e->fd, F_GETFL) & O_NONBLOCK); }
/* A copy: while a call waits another thread may close one. */
static struct end *copy(struct end *e) {
    static __thread struct end copies[8];
    static __thread int at;
    copies[at = (at + 1) % 8] = *e;
    return &copies[at];
}
static struct end *any(void) { return copy(&table()->ends[draw(table()->n)]); }
static struct end *any_of(int kind) {
    struct table *t = table();
    for (int from = draw(t->n + 1), i = 0; i < t->n; i++)
        if (t->ends[(from + i) % t->n].kind == kind) return copy(&t->ends[(from + i) % t->n]);
    return 0;
}
/* They come into the table with what was moved. */
static void add(int fd, int kind, int in, int out_) {
    if (fd < 0) dies("a descriptor");
    me->added[me->n_added++] = (struct end){fd, kind, in, out_, 0};
}
static void drop(int fd) {
    struct table *t = table();
    for (int i = 0; i < t->n; i++)
        if (t->ends[i].fd == fd) {
            t->ends[i] = t->ends[--t->n];
            return;
        }
}
/* Some are carried from here on. */
static void pair_of(int a, int b, int kind, int both) {
    int to = all->n_flows++, from = both ? all->n_flows++ : -1, fd[2] = {a, b};
    for (int k = 0; k <= both && draw(4); k++)
        for (int i = 0; i < WARM; i++)
            if (write(fd[!k], out, 9) != 9 || read(fd[k], into, 64) != 9) dies("warm");
    add(a, kind, to, from);
    add(b, kind, from, to);
}
