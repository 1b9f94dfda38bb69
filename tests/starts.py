#!/usr/bin/env python3
"""Starts: the system calls that a short program makes under Byway, counted by strace against those on the plain kernel.

Invariant: a process that can have no carried pipe makes few calls more. The service gives its CPU back while it reads
a cache file in full. Calls are counted, times never.
Not here: what a start must prove (identity.py, part/part.py).

  usage: starts.py BYWAY          prints one line a case, exits 1 if one failed
"""
import os, re, subprocess, sys, tempfile

BYWAY = os.path.abspath(sys.argv[1])
TRUE = "/bin/true"
# From the fork in bash to the exit, at the first start in a run and at a later one: the program is self-contained (ADR 33).
FIRST, LATER = 66, 20
# How the numbers that descriptors may have are found.
WALK = re.compile(r"^select\(65, \[64\]|^openat\(AT_FDCWD, \"/proc/thread-self/fd\"")
OWN = re.compile(r"^stat\(\"/proc/self/exe\"")
# A part of a cache file, as `whole` of rewrite/image.rs reads it.
PART = re.compile(r"^read\(.* 65536\) = 65536$")


def calls(*start, script):
    """The calls of each process that bash makes for TRUE: before its exec, and after."""
    with tempfile.TemporaryDirectory() as d:
        log = os.path.join(d, "log")
        r = subprocess.run(["strace", "-ff", "-o", log, *start, "bash", "-c", script], capture_output=True, text=True)
        assert r.returncode == 0, r.stderr
        found = []
        for name in sorted(os.listdir(d), key=lambda n: int(n.rsplit(".", 1)[1])):
            with open(os.path.join(d, name), errors="replace") as f:
                lines = [l for l in f.read().splitlines() if not l.startswith(("---", "+++"))]
            at = [i for i, l in enumerate(lines) if l.startswith(f'execve("{TRUE}"')]
            if at:
                found.append((lines[:at[0]], lines[at[0]:]))
    assert found, f"no process has started {TRUE}"
    return found


def few_calls():
    script = f"{TRUE}; {TRUE}; :"
    [plain, _] = [len(before) + len(after) for before, after in calls(script=script)]
    # Warm: the cache knows the objects from then on.
    subprocess.run([BYWAY, "run", "--private", "--", TRUE], check=True)
    said = []
    for most, (before, after) in zip((FIRST, LATER), calls(BYWAY, "run", "--private", "--", script=script)):
        more = len(before) + len(after) - plain
        assert not [l for l in before if WALK.match(l)], "descriptors are looked at, and there was no pipe"
        assert not [l for l in after if OWN.match(l)], "/proc is asked for the program, whose path is known"
        assert more <= most, f"{more} calls more than the plain kernel's {plain}"
        said.append(str(more))
    return f"{' and then '.join(said)} calls more than {plain}"


def a_pipe_is_looked_for():
    """Once there was a pipe, an exec looks for what it must hand back."""
    script = f"echo a | cat >/dev/null; {TRUE}; :"
    calls(script=script)
    [(before, _)] = calls(BYWAY, "run", "--private", "--", script=script)
    assert [l for l in before if WALK.match(l)], "a pipe could pass into the new image uncounted"
    return "an exec looks at the descriptors"


def a_cache_file_is_read_in_parts():
    """The service has the command's CPU, and reads libc's file in full: it yields after each part."""
    subprocess.run([BYWAY, "run", "--private", "--", TRUE], check=True)
    with tempfile.TemporaryDirectory() as d:
        # The service's thread has a log of its own.
        trace = ["strace", "-ff", "-e", "trace=read,sched_yield", "-o", os.path.join(d, "log")]
        subprocess.run([*trace, BYWAY, "run", "--private", "--", "sleep", "1"], check=True)
        logs = [open(os.path.join(d, name), errors="replace").read().splitlines() for name in os.listdir(d)]
    next_call = [after for log in logs for l, after in zip(log, log[1:]) if PART.match(l)]
    assert len(next_call) > 4, f"{len(next_call)} parts were read"
    assert all(l.startswith("sched_yield") for l in next_call), "two parts are read without a yield between them"
    return f"{len(next_call)} parts, a yield after each"


bad = 0
for case in few_calls, a_pipe_is_looked_for, a_cache_file_is_read_in_parts:
    try:
        print(f"ok {case.__name__}: {case()}")
    except AssertionError as e:
        bad = 1
        print(f"BAD {case.__name__}: {e}")
sys.exit(bad)
