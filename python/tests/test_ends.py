"""Ends in Python: two threads at one, clones, `with`, timed opens, what errors say, peers that are killed, every buffer taken. With BYWAY
set: without shared memory."""

import errno
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import byway
import byway.events

LONG = 60.0
PLAIN = bool(os.environ.get("BYWAY"))
shared = unittest.skipIf(PLAIN, "no shared memory")
FORK = multiprocessing.get_context("fork")


def fifo(name):
    f = byway.Fifo(f"{name}-{os.getpid()}")
    f.remove()
    return f


class Busy:
    """A thread that waits in a call on an end, from `with` on; what the call returned or raised is `got` afterwards."""

    def __init__(self, end, call):
        self.end, self.call, self.got = end, call, None
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            self.got = self.call()
        except BaseException as e:
            self.got = e

    def __enter__(self):
        self.thread.start()
        # It is in the call as soon as the end is not to be had.
        until = time.monotonic() + LONG
        while time.monotonic() < until:
            try:
                self.end.fileno()
            except RuntimeError:
                return self
            time.sleep(0.001)
        raise AssertionError("it does not wait")

    def __exit__(self, *_):
        self.thread.join(LONG)
        assert not self.thread.is_alive()


def held(receiver, told):
    """Receives a grant and keeps it until it is killed."""
    grant = receiver.receive_grant()
    told.send(b"%d" % len(grant))
    signal.pause()


def reads(receiver, told):
    receiver.receive()
    told.send(b"received")
    signal.pause()


class Threads(unittest.TestCase):
    # What to do about it, in words.
    REMEDY = r"another call on this end is under way; .*clone\(\).*threading.Lock"

    def refused(self, call, *args, **named):
        with self.assertRaisesRegex(RuntimeError, self.REMEDY):
            call(*args, **named)

    def test_two_at_one_receiver(self):
        r, s = byway.records()
        with Busy(r, lambda: r.receive(timeout=LONG)) as t:
            for call in [r.receive, r.receive_grant, r.clone, r.detach, r.fileno, r.close]:
                self.refused(call)
            self.refused(r.receive, timeout=0)
            self.refused(r.receive_into, bytearray(9), timeout=0)
            self.refused(byway.events.Queue().add, r, byway.events.READ)
            self.assertFalse(r.closed)
            s.send(b"for the first")
        # What was refused has changed nothing.
        self.assertEqual(t.got, b"for the first")
        s.send(b"next")
        self.assertEqual(r.receive(timeout=LONG), b"next")
        r.close()
        self.assertTrue(r.closed)

    def test_two_at_one_sender(self):
        r, s = byway.records()
        n = 0
        with self.assertRaises(BlockingIOError):
            while True:
                s.send(bytes(4000), timeout=0)
                n += 1
        with Busy(s, lambda: s.send(bytes(4000), timeout=LONG)) as t:
            self.refused(s.send, b"x")
            self.refused(s.clone)
            self.refused(s.close)
            for _ in range(n + 1):
                self.assertEqual(r.receive(timeout=LONG), bytes(4000))
        self.assertIsNone(t.got)

    def test_streams_stay_open_if_they_cannot_be_closed(self):
        r, w = byway.pipe()
        b = bytearray(9)
        with Busy(r, lambda: r.readinto(b, timeout=LONG)) as t:
            self.refused(r.close)
            self.assertFalse(r.closed)
            w.write(b"bytes")
        self.assertEqual(t.got, 5)
        w.write(b"more")
        self.assertEqual(r.readinto(b, timeout=LONG), 4)
        here, there = byway.duplex()
        with Busy(here.receiver, lambda: here.receive(timeout=LONG)):
            self.refused(here.close)
            self.assertFalse(here.closed)
            there.send(b"x")
        here.close()
        self.assertTrue(here.closed and here.receiver.closed and here.sender.closed)

    def test_each_with_a_clone(self):
        r, s = byway.records()
        senders = [s.clone() for _ in range(3)]
        with Busy(r, lambda: [r.receive(timeout=LONG) for _ in range(3)]) as t:
            threads = [threading.Thread(target=e.send, args=(b"from a thread",)) for e in senders]
            for e in threads:
                e.start()
            for e in threads:
                e.join()
        self.assertEqual(t.got, [b"from a thread"] * 3)

    @shared
    def test_several_receivers(self):
        # Each record goes to one of them, and the end to all.
        r, s = byway.records()
        receivers = [r] + [r.clone() for _ in range(3)]
        got = [[] for _ in receivers]

        def take(end, to):
            try:
                while True:
                    to.append(end.receive(timeout=LONG))
            except EOFError:
                end.close()

        threads = [threading.Thread(target=take, args=pair) for pair in zip(receivers, got)]
        for t in threads:
            t.start()
        for k in range(4000):
            s.send(b"%d " % k + b"." * (k % 50), timeout=LONG)
        s.close()
        for t in threads:
            t.join(LONG)
        # Each has what it got in the order it was sent in, whole.
        for each in got:
            numbers = [int(record.split()[0]) for record in each]
            self.assertEqual(numbers, sorted(numbers))
            self.assertEqual(each, [b"%d " % k + b"." * (k % 50) for k in numbers])
        self.assertEqual(sorted(int(record.split()[0]) for record in sum(got, [])), list(range(4000)))


class With(unittest.TestCase):
    def test_records(self):
        r, s = byway.records()
        with r as same, s:
            self.assertIs(same, r)
            s.send(b"inside")
            self.assertEqual(r.receive(), b"inside")
        self.assertTrue(r.closed and s.closed)
        with self.assertRaisesRegex(ValueError, "the end is closed; make a new pipe, or clone"):
            s.send(b"x")
        # Closed is closed: once more is nothing.
        r.close()
        r, s = byway.records()
        with self.assertRaises(ZeroDivisionError), s:
            s.send(b"before")
            1 // 0
        self.assertEqual(r.receive(), b"before")
        with self.assertRaises(EOFError):
            r.receive(timeout=LONG)


class Errors(unittest.TestCase):
    def test_too_long_a_record(self):
        r, s = byway.records()
        s.send(b"twelve bytes")
        with self.assertRaises(OSError) as e:
            r.receive_into(bytearray(3))
        self.assertEqual(e.exception.errno, errno.EMSGSIZE)
        self.assertIn("receive it into a larger one, or by receive()", e.exception.strerror)
        self.assertEqual(r.receive(), b"twelve bytes")

    def test_nothing_there(self):
        r, _s = byway.records()
        with self.assertRaises(BlockingIOError) as e:
            r.receive(timeout=0)
        self.assertEqual(e.exception.errno, errno.EAGAIN)
        self.assertIn("wait for the descriptor, or call with a timeout", e.exception.strerror)

    def test_no_descriptor(self):
        for call in [byway.Receiver.from_fd, byway.Sender.from_fd]:
            with self.assertRaisesRegex(ValueError, "pass the number of one that is open"):
                call(-1)
        r, _s = byway.records()
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = os.open("/dev/null", os.O_RDONLY)
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, limits[1]))
        try:
            with self.assertRaises(OSError) as e:
                byway.records()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        self.assertEqual(e.exception.errno, errno.EMFILE)
        self.assertIn("ulimit -n", e.exception.strerror)


@shared
class Names(unittest.TestCase):
    def test_timed(self):
        f = fifo("timed")
        self.addCleanup(f.remove)
        for call in [f.reader, f.receiver]:
            began = time.monotonic()
            with self.assertRaisesRegex(TimeoutError, "nobody opened FIFO .* for writing in that time") as e:
                call(timeout=0.02)
            self.assertEqual(e.exception.errno, errno.ETIMEDOUT)
            self.assertGreaterEqual(time.monotonic() - began, 0.02)
            with self.assertRaisesRegex(BlockingIOError, "nobody opened FIFO"):
                call(timeout=0)
            with self.assertRaisesRegex(ValueError, "take one of the two"):
                call(wait=False, timeout=1)
            with self.assertRaisesRegex(BlockingIOError, "nobody reads FIFO .* yet; start the other side"):
                f.sender(timeout=0)
            for wrong in [-1, float("nan")]:
                with self.assertRaises(ValueError):
                    call(timeout=wrong)

    def test_one_that_comes_in_that_time(self):
        f = fifo("comes")
        self.addCleanup(f.remove)

        def come():
            with f.sender(timeout=LONG) as s:
                s.send(b"in time")

        t = threading.Timer(0.02, come)
        t.start()
        with f.receiver(timeout=LONG) as r:
            self.assertEqual(r.receive(timeout=LONG), b"in time")
        t.join()
        t = threading.Timer(0.02, lambda: f.writer(timeout=LONG).close())
        t.start()
        with f.reader(timeout=LONG) as r:
            self.assertEqual(r.read(), b"")
        t.join()
        # One that is there already.
        r = f.receiver(wait=False)
        with f.sender(), f.receiver(timeout=0) as other:
            self.assertTrue(other.is_carried)
        r.close()

    def test_a_handler_that_raises_ends_it(self):
        f = fifo("handler")
        self.addCleanup(f.remove)
        old = signal.signal(signal.SIGALRM, lambda *_: 1 // 0)
        self.addCleanup(signal.signal, signal.SIGALRM, old)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with self.assertRaises(ZeroDivisionError):
            f.receiver(timeout=LONG)


class Killed(unittest.TestCase):
    def start(self, target, *args):
        p = FORK.Process(target=target, args=args)
        p.start()
        self.addCleanup(p.join)
        self.addCleanup(p.kill)
        return p

    def test_a_reader(self):
        for _ in range(10):
            r, s = byway.records()
            back, told = byway.records()
            p = self.start(reads, r, told)
            r.close()
            told.close()
            s.send(b"one")
            self.assertEqual(back.receive(timeout=LONG), b"received")
            p.kill()
            p.join()
            # It is reaped: the kernel has closed what it had. What is written before the next look is for nobody.
            with self.assertRaises(BrokenPipeError) as e:
                while True:
                    s.send(bytes(3000), timeout=0)
            self.assertEqual(e.exception.errno, errno.EPIPE)
            with self.assertRaises(EOFError):
                back.receive(timeout=0)

    @shared
    def test_the_holder_of_a_grant(self):
        # Twenty times 16 MiB: twice the memory that there is for all of them.
        size = 16 << 20
        for k in range(20):
            r, s = byway.records()
            back, told = byway.records()
            p = self.start(held, r, told)
            r.close()
            told.close()
            g = byway.reserve(size)
            with memoryview(g) as view:
                view[-1] = k
            s.send_grant(g, timeout=LONG)
            self.assertEqual(back.receive(timeout=LONG), b"%d" % size)
            p.kill()
            p.join()
            del g, s, back


# In a process of its own, with a folder of its own: nobody else may need an entry meanwhile.
FULL = """
import byway

kept = []
while True:
    g = byway.reserve(100)
    with memoryview(g) as view:
        view[:] = b"filled by hand".ljust(100)
    try:
        kept.append(g.share())
    except MemoryError as e:
        assert "drop some" in str(e), e
        break
assert len(kept) == 8192, len(kept)
r, s = byway.records()
for call in [lambda: g.share(40), lambda: s.send_grant(g), lambda: s.send_grant(g, timeout=0)]:
    try:
        call()
        raise SystemExit("there was room")
    except MemoryError:
        pass
# As it was, and to be filled on.
assert len(g) == 100
with memoryview(g) as view:
    assert bytes(view[:14]) == b"filled by hand" and not view.readonly
    view[:6] = b"FILLED"
del kept[:3]
s.send_grant(g)
assert bytes(memoryview(r.receive_grant())[:14]) == b"FILLED by hand"
print("it is still there")
"""


@shared
class Full(unittest.TestCase):
    def test_a_grant_that_cannot_be_shared(self):
        folder = tempfile.mkdtemp(prefix="byway-test-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, folder)
        done = subprocess.run([sys.executable, "-c", FULL], env={**os.environ, "BYWAY_SHM": folder}, capture_output=True, text=True, timeout=LONG)
        self.assertEqual((done.stdout, done.returncode), ("it is still there\n", 0), done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main())
