#!/bin/sh
# Packs what was built for Debian and its like, into OUT: `byway` (the program, manual pages, completions), `libbyway0`
# (the shared library of C) and `libbyway-dev` (its header, static library, pkg-config, pages); the Makefile calls it.
# Invariant: the files are those of `make install`, at the places that Debian has for them; the same commit and the same
# build make the same bytes. It needs dpkg-deb and binutils, and no right of root's.
# Not here: the build (make build), a check of the packages (tests/deb.sh), of an installation (tests/debian.sh).
set -eu
cd "$(dirname "$0")/.."
command -v dpkg-deb >/dev/null || { echo "deb: dpkg-deb is missing: this wants Debian or its like; try make install" >&2; exit 2; }
built=$BUILT version=$VERSION top=$PWD
mkdir -p "$OUT"; out=$(cd "$OUT" && pwd)
# dpkg-deb gives every file this time at most.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH
umask 022
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
BUILT=$built PREFIX=/usr DESTDIR=$work/byway VERSION=$version ci/install.sh install
cd "$work"

# dpkg has its own list. iceoryx2's program is in no usual build.
rm -f byway/usr/lib/byway/installed byway/usr/lib/byway/byway-iceoryx2
# /usr/share/zsh/site-functions is for what the user installs.
mkdir byway/usr/share/zsh/vendor-completions
mv byway/usr/share/zsh/site-functions/_byway byway/usr/share/zsh/vendor-completions/
rmdir byway/usr/share/zsh/site-functions
find byway/usr/share/man -type f -exec gzip -9n {} +
strip --strip-unneeded byway/usr/bin/byway byway/usr/lib/libbyway.so.0
[ ! -e byway/usr/lib/byway/byway-mimalloc ] || strip --strip-unneeded byway/usr/lib/byway/byway-mimalloc

# The files of the packages for C programs. The program links no library of these.
mkdir -p libbyway0/usr/lib libbyway-dev/usr/lib libbyway-dev/usr/share/man
mv byway/usr/lib/libbyway.so.0 libbyway0/usr/lib/
mv byway/usr/include libbyway-dev/usr/
mv byway/usr/lib/libbyway.* byway/usr/lib/pkgconfig libbyway-dev/usr/lib/
mv byway/usr/share/man/man3 libbyway-dev/usr/share/man/

# What the programs and libraries of a package need: the C library that their newest function is from, and libgcc.
needs() {
  # shellcheck disable=SC2046
  newest=$(objdump -T $(find "$1" -type f -perm -100) | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -uV | tail -n 1)
  echo "libc6 (>= $newest), libgcc-s1"
}

pack() { # name, section, what it depends on, what it is, more of it
  mkdir -p "$1/DEBIAN" "$1/usr/share/doc/$1"
  {
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\n'
    printf 'Copyright: %s\nLicense: MIT or Apache-2.0\n' "$(sed -n 's/^Copyright (c) //p' "$top/LICENSE-MIT")"
    printf ' On Debian systems the Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0. The MIT License:\n .\n'
    sed 's/^$/./; s/^/ /' "$top/LICENSE-MIT"
  } >"$1/usr/share/doc/$1/copyright"
  gzip -9nc "$top/CHANGELOG.md" >"$1/usr/share/doc/$1/changelog.gz"
  size=$(du -sk "$1/usr" | cut -f 1)
  (cd "$1" && find usr -type f -exec md5sum {} + | LC_ALL=C sort -k 2 >DEBIAN/md5sums)
  if [ -e "$1/usr/lib/libbyway.so.0" ]; then
    # Programs that were linked with the library find it by the loader's cache, their packages' needs by `shlibs`.
    echo 'activate-noawait ldconfig' >"$1/DEBIAN/triggers"
    echo "libbyway 0 $1 (>= $version)" >"$1/DEBIAN/shlibs"
  fi
  cat >"$1/DEBIAN/control" <<CONTROL
Package: $1
Version: $version
Architecture: amd64
Maintainer: ${MAINTAINER:-The Byway authors <byway@localhost>}
Installed-Size: $size
Depends: $3
Section: $2
Priority: optional
Description: $4
$5
CONTROL
  dpkg-deb --root-owner-group --build "$1" "$out/$1_${version}_amd64.deb" >/dev/null
  echo "$out/$1_${version}_amd64.deb"
}

pack byway utils "$(needs byway)" 'pipes of unmodified programs, through shared memory' \
' "byway run -- COMMAND" runs a command, and all that it starts, with the bytes
 of its pipes, FIFOs and UNIX stream sockets carried through shared memory.
 The programs stay as they are; no root, no daemon, no kernel module. What
 cannot be carried is left to the kernel. With a benchmark lab.'
pack libbyway0 libs "$(needs libbyway0)" 'pipes through shared memory, for C programs: the library' \
' The shared library of programs that use the pipes of byway directly. The
 program byway does not need it.'
pack libbyway-dev libdevel "libbyway0 (= $version), libc6-dev" 'pipes through shared memory, for C programs: development' \
' The header, the static library and the manual pages, to build programs that
 use the pipes of byway directly.'
