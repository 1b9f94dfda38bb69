"""The instructions of functions as objdump shows them, and the ways through each.

Invariant: what an instruction is comes from objdump alone. A way that does not exist may be followed; none is left out that is
seen. Not here: what Byway says (check.py).
"""
import re, struct, subprocess, tempfile


class Cannot(Exception):
    """This check cannot do its work; it says nothing about Byway."""


LINE = re.compile(r"^ *([0-9a-f]+):\t(.*?) *$", re.M)
PREFIX = r"(?:(?:bnd|notrack|repn?z|rep|addr32|data16|lock|xacquire|xrelease|[c-gs]s|rex\S*) +)*"
BRANCH = re.compile(PREFIX + r"(j[a-z]+|call[qw]?|loop[a-z]*|xbegin)(?:,p[nt])? +(?:0x)?([0-9a-f]+)\b(?! *[(,])")
BRANCHES = re.compile(r"\b(?:j[a-z]+|call|loop[a-z]*)(?:,p[nt])? +(?:0x)?([0-9a-f]+)\b")
INDIRECT = re.compile(PREFIX + r"l?jmp[qw]? +\*")
STOPS = re.compile(PREFIX + r"(?:ret|lret|iret|ud[012]|hlt|int3|sysret|\(bad\)|ljmp)")
TABLE = re.compile(r"^(?:lea|mov|add|movslq) .*# (?:0x)?([0-9a-f]+)")
FLAT = re.compile(r"0x([0-9a-f]+)\(,%\w+,8\)|^mov[abslq]* +\$0x([0-9a-f]{5,8}),%")


def objdump(parts):
    """What objdump prints for each (address, bytes). Each is a section of one small file, so one run serves for many."""
    if not parts:
        return []
    head, names, table, chunks = 64, b"\0", [b"\0" * 64], []
    for k, (a, b) in enumerate(parts):
        table.append(struct.pack("<IIQQQQIIQQ", len(names), 1, 6, a, head, len(b), 0, 0, 1, 0))
        names += b"f%d\0" % k
        chunks.append(b)
        head += len(b)
    table.append(struct.pack("<IIQQQQIIQQ", len(names), 3, 0, 0, head, len(names) + 10, 0, 0, 1, 0))
    names += b".shstrtab\0"
    body = b"".join(chunks) + names
    elf = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, 62, 1, 0, 0, 64 + len(body), 0, 64, 56, 0, 64, len(table),
                      len(table) - 1)
    with tempfile.NamedTemporaryFile(prefix="byway-sweep-") as f:
        f.write(elf + body + b"".join(table))
        f.flush()
        p = subprocess.run(["objdump", "-d", "-z", "-w", "--no-show-raw-insn", f.name], capture_output=True, text=True)
    pieces = re.split(r"^Disassembly of section f(\d+):\n", p.stdout, flags=re.M)[1:]
    if p.returncode or len(pieces) != 2 * len(parts):
        raise Cannot(f"objdump failed: {p.stderr.strip()[:200]}")
    return [text for _, text in sorted(zip(map(int, pieces[::2]), pieces[1::2]))]


def decode(parts):
    """As objdump(), in batches."""
    out, batch, size = [], [], 0
    for p in parts:
        batch.append(p)
        size += len(p[1])
        if size > 1 << 20 or len(batch) > 4000:
            out += objdump(batch)
            batch, size = [], 0
    return out + objdump(batch)


def lines(text, end):
    """{address: (length, text)} of one part."""
    found = [(int(a, 16), t) for a, t in LINE.findall(text)]
    return {a: (b - a, t) for (a, t), (b, _) in zip(found, found[1:] + [(end, "")])}


class Function:
    """The instructions of one function and the ways through them."""

    def __init__(self, elf, start, end, text, landing=None):
        self.elf, self.start, self.end = elf, start, end
        self.linear = lines(text, end)
        self.insns = dict(self.linear)
        self.entries = {start}
        if landing:
            self.entries |= {a for a in elf.landings(landing, start) if start <= a < end}
        self.unknown = set()    # entries from outside: nothing is known of the registers there
        self.walk()

    def walk(self):
        """Follows every way; what it needs decoded and has not is left in `self.needs`."""
        self.reached, self.preds, self.needs, self.jumps = set(), {}, set(), set()
        self.branches, self.bad, self.tables, self.open = {}, False, set(), False
        todo, bases = list(self.entries | self.unknown), set()
        while True:
            while todo:
                a = todo.pop()
                if a in self.reached:
                    continue
                i = self.insns.get(a)
                if i is None:
                    self.needs.add(a)
                    continue
                self.reached.add(a)
                t = i[1]
                b = BRANCH.match(t)
                to = []
                if b:
                    target, call = int(b.group(2), 16), b.group(1).startswith("call")
                    self.branches[a] = target
                    if not call:
                        to.append(target)
                    if not b.group(1).startswith("jmp"):
                        to.append(a + i[0])
                elif INDIRECT.match(t):
                    self.jumps.add(a)
                elif not STOPS.match(t):
                    to.append(a + i[0])
                self.bad |= "(bad)" in t
                m = TABLE.match(t)
                if m:
                    bases.add((int(m.group(1), 16), 4))
                    bases.add((int(m.group(1), 16), 8))
                m = FLAT.search(t)
                if m:
                    bases.add((int(m.group(1) or m.group(2), 16), 8))
                for n in to:
                    if self.start <= n < self.end:
                        self.preds.setdefault(n, set()).add(a)
                        todo.append(n)
            if not self.jumps:
                return
            found = set()
            for base, width in bases:
                found |= self._table(base, width, {b for b, _ in bases})
            new = found - self.tables
            self.tables |= found
            for to in found:
                self.preds.setdefault(to, set()).update(self.jumps)
            if not new:
                self.open = not found
                return
            todo = list(new)

    def _table(self, base, width, others):
        """The targets of a jump table at `base`, up to its first entry that leads nowhere."""
        out, b = set(), self.elf.bytes(base, 4096 * width)
        if self.elf.in_text(base) and not self.start <= base < self.end and width == 8:
            return out
        for k in range(len(b) // width):
            at = base + k * width
            if k and at in others:
                break
            n, = struct.unpack_from("<i" if width == 4 else "<Q", b, k * width)
            to = base + n if width == 4 else n
            if not self.elf.in_text(to):
                break
            if self.start <= to < self.end:
                out.add(to)
        return out

    def origins(self, at):
        """The numbers that the register may hold at the syscall `at`: constants, and words for what is none."""
        out, seen, todo = set(), set(), [(at, "a")]
        while todo:
            a, reg = todo.pop()
            if a in self.unknown:
                out.add("an entry from elsewhere")
            if a in self.entries:
                out.add("not set" if reg == "a" else "an argument")
            for p in self.preds.get(a, ()):
                if (p, reg) in seen:
                    continue
                seen.add((p, reg))
                w = writes(self.insns[p][1], reg)
                if w is None:
                    todo.append((p, reg))
                elif isinstance(w, tuple):
                    todo.append((p, w[0]))
                elif w == "add" and INDIRECT.match(self.insns.get(p + self.insns[p][0], (0, ""))[1]):
                    pass        # the address that a jump goes by: its table was read too far
                else:
                    out.add(w)
        return out


REGISTERS = {}
for r in "abcd":
    for n in (f"r{r}x", f"e{r}x", f"{r}x", f"{r}l", f"{r}h"):
        REGISTERS[n] = r
for r in ("si", "di", "bp", "sp"):
    for n in (f"r{r}", f"e{r}", r, f"{r}l"):
        REGISTERS[n] = r
for r in range(8, 16):
    for n in ("", "d", "w", "b"):
        REGISTERS[f"r{r}{n}"] = f"r{r}"
READS = re.compile(r"(?:cmp(?!xchg)|test|push|j|bt[lqw]? |bt$|nop|prefetch|v?u?comi|v?ptest|call|ret|"
                   r"clflush|clwb|endbr|fld|fst|fild|fist|out|lfence|mfence|sfence|pause|leave|wrfs|wrgs|ldmxcsr|vldmxcsr)")
SPLIT = re.compile(r",(?![^(]*\))")
HIDDEN = {"call": ("a", "c", "d", "si", "di", "r8", "r9", "r10", "r11"), "syscall": ("a", "c", "r11"),
          "cpuid": ("a", "b", "c", "d"), "mul": ("a", "d"), "div": ("a", "d"), "idiv": ("a", "d"), "rdtsc": ("a", "d"),
          "rdtscp": ("a", "c", "d"), "xgetbv": ("a", "d"), "cltd": ("d",), "cqto": ("d",), "cltq": ("a",), "cwtl": ("a",),
          "cbtw": ("a",), "cwtd": ("d",), "lahf": ("a",), "rdpkru": ("a", "d"), "leave": ("sp", "bp"), "rdpmc": ("a", "d")}


def writes(text, reg):
    """What an instruction leaves in `reg`: None: as it was; a number; (another register,): its copy; else a word."""
    text = re.sub("^" + PREFIX, "", text).split(" #")[0]
    op, _, rest = text.partition(" ")
    rest = rest.strip()
    args = SPLIT.split(rest) if rest else []
    base = op[:-1] if op[:-1] in HIDDEN or op[:-1] == "imul" else op
    hidden = HIDDEN.get(base, ())
    if reg in hidden:
        return op
    if op.startswith("cmpxchg") and reg in ("a", "d"):
        return op
    if op.startswith(("lods", "in ")) and reg == "a" or base == "imul" and len(args) == 1 and reg in ("a", "d"):
        return op
    if op.startswith(("movs", "stos", "cmps", "scas")) and "%es:" in rest and reg in ("c", "si", "di"):
        return op
    if not args or READS.match(op):
        return None
    names = [REGISTERS.get(x[1:]) if x.startswith("%") else None for x in args]
    if op.startswith(("xchg", "xadd")) and reg in names:
        return op
    if names[-1] != reg:
        return None
    wide = args[-1].startswith(("%r", "%e")) and not args[-1].endswith(("w", "b"))
    if op.startswith("mov") and not op.startswith(("movs", "movz")) and len(args) == 2 and wide:
        if args[0].startswith("$"):
            return int(args[0][1:], 16) & 0xffffffff
        if names[0] and not args[0].endswith(("w", "b")):
            return (names[0],)
    if op.startswith(("xor", "sub")) and len(args) == 2 and args[0] == args[1] and wide:
        return 0
    return op
