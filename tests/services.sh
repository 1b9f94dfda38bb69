#!/usr/bin/env bash
# `byway bench services` as a user has it: every service that is installed, plain and under `byway run`; what is said of
# one that is not, or that fails; and that nothing is left: processes, folders, names in /dev/shm.
# usage: services.sh BYWAY
set -u
. "$(dirname "$0")/says.sh"
byway=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
# PostgreSQL's user has to come through.
chmod 711 "$work"; export TMPDIR=$work/tmp; mkdir -m 755 "$TMPDIR"
limit=$(command -v timeout)
services() { "$limit" 240 "$byway" bench services --quick "$@"; }
# A path of these programs alone.
only() { rm -rf few; mkdir few; for p; do ln -s "$(command -v "$p")" few/; done; }
left() {
  for _ in $(seq 100); do pgrep -f "$TMPDIR" >/dev/null || [ -n "$(ls "$TMPDIR")" ] || break; sleep 0.05; done
  is "$1: no process is left" "$(pgrep -af "$TMPDIR")" ""
  is "$1: no folder is left" "$(ls "$TMPDIR")" ""
}
# But for the folder of this user's runs, which others may make and remove meanwhile.
shm() { ls /dev/shm | grep -E "^(PostgreSQL|byway-)" | grep -vx "byway-$(id -u)"; }
shm=$(shm)

# Each case has a row for each backend and metric, unless its programs are not here; answers are compared in every run.
if services --runs 1 --json record >out 2>err; then
  is "services: rows" "$(python3 -c 'import json
r = json.load(open("record"))
rows = {(x["case"], x["backend"], x["metric"]) for x in r["results"] if x["median"] > 0 and x["metric"] != "carried"}
here = [e["case"] for e in r["ended"]]
missing = " ".join(n for n in r["notes"] if n.startswith("left out"))
cases = "redis-1 redis-50 redis-50x16 memcached-50 postgres-1 postgres-8 nginx-8".split()
want = {(c, b, m) for c in here for b in ("kernel", "byway") for m in (("get", "set") if c.startswith("redis") else ("rate",))}
print(rows == want, all(c in here or c in missing for c in cases), r.get("faults", []))')" "True True []"
  is "services: no line of 80 columns" "$(awk 'length > 79' out)" ""
  "$byway" bench compare record record --fail-on-regression 0 >out; is "services: compared with itself" $? 0
  "$byway" report record -o page.html >out; is "services: report" $? 0; has "services: report" "$(cat page.html)" "services"
else
  # None is installed.
  has "services: none" "$(cat err)" "apt-get install"
fi
left "all"

# The original tools, the quickest cases: those that are here have both rows, the others are named with their package.
tools="nptcp-1 iperf3-32k sockperf-tcp wrk-8 netperf-tcp_rr"
# shellcheck disable=SC2086
if "$limit" 120 "$byway" bench originals --quick --runs 1 --json record $tools >out 2>err; then
  is "originals: rows" "$(python3 -c 'import json, sys
r = json.load(open("record")); notes = " ".join(r["notes"])
for c in sys.argv[1:]:
    rows = [w["backend"] for w in r["results"] if w["case"] == c and w["metric"] != "carried" and w["median"] > 0]
    here = rows == ["kernel", "byway"] and [q["ratio"] > 0 for q in r["ratios"] if q["case"] == c] == [True]
    if here == (c in notes.split("left out: ")[-1].split("apt-get")[0]) and "left out" in notes: print(c, rows)
print("fine" if not r.get("faults") else r["faults"])' $tools)" fine
  is "originals: no line of 80 columns" "$(awk 'length > 79' out)" ""
else
  has "originals: none" "$(cat err)" "apt-get install"
fi
left "originals"
# netperf as far as what it is told and says: two programs in its place, which answer as it does.
only sh cat rm sleep python3
printf '#!/usr/bin/env python3\nimport socket, sys\ns = socket.create_server(("127.0.0.1", int(sys.argv[sys.argv.index("-p") + 1])))\nwhile True: s.accept()\n' >few/netserver
printf '#!/bin/sh\necho "$*" >>%s/told\necho "1236.00  "\n' "$work" >few/netperf; chmod +x few/netserver few/netperf
PATH=$work/few:$PATH "$byway" bench originals --quick --runs 1 netperf-tcp_rr netperf-tcp_stream >out 2>err; is "netperf in its place" $? 0
has "netperf in its place" "$(tr -s ' ' <out)" "netperf-tcp_rr byway rate 1236 1/s"
has "netperf: told" "$(cat told)" "-t TCP_STREAM -- -m 32768 -s 65500,65500 -S 65500,65500"
printf '#!/bin/sh\necho "no such test"\n' >few/netperf
PATH=$work/few:$PATH "$byway" bench originals --quick --runs 1 netperf-tcp_rr >out 2>err; is "netperf that says something else" $? 1
has "netperf that says something else" "$(tr -s ' \n' ' ' <out)" 'which this version cannot read'
PATH=$work/few "$byway" bench originals --quick nptcp-1 2>err; is "no NPtcp" $? 2
has "no NPtcp" "$(cat err)" "NPtcp is not installed; on Debian, as root: apt-get install netpipe-tcp"
left "tools in their places"

# A service that is not here, or fails: the others are measured.
only sh cat rm sleep
PATH=$work/few services --runs 1 redis-1 memcached-50 >out 2>err; is "no program" $? 2
has "no program" "$(cat err)" "redis-1: redis-server is not installed; on Debian, as root: apt-get install redis-server redis-tools"
printf '#!/bin/sh\necho broken on purpose\nexit 3\n' >few/memcached; chmod +x few/memcached
PATH=$work/few services --runs 1 redis-1 memcached-50 >out 2>err; is "a service that fails" $? 1
has "a service that fails" "$(tr -s ' \n' ' ' <out)" 'FAULT: memcached-50: kernel: memcached does not start (exit status: 3): "broken on purpose"'
has "a service that fails" "$(cat out)" "left out: redis-1"
left "a service that fails"
services nosuch 2>err; is "no such case" $? 2; has "no such case" "$(cat err)" "there are: redis-1"
long=$TMPDIR/$(printf 'x%.0s' {1..100}); mkdir "$long"
only sh cat rm sleep; cp /bin/true few/memcached
PATH=$work/few TMPDIR=$long "$byway" bench services memcached-50 2>err; is "a path that is too long" $? 2
has "a path that is too long" "$(cat err)" "set TMPDIR"
rmdir "$long"
timeout 20 "$byway" service-worker nonsense 2>err; is "a worker by hand" $? 2; has "a worker by hand" "$(cat err)" "bench --help"

# However it ends, nothing is left.
for c in redis-50 memcached-50 postgres-8 nginx-8; do
  "$byway" bench services --quick --runs 1 "$c" >out 2>err || continue
  for s in INT TERM KILL; do
    "$byway" bench services --runs 1000 "$c" >out 2>err & p=$!
    for _ in $(seq 200); do [ -e "$(echo "$TMPDIR"/*/*/run)" ] && break; sleep 0.05; done
    sleep 0.3; kill -$s $p; wait $p 2>/dev/null; status=$?
    [ $s = KILL ] || is "$c: status after SIG$s" $status 130
    left "$c after SIG$s"
  done
done
"$byway" bench services --quick --runs 1 2>/dev/null | true; left "nobody reads"
is "nothing in /dev/shm" "$(shm)" "$shm"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
