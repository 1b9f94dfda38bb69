#!/usr/bin/env bash
# Makes the same calls plain and under a prefix command, drawn from seeds, and compares their answers (alike/alike.c).
#   usage: alike.sh SEEDS PREFIX...        e.g.  alike.sh 40 target/release/byway run --
#          FROM=100 CALLS=1500 alike.sh ...
# Prints what differs and the seed, then `N alike, N not`; exits 1 if any is not.
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 1 ] || { sed -n '3,4p' "$0"; exit 2; }
seeds=$1; shift
# Each run has a folder of its own.
case "$1" in */*) by=$(realpath "$1") && shift && set -- "$by" "$@" || exit 2 ;; esac
first=${FROM:-1}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cc -O1 -Wall -Wextra -Wno-missing-field-initializers -o "$work/alike" "$here/alike/alike.c" || exit 1
# makes FILE PREFIX...: one run, in a folder of its own.
makes() {
  local to=$1; shift
  rm -rf "$work/in"; mkdir "$work/in"
  (cd "$work/in" && timeout 30 "$@" "$work/alike" "$seed" "${CALLS:-1500}" >"$to" 2>"$to.err" </dev/null; echo "status $?" >>"$to")
}
alike=0 not=0
for seed in $(seq "$first" $((first + seeds - 1))); do
  makes "$work/plain" env; makes "$work/carried" "$@"
  # The kernel's answers themselves may differ once in a while: then they are asked for again.
  cmp -s "$work/plain" "$work/carried" || makes "$work/plain" env
  if cmp -s "$work/plain" "$work/carried"; then alike=$((alike + 1)); continue; fi
  not=$((not + 1))
  echo "FAIL  seed $seed"; diff -a "$work/plain" "$work/carried" | head -4 | cut -c1-150; head -2 "$work/carried.err"
done
echo "$alike alike, $not not under $*"
[ $not = 0 ]
