"""An x86-64 ELF object: its executable segments, and the functions that its tables tell of.

Invariant: nothing here comes from Byway; the unwind table is read by this parser alone.
Not here: instructions (functions.py).
"""
import bisect, mmap, struct

PAIR = b"\x0f\x05"


def packed(d, i):
    """An unsigned LEB128 number and where it ends."""
    n = shift = 0
    while True:
        b = d[i]
        i += 1
        n |= (b & 0x7f) << shift
        shift += 7
        if b < 0x80:
            return n, i


SIZES = {0x00: "<Q", 0x02: "<H", 0x03: "<I", 0x04: "<Q", 0x0a: "<h", 0x0b: "<i", 0x0c: "<q"}


class Elf:
    """An x86-64 ELF object: its executable segments, and the functions that its tables tell of."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as f:
            self.d = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)
        d = self.d
        at, size, n = struct.unpack_from("<Q", d, 32)[0], *struct.unpack_from("<HH", d, 54)
        self.headers = [struct.unpack_from("<IIQQQQQQ", d, at + i * size) for i in range(n)]
        # Each: virtual address, offset, size in the file.
        self.loads = [(h[3], h[2], min(h[5], len(d) - h[2])) for h in self.headers if h[0] == 1]
        self.text = [(h[3], h[2], min(h[5], len(d) - h[2])) for h in self.headers if h[0] == 1 and h[1] & 1]
        self._functions = None

    def pairs(self):
        """The addresses of the pairs 0f 05 in executable segments."""
        out = []
        for v, o, n in self.text:
            i = self.d.find(PAIR, o, o + n)
            while i >= 0:
                out.append(v + i - o)
                i = self.d.find(PAIR, i + 1, o + n)
        return out

    def offset(self, a, segments=None):
        for v, o, n in segments or self.loads:
            if v <= a < v + n:
                return o + a - v
        return None

    def bytes(self, a, n):
        o = self.offset(a)
        return b"" if o is None else self.d[o:o + n]

    def in_text(self, a):
        return any(v <= a < v + n for v, _, n in self.text)

    def sections(self):
        at, = struct.unpack_from("<Q", self.d, 40)
        size, n, names = struct.unpack_from("<HHH", self.d, 58)
        if not at or not n or at + n * size > len(self.d):
            return []
        all_ = [struct.unpack_from("<IIQQQQIIQQ", self.d, at + i * size) for i in range(n)]
        o = all_[names][4] if names < n else 0
        return [(self.d[o + s[0]:self.d.find(b"\0", o + s[0])].decode("latin-1"),) + s[1:] for s in all_]

    def functions(self):
        """{(start, end): address of the exception table or None}, from the unwind table and sized function symbols."""
        if self._functions is not None:
            return self._functions
        out, frames = {}, []
        for s in self.sections():
            name, kind, addr, off, size = s[0], s[1], s[3], s[4], s[5]
            if kind in (2, 11) and off + size <= len(self.d):
                for _, info, _, shndx, value, length in struct.iter_unpack("<IBBHQQ", self.d[off:off + size // 24 * 24]):
                    if info & 15 == 2 and shndx and length and self.in_text(value):
                        out[value, value + length] = None
            if name == ".eh_frame" and kind != 8 and addr:
                frames.append((addr, off, size))
        for h in self.headers:
            # Without sections the index of the unwind table tells where that begins.
            if h[0] == 0x6474e550 and not frames and self.d[h[2]:h[2] + 2] == b"\x01\x1b":
                a = h[3] + 4 + struct.unpack_from("<i", self.d, h[2] + 4)[0]
                load = [(v, o, n) for v, o, n in self.loads if v <= a < v + n]
                frames += [(a, o + a - v, n - (a - v)) for v, o, n in load]
        for f in frames:
            self._frames(*f, out)
        self._functions = out
        ends, most = sorted(out), 0
        self.sorted, self.most = ends, []
        for _, e in ends:
            most = max(most, e)
            self.most.append(most)
        return out

    def _value(self, enc, i, addr):
        """An encoded pointer at offset `i`, mapped at `addr`, and where it ends."""
        f = SIZES.get(enc & 15)
        if f is None:
            raise ValueError
        v, = struct.unpack_from(f, self.d, i)
        i += struct.calcsize(f)
        return ((v + addr) & (1 << 64) - 1 if enc & 0x70 == 0x10 and v else v), i

    def _frames(self, addr, off, size, out):
        d, i, end, heads = self.d, off, min(off + size, len(self.d)), {}
        while i + 4 <= end:
            at = i
            n, = struct.unpack_from("<I", d, i)
            i += 4
            if n == 0:
                continue
            if n == 0xffffffff:
                n, = struct.unpack_from("<Q", d, i)
                i += 8
            here, after = i, i + n
            if after > end:
                return
            ident, = struct.unpack_from("<I", d, i)
            i += 4
            try:
                if ident == 0:
                    heads[at] = self._head(i, after)
                else:
                    enc, lsda, sized = heads[here - ident]
                    a, j = self._value(enc, i, addr + i - off)
                    length, j = self._value(enc & 15, j, 0)
                    table = None
                    if sized:
                        _, j = packed(d, j)
                        if lsda != 0xff:
                            table = self._value(lsda & 0x7f, j, addr + j - off)[0] or None
                    # A cleared start is a function that the linker threw away.
                    if length > 0 and self.in_text(a):
                        out[a, a + length] = table
            except (KeyError, ValueError, struct.error):
                pass
            i = after

    def _head(self, i, end):
        d, version = self.d, self.d[i]
        z = d.find(b"\0", i + 1, end)
        text, i = d[i + 1:z].decode("latin-1"), z + 1
        for _ in range(2):
            _, i = packed(d, i)
        i = i + 1 if version == 1 else packed(d, i)[1]
        enc, lsda = 0, 0xff
        if text[:1] != "z":
            return enc, lsda, False
        _, i = packed(d, i)
        for c in text[1:]:
            if c == "R":
                enc, i = d[i], i + 1
            elif c == "L":
                lsda, i = d[i], i + 1
            elif c == "P":
                i = i + 1 + struct.calcsize(SIZES[d[i] & 15])
        return enc, lsda, True

    def containing(self, a):
        """The functions that hold address `a`."""
        self.functions()
        out, i = [], bisect.bisect_right(self.sorted, (a, 1 << 64)) - 1
        while i >= 0 and self.most[i] > a:
            if self.sorted[i][1] > a:
                out.append(self.sorted[i])
            i -= 1
        return out

    def before(self, a):
        """The function that ends nearest before or at `a`."""
        self.functions()
        i = bisect.bisect_right(self.sorted, (a, 1 << 64))
        near = [f for f in self.sorted[max(0, i - 8):i] if f[1] <= a]
        return max(near, key=lambda f: f[1], default=None)

    def landings(self, table, start):
        """Where exceptions land in a function, from its exception table."""
        d, i, out = self.d, self.offset(table), set()
        try:
            base = start
            if d[i] != 0xff:
                base, i = self._value(d[i], i + 1, table + 1)
            else:
                i += 1
            if d[i] != 0xff:
                _, i = packed(d, i + 1)
            else:
                i += 1
            enc, (n, i) = d[i], packed(d, i + 1)
            end = i + n
            while i < end:
                v = []
                for _ in range(3):
                    x, i = packed(d, i) if enc == 1 else self._value(enc & 15, i, 0)
                    v.append(x)
                _, i = packed(d, i)
                if v[2]:
                    out.add(base + v[2])
        except (ValueError, TypeError, IndexError, struct.error):
            pass
        return out
