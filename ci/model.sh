#!/usr/bin/env bash
# The models: the channel protocol (models/pipe.pml), small configurations in full, larger ones by supertrace for a while; threads
# that share a set (models/pool.pml), ends that find each other (models/match.pml), a connection of stream sockets
# (models/socket.pml), the inbox of a UDP socket (models/inbox.pml), the biased lock and the inline payload
# (models/biased_lock.pml), and pass-through calls (models/pass_through.pml), in full; of all, each known bug as a control that
# must be found.
# usage: model.sh [SECONDS for each supertrace, default 8]
set -u
cd "$(dirname "$0")/.."
seconds=${1:-8} bad=0
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
# A large table takes the time of its pages.
model=$PWD/models/pipe.pml slots=25 depth=1000000
compiler=gcc
build() { # compiler flags -- spin flags. Not optimized: that takes the compiler ten seconds, and saves a run three at most
  local cc=()
  while [ "$1" != -- ]; do cc+=("$1"); shift; done; shift
  (cd "$work" && spin -a "$@" "$model" >out 2>&1 && $compiler -w -DSAFETY -DVECTORSZ=2048 "${cc[@]}" -o pan pan.c) || { cat "$work/out"; exit 1; }
}
# Seconds of the CPU: others may use it meanwhile. The subshell is not replaced, and keeps to itself that a signal ended it.
run() { (cd "$work" && ulimit -t "$1" -c 0 && ./pan -m$depth -w$slots; true) >"$work/out" 2>&1; }
states() { sed -n 's/ *\([0-9.e+]*\) states, stored.*/\1/p' "$work/out"; }
holds() { # all of it
  build -DCOLLAPSE -DMEMLIM=6000 -- "$@"; run 120
  if grep -q 'errors: 0' "$work/out"; then echo "holds: $* ($(states) states)"; else bad=1; echo "FAILS: $*"; grep -E 'pan:|errors' "$work/out"; fi
}
searched() { # as much as the time allows
  local slots=27
  build -DBITSTATE -- "$@"; run "$seconds"
  if grep -q 'pan:1' "$work/out"; then bad=1; echo "FAILS: $*"; grep -E 'pan:' "$work/out"; else echo "nothing found in $seconds s: $*"; fi
}
finds() { # soon: so it is tcc that compiles it, in a twentieth of the time that gcc takes
  local slots=24 compiler=tcc
  build -DCOLLAPSE -DMEMLIM=6000 -- "$@"; run 120
  if grep -q 'pan:1' "$work/out"; then echo "finds: $*"; else bad=1; echo "DOES NOT FIND: $*"; fi
}
holds -DN=3
holds -DN=4 -DMSG=3
holds -DN=4 -DMSG=3 -DOPEN_AT_START=1
holds -DN=2 -DHANDBACK=1
holds -DN=2 -DHANDBACK=1 -DSUSPEND=1
holds -DN=2 -DHANDBACK=1 -DSUSPEND=1 -DSPILL=1
holds -DN=1 -DNR=2 -DMSG=1
holds -DN=2 -DHANDBACK=1 -DSUSPEND=1 -DSPLICE=1
searched -DN=4 -DHANDBACK=1 -DSUSPEND=1 -DMSG=3
searched -DN=2 -DHANDBACK=1 -DSUSPEND=1 -DSPLICE=1 -DSPILL=1
searched -DN=2 -DNR=2 -DHANDBACK=1
searched -DN=2 -DNW=2
searched -DN=2 -DNW=2 -DNR=2 -DHANDBACK=1 -DSUSPEND=1
searched -DN=2 -DNW=2 -DNR=2 -DHANDBACK=1 -DSUSPEND=1 -DSPILL=1
finds -DBUG_WOKEN -DN=3
finds -DBUG_FIRST -DN=3
finds -DBUG_PLACE -DN=3
finds -DBUG_ARM -DN=4 -DMSG=3 -DOPEN_AT_START=1
finds -DBUG_FULL -DN=4 -DMSG=3 -DOPEN_AT_START=1
finds -DBUG_EMPTY -DN=4 -DMSG=3
finds -DBUG_ABANDON -DN=4 -DMSG=3
finds -DBUG_SEQ -DN=3 -DHANDBACK=1 -DSUSPEND=1 -DOPEN_AT_START=1
finds -DBUG_PENDING -DN=2 -DHANDBACK=1 -DSUSPEND=1 -DSPLICE=1
# These show in a short run, and much sooner so.
depth=300
finds -DBUG_PUMP -DN=4 -DMSG=3 -DOPEN_AT_START=1 -DHANDBACK=1
finds -DBUG_FOREVER -DN=3 -DHANDBACK=1
for bug in OVERTAKE GAP; do finds -DBUG_$bug -DN=3 -DMSG=3 -DHANDBACK=1 -DSPILL=1 -DOPEN_AT_START=1; done
finds -DBUG_HEAD -DN=3 -DHANDBACK=1 -DSUSPEND=1 -DSPILL=1 -DOPEN_AT_START=1
# Two readers may hand back, and the writer open, without end.
depth=150
finds -DBUG_STEAL -DN=2 -DNR=2 -DMSG=1 -DOPEN_AT_START=1
depth=1000000
# Readers that wait by poll, and by edge (models/ready.pml).
slots=24
holds -DPOLL=1 -DN=2
holds -DPOLL=1 -DN=3 -DSTAY=1
holds -DPOLL=1 -DN=2 -DSTAY=1 -DEDGE=1
holds -DPOLL=1 -DN=2 -DSTAY=1 -DIDLE=1
holds -DPOLL=1 -DN=2 -DSTAY=1 -DEDGE=1 -DIDLE=1
searched -DPOLL=1 -DN=2 -DSTAY=1 -DIDLE=1 -DHANDBACK=1
searched -DPOLL=1 -DN=3 -DSTAY=1 -DEDGE=1 -DIDLE=1
searched -DPOLL=2 -DN=1 -DNR=2 -DMSG=1 -DSTAY=1 -DOPEN_AT_START=1
for bug in UNCOUNTED LATE PLACE; do finds -DPOLL=1 -DBUG_$bug -DN=2 -DSTAY=1; done
finds -DPOLL=1 -DBUG_ARMED -DN=2 -DSTAY=1 -DIDLE=1
finds -DPOLL=1 -DBUG_SILENT -DN=2 -DSTAY=1 -DEDGE=1 -DIDLE=1
finds -DPOLL=1 -DBUG_UNREAD -DN=3 -DSTAY=1 -DEDGE=1
# Threads that share a set.
model=$PWD/models/pool.pml slots=24
holds -DN=2
holds -DN=3
for bug in DISARM SHOW HOOK SURE CALM; do finds -DBUG_$bug -DN=3; done
# Ends of a connection that find each other.
model=$PWD/models/match.pml
holds -DN=4
holds -DN=4 -DOUTSIDER=1
for bug in COUNT LOOK CALLS HALF HERE; do finds -DBUG_$bug; done
finds -DBUG_OUTSIDER -DOUTSIDER=1
# A connection of stream sockets.
model=$PWD/models/socket.pml
holds -DN=4
holds -DN=3 -DLEAVES=1 -DKILLED=1
holds -DN=3 -DLEAVES=1 -DMIXED=1
holds -DN=2 -DCAP=1 -DBOTH=1
finds -DBUG_CHUNK -DN=3
finds -DBUG_FULL -DN=5
finds -DBUG_EARLY -DN=3 -DLEAVES=1
finds -DBUG_SLEEP -DN=2 -DCAP=1 -DBOTH=1
finds -DBUG_MIXED -DN=3 -DMIXED=1
finds -DBUG_GONE -DN=3 -DLEAVES=1 -DKILLED=1
finds -DBUG_SAME -DN=4
# The inbox of a UDP socket.
model=$PWD/models/inbox.pml
holds -DN=3
for bug in ARM SLEEP CHUNK SAME; do finds -DBUG_$bug -DN=3; done
model=$PWD/models/biased_lock.pml
# These take seconds, of which the pages of a large table would have most.
slots=23
holds -DN1=3 -DN2=1 -DMSG=1 -DBIASED=1
holds -DN1=2 -DN2=1 -DREAD=1 -DBIASED=1
holds -DN1=1 -DN2=1 -DMSG=1 -DBIASED=1 -DHANDBACK=1 -DDEATH=1
holds -DN1=1 -DN2=1 -DMSG=1 -DBIASED=1 -DHANDLER=1
for bug in WAIT BARRIER LOOK FRESH CLEAR LATE STAMP TWICE; do finds -DBUG_$bug -DN1=2 -DN2=1 -DMSG=1 -DBIASED=1; done
for bug in HEIR GONE; do finds -DBUG_$bug -DN1=1 -DN2=1 -DMSG=1 -DBIASED=1 -DHANDBACK=1 -DDEATH=1; done
finds -DBUG_HANDLER -DN1=1 -DN2=1 -DMSG=1 -DBIASED=1 -DHANDLER=1
model=$PWD/models/pass_through.pml
slots=24
pass=(-DN1=2 -DN2=0 -DOPENINGS=2 -DLEAVES=1)
holds "${pass[@]}"
holds "${pass[@]}" -DHANDLER=1
holds -DN1=1 -DN2=1 -DOPENINGS=2 -DLEAVES=0
for bug in LOOK BARRIER SCAN; do finds -DBUG_$bug "${pass[@]}"; done
finds -DBUG_LOCK -DN1=1 -DN2=1 -DOPENINGS=3 -DLEAVES=1
finds -DBUG_NEST "${pass[@]}" -DHANDLER=1
exit $bad
