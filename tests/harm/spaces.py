"""`byway run` and the files it makes: several at a time, in name spaces of their own, killed, cut off, in odd places, with little
of everything.

Invariant: the command ends with its own status and output, whatever becomes of the domain's file. No file of a live run is removed,
and none of a dead one stays.
Not here: the terminal (terminal.py), what participants do to each other's bytes.

  usage: spaces.py BYWAY [NAME...]
"""
import hashlib, itertools, os, resource, shutil, signal, subprocess, sys, time
from harm import Skip, case, fine, main

LINE = "seq 1 400000 | cat | cat | md5sum"
SUM = hashlib.md5("".join(f"{n}\n" for n in range(1, 400001)).encode()).hexdigest() + "  -\n"
LIBRARY = "-libbyway_preload.so"
NUMBERS = itertools.count()
# The domain's file, in the command's shell.
FILE = "${BYWAY%:*}"


def until(what, test, wait=30):
    end = time.monotonic() + wait
    while not test():
        assert time.monotonic() < end, f"never: {what}"
        time.sleep(0.02)


def begin(box, *command, start=None, **how):
    """Starts a command in this way, whose output can be had with `end`."""
    how.setdefault("env", box.env)
    start = box.start() if start is None else start
    p = subprocess.Popen([*start, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=box.folder, **how)
    box.at_end(p.kill)
    return p


def end(p, wait=60):
    out, err = p.communicate(timeout=wait)
    return subprocess.CompletedProcess(p.args, p.returncode, out, err)


def waits(box, line=LINE):
    """A shell that says when it is there, and runs `line` when it is told to; and the two files for it."""
    n = next(NUMBERS)
    on, go = box.path(f"on{n}"), box.path(f"go{n}")
    return ["sh", "-c", f"touch '{on}'; until [ -e '{go}' ]; do sleep 0.05; done; {line}"], on, go


def is_there(path):
    return lambda: os.path.exists(path)


def touch(path):
    open(path, "w").close()


def files(box):
    return sorted(n for n in os.listdir(box.shm) if n.startswith("run-"))


def carried(explained):
    """Whether some line of --explain tells of bytes carried."""
    return any(" bytes carried" in line and "  0 bytes" not in line for line in explained.splitlines())


def told_once(r):
    """As the command says, and one line of what is to be mended."""
    assert (r.returncode, r.stdout) == (0, SUM), f"{r.returncode}: {r.stdout!r}"
    assert r.stderr.startswith("byway: nothing is carried: ") and r.stderr.count("\n") == 1, r.stderr


def may_unshare(*how):
    if subprocess.run(["unshare", *how, "true"], capture_output=True).returncode:
        raise Skip(f"no right to unshare {' '.join(how)}")
    return ["unshare", *how]


def copied(box, *names):
    """The program in a folder below the box, for everybody."""
    at = box.path(*names)
    os.makedirs(at)
    os.chmod(box.folder, 0o755)
    return shutil.copy(box.byway, at)


def as_another(box):
    """Has the box run as a user whom nobody else is: what stands before a command for that."""
    if os.getuid():
        raise Skip("no right to be another user")
    uid = 100000 + os.getpid() % 50000
    box.byway = copied(box, "bin")
    for name, to in [("shm", "BYWAY_SHM"), ("cache", "BYWAY_CACHE")]:
        os.mkdir(box.path(name), 0o700)
        os.chown(box.path(name), uid, uid)
        box.env[to] = box.path(name)
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


@case(9)
def two_name_spaces(box):
    """Two runs with the same process id, at the same time."""
    space = may_unshare("-pf", "--kill-child", "--mount-proc")
    start = space + box.start(*["--explain"] if box.way == "byway" else [])
    both = []
    for name in "ab":
        os.mkdir(box.path(name))
        on, go = box.path(name, "on"), box.path(name, "go")
        line = f"touch {on}; until [ -e {go} ]; do sleep 0.05; done; {LINE}"
        both.append((begin(box, "sh", "-c", line, start=start), go))
        until("a start", is_there(on))
    for p, go in both:
        touch(go)
        r = end(p)
        assert (r.returncode, r.stdout) == (0, SUM), f"{r.returncode}: {r.stdout!r} {r.stderr[-300:]}"
        assert box.way == "plain" or carried(r.stderr), f"nothing carried: {r.stderr[-300:]!r}"


@case(9, plain=False)
def a_live_file_stays(box):
    """Another run begins and ends, here and in another name space."""
    command, on, go = waits(box)
    p = begin(box, *command, start=box.start("--explain"))
    until("a start", is_there(on))
    (mine,) = files(box)
    fine(box.run("sh", "-c", LINE, start=box.start("--private")), SUM)
    assert files(box) == [mine]
    try:
        fine(box.run("sh", "-c", LINE, start=may_unshare("-pf", "--kill-child", "--mount-proc") + box.start()), SUM)
    except Skip:
        pass
    assert files(box) == [mine]
    touch(go)
    r = end(p)
    assert r.stdout == SUM and carried(r.stderr), r.stderr


@case(9, plain=False)
def a_killed_run_is_swept(box):
    command, on, go = waits(box)
    p = begin(box, *command)
    until("a start", is_there(on))
    p.kill()
    p.wait()
    assert files(box)
    fine(box.run("true"))
    assert not files(box), "what a killed run left stays"
    touch(go)


@case(9, plain=False)
def one_killed_elsewhere_is_swept(box):
    """In a name space where its number means another process."""
    space = may_unshare("-pf", "--kill-child", "--mount-proc")
    p = begin(box, "sleep", "2", start=space + box.start(), start_new_session=True)
    until("a file", lambda: files(box))
    os.killpg(p.pid, signal.SIGKILL)
    p.wait()
    until("it is swept", lambda: box.run("true").returncode == 0 and not files(box))


@case(14, plain=False)
def a_damaged_file_is_swept(box):
    command, on, go = waits(box)
    p = begin(box, *command)
    until("a start", is_there(on))
    with open(os.path.join(box.shm, files(box)[0]), "rb") as f:
        head, size = f.read(4096), os.fstat(f.fileno()).st_size
    touch(go)
    fine(end(p), SUM)
    # Names of now and of before, one of a process that lives; a head of another version, of nothing, of anything.
    older = head[:8] + b"\1\0\0\0" + head[12:]
    for name, text in [("run-1", os.urandom(4096)), ("run-0123456789abcdef", b""), (f"run-{os.getpid()}", older)]:
        with open(os.path.join(box.shm, name), "wb") as f:
            f.write(text)
            f.truncate(size)
        os.chmod(f.name, 0o600)
    for name in ("run-notes", "run-0123456789abcdeg"):
        touch(os.path.join(box.shm, name))
    fine(box.run("sh", "-c", LINE), SUM)
    assert files(box) == ["run-0123456789abcdeg", "run-notes"], files(box)
    for name in files(box):
        os.unlink(os.path.join(box.shm, name))


@case(13, plain=False)
def an_odd_path(box):
    """A cache where LD_PRELOAD cannot name the library."""
    for n, odd in enumerate(["a b", "a:b", "a$ORIGIN", " b:c "]):
        byway = copied(box, str(n), odd)
        box.env["BYWAY_CACHE"] = box.path(str(n), odd, "cache")
        fine(box.run("sh", "-c", LINE, start=[byway, "run", "--"]), SUM)
        r = box.run("sh", "-c", LINE, start=[byway, "run", "--explain", "--"])
        assert r.stdout == SUM and carried(r.stderr) and "ERROR" not in r.stderr, r.stderr
        # Two at a time, of one domain: each has a link, and none takes the other's away.
        command, on, go = waits(box, "/bin/echo a; /bin/echo b")
        first = begin(box, *command, start=[byway, "run", "--"])
        until("a start", is_there(on))
        fine(box.run("sh", "-c", LINE, start=[byway, "run", "--"]), SUM)
        touch(go)
        fine(end(first), "a\nb\n")
        # Killed, and swept.
        command, on, go = waits(box)
        p = begin(box, *command, start=[byway, "run", "--"])
        until("a start", is_there(on))
        assert any(os.path.islink(os.path.join(box.shm, f)) for f in files(box))
        p.kill()
        p.wait()
        fine(box.run("true"))
        assert not files(box)
        touch(go)
        # No name for it there either.
        shm = box.path(str(n), "s h")
        os.mkdir(shm, 0o700)
        r = box.run("sh", "-c", LINE, start=[byway, "run", "--"], env={**box.env, "BYWAY_SHM": shm})
        told_once(r)
        r = box.run("sh", "-c", LINE, start=[byway, "run", "--explain", "--"], env={**box.env, "BYWAY_SHM": shm})
        assert r.stdout == SUM and "LD_PRELOAD can name neither" in r.stderr, r.stderr
        assert not os.listdir(shm)


def library(box, *folder):
    """The library's file in a cache of the box's own, below `folder`, which a run has filled."""
    cache = box.env["BYWAY_CACHE"] = box.path(*folder, "cache")
    fine(box.run("sh", "-c", LINE), SUM)
    return os.path.join(cache, next(n for n in os.listdir(cache) if n.endswith(LIBRARY)))


@case(13, plain=False)
def a_library_that_is_damaged(box):
    """It is made anew: by the next run, and where its size is right by `byway doctor`."""
    path = library(box)
    with open(path, "rb") as f:
        whole = f.read()
    for text in (b"", b"not a library"):
        os.chmod(path, 0o700)
        with open(path, "wb") as f:
            f.write(text)
        r = box.run("sh", "-c", LINE, start=[box.byway, "run", "--explain", "--"])
        assert r.stdout == SUM and carried(r.stderr), r.stderr
    os.chmod(path, 0o700)
    with open(path, "r+b") as f:
        f.seek(len(whole) // 2)
        f.write(bytes(64))
    r = box.run("doctor", start=[box.byway])
    assert r.returncode == 0 and "damaged in the cache, and made anew" in r.stdout, r.stdout
    with open(path, "rb") as f:
        assert f.read() == whole


def on_a_file_system(box, options):
    """Puts the box's own cache on a file system of its own, with texts and no library; where that is."""
    if os.getuid():
        raise Skip("no right to mount")
    at = box.path("mount")
    os.mkdir(at)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", at], capture_output=True).returncode:
        raise Skip("no right to mount")
    box.at_end(lambda: subprocess.run(["umount", "-l", at], check=True))
    os.unlink(library(box, "mount"))
    return at


@case(13, plain=False)
def a_cache_that_takes_no_file(box):
    """The library is in memory then, and nothing is told of it."""
    at = on_a_file_system(box, "size=12M")
    with open(os.path.join(at, "all"), "wb", buffering=0) as f:
        try:
            while True:
                f.write(bytes(4096))
        except OSError:
            pass
    for how in ("full", "read-only"):
        r = box.run("sh", "-c", LINE, start=[box.byway, "run", "--explain", "--"])
        assert r.stdout == SUM and carried(r.stderr) and "ERROR" not in r.stderr, f"{how}: {r.stderr}"
        # Also where each descriptor that the program does not know is closed.
        fine(box.run("python3", "-c", "import os, subprocess; os.closerange(3, 256); print(subprocess.run(['sh', '-c', 'echo a | cat'], "
                                      "capture_output=True, text=True))"),
             "CompletedProcess(args=['sh', '-c', 'echo a | cat'], returncode=0, stdout='a\\n', stderr='')\n")
        subprocess.run(["mount", "-o", "remount,ro", at], check=True)


@case(13, plain=False)
def a_cache_where_nothing_may_be_executed(box):
    at = on_a_file_system(box, "size=12M")
    subprocess.run(["mount", "-o", "remount,noexec", at], check=True)
    r = box.run("sh", "-c", LINE)
    told_once(r)
    assert "noexec" in r.stderr and "set BYWAY_CACHE" in r.stderr, r.stderr


@case(13, plain=False)
def the_program_is_replaced(box):
    """By another version, while a run of it goes on: each has its own library."""
    byway = copied(box, "bin")
    library(box)
    command, on, go = waits(box)
    p = begin(box, *command, start=[byway, "run", "--explain", "--"])
    until("a start", is_there(on))
    os.unlink(byway)
    shutil.copy("/bin/true", byway)
    touch(go)
    r = end(p)
    assert r.stdout == SUM and carried(r.stderr), r.stderr


@case(2)
def preloaded_before(box):
    """What the user preloads stays first."""
    with open(box.path("one.c"), "w") as f:
        f.write("int one_of_the_user(void) { return 1; }\n")
    one = box.path("one.so")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", one, box.path("one.c")], check=True)
    r = box.run("sh", "-c", 'echo "$LD_PRELOAD"', env={**box.env, "LD_PRELOAD": one})
    fine(r)
    assert r.stdout.strip().split(":")[0] == one, r.stdout
    assert len(r.stdout.strip().split(":")) == (2 if box.way == "byway" else 1), r.stdout


@case(16, plain=False)
def the_file_is_cut_off(box):
    """By one that takes no part, whose status is known: the run passes it on."""
    for size in (0, 4096, 100_000, 1 << 20):
        for options in ([], ["--private"], ["--explain"]):
            line = f'truncate -s {size} "{FILE}"; sleep 0.7; exit 7'
            r = box.run("env", "-u", "LD_PRELOAD", "sh", "-c", line, start=box.start(*options))
            said = "byway: its shared memory was cut off: nothing is known of its pipes\n" if "--explain" in options else ""
            assert (r.returncode, r.stderr) in ((7, said), (7, "byway: no pipe was seen\n")), f"cut to {size}: {r.returncode}, {r.stderr!r}"
            assert not files(box)


@case(16, plain=False)
def a_participant_cuts_it_off(box):
    """It may die of it itself, but not the run."""
    program = "\n".join([
        "import os, time",
        "os.truncate(os.environ['BYWAY'].rsplit(':', 1)[0], 0)",
        "time.sleep(0.5)",
        "os._exit(3)",
    ])
    # The shell takes no part: it has nothing to die of.
    line = f'LD_PRELOAD=$0 {sys.executable} -c "$1"; echo $?; exit 7'
    r = box.run("sh", "-c", 'library=$LD_PRELOAD; unset LD_PRELOAD; exec sh -c "$1" "$library" "$2"', "sh", line, program)
    assert r.returncode == 7 and r.stdout in ("3\n", f"{128 + signal.SIGBUS}\n"), f"{r.returncode}, {r.stdout!r}"
    assert not files(box)


@case(16, plain=False)
def the_kernels_sigbus(box):
    """What is none of a fault in the domain keeps its default action."""
    command, on, _ = waits(box)
    p = begin(box, *command, start_new_session=True)
    until("a start", is_there(on))
    os.kill(p.pid, signal.SIGBUS)
    p.wait(timeout=30)
    os.killpg(p.pid, signal.SIGKILL)
    assert p.returncode == -signal.SIGBUS, p.returncode
    fine(box.run("true"))


@case(16)
def the_folder_changes(box):
    """Removed, closed or replaced while the command runs."""
    def remove():
        shutil.rmtree(box.shm)

    def close():
        os.chmod(box.shm, 0)

    def replace():
        os.rename(box.shm, box.shm + "-aside")
        touch(box.shm)

    def file_goes():
        for f in os.listdir(box.shm):
            os.unlink(os.path.join(box.shm, f))

    for change in (remove, close, replace, file_goes):
        command, on, go = waits(box, f"{LINE}; exit 7")
        p = begin(box, *command)
        until("a start", is_there(on))
        change()
        touch(go)
        r = end(p)
        assert (r.returncode, r.stdout, r.stderr) == (7, SUM, ""), f"{change.__name__}: {r.returncode} {r.stdout!r} {r.stderr!r}"
        if not os.path.isdir(box.shm):
            if os.path.exists(box.shm):
                os.unlink(box.shm)
            os.mkdir(box.shm, 0o700)
        os.chmod(box.shm, 0o700)
        shutil.rmtree(box.shm + "-aside", ignore_errors=True)


@case(16)
def on_a_disk(box):
    shm = box.path("shm")
    os.mkdir(shm, 0o700)
    fine(box.run("sh", "-c", LINE, env={**box.env, "BYWAY_SHM": shm}), SUM)
    assert not os.listdir(shm)


@case(16, plain=False)
def relative_folders(box):
    """Of a command that goes elsewhere."""
    os.mkdir(box.path("shm"), 0o700)
    env = {**box.env, "BYWAY_SHM": "shm", "BYWAY_CACHE": "cache"}
    r = box.run("sh", "-c", f"cd /; {LINE}", start=box.start("--explain"), cwd=box.folder, env=env)
    assert r.stdout == SUM and carried(r.stderr), r.stderr
    assert not os.listdir(box.path("shm"))


@case(16)
def little_shared_memory(box):
    """/dev/shm of 1 MiB, of one page, and none that can be written."""
    space = may_unshare("-m")
    env = {k: v for k, v in box.env.items() if k != "BYWAY_SHM"}
    for what in ("size=1m", "size=4k", "size=1m,ro", "size=10m"):
        mounted = [*space, "sh", "-c", f'mount -t tmpfs -o {what} none /dev/shm && exec "$@"', "sh"]
        r = box.run("sh", "-c", LINE, start=mounted + box.start(), env=env)
        # Room comes back; a folder that cannot be written stays so.
        told_once(r) if "ro" in what and box.way == "byway" else fine(r, SUM)


@case(16)
def few_descriptors(box):
    """As few as the plain kernel can do with."""
    for line in ("exit 7", "/bin/echo on", LINE):
        for n in range(4, 16):
            def limit():
                resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))
            plain, r = (box.run("sh", "-c", line, start=start, preexec_fn=limit) for start in ([], None))
            assert (r.returncode, r.stdout, r.stderr) == (plain.returncode, plain.stdout, plain.stderr), \
                f"{n} for {line!r}: {r.returncode} {r.stdout!r} {r.stderr!r}, plain {plain.returncode} {plain.stdout!r} {plain.stderr!r}"


@case(16)
def few_processes(box):
    """As few as the plain kernel can do with."""
    user = as_another(box)
    for line in ("exit 7", "/bin/echo on; exit 7"):
        for n in range(1, 6):
            limited = [*user, "prlimit", f"--nproc={n}"]
            plain, r = (box.run("sh", "-c", line, start=limited + start) for start in ([], box.start()))
            # A run is two threads more.
            more = {plain.returncode} | ({2} if n < 4 and "echo" in line else set())
            assert r.returncode in more, f"{n} for {line!r}: {r.returncode} {r.stderr!r}, plain {plain.returncode} {plain.stderr!r}"
            assert not os.listdir(box.env["BYWAY_SHM"])


@case(16)
def closed_standard_descriptors(box):
    """They stay closed for the command."""
    program = "\n".join([
        "import os, sys",
        "said = str([n for n in range(9) if os.path.exists(f'/proc/self/fd/{n}')])",
        "open(sys.argv[1], 'w').write(said)",
    ])
    for closed in ([0], [1], [2], [0, 1], [0, 1, 2]):
        close = " ".join(f"{n}>&-" for n in closed)
        r = box.run("sh", "-c", f'exec "$@" {close}', "sh", *box.start(), sys.executable, "-c", program, box.path("open"), start=[])
        with open(box.path("open")) as f:
            assert (r.returncode, f.read()) == (0, str([n for n in range(3) if n not in closed])), f"{close}: {r.returncode}"
        r = box.run("sh", "-c", f'exec "$@" {close}', "sh", *box.start(), "sh", "-c", f"({LINE}) >{box.path('sum')}", start=[])
        if closed != [0, 1, 2]:
            with open(box.path("sum")) as f:
                assert f.read() == SUM, close


def signals(status):
    """What a process holds off and ignores. glibc's posix_spawn(3) has its internal signals, 32 and 33, ignored: they do not count."""
    of = (line.split() for line in status.splitlines() if line.startswith(("SigBlk", "SigIgn")))
    return [f"{name} {int(bits, 16) & ~(3 << 31):x}" for name, bits in of]


@case(16)
def inherited_signals(box):
    """What is ignored and what is held off, SIGPIPE above all."""
    def given():
        for sig in (signal.SIGPIPE, signal.SIGHUP, signal.SIGTSTP, signal.SIGCHLD):
            signal.signal(sig, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGWINCH})

    for how in (None, given):
        plain, r = (box.run("cat", "/proc/self/status", start=start, preexec_fn=how, restore_signals=False) for start in ([], None))
        assert signals(r.stdout) == signals(plain.stdout), f"{signals(r.stdout)}, plain {signals(plain.stdout)}"
        r = box.run("sh", "-c", "exit 7", preexec_fn=how, restore_signals=False)
        assert r.returncode == 7, r.returncode
    r = box.run("sh", "-c", "trap '' PIPE; exec \"$@\"", "sh", *box.start(), "sh", "-c", "yes | head -n 1; exit 7", start=[])
    assert r.returncode == 7 and "Broken pipe" in r.stderr, r.stderr


@case(16)
def one_signal_to_the_run(box):
    """By number: as if to the command."""
    program = "import signal, sys, time\ndef f(s, _): sys.exit(s)\nsignal.signal({0}, f); print('on', flush=True); time.sleep(30)"
    for sig in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        p = begin(box, sys.executable, "-c", program.replace("{0}", str(int(sig))))
        assert p.stdout.readline() == "on\n"
        p.send_signal(sig)
        r = end(p, 20)
        assert r.returncode == sig, f"{sig.name}: {r.returncode}"
    # One that the command begins with held off, and then takes.
    program = f"import signal; print('on', flush=True); exit(signal.sigwait({{{int(signal.SIGTERM)}}}))"
    p = begin(box, sys.executable, "-c", program, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}))
    assert p.stdout.readline() == "on\n"
    p.send_signal(signal.SIGTERM)
    assert end(p, 20).returncode == signal.SIGTERM


@case(16)
def a_killed_run_goes_on(box):
    """SIGKILL of `byway run` itself, or of the command."""
    command, on, go = waits(box, f"{LINE} >sum.new; mv sum.new sum")
    p = begin(box, "sh", "-c", 'echo $$ >id; exec "$@"', "sh", *command)
    until("a start", is_there(on))
    if box.way == "byway":
        p.kill()
        p.wait()
    touch(go)
    until("the command's end", is_there(box.path("sum")))
    with open(box.path("sum")) as f:
        assert f.read() == SUM
    p.wait()
    fine(box.run("true"))


@case(16)
def one_in_another(box):
    fine(box.run("sh", "-c", LINE, start=box.start() + box.start()), SUM)
    fine(box.run("sh", "-c", LINE, start=box.start() + box.start("--private") + box.start()), SUM)
    r = box.run("sh", "-c", "exit 7", start=box.start() + box.start())
    assert r.returncode == 7


@case(16, plain=False)
def the_first_process(box):
    """Of a pid name space, as a container's entry point is: a death is told as a shell tells it, orphans are buried."""
    space = may_unshare("-pf", "--kill-child", "--mount-proc")
    for sig in (9, 11, 15):
        r = box.run("sh", "-c", f"kill -{sig} $$", start=space + box.start())
        assert r.returncode == 128 + sig, r.returncode
    line = "for n in 1 2 3; do (sleep 0.1 &); done; sleep 0.6; grep -l '^State:.Z' /proc/[0-9]*/status; exit 0"
    fine(box.run("sh", "-c", line, start=space + box.start()), "")


@case(16, plain=False)
def explained_to_nobody(box):
    with open("/dev/full", "w") as full:
        command = [*box.start("--explain"), "sh", "-c", f"{LINE}; exit 7"]
        r = subprocess.run(command, stdout=subprocess.PIPE, stderr=full, text=True, env=box.env)
    assert (r.returncode, r.stdout) == (7, SUM), r.returncode


if __name__ == "__main__":
    main()
