"""What `byway top` says of live runs: the pipes that are open, and of each what was carried, how full it is, who sleeps.

A program makes pipes of which every figure is known, and holds still while it is looked at.
usage: top.py BYWAY
"""

import faulthandler
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

BYWAY = os.path.realpath(sys.argv[1])
# Whatever hangs is told, with where it was waited for.
faulthandler.dump_traceback_later(120, exit=True)
# Under nohup(1), or in the background of a shell, some are ignored, and `byway top` would leave them so.
for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(ignored) == signal.SIG_IGN: signal.signal(ignored, signal.SIG_DFL)

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
def put(fd, n, size):
    for i in range(n // size): os.write(fd, bytes(size))
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
    try: put(full[1], 2 * MUCH, 4096)
    except BrokenPipeError: pass
pids = [child(reads), child(sleeps), child(writes)]
keep(gone[1], busy[1], cold[1], go[1])
# Long ones: of short ones, on a busy host, each may find its reader asleep, and the ring be left.
put(gone[1], MUCH, 65536); os.close(gone[1])
put(busy[1], MUCH, 65536)
time.sleep(0.5)
os.write(busy[1], bytes(100_000))
print(*inodes, os.getpid(), *pids, flush=True)
sys.stdin.readline()
os.write(go[1], b"x"); os.write(cold[1], b"x")
for pid in pids: os.waitpid(pid, 0)
"""


class Terminal:
    """`byway top` on a terminal of 80 columns and 24 lines, and what that shows."""

    def __init__(self, env, *words, columns=80, lines=24):
        self.cells, self.at, self.rest = {}, (0, 0), ""
        self.main, screen = pty.openpty()
        fcntl.ioctl(screen, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen, self.before = screen, termios.tcgetattr(screen)
        own = dict(env, TERM="xterm-256color")
        self.top = subprocess.Popen([BYWAY, "top", *words], stdin=screen, stdout=screen, stderr=screen, env=own,
                                    start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.raw = ""

    def feed(self, text):
        """Cursor moves, clearing and characters; all else changes nothing that is read here."""
        text, self.rest = self.rest + text, ""
        while text:
            m = re.match(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b[78=>]|[^\x1b]", text, re.S)
            if not m:
                self.rest = text
                return
            text = text[m.end():]
            if m[2] == "H":
                row, column = (int(n or 1) for n in (m[1] or "1;1").split(";"))
                self.at = row - 1, column - 1
            elif m[2] == "J" or m[1] == "?1049" and m[2] in "hl":
                self.cells = {}
            elif m[0][0] != "\x1b" and m[0] >= " ":
                self.cells[self.at] = m[0]
                self.at = self.at[0], self.at[1] + 1

    def text(self):
        rows = [""] * 24
        for (row, column), c in sorted(self.cells.items()):
            if row < 24:
                rows[row] = rows[row].ljust(column) + c
        return "\n".join(r.rstrip() for r in rows)

    def until(self, what, wait=5):
        """Reads until the screen shows `what`, a pattern; the screen."""
        end = time.monotonic() + wait
        while not re.search(what, self.text(), re.M) and time.monotonic() < end:
            if select.select([self.main], [], [], 0.1)[0]:
                try:
                    got = os.read(self.main, 65536).decode()
                except OSError:
                    break
                self.raw += got
                self.feed(got)
        return self.text()

    def shows(self, what):
        text = self.until(what)
        check(f"the screen shows {what}", re.search(what, text, re.M), "\n" + text)
        return text

    def press(self, keys):
        os.write(self.main, keys.encode())

    def ended(self):
        """The status, and whether the terminal is as it was."""
        status = self.top.wait(10)
        self.until("never", 0.3)
        whole = termios.tcgetattr(self.screen) == self.before
        left = self.raw.rfind("\x1b[?1049l") > self.raw.rfind("\x1b[?1049h") >= 0
        os.close(self.main)
        os.close(self.screen)
        return status, whole and left and self.raw.rfind("\x1b[?25h") > self.raw.rfind("\x1b[?25l")


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
    with subprocess.Popen([BYWAY, "top", "--every", "1"], env=env, stdout=subprocess.PIPE, text=True) as p:
        looks = [next(line for line in p.stdout if "carried  kernel" in line) for _ in range(2)]
        p.kill()
    check("no terminal, --every: one look after another", len(looks) == 2)
    dumb = subprocess.run(["timeout", "-k", "5", "-s", "INT", "3", "script", "-qec", f"{BYWAY} top --every 1", "/dev/null"], text=True,
                          env=dict(env, TERM="dumb"), stdin=subprocess.DEVNULL, capture_output=True)
    check("a terminal without a screen: text", dumb.stdout.count("carried  kernel") > 1 and "\x1b" not in dumb.stdout, dumb.stdout)

    t = Terminal(env, "--every", "1")
    t.shows(r"^byway top: 1 run, \d+ open, by rate$"); t.shows(rf"^run {run.pid}: "); t.shows(r"^per sec carried  kernel  ring full rd wr pipe$")
    t.shows(r"^ +0 +\d+[KM] +\d+K? +\d+K +\d+%  0  0 python\S* -> python"); t.shows(r"q: quit$")
    text = t.shows(r"^ +nothing went through$")
    check("the screen has 80 columns", max(map(len, text.splitlines())) <= 80, text)
    t.press("s"); t.shows("by carried$"); t.press("ss"); t.shows("by full$"); t.press("sss"); t.shows("by carried$")
    t.press("/NOTHING"); t.shows("^/NOTHING_"); t.press("\r"); t.shows(r'2 with "NOTHING"$')
    t.press("\r"); t.shows(rf"^ +what  pipe, inode \d+, of run {run.pid}$"); t.shows(r"^ +readers asleep  1$"); t.shows(r"^ +processes  \d+")
    t.press("\x1b"); t.shows("^per sec")
    time.sleep(0.1); t.press("\x1b"); t.shows(r"by carried$")
    t.press(" "); t.shows("PAUSED$"); t.press(" "); t.press("\x1b[H"); t.press("\r"); t.shows(rf"inode ({full}|{busy})")
    t.press("q"); check("q ends it", t.ended() == (0, True), t.raw[-200:])
    for sig in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        t = Terminal(env); t.shows("^byway top")
        t.top.send_signal(sig); check(f"{sig.name}: the terminal is as before", t.ended() == (-sig, True), t.raw[-200:])
    t = Terminal(env); t.shows("^byway top")
    t.top.send_signal(signal.SIGTSTP); time.sleep(0.5)
    # Nobody could wake it there, so the kernel does not stop it.
    t.cells = {}; t.shows("^byway top"); t.press("\x03")
    check("stopped and woken: it goes on, and Ctrl-C ends it", t.ended() == (0, True), t.raw[-200:])
    check("stopped: the terminal was as before in between", t.raw.count("\x1b[?1049l") == t.raw.count("\x1b[?1049h") == 2, t.raw[-200:])
    t = Terminal(dict(env, BYWAY_SHM=shm + "/none")); t.shows("^no run of yours is alive"); t.press("q"); check("no run: q", t.ended() == (0, True))

    run.stdin.write("\n"); run.stdin.close()
    check("the run is as it was", run.wait() == 0)
    check("nothing left", os.listdir(shm) == [], os.listdir(shm))

print(f"top: {len(passed)} passed, {len(failures)} failed")
sys.exit(bool(failures))
