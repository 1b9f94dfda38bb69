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

# `busy`: carried, and then not read; `cold`: its reader sleeps; `gone`: carried, and closed.
PROGRAM = r"""
import os, sys, time
def child(f):
    pid = os.fork()
    if pid == 0:
        f(); os._exit(0)
    return pid
def take(fd, n):
    while n > 0: n -= len(os.read(fd, min(n, 65536)))
MUCH = 8 << 20
gone, busy, cold, go = os.pipe(), os.pipe(), os.pipe(), os.pipe()
def reads():
    os.close(gone[1]); os.close(busy[1]); os.close(cold[1]); os.close(go[1])
    take(gone[0], MUCH); os.close(gone[0])
    take(busy[0], MUCH); os.read(go[0], 1)
def sleeps():
    for p in gone, busy, go: os.close(p[0]); os.close(p[1])
    os.close(cold[1]); os.read(cold[0], 1)
pids = [child(reads), child(sleeps)]
for p in gone, busy, cold, go: os.close(p[0])
for p in gone, busy:
    for i in range(MUCH // 4096): os.write(p[1], bytes(4096))
os.close(gone[1])
time.sleep(0.5)
os.write(busy[1], bytes(100_000))
print(os.fstat(busy[1]).st_ino, os.fstat(cold[1]).st_ino, os.getpid(), *pids, flush=True)
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
        busy, cold, *pids = map(int, run.stdout.readline().split())
        for _ in range(100):
            [domain] = json.loads(top("--json")[1])["domains"]
            flows = {f["inode"]: f for f in domain["channels"]}
            if cold in flows and flows[cold]["readers_asleep"] == 1:
                break
            time.sleep(0.05)
        return run, busy, cold, pids, domain, flows

    for _ in range(5):  # on a busy machine each write may wake the reader, and the pipe is the kernel's for that
        run, busy, cold, pids, domain, flows = started()
        if flows[busy]["mode"] == "carried":
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
    f = flows[cold]
    check("not carried, and why", (f["mode"], f["carried_bytes"], f["ring_bytes"]) == ("kernel", 0, None) and f["why"], f)
    check("a reader sleeps", f["readers_asleep"] == 1, f)
    check("the names", f["reader"].startswith("python"), f)
    check("what is closed is not shown", sum(f["carried_bytes"] > 4 << 20 for f in flows.values()) == 1, flows)

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
