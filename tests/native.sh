#!/usr/bin/env bash
# The native library as C and C++ get it: header, shared and static library, pkg-config file, manual pages, examples; and an
# unmodified program at the other end of a FIFO.      usage: native.sh BYWAY [EXAMPLES]
set -u
cd "$(dirname "$0")/.."
byway=$(realpath "$1") built=$(dirname "$(realpath "$1")") here=$PWD
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
passed=0 failed=0
is() { # what, got, wanted
  if [ "$2" = "$3" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "not ok $1: got [$2], wanted [$3]"; fi
}
make -s install DESTDIR="$work/root" PREFIX=/usr BUILT="$built" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
root=$work/root/usr
export PKG_CONFIG_PATH=$root/lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$work/root
flags=(-Wall -Wextra -Werror -O1)
shared=$(pkg-config --cflags --libs byway) static="$(pkg-config --cflags byway) $root/lib/libbyway.a $(pkg-config --static --libs-only-l byway | sed 's/-lbyway//')"
export LD_LIBRARY_PATH=$root/lib

# What the header declares is what the library has, no more and no less.
declared=$(cc -E -P -I"$root/include" "$root/include/byway.h" | grep -o 'byway_[a-z_]*(' | tr -d '(' | sort -u)
exported=$(nm -D --defined-only "$root/lib/libbyway.so" | awk '$3 ~ /^byway_/ && $3 !~ /^byway_rseq/ {print $3}' | sort -u)
is "functions" "$exported" "$declared"

# shellcheck disable=SC2086
{
  cc -std=gnu11 "${flags[@]}" tests/native/c/check.c -o "$work/check-c" $shared && is "C, shared" "$("$work/check-c" | tail -1 | sed 's/[0-9]* //')" checks
  cc -std=gnu11 "${flags[@]}" tests/native/c/check.c -o "$work/check-s" $static && is "C, static" "$("$work/check-s" | tail -1 | sed 's/[0-9]* //')" checks
  g++ -std=gnu++17 -x c++ "${flags[@]}" -Wno-missing-field-initializers tests/native/c/check.c -o "$work/check-x" -x none $shared && is "C++" "$("$work/check-x" | tail -1 | sed 's/[0-9]* //')" checks
}
is "static needs no libbyway.so" "$(ldd "$work/check-s" | grep -c libbyway)" 0

# The same examples in each language say the same.
for e in bytes duplex events fifo records grants; do
  # shellcheck disable=SC2086
  cc -std=gnu11 "${flags[@]}" "examples/c/$e.c" -o "$work/$e" $shared
  c=$("$work/$e") r=$("$built/examples/$e")
  is "example $e" "$c" "$r"
  [ -n "$c" ] || is "example $e says something" "" "something"
  # A program that has the library's system calls in it is one that can be carried.
  for p in "$work/$e" "$built/examples/$e"; do is "$p takes part" "$("$byway" doctor -- "$p" | tail -1)" "ok  it can take part"; done
done

# A native end, and an unmodified program under byway run: the two ends of one FIFO.
cat >"$work/ends.c" <<'C'
#include <byway.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
  static char b[100000];
  byway_reader *r;
  byway_writer *w;
  ssize_t n = argc;
  if (strcmp(argv[1], "write") == 0) {
    if (byway_writer_from_fd(open(argv[2], O_WRONLY), &w) != 0) return 1;
    while ((n = (ssize_t)fread(b, 1, sizeof b, stdin)) > 0)
      if (byway_write(w, b, (size_t)n, BYWAY_FOREVER) != n) return 1;
    byway_writer_close(w);
  } else {
    if (byway_reader_from_fd(open(argv[2], O_RDONLY), &r) != 0) return 1;
    while ((n = byway_read(r, b, sizeof b, BYWAY_FOREVER)) > 0) fwrite(b, 1, (size_t)n, stdout);
    byway_reader_close(r);
  }
  return n == 0 ? 0 : 1;
}
C
# shellcheck disable=SC2086
cc -std=gnu11 "${flags[@]}" "$work/ends.c" -o "$work/ends" $shared
mkfifo -m 600 "$work/named"
seq 1 1000000 >"$work/text"; sum=$(md5sum <"$work/text")
(timeout 60 "$byway" run -- cat "$work/named" | md5sum >"$work/sum") & "$work/ends" write "$work/named" <"$work/text"; is "native writes" $? 0; wait; is "byway run reads" "$(cat "$work/sum")" "$sum"
(timeout 60 "$work/ends" read "$work/named" | md5sum >"$work/sum") & "$byway" run -- sh -c "cat '$work/text' >'$work/named'"; is "byway run writes" $? 0; wait; is "native reads" "$(cat "$work/sum")" "$sum"
# A program of the library's under byway run: the preload library carries, the program is the same.
for e in bytes records grants; do "$byway" run -- "$work/$e" >"$work/out" 2>&1; echo "$e under byway run: $? $(tail -1 "$work/out")" >>"$work/log"; done
is "under byway run" "$(sed -n 1,2p "$work/log")" "bytes under byway run: 0 1000 lines
records under byway run: 0 300 records"

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
cc -std=gnu11 "${flags[@]}" "$work/stay.c" -o "$work/stay" $shared
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
