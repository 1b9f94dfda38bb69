#!/usr/bin/env bash
# Runs several steps at a time, each a line of standard input for a shell; the first that fails is the last to begin. What a step
# prints comes when it ends. What Byway has in memory is in a folder of its own for each, which must be empty afterwards.
# Not for a step that measures, or that looks at every process of the machine.
# usage: several.sh COUNT
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/step.sh
if [ "$1" != --one ]; then exec xargs -d '\n' -P "$1" -n 1 ci/several.sh --one; fi
BYWAY_SHM=$(mktemp -d -p /dev/shm); export BYWAY_SHM
said=$(mktemp)
trap 'rm -rf "$said" "$BYWAY_SHM"' EXIT
from=$(clock) failed=
bash -c "$2" >"$said" 2>&1 || failed="failed with $?"
[ -z "$(ls -A "$BYWAY_SHM")" ] || failed="${failed:+$failed; }left behind: $(ls -A "$BYWAY_SHM")"
# One at a time prints.
exec 9<"$0"; flock 9
echo "== $from-$(clock) $2"
cat "$said"
# Of 255 xargs begins no other.
[ -z "$failed" ] || { echo "$failed"; exit 255; }
