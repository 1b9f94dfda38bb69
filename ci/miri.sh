#!/usr/bin/env bash
# The allocator in an interpreter that sees undefined behaviour (crates/mem/tests/interpreted.rs). It needs a nightly toolchain
# with the component miri, and says so where there is none: that is all then.
set -eu
cd "$(dirname "$0")/.."
if ! cargo +nightly miri --version >/dev/null 2>&1; then
  timeout 300 rustup toolchain install nightly --profile minimal --component miri,rust-src >/dev/null 2>&1 ||
    { echo "miri: not run: no nightly toolchain with miri, and none to be had (rustup toolchain install nightly --component miri,rust-src)"; exit 0; }
fi
# What the newest compiler deprecates the oldest that builds this may have no other name for.
export RUSTFLAGS=-Adeprecated
# Addresses in the domain are numbers, as they are for every process that maps it elsewhere.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/miri" MIRIFLAGS="-Zmiri-permissive-provenance -Zmiri-ignore-leaks"
cargo +nightly miri test --quiet -p byway-mem --test interpreted
