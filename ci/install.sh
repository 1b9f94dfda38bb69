#!/bin/sh
# Installs what was built below DESTDIR/PREFIX, or removes it: install.sh install|uninstall; the Makefile calls it.
# Invariant: PREFIX/lib/byway/installed lists each file, and each folder that was made; only those are removed again.
# Not here: the build (make build), a check of what is installed (tests/install.sh).
set -eu
cd "$(dirname "$0")/.."
case ${PREFIX:?} in /*) ;; *) echo "PREFIX=$PREFIX: give a path that begins with /" >&2; exit 2 ;; esac
built=$BUILT version=$VERSION root=${DESTDIR-} at=${PREFIX#/}
list=$root/$at/lib/byway/installed
made=''
newline='
'

# A folder, and those above it, each on the list if it was not there.
folder() {
  [ ! -d "$root/$1" ] || return 0
  case $1 in */*) folder "${1%/*}" ;; esac
  install -m 755 -d "$root/$1"; made="$made$newline$1/"
}

# A file: a new one, whatever is there under its name.
file() { # mode, path below PREFIX, from
  folder "$at/${2%/*}"; made="$made$newline$at/$2"; install -m "$1" "$3" "$root/$at/$2"
}

remove() {
  [ -f "$list" ] || return 0
  # A folder comes after all that is in it, and stays if something else is.
  LC_ALL=C sort -r "$list" | while IFS= read -r path; do
    case $path in
      '') ;;
      */) rmdir "$root/$path" 2>/dev/null || true ;;
      *) rm -f "$root/$path" ;;
    esac
  done
}

add() {
  folder "$at/lib/byway"; made="$made$newline$at/lib/byway/installed"
  new=$(mktemp -d); trap 'rm -rf "$new"; printf "%s\n" "$made" >"$list"' EXIT
  sed "s|@PREFIX@|$PREFIX|; s|@VERSION@|$version|" include/byway.pc.in >"$new/byway.pc"
  for shell in bash zsh fish; do "$built/byway" completions $shell >"$new/$shell"; done
  "$built/byway" manual "$new"
  file 755 bin/byway "$built/byway"
  # Programs that may not read a user's cache (AppArmor) can load this one.
  mkdir "$new/lib"; "$built/byway" library "$new/lib"
  for library in "$new"/lib/*; do file 755 "lib/byway/${library##*/}" "$library"; done
  for program in byway-mimalloc byway-iceoryx2; do
    [ ! -x "$built/$program" ] || file 755 "lib/byway/$program" "$built/$program"
  done
  file 755 lib/libbyway.so.0 "$built/libbyway.so"
  ln -sf libbyway.so.0 "$root/$at/lib/libbyway.so"; made="$made$newline$at/lib/libbyway.so"
  file 644 lib/libbyway.a "$built/libbyway.a"
  file 644 include/byway.h include/byway.h
  file 644 lib/pkgconfig/byway.pc "$new/byway.pc"
  for page in docs/man/*.3; do file 644 "share/man/man3/${page##*/}" "$page"; done
  for page in "$new"/*.1; do file 644 "share/man/man1/${page##*/}" "$page"; done
  file 644 share/bash-completion/completions/byway "$new/bash"
  file 644 share/zsh/site-functions/_byway "$new/zsh"
  file 644 share/fish/vendor_completions.d/byway.fish "$new/fish"
}

# What an earlier version installed, and this one does not, goes.
remove
[ "$1" = uninstall ] || add
