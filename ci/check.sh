#!/usr/bin/env bash
# The quick part: format, lint, the unit tests, a smoke run. It wants a build (make check). Not here: what takes longer (ci/test.sh).
set -euo pipefail
cd "$(dirname "$0")/.."
export BYWAY_CONFIG=off
byway=$PWD/target/release/byway
. ci/step.sh
smoke() { # a pipeline under byway: every byte arrives
  local got; got=$("$byway" run -- sh -c 'head -c 1000000 /dev/zero | cat | wc -c')
  [ "$got" = 1000000 ] || { echo "check: byway run printed [$got], not 1000000"; return 1; }
}
step ci/tags.sh
step ci/links.py
step make lint
# A unit test of the lab starts it.
step cargo build --profile tests --package byway-lab --bin byway-mimalloc --quiet
# Those without unit tests stay out; the preload library (no_std) could not be built with a test harness.
step cargo test --profile tests --workspace --features byway/tokio --exclude byway-preload --exclude byway-capi --exclude byway-fifo-tests --lib --bins --quiet
step smoke
echo "check: all passed in $SECONDS s"
