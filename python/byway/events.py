"""Many ends at once: an event queue in the shape of kqueue(2), over one epoll.

    queue = Queue()
    queue.add(reader, READ, udata=anything)       # an end of byway's, or anything with a descriptor
    queue.add_timer(1, 0.5); queue.add_user(2)
    for event in queue.wait(): ...                # event.ident, .filter, .flags, .data, .udata
    for event in queue.kevent([Change(reader, READ), Change(1, TIMER, DELETE)]): ...    # kevent(2): changes in, events out

Level-triggered; CLEAR tells of changes only, ONESHOT removes an entry with its first event, DISPATCH disables it. `data` is how many
bytes can be read or written, how often a timer has expired, what trigger() said, of an ERROR its errno. `fileno()` is readable when
an event waits: for asyncio's add_reader, select, or another queue. Several threads may use a queue at once. The queue of a parent
is not its child's.
"""

import errno
import threading
from enum import IntEnum, IntFlag
from typing import Any, NamedTuple

from ._native import Queue as _Queue
from ._native import Receiver, Sender

__all__ = [
    "ADD", "CLEAR", "Change", "DELETE", "DISABLE", "DISPATCH", "ENABLE", "EOF", "ERROR", "Event", "Filter", "Flags", "ONESHOT",
    "Queue", "READ", "TIMER", "USER", "WRITE",
]


class Filter(IntEnum):
    """What is waited for."""

    READ = -1
    WRITE = -2
    TIMER = -7
    USER = -11


class Flags(IntFlag):
    """How an entry behaves, and what came of it."""

    ADD = 0x1
    DELETE = 0x2
    ENABLE = 0x4
    DISABLE = 0x8
    ONESHOT = 0x10
    CLEAR = 0x20
    DISPATCH = 0x80
    ERROR = 0x4000
    EOF = 0x8000


READ, WRITE, TIMER, USER = Filter
ADD, DELETE, ENABLE, DISABLE, ONESHOT, CLEAR, DISPATCH, ERROR, EOF = Flags


class Event(NamedTuple):
    """What happened to an entry."""

    ident: int
    filter: Filter
    flags: Flags
    data: int
    udata: Any


class Change(NamedTuple):
    """What kevent() is to do: with ADD to an entry of `source`, as the functions add... do; without to the one that is there."""

    source: Any  # an end, or anything with a descriptor; of a timer, a user event, or an entry that is there its ident
    filter: Filter
    flags: int = ADD
    seconds: float = 0  # of a timer
    udata: Any = None


def _half(source, filter):
    """Of a Duplex, the half that is meant."""
    return getattr(source, {READ: "reader", WRITE: "writer"}.get(filter, ""), source)


def _ident(source, filter):
    """The ident of its entry; -1 of an end that is closed."""
    try:
        return source if isinstance(source, int) else _half(source, filter).fileno()
    except ValueError:
        return -1


class Queue:
    """An event queue."""

    def __init__(self):
        self._queue = _Queue()
        self._lock = threading.Lock()
        # Of each token that an entry carries: what the caller gave along, and of each entry its token.
        self._given = {}
        self._tokens = {}
        self._next = 0

    def fileno(self):
        """Readable when an event waits."""
        return self._queue.fileno()

    def _apply(self, change, filter, udata, ident=None):
        # A new token each time, so that an event of an entry that has gone finds what was its own.
        with self._lock:
            self._next += 1
            token = self._next
            self._given[token] = udata
            try:
                found = change(token)
            except BaseException:
                del self._given[token]
                raise
            ident = found if ident is None else ident
            self._given.pop(self._tokens.get((ident, filter)), None)
            self._tokens[ident, filter] = token
        return ident

    def add(self, source, filter, flags=0, udata=None):
        """Waits for an end of byway's, or anything with a descriptor, to be readable or writable; the entry's ident."""
        filter, flags = Filter(filter), int(flags | ADD)
        end = _half(source, filter)
        end = getattr(end, "_end", end)
        if isinstance(end, Receiver) and filter == READ:
            return self._apply(lambda t: self._queue.receiver(end, flags, t), filter, udata)
        if isinstance(end, Sender) and filter == WRITE:
            return self._apply(lambda t: self._queue.sender(end, flags, t), filter, udata)
        fd = source if isinstance(source, int) else source.fileno()
        return self._apply(lambda t: self._queue.descriptor(fd, filter, flags, t), filter, udata)

    def add_user(self, ident, flags=0, udata=None):
        """Waits for trigger(ident)."""
        self._apply(lambda t: self._queue.user(ident, int(flags | ADD), t), USER, udata, ident)

    def add_timer(self, ident, seconds, flags=0, udata=None):
        """Waits for `seconds` to pass, again and again; once with ONESHOT."""
        self._apply(lambda t: self._queue.timer(ident, seconds, int(flags | ADD), t), TIMER, udata, ident)

    def change(self, ident, filter, flags):
        """ENABLE, DISABLE or DELETE of an entry that is there."""
        filter, flags = Filter(filter), Flags(flags)
        if flags & ADD:
            raise ValueError("ADD is what the functions add... are for")
        self._queue.entry(ident, filter, int(flags), 0)
        if flags & DELETE:
            with self._lock:
                self._given.pop(self._tokens.pop((ident, filter), None), None)

    def kevent(self, changes=(), most=64, timeout=None):
        """Makes changes, then waits, as kevent(2) does. One that fails becomes an event with ERROR, and then it does not wait.

        With most=0 it only makes them. The first that fails where there is no room for its event is raised.
        """
        failed = []
        for c in changes:
            try:
                self._make(c)
            except (OSError, ValueError) as e:
                if len(failed) >= most:
                    raise
                number = getattr(e, "errno", None) or errno.EINVAL
                failed.append(Event(_ident(c.source, c.filter), c.filter, ERROR, number, c.udata))
        return failed if failed or most < 1 else self.wait(most, timeout)

    def _make(self, c):
        if not c.flags & ADD or c.flags & DELETE:
            self.change(_ident(c.source, c.filter), c.filter, c.flags & ~ADD)
        elif c.filter == TIMER:
            self.add_timer(c.source, c.seconds, c.flags, c.udata)
        elif c.filter == USER:
            self.add_user(c.source, c.flags, c.udata)
        else:
            self.add(c.source, c.filter, c.flags, c.udata)

    def trigger(self, ident, data=0):
        """Triggers a user event, from any thread."""
        self._queue.trigger(ident, data)

    def wait(self, most=64, timeout=None):
        """The next events, `most` at most; an empty list if none came in `timeout` seconds."""
        events = []
        for ident, filter, flags, data, token in self._queue.wait(most, timeout):
            flags = Flags(flags)
            with self._lock:
                udata = self._given.get(token)
                if flags & ONESHOT and self._tokens.get((ident, filter)) == token:
                    del self._tokens[ident, filter], self._given[token]
            events.append(Event(ident, Filter(filter), flags, data, udata))
        return events
