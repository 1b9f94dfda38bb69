#!/usr/bin/env python3
"""Jobs of installed programs: how each is made ready, and runs on the plain kernel first and then under Byway.

Invariant: output and status are the kernel's in every run; what `--explain` says of a run is for the caller to judge.
Not here: the jobs themselves (programs.py, polled.py, served.py).
"""
import json, os, shutil, socketserver, struct, subprocess, sys, tempfile, threading
from part import ASLEEP, BYWAY, Box

# What the policy leaves to the kernel depends on the machine, and says nothing of a program.
POLICY = (None, ASLEEP, "carrying never began", "its reader was slower")


class Program:
    """One program: its job is a line of bash over files in the current folder; `own`: how the names of its processes begin;
    `packages`: where it is to be had."""

    def __init__(self, name, job, version="--version", own=None, setup=None, needs=(), command=None, files=None,
                 packages=""):
        self.packages = packages
        self.name, self.job, self.version, self.setup, self.files = name, job, version, setup, files or {}
        self.command = command or name
        self.needs = (self.command.split()[0], *needs)
        self.own = own or (name,)

    def here(self, box):
        return all(shutil.which(box.env.get(n.lstrip("$"), n)) for n in self.needs)

    def make(self, box):
        """Its files."""
        for name, text in self.files.items():
            os.makedirs(os.path.dirname(box.path(name)), exist_ok=True)
            box.write(name, text)
        if self.setup:
            assert box.run(f"cd {box.folder} && {self.setup}")[0][0] == 0, "its job could not be made ready"

    def line(self, box):
        return f"cd {box.folder} || exit; {self.job}"


class Redis(socketserver.StreamRequestHandler):
    """As much of a server as redis-cli needs: what is to be echoed comes back, everything else is refused."""

    def handle(self):
        while (count := self.rfile.readline()).startswith(b"*"):
            words = []
            for _ in range(int(count[1:])):
                words.append(self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2])
            said = b"$%d\r\n%s\r\n" % (len(words[-1]), words[-1]) if words[0].lower() == b"echo" else b"-ERR no\r\n"
            self.wfile.write(said)


class Postgres(socketserver.StreamRequestHandler):
    """As much of a server as psql needs: a query's text is its answer, a row of one column."""
    # An answer is several small writes.
    disable_nagle_algorithm = True

    def send(self, kind, *parts):
        body = b"".join(parts)
        self.wfile.write(kind + struct.pack(">i", len(body) + 4) + body)

    def handle(self):
        self.rfile.read(struct.unpack(">i", self.rfile.read(4))[0] - 4)
        self.send(b"R", struct.pack(">i", 0))
        self.send(b"S", b"client_encoding\0UTF8\0")
        self.send(b"S", b"server_version\0" + b"15.0\0")
        self.send(b"Z", b"I")
        while self.rfile.read(1) == b"Q":
            query = self.rfile.read(struct.unpack(">i", self.rfile.read(4))[0] - 4)[:-1]
            self.send(b"T", struct.pack(">h", 1), b"text\0", struct.pack(">ihihih", 0, 0, 25, -1, -1, 0))
            self.send(b"D", struct.pack(">hi", 1, len(query)), query)
            self.send(b"C", b"SELECT 1\0")
            self.send(b"Z", b"I")


def served(handler):
    """Serves until this process ends; the port."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return str(server.server_address[1])


def python_with(module):
    """The first interpreter that can import it, or none; what is called python3 may be a script."""
    for p in ("python3", "/usr/bin/python3"):
        said = subprocess.run([p, "-c", f"import sys, {module}; print(sys.executable)"], capture_output=True, text=True)
        if said.returncode == 0:
            return said.stdout.strip()
    return "none"


def ready(folder):
    box = Box(folder)
    box.env |= {"LC_ALL": "C", "TZ": "UTC", "REDIS": served(Redis), "PGPORT": served(Postgres), "PGHOST": "127.0.0.1",
                "PGUSER": "job", "PGSSLMODE": "disable", "PGGSSENCMODE": "disable", "PYTHON": python_with("ssl"),
                "NUMPY": python_with("numpy"), "PARALLEL_HOME": box.folder,
                "GIT_CONFIG_GLOBAL": "/dev/null"}
    for theirs in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
        box.env.pop(theirs, None)
    return box


def runs(box, job, starts):
    """What is said of each run under Byway; what the cache does not know is looked at during a start, and counts later."""
    job.make(box)
    line = job.line(box)
    plain, said = box.run(line)
    assert plain[0] == 0, f"plain: status {plain[0]}, {said[-300:]}"
    file = box.path(f"{job.name}.json")
    for _ in range(starts):
        ours, said = box.run(line, BYWAY, "run", "--private", "--explain=json", "--explain-to", file, "--")
        assert ours == plain, f"under Byway {ours[0]}, {ours[1][-200:]!r} {said[-200:]}; plain {plain[0]}, {plain[1][-200:]!r}"
        assert os.path.exists(file), "the run was not explained: is BYWAY=off set?"
        with open(file) as f:
            yield json.load(f)


def judge_of(carried, ends, starts, reasons=None):
    """A judge: what `carried` names of a job carries in one of some starts: in which, depends on the machine. `ends`: how a
    channel may be named there; `reasons`: those for which it may be handed back, if that matters."""

    def judge(box, job):
        missing = set(carried[job.name])
        for start, told in enumerate(runs(box, job, starts)):
            for c in told["channels"]:
                for name in ends(c):
                    if name in carried[job.name] and c["carried_bytes"]:
                        assert reasons is None or c["why"] in reasons, f"{name}: {c['why']}"
                        missing.discard(name)
            if start > 0 and not missing:
                break
        assert not missing, f"nothing was carried of {sorted(missing)}: {json.dumps(told)}"
        return ""

    return judge


def each(jobs, names, judge, say=sys.stdout):
    """One line a job, all or those named; `judge` takes the box and a job, and says what it found. How many failed."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="byway-jobs-") as folder:
        box = ready(folder)
        for job in jobs:
            if names and job.name not in names:
                continue
            if not job.here(box):
                where = f": install {job.packages}" if job.packages else ""
                print(f"skipped {job.name}: not here{where}", file=say, flush=True)
                continue
            try:
                print(f"ok {job.name}{judge(box, job)}", file=say, flush=True)
            except (AssertionError, subprocess.TimeoutExpired) as e:
                failed += 1
                print(f"not ok {job.name}: {e}", file=say, flush=True)
    return failed
