#!/usr/bin/env bash
# The Debian packages of `make deb`: their files, a program that runs from where it was unpacked, a C program that is
# linked, and an installation by dpkg that leaves nothing when it is removed.
# Not here: what the files are worth (install.sh, native.sh).
# usage: deb.sh BYWAY
set -u
. "$(dirname "$0")/says.sh"
cd "$(dirname "$0")/.." || exit 1
built=$(dirname "$(realpath "$1")")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
export BYWAY_CACHE=$work/cache
make -s deb BUILT="$built" OUT="$work" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
make -s install BUILT="$built" DESTDIR="$work/made" PREFIX=/usr
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
names=(byway libbyway0 libbyway-dev) packages=()
for name in "${names[@]}"; do packages+=("$work/${name}_${version}_amd64.deb"); done
is "no other package" "$(ls "$work"/*.deb | sort)" "$(printf '%s\n' "${packages[@]}" | sort)"
for p in "${packages[@]}"; do
  is "${p##*/}" "$(dpkg-deb -f "$p" Version Architecture | tr '\n' ' ')" "Version: $version Architecture: amd64 "
  is "${p##*/}: root's files" "$(dpkg-deb -c "$p" | awk '{print $2}' | sort -u)" root/root
  dpkg-deb -x "$p" "$work/root"
  mkdir "$work/control"; dpkg-deb -e "$p" "$work/control"
  is "${p##*/}: sums" "$(cd "$work/root" && md5sum --quiet -c "$work/control/md5sums" 2>&1)" ""; rm -r "$work/control"
done

# What each depends on, by what is linked; other packages find the library's by its file `shlibs`.
for i in 0 1; do
  depends=$(dpkg-deb -f "${packages[i]}" Depends)
  has "${names[i]}: the C library" "$depends" "libc6 (>= 2."; hasnt "${names[i]}: no other of ours" "$depends" byway
done
is "libbyway-dev: its library" "$(dpkg-deb -f "${packages[2]}" Depends)" "libbyway0 (= $version), libc6-dev"
hasnt "byway links no library of ours" "$(objdump -p "$work/root/usr/bin/byway")" libbyway
control() { dpkg-deb --ctrl-tarfile "$1" | tar -xOf - "./$2" 2>/dev/null; }
is "libbyway0: the loader's cache" "$(control "${packages[1]}" triggers)" "activate-noawait ldconfig"
is "libbyway0: shlibs" "$(control "${packages[1]}" shlibs)" "libbyway 0 libbyway0 (>= $version)"
has "libbyway0: the name that programs ask for" "$(objdump -p "$work/root/usr/lib/libbyway.so.0")" "libbyway.so.0"
for i in 0 2; do is "${names[i]}: no library" "$(control "${packages[i]}" triggers)" ""; done

# All together are what `make install` gives, but for what is Debian's way.
files() { (cd "$1" && find . ! -type d | sort); }
is "files" "$(files "$work/root" | grep -v /doc/ | sed '/share\/man/s/\.gz$//; s|vendor-completions|site-functions|')" \
  "$(files "$work/made" | grep -v -e /byway/installed -e /byway-iceoryx2)"
is "documents" "$(cd "$work/root/usr/share/doc" && echo ./*/*)" "$(echo ./{byway,libbyway-dev,libbyway0}/{changelog.gz,copyright})"
within() { dpkg-deb -c "$1" | awk '{print $6}' | grep -v -e /man -e /doc -e '/$' | sort | tr '\n' ' '; }
is "files of libbyway0" "$(within "${packages[1]}")" "./usr/lib/libbyway.so.0 "
is "files of libbyway-dev" "$(within "${packages[2]}")" \
  "./usr/include/byway.h ./usr/lib/libbyway.a ./usr/lib/libbyway.so ./usr/lib/pkgconfig/byway.pc "
has "a page" "$(man -M "$work/root/usr/share/man" byway-run 2>&1)" BYWAY_CACHE
has "a page that names another" "$(man -M "$work/root/usr/share/man" 3 byway_error 2>&1)" byway_error

# The program, and its library.
unpacked=$work/root/usr/bin/byway
is "unpacked: a pipe" "$("$unpacked" run -- sh -c 'echo a | cat' 2>&1)" a
is "unpacked: the library beside it" "$("$unpacked" run -- sh -c 'realpath "$LD_PRELOAD"')" "$(ls "$work"/root/usr/lib/byway/*-libbyway_preload.so)"
"$unpacked" run --explain -- sh -c 'head -c 1000000 /dev/zero | wc -c' >/dev/null 2>"$work/told"; has "unpacked: carried" "$(cat "$work/told")" "1 of 1 pipe carried"
"$unpacked" bench mbuf nosuch >"$work/told" 2>&1; is "unpacked: the lab" $? 2

# A C program, by pkg-config.
cat >"$work/c.c" <<'C'
#include <byway.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    byway_reader *r; byway_writer *w; char text[8] = "";
    if (byway_pipe(&r, &w) || byway_write(w, "hello", 5, -1) != 5 || byway_read(r, text, 5, -1) != 5) return 1;
    return puts(text) == EOF;
}
C
flags=$(PKG_CONFIG_SYSROOT_DIR=$work/root PKG_CONFIG_PATH=$work/root/usr/lib/pkgconfig pkg-config --cflags --libs byway)
# shellcheck disable=SC2086
cc -o "$work/c" "$work/c.c" $flags && is "linked" "$(LD_LIBRARY_PATH=$work/root/usr/lib "$work/c" 2>&1)" hello

# dpkg itself, into a folder; without root it takes fakeroot for the owners.
as=()
if [ "$(id -u)" != 0 ]; then as=(fakeroot); command -v fakeroot >/dev/null || as=(false); fi
if [ "${as[*]}" != false ]; then
  there=$work/there; mkdir -p "$there/var/lib/dpkg/updates" "$there/var/lib/dpkg/info"; : >"$there/var/lib/dpkg/status"
  # Nothing that a package needs is in there, and no ldconfig for its trigger.
  dpkg=("${as[@]}" env PATH="$PATH:/usr/sbin:/sbin" dpkg --root="$there" --force-not-root --force-depends --log=/dev/null)
  left() { (cd "$there" && find . -mindepth 1 ! -path './var*' | sort | tr '\n' ' '); }
  "${dpkg[@]}" -i "${packages[@]}" >"$work/out" 2>&1; status=$?; is "dpkg -i: $(tail -n 3 "$work/out")" $status 0
  is "installed" "$(files "$there" | grep -v '^./var/')" "$(files "$work/root")"
  is "installed: whole" "$("${dpkg[@]}" -V "${names[@]}" 2>&1)" ""
  "${dpkg[@]}" -r "${names[@]}" >"$work/out" 2>&1; status=$?; is "dpkg -r: $(tail -n 3 "$work/out")" $status 0
  is "removed: nothing is left" "$(left)" ""
fi
echo "deb: $passed passed, $failed failed"
[ $failed = 0 ]
