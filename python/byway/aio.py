"""The same for asyncio: what would wait awaits the descriptor instead.

    record = await byway.aio.receive(receiver)
    await byway.aio.send(sender, b"...")
"""

import asyncio

__all__ = ["receive", "receive_grant", "send", "send_grant", "read", "write"]


async def _ready(fd, add, remove):
    loop = asyncio.get_running_loop()
    told = loop.create_future()
    add(loop)(fd, lambda: told.done() or told.set_result(None))
    try:
        await told
    finally:
        remove(loop)(fd)


async def _incoming(end, call, *args):
    while True:
        try:
            return call(*args, timeout=0)
        except BlockingIOError:
            await _ready(end.fileno(), lambda l: l.add_reader, lambda l: l.remove_reader)


async def _outgoing(end, call, *args):
    while True:
        try:
            return call(*args, timeout=0)
        except BlockingIOError:
            await _ready(end.fileno(), lambda l: l.add_writer, lambda l: l.remove_writer)


async def receive(receiver):
    """The next record; EOFError at the end."""
    return await _incoming(receiver, receiver.receive)


async def receive_grant(receiver):
    """The next record without a copy; EOFError at the end."""
    return await _incoming(receiver, receiver.receive_grant)


async def send(sender, data):
    """Sends a record."""
    await _outgoing(sender, sender.send, data)


async def send_grant(sender, grant):
    """Sends a grant."""
    if hasattr(grant, "share"):
        grant = grant.share()
    await _outgoing(sender, sender.send_grant, grant)


async def read(reader, size):
    """Up to `size` bytes; b"" at the end."""
    buffer = bytearray(size)
    n = await _incoming(reader, reader.readinto, buffer)
    return bytes(memoryview(buffer)[:n])


async def write(writer, data):
    """All of the bytes."""
    view = memoryview(data).cast("B")
    while view:
        n = await _outgoing(writer, writer.write, view)
        view = view[n:]
