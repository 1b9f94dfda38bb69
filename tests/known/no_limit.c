/* A library for LD_PRELOAD before stress-ng: its setrlimit(2) of RLIMIT_AS does nothing.
   stress-ng sets each limit to its most at the start of each stressor, and a process that sets RLIMIT_AS leaves Byway
   (docs/adr/0022). Without this library no stressor takes part, and its test says nothing.
   Invariant: every other limit is the kernel's matter.
   Not here: prlimit(2), by which stress-ng sets no limit. */
#define _GNU_SOURCE
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int setrlimit(__rlimit_resource_t what, const struct rlimit *limit) {
    return what == RLIMIT_AS ? 0 : (int)syscall(SYS_prlimit64, 0, what, limit, NULL);
}

int setrlimit64(__rlimit_resource_t what, const struct rlimit64 *limit) {
    return what == RLIMIT_AS ? 0 : (int)syscall(SYS_prlimit64, 0, what, limit, NULL);
}
