#!/usr/bin/env bash
# What `ci/test.sh` does beside its steps, on the CPU that they leave: builds that only its last steps need, and all that takes the
# CPU alone. Here nothing is measured and nothing of Byway runs.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/step.sh
# iceoryx2 is in no other build. As tests are built, for nothing is measured: as a release it takes twice as long.
step cargo build --profile tests --package byway-iceoryx2 --features iceoryx2 --quiet
step cargo clippy --profile tests --package byway-iceoryx2 --features iceoryx2 --quiet -- -D warnings
CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}/python" \
  step cargo clippy --release --manifest-path python/Cargo.toml --quiet -- -D warnings
step ci/loom.sh
step ci/miri.sh
step ci/model.sh
