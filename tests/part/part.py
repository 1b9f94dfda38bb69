#!/usr/bin/env python3
"""Which processes take part, by the objects that they load: how many, of which segments, and when.

Each case runs a program on the plain kernel first and then under Byway, and compares what comes out of its pipe. What
`byway run --explain` says of that run tells who took no part, and what each pipe carried.
Invariant: the bytes are the kernel's in every case; no case depends on a time.
Not here: which bytes of an object are rewritten (data.py, sweep.py), and over which file (identity.py).

  usage: part.py BYWAY [CASE...]          prints one line a case, exits 1 if any failed
"""
import hashlib, json, os, re, subprocess, sys, tempfile

if len(sys.argv) < 2 or not os.access(sys.argv[1], os.X_OK):
    sys.exit("usage: part.py BYWAY [CASE...]")
BYWAY = os.path.abspath(sys.argv[1])
CASES, LINES = [], 60000
ASLEEP = "a ring saved it nothing"


def case(f):
    CASES.append(f)
    return f


class Skip(Exception):
    pass


class Box:
    """A folder with a cache of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.env = {**os.environ, "BYWAY_CACHE": self.path("cache")}

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    def cc(self, name, text, *more):
        source = self.write(name + ".c", text)
        subprocess.run(["cc", "-O1", "-o", self.path(name), source, *more], check=True)
        return self.path(name)

    def built(self, name, text, *more):
        return self.cc(name, text, "-shared", "-fPIC", "-Wl,-soname," + name, *more)

    def run(self, command, *start):
        p = subprocess.run([*start, "bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, timeout=300, env=self.env,
                           stdin=subprocess.DEVNULL)
        return (p.returncode, p.stdout), p.stderr

    def both(self, command, carried, starts=2, leaves=False):
        """The kernel first. `carried`: whether each program of the command takes part, and a pipe carries most of what went
        through it; `leaves`: a program leaves after a pipe carried some. A pipe whose reader always waits is left to the
        kernel: how often that is so depends on the machine, and the run says it. A first start may be too early: what the
        cache does not know is looked at meanwhile."""
        plain, _ = self.run(command)
        if plain[0] != 0:
            raise AssertionError(f"plain: {plain}")
        told = self.path("told.json")
        for _ in range(starts):
            ours, said = self.run(command, BYWAY, "run", "--private", "--explain=json", "--explain-to", told, "--")
            assert ours == plain, f"under Byway {ours[0]}, {ours[1][-300:]!r} {said[-300:]}; plain {plain[1][-300:]!r}"
        with open(told) as f:
            told = json.load(f)
        programs, channels = told["took_no_part"], told["channels"]
        if carried is None:
            return
        most = max((c["carried_bytes"] for c in channels), default=0)
        if leaves:
            ok = most > 0 and programs and all(p["left"] for p in programs)
        elif carried:
            ok = not programs and (most > 1000000 or any(c["carried_bytes"] and c["why"] == ASLEEP for c in channels))
        else:
            ok = programs and most <= 1000000
        assert ok, f"carried {carried}, {json.dumps(told)}"

    def verdict(self, path):
        p = subprocess.run([BYWAY, "doctor", "--object", path], capture_output=True, text=True, env=self.env)
        return p.stdout.strip()


# Writes lines into its standard output, by a call of libc each.
SAY = r"""
#include <string.h>
#include <unistd.h>
static void say(const char *s) {
    for (int i = 0; i < %d; i++) if (write(1, s, strlen(s)) < 0) _exit(9);
}
""" % LINES
LINE = "one line of twenty-seven..\\n"


@case
def objects(box):
    """A program with 120 libraries, and with 600."""
    for many in (120, 600):
        names = []
        for i in range(many):
            box.write("f.s", f".globl f{i}\n.type f{i}, @function\nf{i}: mov ${i}, %eax\n ret\n"
                             ".section .note.GNU-stack, \"\", @progbits\n")
            subprocess.run(["as", "-o", box.path("f.o"), box.path("f.s")], check=True)
            out = box.path(f"l{i}.so")
            subprocess.run(["ld", "-shared", "-z", "separate-code", "-soname", f"l{i}.so", "-o", out, box.path("f.o")],
                           check=True)
            names.append(out)
        calls = [f"f{i}" for i in range(many)]
        sums = " + ".join(c + "()" for c in calls)
        text = f"{SAY}int {', '.join(c + '(void)' for c in calls)};\n"
        main = box.cc("main", text + f"int main(void) {{ say(\"{LINE}\"); return ({sums}) != {sum(range(many))}; }}",
                      *names, "-Wl,-rpath," + box.folder)
        box.both(f"{main} | md5sum", True)


SITE = r"""
/* No short jump of the C runtime's code may seem to lead to the call. */
__asm__(".rept 256\n nop\n .endr\n");
long CALL(long number, long a, long b, long c) {
    long r;
    __asm__ volatile("nop\n nop\n nop\n nop\n nop\n syscall" : "=a"(r) : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return r;
}
"""


# write(2) alone.
WRITES = SITE.replace("long number, ", "").replace("number", "1L")


@case
def rewritten_objects(box):
    """A program with 50 libraries that each make system calls of their own."""
    names, uses = [], []
    for i in range(50):
        names.append(box.built(f"libs{i}.so", SITE.replace("CALL", f"call{i}")))
        uses.append(f"if (call{i}(1, 1, (long)line, 20) != 20) return {i + 1};")
    declared = "\n".join(f"long call{i}(long, long, long, long);" for i in range(50))
    main = box.cc("main", declared + '\nstatic const char line[] = "nineteen characters\\n";\n'
                  f"int main(void) {{ for (int k = 0; k < 4000; k++) {{ {' '.join(uses)} }} return 0; }}",
                  *names, "-Wl,-rpath," + box.folder)
    box.both(f"{main} | md5sum", True)


# Two executable segments, far from each other in the file, of which each jumps into the other. Both have system calls.
SEGMENTS = r"""
        .globl first, second
        .type first, @function
        .type second, @function
        .section .first, "ax", @progbits
        .skip 256, 0x90
first:  .cfi_startproc
        mov $1, %eax
        nop
        nop
        nop
        syscall
        ret
        .cfi_endproc
        .size first, . - first
        .section .second, "ax", @progbits
        .skip 256, 0x90
second: .cfi_startproc
        test %edx, %edx
        je part
        mov $1, %eax
        nop
        nop
        nop
        syscall
        ret
        .cfi_endproc
        .size second, . - second
        .section .first, "ax", @progbits
        .skip 256, 0x90
        .type part, @function
part:   .cfi_startproc
        xor %eax, %eax
        ret
        .cfi_endproc
        .size part, . - part
        .section .note.GNU-stack, "", @progbits
"""
LAYOUT = """
PHDRS { headers PT_LOAD FILEHDR PHDRS FLAGS(4); one PT_LOAD FLAGS(5); data PT_LOAD FLAGS(6); two PT_LOAD FLAGS(5);
        dynamic PT_DYNAMIC FLAGS(6); note PT_NOTE FLAGS(4); frames PT_GNU_EH_FRAME FLAGS(4); stack PT_GNU_STACK FLAGS(6); }
SECTIONS {
  . = SIZEOF_HEADERS;
  .note.gnu.build-id : { *(.note.gnu.build-id) } :headers :note
  .hash : { *(.hash) } :headers
  .gnu.hash : { *(.gnu.hash) }
  .dynsym : { *(.dynsym) } .dynstr : { *(.dynstr) } .rela.dyn : { *(.rela.*) }
  .eh_frame_hdr : { *(.eh_frame_hdr) } :headers :frames
  .eh_frame : { KEEP(*(.eh_frame)) } :headers
  . = ALIGN(0x1000); .first : { *(.first) *(.text) } :one
  . = ALIGN(0x1000); .dynamic : { *(.dynamic) } :data :dynamic
  .data : { *(.data) *(.got) *(.got.plt) *(.bss) } :data
  . = ALIGN(0x200000); .second : { *(.second) } :two
}
"""
OPENED = """
#include <dlfcn.h>
#include <stdio.h>
typedef long call(long, const void *, long);
"""


def segments_library(box):
    """The library of two executable segments."""
    box.write("seg.s", SEGMENTS)
    box.write("seg.ld", LAYOUT)
    subprocess.run(["as", "-o", box.path("seg.o"), box.path("seg.s")], check=True)
    subprocess.run(["ld", "-shared", "--eh-frame-hdr", "--build-id", "-soname", "libseg.so", "-T", box.path("seg.ld"), "-o",
                    box.path("libseg.so"), box.path("seg.o")], check=True)
    text = subprocess.run(["readelf", "-lW", box.path("libseg.so")], capture_output=True, text=True).stdout
    assert len(re.findall(r"LOAD .* R E ", text)) == 2, text
    assert "2 sites" in box.verdict(box.path("libseg.so")), box.verdict(box.path("libseg.so"))
    return box.path("libseg.so")


# Writes by both, through a pipe of its own as well, which is carried or not as the process takes part or not.
BOTH = r"""
static const char line[] = "one line of twenty-seven..\n";
static int all(call *first, call *second) {
    for (int k = 0; k < %d; k++) if ((k & 1 ? first : second)(1, line, sizeof line - 1) != sizeof line - 1) return 7;
    return second(1, line, 0) != 0;
}
""" % LINES


@case
def segments(box):
    """A library of two executable segments with a system call in each: both are carried."""
    lib = segments_library(box)
    main = box.cc("main", OPENED + BOTH + "call first, second;\nint main(void) { return all(first, second); }\n", lib,
                  "-Wl,-rpath," + box.folder)
    box.both(f"{main} | md5sum", True)


def exists(name, *args):
    try:
        return subprocess.run([name, *args], capture_output=True, text=True, timeout=60).returncode == 0
    except OSError:
        return False


@case
def node(box):
    """node: three executable segments, and code that it makes."""
    if not exists("node", "--version"):
        raise Skip("no node here")
    text = box.write("n.js", """
const fs = require('fs');
const f = n => { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) % 1000003; return s; };
let out = '';
for (let i = 0; i < 80000; i++) out += f(i % 400) + ' of a line that is long enough to count\\n';
for (let at = 0; at < out.length; at += 4096) fs.writeSync(1, out.slice(at, at + 4096));
""")
    box.both(f"node {text} | md5sum", True, 3)


@case
def rustc(box):
    """rustc: libraries of two executable segments, and of functions laid far apart."""
    if not exists("rustc", "--version"):
        raise Skip("no rustc here")
    text = box.write("m.rs", "fn main() {" + "".join(f"println!(\"{{}}\", {i} + 1);" for i in range(800)) + "}\n")
    root = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    box.both(f"{root}/bin/rustc --emit=asm -C debuginfo=2 -o - {text} | md5sum", True, 3)


@case
def java(box):
    """java: code that HotSpot makes."""
    if not exists("javac", "-version"):
        raise Skip("no javac here")
    box.write("Say.java", """
public class Say {
    static int f(int n) { int s = 0; for (int i = 0; i < n; i++) s = (s * 31 + i) % 1000003; return s; }
    public static void main(String[] a) throws Exception {
        byte[] b = new byte[4096];
        for (int k = 0; k < 2000; k++) {
            for (int i = 0; i < b.length; i++) b[i] = (byte) ('a' + (f(i & 31) + k) % 26);
            System.out.write(b, 0, b.length);
        }
        System.out.flush();
    }
}
""")
    subprocess.run(["javac", "-d", box.folder, box.path("Say.java")], check=True)
    box.both(f"java -Xshare:auto -cp {box.folder} Say | md5sum", True, 3)


# The sum of what a program reads, line by line, in each language whose runtime makes code.
SUMS = {
    "lua": """local s, n = 0, 0
for l in io.lines() do
    n = n + 1
    s = (s * 31 + #l * tonumber(l)) % 1000003
    if n % 10 == 0 then io.write(l, " ", string.format("%d", s), "\\n") end
end
""",
    "rb": """s = n = 0
while l = gets
  l.chomp!
  s = (s * 31 + l.size * l.to_i) % 1000003
  puts "#{l} #{s}" if (n += 1) % 10 == 0
end
""",
    "py": """import sys
s = n = 0
for l in sys.stdin:
    l = l.rstrip()
    n += 1
    s = (s * 31 + len(l) * int(l)) % 1000003
    if n % 10 == 0:
        sys.stdout.write(f"{l} {s}\\n")
""",
}


def sums(box, program, language):
    """Lines through a program whose runtime makes code; the answer is known."""
    if not exists(*program.split()[:1], *(["-v"] if language == "lua" else ["--version"])):
        raise Skip(f"no {program.split()[0]} here")
    text = box.write(f"sums.{language}", SUMS[language])
    s, want = 0, hashlib.md5()
    for i in range(1, 300001):
        s = (s * 31 + len(str(i)) * i) % 1000003
        if i % 10 == 0:
            want.update(f"{i} {s}\n".encode())
    command = f"seq 300000 | cat | {program} {text} | md5sum"
    plain, _ = box.run(command)
    assert plain[1].split()[0] == want.hexdigest(), f"the sum is {plain}"
    box.both(command, True, 3)


@case
def lua(box):
    """luajit: code that LuaJIT makes."""
    sums(box, "luajit", "lua")


@case
def ruby(box):
    """ruby: code that YJIT makes."""
    if exists("ruby", "--version") and not exists("ruby", "--yjit", "-e", "1"):
        raise Skip("no YJIT here")
    sums(box, "ruby --yjit --yjit-call-threshold=2", "rb")


@case
def pypy(box):
    """pypy3: code that PyPy makes."""
    sums(box, "pypy3", "py")


# What follows is about code that comes after the start.
LATE = OPENED + r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *opened(const char *name) {
    void *h = dlopen(name, RTLD_NOW);
    if (!h) { fprintf(stderr, "%s\n", dlerror()); exit(3); }
    return h;
}
static call *found(void *h, const char *name) {
    call *f = (call *)dlsym(h, name);
    if (!f) exit(4);
    return f;
}
/* How many mappings there are, and how many of them are texts from the cache: such a file has a version. */
static int mapped(int *cached) {
    char text[512];
    int all = 0;
    FILE *f = fopen("/proc/self/maps", "r");
    *cached = 0;
    while (fgets(text, sizeof text, f)) {
        char *end = strrchr(text, '.');
        if (strstr(text, " r-xp ") && end && end[1] == 'v' && end[2] >= '0' && end[2] <= '9') ++*cached;
        all++;
    }
    fclose(f);
    return all;
}
"""


@case
def opened(box):
    """Libraries that are opened: one without a call, one with its own, one of two segments, one of one segment for all."""
    box.built("libclean.so", "int clean(void) { return 1; }\n")
    box.built("libsite.so", WRITES.replace("CALL", "site"))
    box.built("libold.so", WRITES.replace("CALL", "old"), "-Wl,-z,noseparate-code")
    segments_library(box)
    main = box.cc("main", LATE + BOTH + r"""
int main(int n, char **v) {
    (void)n;
    int before, after, none;
    chdir(v[1]);
    opened("./libclean.so");
    mapped(&before);
    call *site = found(opened("./libsite.so"), "site"), *old = found(opened("./libold.so"), "old");
    void *seg = opened("./libseg.so");
    mapped(&after);
    /* On the kernel there are none; under Byway two of each of the three objects, and one more of the one of two segments. */
    none = before == 0 && after == 0;
    fprintf(stderr, "%d rewritten texts came later\n", after - before);
    if (!none && after - before != 7) return 5;
    return all(found(seg, "first"), found(seg, "second")) || all(site, old);
}
""", "-ldl")
    box.both(f"{main} {box.folder} | md5sum; {main} {box.folder} | tail -c 100", True)


@case
def opened_and_closed(box):
    """Libraries that come and go, some of them at the place of others: nothing stays mapped, and all is carried."""
    for i in range(3):
        box.built(f"lib{i}.so", f"__asm__(\".rept {i * 4096} \\n nop\\n .endr\\n\");" + WRITES.replace("CALL", "site"))
    main = box.cc("main", LATE + BOTH + r"""
int main(int n, char **v) {
    (void)n;
    int first = 0, cached;
    chdir(v[1]);
    for (int k = 0; k < 300; k++) {
        char name[16];
        snprintf(name, sizeof name, "./lib%d.so", k % 3);
        void *h = opened(name), *other = k % 7 ? 0 : opened(k % 3 ? "./lib0.so" : "./lib1.so");
        call *f = found(h, "site");
        for (int i = 0; i < 500; i++) if (f(1, line, sizeof line - 1) != sizeof line - 1 || write(1, line, 5) != 5) return 6;
        dlclose(h);
        if (other) dlclose(other);
        if (k == 20) first = mapped(&cached);
    }
    return mapped(&cached) > first + 4 ? 7 : 0;
}
""", "-ldl")
    box.both(f"{main} {box.folder} | md5sum", True)


@case
def opened_by_threads(box):
    """Threads open and close libraries while others write, and read."""
    for i in range(3):
        box.built(f"lib{i}.so", f"__asm__(\".rept {i * 4096} \\n nop\\n .endr\\n\");" + WRITES.replace("CALL", "site"))
    main = box.cc("main", "#include <pthread.h>\n" + LATE + BOTH + r"""
static int own[2];
static void *opens(void *which) {
    for (int k = 0; k < 200; k++) {
        char name[16];
        snprintf(name, sizeof name, "./lib%d.so", (int)((long)which + k) % 3);
        void *h = opened(name);
        if (found(h, "site")(1, line, sizeof line - 1) != sizeof line - 1) exit(6);
        dlclose(h);
    }
    return 0;
}
static void *writes(void *x) {
    for (int k = 0; k < 200000; k++) if (write(own[1], &k, sizeof k) != sizeof k) exit(7);
    return x;
}
static void *reads(void *x) {
    for (int k = 0, n; k < 200000; k++) if (read(own[0], &n, sizeof n) != sizeof n || n != k) exit(8);
    return x;
}
int main(int n, char **v) {
    (void)n;
    pthread_t t[4];
    chdir(v[1]);
    if (pipe(own)) return 9;
    for (long k = 0; k < 2; k++) pthread_create(&t[k], 0, opens, (void *)k);
    pthread_create(&t[2], 0, writes, 0);
    pthread_create(&t[3], 0, reads, 0);
    for (int k = 0; k < 4; k++) pthread_join(t[k], 0);
    for (int k = 0; k < 100000; k++) if (write(1, line, sizeof line - 1) != sizeof line - 1) return 10;
    return 0;
}
""", "-ldl", "-pthread")
    box.both(f"{main} {box.folder} | md5sum", True)


DOUBT = r"""
        .globl site
        .type site, @function
site:   .cfi_startproc
        mov %rdi, %rax
        mov %rsi, %rdi
        mov %rdx, %rsi
        mov %rcx, %rdx
        test %esi, %esi
        je 1f
        nop
1:      syscall
        ret
        .cfi_endproc
        .size site, . - site
        .section .note.GNU-stack, "", @progbits
"""
# Every other line by libc, which a carried pipe would take past the kernel, and by code that Byway does not see.
MIXED = r"""
#include <stdio.h>
#include <unistd.h>
typedef long unseen(long, long, const void *, long);
static int mixed(unseen *f) {
    char text[64];
    for (int k = 0; k < 40000; k++) {
        long n = snprintf(text, sizeof text, "%d is the number of this line\n", k);
        if ((k % 200 == 199 ? f(1, 1, text, n) : write(1, text, n)) != n) return 8;
    }
    return 0;
}
"""
# mov eax, edi; mov rdi, rsi; mov rsi, rdx; mov rdx, rcx; syscall; ret
RAW = r'static const char raw[] = "\x89\xf8\x48\x89\xf7\x48\x89\xd6\x48\x89\xca\x0f\x05\xc3";' + "\n"


@case
def opened_in_doubt(box):
    """A library that cannot be rewritten: the process leaves before its code is there."""
    box.write("doubt.s", DOUBT)
    subprocess.run(["cc", "-shared", "-o", box.path("libdoubt.so"), box.path("doubt.s")], check=True)
    assert "takes no part" in box.verdict(box.path("libdoubt.so"))
    text = MIXED + LATE + "int main(int n, char **v) { (void)n; FIRST return mixed((unseen *)found(opened(v[1]), \"site\")); }\n"
    main = box.cc("main", text.replace("FIRST", ""), "-ldl")
    box.both(f"{main} {box.path('libdoubt.so')} | md5sum", False)
    # After megabytes that were carried.
    first = "for (int k = 0; k < 100000; k++) if (write(1, \"a line before it\\n\", 17) != 17) return 9;"
    main = box.cc("main", text.replace("FIRST", first), "-ldl")
    box.both(f"{main} {box.path('libdoubt.so')} | md5sum", True, leaves=True)


@case
def made(box):
    """Code that the program makes, and that makes system calls: by mmap, by mprotect, over its own text, in a file."""
    ways = {
        "mmap": "unseen *f = mmap(0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); memcpy(f, raw, sizeof raw);",
        "mprotect": "unseen *f = mmap(0, 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); memcpy(f, raw, sizeof raw);"
                    "if (mprotect(f, 4096, 5)) return 9;",
        "text": "unseen *f = (unseen *)&place; char *page = (char *)((long)&place & ~4095L);"
                "if (mprotect(page, 8192, 3)) return 9; memcpy(f, raw, sizeof raw); if (mprotect(page, 8192, 5)) return 9;",
        "memfd": "int fd = memfd_create(\"code\", 0); if (write(fd, raw, sizeof raw) < 1) return 9;"
                 "unseen *f = mmap(0, 4096, 5, MAP_SHARED, fd, 0);",
        "file": "char name[] = \"/tmp/byway-part-XXXXXX\"; int fd = mkstemp(name); unlink(name);"
                "if (write(fd, raw, sizeof raw) < 1) return 9; unseen *f = mmap(0, 4096, 1, MAP_PRIVATE, fd, 0);"
                "if (mprotect(f, 4096, 5)) return 9;",
    }
    for name, how in ways.items():
        main = box.cc(f"made_{name}", "#define _GNU_SOURCE\n#include <stdlib.h>\n#include <string.h>\n#include <sys/mman.h>\n"
                      + MIXED + RAW + "__asm__(\".text\\n .balign 4096\\n .globl place\\nplace: .skip 8192, 0x90\\n\");\n"
                      "extern char place[];\nint main(void) { " + how + " return mixed(f); }\n")
        box.both(f"{main} | md5sum", False, 1)


@case
def python_imports(box):
    """Python, after imports that open libraries."""
    text = box.write("say.py", "import hashlib, ssl, asyncio, ctypes, sqlite3, sys\n"
                     "h = hashlib.sha256()\nfor i in range(60000):\n    h.update(b'x')\n"
                     "    sys.stdout.write(f'{h.hexdigest()} {i}\\n')\n")
    box.both(f"{sys.executable} {text} | md5sum", True, 3)


@case
def grep_perl(box):
    """grep -P: code that PCRE2 makes."""
    if not exists("sh", "-c", "echo abc | grep -qP '(?<=a)b'"):
        raise Skip("no grep -P here")
    box.both("seq 400000 | grep -P '(?<=1)[2-9]+' | grep -vP '0(?=0)' | md5sum", True)


def main():
    wanted, failed = sys.argv[2:], 0
    for f in CASES:
        if wanted and f.__name__ not in wanted:
            continue
        with tempfile.TemporaryDirectory(prefix="byway-part-") as folder:
            try:
                f(Box(folder))
                print(f"ok {f.__name__}", flush=True)
            except Skip as why:
                print(f"skipped {f.__name__}: {why}", flush=True)
            except AssertionError as e:
                failed += 1
                print(f"not ok {f.__name__}: {e}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
