/* The inbox of a UDP socket (docs/sockets.md, ADR 38), as datagram.rs of the pipe core and udp.rs of the preload library have it.
 *
 *   sender   a reader asleep?  the kernel's call, into the queue; it remembers that
 *            else lock;  put the record;  used the queue?  chunk := place of the record, a new one;  publish, unless one sleeps now
 *   reader   (now and then: the queue first)
 *            ring empty?  count as asleep, if the tail is what it was;  the kernel's call: it waits for the queue;  count no more
 *            chunk at the head?  the queue empty?  the chunk is done with, if it is still that one;  else one of the queue
 *            else the record at the head
 *
 * Two senders of N datagrams each, and one reader. The queue and the ring keep who has sent what, by number.
 * Checked: each sender's come in order, all of them, and nobody sleeps beside one (no invalid end state).
 * Not here: a full ring, leaving, death of an owner of the lock, the search for the receiver, several readers. The copy and the publish
 * are two steps; what the lock guards is one.
 *
 * Parameters: N datagrams of each sender.
 * Bugs, as controls: BUG_ARM (a reader counts as asleep without a look whether the tail has moved), BUG_SLEEP (a record is published
 * although one sleeps), BUG_CHUNK (a sender that used the queue sets no chunk), BUG_SAME (a chunk that is set again is the same).
 */
#ifndef N
#define N 3
#endif
#define MOST 8

chan queue = [MOST] of { byte, byte };
byte from[MOST];
byte what[MOST];
byte head = 0;
byte tail = 0;
bool asleep = false;
bool chunk = false;
byte place = 0;
byte seq = 0;
bool lock = false;
byte next[2];
byte got = 0;

inline takes(s, n) {
    assert(next[s] == n);
    next[s]++;
    got++;
}

proctype sender(byte me) {
    byte n = 0;
    byte w;
    bool queued = false;
    do
    :: n < N ->
        if
        :: asleep ->
            /* It may have woken up since: that does no harm. */
            queue!me, n;
            queued = true;
            n++
        :: else ->
            atomic { !lock -> lock = true }
            if
            :: asleep -> lock = false
            :: else ->
                w = tail;
                d_step { from[w] = me; what[w] = n }
                if
                :: queued ->
#ifndef BUG_CHUNK
                    d_step {
                        if
                        :: !chunk -> place = w
                        :: else -> skip
                        fi;
                        chunk = true;
#ifndef BUG_SAME
                        seq++
#endif
                    }
#endif
                :: else -> skip
                fi;
                d_step {
                    if
#ifdef BUG_SLEEP
                    :: true -> tail++; queued = false; n++
#else
                    :: !asleep -> tail++; queued = false; n++
                    :: else -> skip
#endif
                    fi;
                    lock = false
                }
            fi
        fi
    :: else -> break
    od
}

proctype reader() {
    byte s, n, was, mark;
    do
    :: got == 2 * N -> break
    :: got < 2 * N ->
        if
        :: queue?s, n -> takes(s, n) /* Now and then. */
        :: true ->
            was = tail;
            mark = seq;
            if
            :: head == was ->
                d_step {
#ifdef BUG_ARM
                    asleep = true
#else
                    asleep = (tail == was)
#endif
                }
                if
                :: asleep -> queue?s, n; asleep = false; takes(s, n)
                :: else -> skip
                fi
            :: head < was && chunk && place <= head ->
                if
                :: queue?s, n -> takes(s, n)
                :: empty(queue) ->
                    d_step {
                        if
                        :: seq == mark -> chunk = false
                        :: else -> skip
                        fi
                    }
                fi
            :: head < was && !(chunk && place <= head) ->
                s = from[head];
                n = what[head];
                head++;
                takes(s, n)
            fi
        fi
    od
}

init {
    atomic { run sender(0); run sender(1); run reader() }
}
