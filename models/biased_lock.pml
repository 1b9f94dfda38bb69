/* The biased writers' lock and the bytes inline (docs/pipe.md, ADR 10 and 11), as biased_lock.rs, inline_payload.rs, fast_path.rs and lock.rs have them;
 * a writer's stores come late.
 *
 *   owner     inside := 1;  biased_tail = t?  copy ....  inline ....  biased_tail := t';  CAS tail: t -> t', tail + n (else biased_tail := 0);  inside := 0
 *   another   CAS tail: the lock is mine;  biased_tail := 0;  barrier;  until the bias owner is not inside;  then as ever
 *   inline  stamp := 0;  unit;  stamp := position;  CAS tail: tail + 1        (else who moves tail:  stamp := 0;  CAS tail)
 *             between two writes, of whoever had the bias at the first:  stamp := 0
 *   reader    tail;  stamp = head?  unit;  stamp still the same?  CAS head: head + 1
 *
 * Two writers, each of which may keep the lock after any short write of its own; a reader that sleeps, and whose sleep a signal
 * may end once; and, if wanted, somebody who hands the channel back, at any time. What a writer, or who hands back, stores into the
 * ring, inline, into "biased_tail" and "inside" comes to memory in order, each store at any later time, all of them before its thread's
 * next compare-and-swap or system call, or before another's barrier ends; the thread's own looks pass them by.
 * Checked: no unit is copied to a place that is published, or into a ring that was given back; what is published is what
 * its writer copied; a unit leaves the stream as the next one of its writer (order, no loss, no doubling); a bias owner publishes
 * only where no place of lane is set; with every published tail, and wherever the lock is dropped, "biased_tail" is tail or nothing;
 * nobody sleeps or waits for ever (no invalid end state); EOF comes after the last unit.
 * Not here: what pipe.pml has (overflow into lane, pumps, opening anew, several readers, and the smaller steps of the reader and of
 * the lock's owner); when a bias pays (who may, does or does not); thread ids given out anew, and two threads that share a
 * place among the keepers; stores that overtake stores; chunk, which is stored at once; wrap of positions.
 *
 * Parameters: N1, N2 units of the two writers, in messages of at most MSG, of which those of one unit stand inline; READ, the most
 * that a read takes; CAP units of ring; BIASED=1: the first writer has the bias at the start. HANDBACK=1 adds the one who hands back.
 * DEATH=1: a writer may be killed, inside, anywhere in its copy or inline, or when it has taken a biased lock and not yet waited.
 * HANDLER=1: the second writer has a signal handler, which may come over its taking of the lock, once, and writes a unit into the same
 * channel; so it keeps none.
 * Bugs, as controls: BUG_WAIT (the bias owner is not waited for), BUG_BARRIER (waited for, without a barrier), BUG_LOOK ("biased_tail" is looked
 * at before "inside" only), BUG_FRESH (published from the tail of that moment), BUG_CLEAR (who takes a biased lock leaves "biased_tail" as it is),
 * BUG_LATE ("biased_tail" is stored after the owner's compare-and-swap: over the 0 of who has taken the lock meanwhile), BUG_HEIR (who takes a
 * dead one's lock waits for no bias owner), BUG_GONE (what a bias owner stored into "biased_tail" that was killed before its compare-and-swap, and
 * after another had taken its lock, stays there), BUG_HANDLER (signals are not held off from the taking of a biased lock to the end of the
 * wait: the handler finds the lock its own), BUG_STAMP (who moves tail leaves the stamp), BUG_TWICE (the reader does not look at the stamp
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
#ifndef BIASED
#define BIASED 0
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

/* tail: tail 4 bits | thread 3 | biased_tail | sleepers 1 | WOKEN | CLOSED */
#define BIASED1 (1 << 7)
#define SLEEPER1 (1 << 8)
#define WOKEN1 (1 << 9)
#define CLOSED1 (1 << 10)
#define TAIL_AT(t) ((t) & 15)
#define TID(t) (((t) >> 4) & 7)
#define IS_KEPT(t) (((t) >> 7) & 1)
#define SLEEPERS(t) (((t) >> 8) & 1)
#define WOKEN(t) (((t) >> 9) & 1)
#define CLOSED(t) (((t) >> 10) & 1)
/* To who does not take it, a biased lock is free. */
#define LOCK_OWNER(t) (TID(t) * (1 - IS_KEPT(t)))
#define BIAS_OWNER(t) (TID(t) * IS_KEPT(t))
#define SET_W(t, w) (((t) & ~15) | (w))
#define SET_LOCK(t, o) (((t) & ~(7 << 4 | BIASED1)) | ((o) << 4))
#define BIASED_TO(t, o) (SET_LOCK(t, o) | BIASED1)
/* tail and nothing else; or that, and that o keeps it. */
#define IS_IDLE(t) (((t) & ~15) == 0)
#define IS_BIASED_TO(t, o) (((t) & ~15) == ((o) << 4 | BIASED1))
/* head: head 4 bits | held (by the reader, or by who hands back) */
#define HEAD_AT(h) ((h) & 15)
#define HELD1 16
/* chunk: place 4 bits | valid | seq 3 */
#define CHUNK_AT(m) ((m) & 15)
#define VALID(m) (((m) >> 4) & 1)
#define SEQ(m) ((m) >> 5)
#define NEXT(m, p) ((p) | 16 | (((SEQ(m) + 1) & 7) << 5))
#define NONE(m) ((m) & ~16)

#if BIASED
short tail = BIASED_TO(0, FIRST);
#else
short tail = 0;
#endif
byte head = 0;
byte chunk = 0;
/* The last place of which the reader has had bytes of lane. */
byte filled = 0;
/* A place that is nobody's; so that what was there makes no states. */
#define NOTHING 255
byte ring[CAP] = NOTHING;
/* Beside tail, where there is room for one unit: its position plus one, or 0; and the unit. */
byte stamp = 0;
byte payload = NOTHING;
/* tail as its bias owner remembers it, or 0. */
#if BIASED
short biased_tail = BIASED_TO(0, FIRST);
#else
short biased_tail = 0;
#endif
/* By thread. */
bool inside[4];
chan lane = [8] of { byte };
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
#define BIASED_TAIL 2
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
        :: what == BIASED_TAIL -> biased_tail = value
        :: what == STAMP -> stamp = value
        :: what == UNIT -> payload = value
        :: what >= PLACE ->
           assert(!given_back && what - PLACE >= TAIL_AT(tail));
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

/* A move of the tail over bytes that are not inline: Channel::move_tail. */
inline clear() {
#ifndef BUG_STAMP
    store(STAMP, 0)
#else
    skip
#endif
}

/* biased_lock::forget. */
inline forget() {
    store(BIASED_TAIL, 0)
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

/* fast_path::append: n units, of which the first is u, to the ring; and if it is one, inline. */
inline append(u) {
    store(PLACE + pos, u);
    if :: n == 2 -> store(PLACE + pos + 1, (u) + 1) :: else fi;
    if
    :: n == 1 -> store(STAMP, 0); store(UNIT, u); may_be_killed(); store(STAMP, pos + 1)
    :: else -> clear()
    fi;
    may_be_killed()
}

/* write::publish: tail from `old` to `new`, and n units at pos come into the stream, of which the first is u. */
inline publish(old, new, u) {
    atomic {
#ifndef BUG_LATE
        if :: BIAS_OWNER(new) != 0 -> store(BIASED_TAIL, new); may_be_killed() :: else fi;
#endif
        SEEN(me);
        if
        :: tail == (old) ->
           tail = (new);
           assert(n < 1 || ring[pos % CAP] == (u));
           assert(n < 2 || ring[(pos + 1) % CAP] == (u) + 1);
#ifdef BUG_LATE
           if :: BIAS_OWNER(new) != 0 -> store(BIASED_TAIL, new) :: else fi;
#else
           assert(biased_tail == 0 || biased_tail == tail);
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
        :: LOCK_OWNER(tail) == me && SEEN(me) -> assert(biased_tail == 0); tail = SET_LOCK(tail, 0)
        :: LOCK_OWNER(tail) != me
        fi
    }
}

/* A handler writes a unit: its thread has the lock, as it finds, and it goes on as the owner (lock.rs: take_from_another). */
inline handler() {
#if HANDLER
    if
    :: atomic { me == SECOND && !handled -> handled = true; t = tail };
       if
       :: atomic {
              LOCK_OWNER(t) == me && SLEEPERS(t) == 0 && !VALID(chunk) && TAIL_AT(t) - HEAD_AT(head) < CAP ->
              pos = TAIL_AT(t); n = 1
          };
          store(PLACE + pos, 32); clear();
          publish(t, SET_LOCK(SET_W(t, pos + 1), 0), 32);
          n = 0
       :: else
       fi
    :: true
    fi
#else
    skip
#endif
}

/* biased_lock::evict: the tail's lock was taken from `bias owner`. */
inline leave() {
#ifndef BUG_CLEAR
    forget();
#endif
    wait()
}

/* biased_lock::wait. */
inline wait() {
    if
    :: bias_owner == 0 || bias_owner == me
    :: bias_owner != 0 && bias_owner != me && IS_DEAD(bias_owner) -> gone()
    :: bias_owner != 0 && bias_owner != me && !IS_DEAD(bias_owner) ->
#ifndef BUG_BARRIER
       /* barrier::everywhere. */
       SEEN(me) && SEEN(bias_owner);
#endif
#ifndef BUG_WAIT
       if
       :: !inside[bias_owner]
       :: IS_DEAD(bias_owner) -> gone()
       fi;
#endif
       skip
    fi;
    bias_owner = 0
}

/* It was killed inside, perhaps between "biased_tail" and its CAS: what was taken away stands there again. */
inline gone() {
#ifndef BUG_GONE
    forget()
#else
    skip
#endif
}

/* lock::enter and take_from_another; got is false when the channel is closed. (A CAS that is made, and the look at tail before
 * it, are one step: between them tail was the same, or there and back.) */
inline take() {
    if
    :: atomic { CLOSED(tail) && LOCK_OWNER(tail) == 0 -> got = false }
    :: atomic { LOCK_OWNER(tail) == me -> got = true }
    :: atomic {
           !CLOSED(tail) && LOCK_OWNER(tail) == 0 && SEEN(me) ->
           bias_owner = BIAS_OWNER(tail); tail = SET_LOCK(tail, me);
           if :: bias_owner != 0 -> may_be_killed() :: else fi
       };
#ifdef BUG_HANDLER
       handler();
#endif
       if :: bias_owner != 0 -> leave() :: else fi;
#ifndef BUG_HANDLER
       handler();
#endif
       got = true
#if DEATH
    :: atomic { dead != 0 && LOCK_OWNER(tail) == dead && IS_DEAD(dead) && SEEN(me) -> tail = SET_LOCK(tail, me) & ~WOKEN1 };
#ifndef BUG_HEIR
       /* biased_lock::evict_all: it may have been killed before it had waited. */
       forget();
       bias_owner = FIRST; wait();
       bias_owner = SECOND; wait();
#endif
       got = true
#endif
    fi
}

/* What is not used again makes no states. */
#define NO_MORE atomic { t = 0; then = 0; m = 0; r = 0; n = 0; pos = 0; ok = false; got = false }

/* In a process without handlers. */
#define FAST_PATH (!(HANDLER && me == SECOND))

proctype writer(byte me; byte base; byte units) {
    short t, then;
    byte m, r, n, want, done, sent, pos, bias_owner;
    bool ok, got;
message:
    /* One write(2) of 1..MSG units; fast_path::write_by. */
    atomic {
        done = 0;
        if
        :: sent == units -> want = 0; writers--; goto stop
        :: sent < units -> want = 1
        :: MSG > 1 && sent + 2 <= units -> want = 2
        fi;
        if
        :: FAST_PATH && IS_BIASED_TO(biased_tail, me) -> t = biased_tail
        :: FAST_PATH && !IS_BIASED_TO(biased_tail, me) && IS_IDLE(tail) && SEEN(me) -> t = tail; tail = SET_LOCK(t, me); goto first
        :: !FAST_PATH || !IS_BIASED_TO(biased_tail, me) && !IS_IDLE(tail) -> goto begin
        fi
    };

    /* policy::will_answer, at some time before, whoever has the lock by now. */
    if :: clear() :: true fi;

    /* biased_lock::enter. */
    store(INSIDE, true);
#ifndef BUG_LOOK
    /* It may pass the store by. */
    atomic { t = biased_tail; if :: IS_BIASED_TO(t, me) :: else -> goto out fi };
#endif
    atomic {
        may_be_killed();
        pos = TAIL_AT(t);
        if
        :: pos < HEAD_AT(head) || pos - HEAD_AT(head) + want > CAP -> goto out
        :: else -> n = want
        fi;
        append(base + sent);
#ifdef BUG_FRESH
        SEEN(me); t = tail;
#endif
        publish(t, SET_W(t, pos + n), base + sent);
        if :: ok -> assert(!VALID(chunk)); done = want :: else fi
    };
out:
    atomic {
        store(INSIDE, false);
        n = 0;
        if :: done == want -> goto written :: else -> goto begin fi
    };

first:
    /* fast_path::first. */
    atomic {
        pos = TAIL_AT(t);
        if
        :: VALID(chunk) || pos - HEAD_AT(head) + want > CAP -> goto begin
        :: else -> n = want
        fi;
        /* Long alone, or not. */
        if :: then = BIASED_TO(t, me) :: then = t fi;
        then = SET_W(then, pos + n);
        t = SET_LOCK(t, me);
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
          :: atomic { done < want && SEEN(me) -> lane!(base + sent + done); done++; entered++ }
          :: done == want -> break
          od;
          break
       :: else
       fi;
locked:
       atomic {
           n = 0;
           t = tail;
           if :: LOCK_OWNER(t) != me -> goto again :: else fi;
           assert(!CLOSED(t));
           m = chunk; r = HEAD_AT(head); pos = TAIL_AT(t);
           if
           :: SLEEPERS(t) > 0 && !WOKEN(t)
           :: (SLEEPERS(t) == 0 || WOKEN(t)) && pos - r + want - done <= CAP -> goto room
           :: else -> goto no_room
           fi
       };
       /* wake::long: the place, WOKEN, what follows, and lane last. */
       m = NEXT(m, pos);
       chunk = m;
       atomic {
           SEEN(me);
           if
           :: tail == t -> t = t | WOKEN1; tail = t
           :: else -> goto locked
           fi
       };
       atomic {
           n = want - done - 1;
           if :: n == 1 -> store(PLACE + pos, base + sent + done + 1) :: else fi;
           SEEN(me);
           assert(len(lane) == 0);
           lane!(base + sent + done); done++; entered++
       };
       clear();
       publish(t, SET_LOCK(SET_W(t, pos + n), 0), base + sent + done);
       atomic {
           if :: ok -> done = done + n :: else fi;
           if :: done == want -> skip :: else -> goto locked fi
       };
       drop();
       break;
room:
       atomic {
           n = want - done;
           store(PLACE + pos, base + sent + done);
           if :: n == 2 -> store(PLACE + pos + 1, base + sent + done + 1) :: else fi;
           clear();
           publish(t, SET_LOCK(SET_W(t, pos + n), 0), base + sent + done);
           if :: ok -> break :: else -> goto locked fi
       };
no_room:
       drop();
       atomic { t = 0; m = 0; pos = 0; ok = false; got = false };
       (HEAD_AT(head) != r || CLOSED(tail));
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
           h = head; t = tail;
           if
           :: CLOSED(t) && done > 0 -> break
           :: CLOSED(t) && done == 0 -> goto native
           :: else
           fi;
           if :: h >= HELD1 -> goto held :: else fi;
           assert(SLEEPERS(t) == 0)
       };
       atomic {
           m = chunk; r = h; q = TAIL_AT(t);
           if
           :: VALID(m) && CHUNK_AT(m) < q -> q = CHUNK_AT(m)
           :: else
           fi;
           if
           :: r < q
           :: r >= q && VALID(m) && r == CHUNK_AT(m) -> goto drain
           :: r >= q && VALID(m) && r != CHUNK_AT(m) -> goto look
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
       if :: two -> a[0] = payload :: else fi;
       atomic {
#ifndef BUG_TWICE
           if :: two && stamp != r + 1 -> a[0] = ring[r % CAP] :: else fi;
#endif
           two = false;
           if
           :: head == h ->
              head = r + n;
              leaves(a[0]); ring[r % CAP] = NOTHING;
              if :: n > 1 -> leaves(a[1]); ring[(r + 1) % CAP] = NOTHING :: else fi;
              done = done + n
           :: else
           fi;
           a[0] = 0; a[1] = 0; n = 0;
           if :: done == want -> break :: else -> goto look fi
       };
held:
       head < HELD1;
       goto look;
drain:
       /* read::drain. */
       atomic { if :: head == h -> head = h | HELD1 :: else -> goto look fi };
       ok = (chunk == m);
       atomic { t = tail; if :: !ok || SLEEPERS(t) > 0 -> goto release :: else fi };
       atomic {
           do
           :: n < want - done && len(lane) > 0 -> lane?u; leaves(u); n++
           :: else -> break
           od;
           u = 0
       };
       atomic {
           if
           :: chunk != m
           :: chunk == m && n > 0 && n < want - done -> chunk = NONE(m); filled = 0
           :: chunk == m && n == 0 && (filled == m || (LOCK_OWNER(t) == 0 && tail == t)) -> chunk = NONE(m); filled = 0
           :: else
           fi;
           if :: n > 0 && n == want - done -> filled = m :: else fi;
           done = done + n; n = 0
       };
release:
       atomic { head = r; if :: done == want -> break :: else -> goto look fi };
arm:
       /* read::to_sleep: a biased tail says so still; but its bias owner comes in no more before the sleeper is home. */
       atomic {
           if
           :: tail == t -> tail = (t + SLEEPER1) & ~WOKEN1; before = m
           :: else -> goto look
           fi
       };
       /* The caller's own read(2), which a signal may end, once. */
       if
       :: atomic {
              len(lane) > 0 ->
              do
              :: n < want && len(lane) > 0 -> lane?u; leaves(u); n++
              :: else -> break
              od;
              u = 0
          }
       :: atomic { len(lane) == 0 && writers == 0 -> eof = true }
       :: atomic { !interrupted -> interrupted = true }
       fi;
       /* read::finish. */
       atomic {
           m = chunk;
           ok = VALID(m) && SEQ(m) == ((SEQ(before) + 1) & 7)
       };
       atomic {
           if
           :: ok && n == want -> filled = m
           :: ok && chunk == m && n < want && (n > 0 || eof) -> chunk = NONE(m); filled = 0
           :: else
           fi;
           n = 0
       };
       atomic { assert(SLEEPERS(tail) > 0); tail = (tail - SLEEPER1) & ~WOKEN1 };
       break;
native:
       LOCK_OWNER(tail) == 0;
       if
       :: atomic { len(lane) > 0 -> lane?u; leaves(u); u = 0 }
       :: atomic { len(lane) == 0 && writers == 0 -> eof = true }
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
    byte r, n, u, pos, bias_owner;
    bool ok, got;
    take();
    if :: !got -> goto stop :: else fi;
    atomic { head < HELD1 && SEEN(me) -> r = head; head = r | HELD1 };
    assert(!(VALID(chunk) && CHUNK_AT(chunk) > r));
    atomic {
        pos = r;
        do
        :: pos < TAIL_AT(tail) -> u = ring[pos % CAP]; ring[pos % CAP] = NOTHING; lane!u; pos++
        :: else -> break
        od;
        u = 0
    };
    chunk = NONE(chunk);
    given_back = true;
    tail = (tail | CLOSED1) & ~WOKEN1;
    head = pos;
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
