#!/usr/bin/env bash
# The Python library: builds the wheel, installs it into an environment of its own, runs its tests and examples.
#      usage: python.sh BYWAY [ENVIRONMENT]
set -eu
cd "$(dirname "$0")/.."
built=$(dirname "$(realpath "$1")") env=${2:-${CARGO_TARGET_DIR:-$PWD/target}/python-env}
if ! python3 -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "python: not tested: it needs Python 3.11 or later, with venv"
  exit 0
fi
if ! [ -x "$env/bin/maturin" ]; then
  python3 -m venv "$env"
  "$env/bin/pip" install -q maturin==1.16.0 || { echo "python: not tested: maturin cannot be installed here"; rm -rf "$env"; exit 0; }
fi
"$env/bin/python" -c 'import numpy' 2>/dev/null || "$env/bin/pip" install -q numpy==2.4.6 || echo "python: without numpy, which cannot be installed here: its test is skipped"
wheels=$(mktemp -d); trap 'rm -rf "$wheels"' EXIT
CARGO_TARGET_DIR=$(dirname "$built")/python "$env/bin/maturin" build -q --release --locked -m python/Cargo.toml -i "$env/bin/python" --out "$wheels"
"$env/bin/pip" install -q --force-reinstall --no-deps "$wheels"/byway-*-abi3-*.whl
for t in byway events; do timeout 300 "$env/bin/python" -W error python/tests/test_$t.py -q; done
for e in bytes duplex events fifo records grants; do
  py=$(timeout 60 "$env/bin/python" "examples/python/$e.py") rs=$("$built/examples/$e")
  [ "$py" = "$rs" ] || { echo "example $e: [$py], wanted [$rs]"; exit 1; }
done
left=$(find /dev/shm -maxdepth 2 -path '*byway*' -name 'native-*' 2>/dev/null)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
echo "python: all passed"
