#!/usr/bin/env python3
"""Programs whose event loops wait for pipes and named sockets: node, asyncio, subprocess, java, make's jobserver, pv, parallel, git, mbuffer, socat.

Each job runs on the plain kernel first and then under Byway, at least twice: what the cache does not know is looked at during
the first start.
Invariant: output and status are the kernel's, and the large pipes that a job names stay carried while they are polled.
Not here: which programs take part, and why not (programs.py); what one call answers (tests/conformance).

  usage: polled.py BYWAY [NAME...]        prints one line a job, exits 1 if any failed
"""
import sys
from jobs import POLICY, Program, each, judge_of

STARTS = 4

SOURCE = "seq 400000 >text"
# 20 MB to a child and from one. node's own pipes to a child are pairs of sockets; those of the shell around it are pipes.
MADE = """
const child = require('child_process').spawn('cat', { stdio: ['pipe', 'pipe', 'inherit'] });
child.stdout.pipe(process.stdout);
let n = 0, left = 20e6;
(function more() {
    while (left > 0) {
        const part = Buffer.from((n++ + ' ').repeat(4000)).subarray(0, left);
        left -= part.length;
        if (!child.stdin.write(part)) return child.stdin.once('drain', more);
    }
    child.stdin.end();
})();
"""
TAKEN = """
const child = require('child_process').spawn('cat', { stdio: ['pipe', 'pipe', 'inherit'] });
let n = 0;
process.stdin.pipe(child.stdin);
child.stdout.on('data', part => { n += part.length; });
child.stdout.pipe(process.stdout);
child.on('close', status => { process.exitCode = status || n !== 20e6 ? 1 : 0; });
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
# Pipes in both directions, of its own and at standard input and output; what asyncio makes for a child may be sockets.
BOTH_WAYS = """
import asyncio, os, sys
async def reader(file):
    r = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(r), file)
    return r
async def writer(file):
    t, p = await asyncio.get_running_loop().connect_write_pipe(asyncio.streams.FlowControlMixin, file)
    return asyncio.StreamWriter(t, p, None, asyncio.get_running_loop())
async def passed(source, to):
    while part := await source.read(30000):
        to.write(part)
        await to.drain()
    # A transport that is closed keeps what it has yet to write.
    to.transport.set_write_buffer_limits(0)
    await to.drain()
    to.close()
async def main():
    theirs, ours = os.pipe()
    back, out = os.pipe()
    child = await asyncio.create_subprocess_exec("tr", "0-9", "a-j", stdin=theirs, stdout=out)
    os.close(theirs)
    os.close(out)
    files = await reader(sys.stdin), await writer(os.fdopen(ours, "wb")), await reader(os.fdopen(back, "rb")), await writer(sys.stdout)
    await asyncio.gather(passed(*files[:2]), passed(*files[2:]))
    sys.exit(await child.wait())
asyncio.run(main())
"""
# A server and its client over a named socket: what is asked comes back.
NAMED = """
import asyncio, hashlib, os, sys
NAME = "name"
async def serves(source, to):
    while part := await source.read(3000):
        to.write(part)
        await to.drain()
    to.close()
    stopped.set()
async def server():
    global stopped
    stopped = asyncio.Event()
    async with await asyncio.start_unix_server(serves, NAME):
        await stopped.wait()
async def client():
    source, to = await asyncio.open_unix_connection(NAME)
    had = hashlib.md5()
    for i in range(4000):
        part = b"%d " % i * 200
        to.write(part)
        await to.drain()
        had.update(await source.readexactly(len(part)))
    print(had.hexdigest())
    to.close()
if os.path.exists(NAME):
    os.unlink(NAME)
child = os.fork()
if child:
    asyncio.run(server())
    sys.exit(os.waitpid(child, 0)[1])
while not os.path.exists(NAME):
    pass
asyncio.run(client())
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
# Text that does not compress much: some MB of objects.
COMMITS = """
import hashlib
for i in range(80):
    text = "".join(hashlib.sha256(b"%d %d" % (i, k)).hexdigest() + "\\n" for k in range(300))
    print(f"commit refs/heads/main\\ncommitter A <a@b> {i} +0000\\ndata 1\\nm\\nM 644 inline f{i % 50}\\ndata {len(text)}\\n{text}")
"""
ORIGIN = "rm -rf origin; git init -q --bare -b main origin && $PYTHON made.py | git -C origin fast-import --quiet --date-format=raw"
WHOLE = "cd copy && git fsck --full 2>&1 && git log -p main | md5sum && git cat-file --batch-all-objects --batch-check | md5sum"

LISTENS = "rm -f name; (socat -u UNIX-LISTEN:name - | md5sum) & until [ -S name ]; do sleep 0.1; done"

# A job, and the pipes of it that must carry: who wrote and who read last. Of the others of a job, node's and socat's pipes to a
# child are pairs of sockets; make's tokens, parallel's and gc's pipes are small; what cat writes may all lie in the pipe before its
# reader has started.
JOBS = [
    (Program("node", "node made.js | tr 0-9 a-j | node taken.js | md5sum", files={"made.js": MADE, "taken.js": TAKEN}),
     "node>tr tr>node node>md5sum"),
    (Program("asyncio", "$PYTHON loop.py", command="$PYTHON", files={"loop.py": ASYNCIO}), "tr>python3"),
    (Program("asyncio both ways", "cat text | $PYTHON both.py | md5sum", command="$PYTHON", setup=SOURCE, files={"both.py": BOTH_WAYS}),
     "python3>tr tr>python3 python3>md5sum"),
    (Program("asyncio, a name", "$PYTHON named.py", command="$PYTHON", files={"named.py": NAMED}), "python3>python3"),
    (Program("subprocess", "$PYTHON run.py", command="$PYTHON", files={"run.py": SUBPROCESS}), "python3>tee tr>python3 tee>python3"),
    (Program("java", "cat text | java -Xshare:auto -cp . Child | md5sum", needs=("javac",), setup=f"{SOURCE}; javac Child.java",
             files={"Child.java": JAVA}), "tr>java java>md5sum"),
    (Program("make", "make -s -j4 -f jobs.mk | sort | md5sum", files={"jobs.mk": MAKE}), ""),
    (Program("pv", "tar cf - text | pv -q | pv -q -L 500M | tar xf - -O | md5sum", needs=("tar",), setup=SOURCE),
     "tar>pv pv>pv pv>tar"),
    (Program("parallel", "seq 30 | parallel --will-cite -j4 -k 'seq {} 5000 | md5sum' | md5sum"), ""),
    (Program("git", f"rm -rf copy; git clone -q --bare file://$PWD/origin copy && git -C copy gc -q && {WHOLE}", setup=ORIGIN,
             files={"made.py": COMMITS}), "git>git-upload-pack git-upload-pack>git"),
    (Program("mbuffer", "cat text | mbuffer -q -m 4M | md5sum", setup=SOURCE), "mbuffer>md5sum"),
    # socat ends half a minute after its own input, unless its child ends before that.
    (Program("socat", "socat -u 'EXEC:cat text,pipes' - | socat -t 30 - 'EXEC:tr 0-9 a-j' | md5sum", setup=SOURCE),
     "cat>socat socat>socat socat>md5sum"),
    (Program("socat, a name", f"{LISTENS}; cat text | socat -u - UNIX-CONNECT:name; wait", command="socat", setup=SOURCE), "socat>socat"),
]
CARRIED = {job.name: carried.split() for job, carried in JOBS}


if __name__ == "__main__":
    judge = judge_of(CARRIED, lambda c: [f"{c['writer']}>{c['reader']}"], STARTS, POLICY)
    sys.exit(int(each([job for job, _ in JOBS], sys.argv[2:], judge) > 0))
