#!/usr/bin/env python3
"""Programs whose event loops wait for pipes: node, asyncio, subprocess, java, make's jobserver, tar into pv, parallel.

Each job runs on the plain kernel first and then under Byway, twice: what the cache does not know is looked at during the
first start.
Invariant: output and status are the kernel's.
Not here: which programs take part, and why not (programs.py); what one call answers (tests/conformance).

  usage: polled.py BYWAY [NAME...]        prints one line a job, exits 1 if any failed
"""
import sys
from jobs import Program, each, runs

SOURCE = "seq 400000 >text"
NODE = """
const { spawn } = require('child_process');
const tr = spawn('tr', ['0-9', 'a-j']);
process.stdin.pipe(tr.stdin);
tr.stdout.pipe(process.stdout);
"""
ASYNCIO = """
import asyncio, hashlib
async def filtered(n):
    p = await asyncio.create_subprocess_exec("tr", "0-9", "a-j", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    text = b"".join(b"%d\\n" % i for i in range(n, n + 100000))
    out, _ = await p.communicate(text)
    return len(out), hashlib.md5(out).hexdigest(), p.returncode
async def main():
    print(await asyncio.gather(*(filtered(n) for n in (1, 1000, 1000000))))
asyncio.run(main())
"""
SUBPROCESS = """
import hashlib, subprocess
text = b"".join(b"%d\\n" % i for i in range(300000))
p = subprocess.run("tee /dev/stderr | tr 0-9 a-j", shell=True, input=text, capture_output=True)
print(p.returncode, p.stderr == text, len(p.stdout), hashlib.md5(p.stdout).hexdigest())
"""
JAVA = """
import java.io.*;
public class Child {
    public static void main(String[] a) throws Exception {
        Process p = new ProcessBuilder("tr", "0-9", "a-j").start();
        Thread feeds = new Thread(() -> {
            try (OutputStream o = p.getOutputStream()) { System.in.transferTo(o); } catch (IOException e) { System.exit(3); }
        });
        feeds.start();
        InputStream i = p.getInputStream();
        byte[] b = new byte[9000];
        while (true) {
            int n = Math.min(b.length, Math.max(1, i.available()));
            if ((n = i.read(b, 0, n)) < 0) break;
            System.out.write(b, 0, n);
        }
        feeds.join();
        System.out.flush();
        System.exit(p.waitFor());
    }
}
"""
SUBS = " ".join(f"sub{i}" for i in range(4))
# Tokens of the jobserver go through a pipe that five makes poll. What a target says is one write, which no other cuts.
MAKE = f"""
ifdef SUB
all: {" ".join(f"t{i}" for i in range(12))}
t%:; @seq 200 | sed "s/^/$(SUB) $@ /"
else
all: {SUBS}
sub%:; @$(MAKE) -s -f jobs.mk SUB=$@
endif
"""

JOBS = [
    Program("node", "cat text | node child.js | md5sum", needs=("tr",), setup=SOURCE, files={"child.js": NODE}),
    Program("asyncio", "$PYTHON loop.py", command="$PYTHON", files={"loop.py": ASYNCIO}),
    Program("subprocess", "$PYTHON both.py", command="$PYTHON", files={"both.py": SUBPROCESS}),
    Program("java", "cat text | java -Xshare:auto -cp . Child | md5sum", needs=("javac",), setup=f"{SOURCE}; javac Child.java",
            files={"Child.java": JAVA}),
    Program("make", "make -s -j4 -f jobs.mk | sort | md5sum", files={"jobs.mk": MAKE}),
    Program("pv", "tar cf - text | pv -q | pv -q -L 500M | tar xf - -O | md5sum", needs=("tar",), setup=SOURCE),
    Program("parallel", "seq 60 | parallel --will-cite -j4 -k 'seq {} 5000 | md5sum' | md5sum"),
]


def judge(box, job):
    for _ in runs(box, job, 2):
        pass
    return ""


if __name__ == "__main__":
    sys.exit(int(each(JOBS, sys.argv[2:], judge) > 0))
