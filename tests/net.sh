#!/usr/bin/env bash
# The benchmarks of the network as a user has them: every case of each with checked bytes, here and between two namespaces,
# what is said of bad words, and that nothing is left: processes, namespaces, devices, folders.      usage: net.sh BYWAY
set -u
. "$(dirname "$0")/says.sh"
byway=$(realpath "$1")
work=$(mktemp -d)
started=()
trap 'for p in "${started[@]}"; do kill "$p" 2>/dev/null; done; rm -rf "$work"' EXIT
cd "$work" || exit 1
export TMPDIR=$work/tmp; mkdir "$TMPDIR"
bench() { timeout 120 "$byway" bench "$@" --runs 1; }
# How many rows of the record have a figure.
rows() { python3 -c 'import json; r = json.load(open("record")); print(sum(x["median"] > 0 for x in r["results"] if x["metric"] not in ("lost", "saturation", "carried")), "rows,", len(r.get("series", [])), "curves")'; }
names() { ls /run/netns 2>/dev/null | wc -l; ip -o link 2>/dev/null | grep -c veth; }
before=$(names)

# Every case with every way; bytes and counts are checked.
bench netpipe --quick -i -n 2 -p 3 -u 200000 --json record >out 2>err; is "netpipe" $? 0
is "netpipe's figures" "$(rows)" "90 rows, 80 curves"
has "netpipe's table" "$(cat out)" "byway-tcp"; has "netpipe's table" "$(cat out)" "carried, %"
is "netpipe: no line of 80 columns" "$(awk 'length > 79' out)" ""
has "netpipe's table" "$(cat out)" "byway-core"; has "netpipe's table" "$(cat out)" "mb_alloc"
bench netperf --quick --check -l 0.02 --json record >out 2>err; is "netperf" $? 0
# UNIX sockets have 10 rows for each backend, and where there are two CPUs again on one.
[ "$(nproc)" = 1 ] && all=34 || all=54
is "netperf's figures" "$(rows)" "$all rows, 0 curves"
has "netperf's table" "$(cat out)" "openSUSE (native)"
"$byway" report record -o page.html >out; has "netperf's page" "$(cat page.html)" "openSUSE (native)"
bench netperf --quick -l 1 --backend byway TCP_RR UDP_RR UNIX_STREAM-64 --json record >out 2>err; is "netperf's carried cases" $? 0
is "netperf's carried cases: carried" "$(python3 -c 'import json
print(*[x["median"] > 0 for x in json.load(open("record"))["results"] if x["metric"] == "carried"])')" "True True True"
# Not told to check, a case checks once; the path of its socket is in a folder that goes, however the measurement ends.
bench netperf --quick -l 0.02 --json record UNIX_STREAM-64k UNIX_CRR >out 2>err; is "netperf of UNIX sockets" $? 0
is "netperf of UNIX sockets: figures" "$(rows)" "6 rows, 0 curves"
for s in INT TERM; do
  "$byway" bench netperf --runs 1000 UNIX_CRR >out 2>err & p=$!
  for _ in $(seq 100); do ls "$TMPDIR"/byway-bench-netperf-*/socket >/dev/null 2>&1 && break; sleep 0.05; done
  is "a socket with a path" "$(ls "$TMPDIR"/byway-bench-netperf-*)" socket
  kill -$s $p; wait $p 2>/dev/null
  is "no socket is left after SIG$s" "$(ls "$TMPDIR")" ""
done
long=$TMPDIR/$(printf 'x%.0s' {1..100}); mkdir "$long"
TMPDIR=$long bench netperf UNIX_RR 2>err; is "a path that is too long" $? 2; has "a path that is too long" "$(cat err)" "set TMPDIR"
rmdir "$long"
bench netpipe --quick -s -u 1000 --backend pipe --json record >out 2>err; is "netpipe -s" $? 0
is "netpipe -s: one way" "$(rows)" "2 rows, 4 curves"

# A host that serves: clients one after the other, one that speaks otherwise, another beside it on the same port.
"$byway" bench --serve 127.0.0.1:0 >serving 2>served & server=$!; started+=($server)
for _ in $(seq 100); do grep -q serving serving && break; sleep 0.05; done
peer=$(sed -n 's/.*--peer \([0-9.:]*\)`.*/\1/p' serving)
has "only for this machine" "$(cat serving)" "only for this machine"
printf 'GET / HTTP/1.0\r\n\r\n.........................' | timeout 20 bash -c "exec 3<>/dev/tcp/${peer/:/\/}; cat >&3; cat <&3 >/dev/null"
bench netpipe --quick --peer "$peer" -i -n 2 -u 3000 --json record >out 2>err; is "netpipe --peer" $? 0
is "netpipe --peer: figures" "$(rows)" "10 rows, 16 curves"
bench netperf --quick --peer "$peer" --check -l 0.02 --json record >out 2>err; is "netperf --peer" $? 0
is "netperf --peer: figures" "$(rows)" "14 rows, 0 curves"
has "another client" "$(cat served)" "no client of this program"
timeout 20 "$byway" bench --serve "$peer" 2>err; is "port in use" $? 2; has "port in use" "$(cat err)" "in use; give another"
kill -TERM $server; wait $server 2>/dev/null; is "a signal ends it" $? 143; started=()
bench netpipe --peer "$peer" 2>err; is "nobody serves" $? 2; has "nobody serves" "$(cat err)" "bench --serve"
timeout 20 "$byway" bench --serve 192.0.2.9 2>err; is "a strange address" $? 2; has "a strange address" "$(cat err)" "no address of this machine"

# Two namespaces.
if [ "$(id -u)" = 0 ] && unshare -n true 2>/dev/null && command -v ip >/dev/null; then
  bench netpipe --quick --hosts veth -i -n 2 -u 3000 --json record >out 2>err; is "netpipe --hosts veth" $? 0
  is "netpipe --hosts veth: figures" "$(rows)" "10 rows, 16 curves"
  bench netperf --quick --hosts veth --check -l 0.02 --json record >out 2>err; is "netperf --hosts veth" $? 0
  is "netperf --hosts veth: figures" "$(rows)" "14 rows, 0 curves"
  setpriv --reuid 65534 --regid 65534 --clear-groups true 2>/dev/null && cp "$byway" "$work/byway" && chmod 755 "$work" "$work/byway" && {
    HOME=/ setpriv --reuid 65534 --regid 65534 --clear-groups "$work/byway" bench netperf --hosts veth 2>err; is "veth without root" $? 2
    has "veth without root" "$(cat err)" "run it as root"
  }
  [ -x /usr/sbin/vsftpd ] && { bench ftp --quick --hosts veth --size 5 get --json record >out 2>err; is "ftp --hosts veth" $? 0; is "ftp --hosts veth: figures" "$(rows)" "2 rows, 0 curves"; }
  for s in KILL TERM; do
    "$byway" bench netperf --hosts veth --runs 1000 TCP_RR >out 2>err & p=$!
    sleep 1; kill -$s $p; wait $p 2>/dev/null
  done
  PATH=/nonexistent bench netperf --hosts veth 2>err; is "no ip(8)" $? 127
  PATH=/nonexistent "$byway" bench netperf --hosts veth 2>err; is "no ip(8)" $? 2; has "no ip(8)" "$(cat err)" "iproute2"
else
  echo "skipped: no right to make network namespaces"
fi

# A real server: nothing is left of it, however the measurement ends.
if command -v curl >/dev/null && { command -v vsftpd >/dev/null || [ -x /usr/sbin/vsftpd ]; }; then
  bench ftp --quick --size 5 --json record >out 2>err; is "ftp" $? 0
  is "ftp's figures" "$(rows)" "4 rows, 0 curves"
  has "ftp's table" "$(cat out)" "FTP put"
  # Server and client are under one run, which knows why nothing was carried.
  has "ftp: not carried" "$(tr -s ' \n' ' ' <out)" "get (byway: vsftpd limits its address space)"
  for s in INT TERM KILL; do
    "$byway" bench ftp --size 50 --runs 1000 >out 2>err & p=$!
    sleep 1; kill -$s $p; wait $p 2>/dev/null
    # SIGKILL leaves the files: nothing can be done about that; but no process.
    [ $s = KILL ] && rm -rf "$TMPDIR"/byway-bench-ftp-*
  done
  "$byway" bench ftp --size 5 --runs 1 2>/dev/null | true
  for _ in $(seq 100); do pgrep -f "$TMPDIR" >/dev/null || break; sleep 0.05; done
  is "no server is left" "$(pgrep -f "$TMPDIR")" ""
  is "no folder is left" "$(ls "$TMPDIR")" ""
fi
PATH=$work bench ftp 2>/dev/null; is "timeout is not there either" $? 127
mkdir none; PATH=$work/none "$byway" bench ftp --peer 127.0.0.1 2>err; is "ftp --peer" $? 2; has "ftp --peer" "$(cat err)" "--hosts veth"
[ -x /usr/sbin/vsftpd ] || { PATH=$work/none "$byway" bench ftp 2>err; is "no vsftpd" $? 2; has "no vsftpd" "$(cat err)" "apt-get install vsftpd"; }
timeout 20 "$byway" bench ftp --size 900000 2>err; is "no room" $? 2

# Words that cannot be used.
for words in "netpipe nosuch|there are: block stream" "netpipe -u 999999999|or less" "netpipe -l 9 -u 8|no block between" \
  "netperf nosuch|UDP_STREAM TCP_STREAM" "netperf -m 70000 UDP_STREAM|1 to 65507 bytes" "netperf -l 0|0.01 to 60" \
  "netperf --backend ring|there are: kernel byway" "netperf --hosts moon|veth" "netpipe --peer no.such.host.invalid|no host" \
  "ftp --size 0|1..=1000000"; do
  # shellcheck disable=SC2086
  timeout 60 "$byway" bench ${words%%|*} >out 2>err; is "${words%%|*}" $? 2
  has "${words%%|*}" "$(cat err)" "${words##*|}"
done
timeout 20 "$byway" net-worker nonsense 2>err; is "a worker by hand" $? 2; has "a worker by hand" "$(cat err)" "bench --help"

for _ in $(seq 100); do [ "$(names)" = "$before" ] && break; sleep 0.05; done
is "no namespace, no device is left" "$(names)" "$before"
is "no worker is left" "$(pgrep -f "$byway net-worker")" ""
echo "$passed passed, $failed failed"
[ $failed = 0 ]
