"""What `byway top` says of live runs: the pipes that are open, and of each what was carried, how full it is, who sleeps.

A program makes pipes of which every figure is known, and holds still while it is looked at.
usage: top.py BYWAY
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time

BYWAY = os.path.realpath(sys.argv[1])

# `busy`: carried, and then not read; `cold`: its reader sleeps; `full`: its writer sleeps; `gone`: carried, closed.
PROGRAM = r"""
import os, sys, time
MUCH = 8 << 20
gone, busy, cold, full, go = pipes = [os.pipe() for _ in range(5)]
inodes = [os.fstat(p[0]).st_ino for p in (busy, cold, full)]
def keep(*mine):
    for fd in sum(pipes, ()):
        if fd not in mine: os.close(fd)
def child(f):
    pid = os.fork()
    if pid == 0:
        f()
        os._exit(0)
    return pid
def take(fd):
    n = MUCH
    while n > 0: n -= len(os.read(fd, min(n, 65536)))
def put(fd, n):
    for i in range(n // 4096): os.write(fd, bytes(4096))
def reads():
    keep(gone[0], busy[0], full[0], go[0])
    take(gone[0]); os.close(gone[0])
    take(busy[0]); take(full[0])
    os.read(go[0], 1)
def sleeps():
    keep(cold[0])
    os.read(cold[0], 1)
def writes():
    keep(full[1])
    try: put(full[1], 2 * MUCH)
    except BrokenPipeError: pass
pids = [child(reads), child(sleeps), child(writes)]
keep(gone[1], busy[1], cold[1], go[1])
put(gone[1], MUCH); os.close(gone[1])
put(busy[1], MUCH)
time.sleep(0.5)
os.write(busy[1], bytes(100_000))
print(*inodes, os.getpid(), *pids, flush=True)
sys.stdin.readline()
os.write(go[1], b"x"); os.write(cold[1], b"x")
for pid in pids: os.waitpid(pid, 0)
"""

failures, passed = [], []


def check(what, holds, seen=""):
    if not holds:
        print(f"not ok {what}: {seen}")
    (passed if holds else failures).append(what)


with tempfile.TemporaryDirectory(dir="/dev/shm") as shm:
    os.chmod(shm, 0o700)
    env = dict(os.environ, BYWAY_SHM=shm)

    def top(*words):
        p = subprocess.run([BYWAY, "top", *words], env=env, capture_output=True, text=True)
        return p.returncode, p.stdout, p.stderr

    status, out, err = top("--once")
    check("no run", status == 1 and out == "" and "start one with `byway run" in err, (status, out, err))
    status, out, _ = top("--json")
    check("no run: JSON", (status, json.loads(out)) == (0, {"schema": 1, "domains": []}), out)

    def started():
        """The run, the inodes of its pipes, its processes, and what is said of it once the other reader sleeps."""
        run = subprocess.Popen([BYWAY, "run", "--", sys.executable, "-c", PROGRAM, "word"], env=env,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        busy, cold, full, *pids = map(int, run.stdout.readline().split())
        for _ in range(100):
            [domain] = json.loads(top("--json")[1])["domains"]
            flows = {f["inode"]: f for f in domain["channels"]}
            if {cold, full} <= flows.keys() and flows[cold]["readers_asleep"] == flows[full]["writers_asleep"] == 1:
                break
            time.sleep(0.05)
        return run, busy, cold, full, pids, domain, flows

    for _ in range(5):  # on a busy machine each write may wake the reader, and the pipe is the kernel's for that
        run, busy, cold, full, pids, domain, flows = started()
        if flows[busy]["mode"] == flows[full]["mode"] == "carried":
            break
        run.communicate("\n")
    [one] = domain["runs"]
    check("the run", one["pid"] == run.pid and one["command"].endswith(" word"), one)
    check("memory", 0 < domain["taken_bytes"] <= domain["limit_bytes"] == 128 << 20, domain["taken_bytes"])
    f = flows[busy]
    check("carried", f["mode"] == "carried" and f["carried_bytes"] > 4 << 20, f)
    check("carried and the kernel's are all", f["carried_bytes"] + f["kernel_bytes"] == (8 << 20) + 100_000, f)
    check("how full", f["unread_bytes"] == 100_000 <= f["ring_bytes"], f)
    check("nobody sleeps", (f["readers_asleep"], f["writers_asleep"], f["why"]) == (0, 0, None), f)
    check("who has it", f["processes"] == sorted(pids[:2]), (f["processes"], pids))
    f = flows[full]
    check("a writer sleeps", f["writers_asleep"] == 1 and f["mode"] == "carried", f)
    check("a full ring", f["unread_bytes"] > 0.9 * f["ring_bytes"], f)
    f = flows[cold]
    check("not carried, and why", (f["mode"], f["carried_bytes"], f["ring_bytes"]) == ("kernel", 0, None) and f["why"], f)
    check("a reader sleeps", f["readers_asleep"] == 1, f)
    check("the names", f["reader"].startswith("python"), f)
    check("what is closed is not shown", sum(f["carried_bytes"] > 4 << 20 for f in flows.values()) == 2, flows)

    status, text, err = top("--once")
    check("text", (status, err) == (0, "") and f"run {run.pid}: " in text, text)
    check("80 columns", max(map(len, text.splitlines())) <= 80, text)
    check("text: a full pipe", re.search(r"^ +8M +\d+K +\d+K +\d+% +0 +0  python\S* -> python", text, re.M)
          or re.search(r"^ +\d+K +\d+K +\d+K +\d+% +0 +0  python\S* -> python", text, re.M), text)
    check("no terminal: one look", top()[1].count("carried  kernel") == 1)
    p = subprocess.run(["timeout", "-s", "INT", "3", "script", "-qec", f"{BYWAY} top", "/dev/null"], env=env,
                       stdin=subprocess.DEVNULL, capture_output=True, text=True)
    check("a terminal: one look after another", p.stdout.count("\x1b[H\x1b[J") == 2, p.stdout)

    run.stdin.write("\n"); run.stdin.close()
    check("the run is as it was", run.wait() == 0)
    check("nothing left", os.listdir(shm) == [], os.listdir(shm))

print(f"top: {len(passed)} passed, {len(failures)} failed")
sys.exit(bool(failures))
