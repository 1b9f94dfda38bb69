#!/usr/bin/env bash
# Every test, in order of cost; stops at the first that fails.
set -euo pipefail
cd "$(dirname "$0")/.."
export BYWAY_CACHE="${BYWAY_CACHE:-$PWD/target/byway-cache}"
byway=$PWD/target/release/byway
ci/tags.sh
cargo fmt --all --check
cargo clippy --release --workspace --all-targets --quiet -- -D warnings
cargo test --release --workspace --quiet
tests/conformance.sh "$byway" run --
tests/oracle.sh "$byway" run --
EQ_REPEAT=3 tests/equivalence.sh "$byway" run --
tests/equivalence.sh "$byway" run --off --
taskset -c 0 tests/equivalence.sh "$byway" run --
left=$(find /dev/shm -maxdepth 2 -name 'run-*' -path '*byway*' 2>/dev/null || true)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
