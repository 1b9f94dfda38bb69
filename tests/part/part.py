#!/usr/bin/env python3
"""Which processes take part, by the objects that they load: how many, of which segments, and when.

Each case runs a program on the plain kernel first and then under Byway, and compares what comes out of its pipe. `carried`
is what `byway run --explain` says of that pipe: a process that takes no part has nothing carried.
Invariant: the bytes are the kernel's in every case; no case depends on a time.
Not here: which bytes of an object are rewritten (data.py, sweep.py), and over which file (identity.py).

  usage: part.py BYWAY [CASE...]          prints one line a case, exits 1 if any failed
"""
import os, re, subprocess, sys, tempfile

if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
    sys.exit("usage: part.py BYWAY [CASE...]")
BYWAY = os.path.abspath(sys.argv[1])
CASES, LINES = [], 60000
CARRIED = re.compile(r"  (\d+) bytes carried")


def case(f):
    CASES.append(f)
    return f


class Skip(Exception):
    pass


class Box:
    """A folder with a cache of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.env = {**os.environ, "BYWAY_CACHE": self.path("cache")}

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    def cc(self, name, text, *more):
        source = self.write(name + ".c", text)
        subprocess.run(["cc", "-O1", "-o", self.path(name), source, *more], check=True)
        return self.path(name)

    def library(self, name, text, *more):
        return self.cc(name, text, "-shared", "-fPIC", "-Wl,-soname," + name, *more)

    def run(self, command, *start):
        p = subprocess.run([*start, "sh", "-c", command], capture_output=True, text=True, timeout=300, env=self.env,
                           stdin=subprocess.DEVNULL)
        return (p.returncode, p.stdout), p.stderr

    def both(self, command, carried, starts=2):
        """The kernel first. `carried`: whether most of what the command's pipes take is. A first start may be too early:
        what the cache does not know is looked at meanwhile."""
        plain, _ = self.run(command)
        if plain[0] != 0:
            raise AssertionError(f"plain: {plain}")
        most = 0
        for _ in range(starts):
            ours, said = self.run(command, BYWAY, "run", "--private", "--explain", "--")
            assert ours == plain, f"under Byway {ours[0]}, {ours[1][-300:]!r} {said[-300:]}; plain {plain[1][-300:]!r}"
            most = max(map(int, CARRIED.findall(said)), default=0)
        assert (most > 1000000) == carried, f"{most} bytes carried: {said[-300:]}"

    def verdict(self, path):
        p = subprocess.run([BYWAY, "doctor", "--object", path], capture_output=True, text=True, env=self.env)
        return p.stdout.strip()


# Writes lines into its standard output, by a call of libc each.
SAY = r"""
#include <string.h>
#include <unistd.h>
static void say(const char *s) {
    for (int i = 0; i < %d; i++) if (write(1, s, strlen(s)) < 0) _exit(9);
}
""" % LINES
LINE = "one line of twenty-seven..\\n"


@case
def objects(box):
    """A program with 120 libraries, and with 600."""
    for many in (120, 600):
        names = []
        for i in range(many):
            box.write("f.s", f".globl f{i}\n.type f{i}, @function\nf{i}: mov ${i}, %eax\n ret\n"
                             ".section .note.GNU-stack, \"\", @progbits\n")
            subprocess.run(["as", "-o", box.path("f.o"), box.path("f.s")], check=True)
            out = box.path(f"l{i}.so")
            subprocess.run(["ld", "-shared", "-z", "separate-code", "-soname", f"l{i}.so", "-o", out, box.path("f.o")],
                           check=True)
            names.append(out)
        calls = [f"f{i}" for i in range(many)]
        sums = " + ".join(c + "()" for c in calls)
        text = f"{SAY}int {', '.join(c + '(void)' for c in calls)};\n"
        main = box.cc("main", text + f"int main(void) {{ say(\"{LINE}\"); return ({sums}) != {sum(range(many))}; }}",
                      *names, "-Wl,-rpath," + box.folder)
        box.both(f"{main} | md5sum", True)


SITE = r"""
/* No short jump of the C runtime's code may seem to lead to the call. */
__asm__(".rept 256\n nop\n .endr\n");
long CALL(long number, long a, long b, long c) {
    long r;
    __asm__ volatile("nop\n nop\n nop\n nop\n nop\n syscall" : "=a"(r) : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return r;
}
"""


@case
def rewritten_objects(box):
    """A program with 50 libraries that each make system calls of their own."""
    names, uses = [], []
    for i in range(50):
        names.append(box.library(f"libs{i}.so", SITE.replace("CALL", f"call{i}")))
        uses.append(f"if (call{i}(1, 1, (long)line, 20) != 20) return {i + 1};")
    declared = "\n".join(f"long call{i}(long, long, long, long);" for i in range(50))
    main = box.cc("main", declared + '\nstatic const char line[] = "nineteen characters\\n";\n'
                  f"int main(void) {{ for (int k = 0; k < 4000; k++) {{ {' '.join(uses)} }} return 0; }}",
                  *names, "-Wl,-rpath," + box.folder)
    box.both(f"{main} | md5sum", True)


def main():
    wanted, failed = sys.argv[2:], 0
    for f in CASES:
        if wanted and f.__name__ not in wanted:
            continue
        with tempfile.TemporaryDirectory(prefix="byway-part-") as folder:
            try:
                f(Box(folder))
                print(f"ok {f.__name__}", flush=True)
            except Skip as why:
                print(f"skipped {f.__name__}: {why}", flush=True)
            except AssertionError as e:
                failed += 1
                print(f"not ok {f.__name__}: {e}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
