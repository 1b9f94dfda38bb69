#!/usr/bin/env bash
# Builds tests/conformance/*.c and tests/fifo (Rust) into target/conformance and runs each program on the kernel
# (implementation 0), then, when a prefix command is given, again under it; those that sleep and wake on one CPU too.
#   usage: conformance.sh [PREFIX...]        e.g.  conformance.sh target/release/byway run --
#          ONLY="big kill" conformance.sh PREFIX...    these programs alone, as they were built, and not on the kernel again
#          FIFOS=1 ONLY=... conformance.sh PREFIX...  the pipes of those programs are FIFOs
set -u
cd "$(dirname "$0")/.."
out=target/conformance; mkdir -p "$out"
# What a pipe is to hold, where the prefix makes it less than the kernel's (check.h).
case " $* " in *" --capacity 4K "*) export HOLDS=4096 ;; *" --capacity 16K "*) export HOLDS=16384 ;; esac
# Three programs at a time: most of them sleep.
counts=$(mktemp -d); trap 'rm -rf "$counts"' EXIT
runs=0
run() { # name, command...
  [ "$runs" -lt 3 ] || wait -n
  runs=$((runs + 1))
  one "$@" >"$counts/$runs" &
}
one() {
  local name=$1 text s p n; shift
  text=$(timeout -k 5 300 "$@" </dev/null 2>&1); s=$?
  p=$(grep -c '^ok ' <<<"$text"); n=$(grep -c '^not ok ' <<<"$text")
  [ "$s" = 0 ] && [ "$p" != 0 ] || [ "$n" != 0 ] || n=1
  [ "$n" = 0 ] || { echo "$name (status $s):"; grep -v '^ok ' <<<"$text"; } >&2
  grep '^ok .*skip' <<<"$text" >&2
  echo "$p $n"
}
finish() {
  wait
  cat "$counts"/* | awk -v what="${1:-}" '{ p += $1; n += $2 } END { print p " passed, " n " failed" what; exit n > 0 }'
  exit
}
if [ -n "${ONLY-}" ]; then
  for name in $ONLY; do run "$name under $*" "$@" "$out/$name"; done
  finish " under $*"
fi
for name in static_cat static_exec fifo_static; do
  rm -f "$out/$name"
  cc -O2 -Wall -static -o "$out/$name" tests/conformance/$name.c 2>/dev/null || echo "skipped: no static libc, the cases with $name are left out"
done
cargo build --quiet --profile unwind --package byway-fifo-tests & rust=$!
names=
for c in tests/conformance/*.c; do
  name=$(basename "$c" .c); case $name in static_cat | static_exec | fifo_static) continue ;; esac
  cc -O2 -Wall -pthread -o "$out/$name" "$c" || { wait; exit 1; }
  names="$names $name"
done
wait $rust || exit 1
cp "${CARGO_TARGET_DIR:-target}/unwind/fifo_rust" "$out" || exit 1
names="$names fifo_rust"
sleepers="asleep buffers epoll_edges epoll_idle epoll_pool epoll_sets epoll_stream epoll_wait poll_stream poll_wait pass_through pass_through_sandbox pass_through_step pipe_size splice_mix splice_pipes splice_waits udp_epoll udp_random unix_kill unix_leave unix_wait_all unix_watched uring"
for name in $names; do run "$name" env -u HOLDS "$out/$name"; done
for name in $sleepers; do run "$name on one CPU" env -u HOLDS taskset -c 0 "$out/$name"; done
if [ $# -gt 0 ]; then
  for name in $names; do run "$name under $*" "$@" "$out/$name"; done
  for name in $sleepers; do run "$name under $* on one CPU" taskset -c 0 "$@" "$out/$name"; done
fi
finish
