#!/usr/bin/env python3
"""Complete capture: programs that live on stdio run under `byway run` and strace; every read and write that the kernel
saw on a pipe which Byway carries must have come from the preload library itself, or from a rewritten site of which the
library says that it let the call pass. A call from anywhere else is one that Byway did not see.

  usage: capture.py BYWAY          prints one line a program, exits 1 if any call was missed
"""
import json, os, re, subprocess, sys, tempfile

BYWAY = os.path.abspath(sys.argv[1])
C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int n, char **v) {
    char b[3001], *l = 0;
    size_t c = 0;
    if (n > 1 && !strcmp(v[1], "printf"))
        for (int i = 0; i < 60000; i++) printf("%d %s\n", i, "line of printf");
    else if (n > 1 && !strcmp(v[1], "fputs"))
        while (getline(&l, &c, stdin) > 0) fputs(l, stdout);
    else if (n > 1 && !strcmp(v[1], "unbuffered")) {
        setvbuf(stdout, 0, _IONBF, 0);
        while (fgets(b, sizeof b, stdin)) fputs(b, stdout);
    } else
        for (size_t k; (k = fread(b, 1, sizeof b, stdin)) > 0;) fwrite(b, 1, k, stdout);
}
"""
CASES = {
    "printf, getline, fputs": "./stdio printf | ./stdio fputs | wc -l",
    "fread, fwrite": "cat text | ./stdio fread | ./stdio fread | md5sum",
    "unbuffered stdio": "head -5000 text | ./stdio unbuffered | wc -c",
    "bash read and echo": "head -4000 text | while read -r l; do echo \"$l\"; done | wc -c",
    "awk": "cat text | awk '{ n += length($0); print $1 } END { print n }' | tail -1",
    "sed": "cat text | sed -e 's/fox/dog/' | sed -n '$p'",
    "sort": "cat text | sort | uniq -c | tail -1",
    "perl": "cat text | perl -ne 'print if /1$/' | perl -e 'while (<STDIN>) { $n++ } print \"$n\\n\"'",
    "python3": "cat text | python3 -c 'import sys\nfor l in sys.stdin: sys.stdout.write(l)' | wc -l",
    "tee, tr, head": "cat text | tee copy | tr a-z A-Z | head -c 1000000 | wc -c",
    "command substitution": "x=$(cat text); echo ${#x} | cat",
}
CALL = re.compile(r"^\[([0-9a-f]{8,16})\] (\w+)\((.*)$")
PIPE = re.compile(r"^\d+<pipe:\[(\d+)\]>")
MMAP = re.compile(r"PROT_EXEC.*?, \d+<([^>]*)>, \w+\) = (0x[0-9a-f]+)$")
SHADOW = re.compile(r"\.v\d+$")
ANY = re.compile(r"^(0x[0-9a-f]+|NULL), (\d+|0x[0-9a-f]+), ")


def calls(folder):
    """For each read or write on a pipe: (inode, object that made it). Follows mappings through fork and exec."""
    logs = {int(n.split(".")[1]): open(os.path.join(folder, n), errors="replace").read().splitlines()
            for n in os.listdir(folder)}
    children = {int(m.group(1)) for t in logs.values() for l in t
                for m in [re.search(r" (?:clone3?|v?fork)\(.* = (\d+)(?: \(.*\))?$", l)] if m}
    out, todo = [], [(p, {}) for p in logs if p not in children]
    while todo:
        pid, maps = todo.pop()
        maps = dict(maps)
        for line in logs.get(pid, []):
            m = CALL.match(line)
            if not m:
                continue
            ip, name, rest = int(m.group(1), 16), m.group(2), m.group(3)
            if name == "execve" and rest.endswith(" = 0"):
                maps = {}
            elif name == "mmap":
                e, a = MMAP.search(rest), ANY.match(rest)
                if e and a:
                    maps[int(e.group(2), 16)] = (int(a.group(2), 0), e.group(1))
            elif name in ("clone", "clone3", "fork", "vfork"):
                c = re.search(r" = (\d+)(?: \(.*\))?$", rest)
                if c:
                    todo.append((int(c.group(1)), maps))
            elif name in ("read", "write", "readv", "writev"):
                p = PIPE.match(rest)
                if p:
                    # The last mapping made over an address is the one that counts.
                    where = [f for at, (n, f) in reversed(list(maps.items())) if at <= ip <= at + n]
                    out.append((p.group(1), where[0] if where else "?"))
    return out


def main():
    bad = 0
    with tempfile.TemporaryDirectory() as d:
        os.chdir(d)
        open("stdio.c", "w").write(C)
        subprocess.run(["cc", "-O2", "-o", "stdio", "stdio.c"], check=True)
        with open("text", "w") as f:
            for i in range(20000):
                f.write("%06d the quick brown fox jumps over the lazy dog %d\n" % (i * 7919 % 20000, i))
        for name, line in CASES.items():
            os.mkdir("log")
            r = subprocess.run([BYWAY, "run", "--explain=json", "--explain-to", "told", "--", "strace", "-ff", "-i", "-y", "-s", "0", "-o", "log/t",
                                "-e", "trace=read,write,readv,writev,mmap,execve,clone,clone3,fork,vfork",
                                "bash", "-c", line], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=200)
            with open("told") as f:
                told = {str(c["inode"]): (c["carried_bytes"], c["uncounted_calls"]) for c in json.load(f)["channels"]}
            carried = {p for p, (b, _) in told.items() if b > 0}
            ours, passed, missed = 0, {}, []
            for pipe, where in calls("log"):
                if pipe not in carried:
                    continue
                if where.endswith("libbyway_preload.so"):
                    ours += 1
                elif SHADOW.search(where):
                    passed[pipe] = passed.get(pipe, 0) + 1
                else:
                    missed.append((pipe, where))
            n = len(missed)
            for pipe, k in passed.items():
                n += abs(k - told[pipe][1])
            ok = n == 0 and len(carried) > 0 and r.returncode == 0
            bad += not ok
            print("%s %s: %d carried pipes, %d calls by Byway, %d let pass, %d not seen%s" % (
                "ok" if ok else "not ok", name, len(carried), ours, sum(passed.values()), n,
                "" if ok else " " + str(missed[:3]) + str(passed) + str(told) + r.stderr[-400:]))
            subprocess.run(["rm", "-rf", "log"])
    return bad != 0


sys.exit(main())
