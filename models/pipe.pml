/* The channel protocol of docs/pipe.md, step by step as crates/pipe does it: read.rs, write.rs, handback.rs, lock.rs.
 *
 * Each load, each compare-and-swap, each copy and each kernel call is one step; everything between may interleave.
 * A unit stands for what fits into K while the channel is open (at most 4096 bytes); the ring holds CAP units.
 * Checked: at the moment a unit leaves the stream it is the next one of its writer (order, no loss, no doubling); K is
 * empty whenever it is written under the lock (I2); nobody sleeps for ever (no invalid end state); a reader sees EOF
 * only when every unit has been read.
 * Not here: memory order weaker than sequential (the edges are tagged in the code), wrap of positions, signals,
 * death of an owner (tests/conformance/kill.c), policy.
 *
 * Parameters: NW writers, NR readers, N units of each writer in messages of at most MSG, HANDBACK=1 adds a process
 * that hands the channel back once, at any time, SUSPEND=1 makes that an exec's (it may be opened again).
 * Bugs, as controls: BUG_RUNG (ring the bell before RUNG is set), BUG_ARM (arm without looking at K's place),
 * BUG_FIRST (publish the rest of a rung write before K is written), BUG_REST (the rest of a write that was begun in
 * the ring goes to K uncounted), BUG_PUMP (hand back without pumping), BUG_PLACE (RUNG before the place), BUG_FOREVER (a reader takes the bypass while the
 * lock is held), BUG_ABANDON (a writer takes back a
 * place under a reader), BUG_STEAL (take the bytes that a sleeper was rung with), BUG_SEQ (a new opening's bell looks like the one of
 * the old), BUG_FULL
 * (overflow into K without RUNG), BUG_EMPTY (take K for empty while a writer is inside the lock).
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
#ifndef OPEN_AT_START
#define OPEN_AT_START 0
#endif

#ifdef BUG_ABANDON
#define ABANDON cas(M, m, NONE(m), ok);
#else
#define ABANDON
#endif

/* T: W 5 bits | wl 3 | nsl 2 | kw 2 | RUNG | CLOSED */
#define W_(t) ((t) & 31)
#define WL(t) (((t) >> 5) & 7)
#define NSL(t) (((t) >> 8) & 3)
#define KW(t) (((t) >> 10) & 3)
#define RUNG(t) (((t) >> 12) & 1)
#define CLOSED(t) (((t) >> 13) & 1)
#define SET_W(t, w) (((t) & ~31) | (w))
#define SET_WL(t, o) (((t) & ~(7 << 5)) | ((o) << 5))
#define NSL1 (1 << 8)
#define KW1 (1 << 10)
#define RUNG1 (1 << 12)
#define CLOSED1 (1 << 13)
/* H: R 5 bits | owner 3 | held */
#define R_(h) ((h) & 31)
#define OWNER(h) (((h) >> 5) & 7)
#define HELD(h) (((h) >> 8) & 1)
#define HELD1 (1 << 8)
/* M: P 5 bits | valid | seq 3 */
#define P_(m) ((m) & 31)
#define VALID(m) (((m) >> 5) & 1)
#define SEQ(m) (((m) >> 6) & 7)
#define NEXT(m, p) ((p) | 32 | (((SEQ(m) + 1) & 7) << 6))
#define NONE(m) ((m) & ~32)


#if OPEN_AT_START
short T = 0;
#else
short T = CLOSED1;
#endif
short H = 0;
short M = 0;
/* The last place of which somebody has read bytes out of K. */
short filled = 0;
/* One place more than writers fill: the pump's. */
#define CAP2 (CAP + 1)
byte ring[CAP2];
chan K = [8] of { byte };
bool forever = false;
byte pending = 0;
byte writers = NW;
byte taken = 0;
byte next[NW];

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

inline drop_wl() {
    do
    :: t = T;
       if
       :: WL(t) != me -> break
       :: else -> cas(T, t, SET_WL(t, 0), ok); if :: ok -> break :: else fi
       fi
    od
}

inline release(r) {
    h = H;
    if
    :: HELD(h) && OWNER(h) == me -> cas(H, h, (r), ok)
    :: else
    fi
}

/* lock::take; got is false when the channel is closed and `closed` gives up. */
inline take_wl(give_up_closed) {
    do
    :: t = T;
       if
       :: give_up_closed && CLOSED(t) && (!wait_free || WL(t) == 0) -> got = false; break
       :: else ->
          if
          :: WL(t) == 0 -> cas(T, t, SET_WL(t, me), ok); if :: ok -> got = true; break :: else fi
          :: else -> (WL(T) != WL(t))
          fi
       fi
    od
}

/* handback::pump_locked: K's unit behind the ring's, under both locks. */
inline pump_locked(r) {
    t = T; m = M;
    if
    :: VALID(m) && P_(m) == W_(t) ->
       atomic {
           if
           :: len(K) > 0 && len(K) == 1 -> K?v; ring[W_(t) % CAP2] = v; n = 1
           :: len(K) == 0 -> n = 0
           fi
       };
       cas(M, m, NONE(m), ok);
       if
       :: n == 1 -> cas(T, t, SET_W(t, W_(t) + 1), ok)
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
    :: got && CLOSED(T) -> drop_wl()
    :: else ->
       do
       :: h = H;
          if
          :: HELD(h) -> (H != h)
          :: else -> cas(H, h, R_(h) | (me << 5) | HELD1, ok); if :: ok -> break :: else fi
          fi
       od;
       r = R_(h);
#ifndef BUG_PUMP
       if
       :: VALID(M) && P_(M) > r -> pump_locked(r)
       :: else
       fi;
#endif
       t = T;
       /* One writev of all of it. */
       atomic {
           q = r;
           do
           :: q < W_(t) -> v = ring[q % CAP2]; K!v; q++
           :: else -> break
           od
       };
       q = W_(t);
       M = NONE(M);
       do
       :: t = T; cas(T, t, (t | CLOSED1) & ~RUNG1, ok); if :: ok -> break :: else fi
       od;
       release(q);
       drop_wl()
    fi
}

proctype reader(byte me) {
    short t, h, m, before;
    byte r, n, q, v, want, done, a[4];
    bool ok, got, wait_free, armed, counted, eof, good;
again:
    /* One read(2) of one or two units. */
    done = 0;
    eof = false;
    if :: want = 1 :: want = 2 fi;
    do
    :: h = H; t = T;
       if
       :: CLOSED(t) ->
          if :: done > 0 -> break :: else fi;
          good = forever;
          t = T;
          if
          :: !CLOSED(t) -> goto next_look
#ifdef BUG_FOREVER
          :: CLOSED(t) && good -> counted = false
          :: CLOSED(t) && !good && WL(t) != 0 -> (WL(T) == 0 || forever || !CLOSED(T)); goto next_look
          :: CLOSED(t) && !good && WL(t) == 0 ->
#else
          :: CLOSED(t) && WL(t) != 0 -> (WL(T) == 0 || !CLOSED(T)); goto next_look
          :: CLOSED(t) && WL(t) == 0 && good -> counted = false
          :: CLOSED(t) && WL(t) == 0 && !good ->
#endif
             if
             :: NSL(t) == 3 -> forever = true; goto next_look
             :: else -> cas(T, t, t + NSL1, ok); if :: !ok -> goto next_look :: else fi; counted = true
             fi
          fi;
          armed = false;
          goto sleep
       :: HELD(h) -> (H != h); goto next_look
       :: else
       fi;
       if
       :: NSL(t) > 0 ->
          if :: done > 0 -> break :: else fi;
          if
          :: !RUNG(t) -> hand_back(true)
          :: RUNG(t) -> hand_back(true)
          :: RUNG(t) -> (T != t)
          fi;
          goto next_look
       :: else
       fi;
       m = M; r = R_(h); q = W_(t);
       if
       :: VALID(m) && P_(m) < q -> q = P_(m)
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
              :: H == h ->
                 H = r + n;
                 leaves(a[0]);
                 if :: n > 1 -> leaves(a[1]) :: else fi;
                 done = done + n; ok = true
              :: else -> ok = false
              fi
          };
          if
          :: ok && VALID(m) && P_(m) == W_(t) && W_(t) - (r + n) <= CAP / 2 ->
             r = r + n;
             t = T;
             if
             :: WL(t) == 0 && NSL(t) == 0 && !CLOSED(t) ->
                cas(T, t, SET_WL(t, me), ok);
                if
                :: ok ->
                   h = H; r = R_(h);
                   if
                   :: !HELD(h) ->
                      cas(H, h, r | (me << 5) | HELD1, ok);
                      if :: ok -> pump_locked(r); release(r) :: else fi
                   :: else
                   fi;
                   drop_wl()
                :: else
                fi
             :: else
             fi
          :: else
          fi;
          n = 0;
          if :: done == want -> break :: else fi
       :: r >= q && VALID(m) && r == P_(m) ->
          cas(H, h, r | (me << 5) | HELD1, ok);
          if
          :: !ok -> skip
          :: else ->
             good = (M == m);
             t = T;
             if
#ifdef BUG_STEAL
             :: !good -> release(r); goto next_look
#else
             :: !good || NSL(t) > 0 -> release(r); goto next_look
#endif
             :: else
             fi;
             atomic {
                 n = 0;
                 do
                 :: n < want - done && len(K) > 0 -> K?v; leaves(v); n++
                 :: else -> break
                 od
             };
             if
             :: n > 0 && n < want - done -> cas(M, m, NONE(m), ok)
#ifndef BUG_EMPTY
             :: n == 0 && (filled == m || (WL(t) == 0 && T == t)) -> cas(M, m, NONE(m), ok)
             :: n == 0 && filled != m && !(WL(t) == 0 && T == t) -> skip
#else
             :: n == 0 -> cas(M, m, NONE(m), ok)
#endif
             :: n == want - done && n > 0 -> filled = m
             fi;
             done = done + n; n = 0;
             release(r);
             if :: done == want -> break :: else fi
          fi
       :: r >= q && VALID(m) && r != P_(m) -> skip
       :: r >= q && !VALID(m) ->
          if :: done > 0 -> break :: else fi;
#ifndef BUG_ARM
          cas(T, t, (t + NSL1) & ~RUNG1, ok);
#else
          atomic { ok = (W_(T) == W_(t) && NSL(T) == 0 && !CLOSED(T)); if :: ok -> T = T + NSL1 :: else fi };
#endif
          if
          :: ok ->
             armed = true; counted = true; before = m;
sleep:
             /* The caller's own read(2). */
             atomic {
                 n = 0;
                 if
                 :: len(K) > 0 ->
                    do
                    :: n < want && len(K) > 0 -> K?v; leaves(v); n++
                    :: else -> break
                    od
                 :: len(K) == 0 && writers == 0 -> eof = true
                 fi
             };
             if
             :: armed ->
                m = M;
                if
                :: n < want && VALID(m) && SEQ(m) == ((SEQ(before) + 1) & 7) -> cas(M, m, NONE(m), ok)
                :: n == want && VALID(m) && SEQ(m) == ((SEQ(before) + 1) & 7) -> filled = m
                :: else
                fi
             :: else
             fi;
             done = n; n = 0;
             if
             :: counted ->
                do
                :: t = T;
                   assert(NSL(t) > 0);
                   h = t - NSL1;
                   cas(T, t, h & ~RUNG1, ok);
                   if :: ok -> break :: else fi
                od
             :: else
             fi;
             counted = false;
             armed = false;
             if :: eof || done == want || CLOSED(T) -> break :: else fi
          :: else
          fi
       fi;
next_look:
       skip
    od;
    if
    :: eof -> assert(taken == NW * N)
    :: else -> goto again
    fi
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
    :: t = T;
       if
       :: CLOSED(t) ->
          counted = false;
             good = forever;
             t = T;
             if
             :: !CLOSED(t) -> goto again
             :: CLOSED(t) && !good && done == 0 && hot && KW(t) == 0 && NSL(t) <= 1 && WL(t) == 0 && pending == 0 ->
                hot = false;
                cas(T, t, SET_WL(t, me), ok);
                if
                :: !ok -> goto again
                :: pending != 0 || forever -> drop_wl(); goto again
                :: else
                fi;
                /* A reader on its way out is waited for, or the opening is given up. */
                do
                :: NSL(T) > 0 && len(K) > 0 -> if :: true -> drop_wl(); goto again :: (NSL(T) == 0 || len(K) == 0) fi
                :: else -> break
                od;
                t = T; r = R_(H);
                n = len(K);
                if
                :: n > CAP || (n > 0 && NSL(t) > 0) -> n = 0; drop_wl(); goto again
                :: else
                fi;
                pos = r;
                do
                :: atomic { n > 0 && len(K) > 0 -> K?v; ring[pos % CAP2] = v; pos++; n-- }
                :: else -> break
                od;
                n = 0;
#ifndef BUG_SEQ
                M = NONE(NEXT(M, 0));
#else
                M = NONE(M);
#endif
                do
                :: t = T; cas(T, t, SET_WL(SET_W(t, pos), 0) & ~(CLOSED1 | RUNG1), ok); if :: ok -> break :: else fi
                od;
                goto again
             :: else ->
                if
                :: WL(t) != 0 -> (WL(T) == 0 || !CLOSED(T)); goto again
                :: WL(t) == 0 && good -> skip
#ifdef BUG_REST
                :: WL(t) == 0 && !good && done > 0 -> skip
                :: WL(t) == 0 && !good && done == 0 && KW(t) < 3 ->
#else
                :: WL(t) == 0 && !good && KW(t) < 3 ->
#endif
                   cas(T, t, t + KW1, ok); if :: !ok -> goto again :: else fi; counted = true
                fi
             fi;
          /* The caller's own write(2) of what is left. */
          do
          :: done < want -> atomic { len(K) < 8 -> K!(base * 16 + sent + done); done++ }
          :: else -> break
          od;
          if
          :: counted ->
             do
             :: t = T; h = t - KW1; cas(T, t, h, ok); if :: ok -> break :: else fi
             od
          :: else
          fi;
          break
       :: else
       fi;
       take_wl(true);
       if :: !got -> goto again :: else fi;
locked:
       t = T;
       if :: CLOSED(t) -> drop_wl(); goto again :: else fi;
       h = H; m = M; r = R_(h); pos = W_(t); used = pos - r;
       if
       :: NSL(t) > 0 && !RUNG(t) ->
#ifndef BUG_PLACE
          m = NEXT(M, pos);
          M = m;
#endif
#ifndef BUG_RUNG
          cas(T, t, t | RUNG1, ok);
          if :: !ok -> ABANDON goto locked :: else fi;
          t = t | RUNG1;
#endif
          n = 0;
          q = want - done - 1;
          do
          :: n < q && n < CAP -> ring[(pos + n) % CAP2] = base * 16 + sent + done + 1 + n; n++
          :: else -> break
          od;
#ifdef BUG_FIRST
          cas(T, t, SET_W(t, pos + n), ok);
          if :: ok -> t = SET_W(t, pos + n) :: else fi;
#endif
#ifdef BUG_PLACE
          m = NEXT(M, pos);
          M = m;
#endif
          atomic { assert(len(K) == 0); K!(base * 16 + sent + done) };
          done++;
#ifdef BUG_RUNG
          cas(T, t, t | RUNG1, ok);
          t = t | RUNG1;
#endif
#ifdef BUG_FIRST
          done = done + n;
#else
          if
          :: done + n == want -> cas(T, t, SET_WL(SET_W(t, pos + n), 0), ok)
          :: else -> cas(T, t, SET_W(t, pos + n), ok)
          fi;
          if
          :: ok -> done = done + n; n = 0; if :: done == want -> break :: else -> goto locked fi
          :: else
          fi;
#endif
          n = 0;
          if :: done == want -> drop_wl(); break :: else -> goto locked fi
       :: else
       fi;
       if
       :: !(VALID(m) && r < P_(m)) && used < CAP ->
          if :: want - done < CAP - used -> n = want - done :: else -> n = CAP - used fi;
          q = 0;
          do
          :: q < n -> ring[(pos + q) % CAP2] = base * 16 + sent + done + q; q++
          :: else -> break
          od;
          h = (NSL(t) == 0 && !VALID(m) -> t & ~RUNG1 : t);
          if
          :: done + n == want -> cas(T, t, SET_WL(SET_W(h, pos + n), 0), ok)
          :: else -> cas(T, t, SET_W(h, pos + n), ok)
          fi;
          if
          :: ok -> done = done + n; n = 0; if :: done == want -> break :: else -> goto locked fi
          :: else -> n = 0; goto locked
          fi
       :: else
       fi;
       if
       :: !VALID(m) ->
          m = NEXT(M, pos);
          M = m;
#ifndef BUG_FULL
          cas(T, t, t | RUNG1, ok);
          if :: !ok -> ABANDON goto locked :: else fi;
#endif
          atomic { assert(len(K) == 0); K!(base * 16 + sent + done) };
          done++;
          if :: done == want -> drop_wl(); break :: else -> goto locked fi
       :: VALID(m) && r >= P_(m) && len(K) == 0 ->
          h = H;
          if
          :: NSL(t) == 0 && !HELD(h) && R_(h) == r ->
             cas(H, h, r | (me << 5) | HELD1, ok);
             if
             :: ok ->
                if
                :: M == m && len(K) == 0 -> cas(M, m, NONE(m), ok)
                :: else
                fi;
                release(r);
                goto locked
             :: else -> drop_wl(); goto again
             fi
          :: else -> drop_wl(); goto again
          fi
       :: else ->
          /* K is shrunk to one slot: its unit makes it full. Sleep until there is room. */
          drop_wl();
          (len(K) == 0 || CLOSED(T));
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
    pending = 0
#else
    hand_back(true)
#endif
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
        run poller(NW + NR + 1)
#endif
    }
}
