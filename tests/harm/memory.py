#!/usr/bin/env python3
"""Limits on memory, locked memory and core files: what is mapped for the channels is nobody's loss.

Invariant: a program that limits, locks or dumps its memory sees what it sees without Byway. Not here: control groups (groups.py).
"""
import os, re, resource, shutil, signal, subprocess, time
from harm import Skip, case, fine, main

# A pipe is carried first, so that there is a domain in use; then `what` happens, and the process tells how it went.
FRAME = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
static void work(const char *word) {
    int p[2];
    char b[4096];
    if (pipe(p)) exit(90);
    for (int i = 0; i < 300; i++) {
        memset(b, i, sizeof b);
        memcpy(b, word, strlen(word));
        if (write(p[1], b, sizeof b) != sizeof b) exit(91);
        memset(b, 0, sizeof b);
        if (read(p[0], b, sizeof b) != sizeof b || memcmp(b, word, strlen(word)) || b[4095] != (char)i) exit(92);
    }
    close(p[0]); close(p[1]);
}
static void *other(void *p) { for (;;) pause(); return p; }
static void nothing(int s) { (void)s; }
static void prelude(int argc, char **argv) {
    if (argc > 1 && strchr(argv[1], 'h')) signal(SIGUSR1, nothing);
    if (argc > 1 && strchr(argv[1], 't')) { pthread_t t; if (pthread_create(&t, 0, other, 0)) exit(93); }
    work("before");
}
/* KiB that this process has mapped. */
static long mapped(void) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%ld", &pages) != 1) exit(94);
    fclose(f);
    return pages * 4;
}
"""

LOCKS = FRAME + r"""
int main(int argc, char **argv) {
    prelude(argc, argv);
    if (mlockall(MCL_CURRENT)) { printf("%s\n", strerror(errno)); return 1; }
    work("after");
    puts("locked");
    return 0;
}
"""


def unprivileged(box, limit):
    """What makes a command an ordinary user's that may lock `limit` bytes; root is above that limit."""
    def change():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
    if os.geteuid() == 0:
        for folder in (box.folder, box.shm):
            os.chown(folder, 65534, 65534)
        box.env["BYWAY_CACHE"] = box.path("cache")
    return change


@case(11)
def mlockall_under_a_limit(box):
    """8 MiB may be locked, and the process has less than that."""
    program = box.cc("locks", LOCKS)
    fine(box.run(program, preexec_fn=unprivileged(box, 8 << 20)), "locked\n")


@case(11)
def mlockall_with_privilege(box):
    """Nothing is locked, and made, that the program did not map."""
    program = box.cc("locks", LOCKS.replace('puts("locked")', 'printf("%ld\\n", mapped())'), "-pthread")
    if os.geteuid() != 0:
        raise Skip("needs CAP_IPC_LOCK")
    for how in ("", "h", "t"):
        # Measured while the run lives: the folder goes with it.
        r = box.run("sh", "-c", f"{program} {how} && du -sk {box.shm} | cut -f1")
        assert r.returncode == 0 and not r.stderr, r.stderr
        held = int(r.stdout.split()[-1])
        assert held < 16 << 10, f"{held} KiB in the folder of shared memory ({how or 'alone'})"


LIMITS = FRAME + r"""
int main(int argc, char **argv) {
    prelude(argc, argv);
    struct rlimit l = {100 << 20, RLIM_INFINITY};
    if (setrlimit(RLIMIT_AS, &l)) return 2;
    void *p = malloc(32 << 20);
    if (!p) { puts("no memory"); return 1; }
    memset(p, 1, 32 << 20);
    work("after");
    puts("fine");
    return 0;
}
"""


@case(12)
def malloc_under_a_lowered_limit(box):
    program = box.cc("limits", LIMITS, "-pthread")
    for how in ("", "h", "t"):
        fine(box.run(program, how), "fine\n")


@case(12)
def a_limit_by_prlimit(box):
    program = box.cc("limits", LIMITS.replace("setrlimit(RLIMIT_AS, &l)", "prlimit(getpid(), RLIMIT_AS, &l, 0)"))
    fine(box.run(program), "fine\n")


@case(12)
def a_shell_limits_its_children(box):
    python = shutil.which("python3")
    fine(box.run("bash", "-c", f"echo x | cat; ulimit -v 200000; {python} -c 'print(len(bytearray(60 << 20)))' | cat"), "x\n62914560\n")


@case(12)
def the_shell_itself_goes_on(box):
    text = "echo x | cat; ulimit -v 60000; a=$(head -c 8000000 /dev/zero | tr '\\0' x); echo ${#a}"
    fine(box.run("bash", "-c", text), "x\n8000000\n")


@case(12)
def a_run_under_a_limit(box):
    """Of `byway run` itself and all that it starts."""
    fine(box.run("sh", "-c", "ulimit -v 120000; exec \"$@\"", "sh", *box.start(), "sh", "-c", "head -c 100000 /dev/zero | wc -c", start=[]), "100000\n")


VFORKS = FRAME + r"""
#include <spawn.h>
extern char **environ;
int main(int argc, char **argv) {
    if (argc > 1) { work("child"); return 0; }
    int p[2];
    char b[512];
    if (pipe(p)) return 2;
    for (int i = 0; i < 200; i++) if (write(p[1], b, 512) != 512 || read(p[0], b, 512) != 512) return 3;
    if (write(p[1], "abc", 3) != 3) return 4;
    posix_spawnattr_t a;
    posix_spawnattr_init(&a);
    posix_spawnattr_setflags(&a, POSIX_SPAWN_RESETIDS);
    pid_t child;
    int status;
    char *args[] = {argv[0], "child", 0};
    if (posix_spawn(&child, argv[0], 0, &a, args, environ) || waitpid(child, &status, 0) != child || status) return 5;
    if (read(p[0], b, 512) != 3 || memcmp(b, "abc", 3)) return 6;
    for (int i = 0; i < 200; i++) if (write(p[1], b, 512) != 512 || read(p[0], b, 512) != 512) return 7;
    work("parent");
    puts("fine");
    return 0;
}
"""


@case(12)
def a_spawned_child_changes_its_ids(box):
    """The child runs in its parent's memory: what it gives up is not its parent's."""
    fine(box.run(box.cc("vforks", VFORKS)), "fine\n")


DROPS = FRAME + r"""
int main(int argc, char **argv) {
    prelude(argc, argv);
    if (setgid(65534) || setuid(65534)) return 2;
    char line[512];
    FILE *f = fopen("/proc/self/maps", "r");
    int n = 0;
    while (f && fgets(line, sizeof line, f)) n += strstr(line, "/run-") != 0;
    work("after");
    printf("%d\n", n);
    return 0;
}
"""


@case(12)
def a_process_that_leaves_has_nothing_mapped(box):
    if os.geteuid() != 0:
        raise Skip("needs root, to become another user")
    fine(box.run(box.cc("drops", DROPS)), "0\n")


TWO_LEAVE = FRAME + r"""
#include <sched.h>
#include <sys/syscall.h>
enum { MOST = 400, SIZE = 4 << 20, PIPES = 200 };
static volatile int here, first;
static char *maps[MOST];
static void *leaves(void *p) {
    __sync_fetch_and_add(&here, 1);
    while (here < 2) continue;
    if (syscall(SYS_unshare, CLONE_FS)) exit(2);
    if (__sync_lock_test_and_set(&first, 1)) return p;
    for (int i = 0; i < MOST; i++)
        maps[i] = mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p;
}
int main(int argc, char **argv) {
    static unsigned char there[SIZE / 4096];
    pthread_t t[2];
    int p[2], gone = 0;
    prelude(argc, argv);
    for (int i = 0; i < PIPES; i++) if (pipe(p)) return 3;
    for (int i = 0; i < 2; i++) if (pthread_create(&t[i], 0, leaves, 0)) return 4;
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    for (int i = 0; i < MOST; i++) gone += maps[i] == MAP_FAILED || mincore(maps[i], SIZE, there);
    work("after");
    printf("%d\n", gone);
    return 0;
}
"""


@case(12)
def a_process_that_leaves_by_two_threads_keeps_its_memory(box):
    """What a thread maps after the first has left is not taken for the domain's by the second."""
    program = box.cc("two_leave", TWO_LEAVE, "-pthread")
    for _ in range(20):
        fine(box.run(program), "0\n")


ABORTS = FRAME + r"""
int main(int argc, char **argv) {
    int p[2], n = 0;
    char b[1000];
    memset(b, 'S', sizeof b);
    for (int i = 0; i < 60; i++) memcpy(b + i * 16, "byway-secret-%%%", 16);
    if (argc < 2 || pipe(p)) return 2;
    for (int i = 0; i < 50; i++) if (write(p[1], b, sizeof b) != sizeof b) return 3;
    memset(b, 0, sizeof b);
    if (prctl(PR_SET_DUMPABLE, 1) || chdir(argv[1])) return 4;
    struct rlimit l = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_CORE, &l);
    abort();
}
"""


@case(10)
def a_core_file_is_the_programs_own(box):
    with open("/proc/sys/kernel/core_pattern") as f:
        pattern = f.read().strip()
    if "/" in pattern or pattern.startswith("|"):
        raise Skip(f"core files go to {pattern}")
    program = box.cc("aborts", ABORTS)
    cores = box.path("cores")
    os.mkdir(cores)
    # Filter: what the kernel dumps at most of its own accord, shared memory without a name among it.
    unlink = "rm -f {0}/run-*; ".format(box.shm) if box.way == "byway" else ""
    text = f"echo 0x3f >/proc/self/coredump_filter; (sleep 0.3; {unlink}true) & {program} {cores} & wait $!"
    r = box.run("bash", "-c", text, timeout=60)
    found = [os.path.join(cores, n) for n in os.listdir(cores)]
    assert len(found) == 1, f"{len(found)} core files; {r.stderr}"
    size = os.stat(found[0]).st_blocks * 512
    with open(found[0], "rb") as f:
        secrets = len(re.findall(rb"byway-secret-", f.read()))
    assert size < 8 << 20, f"{size >> 20} MiB"
    assert secrets < 100, f"{secrets} times what lay in the pipe"


if __name__ == "__main__":
    main()
