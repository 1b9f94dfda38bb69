/* A reader that waits by poll(2), select(2) or an epoll set before it reads, and leaves the channel carried: an inline of
 * pipe.pml, which brings the words, the writers, the readers and the hand-backs (-DPOLL=1 there).
 *
 * There is no list of what is ready. A wait arms the channel by its tail, as a blocking read does, and sleeps in the
 * caller's own call; the first publish that finds the mark puts the stream's next bytes into lane, which wakes the call.
 * So writers take no step for it, and a death is repaired as it was. A set of several descriptors is the same for each
 * of them: the call may end at any time for another's sake (SPURIOUS times).
 * Checked, beside what pipe.pml checks: a reader that was told does not sleep in its read; with STAY=1 nobody sleeps
 * beside bytes that it was not told of. By edge (EDGE=1): each publish and each write of lane after the last report is
 * reported, unless all is read; the application reads all, a part or nothing.
 * IDLE=1: of a set of epoll's a wait may leave the channel armed, for the next wait or until the reader reads.
 * Not here: room for writers, which is the kernel's own word once the writer was told EAGAIN; EPOLLONESHOT, which is the
 * kernel's own word with a MOD that looks first; the end of the stream by edge.
 *
 * Bugs, as controls: BUG_UNCOUNTED (a wait on a closed channel is not counted, and a ring opens under it), BUG_LATE (it
 * arms on a tail that it has not looked at), BUG_PLACE (it arms beside a place that is set), BUG_UNREAD (by edge: it arms with
 * bytes of the ring unread, against I4), BUG_ARMED (it reads while it is armed), BUG_SILENT
 * (by edge: it stays armed once it was told).
 */
#ifndef IDLE
#define IDLE 0
#endif
#ifndef SPURIOUS
#define SPURIOUS 1
#endif
byte spurious = SPURIOUS;
/* By edge: what the kernel's set has of lane. */
bool edge = false;

#if EDGE
#define OVER (writers == 0 && (taken == NW * N || TAIL_AT(tail) == seen))
#elif STAY
#define OVER AT_END
#else
#define OVER false
#endif

#define TOLD_THE_TRUTH assert(!told || NR > 1 || len(lane) > 0 || writers == 0)

/* The reader is armed no longer. */
inline comes_home() {
    if
    :: counted ->
       do
       :: t = tail;
          h = t - SLEEPER1;
          cas(tail, t, h & ~WOKEN1, ok);
          if :: ok -> break :: else fi
       od;
       counted = false
    :: else
    fi
}

/* The caller's own call, and the way home. */
inline asleep() {
    if
    :: atomic { len(lane) > 0 && (!EDGE || edge) -> told = true; edge = false }
    :: atomic { len(lane) == 0 && !STAY && writers == 0 -> told = true }
    :: atomic { !(len(lane) > 0 && (!EDGE || edge)) && OVER -> ended = true }
    :: atomic { spurious > 0 -> spurious-- }
    fi;
    if
    :: true -> comes_home()
#if IDLE && defined(BUG_SILENT)
    :: true -> skip
#elif IDLE
    /* By edge the kernel tells once of a byte in lane, and of no byte of the ring behind it. */
    :: !(EDGE && told) -> skip
#endif
    fi
}

inline wait_for() {
    told = false;
    ended = false;
    do
    :: told || ended || (POLL == 2 && me != NW + 1) -> break
#if IDLE
    :: !told && !ended && counted -> asleep()
#endif
    :: else ->
       h = head; t = tail; m = chunk;
       if
       :: CLOSED(t) && LOCK_OWNER(t) != 0 && !SPILLED(t) -> (LOCK_OWNER(tail) == 0 || !CLOSED(tail) || SPILLED(tail))
       :: CLOSED(t) && (LOCK_OWNER(t) == 0 || SPILLED(t)) ->
          good = forever;
          t = tail;
          if
          :: !CLOSED(t) || (LOCK_OWNER(t) != 0 && !SPILLED(t))
          :: else ->
#ifdef BUG_UNCOUNTED
             if
             :: true -> counted = false; asleep()
             fi
#else
             if
             :: good -> counted = false; asleep()
             :: !good && SLEEPERS(t) == 3 -> forever = true
             :: !good && SLEEPERS(t) < 3 ->
                cas(tail, t, t + SLEEPER1, ok);
                if
                :: ok ->
                   counted = true;
#if EDGE
                   seen = TAIL_AT(t);
#endif
                   asleep()
                :: else
                fi
             fi
#endif
          fi
       :: !CLOSED(t) && HELD(h) -> (head != h || CLOSED(tail))
       :: else ->
          r = HEAD_AT(h);
          n = (VALID(m) -> len(lane) : 0);
          atomic {
              q = (head == h && TAIL_AT(tail) == TAIL_AT(t) && chunk == m);
              if
              :: q && !EDGE && (TAIL_AT(t) > r || n > 0) -> told = true
#if EDGE
              :: q && ((TAIL_AT(t) != seen && (TAIL_AT(t) > r || n > 0)) || (edge && n > 0)) -> told = true; seen = TAIL_AT(t); edge = false
#endif
              :: else
              fi
          };
          n = 0;
          if
          :: told || !q
          :: !told && q && SLEEPERS(t) > 0 -> hand_back(false)
#ifndef BUG_UNREAD
          :: !told && q && SLEEPERS(t) == 0 && !VALID(m) && TAIL_AT(t) > r ->
             /* By edge: bytes that were told stand in the ring. I4 lets nobody sleep beside them. */
             hand_back(false)
#define MAY_ARM (TAIL_AT(t) == r)
#else
#define MAY_ARM true
#endif
#ifndef BUG_PLACE
          :: !told && q && SLEEPERS(t) == 0 && VALID(m) && (r != CHUNK_AT(m) || len(lane) > 0) ->
             /* By edge: bytes that were told stand in lane. The kernel's set goes on with them. */
             hand_back(false)
          :: !told && q && SLEEPERS(t) == 0 && VALID(m) && r == CHUNK_AT(m) && len(lane) == 0 ->
             cas(head, h, r | (me << 5) | HELD1, ok);
             if
             :: ok ->
                good = (chunk == m);
                t = tail;
                if
                :: good && SLEEPERS(t) == 0 && len(lane) == 0 && (filled == m || (LOCK_OWNER(t) == 0 && tail == t)) -> cas(chunk, m, NONE(m), ok)
                :: else
                fi;
                release(r)
             :: else
             fi
          :: !told && q && SLEEPERS(t) == 0 && !VALID(m) && MAY_ARM ->
#else
          :: !told && q && SLEEPERS(t) == 0 ->
#endif
#ifdef BUG_LATE
             atomic { ok = !CLOSED(tail); if :: ok -> tail = (tail + SLEEPER1) & ~WOKEN1 :: else fi };
#else
             cas(tail, t, (t + SLEEPER1) & ~WOKEN1, ok);
#endif
             if
             :: ok ->
                counted = true;
#if EDGE
                seen = TAIL_AT(t);
#endif
                asleep()
             :: else
             fi
          fi
       fi
    od;
#if IDLE && defined(BUG_ARMED)
    counted = false;
#endif
#if EDGE
    /* The application waits again at once, armed or not, or reads. */
    if :: true -> skip :: told -> goto again fi;
#endif
    comes_home();
#if POLL == 2
    if :: told -> goto again :: else fi
#endif
}
