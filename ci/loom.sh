#!/usr/bin/env bash
# Models of the allocator's interleavings (crates/mem/src/models.rs), each with its controls. Under a minute.
set -eu
cd "$(dirname "$0")/.."
# A target of its own: the flag would make everything else build again.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/loom" RUSTFLAGS="--cfg loom"
out=$(cargo test --profile tests -p byway-mem --lib --quiet -- --nocapture 2>&1) || { echo "$out"; exit 1; }
echo "$out" | grep -E '^(finds|test result)' | sort
# Not one model, or not one control, less than there are.
[ "$(echo "$out" | grep -c '^finds: ')" = "$(grep -o 'Edge::[A-Z][A-Za-z]*[],]' crates/mem/src/models.rs | wc -l)" ]
