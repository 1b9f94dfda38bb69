/* Checks: pthread_cancel of a thread blocked in read or write: it dies, its cleanup runs, the pipe stays
 * usable. Does not check: cancellation in the middle of a partly done large write (what went in is
 * unspecified). */
#include "check.h"
/* LINUX: pthreads(7): read, write, readv, writev are cancellation points. */
static int P[2];
static volatile int id, cleaned, enabled;
static void clean(void *a) { cleaned++; }
static void *rd(void *a) {
    char x;
    pthread_cleanup_push(clean, 0);
    id = tid();
    read(P[0], &x, 1);
    pthread_cleanup_pop(0);
    return 0;
}
static void *rdv(void *a) {
    char x;
    struct iovec v = {&x, 1};
    pthread_cleanup_push(clean, 0);
    id = tid();
    readv(P[0], &v, 1);
    pthread_cleanup_pop(0);
    return 0;
}
static void *wr(void *a) {
    pthread_cleanup_push(clean, 0);
    id = tid();
    write(P[1], "x", 1);
    pthread_cleanup_pop(0);
    return 0;
}
static void *pl(void *a) {
    pthread_cleanup_push(clean, 0);
    id = tid();
    struct pollfd p = {P[0], POLLIN, 0};
    poll(&p, 1, -1);
    pthread_cleanup_pop(0);
    return 0;
}
static void *asyn(void *a) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    return rd(a);
}
static void *off(void *a) {
    char x;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, 0);
    id = tid();
    IS(read(P[0], &x, 1), 1);
    enabled = 1;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, 0);
    pthread_testcancel();
    return 0;
}
static volatile int go;
static void *pend(void *a) {
    char x;
    pthread_cleanup_push(clean, 0);
    while (!go);
    read(P[0], &x, 1);
    pthread_cleanup_pop(0);
    return 0;
}
static void cancelled(void *(*f)(void *)) {
    pthread_t t;
    void *r;
    id = cleaned = 0;
    pthread_create(&t, 0, f, 0);
    while (!id) sched_yield();
    wait_asleep(id);
    IS(pthread_cancel(t), 0);
    pthread_join(t, &r);
    CHECK(r == PTHREAD_CANCELED, "the thread must be cancelled, not return");
    IS(cleaned, 1);
}
static void usable(uint64_t pos) {
    pid_t c = child();
    if (!c) {
        put(P[1], 100000, pos);
        _exit(0);
    }
    get(P[0], 100000, pos);
    REAP0(c);
}
static void in_read(void) {
    mkpipe(P);
    for (int i = 0; i < 5; i++) {
        cancelled(rd);
        usable(i * 100000);
    }
    close(P[1]);
    AT_EOF(P[0]);
}
static void in_readv(void) {
    mkpipe(P);
    cancelled(rdv);
    usable(0);
}
static void in_write(void) {
    mkpipe(P);
    for (int i = 0; i < 3; i++) {
        size_t n = fill_up(P[1], 0);
        cancelled(wr);
        get(P[0], n, 0);
        usable(0);
    }
    close(P[1]);
    AT_EOF(P[0]);
}
static void in_poll(void) {
    mkpipe(P);
    cancelled(pl);
    usable(0);
}
static void asynchronous(void) {
    mkpipe(P);
    cancelled(asyn);
    usable(0);
}
static void disabled(void) {
    mkpipe(P);
    pthread_t t;
    void *r;
    pthread_create(&t, 0, off, 0);
    while (!id) sched_yield();
    wait_asleep(id);
    pthread_cancel(t);
    sleep_ms(10);
    put(P[1], 1, 0);
    pthread_join(t, &r);
    CHECK(enabled && r == PTHREAD_CANCELED, "a disabled cancel must wait");
    usable(0);
}
/* LINUX: a pending cancel acts at the call even when data is there, and the data is not taken. */
static void pending_takes_no_data(void) {
    mkpipe(P);
    put(P[1], 5, 0);
    pthread_t t;
    void *r;
    pthread_create(&t, 0, pend, 0);
    pthread_cancel(t);
    go = 1;
    pthread_join(t, &r);
    CHECK(r == PTHREAD_CANCELED, "cancelled");
    IS(cleaned, 1);
    char b[9];
    IS(read(P[0], b, 9), 5);
    verify(b, 5, 0);
    usable(0);
}
MAIN(T(in_read), T(in_readv), T(in_write), T(in_poll), T(asynchronous), T(disabled), T(pending_takes_no_data))
