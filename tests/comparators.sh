#!/usr/bin/env bash
# `byway bench native` beside other libraries: every backend has its rows, who is not here is named with the remedy, and
# nothing is left behind, whoever is killed.      usage: comparators.sh BYWAY [ENVIRONMENT OF PYTHON, as python.sh makes it]
set -u
. "$(dirname "$0")/says.sh"
cd "$(dirname "$0")/.."
built=$(dirname "$(realpath "$1")") env=${2:-${CARGO_TARGET_DIR:-$PWD/target}/python-env}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
iceoryx2=${built%/*}/tests/byway-iceoryx2 byway=$work/both/byway
[ -x "$iceoryx2" ] || { echo "comparators: no $iceoryx2; try: cargo build --profile tests --package byway-iceoryx2 --features iceoryx2"; exit 1; }
mkdir "$work/both" && cp "$1" "$iceoryx2" "$work/both/"
native() { timeout 300 "$byway" bench native --quick "$@"; }
left() { find /dev/shm -maxdepth 1 -name 'byway-bench-*'; ls -d /tmp/iceoryx2 2>/dev/null; }
before=$(left)

# Nothing of theirs is in ours.
is "libraries of byway" "$(ldd "$byway" "$built/libbyway_preload.so" | grep -c zmq)" 0
is "packages of byway" "$(cargo tree --offline --locked -q -p byway-cli -e normal | grep -c iceoryx2)" 0

# Every case with every backend.
python=oneway-64
[ -x "$env/bin/python3" ] && "$env/bin/python3" -c 'import byway' 2>/dev/null && python="python-64 python-1m"
[ "$python" = oneway-64 ] && echo "comparators: the cases of Python are not tested: tests/python.sh makes their environment"
# shellcheck disable=SC2086
PATH=$env/bin:$PATH native --runs 2 --json "$work/a.json" oneway-64 rtt-spin oneway-64k oneway-1m wake-sleep $python >"$work/out" 2>"$work/err"; is "bench native" $? 0
is "nothing on standard error" "$(cat "$work/err")" ""
is "no line of 80 columns" "$(awk 'length > 79' "$work/out")" ""
python3 - "$work/a.json" "$python" >"$work/rows" <<'P'
import json, sys
r = json.load(open(sys.argv[1]))
ends = ["byway", "iceoryx2", "zeromq"]
large = ["byway", "byway-copy", "iceoryx2", "zeromq"]
wanted = {
    "oneway-64": ends + ["unix", "kernel-pipe"],
    "rtt-spin": ends + ["unix", "kernel-pipe", "limit"],
    "oneway-64k": large + ["unix", "kernel-pipe", "limit"],
    "oneway-1m": large + ["kernel-pipe", "limit"],
    "wake-sleep": ["byway", "byway-records", "iceoryx2", "zeromq", "unix", "kernel-pipe", "eventfd"],
}
if "python" in sys.argv[2]:
    wanted["python-64"] = ["byway", "multiprocessing"]
    wanted["python-1m"] = ["byway", "byway-copy", "multiprocessing"]
got, over = {}, {}
for row in r["results"]:
    got.setdefault(row["case"], []).append(row["backend"])
    if not (row["median"] > 0 and row["n"] == 2 and row["ci95"][0] <= row["median"] <= row["ci95"][1]):
        print("row", row)
for q in r["ratios"]:
    over.setdefault(q["case"], []).append(q["over"])
    if not q["ratio"] > 0 or q["backend"] != "byway":
        print("ratio", q)
if got != wanted:
    print("rows", got)
if over != {c: b[1:] for c, b in wanted.items()}:
    print("ratios", over)
if r.get("faults"):
    print("faults", r["faults"])
P
is "rows" "$(cat "$work/rows")" ""

# Who is not here is named, with the remedy, and the others run.
mkdir "$work/alone" "$work/broken" && cp "$byway" "$work/alone/" && echo >"$work/broken/libzmq.so.5"
"$work/alone/byway" bench native --quick --runs 1 oneway-64 >"$work/out" 2>&1; is "without iceoryx2" $? 0
has "without iceoryx2" "$(tr -s ' \n' ' ' <"$work/out")" "left out: byway-iceoryx2 is not in $work/alone; build it with \`make comparators\`"
is "without iceoryx2: rows" "$(awk '$1 == "oneway-64" { print $2 }' "$work/out" | paste -sd ' ')" "byway zeromq unix kernel-pipe"
LD_LIBRARY_PATH=$work/broken native --runs 1 oneway-64 >"$work/out" 2>&1; is "without ZeroMQ" $? 0
has "without ZeroMQ" "$(tr -s ' \n' ' ' <"$work/out")" "left out: libzmq.so.5 is not here, or not of 4.3; install it (Debian: apt-get install libzmq5)"
is "without ZeroMQ: rows" "$(awk '$1 == "oneway-64" { print $2 }' "$work/out" | paste -sd ' ')" "byway iceoryx2 unix kernel-pipe"
PATH=/nonexistent /usr/bin/timeout 60 "$byway" bench native --quick python-64 >"$work/out" 2>&1; is "without Python" $? 2
has "without Python" "$(cat "$work/out")" "python3 cannot import byway; install the wheel"
printf '#!/bin/sh\nexit 1\n' >"$work/alone/python3"; chmod +x "$work/alone/python3"
PATH=$work/alone:$PATH native --runs 1 oneway-64 python-64 >"$work/out" 2>&1; is "without the wheel" $? 0
has "without the wheel" "$(tr -s ' \n' ' ' <"$work/out")" "left out: python3 cannot import byway; install the wheel"
is "without the wheel: rows" "$(grep -c '^python-64' "$work/out")" 0

# Whoever is killed, nobody and nothing is left. The pair of a run of iceoryx2's is stopped where it has made its files, so
# that it is still there when somebody is killed.
begin() { # starts a measurement: $lab; its program that iceoryx2 is in: $keeper; what that has forked: $run, and the pair
  "$byway" bench native --time 60 --width 0.01 wake-sleep >"$work/out" 2>&1 & lab=$!
  for _ in $(seq 5000); do
    keeper=$(pgrep -P $lab -x byway-iceoryx2) && run=$(pgrep -P "$keeper") && pair=$(pgrep -P "$run" | paste -sd ' ') || continue
    # shellcheck disable=SC2086
    if kill -STOP $pair 2>/dev/null && [ "${pair#* }" != "$pair" ] && [ -n "$(find /dev/shm -maxdepth 1 -name "byway-bench-$lab-*_*.data")" ]; then
      printf '%s\n' "$keeper" "$run" $pair >"$work/pids"
      return
    fi
    # shellcheck disable=SC2086
    kill -CONT $pair 2>/dev/null
  done
  echo "not ok: no run of iceoryx2 was seen"; failed=$((failed + 1))
}
gone() { # what
  for _ in $(seq 500); do
    [ "$(left)" = "$before" ] && ! pgrep -x byway-iceoryx2 | grep -qFxf "$work/pids" && break
    sleep 0.01
  done
  is "$1: files" "$(left)" "$before"
  is "$1: processes" "$(pgrep -x byway-iceoryx2 | grep -Fxf "$work/pids")" ""
}
begin; kill -INT $lab; wait $lab; is "Ctrl-C" $? 130; gone "Ctrl-C"
begin; kill -KILL "${pair%% *}"; wait $lab; is "one of the pair is killed" $? 2; gone "one of the pair is killed"
begin; kill -KILL "$run"; wait $lab; is "the run is killed" $? 2; gone "the run is killed"
begin; kill -KILL "$keeper"; wait $lab; is "the program is killed" $? 2; gone "the program is killed"
has "the program is killed" "$(cat "$work/out")" "signal: 9"
begin; kill -TERM $lab; wait $lab; is "the lab is ended" $? 143; gone "the lab is ended"
begin; kill -KILL $lab; wait $lab 2>/dev/null; gone "the lab is killed"
# Both at once: what they leave is litter until the next measurement.
begin; kill -KILL $lab "$keeper"; wait $lab 2>/dev/null
for _ in $(seq 500); do kill -0 "$run" 2>/dev/null || break; sleep 0.01; done
native --runs 1 oneway-64 >"$work/out" 2>&1; gone "both are killed, and the next measurement"
if [ "$python" != oneway-64 ]; then
  PATH=$env/bin:$PATH "$byway" bench native --time 60 --width 0.01 python-1m >"$work/out" 2>&1 & lab=$!
  for _ in $(seq 5000); do
    # The pair: one forks the other. Stopped before it could ask for its parent's death, it would not be told of it.
    one=$(pgrep -P $lab -x python3) && other=$(pgrep -P "$one") && sleep 0.05 && [ "$(pgrep -P "$one")" = "$other" ] && kill -STOP "$other" 2>/dev/null && break
  done
  kill -KILL $lab; wait $lab 2>/dev/null
  for _ in $(seq 500); do pgrep -x python3 | grep -qFxe "$one" -e "$other" || break; sleep 0.01; done
  is "the lab of two Pythons is killed" "$(pgrep -x python3 | grep -Fxe "$one" -e "$other")" ""
fi

echo "comparators: $passed passed, $failed failed"
[ "$failed" = 0 ]
