/* Quiet calls (docs/pipe.md, ADR 13), as quiet.rs, handback.rs and the preload library's entry.rs have them; a thread's stores come late.
 *
 *   caller    quiet := 1;  T = QUIET?  read(2) or write(2);  quiet := 0         (else counted in T, as ever)
 *   opener    CAS T: no QUIET;  later: lock;  barrier;  is anybody's quiet 1?  CAS T: open
 *   leaver    empty ring;  lock;  CAS T: CLOSED;  later: closed, nobody has the lock:  left := 1;  CAS T: QUIET
 *
 * Two writers, each of which opens the channel, or leaves its ring, at any time; a reader, over whose quiet call, if wanted, a
 * signal handler comes once that reads too. What a thread says of itself comes to memory at any later time, in order, at the latest
 * before another's barrier ends: a call of the kernel's does not wait for it.
 * Checked: units leave in the order in which they came into the stream, wherever they were carried; nobody sleeps for ever (no invalid
 * end state).
 * Not here: what pipe.pml and kept.pml have: a full ring, places of K while it is open (a bell is one unit to one who sleeps), hand-backs
 * with bytes, several readers, death (whoever is dead is not inside: the kernel is asked).
 *
 * Parameters: N1, N2 units of the two writers; OPENINGS, LEAVES that there are at most. HANDLER=1 adds the handler.
 * Bugs, as controls: BUG_LOOK (T is looked at before "quiet" is said only), BUG_BARRIER (the opener makes none), BUG_SCAN (it does not
 * ask who is inside), BUG_LOCK (QUIET is set whoever has the lock), BUG_NEST (the handler's
 * call is quiet too, and takes away what the read under it has said).
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

/* T: W 4 bits | wl 2 | nsl 2 | kw 2 | RUNG | CLOSED | QUIET */
#define W_(t) ((t) & 15)
#define WL(t) (((t) >> 4) & 3)
#define NSL(t) (((t) >> 6) & 3)
#define KW(t) (((t) >> 8) & 3)
#define NSL1 (1 << 6)
#define KW1 (1 << 8)
#define RUNG1 (1 << 10)
#define CLOSED1 (1 << 11)
#define QUIET1 (1 << 12)
#define RUNG(t) (((t) & RUNG1) != 0)
#define CLOSED(t) (((t) & CLOSED1) != 0)
#define QUIET(t) (((t) & QUIET1) != 0)
#define SET_WL(t, o) (((t) & ~(3 << 4)) | ((o) << 4))

short T = CLOSED1 | QUIET1;
/* facts.quiet. */
bool left = true;
byte R = 0;
/* Where K's unit stands, while the channel is open. */
#define NONE 255
byte place = NONE;
bool held = false;
/* Numbers in the order of the stream; K's, and the ring's by position. */
chan K = [8] of { byte };
byte ring[8];
byte came = 0;
byte gone = 0;
byte openings = OPENINGS, leaves = LEAVES;
bool handled = false;

bool quiet[3];
chan late[3] = [4] of { bool };
#define SAY(o, value) late[o]!value

proctype hardware() {
    bool v;
end:
    do
    :: atomic { late[0]?v -> quiet[0] = v; v = 0 }
    :: atomic { late[1]?v -> quiet[1] = v; v = 0 }
    :: atomic { late[2]?v -> quiet[2] = v; v = 0 }
    od
}

inline leaves_stream(u) {
    assert(u == gone);
    gone++
}

/* Says it, and looks. */
inline enter(me) {
#ifdef BUG_LOOK
    t = T;
    SAY(me, 1);
#else
    SAY(me, 1);
    t = T;
#endif
    if
    :: QUIET(t) -> ok = true
    :: else -> SAY(me, 0); ok = false
    fi
}

/* read(2), which sleeps; at its end, nothing is there and nobody comes. */
inline take_from_k() {
    atomic { K?u -> leaves_stream(u); u = 0; place = NONE }
}

#if HANDLER
/* The read of the handler: counted, for its thread is inside. */
inline handler_reads() {
    hdone = false;
    do
    :: hdone -> break
    :: else ->
       t = T;
       if
#ifdef BUG_NEST
       :: CLOSED(t) && QUIET(t) -> SAY(READER, 1); take_from_k(); SAY(READER, 0); hdone = true
       :: CLOSED(t) && !QUIET(t) && WL(t) == 0 ->
#else
       :: CLOSED(t) && WL(t) == 0 ->
#endif
          atomic { ok = (T == t); if :: ok -> T = t + NSL1 :: else fi };
          if
          :: ok -> take_from_k(); atomic { T = (T - NSL1) & ~RUNG1; hdone = true }
          :: else
          fi
       :: CLOSED(t) && WL(t) != 0 -> (WL(T) == 0 || !CLOSED(T))
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
       t = T;
       if
       :: CLOSED(t) && QUIET(t) ->
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
       :: CLOSED(t) && !QUIET(t) && WL(t) == 0 ->
          atomic { ok = (T == t); if :: ok -> T = t + NSL1 :: else fi };
          if
          :: ok -> take_from_k(); atomic { T = T - NSL1; T = T & ~RUNG1; done = true }
          :: else
          fi
       :: CLOSED(t) && !QUIET(t) && WL(t) != 0 -> (WL(T) == 0 || !CLOSED(T))
       :: !CLOSED(t) && place == R ->
          /* The bell came when this one was on its way home. */
          atomic {
              if
              :: !held && place == R && len(K) > 0 -> K?u; leaves_stream(u); u = 0; place = NONE; done = true
              :: else
              fi
          }
       :: !CLOSED(t) && place != R && R != W_(t) ->
          atomic {
              if
              :: !held && R != W_(T) && R != place -> leaves_stream(ring[R % 8]); R++; done = true
              :: else
              fi
          }
       :: !CLOSED(t) && place == NONE && R == W_(t) && held -> !held
       :: !CLOSED(t) && place == NONE && R == W_(t) && !held ->
          atomic { ok = (T == t); if :: ok -> T = (t + NSL1) & ~RUNG1 :: else fi };
          if
          :: ok -> take_from_k(); atomic { T = (T - NSL1) & ~RUNG1; done = true }
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
    atomic { ok = (T == t && WL(t) == 0); if :: ok -> T = SET_WL(t, me) :: else fi }
}
inline unlock() {
    atomic { T = SET_WL(T, 0) }
}

/* handback::open. */
inline opens(me) {
    t = T;
    if
    :: CLOSED(t) && QUIET(t) ->
       atomic { if :: T == t -> T = t & ~QUIET1 :: else fi }
    :: CLOSED(t) && !QUIET(t) && KW(t) == 0 && NSL(t) <= 1 && WL(t) == 0 ->
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
             :: i < 3 && !quiet[i] -> i++
             :: i < 3 && quiet[i] -> ok = false; break
             :: else -> break
             od;
             i = 0;
#endif
             if :: ok -> left = false :: else fi
          :: else
          fi;
          if
          :: ok && NSL(T) > 0 && len(K) > 0 -> (NSL(T) == 0 || len(K) == 0)
          :: else
          fi;
          if
          :: ok && len(K) == 0 ->
             /* What K holds would move into the ring; empty is enough here. */
             assert(!QUIET(T));
             atomic { T = SET_WL(T, 0) & ~(CLOSED1 | RUNG1) }
          :: else -> unlock()
          fi
       :: else
       fi
    :: else
    fi;
    ok = false
}

/* quiet::leave. */
inline leaves_ring(me) {
    t = T;
    if
    :: !CLOSED(t) && WL(t) == 0 ->
       lock(me);
       if
       :: ok ->
          atomic {
              !held;
              if
              :: R == W_(T) && place == NONE && len(K) == 0 -> held = true
              :: else -> ok = false
              fi
          };
          if
          :: ok ->
             atomic { T = (T | CLOSED1) & ~RUNG1 };
             held = false;
             unlock();
             t = T;
#ifdef BUG_LOCK
             if
             :: CLOSED(t) -> left = true; atomic { T = T | QUIET1 }
             :: else
             fi
#else
             if
             :: CLOSED(t) && WL(t) == 0 ->
                left = true;
                atomic { if :: T == t -> T = t | QUIET1 :: else fi }
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
       t = T;
       if
       :: CLOSED(t) && QUIET(t) ->
          enter(me);
          if
          :: ok -> atomic { K!came; came++; done = true }; SAY(me, 0)
          :: else
          fi
       :: CLOSED(t) && !QUIET(t) && WL(t) != 0 -> (WL(T) == 0 || !CLOSED(T))
       :: CLOSED(t) && !QUIET(t) && WL(t) == 0 ->
          atomic { ok = (T == t); if :: ok -> T = t + KW1 :: else fi };
          if
          :: ok -> atomic { K!came; came++; done = true }; atomic { T = T - KW1 }
          :: else
          fi
       :: !CLOSED(t) && WL(t) != 0 -> WL(T) == 0
       :: !CLOSED(t) && WL(t) == 0 ->
          lock(me);
          if
          :: ok ->
             t = T;
             if
             :: NSL(t) > 0 && !RUNG(t) ->
                /* bell::short, in one step: its smaller ones are in pipe.pml. */
                atomic { if :: T == t -> T = t | RUNG1; place = W_(t); K!came; came++; done = true :: else fi }
             :: else ->
                /* publish: fails where somebody went to sleep since. */
                atomic {
                    if
                    :: T == t -> ring[W_(T) % 8] = came; came++; T = T + 1; done = true
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
