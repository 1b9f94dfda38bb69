#!/usr/bin/env bash
# Which datagrams of UDP are carried: those that stay on this host, unless the run, an option or the name space says otherwise.
#   usage: udp.sh BYWAY
# Cases that need a network name space, iptables(8) or tc(8) are left out where these are not to be had, and that is said.
# Not here: what a carried socket does (conformance/udp_calls.c, udp_random.c).
set -u
cd "$(dirname "$0")/.." || exit
B=$(realpath "$1")
. tests/carried.sh
# A server answers by its name; what comes is counted by it, and says who has sent it.
cat >"$T/asks.py" <<'P'
import os, select, socket, sys
here, how = sys.argv[1], sys.argv[2:]
family = socket.AF_INET6 if ":" in here else socket.AF_INET
def udp():
    s = socket.socket(family, socket.SOCK_DGRAM)
    if "reuseport" in how:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if "pktinfo" in how:
        s.setsockopt(socket.IPPROTO_IP, 8, 1)
    return s
port = int(os.environ.get("PORT", 0))
server = udp()
server.bind(("" if "wildcard" in how else here, port))
name = server.getsockname()[1]
if not os.fork():
    waits = None
    if "epoll" in how or "edge" in how:
        server.setblocking(False)
        waits = select.epoll()
        waits.register(server, select.EPOLLIN | (select.EPOLLET if "edge" in how else 0))
        waits.register(os.pipe()[0], select.EPOLLIN)
    i = 0
    while i < 12000:
        if waits:
            assert waits.poll() == [(server.fileno(), select.EPOLLIN)]
        try:
            while "edge" in how:
                what, by = server.recvfrom(4096)
                assert what == b"q%d " % i * 20, (what, i)
                server.sendto(b"a%d" % i, by)
                i += 1
        except BlockingIOError:
            continue
        what, by = server.recvfrom(4096)
        assert what == b"q%d " % i * 20, (what, i)
        server.sendto(b"a%d" % i, by)
        i += 1
    os._exit(0)
server.close()
c = udp()
to = (here, int(os.environ.get("TO", name)))
if "named" not in how:
    c.connect(to)
# Four at a time: on a busy machine a server that sleeps before each has nothing from a ring.
for k in range(0, 12000, 4):
    for i in range(k, k + 4):
        c.sendto(b"q%d " % i * 20, to) if "named" in how else c.send(b"q%d " % i * 20)
    for i in range(k, k + 4):
        what, by = c.recvfrom(100)
        assert what == b"a%d" % i and by[:2] == to, (what, by)
assert os.wait()[1] == 0
P
asks=("$B" run --explain -- /usr/bin/python3 "$T/asks.py")
check "127.0.0.1" 1 "${asks[@]}" 127.0.0.1
check "127.0.0.1, by its name" 1 "${asks[@]}" 127.0.0.1 named
check "127.0.0.1, of a server on every address" 1 "${asks[@]}" 127.0.0.1 wildcard
check "127.0.0.1, of a server that waits by epoll" 1 "${asks[@]}" 127.0.0.1 epoll
check "127.0.0.1, of a server that waits by epoll, by edge" 1 "${asks[@]}" 127.0.0.1 edge
[ ! -e /proc/net/if_inet6 ] || check "::1" 1 "${asks[@]}" ::1
own=$(hostname -I 2>/dev/null | cut -d' ' -f1)
[ -z "$own" ] || check "the host's own address" 1 "${asks[@]}" "$own"
check "--forbid udp" 0 "$B" run --explain --forbid udp -- /usr/bin/python3 "$T/asks.py" 127.0.0.1
check "SO_REUSEPORT" 0 "${asks[@]}" 127.0.0.1 reuseport
check "IP_PKTINFO" 0 "${asks[@]}" 127.0.0.1 pktinfo
# Two runs side by side: each server is its own client's.
"${asks[@]}" 127.0.0.1 >"$T/one" 2>&1 & one=$!
check "two runs" 1 "${asks[@]}" 127.0.0.1
wait $one || { echo "not ok  two runs: the other failed"; bad=1; }
# A socket for each question: none lives long enough, and all are answered.
cat >"$T/short.py" <<'P'
import os, socket
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 0))
if not os.fork():
    while (got := server.recvfrom(100))[0] != b"end":
        server.sendto(*got)
    os._exit(0)
for i in range(3000):
    c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    c.sendto(b"%d" % i, server.getsockname())
    assert c.recv(100) == b"%d" % i
    c.close()
c = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
c.sendto(b"end", server.getsockname())
assert os.wait()[1] == 0
P
"$B" run -- /usr/bin/python3 "$T/short.py" && echo "ok      short sockets" || { echo "not ok  short sockets"; bad=1; }
if unshare -rn true 2>/dev/null && command -v ip tc >/dev/null; then
  export B T
  inside() { # what is set up, arguments
    unshare -rn sh -c 'ip link set lo up && eval "$1" && shift && exec "$B" run --explain -- /usr/bin/python3 "$T/asks.py" "$@"' - "$@"
  }
  check "in a network name space" 1 inside true 127.0.0.1
  # LINUX: what two CPUs put into one discipline may come in another order, on the plain kernel too.
  qdisc='tc qdisc add dev lo root pfifo limit 100 && taskset -pc "$(taskset -pc $$ | sed "s/.*: //; s/[-,].*//")" $$ >/dev/null'
  check "a queueing discipline on the loopback interface" 0 inside "$qdisc" 127.0.0.1
  # What is sent to one port comes to another.
  nat='iptables -t nat -A OUTPUT -p udp --dport 7001 -j REDIRECT --to-ports 7002 2>/dev/null && export PORT=7002 TO=7001'
  if unshare -rn sh -c "ip link set lo up && $nat" 2>/dev/null; then
    check "names that are translated" 0 inside "$nat" 127.0.0.1
  else
    echo "left out: no iptables(8)"
  fi
else
  echo "left out: no network name space, or no ip(8) or tc(8)"
fi
exit $bad
