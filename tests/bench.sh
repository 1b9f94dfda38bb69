#!/usr/bin/env bash
# `byway bench` as its users see it: what it says of bad input, records and baselines and what comes of comparing them,
# Ctrl-C, pipes without colours.      usage: bench.sh BYWAY
set -u
. "$(dirname "$0")/says.sh"
byway=$(realpath "$1") here=$(realpath "$(dirname "$0")")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work"
export XDG_DATA_HOME=$work/data
refused() { # what is said, words of bench
  local said=$1; shift
  "$byway" bench "$@" >out 2>err; is "bench $*" $? 2; has "bench $*" "$(cat err)" "$said"; is "bench $*: no table" "$(cat out)" ""
}

refused "unrecognized" nosuchworkload
refused "there are: spin sleep" lat-pipe nosuchcase
refused "or less" lat-pipe --cpus 60000
refused "there are:" lat-pipe --pin 99999
refused "seconds" lat-pipe --time 0
refused "percent" lat-pipe --width 0
refused "such as 50,95" lat-pipe --percentiles 101
refused "not a name" lat-pipe --save-baseline ../x
refused "make one with --save-baseline" lat-pipe --baseline nosuch
refused "--fail-on-regression" compare a b --fail-on-regression=-1
refused "nosuchfile" compare nosuchfile nosuchfile
echo '{"schema": 7}' >seven; refused "schema 7" compare seven seven
echo 'no' >no; refused "--json FILE" compare no no

refused "give --baseline NAME" lat-pipe --fail-on-regression 5
refused "make one with --save-baseline" seeds --quick --baseline nosuch
refused "give --out DIR" seeds --json x
refused "there are: fifo grep" seeds nosuch
refused "--out a place" seeds --quick --out /proc/none lat-pipe
# What cannot be written, and what has no room, is refused before anything is measured or made.
mkdir -p records/lat-pipe.json
refused "--json a place" lat-pipe --quick --json /proc/none
refused "--json a place" lat-pipe --quick --json records
refused "--csv a place" lat-pipe --quick --csv /proc/none
refused "--out a place" seeds --quick --out records lat-pipe
XDG_DATA_HOME=/proc refused "set XDG_DATA_HOME" lat-pipe --quick --save-baseline main
"$byway" demo --json /proc/none wc >out 2>err; is "demo --json" $? 2; has "demo --json" "$(cat err)" "--json a place"; is "demo --json: no table" "$(cat out)" ""
"$byway" report nosuch -o /proc/none >out 2>err; is "report -o" $? 2; has "report -o" "$(cat err)" "give -o a place"
"$byway" bench lat-pipe --quick spin --time nan --json keep >out 2>err; is "refused for another reason" "$(ls keep 2>/dev/null)" ""
mkdir temporary
for what in "demo --size 1000000" "demo --size 18446744073709551615" "bench pipeline --size 1000000 wc"; do
  # shellcheck disable=SC2086
  TMPDIR=$work/temporary timeout 60 "$byway" $what >out 2>err; is "$what" $? 2; has "$what" "$(cat err)" "give a smaller --size"
  is "$what: nothing made" "$(ls temporary)" ""
done

# What is measured as carried must be: its workers are this program.
has "doctor of itself" "$("$byway" doctor -- "$byway")" "ok  it can take part"

# A record, its samples, its table.
quick() { "$byway" bench lat-pipe --quick spin "$@"; }
quick --runs 5 --json a.json --csv a.csv --percentiles 50,99 --save-baseline main >out 2>err; is "bench" $? 0
is "bench: nothing on standard error" "$(cat err)" ""
has "bench: how it ended" "$(cat out)" "the rounds were spent in spin (5)"
has "bench: both definitions" "$(cat out)" "50 % more throughput"
has "bench: overhead" "$(cat out)" "harness:"
is "no colours into a pipe" "$(grep -c $'\x1b' out)" 0
is "no line of 80 columns" "$(awk 'length > 79' out | grep -v baseline)" ""
is "csv" "$(wc -l <a.csv)" 46
has "csv" "$(sed -n 2p a.csv)" "lat-pipe,spin,byway-preload,round_trip,us,0,0,"
is "json on standard output" "$(quick --runs 1 --json - 2>/dev/null | head -2 | tail -1)" '  "schema": 2,'

# Every workload between two processes has its backends, on all CPUs as on one; no figure is looked at.
backends() { python3 -c 'import json, sys
r = json.load(open(sys.argv[1])); rows = [w for w in r["results"] if w["case"] == sys.argv[2] and w["statistic"] == "median"]
print(*[w["backend"] for w in rows if w["median"] > 0 and w["n"] > 0])' "$@"; }
pipes="auto base base-4k lp zc lp+zc kernel-64k kernel-1m vmsplice memcpy"
# The backends that BACKEND is compared with, in each of the cases that were measured.
compared() { # record, backend
  python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))
over = {c: " ".join(q["over"] for q in r["ratios"] if q["case"] == c and q["backend"] == sys.argv[2] and q["ratio"] > 0) for c in dict.fromkeys(w["case"] for w in r["results"])}
print(len(over), *set(over.values()), sep=": ")' "$@"; }
once() { # case, backends, words of bench
  local case=$1 wanted=$2; shift 2
  "$byway" bench "$@" --quick --runs 1 --json once.json "$case" >out 2>err; is "bench $*" $? 0; is "bench $*: nothing on standard error" "$(cat err)" ""
  is "bench $*: backends" "$(backends once.json "$case")" "$wanted"; is "bench $*: no line of 80 columns" "$(awk 'length > 79' out)" ""
}
for cpus in "" "--cpus 1"; do
  once 64x1000 "byway-preload byway-core kernel-fifo unix-socket" fifo $cpus; has "fifo: of how many runs" "$(cat out)" "means of 2 runs; the source's are of 100"
  once 6144 "$pipes" bw-pipe $cpus; has "bw-pipe: every published size" "$(cat out)" "published: Linux 2.5"; has "bw-pipe: over a page" "$(cat out)" "% over base-4k"
  once 65536 "$pipes" pipeflex $cpus
  once 50MB "$pipes" grep $cpus
  for case in spin sleep; do once $case "byway-preload byway-core base lp zc lp+zc kernel kernel-1m vmsplice" lat-pipe $cpus; done
done
has "lat-pipe: over base" "$(cat out)" "lat-pipe, 1 CPU: % over base"
# Every ratio that the README and the documents speak of, of every size, also where a size has only a second.
"$byway" bench bw-pipe --quick --json all.json >out 2>err; is "bw-pipe --quick" $? 0
for b in auto lp zc lp+zc; do is "bw-pipe --quick: $b over" "$(compared all.json $b)" "10: kernel-64k kernel-1m base base-4k memcpy"; done
has "bw-pipe --quick: over the bound" "$(cat out)" "times as fast as memcpy"
is "bw-pipe --quick: sizes with a bound" "$(awk '/times as fast as memcpy/ { t = NR } t && NR > t + 1 && NF == 6 && $1 ~ /^[0-9]+$/' out | wc -l)" 10
is "bw-pipe --quick: no line of 80 columns" "$(awk 'length > 79' out)" ""
# What stands for cat gives all of a file, and what copies it says so.
seq 200000 >text; "$byway" pair-worker give "$PWD/text" | cmp - text; is "what is given" "${PIPESTATUS[*]}" "0 0"
"$byway" pair-worker copy /nonexistent >out 2>err; is "a copy of nothing" $? 2; has "a copy of nothing" "$(cat err)" "pair-worker: No such file"

# Where nobody asks for less a cell has the runs of the source, and where somebody does it says so.
"$byway" bench fifo 64x100 --width 100 --json hundred.json >out 2>err; is "fifo as it is" $? 0
is "fifo as it is: runs" "$(python3 -c 'import json; print(min(r["n"] for r in json.load(open("hundred.json"))["results"]) >= 100)')" True
"$byway" bench fifo 64x100 --time 0.1 >out 2>err; is "fifo in no time" $? 0; has "fifo in no time" "$(cat out)" "note: means of fewer than 100 runs"
"$byway" bench fifo 64x100 --time 0.1 --quiet >out 2>err; is "--quiet" "$? $(cat err)" "0 "
has "--quiet: the table" "$(cat out)" "4096B"; is "--quiet: the table alone" "$(grep -cE '^(note|warning|ended|harness):' out)" 0

# Comparing. The same record is no regression; one made three times as slow is. What is compared has the measured medians,
# but rounds of a steady machine: on one that is not, three times as slow can be chance, and is then no regression.
"$byway" bench compare a.json a.json --fail-on-regression 0 >out; is "compare with itself" $? 0
has "compare with itself" "$(cat out)" "0 worse"
python3 - <<'P'
import json
def steady(k, to, **parameters):
    r = json.load(open("a.json"))
    r["parameters"] |= parameters
    for row in r["results"]:
        row["median"] *= k
        row["samples"] = [[row["median"] * (1 + i / 100)] for i in range(-2, 3)]
    json.dump(r, open(to, "w"))
steady(1, "steady.json"); steady(3, "slow.json"); steady(3, "other.json", trips=1)
# What is measured next is faster than the slowest, whatever the machine does meanwhile.
steady(1e4, "slowest.json")
P
"$byway" bench compare steady.json slow.json >out; is "compare without a threshold" $? 0; has "compare" "$(cat out)" "WORSE"
"$byway" bench compare steady.json slow.json --fail-on-regression 10 >out; is "a regression" $? 1
"$byway" bench compare slow.json steady.json --fail-on-regression 10 >out; is "an improvement" $? 0; has "an improvement" "$(cat out)" "better"
refused "trips (2000, then 1)" compare steady.json other.json
"$byway" bench compare steady.json other.json --despite trips >out; is "despite" $? 0
"$byway" bench compare steady.json slow.json --despite 2>err >out; is "despite nothing" $? 2
cp slowest.json data/byway/baselines/main/lat-pipe.json
quick --runs 5 --baseline main --fail-on-regression 10 >out; is "better than a baseline" $? 0; has "baseline" "$(cat out)" "verdict"

# The start of processes: CPU and wall time of both sides in each case; what is not here is named and left out.
"$byway" bench start --quick --runs 1 --json start.json >out 2>err; is "start" $? 0; is "start: nothing on standard error" "$(cat err)" ""
is "start: no line of 80 columns" "$(awk 'length > 79' out)" ""
is "start: rows, counts" "$(python3 -c 'import json
r = json.load(open("start.json")); notes = " ".join(r["notes"])
for c in r["parameters"]:
    rows = {w["metric"] + " " + w["backend"] for w in r["results"] if w["case"] == c and w["median"] > 0}
    all = {m + " " + b for m in ("cpu", "wall") for b in ("kernel", "byway")} <= rows
    if all == (f"left out: {c}: " in notes) or all and {q["metric"] for q in r["ratios"] if q["case"] == c} != {"cpu", "wall"}: print(c, rows)
n = {w["backend"]: w["samples"] for w in r["results"] if w["metric"] == "system_calls"}
# A process that takes part makes more calls; one that starts without the library, as `true` may, makes as many (ADR 33).
print("fine" if "left out: the system calls" in notes or len({str(s) for s in n["kernel"]}) == 1 and n["kernel"] <= n["byway"] else n)')" fine
"$byway" bench compare start.json start.json --fail-on-regression 0 >out; is "start: compared with itself" $? 0
"$byway" report start.json -o start.html >out; is "start: report" $? 0; has "start: report" "$(cat start.html)" "true-loop"
mkdir few; for p in bash true; do ln -s "$(type -P $p)" few/; done
PATH=$work/few "$byway" bench start --quick --runs 1 --json few.json true-loop node-e >out 2>err; is "start without node" $? 0
has "start without node" "$(cat out)" "left out: node-e: node is not on the PATH; install it"
is "start without node: cases" "$(python3 -c 'import json; r = json.load(open("few.json")); print(*[e["case"] for e in r["ended"]], [n for n in r["notes"] if "node" in n])')" \
  "true-loop ['left out: node-e: node is not on the PATH; install it']"
PATH=$work/few "$byway" bench start --quick node-e >out 2>err; is "start of nothing" $? 2; has "start of nothing" "$(cat err)" "node is not on the PATH"

# Readers that poll: both sides in each case; what this machine cannot run is named and left out.
"$byway" bench ready --quick --runs 1 --json ready.json >out 2>err; is "ready" $? 0; is "ready: nothing on standard error" "$(cat err)" ""
is "ready: no line of 80 columns" "$(awk 'length > 79' out)" ""
is "ready: rows" "$(python3 -c 'import json
r = json.load(open("ready.json")); notes = " ".join(r["notes"])
cases = "poll-stream-64 poll-stream-64k epoll-rtt epoll-asleep epoll-10 epoll-1000 epoll-1-of-10 epoll-10000 epoll-plain node-child asyncio-child".split()
for c in cases:
    rows = [(w["backend"], w["unit"]) for w in r["results"] if w["case"] == c and w["median"] > 0]
    unit = "us" if c in ("epoll-rtt", "epoll-asleep") else "1/s" if c.startswith("epoll") else "MB/s"
    here = rows == [("byway", unit), ("kernel", unit)] and [q["over"] for q in r["ratios"] if q["case"] == c] == ["kernel"]
    if here == (f"left out: {c}: " in notes): print(c, rows)
# There is nothing to carry, and nothing is said of it.
print("fine" if "epoll-plain: byway carried" not in notes else notes)')" fine
once epoll-rtt "byway kernel" ready --cpus 1
"$byway" bench compare ready.json ready.json --fail-on-regression 0 >out; is "ready: compared with itself" $? 0
"$byway" report ready.json -o ready.html >out; is "ready: report" $? 0; has "ready: report" "$(cat ready.html)" "asyncio-child"
PATH=$work/few "$byway" bench ready --quick --runs 1 epoll-10 node-child >out 2>err; is "ready without node" $? 0
has "ready without node" "$(cat out)" "left out: node-child: node is not on the PATH; install it"
# Root may raise its limits, but for this.
meek=; [ "$(id -u)" != 0 ] || meek="setpriv --inh-caps=-sys_resource --bounding-set=-sys_resource"
(ulimit -n 1000; $meek "$byway" bench ready --quick epoll-10000 >out 2>err); is "ready with few descriptors" $? 2
has "ready with few descriptors" "$(cat err)" "it needs 15064 descriptors, more than RLIMIT_NOFILE allows"

# Seeds: a record of each workload, the published table beside it, a page of the folder.
"$byway" bench seeds --quick --time 2 --out all grep >out 2>err; is "seeds" $? 0
has "seeds" "$(cat out)" "published: Linux 2.5, other machine"; is "seeds: no line of 80 columns" "$(awk 'length > 79' out)" ""
"$byway" report all -o page.html >out; is "report" $? 0; has "report" "$(cat out)" "page.html: 1 records"
is "report: nothing beside it" "$(ls page.html*)" "page.html"

# As `make install` has it: each workload finds its programs; one that lacks them, or fails, does not take the others along.
if [ -e "$(dirname "$byway")/libbyway.a" ]; then
  make -s -C "$here/.." install PREFIX="$work/there" BUILT="$(dirname "$byway")" >out 2>err; is "install" $? 0
  seeds() { rm -rf some; "$work/there/bin/byway" bench seeds --quick --time 1 --out some mbuf lat-pipe >out 2>err; }
  seeds; is "seeds, installed" $? 0; is "seeds, installed: records" "$(ls some | tr '\n' ' ')" "lat-pipe.json mbuf.json "
  printf '#!/bin/sh\nexit 1\n' >there/lib/byway/byway-mimalloc
  seeds; is "seeds with a broken program" $? 2; is "seeds with a broken program: records" "$(ls some)" "lat-pipe.json"
  has "seeds with a broken program" "$(cat err)" "mbuf could not be measured"
  rm there/lib/byway/byway-mimalloc
  seeds; is "seeds without a program" $? 0; is "seeds without a program: records" "$(ls some)" "lat-pipe.json"
  has "seeds without a program" "$(cat out)" "left out: byway-mimalloc is not in"
else
  echo "skipped: the libraries for \`make install\` are not built"
fi
# A folder of this name beside us is not the Python package.
mkdir byway; "$byway" bench native --quick --runs 1 python-64 >out 2>err
is "a clone beside us" "$(grep -c Traceback err)" 0; rmdir byway

# What native would be compared with and is not here is named with its remedy before anything is measured.
mkdir alone broken; cp "$byway" alone/; echo >broken/libzmq.so.5; printf '#!/bin/sh\nexit 1\n' >alone/python3; chmod +x alone/python3
native() { LD_LIBRARY_PATH=$work/broken PATH=$work/alone:$PATH "$work/alone/byway" bench native --quick --runs 1 oneway-64 python-64 >out 2>err; }
missing() { # what
  local said; said=$(sed '/^case /,$d' out | tr -s ' \n' ' ')
  has "$1: iceoryx2" "$said" "left out: byway-iceoryx2 is not in $work/alone; build it with \`make comparators\`"
  has "$1: ZeroMQ" "$said" "left out: libzmq.so.5 is not here, or not of 4.3; install it (Debian: apt-get install libzmq5)"
  has "$1: Python" "$said" "left out: python3 is not on the PATH, or does not run; install it"
  has "$1: the wheel" "$said" "left out: python3 cannot import byway; install the wheel into an environment of your own"
}
native; is "native alone" $? 0; missing "native alone"; is "native alone: rows" "$(awk '$1 == "oneway-64" { print $2 }' out | paste -sd ' ')" "byway unix kernel-pipe"
is "native alone: no line of 80 columns" "$(awk 'length > 79' out)" ""
# Where nothing is measured at all they are named as well.
BYWAY=off native; is "native, which may not begin" $? 2; missing "native, which may not begin"; is "native, which may not begin: rows" "$(grep -c '^oneway' out)" 0

# Ctrl-C: the first keeps what is complete, says so, and leaves no child; the record is partial.
"$byway" bench lat-pipe --quick --time 600 --width 0.01 --json partial.json >out 2>err & p=$!
for _ in $(seq 100); do pgrep -P $p >/dev/null && break; sleep 0.05; done
sleep 4; kill -INT $p; wait $p; is "Ctrl-C" $? 130
has "Ctrl-C" "$(cat out)" "PARTIAL"; has "Ctrl-C" "$(cat out)" "interrupted in spin"
has "Ctrl-C: the record" "$(cat partial.json)" '"partial": true'
has "Ctrl-C: what is complete" "$(cat partial.json)" '"backend": "kernel"'
"$byway" bench mbuf --quick burst >out 2>err & p=$!
sleep 1; kill -INT $p; wait $p; is "Ctrl-C before there is anything" $? 130; has "Ctrl-C early" "$(cat out)" "interrupted in burst (0)"
"$byway" bench pipeline --size 50 --time 600 sort >out 2>err & p=$!
sleep 2; kill -INT $p; wait $p; is "Ctrl-C in a pipeline" $? 130
"$byway" bench start --time 600 configure >out 2>err & q=$!
sleep 2; kill -INT $q; wait $q; is "Ctrl-C in configure" $? 130
sleep 0.3; is "no children left" "$(pgrep -f "$byway (bench|pair-worker|run)")" ""
is "no files left" "$(find "${TMPDIR:-/tmp}" -maxdepth 1 \( -name "byway-demo-$p*" -o -name "byway-start-$q*" \))" ""

echo "bench: $passed passed, $failed failed"
[ $failed = 0 ]
