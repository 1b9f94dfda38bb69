/* Pass-through calls (docs/pipe.md, ADR 13), as pass_through.rs, handback.rs and the preload library's entry.rs have them; a thread's stores come late.
 *
 *   caller    passing := 1;  tail = PASS_THROUGH?  read(2) or write(2);  passing := 0         (else counted in tail, as ever)
 *   opener    CAS tail: no PASS_THROUGH;  later: lock;  barrier;  is anybody's passing 1?  CAS tail: open
 *   leaver    empty ring;  lock;  CAS tail: CLOSED;  later: closed, nobody has the lock:  left := 1;  CAS tail: PASS_THROUGH
 *
 * Two writers, each of which opens the channel, or leaves its ring, at any time; a reader, over whose pass-through call, if wanted, a
 * signal handler comes once that reads too. What a thread says of itself comes to memory at any later time, in order, at the latest
 * before another's barrier ends: a call of the kernel's does not wait for it.
 * Checked: units leave in the order in which they came into the stream, wherever they were carried; nobody sleeps for ever (no invalid
 * end state).
 * Not here: what pipe.pml and biased_lock.pml have: a full ring, places of lane while it is open (a wake-up is one unit to one who sleeps), hand-backs
 * with bytes, several readers, death (whoever is dead is not inside: the kernel is asked).
 *
 * Parameters: N1, N2 units of the two writers; OPENINGS, LEAVES that there are at most. HANDLER=1 adds the handler.
 * Bugs, as controls: BUG_LOOK (tail is looked at before "passing" is said only), BUG_BARRIER (the opener makes none), BUG_SCAN (it does not
 * ask who is inside), BUG_LOCK (PASS_THROUGH is set whoever has the lock), BUG_NEST (the handler's
 * call passes through too, and takes away what the read under it has said).
 */
#ifndef N1
#define N1 2
#endif
#ifndef N2
#define N2 1
#endif
#define N (N1 + N2)
#ifndef OPENINGS
#define OPENINGS 2
#endif
#ifndef LEAVES
#define LEAVES 1
#endif
#ifndef HANDLER
#define HANDLER 0
#endif

#define READER 0
#define FIRST 1
#define SECOND 2

/* tail: tail 4 bits | lock owner 2 | sleepers 2 | kernel writers 2 | WOKEN | CLOSED | PASS_THROUGH */
#define TAIL_AT(t) ((t) & 15)
#define LOCK_OWNER(t) (((t) >> 4) & 3)
#define SLEEPERS(t) (((t) >> 6) & 3)
#define KERNEL_WRITERS(t) (((t) >> 8) & 3)
#define SLEEPER1 (1 << 6)
#define KERNEL_WRITER1 (1 << 8)
#define WOKEN1 (1 << 10)
#define CLOSED1 (1 << 11)
#define PASS_THROUGH1 (1 << 12)
#define WOKEN(t) (((t) & WOKEN1) != 0)
#define CLOSED(t) (((t) & CLOSED1) != 0)
#define PASS_THROUGH(t) (((t) & PASS_THROUGH1) != 0)
#define SET_LOCK(t, o) (((t) & ~(3 << 4)) | ((o) << 4))

short tail = CLOSED1 | PASS_THROUGH1;
/* facts.passing. */
bool left = true;
byte R = 0;
/* Where lane's unit stands, while the channel is open. */
#define NONE 255
byte place = NONE;
bool held = false;
/* Numbers in the order of the stream; lane's, and the ring's by position. */
chan lane = [8] of { byte };
byte ring[8];
byte came = 0;
byte gone = 0;
byte openings = OPENINGS, leaves = LEAVES;
bool handled = false;

bool passing[3];
chan late[3] = [4] of { bool };
#define SAY(o, value) late[o]!value

proctype hardware() {
    bool v;
end:
    do
    :: atomic { late[0]?v -> passing[0] = v; v = 0 }
    :: atomic { late[1]?v -> passing[1] = v; v = 0 }
    :: atomic { late[2]?v -> passing[2] = v; v = 0 }
    od
}

inline leaves_stream(u) {
    assert(u == gone);
    gone++
}

/* Says it, and looks. */
inline enter(me) {
#ifdef BUG_LOOK
    t = tail;
    SAY(me, 1);
#else
    SAY(me, 1);
    t = tail;
#endif
    if
    :: PASS_THROUGH(t) -> ok = true
    :: else -> SAY(me, 0); ok = false
    fi
}

/* read(2), which sleeps; at its end, nothing is there and nobody comes. */
inline take_from_k() {
    atomic { lane?u -> leaves_stream(u); u = 0; place = NONE }
}

#if HANDLER
/* The read of the handler: counted, for its thread is inside. */
inline handler_reads() {
    hdone = false;
    do
    :: hdone -> break
    :: else ->
       t = tail;
       if
#ifdef BUG_NEST
       :: CLOSED(t) && PASS_THROUGH(t) -> SAY(READER, 1); take_from_k(); SAY(READER, 0); hdone = true
       :: CLOSED(t) && !PASS_THROUGH(t) && LOCK_OWNER(t) == 0 ->
#else
       :: CLOSED(t) && LOCK_OWNER(t) == 0 ->
#endif
          atomic { ok = (tail == t); if :: ok -> tail = t + SLEEPER1 :: else fi };
          if
          :: ok -> take_from_k(); atomic { tail = (tail - SLEEPER1) & ~WOKEN1; hdone = true }
          :: else
          fi
       :: CLOSED(t) && LOCK_OWNER(t) != 0 -> (LOCK_OWNER(tail) == 0 || !CLOSED(tail))
       :: !CLOSED(t) -> assert(false)
       fi
    od
}
#endif

/* One unit. */
inline read_one() {
    done = false;
    do
    :: done -> break
    :: else ->
       t = tail;
       if
       :: CLOSED(t) && PASS_THROUGH(t) ->
          enter(READER);
          if
          :: ok ->
#if HANDLER
             /* The handler comes while it sleeps, or just before. */
             if
             :: atomic { !handled && n < N - 1 -> handled = true }; handler_reads()
             :: skip
             fi;
#endif
             take_from_k();
             SAY(READER, 0);
             done = true
          :: else
          fi
       :: CLOSED(t) && !PASS_THROUGH(t) && LOCK_OWNER(t) == 0 ->
          atomic { ok = (tail == t); if :: ok -> tail = t + SLEEPER1 :: else fi };
          if
          :: ok -> take_from_k(); atomic { tail = tail - SLEEPER1; tail = tail & ~WOKEN1; done = true }
          :: else
          fi
       :: CLOSED(t) && !PASS_THROUGH(t) && LOCK_OWNER(t) != 0 -> (LOCK_OWNER(tail) == 0 || !CLOSED(tail))
       :: !CLOSED(t) && place == R ->
          /* The wake-up came when this one was on its way home. */
          atomic {
              if
              :: !held && place == R && len(lane) > 0 -> lane?u; leaves_stream(u); u = 0; place = NONE; done = true
              :: else
              fi
          }
       :: !CLOSED(t) && place != R && R != TAIL_AT(t) ->
          atomic {
              if
              :: !held && R != TAIL_AT(tail) && R != place -> leaves_stream(ring[R % 8]); R++; done = true
              :: else
              fi
          }
       :: !CLOSED(t) && place == NONE && R == TAIL_AT(t) && held -> !held
       :: !CLOSED(t) && place == NONE && R == TAIL_AT(t) && !held ->
          atomic { ok = (tail == t); if :: ok -> tail = (t + SLEEPER1) & ~WOKEN1 :: else fi };
          if
          :: ok -> take_from_k(); atomic { tail = (tail - SLEEPER1) & ~WOKEN1; done = true }
          :: else
          fi
       fi
    od
}

proctype reader() {
    short t;
    byte u, n;
    bool ok, done, hdone;
    do
    :: n < N && !(HANDLER && handled && n == N - 1) -> read_one(); n++
    :: else -> break
    od
}

inline lock(me) {
    atomic { ok = (tail == t && LOCK_OWNER(t) == 0); if :: ok -> tail = SET_LOCK(t, me) :: else fi }
}
inline unlock() {
    atomic { tail = SET_LOCK(tail, 0) }
}

/* handback::open. */
inline opens(me) {
    t = tail;
    if
    :: CLOSED(t) && PASS_THROUGH(t) ->
       atomic { if :: tail == t -> tail = t & ~PASS_THROUGH1 :: else fi }
    :: CLOSED(t) && !PASS_THROUGH(t) && KERNEL_WRITERS(t) == 0 && SLEEPERS(t) <= 1 && LOCK_OWNER(t) == 0 ->
       lock(me);
       if
       :: ok ->
          if
          :: left ->
#ifndef BUG_BARRIER
             (len(late[0]) == 0); (len(late[1]) == 0); (len(late[2]) == 0);
#endif
#ifndef BUG_SCAN
             i = 0;
             do
             :: i < 3 && !passing[i] -> i++
             :: i < 3 && passing[i] -> ok = false; break
             :: else -> break
             od;
             i = 0;
#endif
             if :: ok -> left = false :: else fi
          :: else
          fi;
          if
          :: ok && SLEEPERS(tail) > 0 && len(lane) > 0 -> (SLEEPERS(tail) == 0 || len(lane) == 0)
          :: else
          fi;
          if
          :: ok && len(lane) == 0 ->
             /* What lane holds would move into the ring; empty is enough here. */
             assert(!PASS_THROUGH(tail));
             atomic { tail = SET_LOCK(tail, 0) & ~(CLOSED1 | WOKEN1) }
          :: else -> unlock()
          fi
       :: else
       fi
    :: else
    fi;
    ok = false
}

/* pass_through::leave. */
inline leaves_ring(me) {
    t = tail;
    if
    :: !CLOSED(t) && LOCK_OWNER(t) == 0 ->
       lock(me);
       if
       :: ok ->
          atomic {
              !held;
              if
              :: R == TAIL_AT(tail) && place == NONE && len(lane) == 0 -> held = true
              :: else -> ok = false
              fi
          };
          if
          :: ok ->
             atomic { tail = (tail | CLOSED1) & ~WOKEN1 };
             held = false;
             unlock();
             t = tail;
#ifdef BUG_LOCK
             if
             :: CLOSED(t) -> left = true; atomic { tail = tail | PASS_THROUGH1 }
             :: else
             fi
#else
             if
             :: CLOSED(t) && LOCK_OWNER(t) == 0 ->
                left = true;
                atomic { if :: tail == t -> tail = t | PASS_THROUGH1 :: else fi }
             :: else
             fi
#endif
          :: else -> unlock()
          fi
       :: else
       fi
    :: else
    fi;
    ok = false
}

/* One unit. */
inline write_one(me) {
    done = false;
    do
    :: done -> break
    :: else ->
       t = tail;
       if
       :: CLOSED(t) && PASS_THROUGH(t) ->
          enter(me);
          if
          :: ok -> atomic { lane!came; came++; done = true }; SAY(me, 0)
          :: else
          fi
       :: CLOSED(t) && !PASS_THROUGH(t) && LOCK_OWNER(t) != 0 -> (LOCK_OWNER(tail) == 0 || !CLOSED(tail))
       :: CLOSED(t) && !PASS_THROUGH(t) && LOCK_OWNER(t) == 0 ->
          atomic { ok = (tail == t); if :: ok -> tail = t + KERNEL_WRITER1 :: else fi };
          if
          :: ok -> atomic { lane!came; came++; done = true }; atomic { tail = tail - KERNEL_WRITER1 }
          :: else
          fi
       :: !CLOSED(t) && LOCK_OWNER(t) != 0 -> LOCK_OWNER(tail) == 0
       :: !CLOSED(t) && LOCK_OWNER(t) == 0 ->
          lock(me);
          if
          :: ok ->
             t = tail;
             if
             :: SLEEPERS(t) > 0 && !WOKEN(t) ->
                /* wake::short, in one step: its smaller ones are in pipe.pml. */
                atomic { if :: tail == t -> tail = t | WOKEN1; place = TAIL_AT(t); lane!came; came++; done = true :: else fi }
             :: else ->
                /* publish: fails where somebody went to sleep since. */
                atomic {
                    if
                    :: tail == t -> ring[TAIL_AT(tail) % 8] = came; came++; tail = tail + 1; done = true
                    :: else
                    fi
                }
             fi;
             unlock()
          :: else
          fi
       fi
    od;
    ok = false
}

proctype writer(byte me, units) {
    short t;
    byte n, i;
    bool ok, done;
    do
    :: n < units -> write_one(me); n++
    :: atomic { openings > 0 -> openings-- }; opens(me)
    :: atomic { leaves > 0 -> leaves-- }; leaves_ring(me)
    :: n == units -> break
    od
}

init {
    atomic {
        run hardware();
        run writer(FIRST, N1);
        run writer(SECOND, N2);
        run reader()
    }
}
