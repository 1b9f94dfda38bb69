"""Job control: an interactive bash at a terminal of its own stops jobs, wakes them, and sees what became of them.

Invariant: a stop by the terminal or by the program itself stops the whole job once, the shell sees it, and `fg` or `bg` wakes all of it.
Not here: signals that a program sends to one process (spaces.py).

  usage: terminal.py BYWAY [NAME...]
"""
import os, pty, select, shlex, signal, sys, time
from harm import case, main

COUNT = """
import os, sys
out, n = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT), 0
while b := os.read(0, 65536):
    n += len(b)
    os.pwrite(out, b"%d" % n, 0)
"""
WAIT = 20


class Shell:
    """bash on a new terminal; it does not echo."""

    def __init__(self, box):
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # A shell keeps ignored signals ignored for its jobs: a test that runs in the background is given some.
            for sig in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(sig, signal.SIG_DFL)
            os.chdir(box.folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"], {**box.env, "PS1": "at-the-prompt", "LC_ALL": "C"})
        box.at_end(self.close)
        self.until("at-the-prompt")
        self.do("stty -echo")

    def type(self, text):
        os.write(self.fd, text.encode())

    def until(self, text, wait=WAIT):
        """Reads what is shown until `text` is there; what came before it."""
        end = time.monotonic() + wait
        while text not in self.seen:
            left = end - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], f"no {text!r} after {self.seen[-300:]!r}"
            self.seen += os.read(self.fd, 65536).decode(errors="replace")
        before, self.seen = self.seen.split(text, 1)
        return before

    def do(self, line):
        """Types a line; what is shown until the next prompt."""
        self.type(line + "\n")
        return self.until("at-the-prompt")

    def nothing_stopped(self):
        while select.select([self.fd], [], [], 0)[0]:
            self.seen += os.read(self.fd, 65536).decode(errors="replace")
        assert "Stopped" not in self.seen, "it stopped again"

    def stop(self):
        """Ctrl-Z: the shell says that the job has stopped."""
        self.type("\x1a")
        assert "Stopped" in self.until("at-the-prompt")

    def close(self):
        # The terminal's end is SIGHUP for the shell and its jobs; a stopped one wakes for it.
        os.close(self.fd)
        end = time.monotonic() + 5
        while time.monotonic() < end:
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                return
            time.sleep(0.02)
        for pid in session(self.pid):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def session(sid):
    """The processes of a session."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.getsid(int(pid)) == sid:
                yield int(pid)
        except ProcessLookupError:
            pass


def line(box, *command):
    return shlex.join([*box.start(), *command])


def long(box):
    """A pipeline without an end, and the file that tells how far it is."""
    with open(box.path("count.py"), "w") as f:
        f.write(COUNT)
    return line(box, "sh", "-c", f"cat /dev/zero | {sys.executable} count.py far"), box.path("far")


def far(path):
    try:
        with open(path) as f:
            return int(f.read() or 0)
    except FileNotFoundError:
        return 0


def goes_on(sh, path):
    """Bytes pass for a fifth of a second, and the shell does not see another stop."""
    begun, end = time.monotonic(), time.monotonic() + WAIT
    before = now = far(path)
    while now < before + 1_000_000 or time.monotonic() < begun + 0.2:
        sh.nothing_stopped()
        assert time.monotonic() < end, f"stands still at {now} bytes"
        time.sleep(0.02)
        now = far(path)


def file_says(path, text):
    end = time.monotonic() + WAIT
    while not (os.path.exists(path) and open(path).read() == text):
        assert time.monotonic() < end, f"no {text!r} in {path}"
        time.sleep(0.02)


def until_stopped(sh):
    """Asks the shell for its jobs until it has seen one stop."""
    end = time.monotonic() + WAIT
    while "Stopped" not in sh.do("jobs"):
        assert time.monotonic() < end, "the shell never saw the job stop"
        time.sleep(0.05)


@case(4)
def twelve_times(box):
    sh = Shell(box)
    job, path = long(box)
    sh.type(job + "\n")
    goes_on(sh, path)
    for _ in range(12):
        sh.stop()
        was = far(path)
        time.sleep(0.05)
        assert far(path) == was, "bytes pass while it is stopped"
        sh.type("fg\n")
        goes_on(sh, path)
    sh.type("\x03")
    sh.until("at-the-prompt")


@case(4)
def background_and_back(box):
    sh = Shell(box)
    job, path = long(box)
    sh.type(job + "\n")
    goes_on(sh, path)
    for _ in range(3):
        sh.stop()
        sh.do("bg")
        goes_on(sh, path)
        assert "Running" in sh.do("jobs")
        sh.type("fg\n")
        goes_on(sh, path)
    sh.type("\x03")
    sh.until("at-the-prompt")


@case(4)
def a_job_in_a_shell_pipeline(box):
    """The job has processes that Byway did not start."""
    sh = Shell(box)
    job, path = long(box)
    job = line(box, "sh", "-c", "cat /dev/zero | cat") + f" | {sys.executable} count.py far"
    sh.type(job + "\n")
    goes_on(sh, path)
    for _ in range(4):
        sh.stop()
        sh.type("fg\n")
        goes_on(sh, path)
    sh.type("\x03")
    sh.until("at-the-prompt")


@case(4)
def reads_in_the_background(box):
    sh = Shell(box)
    for n in range(3):
        sh.do(line(box, "sh", "-c", f"head -n 1 | cat >got{n}") + " &")
        until_stopped(sh)
        sh.type("fg\n")
        time.sleep(0.2)
        sh.nothing_stopped()
        sh.type(f"hello {n}\n")
        file_says(box.path(f"got{n}"), f"hello {n}\n")
        sh.until("at-the-prompt")


@case(4)
def stops_itself(box):
    """Its group, or only itself; by the signal of Ctrl-Z, or by the one that nobody can catch."""
    sh = Shell(box)
    for n, stop in enumerate(["0, 20", "0, 19", "os.getpid(), 20", "os.getpid(), 19"]):
        program = f"import os; os.kill({stop}); open('after{n}', 'w').write('on')"
        assert "Stopped" in sh.do(line(box, sys.executable, "-c", program)), f"kill({stop})"
        assert not os.path.exists(box.path(f"after{n}"))
        sh.do("fg")
        assert open(box.path(f"after{n}")).read() == "on", f"kill({stop})"
        assert "after" not in sh.do("jobs"), f"kill({stop})"


@case(4)
def stopped_in_the_background(box):
    """By the shell's kill, which sends to the group."""
    sh = Shell(box)
    job, path = long(box)
    sh.do(job + " &")
    goes_on(sh, path)
    for how in ("TSTP", "STOP"):
        sh.do(f"kill -{how} %1")
        until_stopped(sh)
        sh.do("bg")
        goes_on(sh, path)
    sh.do("kill %1; wait")
    assert "count.py" not in sh.do("true") + sh.do("jobs -r"), "the job did not end"


@case(4)
def ignores_the_key(box):
    sh = Shell(box)
    sh.type(line(box, "sh", "-c", "trap '' TSTP; echo on >on; head -n 1 | cat >got") + "\n")
    file_says(box.path("on"), "on\n")
    sh.type("\x1a")
    time.sleep(0.2)
    sh.nothing_stopped()
    sh.type("hello\n")
    file_says(box.path("got"), "hello\n")
    sh.until("at-the-prompt")


@case(4)
def handles_the_key(box):
    """As an editor does: it tidies up, stops itself, and goes on where it was."""
    program = "\n".join([
        "import os, signal, time",
        "def tidy(*_):",
        "    open('tidy', 'a').write('t')",
        "    signal.signal(signal.SIGTSTP, signal.SIG_DFL)",
        "    os.kill(os.getpid(), signal.SIGTSTP)",
        "    signal.signal(signal.SIGTSTP, tidy)",
        "    open('back', 'a').write('b')",
        "signal.signal(signal.SIGTSTP, tidy)",
        "open('on', 'w').write('on')",
        "while not os.path.exists('enough'): time.sleep(0.02)",
    ])
    sh = Shell(box)
    sh.type(line(box, sys.executable, "-c", program) + "\n")
    file_says(box.path("on"), "on")
    for n in range(1, 5):
        sh.stop()
        sh.type("fg\n")
        file_says(box.path("back"), "b" * n)
        sh.nothing_stopped()
    open(box.path("enough"), "w").close()
    sh.until("at-the-prompt")
    assert open(box.path("tidy")).read() == "tttt"


if __name__ == "__main__":
    main()
