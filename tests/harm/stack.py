#!/usr/bin/env python3
"""Handlers on small alternate stacks: what is done there beside the kernel's call fits, or is not done.

Invariant: nothing is written below an alternate stack. Not here: what a handler's calls do (tests/conformance).
"""
import subprocess
from harm import case, main

# Each call in a handler on a stack that ends at a page that cannot be touched. Pipes are carried, with bytes in flight.
PROGRAM = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
static int pipes[8][2], went;
static const char *what;
static char *args[] = {"echo", "fine", 0};
extern char **environ;
static void handler(int s) {
    static char b[4096];
    int status;
    (void)s;
    if (!strcmp(what, "exec")) {
        execve("/dev/null", args, environ);
        if (errno != EACCES) _exit(10);
        execve("/bin/echo", args, environ);
        _exit(11);
    }
    if (!strcmp(what, "fork")) {
        pid_t p = fork();
        if (!p) { execve("/bin/echo", args, environ); _exit(12); }
        if (waitpid(p, &status, 0) != p || status) _exit(13);
        went = 1;
    }
    if (!strcmp(what, "io")) {
        /* A full pipe, an empty one, and an end that closes. */
        for (int i = 0; i < 8; i++) {
            if (write(pipes[i][1], b, 4096) != 4096 || read(pipes[i][0], b, 4096) != 4096) _exit(14);
            fcntl(pipes[i][1], F_SETFL, O_NONBLOCK);
            long n = 0, r;
            while ((r = write(pipes[i][1], b, 4096)) > 0) n += r;
            if (errno != EAGAIN) _exit(15);
            close(pipes[i][1]);
            while ((r = read(pipes[i][0], b, 4096)) > 0) n -= r;
            if (r || n != -4 * 1000) _exit(16);
            close(pipes[i][0]);
        }
        int p[2];
        if (pipe(p) || write(p[1], "x", 1) != 1 || dup2(p[0], 77) != 77 || read(77, b, 9) != 1) _exit(17);
        puts("fine");
        went = 1;
    }
}
int main(int argc, char **argv) {
    static char b[4096];
    size_t size = atoi(argv[1]);
    what = argv[2];
    for (int i = 0; i < 8; i++) {
        if (pipe(pipes[i])) return 2;
        for (int k = 0; k < 200; k++) if (write(pipes[i][1], b, 1000) != 1000 || read(pipes[i][0], b, 1000) != 1000) return 3;
        for (int k = 0; k < 4; k++) if (write(pipes[i][1], b, 1000) != 1000) return 4;
    }
    size_t whole = (size + 4095) & ~4095ul;
    char *m = mmap(0, whole + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED || mprotect(m, 4096, PROT_NONE)) return 5;
    stack_t st = {.ss_sp = m + 4096, .ss_size = size};
    if (sigaltstack(&st, 0)) { puts("fine"); return 0; }
    struct sigaction sa = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &sa, 0);
    raise(SIGUSR1);
    return went ? 0 : 6;
}
"""


def fits(r):
    return r.returncode == 0 and not r.stderr and r.stdout == "fine\n"


@case(16)
def calls_on_an_alternate_stack(box):
    program = box.cc("stack", PROGRAM, "-Wl,-z,now")
    for what in ("exec", "fork", "io"):
        # A page, or the least that the kernel's frame of this CPU leaves enough of; SIGSTKSZ is what most ask for.
        alone = lambda size: fits(subprocess.run([program, str(size), what], capture_output=True, text=True, timeout=60))
        least = next((size for size in range(4096, 6000, 64) if alone(size)), 6000)
        for size in (least, 6000, 7680, 8192, 65536):
            r = box.run(program, str(size), what)
            assert fits(r), f"{what} on {size} B: status {r.returncode} {r.stdout!r} {r.stderr!r}"


if __name__ == "__main__":
    main()
