"""byway.aio: records and bytes, several tasks at one end, cancellation, both ways at once. With BYWAY set: without shared memory."""

import asyncio
import functools
import os
import sys
import unittest

import byway
import byway.aio

# Only against hanging.
LONG = 60.0
PLAIN = bool(os.environ.get("BYWAY"))


def run(test):
    @functools.wraps(test)
    def body(self):
        asyncio.run(asyncio.wait_for(test(self), LONG))

    return body


async def begun(n, call, *args):
    """n tasks, which have all made their first attempt."""
    tasks = [asyncio.create_task(call(*args)) for _ in range(n)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert not any(t.done() for t in tasks)
    return tasks


def fill(end):
    """Records until there is no room for the shortest; how many."""
    n = 0
    for record in (bytes(1000), b""):
        try:
            while True:
                end.send(record, timeout=0)
                n += 1
        except BlockingIOError:
            pass
    return n


class Asyncio(unittest.TestCase):
    def test_records(self):
        async def main():
            r, s = byway.records()

            async def send():
                for k in range(3000):
                    await byway.aio.send(s, b"%d" % k * (k % 50))
                if not PLAIN:
                    await byway.aio.send_grant(s, byway.reserve(100_000))
                s.close()

            task = asyncio.create_task(send())
            for k in range(3000):
                self.assertEqual(await byway.aio.receive(r), b"%d" % k * (k % 50))
            if not PLAIN:
                self.assertEqual(len(await byway.aio.receive_grant(r)), 100_000)
            with self.assertRaises(EOFError):
                await byway.aio.receive(r)
            await task

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_bytes(self):
        async def main():
            r, w = byway.pipe()
            data = os.urandom(3_000_000)

            async def write():
                await byway.aio.write(w, data)
                w.close()

            task = asyncio.create_task(write())
            got = bytearray()
            while part := await byway.aio.read(r, 40_000):
                got += part
            self.assertEqual(got, data)
            await task

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_cancelled(self):
        async def main():
            r, s = byway.records()
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(byway.aio.receive(r), 0.02)
            s.send(b"later")
            self.assertEqual(await byway.aio.receive(r), b"later")

        asyncio.run(main())


class SeveralTasks(unittest.TestCase):
    @run
    async def test_receive(self):
        for _ in range(20):
            r, s = byway.records()
            tasks = await begun(3, byway.aio.receive, r)
            for k in range(3):
                s.send(b"%d" % k)
                # One at a time, so that the others find nothing and wait again.
                while sum(t.done() for t in tasks) <= k:
                    await asyncio.sleep(0)
            self.assertEqual(sorted(await asyncio.gather(*tasks)), [b"0", b"1", b"2"])
            tasks = await begun(3, byway.aio.receive, r)
            s.close()
            got = await asyncio.gather(*tasks, return_exceptions=True)
            self.assertEqual([type(e) for e in got], [EOFError] * 3)

    @run
    async def test_cancelled(self):
        for which in range(3):
            r, s = byway.records()
            tasks = await begun(3, byway.aio.receive, r)
            tasks.pop(which).cancel()
            await asyncio.sleep(0)
            for k in range(2):
                s.send(b"%d" % k)
            self.assertEqual(sorted(await asyncio.gather(*tasks)), [b"0", b"1"])
            # Told of a record, and cancelled before it took it.
            first, second = await begun(2, byway.aio.receive, r)
            s.send(b"for the second")
            asyncio.get_running_loop().call_soon(first.cancel)
            while not first.done():
                await asyncio.sleep(0)
            self.assertEqual(await (second if first.cancelled() else first), b"for the second")
            if not second.done():
                second.cancel()

    @run
    async def test_one_that_need_not_wait(self):
        r, s = byway.records()
        (task,) = await begun(1, byway.aio.receive, r)
        s.send(b"at once")
        # It takes the record, and with it the descriptor's word to the task that waits.
        self.assertEqual(await byway.aio.receive(r), b"at once")
        for _ in range(5):
            await asyncio.sleep(0)
        s.send(b"later")
        self.assertEqual(await task, b"later")

    @run
    async def test_send(self):
        r, s = byway.records()
        n = fill(s)
        tasks = await begun(5, byway.aio.send, s, b"one more")
        tasks.pop(0).cancel()
        for _ in range(n):
            self.assertIn(await byway.aio.receive(r), (bytes(1000), b""))
        self.assertEqual([await byway.aio.receive(r) for _ in range(4)], [b"one more"] * 4)
        await asyncio.gather(*tasks)
        n = fill(s)
        tasks = await begun(2, byway.aio.send, s, b"nobody reads")
        r.close()
        got = await asyncio.gather(*tasks, return_exceptions=True)
        self.assertEqual([type(e) for e in got], [BrokenPipeError] * 2)

    @run
    async def test_bytes(self):
        r, w = byway.pipe()
        writers = [asyncio.create_task(byway.aio.write(w, bytes([k]) * 500_000)) for k in range(3)]
        counts = [0] * 3

        async def count():
            while part := await byway.aio.read(r, 10_000):
                for k in range(3):
                    counts[k] += part.count(k)

        readers = [asyncio.create_task(count()) for _ in range(2)]
        await asyncio.gather(*writers)
        w.close()
        await asyncio.gather(*readers)
        self.assertEqual(counts, [500_000] * 3)


class Duplex(unittest.TestCase):
    @run
    async def test_bytes(self):
        here, there = byway.duplex()
        data = os.urandom(2_000_000)

        async def read(end):
            got = bytearray()
            while len(got) < len(data):
                got += await byway.aio.read(end, 40_000)
            return got

        # Both are full before anybody reads: each writer waits for its own half.
        writers = [asyncio.create_task(byway.aio.write(end, data)) for end in (here, there)]
        await asyncio.sleep(0.01)
        got = await asyncio.gather(read(here), read(there), *writers)
        self.assertTrue(got[0] == data == got[1])

    @run
    async def test_records(self):
        here, there = byway.duplex()
        n = fill(here)
        (task,) = await begun(1, byway.aio.send, here, b"there was no room")
        answer = (await begun(1, byway.aio.receive, here))[0]
        for _ in range(n):
            self.assertIn(await byway.aio.receive(there), (bytes(1000), b""))
        self.assertEqual(await byway.aio.receive(there), b"there was no room")
        await task
        await byway.aio.send(there, b"answer")
        self.assertEqual(await answer, b"answer")
        if not PLAIN:
            grant = byway.reserve(100_000)
            n = fill(here)
            (task,) = await begun(1, byway.aio.send_grant, here, grant)
            # What was not sent is still the caller's.
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            for _ in range(n):
                await byway.aio.receive(there)
            await byway.aio.send_grant(here, grant)
            self.assertEqual(len(await byway.aio.receive_grant(there)), 100_000)


if __name__ == "__main__":
    sys.exit(unittest.main())
