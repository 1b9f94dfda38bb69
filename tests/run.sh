#!/usr/bin/env bash
# `byway run` itself: statuses, messages, what it leaves visible, what it does on a machine that cannot carry, and that
# nothing stays behind.      usage: run.sh BYWAY
set -u
. "$(dirname "$0")/says.sh"
byway=$(realpath "$1") here=$(realpath "$(dirname "$0")")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work"
seq 1 400000 >text; sum=$(md5sum <text)

# Statuses are the command's own, or env(1)'s.
for how in "" "--off" "--explain" "--forbid carry" "--forbid rewrite" "--forbid memory" "--forbid spin,memory" "--forbid rseq" "--memory 1" "--preallocate 16 --decay 0 --low 0" "--pipe base" "--capacity 4K" "--capacity 8M"; do
  # shellcheck disable=SC2086
  {
    "$byway" run $how -- true 2>/dev/null; is "true $how" $? 0
    "$byway" run $how -- sh -c 'exit 7' 2>/dev/null; is "exit 7 $how" $? 7
    "$byway" run $how -- sh -c 'kill -TERM $$' 2>/dev/null; is "SIGTERM $how" $? 143
    "$byway" run $how -- sh -c 'kill -KILL $$' 2>/dev/null; is "SIGKILL $how" $? 137
    "$byway" run $how -- /nonexistent 2>err; is "not found $how" $? 127; has "not found $how" "$(cat err)" "cannot run /nonexistent"
    "$byway" run $how -- "$work/text" 2>err; is "not executable $how" $? 126
    is "pipeline $how" "$("$byway" run $how -- bash -c 'cat text | cat | md5sum' 2>/dev/null)" "$sum"
  } 2>/dev/null
done
BYWAY=off "$byway" run -- sh -c 'echo "${LD_PRELOAD-none}"' >out; is "BYWAY=off" "$(cat out)" none
"$byway" run --nonsense -- true 2>err; is "bad option" $? 2; has "bad option" "$(cat err)" "--nonsense"
"$byway" run 2>err; is "no command" $? 2
"$byway" nonsense 2>err; is "bad command" $? 2
"$byway" demo nosuchcase 2>err; is "bad case" $? 2; has "bad case" "$(cat err)" "grep-50MB"
"$byway" demo --size 0 2>err; is "bad size" $? 2
"$byway" run --memory 0 -- true 2>err; is "no memory at all" $? 2
"$byway" run --low 20 --high 10 -- true 2>err; is "high below low" $? 2; has "high below low" "$(cat err)" "--high 10 is below --low 20"
"$byway" run --memory 8 --low 2 -- "$byway" stat --json >out; has "high of little memory" "$(cat out)" '"high_bytes": 4194304,'
"$byway" run --memory 4 --preallocate 8 -- true 2>err; is "more than the limit" $? 2
"$byway" run --capacity 3K -- true 2>err; is "too small a ring" $? 2; has "too small a ring" "$(cat err)" "from 4K to 8M"
"$byway" stat 2>err; is "stat without a run" $? 1; has "stat without a run" "$(cat err)" "byway run --"
is "stat --json without a run" "$("$byway" stat --json)" "[]"
"$byway" run --preallocate 6 -- "$byway" stat --cpus >out; is "stat" $? 0; has "stat" "$(cat out)" "jumbo"
"$byway" run --preallocate 6 -- "$byway" stat --json >out; has "stat --json" "$(cat out)" '"bytes_given_back"'
"$byway" run --preallocate 6 -- "$byway" doctor --audit >out; is "audit" $? 0; has "audit" "$(cat out)" "0 lost, 0 doubled"
"$byway" doctor --audit 2>err; is "audit without a run" $? 1
is "BYWAY_RSEQ=off" "$(BYWAY_RSEQ=off "$byway" run -- bash -c 'cat text | cat | md5sum')" "$sum"
"$byway" doctor >out; is "doctor" $? 0; has "doctor" "$(cat out)" "pipe-max-size"
"$byway" doctor -- cat >out; is "doctor cat" $? 0
"$byway" doctor -- busybox >out; is "doctor busybox" $? 1; has "doctor busybox" "$(cat out)" "static"
"$byway" doctor -- nosuchprogram 2>err; is "doctor nosuch" $? 2

# A program that neither opens nor starts anything is started without the library once it is known, but not with a pipe.
"$byway" run -- bash -c 'for f in 1 2 3; do printenv LD_PRELOAD >$f; done; printenv LD_PRELOAD | cat >pipe; printenv HOME PATH >env
  mkfifo fifo; cat fifo >named & printenv LD_PRELOAD >fifo; wait; env | grep LD_PRELOAD >starts'
is "self-contained, second start" "$(cat 2 3)" ""; is "self-contained, environment" "$(cat env)" "$(printenv HOME PATH)"
for f in pipe named starts; do has "self-contained, $f" "$(cat $f)" libbyway_preload.so; done
is "other libraries stay" "$(LD_PRELOAD=libm.so.6 "$byway" run -- bash -c 'printenv LD_PRELOAD >1; printenv LD_PRELOAD >2; cat 2')" libm.so.6

# Signals reach the command, and stop with it.
"$byway" run -- sh -c 'trap "exit 9" TERM; while :; do sleep 0.05; done' & p=$!
sleep 0.3; kill -TERM $p; wait $p; is "forwarded SIGTERM" $? 9
# Who stops and wakes just the command, and not us, ends no run.
"$byway" run -- sh -c 'echo $$ >stopped; exec sleep 0.3' & p=$!
until [ -s stopped ]; do sleep 0.05; done
kill -STOP "$(cat stopped)"; sleep 0.2; kill -CONT "$(cat stopped)"; wait $p; is "stopped and woken" $? 0
is "a limit of file sizes" "$(ulimit -f 10; "$byway" run -- bash -c 'cat text | md5sum' 2>/dev/null)" "$sum"

# The folder: named and unusable is a mistake; full or missing is the kernel's turn.
BYWAY_SHM=/nonexistent/a "$byway" run -- true 2>err; is "unusable folder" $? 2; has "unusable folder" "$(cat err)" "BYWAY_SHM"
mkdir open; chmod 777 open
BYWAY_SHM=$work/open "$byway" run -- true 2>err; is "open folder" $? 2; has "open folder" "$(cat err)" "only you"
BYWAY_CACHE=/proc/nonexistent "$byway" run --explain -- sh -c 'cat text | md5sum' >out 2>err; is "unusable cache" "$(cat out)" "$sum"
has "unusable cache" "$(cat err)" "BYWAY_CACHE"
if [ "$(id -u)" = 0 ] && mkdir small && mount -t tmpfs -o size=1m,mode=700 tmpfs small 2>/dev/null; then
  for fill in 0 300 500 900 1020; do
    head -c $((fill * 1024)) /dev/zero >small/fill
    is "1 MiB tmpfs, $fill KiB used" "$(BYWAY_SHM=$work/small timeout 60 "$byway" run -- bash -c 'cat text | cat | cat | md5sum')" "$sum"
    rm -f small/fill
  done
  is "nothing left in it" "$(ls small)" ""
  umount small
else
  echo "skipped: no right to mount a small tmpfs"
fi

# Nothing visible is added: descriptors, threads, output, environment but for the two variables.
see='ls /proc/self/fd; ls /proc/self/task | wc -l; env | grep -v -e ^LD_PRELOAD= -e ^BYWAY= -e ^_= | sort; umask; ulimit -a'
is "nothing visible" "$("$byway" run -- bash -c "$see" 2>&1)" "$(bash -c "$see" 2>&1)"
is "descriptors closed at start stay closed" "$("$byway" run -- bash -c 'exec 3<&-; ls /proc/$$/fd' | tr '\n' ' ')" "$(bash -c 'exec 3<&-; ls /proc/$$/fd' | tr '\n' ' ')"

# A run that was killed leaves a file, which the next one removes; a run that ends leaves nothing.
"$byway" run -- sleep 30 & p=$!; sleep 0.3; kill -KILL $p; wait $p 2>/dev/null; pkill -P 1 -x sleep
"$byway" run -- true
is "nothing left behind" "$(find "/dev/shm/byway-$(id -u)" -name "run-*" 2>/dev/null)" ""

# An idle reader costs nothing.
"$byway" run -- bash -c '{ head -c 300000 text; sleep 1.2; } | { head -c 300000 >/dev/null; cat; }' & p=$!
sleep 0.4
reader=$(pgrep -x cat | while read -r c; do grep -qz BYWAY= "/proc/$c/environ" 2>/dev/null && echo "$c"; done | head -1)
a=$(awk '{ print $14 + $15 }' "/proc/${reader:-1}/stat" 2>/dev/null); sleep 0.6; b=$(awk '{ print $14 + $15 }' "/proc/${reader:-1}/stat" 2>/dev/null)
is "idle reader's CPU ticks in 0.6 s" $((b - a)) 0; wait $p

# Programs that cannot take part, in the middle of a stream, at either end.
is "static in the middle" "$("$byway" run -- bash -c 'cat text | busybox cat | cat | md5sum')" "$sum"
is "static reads the rest" "$("$byway" run -- bash -c 'cat text | { head -c 100 >/dev/null; read -r _; busybox cat; } | tail -n 5 | md5sum')" "$(tail -n 5 text | md5sum)"
is "static writes the rest" "$("$byway" run -- bash -c '{ cat text; busybox cat text; } | md5sum')" "$(cat text text | md5sum)"
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
  home=$(mktemp -d); cp /bin/cat "$home/cat"; chmod 4755 "$home/cat"; chmod 755 "$home"; cp text "$home/text"; chmod 644 "$home/text"
  cp "$byway" "$home/"
  cc -O2 -pthread -o "$home/deopt" "$here/conformance/deopt.c"
  # shellcheck disable=SC2016
  as() { (cd "$home" && env -u BYWAY_CACHE HOME="$home/nobody" setpriv --reuid 65534 --regid 65534 --clear-groups "$@"); }
  install -d -o 65534 -m 700 "$home/nobody"
  is "setuid reader and writer" "$(as "$home/byway" run -- bash -c 'cat text | ./cat | cat | md5sum')" "$sum"
  is "setuid reads the rest" "$(as "$home/byway" run -- bash -c 'cat text | { read -r _; ./cat; } | tail -n 5 | md5sum')" "$(tail -n 5 text | md5sum)"
  as "$home/byway" run -- ./deopt >deopt.out 2>&1; status=$?
  is "what needs the real pipe, without root: $(grep "^not ok" deopt.out)" $status 0
  # A FIFO as mkfifo(1) makes it, which others may open: carried too; and one of them, whom /proc does not show, gets what nobody takes.
  # shellcheck disable=SC2016
  as "$home/byway" run --explain -- sh -c 'umask 022; mkfifo nobody/f; head -c 300M /dev/zero >nobody/f & md5sum <nobody/f' >out 2>err
  is "a FIFO of mode 644" "$(cat out)" "$(head -c 300M /dev/zero | md5sum)"
  is "a FIFO of mode 644 is carried, without root" "$(grep -c "fifo:.* [1-9][0-9]* bytes carried" err)" 1
  mkfifo -m 666 "$home/f"
  # shellcheck disable=SC2016
  as "$home/byway" run --explain -- sh -c 'head -c 300M /dev/zero >f & md5sum <f' >out 2>err
  is "a FIFO of root's" "$(cat out)" "$(head -c 300M /dev/zero | md5sum)"
  has "a FIFO of root's" "$(cat err)" "the FIFO is another user's"
  cat >"$home/unseen.py" <<'P'
import os, time
f, n = "nobody/g", 200 << 20
os.mkfifo(f, 0o644)
def until(name):
    while not os.path.exists("nobody/" + name): time.sleep(0.01)
def said(name): open("nobody/" + name, "w").close()
if os.fork() == 0:
    r = os.open(f, os.O_RDONLY)
    while n: n -= len(os.read(r, min(65536, n)))
    said("read")
    until("done")
    os._exit(0)
w = os.open(f, os.O_WRONLY)
for _ in range(n // 65536): os.write(w, bytes(65536))
until("read")
for i in range(50): os.write(w, bytes([i]) * 1000)
said("written")
until("done")
os.wait()
P
  as "$home/byway" run --explain -- python3 unseen.py 2>err & run=$!
  until [ -e "$home/nobody/written" ] || ! kill -0 $run 2>/dev/null; do sleep 0.02; done
  is "who is not seen reads what nobody takes" "$(timeout 20 head -c 50000 "$home/nobody/g" | md5sum)" "$(python3 -c 'import sys
for i in range(50): sys.stdout.buffer.write(bytes([i]) * 1000)' | md5sum)"
  touch "$home/nobody/done"; wait $run
  is "of a FIFO that was carried" "$(grep -c "fifo:.* [1-9][0-9]* bytes carried" err)" 1
  rm -rf "$home"
fi
# The time of one CPU on a machine of several: nobody waits awake on the other. Where a control group can be made here.
group=/sys/fs/cgroup/cpu/byway-test-$$
if [ "$(nproc)" -gt 1 ] && mkdir "$group" 2>/dev/null && echo 100000 >"$group/cpu.cfs_quota_us" 2>/dev/null; then
  in_group() { sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$group" "$@"; }
  has "the time of one CPU" "$(in_group "$byway" doctor)" "the time of one (its control group's limit): no spinning"
  is "a pipeline in it" "$(in_group "$byway" run --private -- bash -c 'cat text | cat | md5sum')" "$sum"
fi
[ ! -d "$group" ] || rmdir "$group"
if command -v go >/dev/null 2>&1; then
  mkdir g; cat >g/main.go <<'G'
package main

import (
	"io"
	"os"
)

func main() { io.Copy(os.Stdout, os.Stdin) }
G
  if (cd g && GOFLAGS=-mod=mod GOCACHE=$work/gocache go build -o ../gocat main.go 2>/dev/null); then
    is "Go in the middle" "$("$byway" run -- bash -c 'cat text | ./gocat | cat | md5sum')" "$sum"
    is "Go reads the rest" "$("$byway" run -- bash -c 'cat text | { read -r _; ./gocat; } | tail -n 5 | md5sum')" "$(tail -n 5 text | md5sum)"
  fi
fi
# A pipe of which its reader asks what is there, or waits for it, is carried; so is one polled for hang-up alone, as every Rust program
# begins. So is one in a set of epoll, by level, by edge, one-shot and exclusive.
cat >asks.py <<'P'
import array, fcntl, os, select, sys
p = select.poll()
def poll(events, ms):
    p.register(0, events)
    p.poll(ms)
def count(fd): fcntl.ioctl(fd, 0x541B, array.array("i", [0]))
exec(sys.argv[2])
open("asked", "w").close()
while True:
    if sys.argv[1] == "often": exec(sys.argv[2])
    if not os.read(0, 65536): break
P
asks() {
  rm -f asked
  "$byway" run --private --explain -- sh -c "{ until [ -e asked ]; do sleep 0.01; done; exec head -c 50M /dev/zero; } | python3 asks.py $1 '$2'" 2>&1 |
    grep -c 'head -> python3 .* [1-9][0-9]\{6,\} bytes carried'
}
for what in "poll(0, 1)" "poll(2, 1)" "poll(0, 0)"; do is "asks once: $what" "$(asks once "$what")" 1; done
for what in "poll(5, 0)" "poll(1, 20)" "select.select([0], [], [], 0.02)" "select.select([0], [], [], 0)" "select.select([0], [0], [0], 0)" "count(0)" "fcntl.fcntl(0, 1032)"; do
  is "asks often: $what" "$(asks often "$what")" 1
done
for what in "poll(1, 1)" "select.select([0], [], [], 0.001)"; do is "waits: $what" "$(asks once "$what")" 1; done
is "a set" "$(asks once "e = select.epoll(); e.register(0, 1); e.poll(0.02)")" 1
is "a set, by edge" "$(asks once "e = select.epoll(); e.register(0, 1 | 1 << 31); e.poll(0.02)")" 1
is "a set, one-shot" "$(asks once "e = select.epoll(); e.register(0, 1 | 1 << 30); e.poll(0.02)")" 1
is "a set, exclusive" "$(asks once "e = select.epoll(); e.register(0, 1 | 1 << 28); e.poll(0.02)")" 1
# xargs looks at 252 descriptors at its start; java asks what is there before it reads.
is "xargs" "$("$byway" run --private --explain -- sh -c 'head -c 5M /dev/zero | tr "\0" "\n" | sed s/^/x/ | xargs -n 100000 echo | wc -c' 2>&1 | grep -c 'sed -> xargs .* [1-9][0-9]\{6,\} bytes carried')" 1
if command -v javac >/dev/null; then
  cat >J.java <<'J'
public class J {
    public static void main(String[] a) throws Exception {
        byte[] b = new byte[65536];
        long n = 0;
        for (int k = 0; k >= 0; n += k = System.in.read(b)) System.in.available();
        System.out.println(n + 1);
    }
}
J
  javac J.java
  "$byway" run --private --explain -- sh -c 'head -c 20M /dev/zero | java -cp . J' >out 2>err
  is "java counts" "$(cat out)" 20971520; is "java" "$(grep -c 'head -> java .* [1-9][0-9]\{6,\} bytes carried' err)" 1
fi
# A program that sets what is so already goes on taking part; one that changes it does not.
cat >sets.py <<'P'
import ctypes, os, sys
libc = ctypes.CDLL(None)
exec(sys.argv[1])
while os.read(0, 65536): pass
P
sets() { "$byway" run --private --explain -- sh -c "head -c 50M /dev/zero | python3 sets.py '$1'" 2>&1 | grep -c 'head -> python3 .* [1-9][0-9]\{6,\} bytes carried'; }
u=$(id -u) g=$(id -g)
for what in "os.setuid($u)" "os.setgid($g)" "os.setreuid(-1, $u)" "os.setregid($g, $g)" "os.setresuid(-1, $u, -1)" "os.setresgid(-1, $g, $g)" \
  "libc.setfsuid($u)" "libc.setfsgid(-1)" "libc.prctl(22, 2, 0)" "libc.prctl(26, 1)" "libc.syscall(317, 2, 0, 0)"; do
  is "sets what is so: $what" "$(sets "$what")" 1
done
if [ "$u" = 0 ]; then
  for what in "os.setuid(1)" "os.setregid(-1, 1)" "os.setresuid(-1, -1, 1)" "os.setresgid(1, -1, -1)" "libc.setfsuid(1)"; do
    is "sets something else: $what" "$(sets "$what")" 0
  done
fi
# A call that nobody knows has each pipe handed back that an argument may name.
is "a call that nobody knows" "$(sets "libc.syscall(500, 77, 77, 77, 77, 0, 77)")" 0
is "one above all numbers" "$(sets "libc.syscall(5000, 77, 0, 77, 77, 77, 77)")" 0
is "a command of fcntl that nobody knows" "$(sets "libc.fcntl(0, 5000, 0)")" 0
is "one that names something else" "$(sets "libc.syscall(500, 77, 77, 77, 77, 77, 77)")" 1
# GNU make sets its ids to what they are at its start, and what it starts takes part as well.
printf 'all:\n\t@head -c 50M /dev/zero\n' >Makefile
# A first start may be too early: what the cache does not know is looked at meanwhile. A make below another one names its folder, and
# the channel is then make's as well as head's.
by_make() { "$byway" run --private --explain -- sh -c 'make --no-print-directory 2>&1 | cat >/dev/null' 2>&1 | grep -c 'head -> cat .* [1-9][0-9]\{6,\} bytes carried'; }
for _ in 1 2 3 4 5; do made=$(by_make); [ "$made" = 0 ] || break; done
is "make" "$made" 1
# What a carried pipe takes before a write blocks: as much as the kernel's or as was asked for at least; of the largest, what the kernel
# lets a pipe hold.
for p in capacity direct; do cc -O2 -pthread -o $p "$here/conformance/$p.c"; done
largest=$(($(cat /proc/sys/fs/pipe-max-size) / 2))
takes() { # how, at least, at most
  # shellcheck disable=SC2086
  is "takes $2 to $3 bytes $1" "$(HOLDS=$2 MOST=$3 "$byway" run --private $1 -- ./capacity | grep -c '^ok')" 9
}
takes "--capacity 4K" 4096 8192
takes "--capacity 8K" 8192 8192
for how in "--capacity 64K" "--pipe base" "--pipe zc"; do takes "$how" 65536 65536; done
if [ $largest -ge 524288 ]; then
  for how in "--capacity 512K" "--pipe lp" "--pipe lp+zc"; do takes "$how" 520192 528384; done
  takes "--capacity 8M" $(((largest > 8388608 ? 8388608 : largest) - 4096)) 8392704
fi
# Long writes that a reader takes out of their writer's buffer: some are where they may be, whatever comes in between; none where there is
# a handler or a second thread.
lent() { # how, case, tries
  # Whether the reader comes while the writer's buffer is offered is chance: two of five tries see it.
  for _ in $(seq "${3:-50}"); do
    # shellcheck disable=SC2086
    "$byway" run --private --explain $1 -- ./direct "$2/cold" >out 2>err; is "direct $2 $1" "$(cat out)" "ok $2/cold"
    grep -q 'in one copy' err && { lent=some; return; }
  done
  lent=none
}
for how in "--pipe zc" "--pipe lp+zc --capacity 256K"; do
  for what in large_reads reads_change several_buffers stopped stopped_for_long handled_and_restarted handled_and_not handler_writes \
    reader_interrupted killed reader_closes reader_killed nonblocking; do
    lent "$how" $what; is "lent by $what $how" $lent some
  done
  for what in with_handler with_thread; do lent "$how" $what 5; is "lent by $what $how" $lent none; done
done
lent "--pipe lp" large_reads 5; is "lent without zc" $lent none
# The usual run makes no direct writes, on any number of CPUs.
direct_on() { # CPUs
  for _ in 1 2 3 4 5; do
    taskset -c "$1" "$byway" run --private --explain -- ./direct large_reads/cold >out 2>err
    grep -q 'in one copy' err && { echo some; return; }
  done
  grep -q '[1-9][0-9]* bytes carried' err && echo none
}
first=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
on_one() { (taskset -cp "$first" "$BASHPID" >/dev/null; "$@"); }
is "not direct on one CPU" "$(direct_on "$first")" none
is "not direct on several CPUs" "$(direct_on "$(taskset -cp $$ | sed 's/.*: //')")" none
# One CPU: who is woken out of a sleep there runs before the write that woke it is over; by the kernel alone two of five do not (ADR 17).
# Beside a busy thread that never sleeps they do: none gives way to it with a message in its hands, also not of as many bytes as a bell has.
cat >woken.py <<'P'
import mmap, os, signal, sys, time
size = int(sys.argv[1])
said = mmap.mmap(-1, 4096)
r, w = os.pipe()
if os.fork() == 0:
    os.close(w)
    while b := os.read(r, 2 * size): said[0] = b[-1]
    os._exit(0)
busy = os.fork() if sys.argv[2:] else None
while busy == 0: pass
def each(i):
    time.sleep(150e-6)
    os.write(w, bytes([i]) * size)
    return said[0] == i
print("at once" if any(sum(map(each, range(50))) > 48 for _ in range(60)) else "later")
if busy: os.kill(busy, signal.SIGKILL)
P
is "woken on one CPU" "$(taskset -c 0 "$byway" run -- python3 woken.py 1)" "at once"
for size in 1 4096; do is "woken by $size bytes beside a busy thread" "$(taskset -c 0 "$byway" run -- python3 woken.py $size beside)" "at once"; done
# What the conformance programs find of FIFOs they find of carried ones.
for name in fifo_io fifo_wrap; do
  cc -O2 -pthread -w -o $name "$here/conformance/$name.c"
  "$byway" run --explain=json --explain-to err -- ./$name >out
  is "$name" "$(grep -c "^not ok" out)" 0
  n=$(python3 -c 'import json; print(sum(c["kind"] == "fifo" and c["carried_bytes"] > 0 for c in json.load(open("err"))["channels"]))')
  is "FIFOs of $name that were carried: $n" $((n >= 10)) 1
done
# What hindered a FIFO that was removed hinders no other one, be it of the same inode number (a tmpfs gives each once).
cat >same.py <<'P'
import fcntl, os
def moves(n):
    os.mkfifo("same")
    r = os.open("same", os.O_RDONLY | os.O_NONBLOCK)
    w = os.open("same", os.O_WRONLY)
    for _ in range(n):
        os.write(w, bytes(4096))
        assert len(os.read(r, 4096)) == 4096
    number = os.fstat(r).st_ino
    # What is to send signals is the kernel's for good.
    fcntl.fcntl(w, fcntl.F_SETFL, os.O_WRONLY | os.O_ASYNC)
    os.close(r), os.close(w), os.remove("same")
    return number
print("the same" if moves(100) == moves(1000) else "others")
P
"$byway" run --private --explain=json --explain-to err -- python3 same.py >out
n=$(python3 -c 'import json; print(sum(c["carried_bytes"] for c in json.load(open("err"))["channels"] if c["kind"] == "fifo"))')
is "FIFOs of a number that was another's, $(cat out): $n bytes carried" $((n >= 3000000)) 1
# FIFOs that a run makes are carried soon, however many processes there are beside it; also 3 MB live long enough. One that
# an outsider reads too loses nothing.
cc -O2 -o idle "$here/idle.c"
mkfifo rests; ./idle 400 <rests >ready & idle=$!; exec 9>rests
until grep -q ready ready || ! kill -0 $idle 2>/dev/null; do sleep 0.05; done
is "400 idle processes" "$(cat ready)" ready
for _ in 1 2 3 4 5; do # a busy machine may keep one from its CPU for longer than it lives
  # shellcheck disable=SC2016
  "$byway" run --private --explain=json --explain-to err -- \
    bash -c 'for i in $(seq 20); do mkfifo n$i; head -c 3000000 /dev/zero >n$i & cat n$i >/dev/null; wait; done; rm n*'
  n=$(python3 -c 'import json; print(sum(c["kind"] == "fifo" and c["carried_bytes"] > 0 for c in json.load(open("err"))["channels"]))')
  [ "$n" -lt 18 ] || break
done
is "FIFOs carried beside 400 idle processes: $n" $((n >= 18)) 1
# shellcheck disable=SC2016
"$byway" run --private -- bash -c 'mkfifo o; { exec 3<o; exec busybox cat <&3; } >o1 & cat o >o2 & head -c 30M /dev/zero >o; wait'
is "an outsider by exec and a participant read" "$(cat o1 o2 | wc -c)" 31457280
# shellcheck disable=SC2016
"$byway" run --private -- bash -c 'mkfifo p; busybox cat p >o1 & cat p >o2 & head -c 30M /dev/zero >p; wait'
is "an outsider by open and a participant read" "$(cat o1 o2 | wc -c)" 31457280
# shellcheck disable=SC2016
"$byway" run --private -- sh -c 'for i in 1 2 3 4 5; do mkfifo q$i; done; "$0" stat --json' "$byway" >out
is "FIFOs counted, and CPU time for them" "$(grep -Eo '"fifo(s_counted|_cpu_us)": ?[1-9]' out | wc -l)" 2
exec 9>&-; wait $idle
# FIFOs between runs: started in either order; the run that serves them all ends, or is killed, in between.
carried() { grep -q "fifo:.* [1-9][0-9]* bytes carried" "$1" && echo yes || cat "$1"; }
mkfifo -m 600 ff; big=$(head -c 300M /dev/zero | md5sum)
"$byway" run --explain -- md5sum <ff >out1 2>err1 & sleep 0.2
"$byway" run --explain -- head -c 300M /dev/zero >ff 2>err2; wait
is "FIFO from run to run" "$(cat out1)" "$big"
is "redirected outside of the runs" "$(carried err2)" yes
"$byway" run --explain -- sh -c 'head -c 300M /dev/zero >ff' 2>err2 & sleep 0.2
is "writer first" "$("$byway" run -- sh -c 'md5sum <ff')" "$big"; wait
is "and carried" "$(carried err2)" yes
"$byway" run --private --explain -- sh -c 'head -c 30M /dev/zero >ff' 2>err2 &
is "--private" "$("$byway" run -- sh -c 'md5sum <ff')" "$(head -c 30M /dev/zero | md5sum)"; wait
is "--private: none carried" "$(grep -c 'bytes carried' err2)" 0; has "--private" "$(cat err2)" "none of 1 pipe carried"
for how in TERM KILL; do
  "$byway" run -- sleep 60 & first=$!; sleep 0.2
  "$byway" run -- sh -c 'md5sum <ff' >out1 & sleep 0.2
  "$byway" run -- sh -c 'head -c 150M /dev/zero; sleep 0.3; head -c 150M /dev/zero' >ff &
  sleep 0.3; kill -$how $first; wait 2>/dev/null
  is "the serving run gets SIG$how" "$(cat out1)" "$big"
done 2>/dev/null
"$byway" run -- true
# Sockets: a pair of them among a run's processes is carried, both ways; messages with descriptors keep their place.
cat >pair.py <<'END'
import array, hashlib, os, socket, sys
a, b = socket.socketpair()
if os.fork() == 0:
    a.close()
    got = hashlib.md5()
    while part := b.recv(65536):
        got.update(part)
        b.sendall(part[:1000])
    b.sendmsg([b"last"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [1]))])
    print(got.hexdigest(), flush=True)
    sys.exit()
b.close()
sent, piece = hashlib.md5(), os.urandom(4000)
for i in range(10_000):
    part = piece[i % 4000:] + piece[:i % 4000]
    sent.update(part)
    a.sendall(part)
    while True:
        try:
            a.recv(65536, socket.MSG_DONTWAIT)
        except BlockingIOError:
            break
a.shutdown(socket.SHUT_WR)
last, rights, text = b"", [], b""
while not last.endswith(b"last"):
    text, control, *_ = a.recvmsg(65536, 1000)
    last, rights = last + text, rights + control
assert len(rights) == 1 and a.recv(1) == b"" and os.wait()[1] == 0
print(sent.hexdigest())
END
python3 pair.py >out; is "a pair of sockets, plain" "$(uniq out | wc -l)" 1
"$byway" run --private --explain-to explained -- python3 pair.py >out; is "a pair of sockets" "$? $(uniq out | wc -l)" "0 1"
has "a pair of sockets" "$(cat explained)" "socket: python3 -> python3"; has "a pair of sockets" "$(cat explained)" "bytes carried"
"$byway" run --private --forbid unix --explain-to explained -- python3 pair.py >out; is "--forbid unix" "$? $(uniq out | wc -l)" "0 1"
hasnt "--forbid unix" "$(cat explained)" "socket:"
"$byway" run --private --explain-to explained -- python3 -c '
import multiprocessing as m
def child(c):
    for i in range(3000): c.send_bytes(c.recv_bytes())
a, b = m.Pipe()
p = m.get_context("fork").Process(target=child, args=(b,)); p.start()
for i in range(3000):
    x = bytes([i % 256]) * (i % 5000); a.send_bytes(x); assert a.recv_bytes() == x
p.join(); print(p.exitcode)' >out; is "multiprocessing.Pipe" "$(cat out)" 0
has "multiprocessing.Pipe" "$(cat explained)" "socket: python3 -> python3"; has "multiprocessing.Pipe" "$(cat explained)" "bytes carried"
# An end that asks, and then writes no more, has its answer by the ring.
cat >half.py <<'END'
import os, socket
listener = socket.socket(socket.AF_UNIX)
listener.bind("half"); listener.listen()
if not os.fork():
    s = socket.socket(socket.AF_UNIX)
    s.connect("half")
    s.sendall(b"all of it")
    s.shutdown(socket.SHUT_WR)
    try:
        s.send(b"more")
    except BrokenPipeError:
        had = b""
        while part := s.recv(700):
            had += part
        os._exit(had != b"".join(bytes([i % 251]) * 1000 for i in range(4000)))
    os._exit(2)
s, _ = listener.accept()
assert s.recv(100) == b"all of it" and s.recv(100) == b""
for i in range(4000):
    s.sendall(bytes([i % 251]) * 1000)
s.close(); os.remove("half")
print(os.wait()[1])
END
is "an end that writes no more, plain" "$(python3 half.py)" 0
"$byway" run --private --explain-to explained -- python3 half.py >out; is "an end that writes no more" "$(cat out)" 0
has "an end that writes no more" "$(cat explained)" "bytes carried"

is "nothing left" "$(find /dev/shm -path "*byway-$(id -u)/*")" ""
echo "run: $passed passed, $failed failed"
[ $failed = 0 ]
