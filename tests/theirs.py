#!/usr/bin/env python3
"""Other projects' own tests, on the plain kernel and under Byway: each must end in the same way.

usage: theirs.py BYWAY KIND PLACE [NAME ...]
KIND and PLACE: python: the folder in which `test` is (Debian: libpython3.11-testsuite, with what python3 has of it beside it);
  perl, bash, coreutils: the unpacked source, of the version that is installed; stress-ng: the program;
  openssl, libgcrypt20, nettle, gmp, zlib, media, numpy: FOLDER/KIND, as known/fetch.sh FOLDER makes it: tests with known answers;
  libevent, libuv, redis, memcached: FOLDER/KIND, made by the same script.
NAME: those tests alone (python: modules, stress-ng: stressors).
What is tested are the installed programs and libraries. bash's tests have three helpers built. The tests of the libraries are
programs of their own, built from the source; they load the installed shared library, and this is checked before they run. Those
of OpenSSL that need what the shared library does not export have libcrypto linked in instead: a quarter, mostly of internals.
libuv's tests and memcached's are of what is built from the source.
A process that leaves Byway ends as on the kernel and proves nothing; each reason to leave is told, with its number of tests.
Not part of `make test`: it needs what this project does not have.
Ends with 1 if anything ended in another way, twice (libevent: four times, memcached: three).
"""
import atexit, collections, glob, os, re, shutil, signal, subprocess, sys, tempfile

if len(sys.argv) < 4 or not os.path.exists(sys.argv[3]):
    sys.exit("theirs: it takes the program, a kind and an existing place\n" + __doc__)
BYWAY, KIND, PLACE = os.path.realpath(sys.argv[1]), sys.argv[2], os.path.realpath(sys.argv[3])
PYTHON = """asyncio bz2 cmd_line cmd_line_script concurrent_futures eintr epoll faulthandler fcntl file fileio fork1 ftplib gzip
 httplib httpservers imaplib io logging multiprocessing_fork multiprocessing_forkserver multiprocessing_main_handling multiprocessing_spawn openpty os pdb pipes poll popen
 posix poplib pty runpy select selectors shutil signal smtplib socket socketserver ssl subprocess sys tarfile tempfile
 telnetlib threading threadsignals urllib urllib2 urllib2_localnet wait3 wait4 wsgiref xmlrpc"""
STRESSORS = """clone close daemon dup epoll exec fcntl fifo file-ioctl fork io-uring kill membarrier pidfd pipe pipeherd poll ptrace
 rseq seccomp sendfile sigabrt sigchld sigfd sigio signal sigpipe sigsegv sigsuspend sock sockabuse sockfd sockpair spawn splice switch
 sysbadaddr tee unshare vfork vm-splice wait zombie"""
SECONDS = 300


class Python:
    """regrtest, a module at a time; what failed is told by name."""
    failed = r"^(?:ERROR|FAIL): .*$"
    passed = r"^Ran (\d+) tests?"

    def names(self):
        return ["test_" + m for m in PYTHON.split()]

    def command(self, name, tmp):
        # A virtual machine's host answers no connection of AF_VSOCK: the test would wait for ever.
        return ["python3", "-m", "test", "-v", "-u", "all,-network,-gui,-urlfetch", "-i", "*VSOCKSocketStreamTest*", name], tmp, {"PYTHONPATH": PLACE}


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
    """Each stressor for three seconds. A library keeps it from what would make all of them leave Byway (known/no_limit.c)."""
    failed = r"^stress-ng: fail.*$"
    passed = None

    def names(self):
        folder = tempfile.mkdtemp(prefix="theirs.")
        atexit.register(shutil.rmtree, folder)
        self.no_limit = folder + "/no_limit.so"
        source = os.path.join(os.path.dirname(os.path.realpath(__file__)), "known/no_limit.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.no_limit, source], check=True)
        return STRESSORS.split()

    def command(self, name, tmp):
        return [PLACE, "--" + name, "2", "--verify", "-t", "3"], tmp, {"LD_PRELOAD": self.no_limit}


class OpenSsl:
    """The recipes of `make test`, but for TLS, fuzzing and others' software."""
    failed = r"^\s*not ok \d+.*$"
    passed = r"^\s*ok \d+ "
    loads = "test/ecdsatest", "libcrypto.so"

    def names(self):
        recipes = [os.path.basename(r)[3:-2] for r in sorted(glob.glob(PLACE + "/test/recipes/[0-9]*.t")) if r[-2:] == ".t"]
        return [r for r in recipes if not re.match(r"test_(ssl|tls|dtls|fuzz|external|cmp_http|http|shlibload)", r)]

    def command(self, name, tmp):
        env = {"SRCTOP": ".", "BLDTOP": ".", "PERL": "perl", "EXE_EXT": "", "RESULT_D": tmp, "HARNESS_VERBOSE": "1", "LC_ALL": "C"}
        return ["perl", "test/run_tests.pl", name], PLACE, env


class Libgcrypt:
    """But for measurements, and a test of 256 GB."""
    failed = r"^.*(?:fail|mismatch).*$"
    passed = None
    loads = "tests/t-ecdsa", "libgcrypt.so"

    def names(self):
        return [n for n in open(PLACE + "/names").read().split() if n not in ("benchmark", "bench-slope", "hashtest-256g")]

    def command(self, name, tmp):
        return ["./" + name], PLACE + "/tests", {"srcdir": ".", "GCRYPT_IN_REGRESSION_TEST": "1"}


class Nettle:
    """77 is "skipped"."""
    failed = r"^.*(?:FAIL|mismatch).*$"
    passed = None
    loads = "testsuite/ecdsa-sign-test", "libhogweed.so"

    def names(self):
        return open(PLACE + "/names").read().split()

    def command(self, name, tmp):
        return ["./" + name], PLACE + "/testsuite", {"srcdir": ".", "NM": "nm", "EXEEXT": "", "EMULATOR": ""}


class Gmp:
    """Each a program; its random numbers have always the same seed."""
    failed = None
    passed = None
    loads = "tests/mpz/t-mul", "libgmp.so"

    def names(self):
        return open(PLACE + "/names").read().split()

    def command(self, name, tmp):
        folder, program = os.path.split(f"{PLACE}/{name}")
        return ["./" + program], folder, {}


class Zlib:
    """Its two test programs, and its small gzip at each level and strategy: the sums of what it makes must be the same."""
    failed = r"^[0-9a-f]{32}.*$"
    passed = None
    loads = "minigzipsh", "libz.so"

    def names(self):
        return ["example", "infcover"] + [f"minigzip {level} {how}".strip() for level in range(1, 10) for how in ("", "-f", "-h", "-r")]

    def command(self, name, tmp):
        if name == "example":
            return ["./examplesh", tmp + "/file"], PLACE, {}
        if name == "infcover":
            return ["./infcovershared"], PLACE, {}
        level, *how = name.split()[1:]
        small = f"{PLACE}/minigzipsh"
        shell = f"""set -o pipefail
          cat *.c doc/* | {small} -{level} {' '.join(how)} | tee {tmp}/z | {small} -d | md5sum; s=$?
          md5sum <{tmp}/z; exit $s"""
        return ["bash", "-c", shell], PLACE, {}


class Media:
    """ffmpeg encodes generated pictures and sounds into a pipe, and decodes them from it: sums of frames and of the encoded stream."""
    failed = r"^(?:[0-9a-f]{32}|MD5=|\d+,).*$"
    passed = None
    loads = shutil.which("ffmpeg") or "ffmpeg", "libx264.so"
    pictures = {"libx264": "yuv420p yuv422p yuv444p nv12 gray yuv420p10le yuv444p10le", "libx265": "yuv420p yuv422p yuv444p gray yuv420p10le yuv422p12le",
                "libvpx-vp9": "yuv420p yuv444p", "mpeg4": "yuv420p", "mpeg2video": "yuv422p", "mjpeg": "yuvj444p", "ffv1": "bgr0 yuv420p16le",
                "prores_ks": "yuv422p10le", "png": "rgb24 rgba64be"}
    sounds = "aac ac3 flac libmp3lame libopus libvorbis pcm_s24le"

    def names(self):
        return [f"{c} {f} {s}" for c, fs in self.pictures.items() for f in fs.split() for s in ("testsrc2", "mandelbrot")] + self.sounds.split()

    def command(self, name, tmp):
        codec, *picture = name.split()
        if picture:
            source, options = f"{picture[1]}=size=352x288:rate=25", f"-frames:v 40 -pix_fmt {picture[0]} -c:v {codec}"
        else:
            source, options = "anoisesrc=seed=7:r=48000,lowpass=f=3000", f"-t 20 -ac 2 -c:a {codec}"
        ffmpeg, exact = "ffmpeg -nostdin -v error", "-fflags +bitexact -flags +bitexact"
        shell = (f"{ffmpeg} -f lavfi -i {source} {options} {exact} -f matroska - | tee coded | {ffmpeg} -i - -f framemd5 -; s=${{PIPESTATUS[*]}}\n"
                 f"md5sum <coded; {ffmpeg} -i coded {exact} -f md5 -; [ \"$s $?\" = '0 0 0 0' ]")
        return ["bash", "-c", shell], tmp, {}


class Numpy:
    """From the package index; a file of tests at a time."""
    failed = r"^(?:FAILED|ERROR) \S+"
    passed = r"(\d+) passed"
    loads = "bin/python", "libc.so"
    parts = "_core", "fft", "linalg", "random"

    def names(self):
        packages = glob.glob(PLACE + "/lib/python3*/site-packages")[0]
        files = [f for p in self.parts for f in sorted(glob.glob(f"{packages}/numpy/{p}/tests/test_*.py"))]
        return [os.path.relpath(f, packages)[:-3].replace("/", ".") for f in files]

    def command(self, name, tmp):
        test = ["-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider", "-m", "not slow", "--pyargs", name]
        return [PLACE + "/bin/python", *test], tmp, {"HYPOTHESIS_STORAGE_DIRECTORY": tmp, "PYTHONDONTWRITEBYTECODE": "1"}


class Libevent:
    """Its regress program by groups, and its small programs, with each way to wait. "piped": a pipe stands for each pair of sockets.
    But for http, which is of sockets alone and takes a minute, and those that wait half a minute for a pipe's other direction."""
    failed = r"^\s*\[\S+ FAILED\]$"
    passed = r"\bOK$"
    loads = "test/.libs/regress", "libevent_core-2.1"
    # Its timers may be 50 ms late, which they are on a busy machine.
    tries = 4
    waits = {"epoll": {}, "changelist": {"EVENT_EPOLL_USE_CHANGELIST": "1"}, "timerfd": {"EVENT_PRECISE_TIMER": "1"},
             "poll": {"EVENT_NOEPOLL": "1"}, "select": {"EVENT_NOEPOLL": "1", "EVENT_NOPOLL": "1"}}
    groups = "main et finalize evbuffer signal util bufferevent dns rpc thread listener"
    piped = "main et finalize evbuffer signal util bufferevent thread"
    two_ways = """main/active_later main/combined main/event_remove_timeout main/multiple_events_for_same_fd
      bufferevent/bufferevent_filters bufferevent/bufferevent_filters_disable bufferevent/bufferevent_zlib"""
    # What is written, as regress has it, is the first of a pair; here the second.
    programs = "test-eof test-weof test-time test-changelist test-fdleak"
    benches = {"bench": "-n 500 -a 50 -w 5000", "bench-few": "-n 20 -a 2 -w 5000", "bench_cascade": "-n 300"}

    def names(self):
        return [f"{w} {n}" for w in self.waits for n in [*self.groups.split(), *("piped " + g for g in self.piped.split()), *self.programs.split(),
                *("piped " + p for p in [*self.programs.split(), *self.benches] if p != "test-eof")]]

    def command(self, name, tmp):
        wait, *piped, what = name.split()
        env = dict(self.waits[wait])
        if what in self.groups:
            command = ["regress", what + "/..", *(":" + t for t in self.two_ways.split() if piped and t.startswith(what))]
        else:
            command = [what.removesuffix("-few"), *self.benches.get(what, "").split()]
        if piped:
            env |= {"LD_PRELOAD": PLACE + "/one_way.so", "ONE_WAY": "0" if command[0] == "regress" else "1"}
        return [f"{PLACE}/test/.libs/{command[0]}", *command[1:]], tmp, env


class Libuv:
    """Each test is a process of its own, some with helpers."""
    failed = r"^not ok .*$"
    passed = r"^ok "

    def names(self):
        os.environ["UV_RUN_AS_ROOT"] = "1"
        return subprocess.run(["build/uv_run_tests_a", "--list"], cwd=PLACE, capture_output=True, text=True, check=True).stdout.split()

    def command(self, name, tmp):
        return ["./uv_run_tests_a", name], PLACE + "/build", {}


class Redis:
    """By units: a client in Tcl and servers that it starts, over TCP. But for random damage, which takes long."""
    failed = r"^\[(?:err|exception)\]: .*$"
    passed = r"^\[ok\]: "
    seconds = 600

    def names(self):
        with open(PLACE + "/tests/test_helper.tcl") as f:
            units = re.search(r"^set ::all_tests \{(.*?)^\}", f.read(), re.M | re.S)[1].split()
        return [u for u in units if u != "integration/corrupt-dump-fuzzer"]

    def command(self, name, tmp):
        return ["./runtest", "--clients", "1", "--single", name], PLACE, {"TERM": "dumb"}


class Memcached:
    """Clients in Perl and servers that they start, over UNIX sockets and TCP. But for tests of its source's layout, and of TLS."""
    failed = r"^not ok .*$"
    passed = r"^ok "
    # A server has a second to start.
    tries = 3

    def names(self):
        os.chdir(PLACE)
        return sorted(t[2:-2] for t in glob.glob("t/*.t") if not re.search(r"whitespace|ssl|proxy|extstore", t))

    def command(self, name, tmp):
        return ["perl", f"t/{name}.t"], PLACE, {}


def installed(suite):
    """Under Byway, the test loads Byway's library, and the machine's own of what is tested: nothing else proves anything."""
    program, library = suite.loads
    said = subprocess.run([BYWAY, "run", "--", "env", "LD_TRACE_LOADED_OBJECTS=1", os.path.join(PLACE, program)], capture_output=True, text=True)
    found = [line for line in said.stdout.splitlines() if library in line and "=> /" in line and PLACE not in line]
    if "libbyway_preload.so" not in said.stdout or not found:
        sys.exit(f"theirs: {program} does not load Byway's library and the installed {library}*: {said.stdout}{said.stderr}")
    print(*found[0].split()[:3], flush=True)


def outcome(suite, name, before):
    """The status, what failed by name, how many passed, and why processes left Byway."""
    tmp = tempfile.mkdtemp(prefix="theirs.")
    command, folder, env = suite.command(name, tmp)
    with open(tmp + "/said", "w+b") as said:
        p = subprocess.Popen(before + command, cwd=folder, env={**os.environ, "TMPDIR": tmp, **env}, stdin=subprocess.DEVNULL,
                             stdout=said, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            status = p.wait(getattr(suite, "seconds", SECONDS))
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            status = p.wait() and "did not end"
        said.seek(0)
        text = said.read().decode("latin1").replace(tmp, "TMP")
    shutil.rmtree(tmp, ignore_errors=True)
    left = set(re.findall(r"^byway: .* left: (.*)$", text, re.M))
    text = re.sub(r"^byway: .*\n?", "", text, flags=re.M)
    passed = re.findall(suite.passed, text, re.M) if suite.passed else []
    failed = re.findall(suite.failed, text, re.M) if suite.failed else []
    # A number in brackets is a process.
    failed = {re.sub(r"\(\d+\)", "(N)", f) for f in failed}
    return status, failed, sum(int(n) if n.isdigit() else 1 for n in passed), left


KINDS = {"python": Python, "perl": Perl, "bash": Bash, "coreutils": Coreutils, "stress-ng": StressNg, "openssl": OpenSsl,
         "libgcrypt20": Libgcrypt, "nettle": Nettle, "gmp": Gmp, "zlib": Zlib, "media": Media, "numpy": Numpy,
         "libevent": Libevent, "libuv": Libuv, "redis": Redis, "memcached": Memcached}


def main():
    if KIND not in KINDS:
        sys.exit(f"theirs: there is no {KIND}, but {', '.join(KINDS)}")
    suite = KINDS[KIND]()
    if hasattr(suite, "loads"):
        installed(suite)
    all_names = suite.names()
    names, same, passed, good, left = sys.argv[4:] or all_names, 0, 0, 0, collections.Counter()
    for name in names:
        for _ in range(getattr(suite, "tries", 2)):
            kernel, byway = outcome(suite, name, []), outcome(suite, name, [BYWAY, "run", "--explain", "--"])
            if kernel[:2] == byway[:2]:
                break
        left.update(byway[3])
        if kernel[:2] == byway[:2]:
            same, passed, good = same + 1, passed + byway[2], good + (byway[0] == 0)
        else:
            print(f"not ok  {name}: {kernel[0]} on the kernel, {byway[0]} under Byway", *sorted(byway[1] - kernel[1]), sep="\n    ", flush=True)
    print(f"{KIND}: {same} of {len(names)} ended as on the kernel, {good} of them well", f"({passed} tests passed)" if passed else "")
    for reason, tests in left.most_common():
        print(f"    in {tests} of them a process left Byway: {reason}")
    # Tests that cannot even start end in the same way, too.
    if hasattr(suite, "loads") and good < len(names) / 2:
        sys.exit(f"theirs: fewer than half of {KIND}'s tests ended well: they prove little")
    sys.exit(same != len(names))


main()
