#!/usr/bin/env bash
# What Byway says of itself is true: `--explain`, `doctor -- CMD`, a set-up that is broken, the cache.
#                                                              usage: explain.sh BYWAY
set -u
. "$(dirname "$0")/says.sh"
byway=$(realpath "$1") here=$(realpath "$(dirname "$0")")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work"
fits() { is "$1: 80 columns" "$(awk 'length > 80' <<<"$2")" ""; }
python=$(python3 -c 'import sys; print(sys.executable)')
# A program says what it likes; what Byway says of it goes to `said`.
explained() { "$byway" run --private --explain-to said -- "$@" >out 2>err; said=$(cat said); fits "$*" "$said"; }
head -c 50M /dev/zero >zeros

# The first line says it all; what the kernel had is told.
explained sh -c 'cat zeros | wc -c'
has "carried" "$(head -n 1 said)" "1 of 1 pipe carried, "
has "carried" "$said" "cat -> wc  "
is "carried + kernel = what was written" "$(awk '/bytes carried/ { print $4 + ($8 == "by" ? $7 : 0) }' said)" 52428800
short() { "$byway" run --private "$1" -- sh -c 'cat zeros | wc -c' 2>&1 >out | head -n 1 | cut -d, -f 1; }
is "-v is --explain" "$(short -v)" "$(short --explain)"
explained sh -c 'seq 10 | cat'
is "of little" "$(tail -n 1 said)" "seq -> cat: under 64 KiB"
explained sh -c 'for i in 1 2 3; do seq 10 | cat; done'
is "alike ones" "$(tail -n 1 said)" "3 x seq -> cat: under 64 KiB"
is "no pipe" "$("$byway" run --private --explain -- true 2>&1)" "byway: no pipe was seen"
# A program that cannot take part, with a build-id as the distributions' have one.
echo '__asm__(".text; .byte 0xb8, 1, 0, 0, 0, 0x0f, 5"); long read(int, void *, long); int main(void) { char b[4096]; while (read(0, b, 4096) > 0); }' >doubt.c
cc -Wl,--build-id=sha1 -o doubt doubt.c
explained sh -c 'cat zeros | ./doubt'
has "in doubt" "$said" "doubt has code that cannot be rewritten"
# Inside a run of another version, whose library every process has.
"$byway" library . && mv ./*-libbyway_preload.so 0123456789abcdef-libbyway_preload.so
LD_PRELOAD=$PWD/0123456789abcdef-libbyway_preload.so explained sh -c 'cat zeros | wc -c'
has "inside a run of another version" "$(head -n 1 said)" "1 of 1 pipe carried, "
# Writes of many buffers are carried, also where they are long.
many='import os; v = [b"x" * 1000] * 50; [os.writev(1, v + v * (i == 500)) for i in range(1000)]'
explained sh -c "$python -c '$many' | md5sum"
is "many buffers" "$(cat out)" "$(head -c 50050000 /dev/zero | tr '\0' x | md5sum)"
has "many buffers" "$(head -n 1 said)" "1 of 1 pipe carried"
is "many buffers: most of 50 MB" "$(awk '/bytes carried/ { print ($4 > 40000000) }' said)" 1
# What is handed back is not counted as carried, nor as nothing.
cat >polls.py <<'P'
import os, select
# An end in two sets is the kernel's for good.
p, q = select.epoll(), select.epoll()
p.register(0, select.EPOLLIN)
q.register(0, select.EPOLLIN)
p.poll()
while os.read(0, 65536): pass
P
explained sh -c "cat zeros | $python polls.py"
has "polled" "$said" "python3 polls its pipes"
hasnt "polled" "$said" "none by the kernel"
hasnt "polled" "$said" ", 100 %"
cat >waits.py <<'P'
import os, select, sys
p = select.epoll()
p.register(0, select.EPOLLIN | int(sys.argv[1], 0))
os.set_blocking(0, False)
total = 0
while True:
    p.poll()
    try:
        while n := len(os.read(0, 65536)): total += n
        break
    except BlockingIOError: pass
print(total)
P
for edge in 0 0x80000000; do
  # A reader that is always behind waits for nothing, and nothing is handed back: on a busy machine that happens.
  for _ in 1 2 3 4 5; do
    explained sh -c "cat zeros | $python waits.py $edge"
    case "$said" in *hand-back*) break ;; esac
  done
  has "waited for ($edge)" "$said" "hand-back"
  is "waited for: carried ($edge)" "$(awk '/bytes carried/ && $1 == "cat" { print ($4 > 1000000) }' said)" 1
done
# What one splice moves to a file is the kernel's; what comes later is carried again.
cat >splices.py <<'P'
import os
for _ in range(1000): os.read(0, 4096)
os.splice(0, os.open("spliced", os.O_WRONLY | os.O_CREAT), 4096)
while os.read(0, 65536): pass
P
explained sh -c "cat zeros | $python splices.py"
has "spliced" "$said" "python3 uses splice or the like"
is "spliced: carried again" "$(awk '/bytes carried/ && $1 == "cat" { print ($4 > 1000000) }' said)" 1
# So it is where splices were all that there was, and what comes later is much.
cat >spliced.py <<'P'
import os
out = os.open("spliced", os.O_WRONLY | os.O_CREAT)
for _ in range(1000): os.splice(0, out, 4096, offset_dst=0)
while os.read(0, 65536): pass
P
explained sh -c "cat zeros zeros zeros zeros zeros | $python spliced.py"
is "spliced a thousand times: carried again" "$(awk '/bytes carried/ && $1 == "cat" { print ($4 > 1000000) }' said)" 1
# Who has it for good is told, and not what was before.
cat >then.py <<'P'
import os
for _ in range(1000): os.read(0, 4096)
os.splice(0, os.open("spliced", os.O_WRONLY | os.O_CREAT), 4096)
os.execlp("busybox", "busybox", "cat")
P
explained sh -c "cat zeros | $python then.py >/dev/null"
has "spliced, and then without a part" "$said" "a program that takes no part has it"
# A program between two others that splices all: both pipes are carried, and the one to /dev/null too.
cat >relays.py <<'P'
import os
own = os.pipe()
out = os.open("/dev/null", os.O_WRONLY) if os.fstat(1).st_rdev else 1
while n := os.splice(0, own[1] if out == 1 else out, 131072):
    while out == 1 and n > 0: n -= os.splice(own[0], 1, n)
P
explained sh -c "cat zeros | $python relays.py | cat"
is "spliced on: carried" "$(awk '/bytes carried/ { n += $4 ~ /^[0-9]+$/ && $4 > 10000000 } END { print (n >= 2) }' said)" 1
explained sh -c "cat zeros | $python relays.py >/dev/null"
is "spliced to nowhere: carried" "$(awk '/bytes carried/ && $1 == "cat" { print ($4 > 10000000) }' said)" 1
# Eight pipes of which one at a time has a byte: a ring brings nothing, and to arm them all is not worth it.
cat >rests.py <<'P'
import os, select
pipes, back = [os.pipe() for _ in range(8)], os.pipe()
if os.fork() == 0:
    for k in range(4000): os.write(pipes[k % 8][1], b"x"), os.read(back[0], 1)
    os._exit(0)
p = select.poll()
for r, _ in pipes: p.register(r, select.POLLIN)
for k in range(4000):
    (fd, _), = p.poll()
    assert fd == pipes[k % 8][0] and os.read(fd, 2) == b"x"
    os.write(back[1], b"x")
P
explained taskset -c 0 "$python" rests.py
has "polled together" "$said" "python3 polls its pipes"
# A socket's writer that may not sleep, and is faster than its reader: the lane has too much for a ring to begin behind it.
cat >fills.py <<'P'
import os, select, socket, sys, time
a, b = socket.socketpair()
if sys.argv[1:]:
    with socket.create_server(("127.0.0.1", 0)) as s:
        a = socket.create_connection(s.getsockname())
        b = s.accept()[0]
if os.fork() == 0:
    a.close()
    while b.recv(65536): time.sleep(0.001)
    os._exit(0)
a.setblocking(False)
for k in range(300):
    rest = memoryview(bytes(65536))
    while rest:
        select.select([], [a], [])
        rest = rest[a.send(rest):]
P
for of in "" tcp; do
  # shellcheck disable=SC2086
  explained "$python" fills.py $of
  has "a full socket $of" "$said" "its reader was slower"
done
# A size that a program sets is no reason to hand back for good.
cat >sizes.py <<'P'
import fcntl, os
for k in range(100): os.read(0, 4096)
assert fcntl.fcntl(0, 1031, 1 << 20) == 1 << 20
while os.read(0, 65536): pass
assert fcntl.fcntl(0, 1032) == 1 << 20
P
explained sh -c "cat zeros | $python sizes.py"
is "a size: carried again" "$(awk '/bytes carried/ && $1 == "cat" { print ($4 > 10000000) }' said)" 1
# Who would get a signal is no reason either; that there is to be one is.
cat >owner.py <<'P'
import fcntl, os, sys
for k in range(100): os.read(0, 4096)
fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
fcntl.fcntl(0, fcntl.F_SETSIG, 10)
assert fcntl.fcntl(0, fcntl.F_GETOWN) == os.getpid()
if sys.argv[1:]:
    fcntl.fcntl(0, fcntl.F_SETOWN, 0)
    fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
while os.read(0, 65536): pass
P
explained sh -c "cat zeros | $python owner.py"
is "an owner: carried" "$(awk '/bytes carried/ && $1 == "cat" { print ($4 > 50000000) }' said)" 1
explained sh -c "cat zeros | $python owner.py signals"
is "signals: the kernel's" "$(awk '/bytes carried/ && $1 == "cat" { print ($4 < 10000000) }' said)" 1
# One poll of a hundred pipes, as by a build with so many jobs.
cat >hundred.py <<'P'
import os, select, subprocess
jobs = [subprocess.Popen(["head", "-c", "500000", "/dev/zero"], stdout=subprocess.PIPE) for k in range(100)]
left = {j.stdout.fileno() for j in jobs}
p = select.poll()
for fd in left: p.register(fd, select.POLLIN)
total = 0
while left:
    for fd, _ in p.poll():
        n = len(os.read(fd, 65536))
        total += n
        if not n: p.unregister(fd); left.remove(fd)
print(total)
P
explained "$python" hundred.py
is "a hundred pipes" "$(cat out)" 50000000
is "a hundred pipes: carried" "$(awk 'NR == 1 { print ($2 > 90) }' said)" 1
# A program that uses io_uring for a file goes on taking part; what a request names is the kernel's.
cat >rings.py <<'P'
import ctypes, errno, mmap, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
p = ctypes.create_string_buffer(120)
ring = libc.syscall(425, 4, p)
if ring < 0 and ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):
    sys.exit(77)
word = lambda at: struct.unpack_from("I", p, at)[0]
m = mmap.mmap(ring, word(64) + 16, offset=0)
requests = mmap.mmap(ring, 256, offset=0x10000000)
file, room = os.open(__file__, os.O_RDONLY), ctypes.create_string_buffer(64)
def read(fd):
    tail = struct.unpack_from("I", m, word(44))[0]
    struct.pack_into("BBHiQQI", requests, tail % 4 * 64, 22, 0, 0, fd, 0, ctypes.addressof(room), 64)
    struct.pack_into("I", m, word(64) + tail % 4 * 4, tail % 4)
    struct.pack_into("I", m, word(44), tail + 1)
    assert libc.syscall(426, ring, 1, 1, 1, 0, 0) == 1
total = 0
while n := len(os.read(0, 65536)):
    total += n
    read(file)
    if sys.argv[1:] and total > 1 << 20:
        read(0)
assert not total or sys.argv[1:] or room.raw[:6] == b"import"
P
explained sh -c "cat zeros | $python rings.py"
if grep -qx 77 <<<"$("$python" rings.py </dev/null; echo $?)"; then
  echo "skip    io_uring: the kernel has none, or forbids it"
else
  hasnt "a ring for a file" "$said" "uses io_uring"
  is "a ring for a file: carried" "$(awk '/bytes carried/ && $1 == "cat" { print ($4 > 40000000) }' said)" 1
  explained sh -c "cat zeros | $python rings.py all"
  has "a ring for a pipe" "$said" "python3 uses io_uring"
  hasnt "a ring for a pipe: it does not leave" "$said" "python3 left"
fi
# xargs only asks which descriptors are open: no reason to hand back, and none is told.
explained sh -c 'seq 100 | xargs -n 50 echo | cat'
hasnt "asked by xargs" "$said" "polls its pipes"
# A program that a setting leaves alone is named, and its pipes are the kernel's; a list costs those without one nothing.
explained_with() { "$byway" run --private --explain-to said "${@:1:2}" -- "${@:3}" >out 2>err; said=$(cat said); fits "$1 $2" "$said"; }
carries() { awk '/bytes carried/ && $1 == "cat" { n = $4 } END { print (n > 40000000) }' said; }
for item in wc "$(command -v wc)"; do
  explained_with --leave "$item" sh -c 'cat zeros | wc -c'
  has "--leave $item" "$said" "wc took no part: it is left alone by a setting"; is "--leave $item: result" "$(cat out)" 52428800
  is "--leave $item: nothing is carried" "$(carries)" 0
done
explained_with --leave wc sh -c 'cat zeros | cat >/dev/null'; hasnt "--leave of another" "$said" "left alone"; is "--leave of another" "$(carries)" 1
explained_with --leave sh bash -c 'sh -c "cat zeros | cat >/dev/null"; true'
has "--leave: what it starts is plain too" "$said" "no pipe was seen; sh is left alone by a setting"
printf '#!/bin/sh\necho "${LD_PRELOAD-none}"\n' >left; chmod +x left
for item in left sh; do explained_with --leave $item bash -c './left; true'; is "--leave $item: a script" "$(cat out)" none; done
explained_with --leave sh sh -c 'echo ran'; is "--leave: the command" "$(cat out) $said" "ran nothing is carried: sh is left alone by a setting"
explained_with --only cat:sh sh -c 'cat zeros | cat >/dev/null'; is "--only" "$(carries)" 1; hasnt "--only" "$said" "left alone"
explained_with --only cat sh -c 'cat zeros | cat >/dev/null'
has "--only: another" "$said" "sh took no part: it is left alone by a setting"; hasnt "--only: what it starts" "$said" "cat took no part"
explained_with --only sh sh -c 'cat zeros | wc -c'; has "--only: a child" "$said" "cat took no part: it is left alone by a setting"
looks() { # words of the run: how often its processes, not byway itself, ask which file they are or start
  strace -f -qq -e trace=execve,readlink -o log "$byway" run --private "$@" -- bash -c '/usr/bin/env true; true'
  awk 'NR == 1 { byway = $1 } $1 != byway && /readlink\("\/proc\/self\// { n++ } END { print n + 0 }' log
}
is "no list: no look" "$(looks)" 0; is "a list: a look" "$(($(looks --leave nobody) > 0))" 1
# A program that leaves, or never takes part, is named with its reason, also where it has no pipe.
cat >limits.py <<'P'
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 44, resource.getrlimit(resource.RLIMIT_AS)[1]))
P
explained "$python" limits.py
has "left" "$said" "python3 left: it limits its address space"
explained sh -c 'cat zeros | busybox cat | md5sum'
has "static" "$said" "busybox took no part: it is static"
is "static: what it wrote is not unknown" "$(grep -c 'none by the kernel' said)" 0
explained sh -c 'echo "none" | busybox cat; echo "of it" | busybox cat'
has "several" "$said" "2 x busybox took no part: it is static"
# The first writer names the pipe: a child that ends it with a line does not.
explained bash -c 'cat zeros | tee >(wc -l) | wc -c'
has "tee" "$said" "tee + others -> wc  "
has "tee's other pipe" "$said" "tee -> wc  "
hasnt "tee" "$said" "wc -> wc"
# Only what this run has done: FIFOs of others, and their bytes, are theirs.
mkfifo -m 600 f g
"$byway" run -- sh -c 'cat zeros >f; until [ -e go ]; do sleep 0.05; done; cat zeros >g' & other=$!
"$byway" run -- sh -c 'cat f >/dev/null'
is "another run's FIFO" "$("$byway" run --explain -- true 2>&1)" "byway: no pipe was seen"
"$byway" run --explain-to said -- sh -c 'cat g >/dev/null' & own=$!
touch go; wait $own $other
has "a FIFO between runs" "$(cat said)" "fifo: cat -> cat"
is "a FIFO between runs, and only its" "$(grep -c 'fifo:' said)" 1
# A FIFO that two runs use one after the other: each has its own bytes.
cat >twice.sh <<'S'
head -c "$1" zeros >f & cat f >/dev/null; wait
S
"$byway" run -- sleep 2 & keeps=$!
"$byway" run -- sh twice.sh 20M; "$byway" run --explain=json --explain-to said -- sh twice.sh 30M; wait $keeps
sum='import json; c, = json.load(open("said"))["channels"]; print(c["carried_bytes"] + c["kernel_bytes"])'
is "its own bytes" "$("$python" -c "$sum")" 31457280
# Runs that begin at once with an empty cache: the one that serves is woken, whichever it is.
late=0
for i in 1 2 3 4; do
  rm -rf empty
  for k in 1 2; do BYWAY_CACHE=$work/empty "$byway" run --explain-to begin$k -- sh -c 'cat zeros | (sleep 0.2; wc -c)' >/dev/null & done; wait
  late=$((late + $(cat begin1 begin2 | grep -c "looked at in time: ")))
done
is "runs that begin at once" $((late < 4)) 1
# One document.
"$byway" run --explain=json --explain-to said -- sh -c 'cat zeros | wc -c' >out; is "json: status" $? 0
"$python" - <<'P' >out; is "json" "$(cat out)" "cat wc 52428800 True"
import json
c, = json.load(open("said"))["channels"]
print(c["writer"], c["reader"], c["carried_bytes"] + c["kernel_bytes"], c["kernel_bytes_exact"])
P
# A reader that starts late finds a full ring, and what is handed back for it leaves a pipe that a fast writer keeps full.
for i in 1 2 3 4 5; do
  taskset -c 0 "$byway" run --private --explain=json --explain-to late$i -- \
    sh -c "cat zeros | { sleep 0.1; exec $python -c 'import os
while os.read(0, 65536): pass'; }"
  is "a late reader" $? 0
done
is "late readers: carried again soon" "$(python3 -c 'import json
all = [c for i in "12345" for c in json.load(open("late" + i))["channels"] if c["writer"] == "cat"]
print(len(all), sum(c["kernel_bytes"] for c in all) < 26000000)')" "5 True"
"$byway" run --explain=json -- true 2>err; has "json on standard error" "$(cat err)" '"schema": 1'
"$byway" run --explain=nonsense -- true 2>err; is "bad --explain" $? 2
"$byway" run --explain-to /nonexistent/x -- touch made 2>err; is "bad --explain-to" $? 2
has "bad --explain-to" "$(cat err)" "give --explain-to a place"; is "nothing was started" "$(ls made 2>/dev/null)" ""
"$byway" run --explain -- sh -c 'cat zeros | wc -c' 2>&- >out; is "nobody to tell" "$(cat out)" 52428800
# The command itself, which loads no library.
explained busybox true
has "a static command" "$(head -n 1 said)" "no pipe was seen; busybox took no part"; has "a static command" "$said" "static: it loads no library"

# `doctor -- CMD` says what a run would find.
asked() { said=$("$byway" doctor -- "$@" 2>&1); status=$?; last=$(tail -n 1 <<<"$said"); }
asked wc; is "doctor wc" $status 0; is "doctor wc" "$last" "ok  it can take part"
asked busybox; is "doctor busybox" $status 1; has "doctor busybox" "$said" "static: it loads no library"
cat >p.py <<P
#!$python
P
chmod +x p.py; asked ./p.py; has "doctor script" "$said" "a script for $python"
printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v busybox)" >wraps; chmod +x wraps
asked ./wraps; is "a script that starts a static program" $status 1; has "wraps" "$said" "starts $(command -v busybox)"
printf '#!/bin/sh\nbusybox true\n' >calls; chmod +x calls; asked ./calls; is "doctor calls" $status 0
has "what a script starts" "$said" "??  "; has "what a script starts" "$last" "when it starts"
mkdir -p env/libexec env/shims env/versions/1.2/bin; ln -s "$(command -v busybox)" env/versions/1.2/bin/prog; echo 1.2 >env/version
printf '#!/bin/sh\nexec "%s/env/libexec/plenv" exec "$program" "$@"\n' "$work" >env/shims/prog; chmod +x env/shims/prog
asked env/shims/prog; is "a shim" $status 1; has "a shim" "$said" "env/versions/1.2/bin/prog: static"
# A library that is loaded while it runs cannot be known; that there may be one can.
cat >opens.c <<'C'
#include <dlfcn.h>
int main(int n, char **v) { return n > 1 && !dlopen(v[1], RTLD_NOW); }
C
cc -o opens opens.c -ldl; asked ./opens; is "dlopen" $status 0
has "dlopen" "$said" "(dlopen)"; has "dlopen" "$last" "when it starts"; hasnt "dlopen" "$said" "None"
# More objects than there is room for, which each are well.
n=$(sed -n 's/.*pub const OBJECTS: usize = \([0-9]*\);/\1/p' "$here/../crates/sys/src/cached.rs")
if [ -n "$n" ]; then
  libs=()
  for ((i = 0; i < n; i++)); do echo "int f$i;" | cc -shared -fPIC -x c -o "libx$i.so" -; libs+=("./libx$i.so"); done
  echo 'int main(void) { return 0; }' | cc -x c -o many - -x none -Wl,--no-as-needed "${libs[@]}"
  asked ./many; is "too many objects" $status 1; has "too many objects" "$said" "at most $((n - 1))"
  explained ./many; has "too many objects" "$said" "many took no part: it has more libraries than there is room for"
fi
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  cp "$(command -v cat)" set; chmod 4755 set ; chmod 755 "$work"
  asked ./set; is "setuid to who asks" $status 0
  mkdir -m 777 own; cp "$byway" own
  said=$(HOME=$work/own/h BYWAY_CACHE='' setpriv --reuid 65534 --regid 65534 --clear-groups own/byway doctor -- ./set 2>&1); is "setuid" $? 1
  has "setuid" "$said" "setuid, so its loader ignores LD_PRELOAD"
fi

# A set-up that somebody must mend says so, once; nothing else does.
mkdir copy; cp "$byway" copy/byway
told() { said=$("$@" 2>&1 >out); }
told copy/byway run -- sh -c 'echo a | cat'; is "a copy of the program alone" "$? $(cat out) $said" "0 a "
told copy/byway run --explain -- sh -c 'head -c 1000000 /dev/zero | wc -c'; has "a copy of the program alone carries" "$said" "1 of 1 pipe carried"
told env BYWAY_CACHE=/proc/nonexistent "$byway" run -- sh -c 'echo a | cat'; is "no cache: status" $? 0; is "no cache" "$(cat out)" a
is "no cache: once" "$(wc -l <<<"$said")" 1
told env BYWAY_CACHE=/proc/nonexistent BYWAY=off copy/byway run -- true; is "no cache, BYWAY=off" "$said" ""
told env BYWAY_CACHE=/proc/nonexistent copy/byway run --off -- true; is "no cache, --off" "$said" ""
told env BYWAY_CACHE=/proc/nonexistent copy/byway run --explain -- true; is "no cache, --explain: once" "$(wc -l <<<"$said")" 1
told "$byway" run -- sh -c 'echo a | cat'; is "a good one says nothing" "$said" ""
told env BYWAY_CACHE=/proc/nonexistent "$byway" run -- true; has "no cache" "$said" "set BYWAY_CACHE"
told sh -c 'ulimit -v 8000000; exec "$0" run -- true' "$byway"; is "a limit is the caller's own" "$said" ""
if unshare -m true 2>/dev/null; then
  ro='mount -o remount,bind,ro /dev/shm 2>/dev/null || { mount --bind /dev/shm /dev/shm && mount -o remount,bind,ro /dev/shm; }'
  told unshare -m sh -c "$ro || exit 99; exec \"\$0\" run -- sh -c 'echo a | cat'" "$byway"
  [ $? = 99 ] || { is "read-only" "$(cat out)" a; has "read-only" "$said" "set BYWAY_SHM"; is "read-only: once" "$(wc -l <<<"$said")" 1; }
fi
# A report to send: each value explained, and nothing private.
mkdir -p home/secret-folder; secret=hunter2
"$byway" run --private -- sh -c 'sleep 3; : hunter2' & sleep 0.5
said=$(cd home/secret-folder && HOME=$work/home/secret-folder BYWAY_CACHE='' PASSWORD=$secret "$byway" doctor --report); is "doctor --report" $? 0
hasnt "doctor --report: an environment, a command" "$said" $secret; hasnt "doctor --report: the home folder" "$said" secret-folder
has "doctor --report: the cache" "$said" "~/.cache/byway"; has "doctor --report: the version" "$said" "$("$byway" --version | cut -d ' ' -f 2)"
is "doctor --report: sections" "$(grep -o '^\[[a-z]*\]' <<<"$said" | tr -d '\n')" "[program][machine][limits][findings][settings][cache][runs]"
is "doctor --report: each value is explained" "$(sed '/^\[findings\]/,/^\[settings\]/d; /^$/d' <<<"$said" |
  awk '/^ +#/ { value = ""; next } value { print value; value = "" } !/#/ { value = $0 } END { if (value) print value }')" ""
has "doctor --report: the run" "$said" "private             1 runs"; wait
"$byway" doctor --report -- cat 2>/dev/null; is "doctor --report of a program" $? 2
# The cache: bounded, shown, cleared.
export BYWAY_CACHE=$work/cache
is "doctor --cache, before" "$("$byway" doctor --cache)" "$work/cache: not there yet"; is "nothing was made" "$(ls cache 2>/dev/null)" ""
"$byway" run -- sh -c 'cat /dev/null | wc -c; sleep 0.3' >/dev/null
said=$("$byway" doctor --cache); is "doctor --cache" $? 0; fits "doctor --cache" "$(tail -n +2 <<<"$said")"
has "doctor --cache" "$said" "MiB of at most 256.0 MiB (BYWAY_CACHE_MIB)"; has "doctor --cache" "$said" "/libc.so.6"
before=$(ls cache | wc -l)
BYWAY_CACHE_MIB=1 "$byway" doctor -- "$python" >/dev/null
is "of a small one libc and its loader stay, and what is needed now" "$("$byway" doctor --cache | grep -c -e /libc.so.6 -e /ld-linux)" 2
is "some went" $(($(ls cache | wc -l) < before + 3)) 1
BYWAY_CACHE_MIB=x "$byway" run -- true 2>err; is "bad BYWAY_CACHE_MIB" $? 2; has "bad BYWAY_CACHE_MIB" "$(cat err)" "give a number of MiB"
has "doctor --cache=clear" "$("$byway" doctor --cache=clear)" "files removed"
is "cleared, but for the library" "$(ls cache | grep -vc -e "-libbyway_preload.so$")" 0
echo "explain: $passed passed, $failed failed"
[ $failed = 0 ]
