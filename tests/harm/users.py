#!/usr/bin/env python3
"""Programs that become another user's, or get another root, and what they start: no message, no difference.

Invariant: the dynamic loader is never told to load a library that it cannot find. Not here: programs that do not bear a preloaded library
(programs.py).
"""
import os, re, shutil, subprocess
from harm import Skip, case, fine, main

DROPS = r"""
import os, subprocess, sys
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
print(subprocess.run(["sh", "-c", "echo one | cat; id -u"], capture_output=True, text=True))
os.execvp("sh", ["sh", "-c", "head -c 200000 /dev/zero | cat | wc -c; true"])
"""


def hidden(box):
    """`byway run` from a folder that only root can enter; so is the cache, with the library."""
    if os.geteuid() != 0:
        raise Skip("needs root, to become another user")
    folder = box.path("hidden")
    os.mkdir(folder, 0o700)
    shutil.copy(box.byway, os.path.join(folder, "byway"))
    return [os.path.join(folder, "byway"), "run", "--"] if box.way == "byway" else []


@case(13)
def a_user_who_cannot_read_the_library(box):
    r = box.run("python3", "-c", DROPS, start=hidden(box))
    assert r.returncode == 0 and not r.stderr, r.stderr
    assert r.stdout.endswith("stderr='')\n200000\n"), r.stdout


@case(13)
def setpriv(box):
    start = hidden(box)
    if not shutil.which("setpriv"):
        raise Skip("no setpriv")
    fine(box.run("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", "echo one | cat; /bin/true; exec id -u", start=start),
         "one\n65534\n")


SPAWNS = r"""
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {
    for (int i = 0; i < 3; i++) {
        pid_t p = vfork();
        if (!p) {
            if (setuid(65534)) _exit(8);
            execle("/bin/sh", "sh", "-c", "exec id -u", (char *)0, environ);
            _exit(9);
        }
        int status;
        if (waitpid(p, &status, 0) != p || status) return 2;
    }
    /* The parent has its own environment still. */
    const char *preload = getenv("LD_PRELOAD");
    if (!getenv("BYWAY") != !(preload && strstr(preload, "byway"))) return 3;
    return system("id -u");
}
"""


@case(13)
def a_vfork_child_becomes_another_user(box):
    fine(box.run(box.cc("spawns", SPAWNS), start=hidden(box)), "65534\n65534\n65534\n0\n")


ROOT = r"""
import os, sys
os.chroot(sys.argv[1])
os.chdir("/")
os.environ["LD_LIBRARY_PATH"] = "/"
os.execv("/says", ["says"])
"""


@case(13)
def another_root(box):
    if os.geteuid() != 0:
        raise Skip("needs root, to change it")
    program = box.cc("says", '#include <stdio.h>\nint main(void) { puts("inside"); return 0; }')
    root = box.path("root")
    os.mkdir(root)
    shutil.copy(program, root)
    for library in re.findall(r"(/\S+) \(", subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout):
        # The loader where the program names it, libc where it is told to look.
        to = root + library if "ld-linux" in library else root
        os.makedirs(os.path.dirname(to) if "ld-linux" in library else to, exist_ok=True)
        shutil.copy(library, to)
    fine(box.run("python3", "-c", ROOT, root), "inside\n")


if __name__ == "__main__":
    main()
