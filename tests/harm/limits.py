#!/usr/bin/env python3
"""Other limits, name spaces and files that change under a run: what a user does to a program is done as without Byway.

Invariant: statuses, outputs and messages are the kernel's. Not here: memory (memory.py), control groups (groups.py), other users (users.py),
`byway run` itself (spaces.py).
"""
import contextlib, os, shlex, shutil, signal, subprocess, sys, time
from harm import Skip, case, fine, main

PIPES = "head -c 3000000 /dev/zero | cat | cat | wc -c"


@case("audit")
def a_small_stack(box):
    """RLIMIT_STACK: a start needs some KiB more."""
    for size in (64, 128):
        fine(box.run("sh", "-c", f"ulimit -s {size}; {PIPES}"), "3000000\n")


@case("audit")
def little_data(box):
    """RLIMIT_DATA counts private memory alone."""
    fine(box.run("sh", "-c", f"ulimit -d 3000; {PIPES}"), "3000000\n")


@case("audit")
def the_time_of_the_cpu(box):
    """RLIMIT_CPU ends the program, and nobody else."""
    r = box.run("sh", "-c", f"(ulimit -t 1; while :; do :; done) | cat; {PIPES}")
    assert r.returncode == 0 and r.stdout == "3000000\n", r


@case("audit")
def few_files_in_the_middle(box):
    """RLIMIT_NOFILE lowered while pipes are carried: an exec hands them back with none left."""
    text = "exec 5</dev/null 6</dev/null 7</dev/null; (head -c 900000 /dev/zero; ulimit -n 8; head -c 100 /dev/zero) | (sleep 0.1; ulimit -n 8; cat) | wc -c"
    fine(box.run("bash", "-c", text), "900100\n")


@case("audit")
def a_user_name_space(box):
    if subprocess.run(["unshare", "-r", "true"], capture_output=True).returncode:
        raise Skip("no user name space may be made")
    fine(box.run("unshare", "-r", "sh", "-c", PIPES), "3000000\n")
    fine(box.run("sh", "-c", "head -c 3000000 /dev/zero | unshare -rmiun cat | wc -c"), "3000000\n")


@case("audit")
def another_cpu(box):
    """The mask is changed while the pipes are carried: the first program stays until it has been."""
    masked = shlex.quote(box.path("masked"))
    head = f"{{ head -c 30000000 /dev/zero; until [ -e {masked} ]; do sleep 0.01; done; head -c 30000000 /dev/zero; }}"
    masks = f"for p in $(pgrep -P $$); do taskset -cp 0 $p >/dev/null; done; touch {masked}"
    fine(box.run("bash", "-c", f"{head} | cat | cat | wc -c & sleep 0.02; {masks}; wait"), "60000000\n")


@case("audit")
def a_real_time_class(box):
    if not shutil.which("chrt") or subprocess.run(["chrt", "-f", "1", "true"], capture_output=True).returncode:
        raise Skip("no real-time class may be had")
    fine(box.run("sh", "-c", "head -c 3000000 /dev/zero | chrt -f 1 cat | chrt -r 1 cat | wc -c"), "3000000\n")


READS = r"""
import os, select, sys, time
first, ready, go = sys.argv[1:4]
have = 0
def take(most):
    global have
    got = os.read(0, most)
    have += len(got)
    at = 0
    while at < len(got):
        at += os.write(1, got[at:])
    return got
while have < 300000:
    take(min(4096, 300000 - have))
open(ready, "w").close()
while not os.path.exists(go):
    time.sleep(0.01)
if first == "poll":
    p = select.poll()
    p.register(0, select.POLLIN)
    assert p.poll(0), "nothing is there"
if first == "exec":
    os.execv(sys.argv[4], sys.argv[4:])
if first == "late":
    time.sleep(0.5)
while take(65536):
    pass
"""

WRITES = r"""
import os, sys, time
text, go, *command = sys.argv[1:]
with open(text, "rb") as f:
    left = f.read()
while left:
    left = left[os.write(1, left[:20000]):]
while not os.path.exists(go):
    time.sleep(0.01)
os.execv(command[0], command)
"""

USES_UP = r"""
import fcntl, os, resource, sys, time
with open("/proc/sys/fs/pipe-max-size") as f:
    most = int(f.read())
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
for n in range(1500):
    size = most
    while size > 65536:
        try:
            fcntl.fcntl(os.pipe()[0], 1031, size)
            break
        except OSError:
            size //= 2
    else:
        print("none grows", flush=True)
        time.sleep(60)
sys.exit("no limit")
"""

STATIC = r"""
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char b[3000];
    ssize_t n;
    if (argc > 1) return write(1, argv[1], strlen(argv[1])) < 0;
    while ((n = read(0, b, sizeof b)) > 0)
        for (ssize_t o = 0, k; o < n; o += k)
            if ((k = write(1, b + o, n - o)) < 0) return 1;
    return n < 0;
}
"""


def is_there(path):
    """Waits for a file that a program of the case makes."""
    end = time.monotonic() + 20
    while not os.path.exists(path):
        assert time.monotonic() < end, f"nobody has made {os.path.basename(path)}"
        time.sleep(0.01)


def set_pipe_max_size(most):
    """Sets fs.pipe-max-size, for the whole machine; what it was."""
    try:
        with open("/proc/sys/fs/pipe-max-size", "r+") as f:
            before = f.read()
            f.seek(0)
            f.write(f"{most}\n")
    except OSError as e:
        raise Skip(f"fs.pipe-max-size cannot be set: {e.strerror}")
    return before.strip()


def bound():
    """Starts a program that the limits of pipes hold for. LINUX pipe(7): not for CAP_SYS_RESOURCE and CAP_SYS_ADMIN."""
    if os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        raise Skip("no setpriv")
    return ["setpriv", "--bounding-set", "-sys_resource,-sys_admin"]


@contextlib.contextmanager
def size_lowered():
    """fs.pipe-max-size is lowered."""
    before = set_pipe_max_size(65536)
    try:
        yield
    finally:
        set_pipe_max_size(before)


@contextlib.contextmanager
def pages_used_up():
    """The user's other pipes take all of fs.pipe-user-pages-soft."""
    uses = subprocess.Popen([*bound(), sys.executable, "-c", USES_UP], stdout=subprocess.PIPE, text=True)
    try:
        said = uses.stdout.readline()
        assert said == "none grows\n", said
        yield
    finally:
        uses.kill()
        uses.communicate()


def small(box, limit, size, first, pipes='cat "$0" | cat | "$@"', then=""):
    """No pipe grows any more behind the first 300,000 of `size` bytes: all of them arrive, in order."""
    text = "".join(f"{i:07}\n" for i in range(size // 8))
    with open(box.path("text"), "w") as f:
        f.write(text)
    static = box.cc("static", STATIC, "-static")
    ready, go = box.path("ready"), box.path("go")
    writer = [sys.executable, "-c", WRITES, box.path("text"), go, static, then]
    with open(box.path("writer"), "w") as f:
        f.write(f"exec {shlex.join(writer)}\n")
    reader = [sys.executable, "-c", READS, first, ready, go, static]
    command = [*bound(), *box.start(), "sh", "-c", pipes, box.path("text"), *reader]
    with open(box.path("out"), "w") as out:
        p = subprocess.Popen(command, env=box.env, cwd=box.folder, stdout=out)
    try:
        is_there(ready)
        with limit():
            # A writer, which waits for nothing but room, has filled what there is.
            time.sleep(0.2)
            open(go, "w").close()
            status = p.wait(timeout=20)
            with open(box.path("out")) as f:
                out = f.read()
            assert (status, len(out)) == (0, len(text + then)), (status, len(out))
            assert out == text + then, "bytes are out of order"
            fine(box.run("sh", "-c", PIPES), "3000000\n")
    finally:
        p.kill()
        p.wait()


@case("audit")
def a_smaller_pipe_max_size(box):
    """A ring that was opened under the old limit is read to its end."""
    small(box, size_lowered, 3000000, "read")


@case("audit")
def a_smaller_pipe_max_size_and_poll(box):
    """A hand-back that fits into the pipe as it is."""
    small(box, size_lowered, 350000, "poll")


@case("audit")
def a_smaller_pipe_max_size_and_a_longer_hand_back(box):
    """One that does not fit."""
    small(box, size_lowered, 3000000, "poll")


@case("audit")
def pages_used_up_and_poll(box):
    small(box, pages_used_up, 3000000, "poll")


@case("audit")
def pages_used_up_and_the_reader_execs(box):
    """To an image that takes no part."""
    small(box, pages_used_up, 3000000, "exec")


@case("audit")
def pages_used_up_and_the_writer_execs(box):
    """What an image writes that takes no part comes behind what was written before."""
    small(box, pages_used_up, 500000, "late", 'sh writer | "$@"', "the end\n")


@case("audit")
def pages_used_up_and_a_fifo(box):
    small(box, pages_used_up, 3000000, "poll", 'mkfifo f; cat "$0" >f & "$@" <f && wait')


@case("audit", plain=False)
def the_library_goes(box):
    """Byway and its cache are removed while a run goes on: what starts then is told of no library."""
    folder = box.path("installed")
    os.mkdir(folder, 0o700)
    shutil.copy(box.byway, os.path.join(folder, "byway"))
    box.env["BYWAY_CACHE"] = folder
    text = f"echo one | cat; ls {folder}/*-libbyway_preload.so >{box.path('was')}; rm -r {folder}; echo two | cat; {PIPES}"
    fine(box.run("sh", "-c", text, start=[os.path.join(folder, "byway"), "run", "--"]), "one\ntwo\n3000000\n")
    assert os.path.getsize(box.path("was")), "there was no library"


TICKS = r"""
#include <unistd.h>
int main(int argc, char **argv) {
    while (access(argv[1], F_OK)) {
        if (write(1, ".", 1) != 1) return 3;
        usleep(5000);
    }
    return 0;
}
"""

COUNTS = r"""
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>
static long calls;
static void counted(void) { calls++; }
static void (*volatile count)(void) = counted;
ssize_t write(int fd, const void *bytes, size_t n) { count(); return syscall(SYS_write, fd, bytes, n); }
"""

KILLED = (-signal.SIGSEGV, -signal.SIGBUS, -signal.SIGILL)


def while_it_writes(box, command, change):
    """Calls `change` while a program writes now and then; the program's status."""
    stop = box.path("stop")
    p = subprocess.Popen([*command, stop], env=box.env, cwd=box.folder, stdout=subprocess.PIPE)
    try:
        assert p.stdout.read(1) == b".", "it has not begun"
        change()
        time.sleep(0.1)
        open(stop, "w").close()
        p.communicate(timeout=20)
        return p.returncode
    finally:
        os.remove(stop)
        p.kill()
        p.wait()


def over(path, text):
    """Writes into the same file, as cp does: it is cut off first."""
    with open(path, "wb") as f:
        f.write(text)


def instead(path, text):
    """Puts a new file in its place, as `make install` does."""
    with open(path + ".new", "wb") as f:
        f.write(text)
    os.rename(path + ".new", path)


def a_preloaded_library(box):
    """A folder with a library of its own, and the command that preloads it: Byway's, or a plain one."""
    folder = box.path("installed")
    os.mkdir(folder, 0o700)
    if box.way == "plain":
        library = box.cc("installed/counts.so", COUNTS, "-shared", "-fPIC")
        return library, ["env", f"LD_PRELOAD={library}"]
    box.env["BYWAY_CACHE"] = folder
    fine(box.run("true"))
    library = next(n for n in os.listdir(folder) if n.endswith("-libbyway_preload.so"))
    os.chmod(os.path.join(folder, library), 0o700)
    return os.path.join(folder, library), box.start()


@case("audit")
def the_library_is_overwritten(box):
    """A program that calls the library dies, as with a plain library that is preloaded. Byway's has no relocated data: where
    the same text is written, and no call comes in between, its program goes on and takes no part any more.

    LINUX: a file that is cut off takes the pages of its private mappings with it, the changed ones too (relocated data). Promised is:
    a new file in its place changes nothing; `byway run` ends as the command did and leaves nothing behind; the next run is well.
    """
    library, start = a_preloaded_library(box)
    with open(library, "rb") as f:
        whole = f.read()
    ticks = [*start, box.cc("ticks", TICKS)]
    assert while_it_writes(box, ticks, lambda: instead(library, whole)) == 0
    for text in (whole, b"", b"no library\n"):
        status = while_it_writes(box, ticks, lambda: over(library, text))
        goes_on = status == 0 and text is whole and box.way != "plain"
        assert status in KILLED or goes_on, f"status {status} after {len(text)} bytes were written"
        over(library, whole)
        fine(box.run("sh", "-c", PIPES, start=start), "3000000\n")


@case("audit")
def libc_is_overwritten(box):
    """A program that uses it dies, with its data gone, as on the plain kernel. A new file in its place changes nothing."""
    with open("/proc/self/maps") as f:
        libc = next(line.split()[-1] for line in f if line.endswith("/libc.so.6\n"))
    os.mkdir(box.path("lib"))
    copy = shutil.copy(libc, box.path("lib"))
    with open(copy, "rb") as f:
        whole = f.read()
    ticks = [*box.start(), "env", f"LD_LIBRARY_PATH={box.path('lib')}", box.cc("ticks", TICKS)]
    assert while_it_writes(box, ticks, lambda: instead(copy, whole)) == 0
    status = while_it_writes(box, ticks, lambda: over(copy, whole))
    assert status in KILLED, f"status {status}"


@case("audit")
def the_program_goes(box):
    """A program's file is removed, and made anew, while it runs."""
    program = box.path("cat")
    shutil.copy(shutil.which("cat"), program)
    text = f"(head -c 100000 /dev/zero; rm {program}; head -c 100000 /dev/zero; cp /bin/true {program}; head -c 100 /dev/zero) | {program} | wc -c"
    fine(box.run("sh", "-c", text), "200100\n")


if __name__ == "__main__":
    main()
