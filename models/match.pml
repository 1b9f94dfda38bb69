/* The two ends of a connection with a name (docs/sockets.md, ADR 35), as peer.rs of the pipe core and unmatched.rs of the preload
 * library have them.
 *
 *   reader    both matched?  its channel counts it, and it sleeps or reads       (as ever: pipe.pml)
 *             else calls++;  both matched by now?  calls--, and anew;  else it sleeps in the kernel;  calls--
 *   writer    worth a ring: there := 1;  here := 1;  or, if here is 1, there := 1;  lock;  calls = 0?  open
 *   answerer  writes at the other end, and matches from there: here := 1;  there := 1
 *   outsider  calls := many, for good;  both matched?  hand back for good;  then it reads from the kernel lane alone
 *
 * here, there: the writer's end, and the readers', knows the other one.
 * A writer, two threads that read at the other end, one that writes there at any time, and, if wanted, an outsider that gets the same
 * end at any time. Once it has, the threads may end.
 * Checked: each unit is read, and nobody sleeps beside units that it is not told of (no invalid end state).
 * Not here: places of the kernel lane, hand-backs by steps, death (pipe.pml). An opening and a hand-back are one step each, for both
 * are under the writers' lock. Stores are seen in order: those of this protocol are SeqCst.
 *
 * Parameters: N units; OUTSIDER=1 adds the outsider.
 * Bugs, as controls: BUG_COUNT (a call that is counted does not look again), BUG_LOOK (the writer looks at the calls before it matches),
 * BUG_CALLS (it does not look at them), BUG_HALF (a reader counts no call once its own end is matched, and finds no channel),
 * BUG_HERE (the writer looks at the calls once its own end is matched), BUG_OUTSIDER (an outsider does not look whether the ends are
 * matched).
 */
#ifndef N
#define N 3
#endif
#ifndef OUTSIDER
#define OUTSIDER 0
#endif
#define MANY 50

bool here = false;
bool there = false;
bool open = false;
bool forever = false;
bool outside = false;
byte calls = 0;
byte sleepers = 0;
byte ring = 0;
byte lane = 0;
byte got = 0;

#define LEFT (got < N)
#define BOTH (here && there)

inline sends() {
    atomic {
        if
        :: open && sleepers == 0 -> ring++
        :: else -> lane++ /* The kernel's, or what wakes a sleeper. */
        fi
    }
}

active proctype writer() {
    byte n = 0;
    bool idle = false;
    do
    :: n < N && !open && !forever ->
#ifdef BUG_LOOK
        idle = (calls == 0);
        there = true;
        here = true;
        d_step { open = idle && !forever }
#else
        if
#ifdef BUG_HERE
        :: here
#endif
        :: there = true
        fi;
        here = true;
        d_step {
#ifdef BUG_CALLS
            idle = true;
#else
            idle = (calls == 0);
            forever = forever || calls >= MANY;
#endif
            open = idle && !forever
        }
#endif
        sends();
        n++
    :: n < N -> sends(); n++
    :: n == N -> break
    od
}

inline native() {
    atomic {
        (lane > 0 || !LEFT);
        if
        :: lane > 0 -> lane--; got++
        :: else
        fi
    }
}

active [2] proctype reader() {
    bool counted;
    do
    :: !LEFT || outside -> break
    :: LEFT && !BOTH ->
#ifdef BUG_HALF
        if
        :: there -> native()
        :: else
        fi;
#endif
        calls++;
#ifdef BUG_COUNT
        native();
#else
        if
        :: BOTH
        :: else -> native()
        fi;
#endif
        calls--
    :: LEFT && BOTH ->
        atomic {
            counted = false;
            if
            :: open && ring > 0 && lane == 0 -> ring--; got++
            :: lane > 0 -> lane--; got++
            :: else -> sleepers++; counted = true
            fi
        }
        if
        :: counted ->
            native();
            sleepers--
        :: else
        fi
    od
}

active proctype answerer() {
    if
    :: here = true; there = true
    :: true
    fi
}

#if OUTSIDER
active proctype outsider() {
    calls = calls + MANY;
#ifndef BUG_OUTSIDER
    if
    :: BOTH -> d_step { forever = true; open = false; lane = lane + ring; ring = 0 }
    :: else
    fi;
#endif
    outside = true;
    do
    :: LEFT -> native()
    :: else -> break
    od
}
#endif
