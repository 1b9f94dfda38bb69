#!/usr/bin/env python3
"""The memory of a run, seen from outside: a burst through many pipes comes and goes, killed processes leave nothing lost.

usage: memory.py BYWAY
Ends with 1 if the resident memory does not come back to the watermark by itself, or the audit finds an object that is
not in exactly one place. Waits as long as a busy machine needs; says how long it took.
"""
import json, os, random, subprocess, sys, time

BYWAY = os.path.realpath(sys.argv[1])
LOW = 2  # MiB
RING = 512 << 10
failed = 0


def check(what, ok, seen=""):
    global failed
    if not ok:
        failed += 1
    print(("ok   " if ok else "not ok  ") + what, seen)


def stat(run):
    out = subprocess.run([BYWAY, "stat", "--json", str(run)], capture_output=True, text=True)
    return json.loads(out.stdout)[0] if out.returncode == 0 else None


def present(s):
    return sum(c["present_bytes"] for c in s["classes"])


def eventually(f, seconds=30):
    t = time.time()
    while time.time() - t < seconds:
        v = f()
        if v:
            return v, time.time() - t
        time.sleep(0.05)
    return None, seconds


# PIPES writers fill their rings while nobody reads; at a line on standard input everything is read, and from then on
# only one pipe has some ordinary traffic until the next line.
BURST = r"""
import os, sys, threading
pipes = []
for _ in range(%d):
    r, w = os.pipe()
    if os.fork() == 0:
        os.close(r)
        block = b'x' * 16384
        for _ in range(64):
            os.write(w, block)
        os._exit(0)
    os.close(w)
    pipes.append(r)
sys.stdin.readline()
total = 0
for r in pipes:
    while True:
        b = os.read(r, 65536)
        if not b:
            break
        total += len(b)
print(total, flush=True)
r, w = os.pipe()
stop = []
threading.Thread(target=lambda: (sys.stdin.readline(), stop.append(1)), daemon=True).start()
while not stop:
    os.write(w, b'y' * 4096)
    os.read(r, 4096)
"""


def start(args, command):
    p = subprocess.Popen([BYWAY, "run", "--low", str(LOW), *args, "--", *command],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                         text=True, start_new_session=True)
    eventually(lambda: stat(p.pid))
    return p


def burst(args, name, pipes, most):
    p = start(args, [sys.executable, "-c", BURST % pipes])
    print(name, "...", flush=True)
    full, _ = eventually(lambda: (lambda s: s and present(s) >= most and s)(stat(p.pid)))
    check(f"{name}: a burst of {pipes} pipes takes memory", full, f"{present(full) >> 20 if full else '?'} MiB")
    p.stdin.write("\n"); p.stdin.flush()
    total = int(p.stdout.readline())
    check(f"{name}: every byte came", total == pipes * 64 * 16384, f"{total}")
    # What the CPUs' fronts hold is in the watermark; the ring of the one busy pipe is not.
    back, took = eventually(lambda: (lambda s: s and present(s) <= 1.1 * LOW * 2**20 + RING and s)(stat(p.pid)))
    now = stat(p.pid)
    check(f"{name}: and goes back by itself", back, f"{present(now) / 2**20:.1f} MiB, {now['free_bytes'] / 2**20:.1f} free, after {took:.2f} s")
    audit = subprocess.run([BYWAY, "doctor", "--audit"], capture_output=True, text=True)
    check(f"{name}: audit", audit.returncode == 0, audit.stdout.strip())
    p.stdin.write("\n"); p.stdin.close()
    check(f"{name}: ends well", p.wait() == 0)


def kills(args, name):
    line = "while :; do head -c 3M /dev/zero | cat | cat >/dev/null; done"
    p = start(args, ["bash", "-c", f"for i in 1 2 3; do {line} & done; wait"])
    dice = random.Random(7)
    killed = 0
    # pgrep looks at every process of the machine: with many it takes long.
    begin = time.time()
    while time.time() < begin + 4 or (killed <= 50 and time.time() < begin + 60):
        mine = subprocess.run(["pgrep", "-s", str(p.pid), "-x", "head|cat"], capture_output=True, text=True)
        for pid in mine.stdout.split():
            if dice.random() < 0.3:
                try:
                    os.kill(int(pid), 9)
                    killed += 1
                except ProcessLookupError:
                    pass
        time.sleep(dice.random() * 0.02)
    check(f"{name}: processes were killed", killed > 50, f"{killed}")
    clean = lambda: subprocess.run([BYWAY, "doctor", "--audit"], capture_output=True, text=True)
    a, took = eventually(lambda: (lambda r: r.returncode == 0 and r)(clean()))
    check(f"{name}: audit, with others at work", a, (a or clean()).stdout.strip())
    os.killpg(p.pid, 9)
    p.stdin.close()
    p.wait()


burst([], "rseq", 100, 20 << 20)
burst(["--forbid", "rseq"], "lock", 100, 20 << 20)
# The limit: what does not fit is the kernel's. What is free afterwards may be less than the usual --high.
burst(["--memory", "8", "--high", str(LOW)], "8 MiB", 60, 4 << 20)
kills([], "kills")
kills(["--forbid", "rseq"], "kills, lock")
sys.exit(failed != 0)
