#!/usr/bin/env python3
"""The cache of rewritten texts: where it may lie, what may be wrong with it, and what a command sees of that: nothing.

Invariant: each command ends as on the plain kernel, whatever the cache is; no folder that Byway did not make changes its mode.
Not here: whether a text is the right one (../identity.py), which bytes are rewritten (../data.py).

  usage: cache.py BYWAY [NAME...]     one line a case and way; exits 1 if any failed
"""
import os, re, resource, shutil, signal, stat, subprocess, time
from harm import Skip, case, fine, main

# What a run carries if it can: more than a bell's bytes.
PIPE = "head -c 300000 /dev/zero | tr '\\0' x | cksum"
SUM = subprocess.run(["sh", "-c", PIPE], capture_output=True, text=True, check=True).stdout
USER = 65534
NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{8}-[0-9a-f]{16}\.v\d+")


def cached(box, *names, **more):
    """The box's environment with another cache."""
    return {**box.env, "BYWAY_CACHE": box.path(*names), **more}


def carried(box, env, script=PIPE, out=SUM, **how):
    """Runs a pipeline, which must come out right; whether it was carried, and what was said."""
    r = box.run("sh", "-c", script, start=box.start("--explain", "--private"), env=env, **how)
    assert r.returncode == 0 and r.stdout == out, f"status {r.returncode}, {r.stdout!r}: {r.stderr[-500:]}"
    counts = [int(n) for n in re.findall(r"(\d+) bytes carried", r.stderr)]
    return any(counts), r.stderr


def is_carried(box, env, **how):
    ok, said = carried(box, env, **how)
    assert ok, f"nothing was carried: {said}"


def is_plain(box, env, word=None, **how):
    ok, said = carried(box, env, **how)
    assert not ok, f"it was carried: {said}"
    assert word is None or word in said, f"it does not say {word!r}: {said}"


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def needs_root():
    if os.geteuid() != 0:
        raise Skip("only root can make files of another user")


def as_user(box):
    """How an ordinary user runs the box's commands, in a folder of shared memory of his own."""
    needs_root()
    if subprocess.run([box.byway, "--version"], user=USER, capture_output=True).returncode != 0:
        raise Skip(f"user {USER} cannot start {box.byway}")
    os.chown(box.shm, USER, USER)
    os.chmod(box.folder, 0o755)
    return {"user": USER, "group": USER, "extra_groups": []}


def own_name(path):
    """The name of an object's cache file, but for its version."""
    s = os.stat(path)
    t = s.st_ctime_ns
    return f"{s.st_dev:016x}-{s.st_ino:016x}-{t // 10**9:016x}-{t % 10**9:08x}-{s.st_size:016x}."


def file_of(cache, path):
    """An object's cache file."""
    found = [n for n in os.listdir(cache) if n.startswith(own_name(path))]
    assert len(found) == 1, f"{cache} has {found} for {path}"
    return os.path.join(cache, found[0])


def libc():
    with open("/proc/self/maps") as f:
        return next(line.split()[5] for line in f if line.rstrip().endswith("/libc.so.6"))


def program(box):
    """A program that no cache knows: a copy of tr(1)."""
    shutil.copy2(shutil.which("tr"), box.path("own-tr"))
    return PIPE.replace("tr ", box.path("own-tr") + " ")


def warm(box, *names, **how):
    """A cache that knows all that PIPE needs; its folder."""
    is_carried(box, cached(box, *names), **how)
    return box.path(*names)


def change(path, at, many=1):
    with open(path, "r+b") as f:
        f.seek(at)
        old = f.read(many)
        f.seek(at)
        f.write(bytes(b ^ 0xff for b in old))


def read(path):
    with open(path, "rb") as f:
        return f.read()


# Row 3: where the cache may lie.

@case(3, plain=False)
def planted_link(box):
    """Another user's link stands where the cache of a user without a home would be made."""
    needs_root()
    os.mkdir(box.path("tmp"))
    os.chmod(box.path("tmp"), 0o1777)
    os.mkdir(box.path("victim"), 0o755)
    link = box.path("tmp", f"byway-{os.geteuid()}")
    os.symlink(box.path("victim"), link)
    os.lchown(link, USER, USER)
    env = {k: v for k, v in box.env.items() if k not in ("HOME", "XDG_CACHE_HOME", "BYWAY_CACHE")}
    is_plain(box, {**env, "TMPDIR": box.path("tmp")}, "BYWAY_CACHE")
    assert mode(box.path("victim")) == 0o755, f"the folder's mode is {mode(box.path('victim')):o}"
    assert not os.listdir(box.path("victim")), f"it has {os.listdir(box.path('victim'))}"


@case(3, plain=False)
def planted_link_on_the_way(box):
    """The same, where the link is not the last part of the path."""
    needs_root()
    os.mkdir(box.path("victim"), 0o755)
    os.symlink("victim", box.path("link"))
    os.lchown(box.path("link"), USER, USER)
    is_plain(box, cached(box, "link", "cache"), "link")
    assert not os.listdir(box.path("victim")), f"it has {os.listdir(box.path('victim'))}"


@case(3, plain=False)
def others_can_write(box):
    """A folder like /tmp, or of the user's group, stays as it is and receives nothing."""
    for k, m in enumerate((0o1777, 0o775, 0o757)):
        there = box.path(f"open{k}")
        os.mkdir(there)
        os.chmod(there, m)
        is_plain(box, cached(box, f"open{k}"), "BYWAY_CACHE")
        assert mode(there) == m and not os.listdir(there), f"{m:o}: now {mode(there):o}, with {os.listdir(there)}"


@case(3, plain=False)
def another_users_folder(box):
    needs_root()
    os.mkdir(box.path("theirs"), 0o755)
    os.chown(box.path("theirs"), USER, USER)
    is_plain(box, cached(box, "theirs"), "another user")
    assert not os.listdir(box.path("theirs")), "something was written into it"


@case(3, plain=False)
def another_users_home(box):
    """As sudo may leave it: root makes no folder that the home's user could not use."""
    needs_root()
    os.mkdir(box.path("home"), 0o755)
    os.chown(box.path("home"), USER, USER)
    env = {k: v for k, v in box.env.items() if k not in ("XDG_CACHE_HOME", "BYWAY_CACHE")}
    is_plain(box, {**env, "HOME": box.path("home")}, "another user")
    assert not os.listdir(box.path("home")), f"it has {os.listdir(box.path('home'))}"


@case(3, plain=False)
def own_link(box):
    """A user may have moved the cache elsewhere; a folder that others can only read stays so."""
    os.mkdir(box.path("disk"))
    os.chmod(box.path("disk"), 0o755)
    os.symlink("disk", box.path("link"))
    warm(box, "link")
    assert mode(box.path("disk")) == 0o755, f"its mode is {mode(box.path('disk')):o}"
    assert any(NAME.fullmatch(n) for n in os.listdir(box.path("disk"))), "the link's folder has no text"
    os.symlink("gone/../disk", box.path("dots"))
    is_carried(box, cached(box, "dots", ".", "..", "disk"))


@case(3, plain=False)
def missing_folders(box):
    old = os.umask(0)
    try:
        warm(box, "a", "b", "c")
    finally:
        os.umask(old)
    for names in (["a"], ["a", "b"], ["a", "b", "c"]):
        assert mode(box.path(*names)) == 0o700, f"{names} has mode {mode(box.path(*names)):o}"


# Row 6: a limit of file sizes.

def limited(n):
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))


@case(6)
def limit_and_cold_cache(box):
    """The first run of all, under a limit that no rewritten text keeps."""
    for n in (0, 1000, 100 << 10):
        fine(box.run("echo", "here", env=cached(box, f"new{n}"), preexec_fn=limited(n)), "here\n")


@case(6)
def limit_reaches_the_command(box):
    """SIGXFSZ does to the command what it does without Byway: the usual, and nothing where it was ignored."""
    line = "grep SigIgn /proc/self/status"
    told = int(box.run("sh", "-c", line).stdout.split()[1], 16)
    assert not told >> (signal.SIGXFSZ - 1) & 1, "the command ignores SIGXFSZ"
    told = int(box.run("sh", "-c", f"trap '' XFSZ; exec {' '.join(box.start())} {line}", start=[]).stdout.split()[1], 16)
    assert told >> (signal.SIGXFSZ - 1) & 1, "the command does not ignore SIGXFSZ"
    script = f"head -c 300000 /dev/zero >{box.path('large')}; echo $?; kill -XFSZ $$"
    r = box.run("sh", "-c", script, preexec_fn=limited(100 << 10))
    assert r.stdout == f"{128 + signal.SIGXFSZ}\n", f"said {r.stdout!r}"
    assert r.returncode == -signal.SIGXFSZ, f"status {r.returncode}"


@case(6, plain=False)
def limit_during_the_run(box):
    """A limit that byway meets while it looks at a program for the command."""
    warm(box, "cache")
    limit = "prlimit --pid $PPID --fsize=1000 && "
    is_carried(box, cached(box, "cache"), script=limit + PIPE)
    fine(box.run("sh", "-c", limit + program(box), env=cached(box, "cache")), SUM)


# Row 7: damaged files.

@case(7, plain=False)
def changed_byte(box):
    """A byte of libc's text changes in the cache: the next run makes the text anew, one in the head at once."""
    file = file_of(warm(box, "cache"), libc())
    whole = read(file)
    for at in (9, 17, len(whole) - 1):
        change(file, at)
        if at > 4096:
            # Behind the last stub, which no program uses.
            fine(box.run("sleep", "1", env=cached(box, "cache")))
        is_carried(box, cached(box, "cache"))
        assert read(file) == whole, f"byte {at} stays changed"


@case(7, plain=False)
def cut_off(box):
    file = file_of(warm(box, "cache"), libc())
    whole = read(file)
    for n in (0, 100, 4096, 8192, len(whole) - 1, len(whole) + 1):
        os.truncate(file, n)
        is_carried(box, cached(box, "cache"))
        assert read(file) == whole, f"{n} bytes stay"


@case(7, plain=False)
def damaged_during_the_run(box):
    """A text that only the command's programs need: the preload library sees it, and has it made anew."""
    script = program(box)
    cache = box.path("cache")
    is_carried(box, cached(box, "cache"), script=script)
    file = file_of(cache, box.path("own-tr"))
    whole = read(file)
    for what in ("length", "head", "text_len"):
        if what == "length":
            os.truncate(file, len(whole) - 100)
        else:
            change(file, {"head": 13, "text_len": 25}[what])
        ok, said = carried(box, cached(box, "cache"), script=script)
        assert "took no part" not in said, f"{what}: {said}"
        assert read(file) == whole, f"its {what} stays wrong"


@case(7, plain=False)
def doctor_verifies(box):
    script = program(box)
    cache = box.path("cache")
    is_carried(box, cached(box, "cache"), script=script)
    texts = len([n for n in os.listdir(cache) if NAME.fullmatch(n)])
    doctor = lambda: box.run(box.byway, "doctor", start=[], env=cached(box, "cache"))
    r = doctor()
    assert f"{texts} files whole" in r.stdout and "damaged" not in r.stdout, r.stdout
    one = file_of(cache, box.path("own-tr"))
    change(one, os.stat(one).st_size - 1)
    os.mkfifo(os.path.join(cache, re.sub("^.{16}", "f" * 16, os.path.basename(one))))
    r = doctor()
    assert f"{texts - 1} files whole" in r.stdout and "2 damaged" in r.stdout, r.stdout
    assert not os.path.exists(one), "the damaged one is there still"
    assert f"{texts - 1} files whole" in doctor().stdout
    is_carried(box, cached(box, "cache"), script=script)


# Row 14: what stands in the way of reading and writing.

@case(14, plain=False)
def fifo_in_place(box):
    """A FIFO, a link or a folder has the name of a cache file."""
    script = program(box)
    cache = box.path("cache")
    is_carried(box, cached(box, "cache"), script=script)
    for path in (libc(), box.path("own-tr")):
        file = file_of(cache, path)
        for what in ("FIFO", "link", "folder"):
            os.remove(file)
            if what == "FIFO":
                os.mkfifo(file)
            elif what == "link":
                os.symlink("/dev/zero", file)
            else:
                os.mkdir(file)
            ok, said = carried(box, cached(box, "cache"), script=script)
            if what == "folder":
                os.rmdir(file)
                ok, said = carried(box, cached(box, "cache"), script=script)
            assert ok and stat.S_ISREG(os.lstat(file).st_mode), f"a {what} for {path}: {said}"


@case(14, plain=False)
def read_only_mount(box):
    """A warm cache that nobody can write."""
    cache = warm(box, "cache")
    before = os.listdir(cache)
    mount = f"mount --bind {cache} {cache} && mount -o remount,ro,bind {cache} || exit 99; "
    inner = f'! touch {cache}/x 2>/dev/null || exit 98; exec "$@"'
    start = ["unshare", "-m", "sh", "-c", mount + inner, "sh", *box.start("--explain", "--private")]
    r = box.run("sh", "-c", PIPE, start=start, env=cached(box, "cache"))
    if r.returncode == 99 or "unshare" in r.stderr:
        raise Skip(r.stderr.strip())
    assert r.returncode == 0 and r.stdout == SUM, f"status {r.returncode}: {r.stderr}"
    assert re.search(r"[1-9]\d* bytes carried", r.stderr), f"nothing was carried: {r.stderr}"
    assert os.listdir(cache) == before, "the folder has changed"


@case(14, plain=False)
def read_only_folder(box):
    """The same for an ordinary user: his folder of mode 0500, and one of root that he may read."""
    needs_root()
    root = warm(box, "root")
    os.chmod(root, 0o755)
    for n in os.listdir(root):
        os.chmod(os.path.join(root, n), 0o644)
    how = as_user(box)
    is_carried(box, cached(box, "root"), **how)
    os.mkdir(box.path("cache"), 0o700)
    os.chown(box.path("cache"), USER, USER)
    cache = warm(box, "cache", **how)
    os.chmod(cache, 0o500)
    is_carried(box, cached(box, "cache"), **how)
    # What is missing cannot be made.
    os.remove(file_of(cache, libc()))
    is_plain(box, cached(box, "cache"), "BYWAY_CACHE", **how)


@case(14, plain=False)
def full_disk(box):
    """A disk that is full: nothing is left on it, and what it has still counts."""
    cache = box.path("cache")
    os.mkdir(cache, 0o700)
    script = f"""mount -t tmpfs -o size=64k,mode=700 t {cache} || exit 99
        for i in 1 2 3; do {' '.join(box.start('--explain'))} sh -c "{PIPE}" || exit 1; done; ls -A {cache}"""
    r = box.run("unshare", "-m", "sh", "-c", script, start=[], env=cached(box, "cache"))
    if r.returncode == 99 or "unshare" in r.stderr:
        raise Skip(r.stderr.strip())
    assert r.returncode == 0 and r.stdout.startswith(3 * SUM), f"status {r.returncode}: {r.stderr}"
    left = [n for n in r.stdout[3 * len(SUM):].split() if n.startswith(".")]
    assert not left, f"left on the disk: {left}"
    assert r.stderr.count("BYWAY_CACHE") == 3, r.stderr
    # Warm, and then full.
    full = box.path("full")
    os.mkdir(full, 0o700)
    warm(box, "cache")
    script = f"""mount -t tmpfs -o size=16m,mode=700 t {full} && cp -p {cache}/*.v* {full} || exit 99
        head -c 20m /dev/zero >{full}/fill 2>/dev/null; {' '.join(box.start('--explain', '--private'))} sh -c "{PIPE}"; ls -A {full}"""
    r = box.run("unshare", "-m", "sh", "-c", script, start=[], env=cached(box, "full"))
    assert r.stdout.startswith(SUM) and "\n." not in r.stdout, f"{r.stdout!r}: {r.stderr}"
    assert re.search(r"[1-9]\d* bytes carried", r.stderr), f"nothing was carried: {r.stderr}"


@case(14, plain=False)
def leftovers(box):
    """Unfinished files of dead processes go, those of the living and other files stay."""
    cache = box.path("cache")
    os.mkdir(cache, 0o700)
    dead = subprocess.Popen(["true"])
    dead.wait()
    one = "0" * 16 + "-" + "1" * 16 + "-" + "2" * 16 + "-" + "3" * 8 + "-" + "4" * 16
    goes = [f".{one}.v4.{dead.pid}", f".{one}.v3.{dead.pid}", f"{one}.v3"]
    stays = [f".{one}.v4.{os.getpid()}", f".mine.{dead.pid}", "film.vob", "notes.v3", f"{one}.v99"]
    for n in goes + stays:
        with open(os.path.join(cache, n), "w"):
            pass
        os.utime(os.path.join(cache, n), (time.time() - 3600,) * 2)
    warm(box, "cache")
    left = os.listdir(cache)
    assert not set(goes) & set(left), f"still there: {sorted(set(goes) & set(left))}"
    assert set(stays) <= set(left), f"gone: {sorted(set(stays) - set(left))}"


# What else BYWAY_CACHE may be.

@case(14, plain=False)
def odd_paths(box):
    with open(box.path("file"), "w"):
        pass
    os.mkdir(box.path("home"), 0o700)
    long = [c * 60 for c in "abcdefgh"]
    room = 500 - len(box.folder) - 1
    five = os.path.join(*long)[:room].rstrip("/")
    is_carried(box, cached(box, five))
    is_plain(box, cached(box, *long, *long), "BYWAY_CACHE")
    is_plain(box, cached(box, "file"), "BYWAY_CACHE")
    is_plain(box, cached(box, "file", "below"), "BYWAY_CACHE")
    is_carried(box, {**cached(box), "BYWAY_CACHE": "relative/cache"}, cwd=box.folder, script="cd /; " + PIPE)
    is_carried(box, {**cached(box), "BYWAY_CACHE": "."}, cwd=box.path("home"), script="cd /; " + PIPE)
    is_carried(box, {**cached(box), "BYWAY_CACHE": "", "XDG_CACHE_HOME": "", "HOME": box.path("home")})
    assert mode(box.path("home", ".cache", "byway")) == 0o700
    os.symlink("loop", box.path("loop"))
    is_plain(box, cached(box, "loop"), "BYWAY_CACHE")


@case(14, plain=False)
def removed_during_the_run(box):
    warm(box, "cache")
    gone = f"rm -r {box.path('cache')}; "
    carried(box, cached(box, "cache"), script=gone + PIPE)
    warm(box, "cache")
    carried(box, cached(box, "cache"), script=gone + program(box))
    is_carried(box, cached(box, "cache"))


@case(14, plain=False)
def unreadable_during_the_run(box):
    how = as_user(box)
    os.mkdir(box.path("cache"), 0o700)
    os.chown(box.path("cache"), USER, USER)
    warm(box, "cache", **how)
    script = f"chmod 0 {box.path('cache')}; "
    carried(box, cached(box, "cache"), script=script + PIPE, **how)
    is_plain(box, cached(box, "cache"), "BYWAY_CACHE", **how)


@case(14, plain=False)
def cold_at_once(box):
    """Many first runs at the same time, of one cache."""
    start = [*box.start(), "sh", "-c", PIPE]
    runs = [subprocess.Popen(start, stdout=subprocess.PIPE, text=True, env=cached(box, "cache")) for _ in range(8)]
    out = [r.communicate(timeout=120)[0] for r in runs]
    assert out == [SUM] * 8, f"{out}"
    left = [n for n in os.listdir(box.path("cache")) if n.startswith(".")]
    assert not left, f"left: {left}"
    is_carried(box, cached(box, "cache"))


if __name__ == "__main__":
    main()
