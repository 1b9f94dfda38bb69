#!/usr/bin/env python3
"""Other projects' own tests, on the plain kernel and under Byway: each must end in the same way.

usage: theirs.py BYWAY python|perl|bash|coreutils|stress-ng PLACE [NAME ...]
PLACE: python: the folder in which `test` is (Debian: libpython3.11-testsuite, with what python3 has of it beside it);
  perl, bash, coreutils: the unpacked source, of the version that is installed; stress-ng: the program.
NAME: those tests alone (python: modules, stress-ng: stressors).
The programs are the installed ones; nothing is built but three helpers of bash's tests. Not part of `make test`: it needs what this project does not have.
Ends with 1 if anything ended in another way, twice.
"""
import glob, os, re, shutil, signal, subprocess, sys, tempfile

BYWAY, KIND, PLACE = os.path.realpath(sys.argv[1]), sys.argv[2], os.path.realpath(sys.argv[3])
PYTHON = """asyncio bz2 cmd_line cmd_line_script concurrent_futures eintr epoll faulthandler fcntl file fileio fork1 gzip io
 multiprocessing_fork multiprocessing_forkserver multiprocessing_spawn openpty os pdb pipes poll popen posix pty runpy select selectors
 shutil signal subprocess sys tarfile tempfile threading threadsignals wait3 wait4"""
STRESSORS = """clone close daemon dup epoll exec fcntl fifo file-ioctl fork io-uring kill membarrier pidfd pipe pipeherd poll ptrace
 rseq seccomp sendfile sigabrt sigchld sigfd sigio signal sigpipe sigsegv sigsuspend sockfd spawn splice switch sysbadaddr tee unshare vfork
 vm-splice wait zombie"""
SECONDS = 300


class Python:
    """regrtest, a module at a time; what failed is told by name."""
    failed = r"^(?:ERROR|FAIL): .*$"
    passed = r"^Ran (\d+) tests?"

    def names(self):
        return ["test_" + m for m in PYTHON.split()]

    def command(self, name, tmp):
        return ["python3", "-m", "test", "-v", "-u", "all,-network,-gui,-urlfetch", name], tmp, {"PYTHONPATH": PLACE}


class Perl:
    """Its own library for tests, but for the line that would look for an uninstalled perl's modules."""
    failed = r"^not ok.*$"
    passed = r"^ok "

    def names(self):
        os.chdir(PLACE + "/t")
        with open("test.pl") as f:
            text = f.read()
        with open("test.pl", "w") as f:
            f.write(text.replace("@INC = () unless is_miniperl;", "return;"))
        op = ["alarm", "die_exit", "exec", "fork", "kill0", "magic", "sselect", "stat", "sysio"]
        others = ["dist/IO", "ext/POSIX", "ext/IPC-Open3", "cpan/IPC-Cmd", "cpan/IPC-SysV", "dist/threads", "dist/Thread-Queue"]
        return sorted(glob.glob("io/*.t") + glob.glob("run/*.t") + [f"op/{o}.t" for o in op]
                      + [t for o in others for t in glob.glob(f"../{o}/t/**/*.t", recursive=True)])

    def command(self, name, tmp):
        return ["perl", name], PLACE + "/t", {}


class Bash:
    """Each compares what bash says with what it ought to say."""
    failed = r"^[<>].*$"
    passed = None

    def names(self):
        os.chdir(PLACE + "/tests")
        open("../config.h", "a").close()
        for helper in "recho", "zecho", "xcase":
            cc = ["cc", "-w", "-DHAVE_UNISTD_H", "-DHAVE_STDLIB_H", "-DHAVE_STRING_H", "-I..", "-I../include", "-o", helper]
            subprocess.run([*cc, f"../support/{helper}.c"], check=True)
        return sorted(t for t in glob.glob("run-*") if t not in ("run-all", "run-minimal", "run-gprof"))

    def command(self, name, tmp):
        env = {"THIS_SH": "/bin/bash", "BASH_TSTOUT": tmp + "/out", "PATH": ".:" + os.environ["PATH"]}
        return ["sh", name], PLACE + "/tests", env


class Coreutils:
    """77 is "skipped", 99 "cannot be run here"."""
    failed = None
    passed = None

    def names(self):
        os.chdir(PLACE)
        tests = glob.glob("tests/**/*.sh", recursive=True) + glob.glob("tests/**/*.pl", recursive=True)
        return sorted(t for t in tests if t != "tests/init.sh")

    def command(self, name, tmp):
        top = {k: PLACE for k in ("abs_top_srcdir", "abs_top_builddir", "abs_srcdir")}
        env = dict(top, srcdir=".", top_srcdir=".", PERL="perl", SHELL="/bin/bash", AWK="awk", EGREP="grep -E", CC="cc", MAKE="make", LC_ALL="C",
                   CONFIG_HEADER=PLACE + "/lib/config.h", LOCALE_FR="none", LOCALE_FR_UTF8="none", CU_TEST_NAME="x", host_os="linux-gnu",
                   built_programs=" ".join(p for p in os.listdir("/usr/bin") if os.path.exists(f"{PLACE}/src/{p}.c")))
        shell = f'exec perl -w -I./tests -MCuSkip -MCoreutils -M"CuTmpdir qw({os.path.basename(name)})" ./{name} 9>&2'
        return ["bash", "-c", shell if name.endswith(".pl") else f"exec bash ./{name} 9>&2"], PLACE, env


class StressNg:
    failed = r"^stress-ng: fail.*$"
    passed = None

    def names(self):
        return STRESSORS.split()

    def command(self, name, tmp):
        return [PLACE, "--" + name, "2", "--verify", "-t", "3"], tmp, {}


def outcome(suite, name, before):
    """The status, what failed by name, and how many passed."""
    tmp = tempfile.mkdtemp(prefix="theirs.")
    command, folder, env = suite.command(name, tmp)
    with open(tmp + "/said", "w+b") as said:
        p = subprocess.Popen(before + command, cwd=folder, env={**os.environ, "TMPDIR": tmp, **env}, stdin=subprocess.DEVNULL,
                             stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = p.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            status = p.wait() and "did not end"
        said.seek(0)
        text = said.read().decode("latin1")
    shutil.rmtree(tmp, ignore_errors=True)
    passed = re.findall(suite.passed, text, re.M) if suite.passed else []
    failed = re.findall(suite.failed, text, re.M) if suite.failed else []
    # A number in brackets is a process.
    failed = {re.sub(r"\(\d+\)", "(N)", f) for f in failed}
    return status, failed, sum(int(n) if n.isdigit() else 1 for n in passed)


def main():
    suite = {"python": Python, "perl": Perl, "bash": Bash, "coreutils": Coreutils, "stress-ng": StressNg}[KIND]()
    all_names = suite.names()
    names, same, passed, good = sys.argv[4:] or all_names, 0, 0, 0
    for name in names:
        for _ in range(2):
            kernel, byway = outcome(suite, name, []), outcome(suite, name, [BYWAY, "run", "--"])
            if kernel[:2] == byway[:2]:
                break
        if kernel[:2] == byway[:2]:
            same, passed, good = same + 1, passed + byway[2], good + (byway[0] == 0)
        else:
            print(f"not ok  {name}: {kernel[0]} on the kernel, {byway[0]} under Byway", *sorted(byway[1] - kernel[1]), sep="\n    ", flush=True)
    print(f"{KIND}: {same} of {len(names)} ended as on the kernel, {good} of them well", f"({passed} tests passed)" if passed else "")
    sys.exit(same != len(names))


main()
