#!/usr/bin/env python3
"""Starts: what the cache does not know keeps nobody waiting, and other name spaces take no part.

Invariant: a start takes about as long as without Byway, whatever the run's service does. Bounds of time are many times what is measured.
Not here: the cache's files (cache.py).
"""
import os, shutil, subprocess, time
from harm import Skip, case, fine, main

LIBRARIES = 60
# Sends through a pipe what each library says, and reads it back.
MANY = r"""
#include <string.h>
#include <unistd.h>
%s
int main(void) {
    int p[2], sum = 0;
    char b[4096], c[4096];
    if (pipe(p)) return 2;
    for (int i = 0; i < 500; i++) {
        memset(b, i, sizeof b);
        if (write(p[1], b, sizeof b) != sizeof b || read(p[0], c, sizeof c) != sizeof c || memcmp(b, c, sizeof b)) return 3;
    }
    return (%s) != %d;
}
"""


@case(15)
def sixty_libraries(box):
    """The first start with an empty cache is the kernel's at worst, and soon; a later one is carried."""
    names = []
    for i in range(LIBRARIES):
        with open(box.path(f"l{i}.c"), "w") as f:
            f.write(f"int f{i}(void) {{ return {i}; }}\n")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", box.path(f"l{i}.so"), box.path(f"l{i}.c")], check=True)
        names.append(box.path(f"l{i}.so"))
    calls = [f"f{i}" for i in range(LIBRARIES)]
    declared = f"int {', '.join(f'{c}(void)' for c in calls)};"
    total = sum(range(LIBRARIES))
    program = box.cc("many", MANY % (declared, " + ".join(f"{c}()" for c in calls), total), *names)
    box.env["BYWAY_CACHE"] = box.path("cache")
    # The run's own start fills the cache with libc: what is timed is the program's.
    text = "import subprocess, sys, time\nt = time.monotonic()\nr = subprocess.run([sys.argv[1]]).returncode\n" \
           "print(round(time.monotonic() - t, 2))\nsys.exit(r)"
    r = box.run("python3", "-c", text, program)
    assert r.returncode == 0 and not r.stderr, r.stderr
    assert float(r.stdout) < 1.5, f"{r.stdout.strip()} s"
    r = box.run(program, start=box.start("--explain"))
    assert r.returncode == 0, r.stderr
    assert box.way == "plain" or " bytes carried" in r.stderr and " 0 bytes carried" not in r.stderr, r.stderr


STOPPED = r"""
import os, signal, subprocess, sys, time
run, programs = os.getppid(), sys.argv[2:]
if sys.argv[1] == "byway":
    os.kill(run, signal.SIGSTOP)
t = time.monotonic()
done = [subprocess.run([p], stdout=subprocess.PIPE).stdout for p in programs]
took = time.monotonic() - t
if sys.argv[1] == "byway":
    os.kill(run, signal.SIGCONT)
assert done == [b"hello\n"] * len(programs), done
print(round(took, 2))
"""


@case(14)
def a_stopped_service(box):
    """Programs that the cache does not know start while the run's first process is stopped."""
    programs = []
    for i in range(8):
        programs.append(box.cc(f"p{i}", f'#include <stdio.h>\nint x = {i};\nint main(void) {{ puts("hello"); return 0; }}'))
    r = box.run("python3", "-c", STOPPED, box.way, *programs)
    assert r.returncode == 0 and not r.stderr, r.stderr
    assert float(r.stdout) < 3, f"{r.stdout.strip()} s for {len(programs)} starts"


INSIDE = "import os; print(os.getpid(), sum('/run-' in l for l in open('/proc/self/maps')))"


@case(9)
def an_inner_pid_name_space(box):
    """Inside, process numbers mean others: what is started there takes no part."""
    if subprocess.run(["unshare", "-pf", "true"], capture_output=True).returncode:
        raise Skip("no new pid name space may be made")
    fine(box.run("unshare", "-pf", "python3", "-c", INSIDE), "1 0\n")
    fine(box.run("unshare", "-pf", "--mount-proc", "sh", "-c", "head -c 3000000 /dev/zero | cat | wc -c"), "3000000\n")
    fine(box.run("sh", "-c", "head -c 3000000 /dev/zero | unshare -pf cat | wc -c"), "3000000\n")


if __name__ == "__main__":
    main()
