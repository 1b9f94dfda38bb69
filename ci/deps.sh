#!/usr/bin/env bash
# Checks what building and testing need; as root installs what is missing, else prints the one command to type.
set -u
missing=()
want() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
want cc gcc; want make make; want openssl openssl; want xz xz-utils; want perl perl; want python3 python3
want busybox busybox-static; want strace strace; want spin spin; want tcc tcc; want setpriv util-linux; want column bsdextrautils; want script bsdutils; want git git; want pgrep procps; want chromium chromium
want ip iproute2; want curl curl; [ -x /usr/sbin/vsftpd ] || want vsftpd vsftpd
[ -x /usr/sbin/mkfs.btrfs ] || want mkfs.btrfs btrfs-progs
want luajit luajit; want pv pv; want mbuffer mbuffer; want socat socat
want objdump binutils; want g++ g++; want pkg-config pkg-config; want nm binutils; want groff groff-base; want man man-db; want zsh zsh; want fish fish
python3 -c 'import ctypes; ctypes.CDLL("libzmq.so.5")' 2>/dev/null || missing+=(libzmq5)
python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
command -v cargo >/dev/null 2>&1 || { echo "cargo is missing: install a Rust toolchain (1.88 or later), then try again" >&2; exit 1; }
[ ${#missing[@]} = 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  # A fresh machine may be updating itself.
  apt() { DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -qq "$@"; }
  apt update && apt install -y "${missing[@]}" >/dev/null
else
  echo "missing: ${missing[*]}; type:  sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
