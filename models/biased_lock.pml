/* The kept writers' lock and the bytes beside T (docs/pipe.md, ADR 10 and 11), as kept.rs, beside.rs, quick.rs and lock.rs have them;
 * a writer's stores come late.
 *
 *   keeper    inside := 1;  kept = t?  copy ....  beside T ....  kept := t';  CAS T: t -> t', W + n (else kept := 0);  inside := 0
 *   another   CAS T: the lock is mine;  kept := 0;  barrier;  until the keeper is not inside;  then as ever
 *   beside T  stamp := 0;  unit;  stamp := position;  CAS T: W + 1        (else who moves W:  stamp := 0;  CAS T)
 *             between two writes, of whoever kept the lock at the first:  stamp := 0
 *   reader    T;  stamp = R?  unit;  stamp still the same?  CAS H: R + 1
 *
 * Two writers, each of which may keep the lock after any short write of its own; a reader that sleeps, and whose sleep a signal
 * may end once; and, if wanted, somebody who hands the channel back, at any time. What a writer, or who hands back, stores into the
 * ring, beside T, into "kept" and "inside" comes to memory in order, each store at any later time, all of them before its thread's
 * next compare-and-swap or system call, or before another's barrier ends; the thread's own looks pass them by.
 * Checked: no unit is copied to a place that is published, or into a ring that was given back; what is published is what
 * its writer copied; a unit leaves the stream as the next one of its writer (order, no loss, no doubling); a keeper publishes
 * only where no place of K is set; with every published W, and wherever the lock is dropped, "kept" is T or nothing;
 * nobody sleeps or waits for ever (no invalid end state); EOF comes after the last unit.
 * Not here: what pipe.pml has (overflow into K, pumps, opening anew, several readers, and the smaller steps of the reader and of
 * the lock's owner); when keeping pays (who may, does or does not); thread ids given out anew, and two threads that share a
 * place among the keepers; stores that overtake stores; M, which is stored at once; wrap of positions.
 *
 * Parameters: N1, N2 units of the two writers, in messages of at most MSG, of which those of one unit stand beside T; READ, the most
 * that a read takes; CAP units of ring; KEPT=1: the first writer keeps the lock at the start. HANDBACK=1 adds the one who hands back.
 * DEATH=1: a writer may be killed, inside, anywhere in its copy or beside T, or when it has taken a kept lock and not yet waited.
 * HANDLER=1: the second writer has a signal handler, which may come over its taking of the lock, once, and writes a unit into the same
 * channel; so it keeps none.
 * Bugs, as controls: BUG_WAIT (the keeper is not waited for), BUG_BARRIER (waited for, without a barrier), BUG_LOOK ("kept" is looked
 * at before "inside" only), BUG_FRESH (published from the T of that moment), BUG_CLEAR (who takes a kept lock leaves "kept" as it is),
 * BUG_LATE ("kept" is stored after the keeper's compare-and-swap: over the 0 of who has taken the lock meanwhile), BUG_HEIR (who takes a
 * dead one's lock waits for no keeper), BUG_GONE (what a keeper stored into "kept" that was killed before its compare-and-swap, and
 * after another had taken its lock, stays there), BUG_HANDLER (signals are not held off from the taking of a kept lock to the end of the
 * wait: the handler finds the lock its own), BUG_STAMP (who moves W leaves the stamp), BUG_TWICE (the reader does not look at the stamp
 * again).
 */
#ifndef N1
#define N1 2
#endif
#ifndef N2
#define N2 2
#endif
#ifndef MSG
#define MSG 2
#endif
#ifndef READ
#define READ MSG
#endif
#ifndef CAP
#define CAP 2
#endif
#ifndef KEPT
#define KEPT 0
#endif
#ifndef HANDBACK
#define HANDBACK 0
#endif
#ifndef DEATH
#define DEATH 0
#endif
#ifndef HANDLER
#define HANDLER 0
#endif

/* Threads; 0: none. */
#define FIRST 1
#define SECOND 2
#define GIVER 3
#define READER 4
#define IS_WRITER(o) ((o) <= SECOND)

/* T: W 4 bits | thread 3 | kept | nsl 1 | RUNG | CLOSED */
#define KEPT1 (1 << 7)
#define NSL1 (1 << 8)
#define RUNG1 (1 << 9)
#define CLOSED1 (1 << 10)
#define W_(t) ((t) & 15)
#define TID(t) (((t) >> 4) & 7)
#define IS_KEPT(t) (((t) >> 7) & 1)
#define NSL(t) (((t) >> 8) & 1)
#define RUNG(t) (((t) >> 9) & 1)
#define CLOSED(t) (((t) >> 10) & 1)
/* To who does not take it, a kept lock is free. */
#define WL(t) (TID(t) * (1 - IS_KEPT(t)))
#define KEEPER(t) (TID(t) * IS_KEPT(t))
#define SET_W(t, w) (((t) & ~15) | (w))
#define SET_WL(t, o) (((t) & ~(7 << 4 | KEPT1)) | ((o) << 4))
#define KEPT_BY(t, o) (SET_WL(t, o) | KEPT1)
/* W and nothing else; or that, and that o keeps it. */
#define IS_IDLE(t) (((t) & ~15) == 0)
#define IS_KEPT_BY(t, o) (((t) & ~15) == ((o) << 4 | KEPT1))
/* H: R 4 bits | held (by the reader, or by who hands back) */
#define R_(h) ((h) & 15)
#define HELD1 16
/* M: P 4 bits | valid | seq 3 */
#define P_(m) ((m) & 15)
#define VALID(m) (((m) >> 4) & 1)
#define SEQ(m) ((m) >> 5)
#define NEXT(m, p) ((p) | 16 | (((SEQ(m) + 1) & 7) << 5))
#define NONE(m) ((m) & ~16)

#if KEPT
short T = KEPT_BY(0, FIRST);
#else
short T = 0;
#endif
byte H = 0;
byte M = 0;
/* The last place of which the reader has had bytes of K. */
byte filled = 0;
/* A place that is nobody's; so that what was there makes no states. */
#define NOTHING 255
byte ring[CAP] = NOTHING;
/* Beside T, where there is room for one unit: its position plus one, or 0; and the unit. */
byte stamp = 0;
byte beside = NOTHING;
/* T as its keeper remembers it, or 0. */
#if KEPT
short kept = KEPT_BY(0, FIRST);
#else
short kept = 0;
#endif
/* By thread. */
bool inside[4];
chan K = [8] of { byte };
byte writers = 2;
byte entered = 0;
byte next[3];

/* The writer who was killed; whether the handler has come. */
byte dead = 0;
bool handled = false;
/* The ring's memory is the allocator's again. */
bool given_back = false;

/* What a writer, or the giver, has stored and nobody sees yet, in order: what (a place of the ring: PLACE + position), and its value. */
#define INSIDE 1
#define KEPT_T 2
#define STAMP 3
#define UNIT 4
#define PLACE 16
chan late[3] = [8] of { byte, short };
#define LATE(o) late[(o) - 1]
/* A locked instruction, and any call of the kernel's, comes after all that its thread has stored. */
#define SEEN(o) (len(LATE(o)) == 0)
/* Who finds it dead was told so by the kernel: by then all that it has stored is seen. */
#define IS_DEAD(o) (dead == (o) && SEEN(o))

inline store(what, value) {
    LATE(me)!what,value
}

/* A store comes to memory. */
inline lands(o) {
    atomic {
        LATE(o)?what,value ->
        if
        :: what == INSIDE -> inside[o] = value
        :: what == KEPT_T -> kept = value
        :: what == STAMP -> stamp = value
        :: what == UNIT -> beside = value
        :: what >= PLACE ->
           assert(!given_back && what - PLACE >= W_(T));
           ring[(what - PLACE) % CAP] = value
        fi;
        what = 0; value = 0
    }
}

proctype hardware() {
    byte what;
    short value;
end:
    do
    :: lands(FIRST)
    :: lands(SECOND)
    :: lands(GIVER)
    od
}

/* A unit leaves the stream: it must be the next of its writer. Values are 16 * (writer - 1) + number. */
inline leaves(u) {
    assert((u) % 16 == next[(u) / 16]);
    next[(u) / 16]++
}

/* Who moves W over bytes that are not beside T: Channel::cas_w. */
inline clear() {
#ifndef BUG_STAMP
    store(STAMP, 0)
#else
    skip
#endif
}

/* kept::forget. */
inline forget() {
    store(KEPT_T, 0)
}

/* Killed. */
inline may_be_killed() {
#if DEATH
    if
    :: IS_WRITER(me) && dead == 0 -> dead = me; writers--; goto stop
    :: true
    fi
#else
    skip
#endif
}

/* quick::append: n units, of which the first is u, to the ring; and if it is one, beside T. */
inline append(u) {
    store(PLACE + pos, u);
    if :: n == 2 -> store(PLACE + pos + 1, (u) + 1) :: else fi;
    if
    :: n == 1 -> store(STAMP, 0); store(UNIT, u); may_be_killed(); store(STAMP, pos + 1)
    :: else -> clear()
    fi;
    may_be_killed()
}

/* write::publish: T from `old` to `new`, and n units at pos come into the stream, of which the first is u. */
inline publish(old, new, u) {
    atomic {
#ifndef BUG_LATE
        if :: KEEPER(new) != 0 -> store(KEPT_T, new); may_be_killed() :: else fi;
#endif
        SEEN(me);
        if
        :: T == (old) ->
           T = (new);
           assert(n < 1 || ring[pos % CAP] == (u));
           assert(n < 2 || ring[(pos + 1) % CAP] == (u) + 1);
#ifdef BUG_LATE
           if :: KEEPER(new) != 0 -> store(KEPT_T, new) :: else fi;
#else
           assert(kept == 0 || kept == T);
#endif
           entered = entered + n;
           ok = true
        :: else -> forget(); ok = false
        fi
    }
}

/* lock::drop. */
inline drop() {
    atomic {
        if
        :: WL(T) == me && SEEN(me) -> assert(kept == 0); T = SET_WL(T, 0)
        :: WL(T) != me
        fi
    }
}

/* A handler writes a unit: its thread has the lock, as it finds, and it goes on as the owner (lock.rs: take_from_another). */
inline handler() {
#if HANDLER
    if
    :: atomic { me == SECOND && !handled -> handled = true; t = T };
       if
       :: atomic {
              WL(t) == me && NSL(t) == 0 && !VALID(M) && W_(t) - R_(H) < CAP ->
              pos = W_(t); n = 1
          };
          store(PLACE + pos, 32); clear();
          publish(t, SET_WL(SET_W(t, pos + 1), 0), 32);
          n = 0
       :: else
       fi
    :: true
    fi
#else
    skip
#endif
}

/* kept::leave: T's lock was taken from `keeper`. */
inline leave() {
#ifndef BUG_CLEAR
    forget();
#endif
    wait()
}

/* kept::wait. */
inline wait() {
    if
    :: keeper == 0 || keeper == me
    :: keeper != 0 && keeper != me && IS_DEAD(keeper) -> gone()
    :: keeper != 0 && keeper != me && !IS_DEAD(keeper) ->
#ifndef BUG_BARRIER
       /* barrier::everywhere. */
       SEEN(me) && SEEN(keeper);
#endif
#ifndef BUG_WAIT
       if
       :: !inside[keeper]
       :: IS_DEAD(keeper) -> gone()
       fi;
#endif
       skip
    fi;
    keeper = 0
}

/* It was killed inside, perhaps between "kept" and its CAS: what was taken away stands there again. */
inline gone() {
#ifndef BUG_GONE
    forget()
#else
    skip
#endif
}

/* lock::enter and take_from_another; got is false when the channel is closed. (A CAS that is made, and the look at T before
 * it, are one step: between them T was the same, or there and back.) */
inline take() {
    if
    :: atomic { CLOSED(T) && WL(T) == 0 -> got = false }
    :: atomic { WL(T) == me -> got = true }
    :: atomic {
           !CLOSED(T) && WL(T) == 0 && SEEN(me) ->
           keeper = KEEPER(T); T = SET_WL(T, me);
           if :: keeper != 0 -> may_be_killed() :: else fi
       };
#ifdef BUG_HANDLER
       handler();
#endif
       if :: keeper != 0 -> leave() :: else fi;
#ifndef BUG_HANDLER
       handler();
#endif
       got = true
#if DEATH
    :: atomic { dead != 0 && WL(T) == dead && IS_DEAD(dead) && SEEN(me) -> T = SET_WL(T, me) & ~RUNG1 };
#ifndef BUG_HEIR
       /* kept::leave_all: it may have been killed before it had waited. */
       forget();
       keeper = FIRST; wait();
       keeper = SECOND; wait();
#endif
       got = true
#endif
    fi
}

/* What is not used again makes no states. */
#define NO_MORE atomic { t = 0; then = 0; m = 0; r = 0; n = 0; pos = 0; ok = false; got = false }

/* In a process without handlers. */
#define QUICK (!(HANDLER && me == SECOND))

proctype writer(byte me; byte base; byte units) {
    short t, then;
    byte m, r, n, want, done, sent, pos, keeper;
    bool ok, got;
message:
    /* One write(2) of 1..MSG units; quick::write_by. */
    atomic {
        done = 0;
        if
        :: sent == units -> want = 0; writers--; goto stop
        :: sent < units -> want = 1
        :: MSG > 1 && sent + 2 <= units -> want = 2
        fi;
        if
        :: QUICK && IS_KEPT_BY(kept, me) -> t = kept
        :: QUICK && !IS_KEPT_BY(kept, me) && IS_IDLE(T) && SEEN(me) -> t = T; T = SET_WL(t, me); goto first
        :: !QUICK || !IS_KEPT_BY(kept, me) && !IS_IDLE(T) -> goto begin
        fi
    };

    /* policy::will_answer, at some time before, whoever has the lock by now. */
    if :: clear() :: true fi;

    /* kept::enter. */
    store(INSIDE, true);
#ifndef BUG_LOOK
    /* It may pass the store by. */
    atomic { t = kept; if :: IS_KEPT_BY(t, me) :: else -> goto out fi };
#endif
    atomic {
        may_be_killed();
        pos = W_(t);
        if
        :: pos < R_(H) || pos - R_(H) + want > CAP -> goto out
        :: else -> n = want
        fi;
        append(base + sent);
#ifdef BUG_FRESH
        SEEN(me); t = T;
#endif
        publish(t, SET_W(t, pos + n), base + sent);
        if :: ok -> assert(!VALID(M)); done = want :: else fi
    };
out:
    atomic {
        store(INSIDE, false);
        n = 0;
        if :: done == want -> goto written :: else -> goto begin fi
    };

first:
    /* quick::first. */
    atomic {
        pos = W_(t);
        if
        :: VALID(M) || pos - R_(H) + want > CAP -> goto begin
        :: else -> n = want
        fi;
        /* Long alone, or not. */
        if :: then = KEPT_BY(t, me) :: then = t fi;
        then = SET_W(then, pos + n);
        t = SET_WL(t, me);
        append(base + sent);
        publish(t, then, base + sent);
        if :: ok -> done = want; goto written :: else fi
    };

begin:
    /* write::write. */
    do
    :: NO_MORE;
       take();
       if
       :: !got ->
          /* The caller's own write(2) of what is left. */
          do
          :: atomic { done < want && SEEN(me) -> K!(base + sent + done); done++; entered++ }
          :: done == want -> break
          od;
          break
       :: else
       fi;
owner:
       atomic {
           n = 0;
           t = T;
           if :: WL(t) != me -> goto again :: else fi;
           assert(!CLOSED(t));
           m = M; r = R_(H); pos = W_(t);
           if
           :: NSL(t) > 0 && !RUNG(t)
           :: (NSL(t) == 0 || RUNG(t)) && pos - r + want - done <= CAP -> goto room
           :: else -> goto no_room
           fi
       };
       /* write::bell: the place, RUNG, what follows, and K last. */
       m = NEXT(m, pos);
       M = m;
       atomic {
           SEEN(me);
           if
           :: T == t -> t = t | RUNG1; T = t
           :: else -> goto owner
           fi
       };
       atomic {
           n = want - done - 1;
           if :: n == 1 -> store(PLACE + pos, base + sent + done + 1) :: else fi;
           SEEN(me);
           assert(len(K) == 0);
           K!(base + sent + done); done++; entered++
       };
       clear();
       publish(t, SET_WL(SET_W(t, pos + n), 0), base + sent + done);
       atomic {
           if :: ok -> done = done + n :: else fi;
           if :: done == want -> skip :: else -> goto owner fi
       };
       drop();
       break;
room:
       atomic {
           n = want - done;
           store(PLACE + pos, base + sent + done);
           if :: n == 2 -> store(PLACE + pos + 1, base + sent + done + 1) :: else fi;
           clear();
           publish(t, SET_WL(SET_W(t, pos + n), 0), base + sent + done);
           if :: ok -> break :: else -> goto owner fi
       };
no_room:
       drop();
       atomic { t = 0; m = 0; pos = 0; ok = false; got = false };
       (R_(H) != r || CLOSED(T));
again:
       skip
    od;
written:
    atomic { NO_MORE; sent = sent + want };
    goto message;
stop:
    NO_MORE
}

proctype reader(byte me) {
    short t;
    byte h, m, before, r, n, q, u, want, done, a[2];
    bool ok, eof, interrupted, two;
again:
    /* One read(2) of one or two units. */
    atomic {
        t = 0; h = 0; m = 0; before = 0; r = 0; q = 0; ok = false; done = 0;
        if :: want = 1 :: READ > 1 -> want = 2 fi
    };
    do
    :: atomic {
           m = 0; r = 0; q = 0; ok = false;
           h = H; t = T;
           if
           :: CLOSED(t) && done > 0 -> break
           :: CLOSED(t) && done == 0 -> goto native
           :: else
           fi;
           if :: h >= HELD1 -> goto held :: else fi;
           assert(NSL(t) == 0)
       };
       atomic {
           m = M; r = h; q = W_(t);
           if
           :: VALID(m) && P_(m) < q -> q = P_(m)
           :: else
           fi;
           if
           :: r < q
           :: r >= q && VALID(m) && r == P_(m) -> goto drain
           :: r >= q && VALID(m) && r != P_(m) -> goto look
           :: r >= q && !VALID(m) && done > 0 -> break
           :: r >= q && !VALID(m) && done == 0 -> goto arm
           fi;
           if :: q - r < want - done -> n = q - r :: else -> n = want - done fi;
           /* Beside::look, and Look::copy. */
           if
           :: stamp == r + 1 && n == 1 -> two = true
           :: else ->
              a[0] = ring[r % CAP];
              if :: n > 1 -> a[1] = ring[(r + 1) % CAP] :: else fi
           fi
       };
       if :: two -> a[0] = beside :: else fi;
       atomic {
#ifndef BUG_TWICE
           if :: two && stamp != r + 1 -> a[0] = ring[r % CAP] :: else fi;
#endif
           two = false;
           if
           :: H == h ->
              H = r + n;
              leaves(a[0]); ring[r % CAP] = NOTHING;
              if :: n > 1 -> leaves(a[1]); ring[(r + 1) % CAP] = NOTHING :: else fi;
              done = done + n
           :: else
           fi;
           a[0] = 0; a[1] = 0; n = 0;
           if :: done == want -> break :: else -> goto look fi
       };
held:
       H < HELD1;
       goto look;
drain:
       /* read::drain. */
       atomic { if :: H == h -> H = h | HELD1 :: else -> goto look fi };
       ok = (M == m);
       atomic { t = T; if :: !ok || NSL(t) > 0 -> goto release :: else fi };
       atomic {
           do
           :: n < want - done && len(K) > 0 -> K?u; leaves(u); n++
           :: else -> break
           od;
           u = 0
       };
       atomic {
           if
           :: M != m
           :: M == m && n > 0 && n < want - done -> M = NONE(m); filled = 0
           :: M == m && n == 0 && (filled == m || (WL(t) == 0 && T == t)) -> M = NONE(m); filled = 0
           :: else
           fi;
           if :: n > 0 && n == want - done -> filled = m :: else fi;
           done = done + n; n = 0
       };
release:
       atomic { H = r; if :: done == want -> break :: else -> goto look fi };
arm:
       /* read::to_sleep: a kept T says so still; but its keeper comes in no more before the sleeper is home. */
       atomic {
           if
           :: T == t -> T = (t + NSL1) & ~RUNG1; before = m
           :: else -> goto look
           fi
       };
       /* The caller's own read(2), which a signal may end, once. */
       if
       :: atomic {
              len(K) > 0 ->
              do
              :: n < want && len(K) > 0 -> K?u; leaves(u); n++
              :: else -> break
              od;
              u = 0
          }
       :: atomic { len(K) == 0 && writers == 0 -> eof = true }
       :: atomic { !interrupted -> interrupted = true }
       fi;
       /* read::finish. */
       atomic {
           m = M;
           ok = VALID(m) && SEQ(m) == ((SEQ(before) + 1) & 7)
       };
       atomic {
           if
           :: ok && n == want -> filled = m
           :: ok && M == m && n < want && (n > 0 || eof) -> M = NONE(m); filled = 0
           :: else
           fi;
           n = 0
       };
       atomic { assert(NSL(T) > 0); T = (T - NSL1) & ~RUNG1 };
       break;
native:
       WL(T) == 0;
       if
       :: atomic { len(K) > 0 -> K?u; leaves(u); u = 0 }
       :: atomic { len(K) == 0 && writers == 0 -> eof = true }
       fi;
       break;
look:
       skip
    od;
    if
    :: eof -> assert(next[0] + next[1] + next[2] == entered)
    :: else -> goto again
    fi
}

/* handback::hand_back. */
proctype giver(byte me) {
    short t;
    byte r, n, u, pos, keeper;
    bool ok, got;
    take();
    if :: !got -> goto stop :: else fi;
    atomic { H < HELD1 && SEEN(me) -> r = H; H = r | HELD1 };
    assert(!(VALID(M) && P_(M) > r));
    atomic {
        pos = r;
        do
        :: pos < W_(T) -> u = ring[pos % CAP]; ring[pos % CAP] = NOTHING; K!u; pos++
        :: else -> break
        od;
        u = 0
    };
    M = NONE(M);
    given_back = true;
    T = (T | CLOSED1) & ~RUNG1;
    H = pos;
    drop();
stop:
    atomic { t = 0; r = 0; n = 0; pos = 0; ok = false; got = false }
}

init {
    atomic {
        run hardware();
        run writer(FIRST, 0, N1);
        run writer(SECOND, 16, N2);
        run reader(READER);
#if HANDBACK
        run giver(GIVER)
#endif
    }
}
