/* A pipe whose every write found its reader asleep, for so long that a ring is of no use to it. */
#pragma once
#include "check.h"
enum { HUSHED = 170, EACH_US = 150 };
static void nap(int us) {
    struct timespec t = {0, us * 1000L};
    nanosleep(&t, 0);
}
/* One at a time, to a reader that sleeps, most likely. */
static uint64_t chat(int w, int n, uint64_t at) {
    for (int i = 0; i < n; i++, at++) {
        nap(EACH_US);
        put(w, 1, at);
    }
    return at;
}
static void hush(int *p) {
    mkpipe(p);
    pid_t c = child();
    if (!c) {
        for (int i = 0; i < HUSHED; i++) get(p[0], 1, i);
        _exit(0);
    }
    chat(p[1], HUSHED, 0);
    REAP0(c);
}
