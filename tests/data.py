#!/usr/bin/env python3
"""Data in texts: objects made here hold 0f 05 where it is no instruction, and Byway must leave each table as it is.

Every object also holds one real call of write, so that its text is rewritten and mapped from the cache. A program prints
the tables' bytes and the results of the functions around them, on the kernel first and then under Byway.
Invariant: no byte that Byway would replace lies in a table, and both runs print the same.
Not here: objects that others made (sweep.py). Data that is one complete function, byte for byte, cannot be told from code.

  usage: data.py BYWAY          prints one line a group of cases, exits 1 if one failed
"""
import collections, json, os, random, re, subprocess, sys, tempfile

MAIN = r"""
#include <stdio.h>
#include <string.h>
extern const struct { const unsigned char *at; unsigned long n; } tables[];
extern long (*const works[])(long);
extern const int ntables, nworks;
long say(int, const char *, unsigned long);
int main(int n, char **v) {
    if (n > 1) {
        for (int i = 0; i < 20000; i++) say(1, "a line of the control\n", 22);
        return 0;
    }
    for (int i = 0; i < ntables; i++) {
        printf("table %d ", i);
        for (unsigned long k = 0; k < tables[i].n; k++) printf("%02x", tables[i].at[k]);
        printf("\n");
    }
    for (int i = 0; i < nworks; i++)
        for (long x = 0; x < 8; x++) printf("work %d %ld %ld\n", i, x, works[i](x));
    fflush(stdout);
    say(1, "said\n", 5);
    /* Where the text of say comes from: its mapping's line, on the other output. */
    char l[4096];
    FILE *f = fopen("/proc/self/maps", "r");
    unsigned long a, b, at = (unsigned long)(ntables ? (void *)tables[0].at : (void *)say);
    while (f && fgets(l, sizeof l, f))
        if (sscanf(l, "%lx-%lx", &a, &b) == 2 && at >= a && at < b) fprintf(stderr, "mapped %s", l);
    return 3;
}
"""
SAY = """
        .globl say
        .type say, @function
say:    .cfi_startproc
        endbr64
        mov $1, %eax
        syscall
        ret
        .cfi_endproc
        .size say, . - say
"""
# A call whose window holds the places 1 and 2 between instructions.
BETWEEN = SAY.replace("syscall", """mov %edx, %edx
between1 = .
        mov %edx, %edx
between2 = .
        syscall""")
READS = """
        .type reads, @function
reads:  .cfi_startproc
        lea words(%rip), %rcx
        mov %edi, %edi
        movslq (%rcx, %rdi, 4), %rax
        ret
        .cfi_endproc
        .size reads, . - reads
        .section .rodata
        .balign 4
words:  .long between1 - words, between2 - words, 0x7fffffff
        .text
"""
# Controls: what Byway must answer, the bytes that lead elsewhere, the function.
CONTROLS = {
    "write": ("rewritten", SAY),
    "a call of a place of its own": ("rewritten", SAY.replace("mov $1", """call 1f
        jmp 2f
1:      ret
2:      mov $1""")),
    "a branch to the call": ("any", SAY.replace("syscall", """test %edx, %edx
        jne 1f
        mov $1, %edx
target0 = .
1:      syscall
        cmp $-4095, %rax
        nopl 64(%rax)""")),
    "branches between": ("any", SAY.replace("mov $1, %eax\n        syscall", """mov $3, %ecx
1:      dec %ecx
        jne 1b
        jmp 2f
        .byte 0xcc
target0 = .
2:      mov $1, %eax
target1 = .
3:      mov %edx, %edx
        syscall
        cmp $-4, %rax
        je 2b
        cmp $-11, %rax
        jne 4f
        mov $1, %eax
        jmp 3b
4:""")),
    "an address that is taken": ("any", SAY.replace("syscall", """lea target0(%rip), %rcx
        test %edx, %edx
        jne 1f
        jmp *%rcx
1:      nopl 64(%rax)
target0 = .
        mov %edx, %edx
        syscall
        cmp $-4095, %rax""")),
    # Words of data are the distances to these places, and a function reads them; in the second, it jumps by them.
    "a constant like a table": ("rewritten", BETWEEN + READS),
    "another function's table": ("any", (BETWEEN + READS.replace("ret", "add %rcx, %rax\n        jmp *%rax"))
                                 .replace("between", "target")),
    "a number that is not set": ("unable", """
        .globl say
        .type say, @function
say:    .cfi_startproc
        mov $1, %eax
        call raw
        ret
        .cfi_endproc
        .size say, . - say
        .type raw, @function
raw:    .cfi_startproc
        mov %rdx, %r8
        mov %r8, %rdx
        syscall
        cmp $-4095, %rax
        ret
        .cfi_endproc
        .size raw, . - raw
"""),
}
NEIGHBOURS = ["mov", "random", "nops", "mov ret", "pairs"]
SHADOW = re.compile(r"\.v\d+$", re.M)


def byte(data):
    return "        .byte " + ", ".join(f"0x{b:02x}" for b in data) + "\n"


def pair(kind, r):
    """A table with 0f 05 in it, among neighbours of some kind."""
    noise = lambda n: bytes(r.randrange(256) for _ in range(n))
    call = b"\x0f\x05"
    return {"mov": b"\xb8\1\0\0\0" + call + noise(9), "random": noise(r.randrange(5, 12)) + call + noise(7),
            "nops": b"\x90" * 8 + call + b"\x90" * 6, "mov ret": b"\xb8\1\0\0\0" + call + b"\xc3" + noise(3),
            "pairs": call * 9}[kind]


class Object:
    """The assembly of one object: functions, tables, and the lists by which the program finds both."""

    def __init__(self, group, say=SAY):
        self.group, self.text, self.tables, self.works, self.say = group, "", 0, 0, say

    def table(self, data, align=None, kind=""):
        """Assembly of a table; `align` is its distance behind a multiple of 16."""
        n = self.tables
        self.tables += 1
        start = "" if align is None else "        .balign 16, 0xcc\n" + (f"        .skip {align}, 0xcc\n" if align else "")
        body = data if isinstance(data, str) else byte(data)
        typed = f"        .type table{n}, @{kind}\n        .size table{n}, end{n} - table{n}\n        .globl table{n}\n"
        typed = typed if kind else ""
        return f"{start}table{n}:\n{body}end{n}:\n{typed}"

    def work(self, body):
        n = self.works
        self.works += 1
        self.text += (f"        .type work{n}, @function\n        .balign 16, 0xcc\nwork{n}:  .cfi_startproc\n"
                      f"{body}        .cfi_endproc\n        .size work{n}, . - work{n}\n")

    def source(self):
        quads = "".join(f"        .quad table{i}, end{i} - table{i}\n" for i in range(self.tables))
        works = "".join(f"        .quad work{i}\n" for i in range(self.works))
        return f"""        .text
        # No short jump that other bytes seem to hold leads from there to say.
        .skip 256, 0xcc
{self.say}
        .skip 512, 0xcc
{self.text}
        .section .data.rel.ro, "aw"
        .globl tables, works, ntables, nworks
        .balign 8
        .type tables, @object
tables:
{quads}        .quad 0, 0
        .size tables, . - tables
        .type works, @object
works:
{works}        .quad 0
        .size works, . - works
        .type ntables, @object
        .type nworks, @object
ntables: .long {self.tables}
        .size ntables, 4
nworks: .long {self.works}
        .size nworks, 4
        .section .note.GNU-stack, "", @progbits
"""


def outside(o, kind, r):
    for align in range(16):
        o.text += "        .skip 3, 0xcc\n" + o.table(pair(kind, r), align, "object" if align % 3 == 0 else "")
        o.work(f"        lea {align}(%rdi, %rdi, 2), %rax\n        ret\n")


def jumped(o, kind, r):
    for align in range(16):
        o.work(f"        lea (%rdi, %rdi, 2), %rax\n        jmp 1f\n{o.table(pair(kind, r), align)}"
               f"1:      add ${align}, %rax\n        ret\n")


def returned(o, kind, r):
    for align in range(16):
        o.work(f"        lea {align}(%rdi, %rdi, 2), %rax\n        ret\n{o.table(pair(kind, r), align)}")


def cases(n, align):
    return "".join(f"case{n}_{k}:\n        lea {align + k}(%rdi, %rdi, {1 << k}), %rax\n        ret\n" for k in range(4))


def switch(n):
    """A jump to one of four cases by the table at `jumps`."""
    return f"""        lea jumps{n}(%rip), %rdx
        mov %edi, %ecx
        and $3, %ecx
        movslq (%rdx, %rcx, 4), %rax
        add %rdx, %rax
        jmp *%rax
"""


def rodata(o, kind, r):
    for align in range(16):
        n = o.works
        o.work(f"""{switch(n)}{o.table(pair(kind, r), align)}{cases(n, align)}        .section .rodata
        .balign 4
jumps{n}: .long case{n}_0 - jumps{n}, case{n}_1 - jumps{n}, case{n}_2 - jumps{n}, case{n}_3 - jumps{n}
        .text
""")


def intext(o, kind, r):
    """The jump table lies in the text, holds 0f 05 itself as a distance of 0x50f, and more data follows it."""
    for align in range(16):
        n = o.works
        jumps = f"jumps{n}: .long case{n}_0 - jumps{n}, case{n}_1 - jumps{n}, case{n}_2 - jumps{n}, case{n}_3 - jumps{n}\n"
        o.work(f"""{switch(n)}{o.table(jumps + byte(pair(kind, r)), align)}        .skip 0x50f - (. - jumps{n}), 0xcc
{cases(n, align)}""")


OVERLAPS = [
    "mov $0x050f1234, %eax", "mov $0x1234050f, %eax", "mov $0x12050f34, %eax", "imul $0x050f, %edi, %eax",
    "lea 0x50f(%rdi), %rax", "lea 0x50f00(%rdi, %rdi, 4), %rax", "movabs $0x0f050f050f050f05, %rax",
    "movl $0x50f, -8(%rsp)\n mov -8(%rsp), %eax", "mov $1, %eax\n cmp $0x50f, %edi\n sete %al",
    "mov $1, %eax\n test $0x050f, %edi\n setne %al", "mov $1, %eax\n mov $0x0f, %al\n add $0x11223344, %eax",
    "mov $1, %eax\n xor $0x0f000000, %edi\n add $7, %eax", "mov $1, %eax\n or $0x0f, %dil\n add $0x050f050f, %eax",
    "mov %edi, %eax\n and $0x0f, %al\n add $0xc3050f05, %eax", "mov $0x0f050000, %eax\n mov $0x50f, %ecx",
    "lea 0x50f(%rip), %rax\n lea (%rip), %rdx\n sub %rdx, %rax", "mov $1, %eax\n movw $0x050f, -8(%rsp)",
    "mov $1, %eax\n cmpw $0x050f, %di\n sete %al",
]


def overlaps(o, kind, r):
    for body in OVERLAPS:
        o.work(o.table("".join(f"        {x.strip()}\n" for x in body.split("\n")) + "        ret\n"))
    distance(o, "call", "0xe8")
    distance(o, "jne", "0x0f, 0x85")


def distance(o, jump, opcode, ends=""):
    """A branch whose distance is 0x50f: the target stands right there, in the same function, behind instructions."""
    n = o.works
    o.work(o.table(f"        mov $1, %eax\n        test %edi, %edi\n        .byte {opcode}\n        .long 0x50f\nfrom{n}:\n"
                   f"        add $4, %eax\n{ends}") + f"        .skip 0x50f - (. - from{n}), 0x90\n"
           "        lea 9(%rdi, %rax), %rax\n        ret\n")


def jumps(o, kind, r):
    for _ in range(4):
        distance(o, "jmp", "0xe9", "        ret\n")


def fake(o, seed, how):
    """Noise that calls itself a function. Half of it holds the whole call of write, at a place of chance."""
    r = random.Random(seed)
    data = bytearray(r.randrange(256) for _ in range(r.randrange(64, 160)))
    call = b"\xb8\1\0\0\0\x0f\5\xc3" if seed % 2 else b"\x0f\5"
    at = r.randrange(8, len(data) - len(call))
    data[at:at + len(call)] = call
    body = o.table(bytes(data), seed % 16, "function" if how == "symbol" else "")
    n = o.tables - 1
    if how == "frame":
        body = body.replace(f"table{n}:\n", f"table{n}:\n        .cfi_startproc\n")
        body = body.replace(f"end{n}:\n", f"        .cfi_endproc\nend{n}:\n")
    o.text += body


GROUPS = {"outside every function": outside, "behind a jump over it": jumped, "behind a return": returned,
          "behind a jump through .rodata": rodata, "a jump table in the text": intext,
          "inside real instructions": overlaps, "inside a jump over other bytes": jumps}
# Bytes outside every function that are a whole call of write: Byway may doubt.
LIKE = "outside every function, like a call"
# Here Byway has no reason to doubt: an object that is not rewritten would prove nothing.
CERTAIN = {"outside every function", "inside real instructions"}
FAKES = {"noise with an unwind entry": ("frame", 200), "noise with a function symbol": ("symbol", 100)}


def build():
    """Makes every object in the current folder: [(object, file, environment to run it in, command)]."""
    made = []
    for group, fill in GROUPS.items():
        for k, kind in enumerate(NEIGHBOURS[:1] if fill in (overlaps, jumps) else NEIGHBOURS):
            o = Object(LIKE if fill is outside and kind.startswith("mov") else group)
            fill(o, kind, random.Random(1000 + k))
            made.append((o, "shared"))
            if k in (0, 3):
                made.append((o, "program"))
                made.append((o, "stripped"))
    for group, (how, count) in FAKES.items():
        for seed in range(count):
            o = Object(group)
            fake(o, seed if how == "frame" else 5000 + seed, how)
            made.append((o, "stripped" if seed % 4 == 3 else "shared"))
    for name, (want, say) in CONTROLS.items():
        made += [(Object("control: " + name, say), "shared"), (Object("control: " + name, say), "program")]
    open("main.c", "w").write(MAIN)
    subprocess.run(["cc", "-O2", "-fPIC", "-c", "-o", "main.o", "main.c"], check=True)
    out, written = [], {}
    for k, (o, form) in enumerate(made):
        os.mkdir(f"v{k}")
        source = o.source()
        open(f"v{k}/v.s", "w").write(source)
        if source not in written:
            subprocess.run(["as", "-o", f"v{k}/v.o", f"v{k}/v.s"], check=True)
            written[source] = f"v{k}/v.o"
        if form == "program":
            file = f"v{k}/program"
            subprocess.run(["cc", "-o", file, "main.o", written[source]], check=True)
            command = [os.path.abspath(file)]
        else:
            file = f"v{k}/libv.so"
            # The linker itself: hundreds of objects, and none needs the C library.
            subprocess.run(["ld", "-shared", "--eh-frame-hdr", "-z", "noexecstack", "-z", "separate-code",
                            "-soname", "libv.so", "-o", file, written[source]], check=True)
            if not os.path.exists("linked"):
                subprocess.run(["cc", "-o", "linked", "main.o", "-Wl,--no-as-needed", file], check=True)
            command = [os.path.abspath("linked")]
        out.append((o, form, file, command))
    return out


# glibc's loader, where it is built for shadow stacks, asks for one in its start, which no table describes.
START = """        .globl entry
entry:  mov %rsp, %rdi
        call say
        test $2, %edx
        je 1f
        mov $0x9e, %eax
asks:   syscall
1:      jmp *%rax
"""
LOADER = "ld-linux-x86-64.so.2"
STARTS = {"its start": ("rewritten", LOADER, START),
          "behind its start": ("unable", LOADER, START.replace("        mov $0x9e", "        jmp 1f\n        mov $0x9e")),
          "a way into its start": ("unable", LOADER, START + "        jmp asks\n"),
          "a way to before its number": ("rewritten", LOADER, START + "        jmp entry + 1\n"),
          "another library's start": ("unable", "libother.so", START)}


def starts(byway):
    """The names of the objects of STARTS that got another verdict than they should."""
    wrong = []
    for k, (name, (want, soname, start)) in enumerate(STARTS.items()):
        open(f"start{k}.s", "w").write(SAY + start + '        .section .note.GNU-stack, "", @progbits\n')
        subprocess.run(["as", "-o", f"start{k}.o", f"start{k}.s"], check=True)
        subprocess.run(["ld", "-shared", "--eh-frame-hdr", "-e", "entry", "-soname", soname, "-o", f"start{k}.so", f"start{k}.o"], check=True)
        got = answers(byway, [f"start{k}.so"])[0]
        if got["verdict"] != want or want == "rewritten" and len(got["sites"]) != 1:
            wrong.append(f"{name}: {got['verdict']}, {got['why']}, {len(got['sites'])} sites")
    return wrong


def symbols(files):
    """{file: {symbol: address}}."""
    out = {f: {} for f in files}
    for i in range(0, len(files), 100):
        p = subprocess.run(["nm", "-A", *files[i:i + 100]], capture_output=True, text=True, check=True)
        for line in p.stdout.splitlines():
            m = re.match(r"(\S+):([0-9a-f]{16}) \w (\S+)$", line)
            if m:
                out[m.group(1)][m.group(3)] = int(m.group(2), 16)
    return out


def answers(byway, files):
    out = []
    for i in range(0, len(files), 100):
        p = subprocess.run([byway, "doctor", "--object", *files[i:i + 100], "--json"], capture_output=True, text=True)
        out += [json.loads(line) for line in p.stdout.splitlines() if line.startswith("{")]
    if [a["path"] for a in out] != files:
        sys.exit(f"data.py: byway doctor --object did not answer for each file: {p.stdout[-300:]} {p.stderr[-300:]}")
    return out


def judge(o, form, a, names):
    """What is wrong with Byway's answer."""
    bad = []
    for i in range(o.tables):
        b, e = names[f"table{i}"], names[f"end{i}"]
        for s in a["sites"]:
            if s["from"] < e and max(s["to"], s["call"] + 2) > b:
                bad.append(f"[{s['from']:#x}, {s['to']:#x}) would be replaced in table {i} at [{b:#x}, {e:#x})")
    for t in (n for n in names if n.startswith("target")):
        for s in a["sites"]:
            if s["from"] < names[t] < max(s["to"], s["call"] + 2):
                bad.append(f"[{s['from']:#x}, {s['to']:#x}) would be replaced, and a branch leads to {names[t]:#x}")
    if a["verdict"] not in ("clean", "rewritten", "unable"):
        bad.append(f"verdict {a['verdict']}")
    want = CONTROLS[o.group[9:]][0] if o.group.startswith("control") else "rewritten" if o.group in CERTAIN else "any"
    if want != "any" and a["verdict"] != want:
        bad.append(f"verdict {a['verdict']} ({a['why']}), not {want}")
    if a["verdict"] == "clean":
        bad.append("it is clean, and say is in it")
    if a["verdict"] == "rewritten" and want != "unable":
        mine = [s for s in a["sites"] if s["function"] == names["say"]]
        if len(mine) != 1 or mine[0]["number"] != [1]:
            bad.append(f"say has the sites {mine}, not one with the number 1")
    if o.group in ("outside every function", LIKE) and a["verdict"] == "rewritten" and a["data"] < o.tables:
        bad.append(f"{a['data']} pairs are told to lie outside, there are {o.tables} tables")
    return bad


def run(command, folder, env):
    p = subprocess.run(command, env={**env, "LD_LIBRARY_PATH": folder}, stdin=subprocess.DEVNULL,
                       capture_output=True, text=True, timeout=60)
    return p.returncode, p.stdout, p.stderr


def one(byway, made, a, names, env):
    """Judges one answer and runs the object's program: whether its text came from the cache, and what is wrong."""
    o, form, file, command = made
    bad = judge(o, form, a, names)
    folder = os.path.dirname(os.path.abspath(file))
    plain = run(command, folder, env)
    ours = run([byway, "run", "--", *command], folder, env)
    if plain[0] != 3 or f"table {o.tables - 1} " not in plain[1] + "table -1 " or not plain[1].endswith("said\n"):
        bad.append(f"on the kernel: status {plain[0]}, {plain[1][-200:]} {plain[2][-200:]}")
    if plain[:2] != ours[:2]:
        other = [x for x in zip(plain[1].splitlines(), ours[1].splitlines()) if x[0] != x[1]][:1]
        bad.append(f"status {plain[0]}, under Byway {ours[0]}; {other} {ours[2][-300:].strip()}")
    shadow = any(SHADOW.search(line) for line in ours[2].splitlines() if line.startswith("mapped "))
    if shadow != (a["verdict"] == "rewritten"):
        bad.append(f"{a['verdict']}, and its text is {'' if shadow else 'not '}from the cache: {ours[2][-300:].strip()}")
    if o.group.startswith("control"):
        p = run([byway, "run", "--explain", "--", "sh", "-c", f"'{command[0]}' x | cat"], folder, env)
        if p[1] != "a line of the control\n" * 20000:
            bad.append(f"through a pipe: {len(p[1])} bytes, status {p[0]}")
        # The first lines of a pipe are not carried; then every byte is counted.
        m = re.search(r"  (\d+) bytes carried, (?:none|\d+) by the kernel", p[2])
        if a["verdict"] == "rewritten" and (not m or int(m.group(1)) < 300000):
            bad.append(f"through a pipe: not carried: {p[2][-300:].strip()}")
    return shadow, bad


def main():
    if len(sys.argv) != 2 or not os.access(sys.argv[1], os.X_OK):
        print("usage: data.py BYWAY", file=sys.stderr)
        return 2
    byway = os.path.abspath(sys.argv[1])
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="byway-data-") as d:
        os.chdir(d)
        # A cache of its own: nothing is taken from an earlier rewriter.
        env = {**os.environ, "BYWAY_CACHE": os.path.join(d, "cache")}
        made = build()
        files = [f for _, _, f, _ in made]
        names = symbols(files)
        for _, form, file, _ in made:
            if form == "stripped":
                subprocess.run(["strip", file], check=True)
        groups = collections.OrderedDict()
        told = answers(byway, files)
        # One run after the other: this is about texts, and not about runs beside each other.
        for m, a in zip(made, told):
            o, form, file, _ = m
            shadow, bad = one(byway, m, a, names[file], env)
            g = groups.setdefault(o.group, {"n": 0, "tables": 0, "verdicts": collections.Counter(), "shadow": 0, "bad": []})
            g["n"] += 1
            g["tables"] += o.tables
            g["verdicts"][a["verdict"]] += 1
            g["shadow"] += shadow
            failed += bool(bad)
            passed += not bad
            if bad:
                g["bad"].append((file, form, bad))
        for group, g in groups.items():
            said = ", ".join(f"{n} {v}" for v, n in sorted(g["verdicts"].items()))
            print(f"{'not ok' if g['bad'] else 'ok'} {group}: {g['n']} objects, {g['tables']} tables; {said}; "
                  f"{g['shadow']} ran from the cache" + (f"; {len(g['bad'])} failed" if g["bad"] else ""))
            for file, form, bad in g["bad"][:8]:
                print(f"    {file} ({form}): {'; '.join(bad[:4])}")
        wrong = starts(byway)
        print(f"{'not ok' if wrong else 'ok'} the loader's start: {len(STARTS)} objects", *wrong, sep="\n    ")
        failed, passed = failed + len(wrong), passed + len(STARTS) - len(wrong)
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
