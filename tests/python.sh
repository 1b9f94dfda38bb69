#!/usr/bin/env bash
# The Python library: builds the wheel, installs it into an environment of its own, runs its tests (with and without shared
# memory) and examples, and compares its stubs with it.
#      usage: python.sh BYWAY [ENVIRONMENT]
set -eu
cd "$(dirname "$0")/.."
byway=$(realpath "$1") built=$(dirname "$(realpath "$1")") env=${2:-${CARGO_TARGET_DIR:-$PWD/target}/python-env}
if ! python3 -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "python: not tested: it needs Python 3.11 or later, with venv"
  exit 0
fi
if ! [ -x "$env/bin/maturin" ]; then
  python3 -m venv "$env"
  "$env/bin/pip" install -q maturin==1.16.0 || { echo "python: not tested: maturin cannot be installed here"; rm -rf "$env"; exit 0; }
fi
"$env/bin/python" -c 'import numpy' 2>/dev/null || "$env/bin/pip" install -q numpy==2.4.6 || echo "python: without numpy, which cannot be installed here: its test is skipped"
[ -x "$env/bin/stubtest" ] || "$env/bin/pip" install -q mypy==2.4.1 || echo "python: without mypy, which cannot be installed here: the stubs are not compared"
wheels=$(mktemp -d); trap 'rm -rf "$wheels"' EXIT
# A file that does not fit is an error with --locked; else the build, or pip install ./python, would change it.
lock=$(cksum <python/Cargo.lock)
CARGO_TARGET_DIR=$(dirname "$built")/python "$env/bin/maturin" build -q --release --locked -m python/Cargo.toml -i "$env/bin/python" --out "$wheels" ||
  { echo "python: no wheel; if python/Cargo.lock does not fit: cargo update --workspace --manifest-path python/Cargo.toml"; exit 1; }
[ "$lock" = "$(cksum <python/Cargo.lock)" ] || { echo "python: the build has changed python/Cargo.lock"; exit 1; }
"$env/bin/pip" install -q --force-reinstall --no-deps "$wheels"/byway-*-abi3-*.whl
# Each file three times: through shared memory; told to keep off; and where `byway run` carries a process's pipes.
unset BYWAY
for t in byway ends events aio plain; do
  test=(timeout -k 5 300 "$env/bin/python" -W error "python/tests/test_$t.py" -q)
  "${test[@]}"
  BYWAY=off "${test[@]}"
  "$byway" run -- "${test[@]}"
done
# Names, kinds, parameters and defaults, in both directions.
if [ -x "$env/bin/stubtest" ]; then
  MYPY_CACHE_DIR=/dev/null "$env/bin/stubtest" byway --concise --allowlist python/tests/stubtest.allow --ignore-unused-allowlist
fi
for e in bytes duplex events fifo records grants timed; do
  py=$(timeout 60 "$env/bin/python" "examples/python/$e.py") rs=$("${built%/*}/tests/examples/$e")
  [ "$py" = "$rs" ] || { echo "example $e: [$py], wanted [$rs]"; exit 1; }
done
# Those that no other language has beside it (Rust: examples/tokio.rs, with its feature).
for e in "aio:300 records, 1470 bytes" "arrays:sum of 1000000 numbers: 499999500000"; do
  py=$(timeout 60 "$env/bin/python" "examples/python/${e%%:*}.py")
  case $py in
    "${e#*:}") ;;
    numpy*) echo "python: example ${e%%:*}: $py" ;;
    *) echo "example ${e%%:*}: [$py], wanted [${e#*:}]"; exit 1 ;;
  esac
done
left=$(find /dev/shm -maxdepth 2 -path '*byway*' -name 'native-*' 2>/dev/null)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
echo "python: all passed"
