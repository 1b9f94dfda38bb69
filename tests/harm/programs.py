"""Programs that a preload library may keep from starting: those with a sanitizer's runtime, those that the loader starts by name,
static ones, setuid ones, scripts without a first line, texts that cannot be read, other processors' programs.

Each copies its input to its output through pipes. Invariant: what is not built here is a Skip. Not here: which programs take part (run.sh).
"""
import os, platform, shutil, struct, subprocess
from harm import Skip, case, fine, main

COPY = r"""
#include <stdio.h>
#include <string.h>
int main(int n, char **v) {
    static char b[70000];
    size_t got;
    if (n > 1 && !strcmp(v[1], "name")) return puts(v[0]) < 0;
    while ((got = fread(b, 1, sizeof b, stdin)) > 0) fwrite(b, 1, got, stdout);
    return fflush(stdout) != 0;
}
"""
TEXT = "".join(f"{i} some text of a line\n" for i in range(20000))
LOADER = "/lib64/ld-linux-x86-64.so.2"


def built(box, *options):
    """The program, or a Skip where these options build nothing."""
    with open(box.path("copy.c"), "w") as f:
        f.write(COPY)
    r = subprocess.run(["cc", "-O1", "-o", box.path("copy"), box.path("copy.c"), *options], capture_output=True)
    if r.returncode != 0:
        raise Skip(f"the compiler cannot: {' '.join(options)}")
    return box.path("copy")


def text(box):
    with open(box.path("text"), "w") as f:
        f.write(TEXT)
    return box.path("text")


def direct(box, *command, wanted=TEXT, **how):
    """The command between two pipes of this test's. The first is cat's: a command that reads nothing is no SIGPIPE of ours."""
    with subprocess.Popen(["cat", text(box)], stdout=subprocess.PIPE) as feed:
        r = box.run(*command, stdin=feed.stdout, **how)
        feed.stdout.close()
    fine(r, wanted)


def shell(box, command, **how):
    """The command between two pipes of a shell's."""
    fine(box.run("sh", "-c", f"cat {text(box)} | {command} | cat", **how), TEXT)


def sanitizer(box, kind):
    # The leak sanitizer stops its process by ptrace at the end, which a debugger's process may not.
    program = built(box, f"-fsanitize={kind}")
    r = subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if r.returncode != 0:
        raise Skip(f"-fsanitize={kind} does not run here: {r.stderr.strip()[-200:]}")
    return program


def register(kind):
    def started(box):
        direct(box, sanitizer(box, kind))

    def from_shell(box):
        shell(box, sanitizer(box, kind))

    def by_script(box):
        program = sanitizer(box, kind)
        with open(box.path("script"), "w") as f:
            f.write(f"#!{program}\n")
        os.chmod(box.path("script"), 0o755)
        direct(box, box.path("script"))

    for f in started, from_shell, by_script:
        f.__name__ = f"{kind}_{f.__name__}"
        case(2)(f)


for kind in "address", "thread", "undefined", "leak":
    register(kind)


@case(2, plain=False)
def a_sanitizer_is_told(box):
    program = sanitizer(box, "address")
    r = box.run(program, start=[box.byway, "doctor", "--"])
    assert r.returncode == 1 and "no  it cannot take part" in r.stdout, r.stdout
    assert "AddressSanitizer" in r.stdout, r.stdout
    r = box.run(program, start=box.start("--explain"), stdin=subprocess.DEVNULL)
    assert r.returncode == 0 and "AddressSanitizer" in r.stderr, r.stderr
    r = box.run(built(box), start=[box.byway, "doctor", "--"])
    assert r.returncode == 0, r.stdout


@case(2)
def a_sanitizer_still_finds(box):
    """What its user builds it for."""
    sanitizer(box, "address")
    program = box.cc("bad", """
        #include <stdlib.h>
        int main(int n, char **v) { char *p = malloc(8); free(p); return p[n - 1]; }
    """, "-fsanitize=address")
    r = box.run(program)
    assert r.returncode != 0 and "heap-use-after-free" in r.stderr, r.stderr[-500:]


@case(2)
def a_leak_is_still_found(box):
    sanitizer(box, "leak")
    program = box.cc("leaks", "#include <stdlib.h>\nint main(void) { return !malloc(77); }\n", "-O0", "-fsanitize=leak")
    r = box.run(program)
    assert r.returncode != 0 and "77 byte(s) leaked" in r.stderr, r.stderr[-500:]


@case(2)
def a_race_is_still_found(box):
    sanitizer(box, "thread")
    program = box.cc("races", """
        #include <pthread.h>
        #include <unistd.h>
        int x, p[2];
        void *f(void *arg) { if (arg) { char c; if (read(p[0], &c, 1) != 1) return 0; } x++; return 0; }
        int main(int n, char **v) {
            /* With an argument the pipe orders the two, and there is no race. */
            pthread_t t;
            if (pipe(p)) return 9;
            pthread_create(&t, 0, f, n > 1 ? p : 0);
            x++;
            if (write(p[1], "x", 1) != 1) return 8;
            pthread_join(t, 0);
            return 0;
        }
    """, "-fsanitize=thread", "-pthread")
    r = box.run(program)
    assert r.returncode != 0 and "data race" in r.stderr, r.stderr[-500:]
    fine(box.run(program, "ordered"))


def loader():
    if not os.path.exists(LOADER):
        raise Skip(f"no {LOADER}")
    return LOADER


@case(1)
def by_the_loader(box):
    fine(box.run(loader(), "/bin/true"), "")
    direct(box, loader(), built(box))


@case(1)
def by_the_loader_from_a_shell(box):
    shell(box, f"{loader()} {built(box)}")
    shell(box, f"{loader()} /bin/cat | {loader()} {built(box)}")


@case(1)
def by_the_loader_with_a_name(box):
    if "--argv0" not in subprocess.run([loader(), "--help"], capture_output=True, text=True).stdout:
        raise Skip("a loader without --argv0")
    fine(box.run(loader(), "--argv0", "somebody", built(box), "name"), "somebody\n")
    shell(box, f"{loader()} --argv0 somebody {built(box)}")


@case(1)
def by_the_loader_with_a_preload(box):
    subprocess.run(["cc", "-shared", "-fPIC", "-o", box.path("own.so"), "-x", "c", "-"], check=True, text=True,
                   input='#include <unistd.h>\n__attribute__((constructor)) static void f(void) { if (write(1, "own\\n", 4)) {} }\n')
    if "--preload" not in subprocess.run([loader(), "--help"], capture_output=True, text=True).stdout:
        raise Skip("a loader without --preload")
    direct(box, loader(), "--preload", box.path("own.so"), "/bin/cat", wanted="own\n" + TEXT)
    fine(box.run("sh", "-c", f"cat {text(box)} | {loader()} --preload {box.path('own.so')} {built(box)} | cat"), "own\n" + TEXT)


@case(1)
def static(box):
    direct(box, built(box, "-static"))
    shell(box, built(box, "-static"))


@case(1)
def static_and_relocated(box):
    direct(box, built(box, "-static-pie"))
    shell(box, built(box, "-static-pie"))


def user(box):
    """How to run as an ordinary user, and a `byway` that this user may start."""
    if os.getuid() != 0:
        raise Skip("only root may give a program away")
    os.chmod(box.folder, 0o755)
    shutil.copy(box.byway, box.path("byway"))
    os.mkdir(box.path("home"), 0o700)
    os.chown(box.path("home"), 65534, 65534)
    env = {**box.env, "HOME": box.path("home"), "BYWAY_CACHE": box.path("home", "cache"), "BYWAY_SHM": box.path("home", "shm")}
    start = [box.path("byway"), *box.start()[1:]] if box.start() else []
    return {"user": 65534, "group": 65534, "extra_groups": [], "env": env, "start": start, "cwd": box.folder}


@case(1)
def setuid(box):
    how = user(box)
    program = built(box)
    os.chown(program, 1000, 1000)
    os.chmod(program, 0o6755)
    direct(box, program, **how)
    shell(box, program, **how)


@case(1)
def not_readable(box):
    """A file of mode 0111: it can be started, and not looked at, and the kernel hides its process."""
    how = user(box)
    program = built(box)
    os.chmod(program, 0o711)
    direct(box, program, **how)
    shell(box, program, **how)


@case(1)
def without_a_first_line(box):
    """As env(1), nice(1) and any shell start it."""
    with open(box.path("script"), "w") as f:
        f.write("exec cat\n")
    os.chmod(box.path("script"), 0o755)
    direct(box, box.path("script"), start=box.start() or ["env"])
    shell(box, box.path("script"))


@case(1)
def text_that_can_only_run(box):
    """Where the processor has protection keys its text cannot be read; elsewhere it can, and the case is a plain one."""
    program = built(box, "-Wl,-z,separate-code")
    data = bytearray(open(program, "rb").read())
    at, size, n = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    for i in range(at, at + size * n, size):
        kind, flags = struct.unpack_from("<II", data, i)
        if kind == 1 and flags == 5:
            struct.pack_into("<I", data, i + 4, 1)
    open(program, "wb").write(data)
    direct(box, program)
    shell(box, program)


@case(1)
def of_32_bits(box):
    program = built(box, "-m32")
    direct(box, program)
    shell(box, program)


@case(1)
def of_32_bits_and_without_a_library(box):
    if platform.machine() != "x86_64":
        raise Skip("no x86-64")
    with open(box.path("cat.s"), "w") as f:
        f.write("""
.globl _start
_start: mov $3, %eax; xor %ebx, %ebx; mov $buffer, %ecx; mov $65536, %edx; int $0x80
        test %eax, %eax; jle 2f
        mov %eax, %esi; mov $buffer, %ecx
1:      mov $4, %eax; mov $1, %ebx; mov %esi, %edx; int $0x80
        add %eax, %ecx; sub %eax, %esi; jnz 1b
        jmp _start
2:      mov $1, %eax; xor %ebx, %ebx; int $0x80
.lcomm buffer, 65536
.section .note.GNU-stack
""")
    for command in ["as", "--32", "-o", "cat.o", "cat.s"], ["ld", "-m", "elf_i386", "-o", "cat", "cat.o"]:
        if subprocess.run(command, cwd=box.folder, capture_output=True).returncode != 0:
            raise Skip("no assembler for 32 bits")
    try:
        subprocess.run([box.path("cat")], input=b"", check=True)
    except OSError:
        raise Skip("this kernel runs no program of 32 bits") from None
    direct(box, box.path("cat"))
    shell(box, box.path("cat"))


if __name__ == "__main__":
    main()
