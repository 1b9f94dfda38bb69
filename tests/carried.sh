# Sourced by tcp.sh and udp.sh: what each case of theirs is, and how it is told that a socket was carried.
#   before: B, the program; after: T, a folder that goes at the end, and bad, the status
T=$(mktemp -d) bad=0
trap 'rm -rf "$T"' EXIT
check() { # what, 1 or 0: carried or not, command...
  local what=$1 want=$2 said; shift 2
  said=$("$@" 2>&1) || { echo "not ok  $what: it failed: $said"; bad=1; return; }
  if grep -q '^byway: .*socket.*bytes carried' <<<"$said"; then got=1; else got=0; fi
  [ "$got" = "$want" ] && echo "ok      $what" || { echo "not ok  $what: carried $got, not $want: $said"; bad=1; }
}
