"""Control groups that limit memory or processes, or freeze some: what passes with the kernel's pipes passes under Byway.

Invariant: no program is killed, and each counts all bytes, wherever the plain kernel has it so. Not here: the time of the CPUs
(crates/folder/src/quota.rs), the files of version 2 (crates/sys/src/group.rs), whose controllers few machines have beside version 1.
"""
import os, signal, subprocess, time
from harm import Skip, case, fine, main

MIB = 1 << 20
EIGHT = "for i in 1 2 3 4 5 6 7 8; do head -c 50M /dev/zero | cat | cat | cat | wc -c & done; wait"
RIGHT = f"{50 * MIB}\n" * 8


class Group:
    """A new control group with one controller."""

    def __init__(self, box, controller):
        root = "/sys/fs/cgroup"
        self.old = os.path.isdir(f"{root}/{controller}")
        self.path = f"{root}/{controller if self.old else ''}/byway-harm-{os.getpid()}-{controller}"
        if not self.old and controller != "freezer":
            try:
                with open(f"{root}/cgroup.subtree_control") as f:
                    given = controller in f.read().split()
            except OSError:
                given = False
            if not given:
                raise Skip(f"no {controller} controller for new control groups")
        try:
            os.mkdir(self.path)
        except OSError as e:
            raise Skip(f"no control group can be made: {e.strerror}")
        box.at_end(self.remove)

    def read(self, name):
        with open(f"{self.path}/{name}") as f:
            return f.read()

    def write(self, name, value):
        with open(f"{self.path}/{name}", "w") as f:
            f.write(str(value))

    def take(self, pid):
        self.write("cgroup.procs", pid)

    def enter(self):
        """Of a child, before its exec."""
        self.take(os.getpid())

    def limit(self, n):
        """The most bytes; false if the kernel refuses it, because more is in use."""
        try:
            self.write("memory.limit_in_bytes" if self.old else "memory.max", n)
        except OSError:
            return False
        return True

    def used(self):
        return int(self.read("memory.usage_in_bytes" if self.old else "memory.current"))

    def kills(self):
        lines = self.read("memory.oom_control" if self.old else "memory.events").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("oom_kill "))

    def freeze(self, on):
        if self.old:
            state = "FROZEN" if on else "THAWED"
            self.write("freezer.state", state)
            wait(lambda: self.read("freezer.state").strip() == state, "the freezer")
        else:
            self.write("cgroup.freeze", int(on))
            wait(lambda: f"frozen {int(on)}" in self.read("cgroup.events").splitlines(), "the freezer")

    def remove(self):
        for _ in range(200):
            for pid in self.read("cgroup.procs").split():
                os.kill(int(pid), signal.SIGKILL)
            try:
                os.rmdir(self.path)
                return
            except OSError:
                time.sleep(0.05)


def wait(ready, what, seconds=20):
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.01)


def clean(group, r, out):
    assert group.kills() == 0, f"{group.kills()} processes killed for want of memory"
    fine(r, out)


def eight(box, mib):
    g = Group(box, "memory")
    g.limit(mib * MIB)
    for _ in range(3):
        clean(g, box.run("sh", "-c", EIGHT, preexec_fn=g.enter), RIGHT)


@case(5)
def eight_pipelines_under_32_mib(box):
    eight(box, 32)


@case(5)
def eight_pipelines_under_48_mib(box):
    eight(box, 48)


@case(5)
def eight_pipelines_under_64_mib(box):
    eight(box, 64)


def started(box, *command, **how):
    """A program that goes on while the case does, with pipes to all three of its descriptors."""
    return subprocess.Popen([*box.start(), *command], env=box.env, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **how)


def ended(p, timeout=60):
    out, err = p.communicate(timeout=timeout)
    return subprocess.CompletedProcess(p.args, p.returncode, out, err)


def two_waves(box, between, **how):
    """Eight pipelines, what the case does, eight more."""
    p = started(box, "sh", "-c", f"read pid < /proc/self/stat; echo ${{pid%% *}}; {EIGHT}; echo; read go; {EIGHT}", **how)
    box.at_end(p.kill)
    shell = int(p.stdout.readline())
    while p.stdout.readline() != "\n":
        pass
    between(shell)
    p.stdin.write("go\n")
    return ended(p)


@case(5)
def limit_set_during_a_run(box):
    """Little more than what is in use: the kernel refuses less. Within a second what lies free has gone back."""
    g = Group(box, "memory")

    def between(_):
        assert g.limit(max(20 * MIB, g.used() + 14 * MIB)), "the kernel refused the limit"
        time.sleep(1)
    clean(g, two_waves(box, between, preexec_fn=g.enter), RIGHT)


@case(5)
def moved_to_a_limited_group(box):
    g = Group(box, "memory")
    g.limit(32 * MIB)
    clean(g, two_waves(box, g.take), RIGHT)


@case(5)
def little_more_than_in_use(box):
    """A program has nearly all; the rest is enough for a pipeline of the kernel's."""
    g = Group(box, "memory")
    hog = subprocess.Popen(["python3", "-c", "b = b'x' * (96 << 20); print('there', flush=True); input()"], preexec_fn=g.enter,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    box.at_end(hog.kill)
    hog.stdout.readline()
    g.limit(g.used() + 4 * MIB)
    clean(g, box.run("sh", "-c", "head -c 50M /dev/zero | cat | wc -c", preexec_fn=g.enter), f"{50 * MIB}\n")
    hog.communicate("\n", timeout=20)
    assert hog.returncode == 0, f"the large program ended with {hog.returncode}"


@case(5)
def as_few_processes_as_the_command_needs(box):
    """Shell, head and cat, and nobody else."""
    g = Group(box, "pids")
    g.write("pids.max", 3)
    r = box.run("sh", "-c", "head -c 5M /dev/zero | cat > \"$0\"", box.path("out"), preexec_fn=g.enter)
    fine(r, "")
    assert os.path.getsize(box.path("out")) == 5 * MIB


@case(5)
def every_small_number_of_processes(box):
    """The command fails where it has too few, but says so itself; what it carries is whole."""
    g = Group(box, "pids")
    for n in range(1, 9):
        g.write("pids.max", n)
        r = box.run("sh", "-c", "head -c 5M /dev/zero | cat | wc -c", preexec_fn=g.enter, timeout=20)
        assert "panicked" not in r.stderr and "byway" not in r.stderr, r.stderr
        assert r.returncode != 0 or r.stdout == f"{5 * MIB}\n", f"{n} processes: {r.stdout!r} {r.stderr!r}"


def pids_named(name, above):
    """Processes of that name below the process `above`."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                head, tail = f.read().rsplit(")", 1)
            at, up = int(pid), int(tail.split()[1])
            while up > 1 and up != above:
                with open(f"/proc/{up}/stat") as f:
                    up = int(f.read().rsplit(")", 1)[1].split()[1])
            if up == above and head.split("(", 1)[1] == name:
                found.append(at)
        except (OSError, ValueError):
            continue
    return found


@case(5)
def frozen_reader(box):
    """The writer waits meanwhile; nothing is lost."""
    g = Group(box, "freezer")
    box.at_end(lambda: g.freeze(False))
    p = started(box, "sh", "-c", "(head -c 100M /dev/zero; read go; head -c 100M /dev/zero) | cat | wc -c")
    box.at_end(p.kill)
    wait(lambda: pids_named("cat", p.pid), "cat")
    g.take(pids_named("cat", p.pid)[0])
    g.freeze(True)
    p.stdin.write("go\n")
    p.stdin.flush()
    time.sleep(1)
    assert p.poll() is None and pids_named("head", p.pid), "the writer did not wait for its reader"
    g.freeze(False)
    fine(ended(p), f"{200 * MIB}\n")


@case(5)
def frozen_first_process(box):
    """That of `byway run`, or the shell: the others go on to their ends."""
    g = Group(box, "freezer")
    box.at_end(lambda: g.freeze(False))
    out = box.path("out")
    p = started(box, "sh", "-c", f"(read go; head -c 100M /dev/zero | cat | wc -c) <&0 > '{out}'; exit 3")
    box.at_end(p.kill)
    time.sleep(0.5)
    g.take(p.pid)
    g.freeze(True)
    p.stdin.write("go\n")
    p.stdin.flush()
    wait(lambda: os.path.getsize(out) > 0, "the pipeline's end")
    g.freeze(False)
    r = ended(p)
    assert r.returncode == 3 and not r.stderr, f"status {r.returncode}: {r.stderr}"
    with open(out) as f:
        assert f.read() == f"{100 * MIB}\n"


if __name__ == "__main__":
    main()
