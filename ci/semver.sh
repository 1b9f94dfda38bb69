#!/usr/bin/env bash
# Whether the interface of the crate byway keeps what an earlier commit promised: BYWAY_BASE, or the last tag, or, where nothing has been
# published yet, the commit before this one. Where that cannot be looked at, it says what to do, and that is all.
set -eu
cd "$(dirname "$0")/.."
skip() { echo "semver: not checked: $*"; exit 0; }
cargo semver-checks --version >/dev/null 2>&1 || skip "no cargo-semver-checks here; to check: cargo install cargo-semver-checks --locked, then ci/semver.sh"
base=${BYWAY_BASE:-$(git describe --tags --abbrev=0 2>/dev/null || git rev-parse --verify --quiet HEAD~1 || true)}
[ -n "$base" ] || skip "no tag, and no commit before this one (a shallow clone?); git fetch --unshallow --tags, or BYWAY_BASE=COMMIT ci/semver.sh"
git rev-parse --verify --quiet "$base^{commit}" >/dev/null || { echo "semver: $base is no commit of this repository; give BYWAY_BASE one"; exit 1; }
echo "semver: against $(git log -1 --format='%h %s' "$base")"
cargo semver-checks --package byway --baseline-rev "$base"
