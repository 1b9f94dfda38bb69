#!/usr/bin/env bash
# Whether the interface of the crate byway keeps what an earlier commit promised: BYWAY_BASE, or the last tag. Where there is
# neither, or no cargo-semver-checks (cargo install cargo-semver-checks --locked), it says so and that is all.
set -eu
cd "$(dirname "$0")/.."
skip() { echo "semver: not checked: $*"; exit 0; }
cargo semver-checks --version >/dev/null 2>&1 || skip "cargo-semver-checks is not installed"
base=${BYWAY_BASE:-$(git describe --tags --abbrev=0 2>/dev/null || true)}
[ -n "$base" ] || skip "there is no tag; give BYWAY_BASE a commit to compare with"
cargo semver-checks --package byway --baseline-rev "$base"
