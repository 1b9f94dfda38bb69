#!/usr/bin/env bash
# Makes the same calls plain and under a prefix command, drawn from seeds, and compares their answers: those of one process that has both
# ends of all (alike/alone.c), or of several processes and threads (alike/together.c).
#   usage: alike.sh alone|together SEEDS PREFIX...        e.g.  alike.sh alone 60 target/release/byway run --
#          FROM=100 CALLS=1500 alike.sh ...
# Prints what differs and the seed, then `N alike, N not`; exits 1 if any is not.
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 2 ] && [ -f "$here/alike/$1.c" ] || { sed -n '4,5p' "$0"; exit 2; }
program=$1 seeds=$2; shift 2
# Each run has a folder of its own.
case "$1" in */*) by=$(realpath "$1") && shift && set -- "$by" "$@" || exit 2 ;; esac
first=${FROM:-1}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
compiles() { cc -O1 -Wall -Wextra -Wno-missing-field-initializers -pthread "$@" "$here/alike/$program.c" || exit 1; }
compiles -o "$work/$program"
[ "$program" = alone ] || compiles -static -o "$work/$program.static"
# makes FILE PREFIX...: one run, in a folder of its own.
makes() {
  local to=$1; shift
  rm -rf "$work/in"; mkdir "$work/in"
  (cd "$work/in" && timeout 60 "$@" "$work/$program" "$seed" ${CALLS:-} >"$to" 2>"$to.err" </dev/null; echo "status $?" >>"$to")
}
alike=0 not=0
for seed in $(seq "$first" $((first + seeds - 1))); do
  # On a busy machine the kernel's own answers differ once in a while.
  for try in 1 2 3; do
    makes "$work/plain" env; makes "$work/carried" "$@"
    cmp -s "$work/plain" "$work/carried" && break
  done
  if cmp -s "$work/plain" "$work/carried"; then alike=$((alike + 1)); continue; fi
  not=$((not + 1))
  echo "FAIL  seed $seed"; diff -a "$work/plain" "$work/carried" | head -4 | cut -c1-150; head -2 "$work/carried.err"
done
echo "$alike alike, $not not under $*"
[ $not = 0 ]
