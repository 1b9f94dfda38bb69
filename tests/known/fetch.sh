#!/usr/bin/env bash
# Fetches and builds what theirs.py's tests of libraries and servers need: the Debian sources of the installed ones, ffmpeg, numpy.
#      usage: fetch.sh FOLDER [NAME ...]; without a name all of them
# Everything lies in FOLDER/<name> in the end, and works only there. Missing packages are installed as root.
# Where Debian no longer has the source of the installed version, the same release or else the newest stands in; a line says so.
# All of it takes about a quarter of an hour, most of it OpenSSL.
set -euo pipefail
all=(openssl libgcrypt20 nettle gmp zlib media numpy libevent libuv redis memcached)
usage() { echo "fetch: $1; usage: fetch.sh FOLDER [NAME ...], of ${all[*]}" >&2; exit 2; }
[ $# -ge 1 ] || usage "it takes a folder"
mkdir -p "$1" || usage "$1 cannot be made"
folder=$(realpath "$1"); shift
here=$(dirname "$(realpath "$0")")
what=("$@"); [ $# -gt 0 ] || what=("${all[@]}")
for w in "${what[@]}"; do
  [[ " ${all[*]} " = *" $w "* ]] || usage "there is no $w"
done
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
jobs=${JOBS:-1}

# The machine's own sources, as sources of source packages, with lists of their own.
chmod 755 "$work"; mkdir -p "$work/parts" "$work/lists/partial"
for f in /etc/apt/sources.list.d/{debian,ubuntu}.sources; do
  [ ! -f "$f" ] || sed 's/^Types:.*/Types: deb-src/' "$f" >"$work/parts/$(basename "$f")"
done
[ ! -f /etc/apt/sources.list ] || sed -n 's/^deb /deb-src /p' /etc/apt/sources.list >"$work/parts/old.list"
apt=(-qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/parts" -o "Dir::State::lists=$work/lists" -o APT::Sandbox::User=root)

packages() { # installs those that are missing
  local p missing=()
  for p in "$@"; do dpkg -s "$p" 2>/dev/null | grep -q '^Status: install ok installed' || missing+=("$p"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  [ "$(id -u)" = 0 ] || { echo "missing: ${missing[*]}; type:  sudo apt-get install ${missing[*]}" >&2; exit 1; }
  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-upgrade "${missing[@]}" >"$work/said" 2>&1 ||
    { tail -5 "$work/said" >&2; exit 1; }
}

source_of() { # the source package, one installed library of it: unpacks it to FOLDER/<source>
  local name=$1 installed v versions
  [ -s "$work/updated" ] || { apt-get "${apt[@]}" update && echo yes >"$work/updated"; }
  # shellcheck disable=SC2016
  installed=$(dpkg-query -W -f '${source:Version}\n' "$2" | head -1)
  # The same version, or else of the same release, or else the newest.
  versions=$(apt-cache "${apt[@]}" showsrc "$name" | sed -n 's/^Version: //p' | sort -uVr)
  versions=$(echo "$installed"; grep -F -- "${installed%-*}-" <<<"$versions" || true; echo "$versions")
  rm -rf "${folder:?}/$name" "$work/get"; mkdir "$work/get"
  for v in $versions; do
    (cd "$work/get" && apt-get "${apt[@]}" source "$name=$v" >"$work/said" 2>&1) || continue
    [ "$v" = "$installed" ] || echo "$name: installed is $installed, the tests are those of $v"
    mv "$work"/get/*/ "$folder/$name"
    return 0
  done
  echo "fetch: no source of $name: $(tail -1 "$work/said")" >&2; exit 1
}

quietly() { "$@" >"$work/said" 2>&1 || { tail -20 "$work/said" >&2; echo "fetch: failed: $*" >&2; exit 1; }; }
# What a Makefile's variable holds.
holds() { printf 'include Makefile\nshow_it:\n\t@echo $(%s)\n' "$1" | make -s -f - show_it; }

# Debian's options. The tests load the installed library: no path to the built one is set.
get_openssl() {
  packages gcc make perl dpkg-dev libssl3 openssl; source_of openssl libssl3; cd "$folder/openssl"
  local options=(shared no-idea no-mdc2 no-rc5 no-zlib no-ssl3 enable-unit-test no-ssl3-method enable-rfc3779 enable-cms no-capieng no-rdrand)
  [ "$(uname -m)" != x86_64 ] || options+=(enable-ec_nistp_64_gcc_128)
  quietly ./Configure "linux-$(uname -m)" --openssldir=/usr/lib/ssl "${options[@]}"
  quietly make -j"$jobs" build_libs
  # OpenSSL links a third of its tests with libcrypto.a. Most of them do as well with the shared library: the rest then
  # gets the archive after all.
  mv libcrypto.a own.a; echo 'INPUT(libcrypto.so)' >libcrypto.a
  make -k -j"$jobs" build_programs >"$work/said" 2>&1 || true
  mv own.a libcrypto.a
  quietly make -j"$jobs" build_sw
  # OpenSSL's own would set LD_LIBRARY_PATH to this folder.
  printf '#!/bin/sh\nexec "$@"\n' >util/shlib_wrap.sh; chmod 755 util/shlib_wrap.sh
}
get_libgcrypt20() {
  packages gcc make dpkg-dev libgpg-error-dev libgcrypt20; source_of libgcrypt20 libgcrypt20; cd "$folder/libgcrypt20"
  quietly ./configure --enable-noexecstack --enable-ld-version-script --disable-static --disable-doc
  quietly make -j"$jobs"
  quietly make -j"$jobs" -C tests check TESTS=
  # Their path of libraries goes to the built one first: without that, the installed one is found.
  mv src/.libs src/built
  cd tests && holds TESTS >../names
}
get_nettle() {
  packages gcc make m4 dpkg-dev libgmp-dev libnettle8 libhogweed6; source_of nettle libnettle8; cd "$folder/nettle"
  quietly ./configure --enable-fat --disable-documentation
  quietly make -j"$jobs"
  cd testsuite; holds TS_ALL >../names
  # shellcheck disable=SC2046
  quietly make -j"$jobs" $(cat ../names)
}
get_gmp() {
  packages gcc g++ make m4 dpkg-dev libgmp10 libgmpxx4ldbl; source_of gmp libgmp10; cd "$folder/gmp"
  # Debian's package lacks the manual, and its patch of Makefile.am would want all of autotools.
  mkdir -p doc; printf 'all check clean:\n' >doc/Makefile.in
  touch aclocal.m4; sleep 1; touch configure config.in; find . -name Makefile.in -exec touch {} +
  local type fat=--enable-fat
  type=$(dpkg-architecture -qDEB_HOST_GNU_TYPE)
  [ "$(dpkg --print-architecture)" != amd64 ] || fat=--disable-fat
  quietly ./configure --build "$type" --enable-cxx $fat --disable-static
  quietly make -j"$jobs"
  quietly make -j"$jobs" -C tests check TESTS=
  mv .libs built # as above
  local d t
  for d in tests tests/*/; do
    [ ! -f "$d/Makefile" ] || (cd "$d" && for t in $(holds check_PROGRAMS); do echo "${d%/}/$t"; done)
  done >names
}
get_zlib() {
  packages gcc make dpkg-dev zlib1g; source_of zlib zlib1g; cd "$folder/zlib"
  quietly ./configure
  quietly make -j"$jobs" shared
  quietly cc -O2 -I. -w -o infcovershared test/infcover.c inftrees.c libz.so
}
get_media() { packages ffmpeg; mkdir -p "$folder/media"; }
get_numpy() {
  packages python3 python3-venv
  python3 -m venv "$folder/numpy" && "$folder/numpy/bin/pip" install -q numpy pytest hypothesis
}
get_libevent() {
  packages gcc make dpkg-dev zlib1g-dev libevent-core-2.1-7 libevent-extra-2.1-7 libevent-pthreads-2.1-7
  source_of libevent libevent-core-2.1-7; cd "$folder/libevent"
  quietly ./configure --disable-openssl --disable-static
  # Debian's patches are newer than what autotools made of them.
  quietly make -j"$jobs" AUTOCONF=: AUTOMAKE=: ACLOCAL=: AUTOHEADER=:
  mv .libs built # as above
  quietly cc -O1 -Wall -Wextra -shared -fPIC -o one_way.so "$here/one_way.c"
}
get_libuv() {
  packages gcc cmake make dpkg-dev libuv1; rm -rf "$folder/libuv"; source_of libuv1 libuv1; mv "$folder/libuv1" "$folder/libuv"; cd "$folder/libuv"
  quietly cmake -B build -DLIBUV_BUILD_TESTS=ON
  quietly make -j"$jobs" -C build uv_run_tests_a
}
get_redis() {
  packages dpkg-dev tcl redis-server redis-tools; source_of redis redis-server; cd "$folder/redis"
  local b
  for b in server cli benchmark sentinel check-aof check-rdb; do ln -s "$(command -v "redis-$b" || echo /usr/bin/redis-server)" "src/redis-$b"; done
  # A value that this version of the server does not know, in a test that came from a later one.
  sed -i 's/repl-diskless-load yes/repl-diskless-load swapdb/' tests/integration/replication.tcl
}
get_memcached() {
  packages gcc make perl dpkg-dev libevent-dev memcached; source_of memcached memcached; cd "$folder/memcached"
  quietly ./configure --disable-docs
  quietly make -j"$jobs" memcached memcached-debug timedrun sizes testapp
}
for w in "${what[@]}"; do
  start=$SECONDS; (get_"$w"); echo "$w: ready in $folder/$w after $((SECONDS - start)) s"
done
