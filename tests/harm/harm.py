"""What the cases of this folder share: a box for each case, the two ways to start a program, the loop over both.

A case is a function of a `Box`. It runs on the plain kernel first and then under Byway, the same code, and raises AssertionError
where a program or its user comes to harm. A case of Byway alone (`plain=False`) is about its own files. Invariant: a case leaves no
process, file, control group or mount behind. Not here: the cases.

  usage, of each file with cases: FILE.py BYWAY [NAME...]     one line a case and way; exits 1 if any failed
"""
import os, shutil, signal, subprocess, sys, tempfile, time, traceback

CASES = []
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Skip(Exception):
    """This machine forbids what the case needs; the text says what."""


def case(row, plain=True):
    """Marks a case; `row`: its number in the index (README.md)."""
    def add(f):
        CASES.append((row, f, plain))
        return f
    return add


class Box:
    """A case's folder, environment and way to start programs."""

    def __init__(self, byway, way, cache):
        self.byway, self.way = byway, way
        self.folder = tempfile.mkdtemp(prefix="byway-harm-")
        self.shm = tempfile.mkdtemp(prefix="byway-harm-", dir="/dev/shm")
        self.env = {**os.environ, "BYWAY_CACHE": cache, "BYWAY_SHM": self.shm}
        self.last = []

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, *options):
        """What stands before a command: nothing, or `byway run OPTIONS --`."""
        return [self.byway, "run", *options, "--"] if self.way == "byway" else []

    def run(self, *command, timeout=60, start=None, **how):
        """Runs a command in this way; its result, with text."""
        how.setdefault("env", self.env)
        start = self.start() if start is None else start
        return subprocess.run([*start, *command], capture_output=True, text=True, timeout=timeout, **how)

    def cc(self, name, source, *options):
        """Compiles a C program into the box; its path."""
        with open(self.path(name + ".c"), "w") as f:
            f.write(source)
        subprocess.run(["cc", "-O1", "-o", self.path(name), self.path(name + ".c"), *options], check=True)
        return self.path(name)

    def at_end(self, f):
        """Calls `f` when the case is over, the last first."""
        self.last.append(f)

    def running(self):
        """Processes of this box: its folder of shared memory stands in their environment."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    if self.shm.encode() in f.read() and int(pid) != os.getpid():
                        yield int(pid)
            except OSError:
                pass

    def close(self):
        """Ends the case; what it has left behind."""
        for f in reversed(self.last):
            f()
        end = time.monotonic() + 5
        while (pids := list(self.running())) and time.monotonic() < end:
            time.sleep(0.05)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        left = os.listdir(self.shm) + [f"process {pid}" for pid in pids]
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.shm, ignore_errors=True)
        return left


def fine(r, out=None):
    """A result that a user expects: status 0, nothing on standard error, and `out` if it is given."""
    assert r.returncode == 0 and not r.stderr, f"status {r.returncode}: {r.stderr.strip()[-500:]}"
    assert out is None or r.stdout == out, f"said {r.stdout!r}, not {out!r}"


def main():
    if len(sys.argv) < 2:
        sys.exit(f"usage: {os.path.basename(sys.argv[0])} BYWAY [NAME...]")
    byway, only = os.path.abspath(sys.argv[1]), sys.argv[2:]
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    failed = 0
    # Warm, as a user has it from the second start on.
    with tempfile.TemporaryDirectory(prefix="byway-harm-cache-") as cache:
        subprocess.run([byway, "run", "--", "true"], env={**os.environ, "BYWAY_CACHE": cache}, check=True)
        for row, f, plain in CASES:
            for way in ("plain", "byway") if plain else ("byway",):
                if not only or f.__name__ in only:
                    failed += one(byway, row, f, way, cache)
    sys.exit(failed != 0)


def one(byway, row, f, way, cache):
    """Runs one case in one way; whether it failed."""
    name = f"{row} {f.__name__} ({way})"
    box = Box(byway, way, cache)
    problem = ""
    try:
        f(box)
    except Skip as why:
        box.close()
        print(f"skip {name}: {why}", flush=True)
        return False
    except AssertionError as e:
        problem = str(e) or traceback.format_exc(limit=-1).strip()
    except (OSError, subprocess.SubprocessError) as e:
        problem = f"{type(e).__name__}: {e}"
    left = box.close()
    if left and not problem:
        problem = f"left behind: {left}"
    print(f"not ok {name}: {problem}" if problem else f"ok {name}", flush=True)
    return bool(problem)
