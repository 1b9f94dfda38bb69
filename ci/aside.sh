#!/usr/bin/env bash
# What `ci/test.sh` does beside its first steps, on the CPU that they leave: the models, and builds that only its last steps need.
# Here nothing is measured and nothing of Byway runs.
set -euo pipefail
cd "$(dirname "$0")/.."
ci/model.sh
cargo build --release --package byway --examples --quiet
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/python" \
  cargo clippy --release --manifest-path python/Cargo.toml --quiet -- -D warnings
# iceoryx2 is in no other build: ninety seconds.
cargo clippy --release --package byway-iceoryx2 --features iceoryx2 --quiet -- -D warnings
cargo build --release --package byway-iceoryx2 --features iceoryx2 --quiet
