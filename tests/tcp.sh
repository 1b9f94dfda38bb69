#!/usr/bin/env bash
# Which TCP connections are carried: those of one host, unless the run or the loopback interface says otherwise.
# A run goes on carrying after thousands of them.
#   usage: tcp.sh BYWAY
# Cases that need a network name space, or tc(8), are left out where these are not to be had, and that is said.
# Not here: what a carried connection does (conformance/tcp_*.c, the unix_*.c programs).
set -u
cd "$(dirname "$0")/.." || exit
B=$(realpath "$1")
. tests/carried.sh
cat >"$T/asks.py" <<'P'
import os, select, socket, sys
here = sys.argv[1]
listener = socket.create_server((here, 0), family=socket.AF_INET6 if ":" in here else socket.AF_INET)
def takes(s, n):
    had = b""
    while len(had) < n:
        select.select([s], [], [], 0)
        had += s.recv(n - len(had))
    return had
if not os.fork():
    s = socket.create_connection(listener.getsockname()[:2])
    for i in range(2000):
        s.sendall(bytes([i % 251]) * 500)
        assert takes(s, 3) == bytes([i % 249]) * 3
    os._exit(0)
s, _ = listener.accept()
for i in range(2000):
    assert takes(s, 500) == bytes([i % 251]) * 500
    s.sendall(bytes([i % 249]) * 3)
assert s.recv(1) == b""
assert os.wait()[1] == 0
P
asks=("$B" run --explain -- /usr/bin/python3 "$T/asks.py")
check "127.0.0.1" 1 "${asks[@]}" 127.0.0.1
[ ! -e /proc/net/if_inet6 ] || check "::1" 1 "${asks[@]}" ::1
own=$(hostname -I 2>/dev/null | cut -d' ' -f1)
[ -z "$own" ] || check "the host's own address" 1 "${asks[@]}" "$own"
check "--forbid tcp" 0 "$B" run --explain --forbid tcp -- /usr/bin/python3 "$T/asks.py" 127.0.0.1
# Where many came and went, one that stays is carried all the same, once they are fewer.
cat >"$T/brief.py" <<'P'
import socket, sys, time
listener = socket.create_server(("127.0.0.1", 0))
for i in range(500):
    one, (other, _) = socket.create_connection(listener.getsockname()), listener.accept()
    one.sendall(b"part")
    assert other.recv(4) == b"part"
    one.close()
    other.close()
time.sleep(0.1)
one, (other, _) = socket.create_connection(listener.getsockname()), listener.accept()
for i in range(2000):
    one.sendall(bytes([i % 251]) * 500)
    assert other.recv(500, socket.MSG_WAITALL) == bytes([i % 251]) * 500
P
check "one that stays, after many that were brief" 1 "$B" run --explain -- /usr/bin/python3 "$T/brief.py"
# Each connection is busy for a while, and the slots of those that are gone are free again: 9,000 need more than there are.
cat >"$T/many.py" <<'P'
import socket
listener = socket.create_server(("127.0.0.1", 0))
for i in range(9000):
    one, (other, _) = socket.create_connection(listener.getsockname()), listener.accept()
    for k in range(200):
        one.sendall(b"part" * 100)
        assert other.recv(400) == b"part" * 100
    one.close()
    other.close()
P
said=$("$B" run --private --explain -- /usr/bin/python3 "$T/many.py" 2>&1) || { echo "not ok  9,000 connections failed: $said"; bad=1; }
carried=$(sed -n 's/^byway: \([0-9]*\) of .*/\1/p' <<<"$said" | head -1)
[ "${carried:-0}" -gt 8000 ] && echo "ok      9,000 connections" || { echo "not ok  9,000 connections: $said"; bad=1; }
if unshare -rn true 2>/dev/null && command -v ip tc >/dev/null; then
  export B T
  inside() { unshare -rn sh -c 'ip link set lo up && eval "$1" && exec "$B" run --explain -- /usr/bin/python3 "$T/asks.py" 127.0.0.1' - "$1"; }
  check "in a network name space" 1 inside true
  check "a queueing discipline on the loopback interface" 0 inside 'tc qdisc add dev lo root pfifo limit 100'
else
  echo "left out: no network name space, or no ip(8) or tc(8)"
fi
exit $bad
