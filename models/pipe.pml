/* The channel protocol of docs/pipe.md, step by step as crates/pipe does it: read.rs, write.rs, handback.rs, lock.rs.
 *
 * Each load, each compare-and-swap, each copy and each kernel call is one step; everything between may interleave.
 * A unit stands for what fits into lane while the channel is open (at most 4096 bytes); the ring holds CAP units.
 * Checked: at the moment a unit leaves the stream it is the next one of its writer (order, no loss, no doubling); lane is
 * empty whenever it is written under the lock (I2); nobody sleeps for ever (no invalid end state); a reader sees EOF
 * only when every unit has been read.
 * Not here: memory order weaker than sequential (the edges are tagged in the code), wrap of positions, signals,
 * death of an owner (tests/conformance/kill.c), policy.
 *
 * Parameters: NW writers, NR readers, N units of each writer in messages of at most MSG, HANDBACK=1 adds a process
 * that hands the channel back once, at any time, SUSPEND=1 makes that an exec's (it may be opened again). SPLICE=1: it
 * moves a unit out of lane and one into it meanwhile, which tail does not count. SPILL=1: then the kernel's pipe takes
 * no more than LANE units, and a spiller writes the rest.
 * Bugs, as controls: BUG_WOKEN (wake before WOKEN is set), BUG_ARM (arm without looking at lane's place),
 * BUG_FIRST (publish the rest of a waking write before lane is written), BUG_REST (the rest of a write that was begun in
 * the ring goes to lane uncounted), BUG_PUMP (hand back without pumping), BUG_PLACE (WOKEN before the place), BUG_FOREVER (a reader takes the bypass while the
 * lock is held), BUG_ABANDON (a writer takes back a
 * place under a reader), BUG_STEAL (take the bytes that a sleeper was woken with), BUG_SEQ (a new opening's wake-up looks like the one of
 * the old), BUG_FULL
 * (overflow into lane without WOKEN), BUG_EMPTY (take lane for empty while a writer is inside the lock), BUG_OVERTAKE (a writer does
 * not wait for a spiller), BUG_GAP (the channel is closed first, and the lock given to the spiller then), BUG_HEAD (a spiller leaves the
 * head where it was), BUG_PENDING (an opener does not look under the lock whether a splice is under way).
 */
#ifndef NW
#define NW 1
#endif
#ifndef NR
#define NR 1
#endif
#ifndef N
#define N 4
#endif
#ifndef MSG
#define MSG 2
#endif
#ifndef CAP
#define CAP 2
#endif
#ifndef HANDBACK
#define HANDBACK 0
#endif
#ifndef SUSPEND
#define SUSPEND 0
#endif
#ifndef SPLICE
#define SPLICE 0
#endif
#ifndef OPEN_AT_START
#define OPEN_AT_START 0
#endif

#ifndef SPILL
#define SPILL 0
#endif
#if SPILL
#define LANE 1
#else
#define LANE 8
#endif
/* POLL=1: each reader waits by poll(2) before its read (ready.pml); POLL=2: the first reader only waits. EDGE=1: it waits as
 * an epoll set by edge. STAY=1: the writers never close, so that only a wake-up wakes. */
#ifndef POLL
#define POLL 0
#endif
#ifndef EDGE
#define EDGE 0
#endif
#ifndef STAY
#define STAY 0
#endif
/* The spiller's id. */
#define SPILLER 7

#ifdef BUG_ABANDON
#define ABANDON cas(chunk, m, NONE(m), ok);
#else
#define ABANDON
#endif

/* tail: tail 5 bits | lock owner 3 | sleepers 2 | kernel writers 2 | WOKEN | CLOSED | SPILLED: the owner is a spiller */
#define TAIL_AT(t) ((t) & 31)
#define LOCK_OWNER(t) (((t) >> 5) & 7)
#define SLEEPERS(t) (((t) >> 8) & 3)
#define KERNEL_WRITERS(t) (((t) >> 10) & 3)
#define WOKEN(t) (((t) >> 12) & 1)
#define CLOSED(t) (((t) >> 13) & 1)
#define SPILLED(t) (((t) >> 14) & 1)
#define SET_W(t, w) (((t) & ~31) | (w))
#define SET_LOCK(t, o) (((t) & ~(7 << 5)) | ((o) << 5))
#define SLEEPER1 (1 << 8)
#define KERNEL_WRITER1 (1 << 10)
#define WOKEN1 (1 << 12)
#define CLOSED1 (1 << 13)
#define SPILLED1 (1 << 14)
/* head: head 5 bits | owner 3 | held */
#define HEAD_AT(h) ((h) & 31)
#define OWNER(h) (((h) >> 5) & 7)
#define HELD(h) (((h) >> 8) & 1)
#define HELD1 (1 << 8)
/* chunk: place 5 bits | valid | seq 3 */
#define CHUNK_AT(m) ((m) & 31)
#define VALID(m) (((m) >> 5) & 1)
#define SEQ(m) (((m) >> 6) & 7)
#define NEXT(m, p) ((p) | 32 | (((SEQ(m) + 1) & 7) << 6))
#define NONE(m) ((m) & ~32)


#if OPEN_AT_START
short tail = 0;
#else
short tail = CLOSED1;
#endif
short head = 0;
short chunk = 0;
/* The last place of which somebody has read bytes out of lane. */
short filled = 0;
/* One place more than writers fill: the pump's. */
#define CAP2 (CAP + 1)
byte ring[CAP2];
chan lane = [8] of { byte };
bool forever = false;
byte pending = 0;
byte writers = NW + SPLICE;
byte taken = 0;
#define ALL (NW * N + SPLICE)
#if STAY
#define AT_END (taken == ALL)
#else
#define AT_END (writers == 0)
#endif
/* What the spiller is to write. */
byte spill_at, spill_to;
byte next[NW + SPLICE];

/* By edge, each write into lane is an event of the kernel's. */
#if EDGE
#define into_lane(v) lane!(v); edge = true
#else
#define into_lane(v) lane!(v)
#endif

/* A unit leaves the stream: it must be the next of its writer. Values are writer * 16 + number. */
inline leaves(v) {
    assert((v) % 16 == next[(v) / 16]);
    next[(v) / 16]++;
    taken++
}

/* One CAS of a word: ok says whether it was made. */
inline cas(word, old, new, ok) {
    atomic {
        if
        :: word == (old) -> word = (new); ok = true
        :: else -> ok = false
        fi
    }
}

inline unlock() {
    do
    :: t = tail;
       if
       :: LOCK_OWNER(t) != me -> break
       :: else -> cas(tail, t, SET_LOCK(t, 0), ok); if :: ok -> break :: else fi
       fi
    od
}

inline release(r) {
    h = head;
    if
    :: HELD(h) && OWNER(h) == me -> cas(head, h, (r), ok)
    :: else
    fi
}

/* lock::take; got is false when the channel is closed and `closed` gives up. */
inline take_wl(give_up_closed) {
    do
    :: t = tail;
       if
       :: give_up_closed && CLOSED(t) && (!wait_free || LOCK_OWNER(t) == 0 || SPILLED(t)) -> got = false; break
       :: else ->
          if
          :: LOCK_OWNER(t) == 0 -> cas(tail, t, SET_LOCK(t, me), ok); if :: ok -> got = true; break :: else fi
          :: else -> (LOCK_OWNER(tail) != LOCK_OWNER(t))
          fi
       fi
    od
}

/* handback::pump_locked: lane's unit behind the ring's, under both locks. */
inline pump_locked(r) {
    t = tail; m = chunk;
    if
    :: VALID(m) && CHUNK_AT(m) == TAIL_AT(t) ->
       atomic {
           if
           :: len(lane) > 0 && len(lane) == 1 -> lane?v; ring[TAIL_AT(t) % CAP2] = v; n = 1
           :: len(lane) == 0 -> n = 0
           fi
       };
       cas(chunk, m, NONE(m), ok);
       if
       :: n == 1 -> cas(tail, t, SET_W(t, TAIL_AT(t) + 1), ok)
       :: else
       fi
    :: else
    fi;
    n = 0
}

/* handback::hand_back. */
inline hand_back(for_good) {
    if
    :: for_good -> forever = true
    :: else
    fi;
    wait_free = true;
    take_wl(true);
    wait_free = false;
    if
    :: !got
    :: got && CLOSED(tail) -> unlock()
    :: else ->
       do
       :: h = head;
          if
          :: HELD(h) -> (head != h)
          :: else -> cas(head, h, HEAD_AT(h) | (me << 5) | HELD1, ok); if :: ok -> break :: else fi
          fi
       od;
       r = HEAD_AT(h);
#ifndef BUG_PUMP
       if
       :: VALID(chunk) && CHUNK_AT(chunk) > r -> pump_locked(r)
       :: else
       fi;
#endif
       t = tail;
       /* One writev of all of it, or of what fits. */
       atomic {
           q = r;
           do
           :: q < TAIL_AT(t) && len(lane) < LANE -> v = ring[q % CAP2]; into_lane(v); q++
           :: else -> break
           od
       };
       if
       :: q < TAIL_AT(t) ->
          /* spiller::make: its write end is open before anything changes. */
          atomic { spill_at = q; spill_to = TAIL_AT(t); writers++ };
          h = head;
          cas(head, h, HEAD_AT(h) | (SPILLER << 5) | HELD1, ok);
#ifdef BUG_GAP
          do
          :: t = tail; cas(tail, t, (SET_LOCK(t, 0) | CLOSED1) & ~WOKEN1, ok); if :: ok -> break :: else fi
          od;
          do
          :: t = tail; cas(tail, t, SET_LOCK(t, SPILLER) | SPILLED1, ok); if :: ok -> break :: else fi
          od
#else
          do
          :: t = tail; cas(tail, t, (SET_LOCK(t, SPILLER) | CLOSED1 | SPILLED1) & ~WOKEN1, ok); if :: ok -> break :: else fi
          od
#endif
       :: else ->
          q = TAIL_AT(t);
          chunk = NONE(chunk);
          do
          :: t = tail; cas(tail, t, (t | CLOSED1) & ~WOKEN1, ok); if :: ok -> break :: else fi
          od;
          release(q);
          unlock()
       fi
    fi
}

#if POLL
#include "ready.pml"
#else
#define TOLD_THE_TRUTH skip
#endif

proctype reader(byte me) {
    short t, h, m, before;
    byte r, n, q, v, want, done, a[4];
    bool ok, got, wait_free, armed, counted, eof, good;
#if POLL
    byte seen;
    bool told, ended;
again:
    wait_for();
    if :: ended -> goto finished :: else fi;
#else
again:
#endif
    /* One read(2) of one or two units. */
    done = 0;
    eof = false;
    if :: want = 1 :: want = 2 fi;
    do
    :: h = head; t = tail;
       if
       :: CLOSED(t) ->
          if :: done > 0 -> break :: else fi;
          good = forever;
          t = tail;
          if
          :: !CLOSED(t) -> goto next_look
#ifdef BUG_FOREVER
          :: CLOSED(t) && good -> counted = false
          :: CLOSED(t) && !good && LOCK_OWNER(t) != 0 -> (LOCK_OWNER(tail) == 0 || forever || !CLOSED(tail)); goto next_look
          :: CLOSED(t) && !good && LOCK_OWNER(t) == 0 ->
#else
          :: CLOSED(t) && LOCK_OWNER(t) != 0 && !SPILLED(t) -> (LOCK_OWNER(tail) == 0 || !CLOSED(tail) || SPILLED(tail)); goto next_look
          :: CLOSED(t) && (LOCK_OWNER(t) == 0 || SPILLED(t)) && good -> counted = false
          :: CLOSED(t) && (LOCK_OWNER(t) == 0 || SPILLED(t)) && !good ->
#endif
             if
             :: SLEEPERS(t) == 3 -> forever = true; goto next_look
             :: else -> cas(tail, t, t + SLEEPER1, ok); if :: !ok -> goto next_look :: else fi; counted = true
             fi
          fi;
          armed = false;
          goto sleep
       :: HELD(h) -> (head != h || CLOSED(tail)); goto next_look
       :: else
       fi;
       if
       :: SLEEPERS(t) > 0 ->
          if :: done > 0 -> break :: else fi;
          if
          :: !WOKEN(t) -> hand_back(false)
          :: WOKEN(t) -> hand_back(false)
          :: WOKEN(t) -> (tail != t)
          fi;
          goto next_look
       :: else
       fi;
       m = chunk; r = HEAD_AT(h); q = TAIL_AT(t);
       if
       :: VALID(m) && CHUNK_AT(m) < q -> q = CHUNK_AT(m)
       :: else
       fi;
       if
       :: r < q ->
          if :: q - r < want - done -> n = q - r :: else -> n = want - done fi;
          /* The copy, one unit a step, then the commit. */
          a[0] = ring[r % CAP2];
          if :: n > 1 -> a[1] = ring[(r + 1) % CAP2] :: else fi;
          atomic {
              if
              :: head == h ->
                 head = r + n;
                 leaves(a[0]);
                 if :: n > 1 -> leaves(a[1]) :: else fi;
                 done = done + n; ok = true
              :: else -> ok = false
              fi
          };
          if
          :: ok && VALID(m) && CHUNK_AT(m) == TAIL_AT(t) && TAIL_AT(t) - (r + n) <= CAP / 2 ->
             r = r + n;
             t = tail;
             if
             :: LOCK_OWNER(t) == 0 && SLEEPERS(t) == 0 && !CLOSED(t) ->
                cas(tail, t, SET_LOCK(t, me), ok);
                if
                :: ok ->
                   h = head; r = HEAD_AT(h);
                   if
                   :: !HELD(h) ->
                      cas(head, h, r | (me << 5) | HELD1, ok);
                      if :: ok -> pump_locked(r); release(r) :: else fi
                   :: else
                   fi;
                   unlock()
                :: else
                fi
             :: else
             fi
          :: else
          fi;
          n = 0;
          if :: done == want -> break :: else fi
       :: r >= q && VALID(m) && r == CHUNK_AT(m) ->
          cas(head, h, r | (me << 5) | HELD1, ok);
          if
          :: !ok -> skip
          :: else ->
             good = (chunk == m);
             t = tail;
             if
#ifdef BUG_STEAL
             :: !good -> release(r); goto next_look
#else
             :: !good || SLEEPERS(t) > 0 -> release(r); goto next_look
#endif
             :: else
             fi;
             atomic {
                 n = 0;
                 do
                 :: n < want - done && len(lane) > 0 -> lane?v; leaves(v); n++
                 :: else -> break
                 od
             };
             if
             :: n > 0 && n < want - done -> cas(chunk, m, NONE(m), ok)
#ifndef BUG_EMPTY
             :: n == 0 && (filled == m || (LOCK_OWNER(t) == 0 && tail == t)) -> cas(chunk, m, NONE(m), ok)
             :: n == 0 && filled != m && !(LOCK_OWNER(t) == 0 && tail == t) -> skip
#else
             :: n == 0 -> cas(chunk, m, NONE(m), ok)
#endif
             :: n == want - done && n > 0 -> filled = m
             fi;
             done = done + n; n = 0;
             release(r);
             if :: done == want -> break :: else fi
          fi
       :: r >= q && VALID(m) && r != CHUNK_AT(m) -> skip
       :: r >= q && !VALID(m) ->
          if :: done > 0 -> break :: else fi;
#ifndef BUG_ARM
          cas(tail, t, (t + SLEEPER1) & ~WOKEN1, ok);
#else
          atomic { ok = (TAIL_AT(tail) == TAIL_AT(t) && SLEEPERS(tail) == 0 && !CLOSED(tail)); if :: ok -> tail = tail + SLEEPER1 :: else fi };
#endif
          if
          :: ok ->
             armed = true; counted = true; before = m;
sleep:
             TOLD_THE_TRUTH;
             /* The caller's own read(2). */
             atomic {
                 n = 0;
                 if
                 :: len(lane) > 0 ->
                    do
                    :: n < want && len(lane) > 0 -> lane?v; leaves(v); n++
                    :: else -> break
                    od
                 :: len(lane) == 0 && AT_END -> eof = true
                 fi
             };
             if
             :: armed ->
                m = chunk;
                if
                :: n < want && VALID(m) && SEQ(m) == ((SEQ(before) + 1) & 7) -> cas(chunk, m, NONE(m), ok)
                :: n == want && VALID(m) && SEQ(m) == ((SEQ(before) + 1) & 7) -> filled = m
                :: else
                fi
             :: else
             fi;
             done = n; n = 0;
             if
             :: counted ->
                do
                :: t = tail;
                   assert(SLEEPERS(t) > 0);
                   h = t - SLEEPER1;
                   cas(tail, t, h & ~WOKEN1, ok);
                   if :: ok -> break :: else fi
                od
             :: else
             fi;
             counted = false;
             armed = false;
             if :: eof || done == want || CLOSED(tail) -> break :: else fi
          :: else
          fi
       fi;
next_look:
       skip
    od;
    if
    :: eof -> assert(taken == ALL)
    :: else -> goto again
    fi;
finished:
    skip
}

proctype writer(byte me; byte base) {
    short t, h, m;
    byte r, n, q, v, want, done, sent, pos, used, first;
    bool ok, got, wait_free, hot, counted, good;
message:
    /* One write(2) of 1..MSG units. */
    if
    :: sent == N -> goto end
    :: else
    fi;
    done = 0;
    if
    :: sent + 1 <= N -> want = 1
    :: MSG > 1 && sent + 2 <= N -> want = 2
    :: MSG > 2 && sent + 3 <= N -> want = 3
    fi;
    if :: hot = true :: hot = false fi;
    do
    :: t = tail;
       if
       :: CLOSED(t) ->
          counted = false;
             good = forever;
             t = tail;
             if
             :: !CLOSED(t) -> goto again
             :: CLOSED(t) && !good && done == 0 && hot && KERNEL_WRITERS(t) == 0 && SLEEPERS(t) <= 1 && LOCK_OWNER(t) == 0 && pending == 0 ->
                hot = false;
                cas(tail, t, SET_LOCK(t, me), ok);
                if
                :: !ok -> goto again
#ifndef BUG_PENDING
                :: pending != 0 || forever -> unlock(); goto again
#else
                :: forever -> unlock(); goto again
#endif
                :: else
                fi;
                /* A reader on its way out is waited for, or the opening is given up. */
                do
                :: SLEEPERS(tail) > 0 && len(lane) > 0 -> if :: true -> unlock(); goto again :: (SLEEPERS(tail) == 0 || len(lane) == 0) fi
                :: else -> break
                od;
                t = tail; r = HEAD_AT(head);
                n = len(lane);
                if
                :: n > CAP || (n > 0 && SLEEPERS(t) > 0) -> n = 0; unlock(); goto again
                :: else
                fi;
                pos = r;
                do
                :: atomic { n > 0 && len(lane) > 0 -> lane?v; ring[pos % CAP2] = v; pos++; n-- }
                :: else -> break
                od;
                n = 0;
#ifndef BUG_SEQ
                chunk = NONE(NEXT(chunk, 0));
#else
                chunk = NONE(chunk);
#endif
                do
                :: t = tail; cas(tail, t, SET_LOCK(SET_W(t, pos), 0) & ~(CLOSED1 | WOKEN1), ok); if :: ok -> break :: else fi
                od;
                goto again
             :: else ->
#ifdef BUG_OVERTAKE
                t = (SPILLED(t) -> SET_LOCK(t, 0) : t);
#endif
                if
                :: LOCK_OWNER(t) != 0 -> (LOCK_OWNER(tail) == 0 || !CLOSED(tail)); goto again
                :: LOCK_OWNER(t) == 0 && good -> skip
#ifdef BUG_REST
                :: LOCK_OWNER(t) == 0 && !good && done > 0 -> skip
                :: LOCK_OWNER(t) == 0 && !good && done == 0 && KERNEL_WRITERS(t) < 3 ->
#else
                :: LOCK_OWNER(t) == 0 && !good && KERNEL_WRITERS(t) < 3 ->
#endif
                   cas(tail, t, t + KERNEL_WRITER1, ok); if :: !ok -> goto again :: else fi; counted = true
                fi
             fi;
          /* The caller's own write(2) of what is left. */
          do
          :: done < want -> atomic { len(lane) < 8 -> into_lane(base * 16 + sent + done); done++ }
          :: else -> break
          od;
          if
          :: counted ->
             do
             :: t = tail; h = t - KERNEL_WRITER1; cas(tail, t, h, ok); if :: ok -> break :: else fi
             od
          :: else
          fi;
          break
       :: else
       fi;
       take_wl(true);
       if :: !got -> goto again :: else fi;
locked:
       t = tail;
       if :: CLOSED(t) -> unlock(); goto again :: else fi;
       h = head; m = chunk; r = HEAD_AT(h); pos = TAIL_AT(t); used = pos - r;
       if
       :: SLEEPERS(t) > 0 && !WOKEN(t) ->
#ifndef BUG_PLACE
          m = NEXT(chunk, pos);
          chunk = m;
#endif
#ifndef BUG_WOKEN
          cas(tail, t, t | WOKEN1, ok);
          if :: !ok -> ABANDON goto locked :: else fi;
          t = t | WOKEN1;
#endif
          n = 0;
          q = want - done - 1;
          do
          :: n < q && n < CAP -> ring[(pos + n) % CAP2] = base * 16 + sent + done + 1 + n; n++
          :: else -> break
          od;
#ifdef BUG_FIRST
          cas(tail, t, SET_W(t, pos + n), ok);
          if :: ok -> t = SET_W(t, pos + n) :: else fi;
#endif
#ifdef BUG_PLACE
          m = NEXT(chunk, pos);
          chunk = m;
#endif
          atomic { assert(len(lane) == 0); into_lane(base * 16 + sent + done) };
          done++;
#ifdef BUG_WOKEN
          cas(tail, t, t | WOKEN1, ok);
          t = t | WOKEN1;
#endif
#ifdef BUG_FIRST
          done = done + n;
#else
          if
          :: done + n == want -> cas(tail, t, SET_LOCK(SET_W(t, pos + n), 0), ok)
          :: else -> cas(tail, t, SET_W(t, pos + n), ok)
          fi;
          if
          :: ok -> done = done + n; n = 0; if :: done == want -> break :: else -> goto locked fi
          :: else
          fi;
#endif
          n = 0;
          if :: done == want -> unlock(); break :: else -> goto locked fi
       :: else
       fi;
       if
       :: !(VALID(m) && r < CHUNK_AT(m)) && used < CAP ->
          if :: want - done < CAP - used -> n = want - done :: else -> n = CAP - used fi;
          q = 0;
          do
          :: q < n -> ring[(pos + q) % CAP2] = base * 16 + sent + done + q; q++
          :: else -> break
          od;
          h = (SLEEPERS(t) == 0 && !VALID(m) -> t & ~WOKEN1 : t);
          if
          :: done + n == want -> cas(tail, t, SET_LOCK(SET_W(h, pos + n), 0), ok)
          :: else -> cas(tail, t, SET_W(h, pos + n), ok)
          fi;
          if
          :: ok -> done = done + n; n = 0; if :: done == want -> break :: else -> goto locked fi
          :: else -> n = 0; goto locked
          fi
       :: else
       fi;
       if
       :: !VALID(m) ->
          m = NEXT(chunk, pos);
          chunk = m;
#ifndef BUG_FULL
          cas(tail, t, t | WOKEN1, ok);
          if :: !ok -> ABANDON goto locked :: else fi;
#endif
          atomic { assert(len(lane) == 0); into_lane(base * 16 + sent + done) };
          done++;
          if :: done == want -> unlock(); break :: else -> goto locked fi
       :: VALID(m) && r >= CHUNK_AT(m) && len(lane) == 0 ->
          h = head;
          if
          :: SLEEPERS(t) == 0 && !HELD(h) && HEAD_AT(h) == r ->
             cas(head, h, r | (me << 5) | HELD1, ok);
             if
             :: ok ->
                if
                :: chunk == m && len(lane) == 0 -> cas(chunk, m, NONE(m), ok)
                :: else
                fi;
                release(r);
                goto locked
             :: else -> unlock(); goto again
             fi
          :: else -> unlock(); goto again
          fi
       :: else ->
          /* lane is shrunk to one slot: its unit makes it full. Sleep until there is room. */
          unlock();
          (len(lane) == 0 || CLOSED(tail));
          goto again
       fi;
again:
       skip
    od;
    sent = sent + want;
    goto message;
end:
    writers--
}

proctype poller(byte me) {
    short t, h, m;
    byte r, n, q, v;
    bool ok, got, wait_free;
#if SUSPEND
    pending = 1;
    hand_back(false);
#if SPLICE
    if
    :: atomic { len(lane) > 0 -> assert(CLOSED(tail)); lane?v; leaves(v) }
    :: skip
    fi;
    /* spiller::wait */
    !SPILLED(tail);
    atomic { assert(CLOSED(tail)); into_lane(NW * 16); writers-- };
#endif
    pending = 0
#else
    hand_back(true)
#endif
}

/* spiller::run; ids of processes that come after each other are one here. */
proctype spiller() {
    short t, h;
    byte q, v;
    bool ok;
endless:
    do
    :: LOCK_OWNER(tail) == SPILLER ->
       /* Blocking writes: each goes on where there is room. */
       do
       :: spill_at < spill_to -> atomic { len(lane) < LANE -> v = ring[spill_at % CAP2]; into_lane(v); spill_at++ }
       :: else -> break
       od;
       q = spill_to;
       /* handback::closed. */
       h = head;
       cas(head, h, q | (SPILLER << 5) | HELD1, ok);
       chunk = NONE(chunk);
       h = head;
#ifndef BUG_HEAD
       cas(head, h, q, ok);
#endif
       do
       :: t = tail; cas(tail, t, SET_LOCK(t, 0) & ~SPILLED1, ok); if :: ok -> break :: else fi
       od;
       writers--
    od
}

init {
    byte i;
    atomic {
        i = 0;
        do
        :: i < NW -> run writer(i + 1, i); i++
        :: else -> break
        od;
        i = 0;
        do
        :: i < NR -> run reader(NW + 1 + i); i++
        :: else -> break
        od;
#if HANDBACK
        run poller(NW + NR + 1);
#endif
#if SPILL
        run spiller()
#endif
    }
}
