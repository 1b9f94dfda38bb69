/* A connection of stream sockets (docs/sockets.md): each direction has a ring, and a lane that takes BUF units. Only a descriptor
 * of the end that writes puts anything into it. As socket.rs, read.rs and write.rs of crates/pipe do it, one unit a call.
 *
 *   writer   closed?  the kernel's call;  or lock, look into the lane: what it has is the chunk, at the head;  open
 *            open?    a sleeper: chunk := tail, woken, the unit into the lane;  room: into the ring;  full: sleep for a while, then
 *                     hand back
 *   reader   closed?  count, the kernel's call;  chunk at the head?  the lane, until it is empty;  the ring;  else count, sleep there
 *   hand back, by whichever end: both locks, a descriptor of the end that writes, the ring's units behind the chunk, closed.
 *            Nobody has such a descriptor any more: a new socket with the same units takes the lane's place.
 *
 * Checked: units come in order, none twice; a reader sees the end behind all that was written; the ring's units fit into the lane
 * behind the chunk; a unit with a descriptor is read by the kernel's call alone; nobody sleeps for ever where the kernel lets
 * none (no invalid end state).
 * Not here: the words step by step, as models/pipe.pml has them; the search for the other end (models/match.pml); an end that is
 * killed while it has a lock (tests/conformance/unix_kill.c); TCP, whose lane has bytes that nobody sees yet; resets.
 *
 * Parameters: N units in each direction. BOTH=1: two programs of one thread, each of which writes all before it reads; else
 * one direction. LEAVES=1: somebody at the end that reads hands back at any time, perhaps for good. KILLED=1: the writer is
 * killed at any time. MIXED=1: one unit is a message with a descriptor.
 * Bugs, as controls: BUG_CHUNK (an opener leaves out what the lane has), BUG_FULL (it opens behind any number of units), BUG_EARLY
 * (closed before the ring's units are in the lane), BUG_SLEEP (a writer sleeps for room without a limit), BUG_MIXED (an opener does
 * not ask what kind the lane's units are), BUG_GONE (a hand-back without a descriptor drops the ring's units), BUG_SAME (a sleeper is
 * woken although there is a chunk).
 */
#ifndef N
#define N 3
#endif
#ifndef CAP
#define CAP 2
#endif
#ifndef BOTH
#define BOTH 0
#endif
#ifndef LEAVES
#define LEAVES 0
#endif
#ifndef KILLED
#define KILLED 0
#endif
#ifndef MIXED
#define MIXED 0
#endif
/* An opener finds at most so many units in the lane. */
#define CHUNK 1
#define BUF (CHUNK + CAP)
#define LANE 8
#define WITH_DESCRIPTOR 16

/* tail: place 4 bits | lock owner 3 | sleepers 1 | kernel writer 1 | woken | closed */
#define AT(t) ((t) & 15)
#define OWNER(t) (((t) >> 4) & 7)
#define SLEEPS(t) (((t) >> 7) & 1)
#define WRITES(t) (((t) >> 8) & 1)
#define WOKEN(t) (((t) >> 9) & 1)
#define CLOSED(t) (((t) >> 10) & 1)
#define SLEEPER1 (1 << 7)
#define WRITER1 (1 << 8)
#define WOKEN1 (1 << 9)
#define CLOSED1 (1 << 10)
#define SET_AT(t, w) (((t) & ~15) | (w))
#define SET_OWNER(t, o) (((t) & ~(7 << 4)) | ((o) << 4))
/* chunk: place 4 bits | valid | sequence 2 */
#define PLACE(m) ((m) & 15)
#define VALID(m) (((m) >> 4) & 1)
#define NEXT(m, p) ((p) | 16 | (((((m) >> 5) + 1) & 3) << 5))
#define NONE(m) ((m) & ~16)

short tail[2] = CLOSED1;
byte head[2];
/* Who holds the readers off. */
byte holder[2];
short chunk[2];
/* The last chunk of which a unit was read. */
short filled[2];
bool for_good[2];
bool mixed[2];
byte ring0[CAP];
byte ring1[CAP];
chan lane[2] = [LANE] of { byte };
/* Descriptors of the end that writes. */
byte open[2] = 1;
/* Units that were written, and read. */
byte written[2];
byte next[2];

#define RING(d, p) ((d) == 0 -> ring0[(p) % CAP] : ring1[(p) % CAP])

inline put(d, p, v) {
    if
    :: (d) == 0 -> ring0[(p) % CAP] = (v)
    :: else -> ring1[(p) % CAP] = (v)
    fi
}

inline leaves(d, v) {
    assert((v) % WITH_DESCRIPTOR == next[d]);
    next[d]++
}

inline cas(word, old, new, ok) {
    atomic {
        if
        :: word == (old) -> word = (new); ok = true
        :: else -> ok = false
        fi
    }
}

/* Of the word's other parts a loop of these takes what it finds. */
inline unlock(d) {
    atomic { tail[d] = SET_OWNER(tail[d], 0) }
}

inline hand_back(d) {
    do
    :: atomic { CLOSED(tail[d]) -> break }
    :: atomic { !CLOSED(tail[d]) && OWNER(tail[d]) == 0 -> tail[d] = SET_OWNER(tail[d], me) };
       atomic { holder[d] == 0 -> holder[d] = me };
       /* What the lane has comes first. */
       assert(!VALID(chunk[d]) || PLACE(chunk[d]) <= head[d] || len(lane[d]) == 0);
#ifdef BUG_EARLY
       atomic { tail[d] = (SET_OWNER(tail[d], 0) | CLOSED1) & ~WOKEN1 };
#endif
       /* pidfd_getfd(2); once the last one is closed the lane takes no more, and is another socket's. */
       atomic {
           gone = (open[d] == 0);
           if
           :: !gone -> open[d]++
           :: else
           fi
       };
       q = head[d];
       do
       :: q < AT(tail[d]) ->
#ifdef BUG_GONE
          if
          :: gone -> break
          :: else
          fi;
#endif
          atomic { assert(len(lane[d]) < BUF); v = RING(d, q); lane[d]!v; q++ }
       :: else -> break
       od;
       atomic { chunk[d] = NONE(chunk[d]); head[d] = q; holder[d] = 0 };
       atomic { tail[d] = (SET_OWNER(tail[d], 0) | CLOSED1) & ~WOKEN1 };
       atomic {
           if
           :: !gone -> open[d]--
           :: else
           fi
       };
       break
    od;
    v = 0; q = 0; gone = false
}

/* Killed with no lock, and its count as a writer is taken away. */
#if KILLED
#define DIES if :: dead = true :: skip fi; if :: dead -> tail[d] = tail[d] & ~WRITER1; break :: else fi;
#else
#define DIES
#endif

/* One write(2), or sendmsg(2) with a descriptor. */
inline writes(d, special) {
    hot = true;
    if
    :: special -> hand_back(d)
    :: else
    fi;
    do
    :: DIES
       t = tail[d];
       if
       :: CLOSED(t) && hot && !(special) && !for_good[d] && OWNER(t) == 0 ->
          hot = false;
          cas(tail[d], t, SET_OWNER(t, me), ok);
          if
          :: ok ->
             n = len(lane[d]);
             if
#ifndef BUG_MIXED
             :: mixed[d] && n > 0 -> ok = false
#endif
#ifndef BUG_FULL
             :: n > CHUNK -> ok = false
#endif
             :: for_good[d] -> ok = false
             :: else
             fi;
             /* A reader that is on its way out with them is waited for, or the opening is given up. */
             do
             :: ok && n > 0 && SLEEPS(tail[d]) -> if :: ok = false :: n = len(lane[d]) fi
             :: else -> break
             od;
             if
             :: ok ->
                mixed[d] = false;
#ifndef BUG_CHUNK
                chunk[d] = (n > 0 -> NEXT(chunk[d], head[d]) : NONE(NEXT(chunk[d], 0)));
#else
                chunk[d] = NONE(NEXT(chunk[d], 0));
#endif
                atomic { tail[d] = SET_OWNER(SET_AT(tail[d], head[d]), 0) & ~(CLOSED1 | WOKEN1) }
             :: else -> unlock(d)
             fi;
             n = 0
          :: else
          fi
       :: CLOSED(t) && OWNER(t) == 0 ->
          cas(tail[d], t, t | WRITER1, ok);
          if
          :: ok ->
             if
             :: special -> mixed[d] = true
             :: else
             fi;
             DIES
             atomic {
                 len(lane[d]) < BUF ->
                 lane[d]!(written[d] + (special -> WITH_DESCRIPTOR : 0));
                 written[d]++
             };
             atomic { tail[d] = tail[d] & ~WRITER1 };
             break
          :: else
          fi
       :: CLOSED(t) && OWNER(t) != 0 -> (OWNER(tail[d]) == 0 || !CLOSED(tail[d]))
       :: !CLOSED(t) && OWNER(t) != 0 -> (OWNER(tail[d]) == 0 || CLOSED(tail[d]))
       :: !CLOSED(t) && OWNER(t) == 0 ->
          cas(tail[d], t, SET_OWNER(t, me), ok);
          t = tail[d];
          if
          :: !ok
#ifndef BUG_SAME
          /* It saw this tail, and no chunk. It did not see that the ring was handed back since, and opened again behind one. */
          :: ok && SLEEPS(t) && !WOKEN(t) && VALID(chunk[d]) -> unlock(d); hand_back(d)
          :: ok && SLEEPS(t) && !WOKEN(t) && !VALID(chunk[d]) ->
#else
          :: ok && SLEEPS(t) && !WOKEN(t) ->
#endif
             chunk[d] = NEXT(chunk[d], AT(t));
             cas(tail[d], t, t | WOKEN1, ok);
             if
             :: ok ->
                atomic { assert(len(lane[d]) == 0); lane[d]!written[d]; written[d]++ };
                unlock(d);
                break
             :: else -> unlock(d)
             fi
          :: ok && !(SLEEPS(t) && !WOKEN(t)) && AT(t) - head[d] < CAP ->
             put(d, AT(t), written[d]);
             atomic {
                 if
                 :: tail[d] == t -> tail[d] = SET_OWNER(SET_AT(t, AT(t) + 1), 0); written[d]++
                 :: else -> ok = false
                 fi
             };
             if
             :: ok -> break
             :: else -> unlock(d)
             fi
          :: else ->
             unlock(d);
             if
             :: (AT(tail[d]) - head[d] < CAP || CLOSED(tail[d]))
#ifndef BUG_SLEEP
             :: hand_back(d)
#endif
             fi
          fi
       fi
    od
}

/* The caller's own read(2). */
inline kernel_reads(d) {
    atomic {
        if
        :: len(lane[d]) > 0 -> lane[d]?v; leaves(d, v)
        :: len(lane[d]) == 0 && open[d] == 0 -> eof = true
        fi
    };
    v = 0
}

/* One read(2). */
inline reads(d) {
    do
    :: h = head[d]; t = tail[d]; m = chunk[d];
       if
       :: CLOSED(t) && OWNER(t) != 0 -> (OWNER(tail[d]) == 0 || !CLOSED(tail[d]))
       :: CLOSED(t) && OWNER(t) == 0 ->
          cas(tail[d], t, t | SLEEPER1, ok);
          if
          :: ok ->
             kernel_reads(d);
             atomic { tail[d] = tail[d] & ~(SLEEPER1 | WOKEN1) };
             break
          :: else
          fi
       :: !CLOSED(t) && holder[d] != 0 -> (holder[d] == 0)
       :: !CLOSED(t) && holder[d] == 0 && h < AT(t) && !(VALID(m) && PLACE(m) == h) ->
          v = RING(d, h);
          atomic {
              if
              :: head[d] == h && holder[d] == 0 -> head[d] = h + 1; leaves(d, v); ok = true
              :: else -> ok = false
              fi
          };
          v = 0;
          if
          :: ok -> break
          :: else
          fi
       :: !CLOSED(t) && holder[d] == 0 && VALID(m) && PLACE(m) == h ->
          atomic {
              if
              :: head[d] == h && holder[d] == 0 -> holder[d] = me; ok = true
              :: else -> ok = false
              fi
          };
          t = tail[d];
          if
          :: ok && chunk[d] == m && !CLOSED(t) ->
             atomic {
                 if
                 :: len(lane[d]) > 0 -> lane[d]?v; assert(v < WITH_DESCRIPTOR); leaves(d, v); n = 1
                 :: else -> n = 0
                 fi
             };
             v = 0;
             if
             /* Nobody is about to put a unit there. */
             :: n == 0 && (filled[d] == m || OWNER(t) == 0 && tail[d] == t) -> cas(chunk[d], m, NONE(m), ok)
             :: n == 1 -> filled[d] = m
             :: else
             fi;
             holder[d] = 0;
             if
             :: n == 1 -> n = 0; break
             :: else
             fi
          :: ok && !(chunk[d] == m && !CLOSED(t)) -> holder[d] = 0
          :: else
          fi
       :: !CLOSED(t) && holder[d] == 0 && h >= AT(t) && VALID(m) && PLACE(m) != h -> skip
       :: !CLOSED(t) && holder[d] == 0 && h >= AT(t) && !VALID(m) ->
          cas(tail[d], t, (t | SLEEPER1) & ~WOKEN1, ok);
          if
          :: ok ->
             kernel_reads(d);
             t = chunk[d];
             if
             :: t == NEXT(m, PLACE(t)) -> filled[d] = t
             :: else
             fi;
             atomic { tail[d] = tail[d] & ~(SLEEPER1 | WOKEN1) };
             break
          :: else
          fi
       fi
    od
}

#define LOCALS short t, m; byte n, q, v, h; bool ok, hot, eof, gone, dead

/* A program of one thread. */
proctype program(byte me; byte out; byte from) {
    LOCALS;
    do
    :: written[out] < N -> writes(out, false)
    :: else -> break
    od;
    open[out]--;
    do
    :: !eof -> reads(from)
    :: else -> break
    od;
    assert(next[from] == N)
}

proctype writer(byte me) {
    LOCALS;
    do
    :: !dead && written[0] < N -> writes(0, (MIXED && written[0] == 1))
    :: else -> break
    od;
    open[0]--
}

proctype reader(byte me) {
    LOCALS;
    do
    :: !eof -> reads(0)
    :: else -> break
    od;
    assert(next[0] == written[0])
}

proctype leaver(byte me) {
    LOCALS;
    if
    :: for_good[0] = true
    :: skip
    fi;
    hand_back(0)
}

init {
    atomic {
#if BOTH
        run program(1, 0, 1);
        run program(2, 1, 0)
#else
        run writer(1);
        run reader(2);
#if LEAVES
        run leaver(3);
#endif
        skip
#endif
    }
}
