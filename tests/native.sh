#!/usr/bin/env bash
# The native library as C and C++ get it: header, shared and static library, pkg-config file, manual pages, examples; and an
# unmodified program at the other end of a FIFO.      usage: native.sh BYWAY
set -u
. "$(dirname "$0")/says.sh"
cd "$(dirname "$0")/.."
byway=$(realpath "$1") built=$(dirname "$(realpath "$1")") here=$PWD
examples=${built%/*}/tests/examples
[ -x "$examples/end" ] || { echo "native: no examples in $examples; try: cargo build --profile tests --package byway --examples" >&2; exit 2; }
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
make -s install DESTDIR="$work/root" PREFIX=/usr BUILT="$built" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
root=$work/root/usr
export PKG_CONFIG_PATH=$root/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/root
flags=(-Wall -Wextra -Werror -O1)
shared=$(pkg-config --cflags --libs byway) static="$(pkg-config --cflags byway) $root/lib/libbyway.a $(pkg-config --static --libs-only-l byway | sed 's/-lbyway//')"
export LD_LIBRARY_PATH=$root/lib

# Below a PREFIX of one's own the program finds the library as the page says, by the line that is in it.
own=$work/mine; make -s install PREFIX="$own" BUILT="$built" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
hint=$(man -M "$own/share/man" 3 byway 2>/dev/null | col -b | sed -n 's/^[[:space:]]*\(-Wl,-rpath,.*\)/\1/p'); has "the page's hint" "$hint" '$(pkg-config'
(
  unset LD_LIBRARY_PATH PKG_CONFIG_SYSROOT_DIR; export PKG_CONFIG_PATH=$own/lib/pkgconfig
  eval "cc examples/c/bytes.c -o '$work/bytes-own' \$(pkg-config --cflags --libs byway) $hint" && "$work/bytes-own"
) >"$work/out" 2>&1; is "an example, from a PREFIX of one's own" "$(tail -n 1 "$work/out")" "1000 lines"
make -s uninstall PREFIX="$own" BUILT="$built"; is "nothing is left of it" "$(ls "$own" 2>&1)" "$(ls "$work/nosuch" 2>&1 | sed "s|nosuch|mine|")"

# One version: the workspace's, Python's, the header's, the manual's.
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
is "a version" "$(grep -cx '[0-9]*\.[0-9]*\.[0-9]*' <<<"$version")" 1
is "BYWAY_VERSION" "$(printf '#include <byway.h>\nBYWAY_VERSION\n' | cc -E -P -I"$root/include" - | tail -1)" "\"$version\""
is "pkg-config's version" "$(pkg-config --modversion byway)" "$version"
for f in python/Cargo.toml python/pyproject.toml; do is "$f" "$(grep -m1 '^version = ' "$f")" "version = \"$version\""; done
is "python/byway" "$(grep '^__version__ = ' python/byway/__init__.py)" "__version__ = \"$version\""
is "the manual's versions" "$(sed -n 's/^\.TH [^"]*"\([^"]*\)".*/\1/p' docs/man/*.3 | sort -u)" "byway $version"

# What the header declares is what the library has, no more and no less.
declared=$(cc -E -P -I"$root/include" "$root/include/byway.h" | grep -o 'byway_[a-z_]*(' | tr -d '(' | sort -u)
exported=$(nm -D --defined-only "$root/lib/libbyway.so" | awk '$3 ~ /^byway_/ && $3 !~ /^byway_rseq/ {print $3}' | sort -u)
is "functions" "$exported" "$declared"

# Runs a program: its exit, and the last line of what it says.
ran() { local out; out=$(timeout -k 2 120 "$@" 2>&1 </dev/null); echo "$? ${out##*$'\n'}"; }
# Builds one; a program that does not compile is a failure.
builds() { # what, command...
  local what=$1; shift
  "$@" >"$work/out" 2>&1; is "$what compiles" "$? $(head -20 "$work/out")" "0 "
}
# shellcheck disable=SC2086
{
  builds "C, shared" cc -std=gnu11 "${flags[@]}" tests/native/c/check.c -o "$work/check-c" $shared
  builds "C, static" cc -std=gnu11 "${flags[@]}" tests/native/c/check.c -o "$work/check-s" $static
  builds "C++" g++ -std=gnu++17 -x c++ "${flags[@]}" -Wno-missing-field-initializers tests/native/c/check.c -o "$work/check-x" -x none $shared
}
for x in c s x; do is "check-$x" "$(ran "$work/check-$x" | sed 's/[0-9][0-9]* checks/checks/')" "0 checks"; done
# Peers that are killed; and the table of buffers full, in a folder where nobody else needs an entry of it.
mkdir -m 700 "$work/own"
for p in death full; do
  # shellcheck disable=SC2086
  builds "$p" cc -std=gnu11 "${flags[@]}" "tests/native/c/$p.c" -o "$work/$p" $shared
  is "$p" "$(BYWAY_SHM=$work/own ran "$work/$p" | sed 's/[0-9][0-9]* checks/checks/')" "0 checks"
done
is "static needs no libbyway.so" "$(ldd "$work/check-s" | grep -c libbyway)" 0

# The same examples in each language say the same.
for e in bytes duplex events fifo records grants timed; do
  # shellcheck disable=SC2086
  builds "example $e" cc -std=gnu11 "${flags[@]}" "examples/c/$e.c" -o "$work/$e" $shared
  c=$("$work/$e"; echo "exit $?") r=$("$examples/$e"; echo "exit $?")
  is "example $e" "$c" "$r"
  is "example $e ends well" "${c##*$'\n'}" "exit 0"
  [ "$c" != "exit 0" ] || is "example $e says something" "" "something"
  # A program that has the library's system calls in it is one that can be carried.
  for p in "$work/$e" "$examples/$e"; do is "$p takes part" "$("$byway" doctor -- "$p" | tail -1)" "ok  it can take part"; done
done
# Programs of the library's under byway run, where the preload library carries: the same programs, or a sentence that says what to try.
no="\`byway run\` carries this process's pipes, or BYWAY=off says that nobody does; start it without, or unset BYWAY"
for e in "bytes 0 1000 lines" "duplex 0 1000 answers, their sum 999000" "records 0 300 records" "events 0 2000 bytes, the word 42" \
  "grants 1 byway_reserve: a grant, or a record of more than 4,088 bytes, needs shared memory: $no; or send it in shorter records, or as bytes" \
  "fifo 1 byway_fifo_reader: a FIFO by name needs shared memory: $no; or take one at a path (mkfifo(3)), whose descriptors Reader and Writer take"; do
  is "${e%% *} under byway run" "$(ran "$byway" run -- "$work/${e%% *}")" "${e#* }"
done
for off in "env BYWAY=off" "$byway run --"; do
  # shellcheck disable=SC2086
  is "several receivers, $off" "$($off "$work/timed" 2>&1 >/dev/null)" "byway_reader_clone: this pipe has no shared memory, and only one receiver; share it behind a lock"
done

# A native end, and an unmodified program under byway run: the two ends of one FIFO. From C, and from Rust.
# shellcheck disable=SC2086
builds "the native end" cc -std=gnu11 "${flags[@]}" tests/native/c/end.c -o "$work/end" $shared
mkfifo -m 600 "$work/named" "$work/back"
seq 1 3000000 >"$work/text"; sum=$(md5sum <"$work/text")
with() { timeout -k 2 60 "$byway" run -- "$@"; }
native() { timeout -k 2 60 "$end" "$@"; }
# Takes a million bytes from here to there, and is killed.
victim='import os
left = 1000000
while left: left -= os.write(1, os.read(0, min(left, 30000)))
os.kill(os.getpid(), 9)'
for end in "$work/end" "$examples/end"; do
  is "$end takes part" "$("$byway" doctor -- "$end" | tail -1)" "ok  it can take part"
  # One way, the other way, and through a program between two native ends.
  with cat "$work/named" >"$work/got" </dev/null & native write "$work/named" <"$work/text"
  is "native writes" $? 0; wait; is "byway run reads" "$(md5sum <"$work/got")" "$sum"
  native read "$work/named" 1 >"$work/got" 2>"$work/said" & with cp "$work/text" "$work/named" </dev/null
  is "byway run writes" $? 0; wait; is "native reads" "$(md5sum <"$work/got") $(cat "$work/said")" "$sum end"
  native read "$work/back" 1 >"$work/got" 2>"$work/said" & with sh -c 'exec cat <"$1" >"$2"' sh "$work/named" "$work/back" </dev/null &
  native write "$work/named" <"$work/text"
  is "native writes to both" $? 0; wait; is "both ways" "$(md5sum <"$work/got") $(cat "$work/said")" "$sum end"
  # The unmodified side is killed in the midst of it: a broken pipe, or the end, after what it had written.
  { with python3 -c "$victim" <"$work/named" >"$work/got"; } 2>/dev/null &
  native write "$work/named" <"$work/text" 2>"$work/said"
  is "the reader killed" "$? $(cat "$work/said")" "3 broken"; wait
  native read "$work/named" 1 >"$work/got" 2>"$work/said" &
  { with python3 -c "$victim" <"$work/text" >"$work/named"; } 2>/dev/null &
  wait; is "the writer killed" "$(md5sum <"$work/got") $(cat "$work/said")" "$(head -c 1000000 "$work/text" | md5sum) end"
  # Opened again by another program: one descriptor, two streams.
  native read "$work/named" 2 >"$work/got" 2>"$work/said" & with cp "$work/text" "$work/named" </dev/null
  until grep -q end "$work/said" || ! kill -0 $! 2>/dev/null; do sleep 0.01; done
  with sh -c 'echo again >"$1"' sh "$work/named" </dev/null
  wait; is "a second program writes" "$(md5sum <"$work/got") $(tr '\n' ' ' <"$work/said")" "$( (cat "$work/text"; echo again) | md5sum) end end "
done

# The manual: every function has a page, and every page is well formed.
for f in $declared; do ls "$root"/share/man/man3/"$f".3 >/dev/null 2>&1 || is "manual page" "$f" "a page"; done
cd "$here" && for p in docs/man/*.3; do is "$p" "$(cd "$root/share/man" && groff -ww -z -man -Tutf8 "man3/${p##*/}" 2>&1 | head -3)" ""; done
# All users of a domain killed, and one that another version left: the next run of anything removes both.
cat >"$work/stay.c" <<'C'
#include <byway.h>
#include <stdio.h>
#include <unistd.h>
int main(void) {
  byway_reader *r;
  byway_writer *w;
  if (byway_pipe(&r, &w) != 0) return 1;
  puts("here");
  fflush(stdout);
  pause();
  return 0;
}
C
# shellcheck disable=SC2086
builds "one that stays" cc -std=gnu11 "${flags[@]}" "$work/stay.c" -o "$work/stay" $shared
mkdir -m 700 "$work/shm" && mkdir -m 700 "$work/shm/native-1-1" && touch "$work/shm/native-1-1/memory"
mkfifo "$work/says"
BYWAY_SHM=$work/shm "$work/stay" >"$work/says" & stays=$!
read -r said <"$work/says"
BYWAY_SHM=$work/shm "$byway" run -- true
is "a domain in use stays, a dead one goes" "$said $(ls "$work/shm" | cut -d- -f1 | tr '\n' ' ')" "here native "
kill -9 $stays; wait $stays 2>/dev/null
BYWAY_SHM=$work/shm "$byway" run -- true
is "one whose users were killed goes" "$(ls "$work/shm")" ""
left=$(find /dev/shm -maxdepth 2 -path '*byway*' -name 'native-*' 2>/dev/null)
is "nothing is left behind" "$left" ""
echo "native: $passed passed, $failed failed"
[ "$failed" = 0 ]
