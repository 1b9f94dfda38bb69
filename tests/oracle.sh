#!/usr/bin/env bash
# Builds the programs of tests/oracle and runs each of them on the kernel, or under the prefix command given.
#   usage: oracle.sh [PREFIX...]        e.g.  oracle.sh target/release/byway run --
# The kernel is implementation 0: a case counts only if it passes without a prefix too.
set -u
cd "$(dirname "$0")/.."
out=target/oracle; mkdir -p "$out"
pass=0 fail=0
for c in tests/oracle/*.c; do
  name=$(basename "$c" .c)
  cc -O2 -Wall -Werror -pthread -o "$out/$name" "$c" || exit 1
  if text=$(timeout 100 "$@" "$out/$name" 2>&1); then s=0; else s=$?; fi
  p=$(grep -c '^ok ' <<<"$text"); n=$(grep -c '^not ok ' <<<"$text")
  pass=$((pass + p)); fail=$((fail + n))
  if [ $s != 0 ] || [ $p = 0 ]; then [ $n -gt 0 ] || fail=$((fail + 1)); echo "$name (status $s):"; grep -v '^ok ' <<<"$text"; fi
done
echo "$pass passed, $fail failed"
[ $fail = 0 ]
