#!/usr/bin/env bash
# The FIFO programs of tests/conformance, six at a time and in one domain: runs begin, serve and end beside each other,
# inode numbers are used again, and every process loses its CPU in the midst of things.
#   usage: beside.sh ROUNDS PREFIX...        e.g.  beside.sh 5 target/release/byway run --      (after conformance.sh)
set -u
cd "$(dirname "$0")/.."
rounds=$1; shift
logs=$(mktemp -d); trap 'rm -rf "$logs"' EXIT
one() { # round, program, prefix...
  local log=$logs/$1-$2 program=target/conformance/$2; shift 2
  timeout -k 5 300 "$@" "$program" </dev/null >"$log" 2>&1 || echo "not ok: status $?" >>"$log"
}
for i in $(seq "$rounds"); do
  for t in fifo_hangup fifo_misc fifo_open fifo_joins fifo_create fifo_io fifo_eof fifo_wrap; do
    while [ "$(jobs -rp | wc -l)" -ge 6 ]; do wait -n; done
    one "$i" "$t" "$@" &
  done
done
wait
grep -h '^not ok' "$logs"/* && exit 1
echo "$(grep -h '^ok ' "$logs"/* | wc -l) passed beside each other"
