#!/usr/bin/env bash
# The packages of `make deb` in a clean root of Debian or Ubuntu, of each release that is named: `apt install
# ./byway_*.deb`, the README's three lines, a C program by libbyway-dev; then all is removed, and every file is as before.
# Invariant: the root is new each time and has only what Debian calls essential, apt and a small C compiler; its files,
# name spaces and /dev/shm are its own. Its mirror is this machine's own, or MIRROR; Ubuntu's needs the package
# ubuntu-keyring. Downloads stay in target/debian.
# Not here: what the packages consist of (deb.sh); a machine without apt and mmdebstrap, which is said.
# usage: debian.sh BYWAY [RELEASE...]      (bookworm trixie)
set -u
. "$(dirname "$0")/says.sh"

# Each file and what is in it, but for those that say that something happened: dpkg's and apt's own records, logs, and
# what apt has looked up; and ldconfig's notes of when it saw which file. /debs is this suite's.
files() {
  (
    cd "$1" || exit
    seen() {
      find . -mindepth 1 \( -path ./proc -o -path ./sys -o -path ./dev -o -path ./debs -o -path ./var/lib/dpkg \
        -o -path ./var/lib/apt -o -path ./var/cache/apt -o -path ./var/cache/ldconfig -o -path ./var/log \) -prune -o "$@"
    }
    seen -printf '%p %M %U:%G %l\n'
    seen -type f -print0 | xargs -0 md5sum
  ) | LC_ALL=C sort
}

# Within mmdebstrap, as root of a name space: the new root is $1, $2 is the folder with the README and the packages.
if [ "${IN_A_NEW_ROOT-}" = 1 ]; then
  root=$1 from=$2
  # The host's /dev/shm has the runs of others.
  mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm" || exit 1
  within() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive bash -c "$1"; }
  # apt-get keeps what it has downloaded, apt does not.
  does() {
    within "cd /debs && apt -o APT::Keep-Downloaded-Packages=1 $1" >"$from/said" 2>&1; status=$?
    [ $status = 0 ] || tail -n 20 "$from/said"; is "apt $1" $status 0
  }
  mkdir "$root/debs"; cp "$from"/*.deb "$root/debs/"
  # The loader's cache is from before libc6-dev's links came.
  within ldconfig
  files "$root" >"$from/before"
  installed() { within "dpkg-query -Wf '\${Package} \${Status}\n'" | sed -n 's/ install ok installed$//p'; }
  installed >"$from/packages"

  # Alone: the program needs no library of ours.
  does "install -y ./byway_*.deb"
  is "what was installed" "$(installed | grep byway)" byway
  # The README's first lines, but for the build, which the package stands for; then what it says that they print.
  block() { sed -n '1,/^## /p' "$from/README.md" | sed -n '/^```/,/^```/p' | grep -v '^```'; }
  lines=$(block | sed -n 's/^\$ //p'); is "README: how many lines" "$(grep -c . <<<"$lines")" 3
  is "README: the first builds" "$(head -n 1 <<<"$lines")" "make build"
  told=$(within "cd /root && $(sed '1d; s|target/release/byway|byway|' <<<"$lines")" 2>"$from/explained"); status=$?
  is "README: status" $status 0
  is "README: what was counted" "$told" "$(block | grep -v '^\$' | head -n 1)"
  has "README: what was carried" "$(cat "$from/explained")" "byway: 1 of 1 pipe carried, "
  within 'byway doctor' >"$from/said" 2>&1; status=$?; is "doctor: $(grep -v '^ok' "$from/said")" $status 0
  is "/dev/shm" "$(find "$root/dev/shm" -name 'run-*')" ""

  # A C program, built as a user of the packages builds it.
  does "install -y --no-install-recommends ./libbyway0_*.deb ./libbyway-dev_*.deb"
  cat >"$root/root/c.c" <<'C'
#include <byway.h>
#include <stdio.h>
int main(void) {
    byway_reader *r; byway_writer *w; char text[8] = "";
    if (byway_pipe(&r, &w) || byway_write(w, "hello", 5, -1) != 5 || byway_read(r, text, 5, -1) != 5) return 1;
    return puts(text) == EOF;
}
C
  is "a C program" "$(within 'cd /root && tcc -o c c.c -lbyway && ./c' 2>&1)" hello
  has "its library" "$(within 'ldconfig -p' | sed 's|> /usr/|> /|' | grep libbyway)" "libbyway.so.0 (libc6,x86-64) => /lib/libbyway.so.0"

  # Without a trace: also what this user had, the cache, is where the documents say.
  rm "$root/root/text" "$root/root/c" "$root/root/c.c"
  cache=$root/root/.cache; is "this user's" "$(ls "$cache")" byway; rm -r "$cache"
  does "purge -y byway libbyway0 libbyway-dev"
  is "packages afterwards" "$(installed | diff "$from/packages" -)" ""
  files "$root" >"$from/after"
  is "files afterwards" "$(diff "$from/before" "$from/after" | head -n 20)" ""
  rmdir "$root"/dev/shm/byway-* 2>/dev/null; is "/dev/shm afterwards" "$(ls -A "$root/dev/shm")" ""
  umount "$root/dev/shm"
  echo "$passed passed, $failed failed" >"$from/ended"
  exit 0
fi

cd "$(dirname "$0")/.." || exit 1
byway=$1; shift
[ $# != 0 ] || set -- bookworm trixie
built=$(dirname "$(realpath "$byway")") cache=$PWD/target/debian
leave_out() { echo "debian: left out, $1" >&2; exit 0; }
for tool in mmdebstrap apt-get dpkg-deb; do
  command -v $tool >/dev/null || leave_out "for $tool is missing; on Debian, as root: apt-get install ${tool/apt-get/apt}"
done
[ "$(id -u)" = 0 ] || command -v newuidmap >/dev/null || leave_out "for newuidmap is missing; on Debian, as root: apt-get install uidmap"
mirror=${MIRROR-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)}
[ -n "$mirror" ] || leave_out "for apt knows no mirror of Debian: apt-get update, or MIRROR=URL"
# Without root, the root of the new name space is a user who has no access to a folder of 0700.
work=$(mktemp -d); chmod 755 "$work"; trap 'rm -rf "$work"' EXIT
make -s deb BUILT="$built" OUT="$work" >"$work/out" 2>&1 || { cat "$work/out"; exit 1; }
cp tests/debian.sh tests/says.sh README.md "$work/"

made_of=(--variant=apt --include=tcc,libc6-dev)
# What is downloaded stays, for the next time; nothing is written through to the disk.
quickly=(--dpkgopt=force-unsafe-io --skip=download/empty,essential/unlink)
# One root: mmdebstrap makes it, calls this program for what is tried in it, and removes it, however that ends.
one() { # release
  local from=$work/$1
  # In Debian the hook leaves out usrmerge, and perl with it. Ubuntu has the C compiler elsewhere.
  local kind=(--include=usr-is-merged --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr)
  ! grep -q '^Origin: Ubuntu' "$work/$1.there" || kind=(--components=main,universe)
  mkdir -p "$cache/$1" "$from"; cp "$work"/*.deb "$work/README.md" "$from/"; chmod 777 "$from"
  if mmdebstrap "${made_of[@]}" "${quickly[@]}" --format=null "${kind[@]}" \
    --setup-hook='mkdir -p "$1/var/cache/apt/archives"' --setup-hook="sync-in '$cache/$1' /var/cache/apt/archives" \
    --customize-hook="IN_A_NEW_ROOT=1 unshare --mount bash '$work/debian.sh' \"\$1\" '$from' >'$from/log' 2>&1" \
    --customize-hook="sync-out /var/cache/apt/archives '$cache/$1'" \
    "$1" /dev/null "$mirror" >"$from/made" 2>&1 && [ -s "$from/ended" ]; then
    sed "s/^/$1: /" "$from/log" "$from/ended"; grep -q ' 0 failed' "$from/ended"
  else
    tail -qn 20 "$from/made" "$from/log" 2>/dev/null | sed "s/^/$1: /"; return 1
  fi
}
rc=0 pids=()
for release; do
  if /usr/lib/apt/apt-helper download-file "${mirror%/}/dists/$release/InRelease" "$work/$release.there" >/dev/null 2>&1; then
    one "$release" & pids+=($!)
  else
    echo "debian: left out, $release: the mirror of apt does not answer, or has no such release" >&2
  fi
done
for p in "${pids[@]}"; do wait "$p" || rc=1; done
exit $rc
