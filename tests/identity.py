#!/usr/bin/env python3
"""A rewritten text is mapped only over the text of the very file that it was made from.

Each case changes what a path leads to, before a start or during it, and looks at what the program then computes. The kernel
comes first, then Byway. Invariant: the program ends and computes as on the kernel; where the file is known, its text is the
rewritten one. Not here: which bytes are rewritten (data.py, sweep.py).

  usage: identity.py BYWAY          prints one line a case, exits 1 if any failed
"""
import os, shutil, subprocess, sys, tempfile, time

BYWAY = os.path.abspath(sys.argv[1]) if len(sys.argv) == 2 else sys.exit("usage: identity.py BYWAY")
# A library with a system call of its own (getpid by number, through a site that is rewritten), and a value that tells builds
# apart. `wide` moves the site, so that another build's text would not fit.
LIBRARY = r"""
long value(void) { return %d; }
#define NOPS ".rept %d\n nop\n .endr\n"
__asm__(NOPS);
long call(long number, long a, long b, long c) {
    long r;
    __asm__ volatile("syscall" : "=a"(r) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return r;
}
"""
PROGRAM = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
long value(void);
long call(long, long, long, long);
int main(void) {
    int p[2];
    char b[6] = "";
    if (pipe(p) || call(1, p[1], (long)"abcde", 5) != 5 || call(0, p[0], (long)b, 5) != 5 || strcmp(b, "abcde")) return 3;
    printf("%ld\n", value());
    char line[512];
    FILE *f = fopen("/proc/self/maps", "r");
    int libc = 0, own = 0;
    while (fgets(line, sizeof line, f)) {
        /* A cache file is named by five numbers and a version. */
        char *end = strrchr(line, '.');
        if (strstr(line, " r-xp ") && end && end[1] == 'v' && end[2] >= '0' && end[2] <= '9') libc++;
        own += strstr(line, " r-xp ") && strstr(line, "libvalue.so") != 0;
    }
    fprintf(stderr, "%d rewritten, own %s\n", libc, own ? "plain" : "rewritten");
    return 0;
}
"""
failed = 0


def report(name, problem=""):
    global failed
    failed += bool(problem)
    print(f"not ok {name}: {problem}" if problem else f"ok {name}", flush=True)


def make(folder, name, value, nops, *more):
    # One name for all sources: it stands in the object, whose builds are to be of one size.
    source = os.path.join(folder, "library.c")
    with open(source, "w") as f:
        f.write(LIBRARY % (value, nops))
    out = os.path.join(folder, name)
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-Wl,-soname,libvalue.so", "-o", out, source, *more], check=True)
    return out


def program(folder):
    """A program that loads libvalue.so from its own folder."""
    source, out = os.path.join(folder, "main.c"), os.path.join(folder, "main")
    with open(source, "w") as f:
        f.write(PROGRAM)
    subprocess.run(["cc", "-O1", "-o", out, source, os.path.join(folder, "libvalue.so"), "-Wl,-rpath,$ORIGIN"], check=True)
    return out


def run(command, cache):
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, "BYWAY_CACHE": cache})


def both(name, command, cache, wanted, told=None):
    """The kernel first, then Byway: output as wanted, and what the program tells of itself under Byway."""
    plain = run(command, cache)
    if (plain.returncode, plain.stdout) != (0, wanted):
        return report(name, f"plain: {plain.returncode} {plain.stdout!r}, wanted {wanted!r}")
    ours = run([BYWAY, "run", "--private", "--", *command], cache)
    if (ours.returncode, ours.stdout) != (0, wanted):
        return report(name, f"under Byway: {ours.returncode} {ours.stdout!r} {ours.stderr!r}, wanted {wanted!r}")
    if told and told not in ours.stderr:
        return report(name, f"under Byway it tells {ours.stderr!r}, wanted {told!r}")
    report(name)


def in_place(folder, cache):
    """Rewritten in place, its size and its time of writing set back: the new code runs."""
    lib = make(folder, "libvalue.so", 1, 64)
    other = make(folder, "other.so", 2, 64)
    main = program(folder)
    both("a library", [main], cache, "1\n", "own rewritten")
    for how in ("with a build-id", "without a build-id"):
        if how == "without a build-id":
            make(folder, "libvalue.so", 1, 64, "-Wl,--build-id=none")
            make(folder, "other.so", 2, 64, "-Wl,--build-id=none")
            both(f"a library {how}", [main], cache, "1\n", "own rewritten")
        before = os.stat(lib)
        with open(other, "rb") as f:
            new = f.read()
        if len(new) != before.st_size:
            return report(f"in place, {how}", "the two builds differ in size: the test is wrong")
        with open(lib, "r+b") as f:
            f.write(new)
        os.utime(lib, ns=(before.st_atime_ns, before.st_mtime_ns))
        both(f"rewritten in place, {how}", [main], cache, "2\n", "own rewritten")


def at_once(folder, cache):
    """Changed again within one step of the file system's clock: each start runs what is there."""
    lib = make(folder, "libvalue.so", 1, 64)
    main = program(folder)
    builds = []
    for value in (1, 2):
        with open(make(folder, f"build{value}", value, 64), "rb") as f:
            builds.append(f.read())
    wrong = []
    with tempfile.TemporaryDirectory() as empty:
        for k in range(60):
            with open(lib, "r+b") as f:
                f.write(builds[k % 2])
            ours = run([BYWAY, "run", "--", main], empty)
            if (ours.returncode, ours.stdout) != (0, f"{k % 2 + 1}\n"):
                wrong.append((k, ours.returncode, ours.stdout, ours.stderr))
    report("60 changes, a start after each", f"{wrong[:3]}" if wrong else "")


def renamed(folder, cache):
    """Replaced by rename while programs start, as a package manager does."""
    make(folder, "libvalue.so", 1, 16)
    main = program(folder)
    builds = [make(folder, "one", 1, 16), make(folder, "two", 2, 4096)]
    script = f"for i in $(seq 400); do {main} 2>/dev/null || echo bad $?; done | sort | uniq -c | awk '{{ print $2, $3 }}'"
    p = subprocess.Popen([BYWAY, "run", "--", "bash", "-c", script], stdout=subprocess.PIPE, text=True,
                         env={**os.environ, "BYWAY_CACHE": cache})
    k = 0
    while p.poll() is None:
        k += 1
        shutil.copy2(builds[k % 2], folder + "/new")
        os.rename(folder + "/new", folder + "/libvalue.so")
        time.sleep(0.0005)
    out = p.stdout.read()
    report(f"400 starts while the library is replaced {'often' if k > 100 else k}", "" if out == "1 \n2 \n" else repr(out))


def loader(folder, cache):
    """A loader that is started by name is the program of /proc/self/exe, and not the main program."""
    ld = next(p for p in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-x86-64.so.2") if os.path.exists(p))
    make(folder, "libvalue.so", 1, 16)
    both("a loader that is started by name", [ld, program(folder)], cache, "1\n")
    both("a loader with a system's program", [ld, "/bin/echo", "hello"], cache, "hello\n")


def foreign(folder, cache):
    """A cache file under another object's name: its build-id is not that object's."""
    make(folder, "libvalue.so", 1, 16)
    main = program(folder)
    both("before the cache is changed", [main], cache, "1\n", "own rewritten")
    other = tempfile.mkdtemp(dir=folder)
    make(other, "libvalue.so", 2, 16)
    both("another object of the same shape", [program(other)], cache, "2\n", "own rewritten")
    names = []
    for where in (folder, other):
        s = os.stat(where + "/libvalue.so")
        names += [n for n in os.listdir(cache) if n.startswith(f"{s.st_dev:016x}-{s.st_ino:016x}-")]
    if len(names) != 2:
        return report("a cache file under another's name", f"the cache has {names}")
    shutil.copy2(f"{cache}/{names[0]}", f"{cache}/{names[1]}")
    both("a cache file under another's name", [other + "/main"], cache, "2\n", "0 rewritten, own plain")
    os.remove(f"{cache}/{names[1]}")
    os.truncate(f"{cache}/{names[0]}", 8192)
    both("a cache file that is cut off is made anew", [main], cache, "1\n", "own rewritten")


def audit(folder, cache):
    """Code of an audit library is in no list that a program sees; it makes what calls it likes."""
    with open(folder + "/audit.c", "w") as f:
        f.write("unsigned la_version(unsigned v) { return v; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder + "/audit.so", folder + "/audit.c"], check=True)
    make(folder, "libvalue.so", 1, 16)
    command = ["env", f"LD_AUDIT={folder}/audit.so", program(folder)]
    both("a program with an audit library", command, cache, "1\n", "0 rewritten, own plain")


def btrfs(folder, cache):
    """A file system whose devices stat(2) and the list of mappings name in different ways."""
    name = "a library on btrfs"
    image, at = folder + "/image", folder + "/at"
    os.mkdir(at)
    with open(image, "w") as f:
        f.truncate(128 << 20)
    steps = [["mkfs.btrfs", "-q", image], ["mount", "-o", "loop", image, at]]
    for s in steps:
        try:
            done = subprocess.run(s, capture_output=True, text=True)
            why = done.stderr.strip().splitlines()[-1:] or [""]
        except OSError as e:
            done, why = None, [str(e)]
        if not done or done.returncode:
            return print(f"skipped {name}: {' '.join(s[:1])}: {why[0]}")
    try:
        make(at, "libvalue.so", 1, 16)
        main = program(at)
        both(name, [main], cache, "1\n", "own rewritten")
    finally:
        subprocess.run(["umount", at])


for case in (in_place, at_once, renamed, loader, foreign, audit, btrfs):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as cache:
        case(folder, cache)
sys.exit(bool(failed))
