#!/usr/bin/env bash
# Every test, in order of cost; stops at the first that fails. Some 40 minutes on two CPUs.
set -euo pipefail
cd "$(dirname "$0")/.."
export BYWAY_CACHE="${BYWAY_CACHE:-$PWD/target/byway-cache}"
export BYWAY_CONFIG=off
byway=$PWD/target/release/byway
. ci/step.sh
# The models, Miri and some builds, on the CPU that the steps leave: most tests sleep much of their time. In a process group of
# its own, and in this session: of two sessions each has half of the CPU, whatever they are nice to (sched(7), autogroup).
said=$(mktemp)
set -m
nice -n 19 ci/aside.sh </dev/null >"$said" 2>&1 & aside=$!
set +m
aside() { local s=0; wait $aside || s=$?; cat "$said"; return $s; }
# The plain results of the pipelines, which all of the runs of equivalence.sh are compared with.
EQ_WORK=$(mktemp -d); export EQ_WORK
trap 'rm -rf "$said" "$EQ_WORK"; kill -- -$aside 2>/dev/null || true' EXIT
step ci/tags.sh
step ci/links.py
step make lint
step cargo fmt --manifest-path python/Cargo.toml --check
RUSTDOCFLAGS=-Dwarnings step cargo doc --no-deps --all-features --package byway --quiet
step ci/semver.sh
step cargo test --profile tests --workspace --features byway/tokio --quiet
[ "$(target/tests/examples/tokio)" = "300 records, 1470 bytes" ]
# The allocator again: killed at each of its steps.
step cargo test --profile tests --package byway-mem --features crash --quiet
# The kernel first, then the same programs under Byway.
step tests/conformance.sh "$byway" run --
# Where the variants differ: long writes, a full or small ring, its wrap, FIFOs, death, signals.
core="alone big buffers capacity direct epipe epoll_edges epoll_idle epoll_rules epoll_sets epoll_stream epoll_wait fifo_hangup fifo_io fifo_wrap kill nonblock poll_set poll_stream signal splice_pipes splice_waits unix_full unix_stream"
for how in "--pipe base" "--pipe lp+zc" "--capacity 4K" "--capacity 8M"; do
  # shellcheck disable=SC2086
  ONLY=$core step tests/conformance.sh "$byway" run --private $how --
done
step tests/beside.sh 5 "$byway" run --
# What holds of pipes that are polled holds of FIFOs, on the kernel and under Byway.
polled="epoll_pool epoll_rules epoll_sets epoll_stream epoll_wait poll_set poll_stream poll_wait readiness"
for how in env "$byway run --"; do
  # shellcheck disable=SC2086
  FIFOS=1 ONLY=$polled step tests/conformance.sh $how
done
step "$byway" run -- target/conformance/kill 2000
# The longest first. What is rewritten: no data (by objdump, by a program's own look at itself, by signatures), and no other file's
# text. Nobody is worse off: limits, folders, signals, name spaces, groups (tests/harm/README.md).
byway=$byway step ci/several.sh 3 <<'E'
python3 tests/part/served.py "$byway"
python3 tests/sweep.py "$byway"
tests/python.sh "$byway"
tests/signatures.sh "$byway"
tests/alike.sh alone 60 "$byway" run --
python3 tests/part/part.py "$byway"
python3 tests/part/programs.py "$byway"
python3 tests/report.py "$byway"
python3 tests/harm/limits.py "$byway"
python3 tests/harm/groups.py "$byway"
python3 tests/harm/terminal.py "$byway"
python3 tests/part/polled.py "$byway"
python3 tests/data.py "$byway"
python3 tests/identity.py "$byway"
command -v dpkg-deb >/dev/null || exit 0; tests/deb.sh "$byway"
python3 tests/harm/cache.py "$byway"
python3 tests/harm/start.py "$byway"
python3 tests/harm/programs.py "$byway"
python3 tests/top.py "$byway"
tests/install.sh "$byway"
python3 tests/capture.py "$byway"
python3 tests/harm/memory.py "$byway"
tests/readme.sh "$byway"
tests/config.sh "$byway"
python3 tests/starts.py "$byway"
python3 tests/harm/tool.py "$byway"
python3 tests/harm/users.py "$byway"
python3 tests/harm/stack.py "$byway"
python3 tests/stat.py "$byway"
E
step python3 tests/harm/spaces.py "$byway"
step tests/alike.sh together 12 "$byway" run --
step tests/run.sh "$byway"
step tests/explain.sh "$byway"
step tests/tcp.sh "$byway"
step tests/udp.sh "$byway"
step tests/bench.sh "$byway"
step tests/net.sh "$byway"
step tests/services.sh "$byway"
step aside
step tests/native.sh "$byway"
step tests/comparators.sh "$byway"
step python3 tests/memory.py "$byway"
EQ_REPEAT=3 step tests/equivalence.sh "$byway" run --
# Two at a time: on one CPU, where the variants differ, and each fallback forced.
byway=$byway step ci/several.sh 2 <<'E'
tests/equivalence.sh taskset -c 0 "$byway" run --
tests/equivalence.sh "$byway" run --pipe lp+zc --
tests/equivalence.sh "$byway" run --capacity 8M --
tests/equivalence.sh "$byway" run --off --
tests/equivalence.sh "$byway" run --forbid rewrite --
tests/equivalence.sh "$byway" run --forbid memory --
tests/equivalence.sh "$byway" run --forbid spin --
tests/equivalence.sh "$byway" run --forbid carry --
tests/equivalence.sh "$byway" run --forbid rseq --
tests/equivalence.sh env GLIBC_TUNABLES=glibc.pthread.rseq=0 "$byway" run --
E
step "$byway" run --pipe zc -- target/conformance/kill 500
step "$byway" run --capacity 8M -- target/conformance/kill 500
left=$(find /dev/shm -maxdepth 2 -name 'run-*' -path '*byway*' 2>/dev/null || true)
[ -z "$left" ] || { echo "left behind: $left"; exit 1; }
echo "all tests passed"
