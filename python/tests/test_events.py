"""The event queue in Python: ends, descriptors, timers, user events, asyncio. With BYWAY set: without shared memory."""

import asyncio
import errno
import os
import select
import socket
import sys
import threading
import unittest
import weakref

import byway
from byway.events import ADD, CLEAR, DELETE, DISABLE, DISPATCH, ENABLE, EOF, ERROR, ONESHOT, READ, TIMER, USER, WRITE, Change, Event, Queue

LONG = 60.0
PLAIN = bool(os.environ.get("BYWAY"))


class Events(unittest.TestCase):
    def test_counts_and_ends(self):
        for make in (byway.pipe, os.pipe):
            q = Queue()
            r, w = make()
            native = make is byway.pipe
            fd = r.fileno() if native else r
            self.assertEqual(q.add(r, READ, udata="here"), fd)
            self.assertEqual(q.wait(timeout=0), [])
            w.write(b"hello") if native else os.write(w, b"hello")
            (e,) = q.wait()
            self.assertEqual((e.ident, e.filter, e.data, e.udata, e.flags), (fd, READ, 5, "here", 0))
            w.close() if native else os.close(w)
            (e,) = q.wait()
            self.assertEqual((e.data, e.flags), (5, EOF))
            self.assertEqual(r.read(2) if native else os.read(r, 2), b"he")
            (e,) = q.wait()
            self.assertEqual((e.data, e.flags), (3, EOF))
            q.change(fd, READ, DELETE)
            self.assertEqual(q.wait(timeout=0), [])
            r.close() if native else os.close(r)

    def test_modes(self):
        q = Queue()
        r, s = byway.records()
        q.add(r, READ, CLEAR)
        s.send(b"one")
        self.assertEqual([e.data for e in q.wait()], [11])
        self.assertEqual(q.wait(timeout=0.03), [])
        s.send(b"two")
        self.assertEqual([e.data for e in q.wait()], [22])
        q.change(r.fileno(), READ, DELETE)
        q.add(r, READ, DISPATCH, udata=[])
        self.assertEqual(q.wait()[0].udata, [])
        self.assertEqual(q.wait(timeout=0.03), [])
        q.change(r.fileno(), READ, ENABLE)
        self.assertEqual(len(q.wait()), 1)
        q.add(s, WRITE, ONESHOT)
        self.assertGreaterEqual(q.wait()[0].data, 4096)
        with self.assertRaises(FileNotFoundError):
            q.change(s.fileno(), WRITE, ENABLE)
        if not PLAIN:
            with self.assertRaises(ValueError):
                Queue().add(r.fileno(), READ)
        with self.assertRaises(FileExistsError):
            Queue().add(r, READ)
        with open(__file__) as f, self.assertRaises(PermissionError):
            q.add(f, READ)

    def test_timers_and_threads(self):
        q = Queue()
        q.add_timer(1, 0.001)
        self.assertGreaterEqual(q.wait()[0].data, 1)
        q.add_timer(1, 0.001, ONESHOT, udata="once")
        (e,) = q.wait()
        self.assertEqual((e.filter, e.udata, e.ident), (TIMER, "once", 1))
        self.assertEqual(q.wait(timeout=0.02), [])
        q.add_user(7, CLEAR, udata=q)
        t = threading.Timer(0.02, q.trigger, (7, -3))
        t.start()
        (e,) = q.wait(timeout=LONG)
        self.assertEqual((e.filter, e.data, e.udata), (USER, -3, q))
        t.join()

    def test_sockets_have_two_filters(self):
        a, b = socket.socketpair()
        with a, b:
            q = Queue()
            q.add(a, WRITE, CLEAR, udata="out")
            q.add(a, READ, udata="in")
            self.assertEqual([e.udata for e in q.wait()], ["out"])
            b.send(b"abc")
            self.assertEqual([(e.udata, e.data) for e in q.wait()], [("in", 3)])

    def test_asyncio(self):
        async def main():
            loop = asyncio.get_running_loop()
            q, got, all_ = Queue(), [], asyncio.Event()
            pairs = [byway.pipe() for _ in range(3)]
            for r, _ in pairs:
                q.add(r, READ, udata=r)

            def ready():
                for e in q.wait(timeout=0):
                    buffer = bytearray(4)
                    n = e.udata.readinto(buffer, timeout=0)
                    got.append(bytes(buffer[:n]))
                    if sum(map(len, got)) == 30:
                        all_.set()

            self.assertEqual(q.wait(timeout=0), [])
            loop.add_reader(q, ready)
            for _, w in pairs:
                # Read in parts: what is left is told again.
                w.write(b"0123456789")
            await all_.wait()
            loop.remove_reader(q)

        asyncio.run(asyncio.wait_for(main(), LONG))

    def test_a_child_has_none(self):
        q = Queue()
        r, w = byway.pipe()
        q.add(r, READ)
        pid = os.fork()
        if pid == 0:
            try:
                q.wait(timeout=0)
            except ValueError:
                w.write(b"refused")
            os._exit(0)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(q.wait(timeout=LONG)[0].data, 7)

    def test_duplex(self):
        here, there = byway.duplex()
        self.assertEqual(here.is_carried, not PLAIN)
        self.assertTrue(here.readable() and here.writable())
        here.write(b"ping")
        self.assertEqual(there.read(9), b"ping")
        q = Queue()
        q.add(here, READ, udata=here)
        q.add(here.writer, WRITE, CLEAR, udata=None)
        self.assertEqual([e.filter for e in q.wait()], [WRITE])
        there.send(b"pong")
        self.assertEqual([e.udata for e in q.wait(timeout=LONG)], [here])
        self.assertEqual(here.receive(), b"pong")
        here.writer.close()
        self.assertEqual(there.read(9), b"")
        here.close()
        with self.assertRaises(BrokenPipeError):
            there.write(b"x")

    def test_nested(self):
        inner, outer = Queue(), Queue()
        inner.add_user(1, CLEAR)
        outer.add(inner, READ, udata=inner)
        inner.trigger(1)
        self.assertIs(outer.wait(timeout=LONG)[0].udata, inner)
        self.assertEqual(select.select([inner], [], [], 0)[0], [inner])
        self.assertEqual(len(inner.wait(timeout=0)), 1)

    def ends(self):
        """The kernel's pipe, then ours: (reader, writer, descriptor to read from, write, read)."""
        r, w = os.pipe()
        yield r, w, r, lambda b: os.write(w, b), lambda n: os.read(r, n)
        os.close(r)
        os.close(w)
        reader, writer = byway.pipe()
        yield reader, writer, reader.fileno(), writer.write, reader.read

    def test_disabled_and_enabled(self):
        for r, w, fd, write, read in self.ends():
            q = Queue()
            q.add(r, READ, DISABLE, udata="kept")
            write(b"abc")
            self.assertEqual(q.wait(timeout=0), [])
            q.change(fd, READ, ENABLE)
            self.assertEqual([(e.data, e.udata) for e in q.wait()], [(3, "kept")])
            q.change(fd, READ, DISABLE)
            self.assertEqual(q.wait(timeout=0), [])
            q.change(fd, READ, ENABLE)
            self.assertEqual(len(q.wait()), 1)
            # Adding an entry that is there enables it.
            q.change(fd, READ, DISABLE)
            q.add(r, READ, udata="anew")
            self.assertEqual([e.udata for e in q.wait()], ["anew"])
            # DISPATCH: disabled with each event, and enabled by hand.
            q.add(r, READ, DISPATCH)
            for _ in range(2):
                self.assertEqual([e.data for e in q.wait()], [3])
                write(b"x")
                self.assertEqual(q.wait(timeout=0), [])
                self.assertEqual(read(1)[:1] != b"", True)
                q.change(fd, READ, ENABLE)
            self.assertEqual(q.wait()[0].flags & DISPATCH, DISPATCH)
        q = Queue()
        q.add_user(1, DISABLE | CLEAR)
        q.trigger(1, 5)
        self.assertEqual(q.wait(timeout=0), [])
        q.change(1, USER, ENABLE)
        q.trigger(1, 6)
        self.assertEqual([e.data for e in q.wait()], [6])

    def test_kevent(self):
        for r, w, fd, write, read in self.ends():
            q = Queue()
            made = [Change(r, READ, ADD | CLEAR, udata="in"), Change(w, WRITE, ADD | ONESHOT), Change(9, USER)]
            self.assertEqual([(e.filter, e.flags) for e in q.kevent(made)], [(WRITE, ONESHOT)])
            write(b"hello")
            q.trigger(9, 7)
            got = {e.filter: (e.ident, e.data, e.udata) for e in q.kevent(timeout=LONG)}
            self.assertEqual(got, {READ: (fd, 5, "in"), USER: (9, 7, None)})
            # What fails is told, in order, and the rest is done all the same.
            changes = [
                Change(w, WRITE, DELETE, udata="has gone"),
                Change(9, USER, DELETE),
                Change(77, TIMER, ADD, seconds=-1, udata="no time"),
                Change(r, READ, DISABLE),
                Change(9, USER, DELETE),
            ]
            to = w if isinstance(w, int) else w.fileno()
            self.assertEqual(q.kevent(changes), [
                Event(to, WRITE, ERROR, errno.ENOENT, "has gone"),
                Event(77, TIMER, ERROR, errno.EINVAL, "no time"),
                Event(9, USER, ERROR, errno.ENOENT, None),
            ])
            write(b"more")
            self.assertEqual(q.kevent(timeout=0), [])
            # Only changes; the first error is raised where nobody has room for it.
            self.assertEqual(q.kevent([Change(r, READ, ENABLE)], most=0), [])
            self.assertEqual([e.data for e in q.wait()], [9])
            with self.assertRaises(FileNotFoundError) as e:
                q.kevent([Change(r, READ, DELETE), Change(r, READ, DELETE), Change(r, READ, DELETE)], most=0)
            self.assertEqual(e.exception.errno, errno.ENOENT)
            with self.assertRaises(FileNotFoundError):
                q.kevent([Change(9, USER, DELETE), Change(9, USER, DELETE)], most=1)
            (e,) = q.kevent([Change(1, TIMER, ADD | ONESHOT, seconds=0.001, udata=q)], timeout=LONG)
            self.assertEqual((e.filter, e.flags & ONESHOT, e.data, e.udata), (TIMER, ONESHOT, 1, q))
            # What goes with an entry is let go with it.
            for flags in (DELETE, ADD | DELETE):
                given = {1}
                gone = weakref.ref(given)
                q.kevent([Change(5, USER, udata=given), Change(5, USER, flags, udata=given)], most=0)
                del given
                self.assertIsNone(gone())
        q = Queue()
        with open(__file__) as f:
            self.assertEqual([e.data for e in q.kevent([Change(f, READ)])], [errno.EPERM])
        r, _w = byway.pipe()
        r.close()
        self.assertEqual([(e.ident, e.data) for e in q.kevent([Change(r, READ)])], [(-1, errno.EINVAL)])
        here, there = byway.duplex()
        q.kevent([Change(here, READ), Change(here, WRITE, ADD | DISABLE)], most=0)
        there.write(b"both")
        self.assertEqual([e.ident for e in q.kevent([Change(here, WRITE, ENABLE), Change(here, READ, DELETE)])], [here.writer.fileno()])


if __name__ == "__main__":
    sys.exit(unittest.main())
