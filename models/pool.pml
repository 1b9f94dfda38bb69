/* Threads that share a set of epoll's in which one carried pipe is told once for each arming (EPOLLONESHOT).
 *
 * The kernel alone tells of it, and disables it then. So it is armed, as a sleeping reader is, or the kernel lane has the oldest
 * bytes. WAITERS threads sleep in the set; the one that is told reads and arms again. A meddler arms it at any moment, and a
 * reader reads it unasked. The steps under the list's lock are atomic here; the kernel, the writer and the way home are not.
 * Checked: nobody sleeps for ever beside bytes (an invalid end state); `off` is said only of what the kernel has disabled.
 * Not here: the order of the stream and the words of the channel (pipe.pml), level and edge (ready.pml), the end.
 *
 * Bugs, as controls: BUG_DISARM (a thread that comes home disarms beside another sleeper), BUG_SHOW (MOD leaves what the kernel does not
 * see), BUG_HOOK (a reader arms nothing after its read), BUG_SURE (what is told after a MOD always counts as that arming's), BUG_CALM (one
 * that is armed after bytes were shown counts as one of which nothing was told).
 */
#ifndef N
#define N 3
#endif
#ifndef WAITERS
#define WAITERS 2
#endif
#define TELLS(n) lane = lane + n; ready = ready || on
byte ring, lane, taken, waiters, spurious = 1;
bool armed, woken, writes, closed;         /* writes: a writer stands between the mark and the bytes */
bool locked, left;                        /* the list; a thread that ended */
bool on = true, ready;                    /* the kernel's set */
bool off, sure = true, calm = true;       /* the registration as the list has it */
#ifdef BUG_CALM
#define CALM(is) calm = true
#else
#define CALM(is) calm = is
#endif

/* The channel is handed back: its bytes are the kernel's, and sleepers stay counted. The list sees it by a count. */
inline hands_back() { /* it takes the writers' lock: no writer is between the two */
    closed = true;
    CALM(false);
    if :: ring > 0 -> TELLS(ring); ring = 0 :: else fi
}
/* The kernel tells from now on: of what is there, and of what comes. */
inline arms() {
    if
    :: armed || off
    :: else ->
       if
       :: closed -> armed = true
       :: !closed && ring == 0 && lane == 0 -> armed = true; woken = false
       :: !closed && lane > 0 -> CALM(false)
       :: !closed && ring > 0 && lane == 0 -> CALM(false); if :: TELLS(1); ring-- :: hands_back(); armed = true fi
       fi
    fi
}
inline disarms() { armed = false; woken = false; calm = false }
inline changes() {
    atomic {
        !locked -> locked = true;
        sure = off || waiters == 0 || (sure && armed && calm && !closed && lane == 0 && !writes);
        disarms();
        calm = !closed && lane == 0 && !writes;
        off = false;
        on = true;
        ready = lane > 0;
    };
#ifndef BUG_SHOW
    atomic { waiters == 0 || !writes || closed -> if :: waiters > 0 -> arms() :: else fi; locked = false }
#else
    locked = false
#endif
}
/* A read without a wait, of one unit or of all. Beside a sleeper that is to be told it is a second reader, and hands back. */
inline reads() {
    atomic {
        !locked ->
        if :: (waiters == 0 || off) && armed -> disarms() :: else fi
    };
    atomic {
        (!writes || closed) ->
        if :: armed && !closed && lane > 0 -> hands_back() :: else fi;
        if
        :: lane > 0 -> lane--; taken++
        :: lane == 0 && ring > 0 -> ring--; taken++
        :: lane > 0 -> taken = taken + lane + ring; lane = 0; ring = 0
        :: lane == 0 -> taken = taken + ring; ring = 0
        fi;
        if :: closed && lane == 0 -> closed = false; woken = false :: else fi
    };
#ifndef BUG_HOOK
    atomic { !locked && (!writes || closed) -> if :: waiters > 0 && !off -> arms() :: else fi }
#endif
}

active proctype writer() {
    byte n;
    do
    :: n == N -> break
    :: else ->
       n++;
       if
       :: atomic { closed -> TELLS(1) }
       :: atomic { !closed && armed && !woken && lane == 0 -> woken = true; writes = true };
          atomic { TELLS(1); writes = false }
       :: atomic { !closed && !(armed && !woken && lane == 0) -> ring++ }
       fi
    od
}

active [WAITERS] proctype waiter() {
    bool told;
    do
    :: taken == N -> break
    :: else ->
       told = false;
       atomic { !locked && (!writes || closed) -> arms(); waiters++ };
       do
       :: atomic { on && ready && lane > 0 -> told = true; on = false; ready = false; break }
       :: atomic { ready && lane == 0 -> ready = false }
       :: taken == N -> break
       :: atomic { spurious > 0 -> spurious--; break }
       od;
       atomic {
           !locked ->
           waiters--;
           if
#ifdef BUG_SURE
           :: told -> off = true
#else
           :: told && sure -> off = true; assert(!on)
#endif
           :: else
           fi;
#ifdef BUG_DISARM
           if :: armed && !told -> disarms() :: else fi
#endif
       };
       if
       :: told ->
          do
          :: reads()
          :: break
          od;
          /* The program may know that another has armed it since. */
          if :: on :: changes() fi
       :: else ->
          /* One thread may leave the pool. */
          if :: !left -> left = true; break :: true fi
       fi
    od
}

active proctype meddler() { if :: changes() :: true fi; if :: changes() :: true fi }
active proctype reader() { if :: reads() :: true fi; if :: reads() :: true fi }
