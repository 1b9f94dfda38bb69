"""Pipes and FIFOs through shared memory.

    receiver, sender = byway.records()      # records: bytes in, bytes out, boundaries kept
    reader, writer = byway.pipe()           # streams: io.RawIOBase, for io.BufferedReader, text, ...
    here, there = byway.duplex()            # both ways
    byway.Fifo("name")                      # found by unrelated processes; pickles by name
    grant = byway.reserve(n)                # shared memory: numpy.frombuffer(grant), then sender.send_grant(grant)

Each end has a real descriptor (`fileno()`). It tells of readiness after a call with timeout=0 has raised BlockingIOError,
until the next call. Timeouts are seconds; None waits. `byway.aio` has the same for asyncio. An end is for one thread at a
time, and a call of another one meanwhile, close() too, raises RuntimeError; `clone()` makes another. Any end is a context
manager that closes it.
"""

import copyreg
import io

from ._native import (
    INLINE,
    Grant,
    Receiver,
    Sender,
    WriteGrant,
    fifo_receiver,
    fifo_remove,
    fifo_sender,
    reserve,
    why_not_carried,
)
from ._native import pipe as records
from .pair import Duplex

__all__ = [
    "INLINE", "Duplex", "Fifo", "Grant", "Reader", "Receiver", "Sender", "WriteGrant", "Writer",
    "duplex", "pipe", "records", "reserve", "why_not_carried",
]
__version__ = "0.1.0"


class _Stream(io.RawIOBase):
    def __init__(self, end):
        self._end = end

    def fileno(self):
        return self._end.fileno()

    @property
    def is_carried(self):
        """Whether bytes go through shared memory, or would with the next write."""
        return self._end.is_carried

    def close(self):
        if not self.closed:
            # Where another thread is in a call on it this fails, and it stays open.
            self._end.close()
            super().close()

    def detach(self):
        """Gives the pipe to the kernel for good; the descriptor, for a program that knows nothing of this library."""
        fd = self._end.detach()
        super().close()
        return fd

    def __reduce__(self):
        return type(self), (self._end,)


class Reader(_Stream):
    """The read end of a stream of bytes."""

    def readable(self):
        return True

    def readinto(self, buffer, timeout=None):
        return self._end.read_into(buffer, timeout)


class Writer(_Stream):
    """The write end of a stream of bytes."""

    def writable(self):
        return True

    def write(self, data, timeout=None):
        return self._end.write(data, timeout)


def pipe():
    """A new pipe for bytes: (Reader, Writer)."""
    receiver, sender = records()
    return Reader(receiver), Writer(sender)


def duplex():
    """A new bidirectional pipe: two of Duplex."""
    here, to_here = pipe()
    there, to_there = pipe()
    return Duplex(here, to_there), Duplex(there, to_here)


class Fifo:
    """A FIFO of this user's, by name. An open waits for the other side."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"Fifo({self.name!r})"

    def __reduce__(self):
        return Fifo, (self.name,)

    def receiver(self, wait=True, timeout=None):
        """For records; with wait=False at once, and the first receive waits for a sender; with a timeout if a sender comes in that time."""
        return fifo_receiver(self.name, wait, timeout)

    def sender(self, timeout=None):
        """For records."""
        return fifo_sender(self.name, timeout)

    def reader(self, wait=True, timeout=None):
        """For bytes."""
        return Reader(self.receiver(wait, timeout))

    def writer(self, timeout=None):
        """For bytes."""
        return Writer(self.sender(timeout))

    def remove(self):
        """Takes the name away; who has the FIFO open keeps it."""
        fifo_remove(self.name)


def _receiver(dup):
    return Receiver.from_fd(dup.detach())


def _sender(dup):
    return Sender.from_fd(dup.detach())


def _passed(rebuild):
    # multiprocessing hands the descriptor to the process that it starts, or over its own socket to one that runs.
    def reduce(end):
        from multiprocessing import reduction

        return rebuild, (reduction.DupFd(end.fileno()),)

    return reduce


copyreg.pickle(Receiver, _passed(_receiver))
copyreg.pickle(Sender, _passed(_sender))
