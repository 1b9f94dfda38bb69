"""The Python library: streams, records, grants, names, processes. With BYWAY set (off, or by `byway run`): without shared memory."""

import errno
import io
import multiprocessing
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
import unittest

import byway

LONG = 60.0
# No shared memory: the same on the kernel's pipes, and what cannot be there says so (test_plain.py).
PLAIN = bool(os.environ.get("BYWAY"))
shared = unittest.skipIf(PLAIN, "no shared memory")
try:
    import numpy
except ImportError:
    numpy = None


def fifo(name):
    f = byway.Fifo(f"{name}-{os.getpid()}")
    f.remove()
    return f


# For multiprocessing, whose children import this file.
def send_numbers(sender, n):
    for k in range(n):
        sender.send(b"%d" % k)


def double(receiver, sender):
    while True:
        try:
            grant = receiver.receive_grant()
        except EOFError:
            return
        out = byway.reserve(len(grant))
        with memoryview(out) as view:
            for i, x in enumerate(memoryview(grant)):
                view[i] = 2 * x % 256
        sender.send_grant(out)


def write_named(f):
    with f.writer() as w:
        w.write(b"from another process")


def send_named(f, k):
    s = f.sender(timeout=LONG)
    s.send(b"%d" % k)
    s.close()
    return k


def write_and_close(w):
    with w:
        w.write(b"a stream")


def sum_of(receiver):
    grant = receiver.receive_grant(timeout=LONG)
    receiver.close()
    return sum(memoryview(grant))


def hang(sender):
    sender.send(b"here")
    signal.pause()


class Streams(unittest.TestCase):
    def test_carried(self):
        self.assertEqual(byway.why_not_carried() is None, not PLAIN)
        r, w = byway.pipe()
        self.assertEqual([r.is_carried, w.is_carried], [not PLAIN] * 2)

    def test_bytes_and_text(self):
        r, w = byway.pipe()
        data = bytes(range(256)) * 20000

        def write():
            with w:
                for at in range(0, len(data), 33333):
                    self.assertEqual(w.write(data[at : at + 33333]), len(data[at : at + 33333]))

        t = threading.Thread(target=write)
        t.start()
        self.assertEqual(io.BufferedReader(r).read(), data)
        t.join()
        r, w = byway.pipe()
        with io.TextIOWrapper(io.BufferedWriter(w)) as text:
            for k in range(1000):
                print("line", k, file=text)
        self.assertEqual([int(x.split()[1]) for x in io.TextIOWrapper(io.BufferedReader(r))], list(range(1000)))

    def test_nothing_there(self):
        r, w = byway.pipe()
        b = bytearray(10)
        with self.assertRaises(BlockingIOError):
            r.readinto(b, timeout=0)
        self.assertEqual(select.select([r], [], [], 0)[0], [])
        with self.assertRaises(TimeoutError):
            r.readinto(b, timeout=0.02)
        with self.assertRaises(ValueError):
            r.readinto(b, timeout=-1)
        w.write(b"xyz")
        self.assertEqual(r.readinto(b, timeout=LONG), 3)
        # With a limit, as much as there is room for.
        n = w.write(bytes(4 << 20), timeout=0.02)
        self.assertTrue(65536 <= n < 4 << 20)
        with self.assertRaises(BlockingIOError):
            w.write(b"x", timeout=0)
        r.close()
        with self.assertRaises(BrokenPipeError):
            w.write(b"x")
        with self.assertRaises(ValueError):
            r.fileno()

    def test_a_program_that_knows_nothing(self):
        r, w = byway.pipe()
        fd = r.detach()
        p = subprocess.Popen(["cat"], stdin=fd, stdout=subprocess.PIPE)
        os.close(fd)
        w.write(b"plain")
        w.close()
        self.assertEqual(p.communicate()[0], b"plain")

    def test_ctrl_c_ends_a_wait(self):
        r, _w = byway.pipe()
        # A handler that raises, as that of SIGINT does.
        old = signal.signal(signal.SIGALRM, lambda *_: 1 // 0)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with self.assertRaises(ZeroDivisionError):
            r.readinto(bytearray(1))
        # One that does not: the wait goes on.
        signal.signal(signal.SIGALRM, lambda *_: _w.write(b"!"))
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        self.assertEqual(r.readinto(bytearray(1)), 1)
        signal.signal(signal.SIGALRM, old)


class Records(unittest.TestCase):
    def test_sizes(self):
        r, s = byway.records()
        self.assertEqual(byway.INLINE, 4088)
        for n in [0, 1, 64, 4088] + ([] if PLAIN else [4089, 100_000, 1 << 20]):
            data = os.urandom(n)
            s.send(data)
            self.assertEqual(r.receive(), data)
            s.send(bytearray(data))
            b = bytearray(n)
            self.assertEqual(r.receive_into(b), n)
            self.assertEqual(b, data)
        s.close()
        with self.assertRaises(EOFError):
            r.receive()

    def test_what_is_wrong_is_said(self):
        r, s = byway.records()
        with self.assertRaises(BlockingIOError):
            r.receive(timeout=0)
        with self.assertRaises(TimeoutError) as e:
            r.receive(timeout=0.01)
        self.assertEqual(e.exception.errno, errno.ETIMEDOUT)
        with self.assertRaises(TypeError):
            s.send("text")
        with self.assertRaises(TypeError):
            s.send_grant(b"bytes")
        s.send(b"twelve bytes")
        with self.assertRaises(OSError) as e:
            r.receive_into(bytearray(3))
        self.assertEqual(e.exception.errno, errno.EMSGSIZE)
        self.assertRegex(e.exception.strerror, "^Message too long; .*receive it into a larger one, or by receive")
        self.assertEqual(r.receive(), b"twelve bytes")
        r.close()
        with self.assertRaises(ValueError):
            r.receive()
        with self.assertRaises(BrokenPipeError) as e:
            s.send(b"x")
        # The number is there as with any error of Python's.
        self.assertEqual(e.exception.errno, errno.EPIPE)
        self.assertIn("its last reader was closed", e.exception.strerror)

    def test_threads(self):
        r, s = byway.records()
        senders = [threading.Thread(target=send_numbers, args=(s.clone(), 500)) for _ in range(3)]
        s.close()
        for t in senders:
            t.start()
        # The clones of threads that have ended go with them.
        got = sorted(int(r.receive(timeout=LONG)) for _ in range(1500))
        for t in senders:
            t.join()
        self.assertEqual(got, sorted(list(range(500)) * 3))


@shared
class Grants(unittest.TestCase):
    def test_no_copy(self):
        r, s = byway.records()
        g = byway.reserve(1 << 20)
        with memoryview(g) as view:
            view[:3] = b"abc"
            with self.assertRaises(BufferError):
                g.share()
        s.send_grant(g)
        with self.assertRaises(ValueError):
            g.share()
        got = r.receive_grant()
        view = memoryview(got)
        self.assertTrue(view.readonly and len(view) == 1 << 20)
        self.assertEqual(bytes(view[:3]), b"abc")
        part = got.slice(1, 3)
        s.send_grant(part)
        del got, part
        self.assertEqual(bytes(r.receive_grant()), b"bc")
        # The view has kept it.
        self.assertEqual(bytes(view[:3]), b"abc")

    def test_send_in_time(self):
        r, s = byway.records()
        sent = 0
        with self.assertRaises(TimeoutError):
            while True:
                s.send_grant(byway.reserve(100), timeout=0.02)
                sent += 1
        # What could not be sent is not lost, nor shared with anybody; it may be tried again, by time, at once, or given another end.
        last = byway.reserve(5000)
        with memoryview(last) as view:
            view[:4] = b"last"
        with self.assertRaises(BlockingIOError):
            s.send_grant(last, timeout=0)
        with self.assertRaises(TimeoutError):
            s.send_grant(last, timeout=0.02)
        with self.assertRaises(ValueError):
            s.send_grant(last, timeout=-1)
        self.assertEqual(len(last), 5000)
        timer = threading.Timer(0.02, lambda: [r.receive() for _ in range(sent)])
        timer.start()
        s.send_grant(last, timeout=LONG)
        timer.join()
        self.assertEqual(bytes(r.receive_grant(timeout=LONG))[:4], b"last")
        with self.assertRaises(ValueError):
            s.send_grant(last)
        whole = byway.reserve(5000)
        s.close()
        with self.assertRaises(ValueError):
            s.send_grant(whole)
        here, there = byway.duplex()
        here.send_grant(whole, timeout=LONG)
        self.assertEqual(len(there.receive_grant(timeout=LONG)), 5000)

    def test_a_part_of_what_was_not_sent(self):
        r, s = byway.records()
        r.close()
        g = byway.reserve(5000)
        with self.assertRaises(BrokenPipeError):
            s.send_grant(g)
        self.assertEqual(len(g.share(3000)), 3000)
        self.assertEqual(len(g), 0)

    @unittest.skipUnless(numpy, "numpy is not there")
    def test_numpy(self):
        r, s = byway.records()
        g = byway.reserve(8 * 100_000)
        a = numpy.frombuffer(g, dtype=numpy.float64)
        a[:] = numpy.arange(100_000)
        at = a.__array_interface__["data"][0]
        del a
        s.send_grant(g)
        b = numpy.frombuffer(r.receive_grant(), dtype=numpy.float64)
        self.assertEqual(b.__array_interface__["data"][0], at)
        self.assertEqual(b.sum(), 100_000 * 99_999 / 2)
        self.assertFalse(b.flags.writeable)
        s.send(numpy.arange(10))
        self.assertEqual(list(numpy.frombuffer(r.receive(), dtype=int)), list(range(10)))


class Processes(unittest.TestCase):
    def each(self, run):
        for method in ["fork", "spawn"]:
            with self.subTest(method):
                run(multiprocessing.get_context(method))

    def test_records(self):
        def run(context):
            r, s = byway.records()
            p = context.Process(target=send_numbers, args=(s, 2000))
            p.start()
            s.close()
            self.assertEqual([int(r.receive(timeout=LONG)) for _ in range(2000)], list(range(2000)))
            with self.assertRaises(EOFError):
                r.receive(timeout=LONG)
            p.join()
            self.assertEqual(p.exitcode, 0)

        self.each(run)

    @shared
    def test_grants(self):
        # Spawned: a child that was forked would have this end of the first pipe too, and never see its end.
        context = multiprocessing.get_context("spawn")
        r1, s1 = byway.records()
        r2, s2 = byway.records()
        p = context.Process(target=double, args=(r1, s2))
        p.start()
        r1.close()
        s2.close()
        for k in range(20):
            g = byway.reserve(70_000)
            with memoryview(g) as view:
                view[:] = bytes([k]) * 70_000
            s1.send_grant(g)
            self.assertEqual(bytes(r2.receive_grant(timeout=LONG)), bytes([2 * k]) * 70_000)
        s1.close()
        p.join()
        self.assertEqual(p.exitcode, 0)

    @shared
    def test_names(self):
        f = fifo("named")
        self.assertEqual(pickle.loads(pickle.dumps(f)).name, f.name)

        def run(context):
            p = context.Process(target=write_named, args=(f,))
            p.start()
            with f.reader() as r:
                self.assertEqual(r.read(), b"from another process")
            p.join()

        self.each(run)
        with self.assertRaises(BlockingIOError):
            f.sender(timeout=0)
        with self.assertRaises(TimeoutError):
            f.sender(timeout=0.01)
        with self.assertRaises(ValueError):
            byway.Fifo("a/b").reader()
        f.remove()

    @shared
    def test_a_pool_by_name(self):
        f = fifo("pool")

        def run(context):
            # A sender that stays: between two of the pool's would be an end.
            r, stays = f.receiver(wait=False), f.sender(timeout=LONG)
            with context.Pool(2) as pool:
                done = pool.starmap_async(send_named, [(f, k) for k in range(50)], chunksize=5)
                got = sorted(int(r.receive(timeout=LONG)) for _ in range(50))
                self.assertEqual(done.get(LONG), list(range(50)))
            stays.close()
            self.assertEqual(got, list(range(50)))

        try:
            self.each(run)
        finally:
            f.remove()

    def test_a_pool_that_runs_already(self):
        def run(context):
            with context.Pool(1) as pool:
                # Made after the pool's processes: only their descriptors can bring these ends there.
                r, s = byway.records()
                pool.apply_async(send_numbers, (s, 100)).get(LONG)
                s.close()
                self.assertEqual([int(r.receive(timeout=LONG)) for _ in range(100)], list(range(100)))
                with self.assertRaises(EOFError):
                    r.receive(timeout=LONG)
                r, s = byway.records()
                if PLAIN:
                    return
                g = byway.reserve(100_000)
                with memoryview(g) as view:
                    view[:] = b"\1" * 100_000
                s.send_grant(g)
                self.assertEqual(pool.apply_async(sum_of, (r,)).get(LONG), 100_000)

        self.each(run)

    def test_streams_pickle_as_their_ends(self):
        def run(context):
            r, w = byway.pipe()
            p = context.Process(target=write_and_close, args=(w,))
            p.start()
            w.close()
            self.assertEqual(r.read(), b"a stream")
            p.join()
            self.assertEqual(p.exitcode, 0)

        self.each(run)

    def test_killed(self):
        def run(context):
            r, s = byway.records()
            p = context.Process(target=hang, args=(s,))
            p.start()
            s.close()
            self.assertEqual(r.receive(timeout=LONG), b"here")
            p.kill()
            with self.assertRaises(EOFError):
                r.receive(timeout=LONG)
            p.join()

        self.each(run)


if __name__ == "__main__":
    sys.exit(unittest.main())
