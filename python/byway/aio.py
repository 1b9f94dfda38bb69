"""The same for asyncio: what would wait awaits the descriptor instead.

    record = await byway.aio.receive(receiver)
    await byway.aio.send(sender, b"...")

Any of these takes a Duplex for its half. Several tasks may await one end: each record goes to one of them, and one that is
cancelled takes nothing. All of them through these functions: a direct call on an end that a task awaits takes the descriptor's
word back (readiness, docs/native.md), and that task would not be told. Pieces of long writes of two tasks may mix, as with write(2).
Cancel the tasks that await an end before it is closed; the loop cannot tell them.
"""

import asyncio

from .pair import Duplex

__all__ = ["receive", "receive_grant", "send", "send_grant", "read", "write"]

# Who awaits a descriptor: of each (loop, descriptor, whether to write) the tasks' futures. The loop has room for one callback
# each, so that one tells all; an entry is there as long as the callback is.
_waiting = {}


def _tell(key):
    for told in _waiting.get(key, ()):
        if not told.done():
            told.set_result(None)


async def _ready(key):
    loop, fd, writing = key
    told = loop.create_future()
    others = _waiting.get(key)
    if others:
        others.append(told)
    else:
        (loop.add_writer if writing else loop.add_reader)(fd, _tell, key)
        others = _waiting[key] = [told]
    try:
        await told
    finally:
        others.remove(told)
        if not others:
            del _waiting[key]
            (loop.remove_writer if writing else loop.remove_reader)(fd)


async def _attempt(end, writing, call, *args):
    key = asyncio.get_running_loop(), end.fileno(), writing
    while True:
        try:
            done = call(*args, timeout=0)
        except BlockingIOError:
            await _ready(key)
        except BaseException:
            _tell(key)
            raise
        else:
            # A call that found something leaves the descriptor silent about the next: who waits for that attempts anew.
            _tell(key)
            return done


def _half(end, name):
    return getattr(end, name) if isinstance(end, Duplex) else end


async def receive(receiver):
    """The next record; EOFError at the end."""
    receiver = _half(receiver, "receiver")
    return await _attempt(receiver, False, receiver.receive)


async def receive_grant(receiver):
    """The next record without a copy; EOFError at the end."""
    receiver = _half(receiver, "receiver")
    return await _attempt(receiver, False, receiver.receive_grant)


async def send(sender, data):
    """Sends a record."""
    sender = _half(sender, "sender")
    await _attempt(sender, True, sender.send, data)


async def send_grant(sender, grant):
    """Sends a grant."""
    sender = _half(sender, "sender")
    await _attempt(sender, True, sender.send_grant, grant)


async def read(reader, size):
    """Up to `size` bytes; b"" at the end."""
    reader = _half(reader, "reader")
    buffer = bytearray(size)
    n = await _attempt(reader, False, reader.readinto, buffer)
    return bytes(memoryview(buffer)[:n])


async def write(writer, data):
    """All of the bytes."""
    writer = _half(writer, "writer")
    view = memoryview(data).cast("B")
    while view:
        n = await _attempt(writer, True, writer.write, view)
        view = view[n:]
