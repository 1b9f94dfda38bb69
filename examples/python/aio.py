"""asyncio: three tasks send records, one receives them; another copies a stream of bytes."""

import asyncio

import byway
import byway.aio as aio


async def send(sender, number):
    for k in range(100):
        await aio.send(sender, f"{number}: {k}".encode())
    sender.close()


async def count(reader):
    size = 0
    while part := await aio.read(reader, 4096):
        size += len(part)
    return size


async def main():
    receiver, sender = byway.records()
    senders = [asyncio.create_task(send(sender.clone(), number)) for number in range(3)]
    sender.close()
    reader, writer = byway.pipe()
    copy = asyncio.create_task(count(reader))
    records = 0
    try:
        while True:
            await aio.write(writer, await aio.receive(receiver))
            records += 1
    except EOFError:
        writer.close()
    await asyncio.gather(*senders)
    print(records, "records,", await copy, "bytes")


asyncio.run(main())
