"""What Byway says of one object, held against the functions that objdump shows.

Invariant: each thing that Byway says is agreed to or told as a disagreement, with its address.
Not here: which objects are looked at (sweep.py).
"""
import bisect, os, re

from objects.elf import PAIR
from objects.functions import BRANCH, BRANCHES, INDIRECT, PREFIX, STOPS, Function, decode, lines, objdump

# The numbers of system calls that concern descriptors, processes, memory that is code, and identity.
MATTER = {0, 1, 3, 7, 9, 10, 11, 12, 13, 16, 19, 20, 22, 23, 25, 30, 33, 40, 46, 56, 57, 58, 59, 60, 61, 67, 72, 105, 106,
          113, 114, 117, 119, 122, 123, 131, 151, 155, 157, 158, 160, 161, 209, 231, 233, 247, 270, 271, 272, 275, 276,
          278, 292, 293, 302, 307, 308, 317, 322, 327, 328, 329, 425, 435, 436, 446}
GLIBC = ("libc.so.6", "ld-linux-x86-64.so.2")
# Of a text up to this size every function is decoded, and not only those that hold a pair.
SMALL = 4 << 20


class Check:
    """What Byway says of one object, held against the functions that objdump shows."""

    def __init__(self, elf, answer, pairs):
        self.elf, self.answer, self.pairs = elf, answer, pairs
        self.bad, self.notes, self.made = [], {}, {}
        self.glibc = os.path.basename(elf.path) in GLIBC
        self.wanted = {}
        self.sites = [s for s in answer["sites"] if s["kind"] == "site"]
        self.bridges = [s for s in answer["sites"] if s["kind"] == "bridge"]
        for a in pairs + [s["from"] for s in answer["sites"]] + [s["call"] for s in self.sites]:
            for f in elf.containing(a):
                self.wanted[f] = f
        for s in self.sites:
            # Only glibc ends a function's description before the call that it falls into.
            f = elf.before(s["call"])
            if self.glibc and f and not elf.containing(s["call"]) and s["call"] - f[1] < 16:
                self.wanted[f] = (f[0], max(s["call"], s["to"]) + 2)
        # The bytes that nothing may lead into, and the site of each.
        self.inner = {x: s for s in self.sites for x in range(s["from"] + 1, max(s["to"], s["call"] + 2))}
        self.hits, self.ways = [], set()
        # Where the told calls of the cancellation bridge lead.
        ends = [(s["from"] + 5, elf.bytes(s["from"] + 1, 4)) for s in self.bridges]
        self.goals = {a + int.from_bytes(b, "little", signed=True) for a, b in ends if len(b) == 4}
        self.all = bool(answer["sites"]) and sum(n for _, _, n in elf.text) <= SMALL

    def note(self, what):
        self.notes[what] = self.notes.get(what, 0) + 1

    def no(self, where, why):
        self.bad.append(f"{self.elf.path}: {where}: {why}")

    def parts(self):
        """What to decode: (function, (start, end), bytes)."""
        most = max((v + n for v, _, n in self.elf.text), default=0)
        for f in (sorted(self.elf.functions()) if self.all else sorted(self.wanted)):
            a, b = self.wanted.get(f, f)
            code = self.elf.bytes(a, min(b, most) - a)
            if code:
                yield f, (a, a + len(code)), code

    def take(self, f, bounds, text):
        """A decoded function. Of most, which hold no syscall, only branches into sites and to the bridge are kept."""
        for g in self.goals:
            found = re.findall(rf"^ *([0-9a-f]+):\t[^\n]*\b(?:j[a-z]+|call) +0x{g:x}\b", text, re.M)
            self.ways |= {int(a, 16) for a in found}
        if f in self.wanted and ("\tsyscall" in text or self.near(bounds)):
            self.made[f] = Function(self.elf, *bounds, text, self.elf.functions().get(f))
        elif self.all:
            to = {int(x, 16) for x in BRANCHES.findall(text)}
            self.hits += [(f[0], x) for x in to & self.inner.keys()]

    def near(self, bounds):
        return any(bounds[0] <= s["from"] < bounds[1] for s in self.answer["sites"])

    def settle(self):
        """Decodes what branches lead into beside the linear way, until nothing is missing."""
        for _ in range(20):
            need = [(f, a) for f in self.live() for a in sorted(f.needs)]
            if not need:
                return
            texts = decode([(a, self.elf.bytes(a, f.end - a)) for f, a in need])
            for (f, a), t in zip(need, texts):
                for at, i in lines(t, f.end).items():
                    f.insns.setdefault(at, i)
            for f in {id(f): f for f, _ in need}.values():
                f.walk()

    def live(self):
        return list(self.made.values())

    def outside(self, a):
        """Functions in which nothing leads to the syscall at `a`: perhaps a branch from another function does."""
        holds = [f for f in self.live() if f.start <= a < f.end and a in f.insns]
        if not holds or any(a in f.reached for f in holds):
            return
        f = min(holds, key=lambda f: f.end - f.start)
        run, at = set(), sorted(f.linear)
        i = bisect.bisect_left(at, a)
        while i >= 0 and i < len(at):
            run.add(at[i])
            i -= 1
            t = f.linear[at[i]][1] if i >= 0 else "ret"
            if STOPS.match(t) or INDIRECT.match(t) or re.match(PREFIX + "jmp", t):
                break
        found = set()
        for v, o, n in self.elf.text:
            b = self.elf.d[o:o + n]
            for m in re.finditer(rb"[\xe8\xe9]|\x0f[\x80-\x8f]", b):
                e = m.end()
                if e + 4 <= n:
                    to = v + e + 4 + int.from_bytes(b[e:e + 4], "little", signed=True)
                    if to in run and self.elf.containing(v + m.start()):
                        found.add(to)
        if found:
            f.unknown |= found
            f.walk()
            self.settle()
            self.note("reached only from another function")

    def run(self):
        self.settle()
        for a in self.pairs:
            self.outside(a)
        # Outside every function, as far as the bounds of functions are certain.
        known = {s["call"] for s in self.sites}
        out = [a for a in self.pairs if not self.elf.containing(a) and a not in known]
        across = [a for a in self.pairs if self.elf.containing(a) and not self.elf.containing(a + 1)]
        if not len(out) <= self.answer["data"] <= len(out) + len(across):
            self.no("data", f"{len(out)} pairs lie outside every function, and {self.answer['data']} are told")
        last = 0
        for s in sorted(self.answer["sites"], key=lambda s: s["from"]):
            where = f"{s['kind']} at {s['from']:#x}, call at {s['call']:#x}"
            if s["from"] < last:
                self.no(where, "its bytes overlap with those of the site before it")
            last = max(s["to"], s["from"])
            (self.site if s["kind"] == "site" else self.bridge)(s, where)
        self.targets()
        goals = {f.branches.get(s["from"]) for s in self.bridges for f in self.live() if s["from"] in f.reached}
        if len(goals) > 1:
            self.no("bridge", f"the calls lead to more than one function: {[hex(g) for g in goals if g]}")
        for a in sorted(self.ways - {s["from"] for s in self.bridges}):
            self.no("bridge", f"the branch at {a:#x} leads to it and is not told")
        self.missed()
        return self.bad

    def opinion(self):
        """Of an object left for doubt: how many calls with a number of interest objdump reaches in its functions."""
        self.settle()
        n = 0
        for a in self.pairs:
            live = [f for f in self.holding(a) if a in f.reached and f.insns[a][1] == "syscall" and not f.bad]
            numbers = live[0].origins(a) if live else {0}
            n += bool(live) and not all(isinstance(x, int) and x not in MATTER for x in numbers)
        return n

    def holding(self, a):
        return [f for f in self.live() if f.start <= a < f.end]

    def site(self, s, where):
        a, b, c = s["from"], s["to"], s["call"]
        end = max(b, c + 2)
        if self.elf.bytes(c, 2) != PAIR:
            return self.no(where, "the bytes there are not 0f 05")
        if b < a + 5 or c < a:
            return self.no(where, f"[{a:#x}, {b:#x}) has no room for a jump before or over the call")
        inside = self.elf.containing(c)
        if not inside and not self.glibc:
            return self.no(where, "the call lies outside every function")
        starts = {f.start for f in self.holding(c)}
        if s["function"] not in starts:
            starts = sorted(map(hex, starts))
            return self.no(where, f"no function that holds it starts at {s['function']:#x}, but at {starts}")
        for f in self.holding(c):
            mine = f.start == s["function"]
            if not mine and c not in f.reached:
                continue
            if c not in f.reached:
                why = "a jump through a table that is not understood" if f.open else "and every jump is understood"
                return self.no(where, f"nothing leads to the call from the function's start ({why})")
            if f.insns[c][1] != "syscall":
                return self.no(where, f"objdump shows `{f.insns[c][1]}`")
            if c not in f.linear:
                self.note("sites where the linear disassembly is out of step")
            if end > f.end:
                return self.no(where, f"its bytes reach behind the function's end {f.end:#x}")
            at, edges = a, set()
            while at < end and at in f.reached:
                edges.add(at)
                if at != c and re.match(PREFIX + "(?:call|l?jmp|ret|syscall|int)", f.insns[at][1]):
                    return self.no(where, f"`{f.insns[at][1]}` at {at:#x} would be replaced")
                at += f.insns[at][0]
            edges.add(at)
            if at < end or a not in edges or c not in edges or b not in edges or end not in edges:
                edges = sorted(map(hex, edges))
                return self.no(where, f"[{a:#x}, {b:#x}) is not whole instructions that are reached in order: {edges}")
            inner = [x for x in f.reached if a < x < end and x not in edges]
            if inner:
                return self.no(where, f"another instruction is reached at {inner[0]:#x}")
            numbers = f.origins(c)
            known = {n for n in numbers if isinstance(n, int)}
            said = set(s["number"]) if s["number"] is not None else None
            if numbers == {"not set"}:
                return self.no(where, "nothing in the function sets its number")
            if said is not None and (known - said or said - known and known == numbers):
                return self.no(where, f"its numbers are {sorted(map(str, numbers))}, not {sorted(said)}")
            if said is not None and known != numbers:
                self.note("sites whose numbers are not confirmed")

    def bridge(self, s, where):
        a = s["from"]
        if self.elf.bytes(a, 1) not in (b"\xe8", b"\xe9") or s["to"] != a + 5:
            return self.no(where, "it is not a call or jump with a distance of four bytes")
        holds = [f for f in self.holding(a) if a in f.reached]
        if not holds:
            return self.no(where, "nothing leads to it in any function")
        for f in holds:
            if f.insns[a][0] != 5 or f.branches.get(a) is None:
                return self.no(where, f"objdump shows `{f.insns[a][1]}`")

    def targets(self):
        """No direct branch and no table leads into replaced bytes, but to their first."""
        inner = self.inner

        def say(x, how):
            self.no(f"site at {inner[x]['from']:#x}, call at {inner[x]['call']:#x}", f"{how} leads to {x:#x}")
        for f in self.live():
            for at, to in f.branches.items():
                if to in inner:
                    say(to, f"a branch at {at:#x} in the function at {f.start:#x}")
            for to in f.tables & set(inner):
                if to in f.linear:
                    say(to, f"a jump table of the function at {f.start:#x}")
            for at, i in f.linear.items():
                b = BRANCH.match(i[1])
                if b and at not in f.reached and int(b.group(2), 16) in inner:
                    self.note("branches into sites from bytes that nothing leads to")
        for start, x in self.hits:
            say(x, f"a branch in the function at {start:#x}")

    def missed(self):
        """Instructions that Byway leaves as they are."""
        known = {s["call"] for s in self.sites}
        for a in self.pairs:
            if a in known:
                continue
            holds = [f for f in self.holding(a) if f.insns.get(a, (0, ""))[1] == "syscall"]
            if not holds:
                continue
            live = [f for f in holds if a in f.reached]
            where = f"call at {a:#x}"
            if not live:
                self.note("left: nothing is seen to lead there" + (", a jump is not understood" if holds[0].open else ""))
                continue
            if all(f.bad for f in live):
                self.note("left: the same way leads to bytes that are no instruction")
                continue
            f = live[0]
            numbers = f.origins(a)
            if self.elf.bytes(a - 7, 7) == b"\x48\xc7\xc0\x0f\0\0\0" or numbers == {15}:
                self.note("left: the return from a signal")
            elif numbers and all(isinstance(n, int) for n in numbers) and not numbers & MATTER:
                self.note("left: a number of no interest")
            elif numbers > {"call"} and all(n == "call" or n not in MATTER and isinstance(n, int) for n in numbers):
                self.note("left: a number of no interest, unless a call before it returns that never does")
            elif self.glibc and any("%r11,0x8(%rsp)" in f.insns[p][1] for p in f.preds.get(a, ())):
                self.note("left: the cancellation bridge")
                if not self.goals & {f.start for f in live}:
                    self.no(where, "it is the cancellation bridge, and no call of it is told")
            else:
                self.no(where, f"missed: objdump reaches it from {f.start:#x}, its number is {sorted(map(str, numbers))}")


def together(checks):
    """Decodes the functions of several objects in few runs of objdump."""
    batch, size = [], 0

    def flush():
        for (c, f, bounds, _), text in zip(batch, objdump([(b[0], code) for _, _, b, code in batch])):
            c.take(f, bounds, text)
        batch.clear()
    for c in checks:
        for f, bounds, code in c.parts():
            batch.append((c, f, bounds, code))
            size += len(code)
            if size > 1 << 20 or len(batch) > 8000:
                flush()
                size = 0
    flush()
