"""Without shared memory: what is still there is the other files'; here, what is not, and that it says what to do."""

import os
import sys
import unittest

import byway
import byway.aio


@unittest.skipUnless(os.environ.get("BYWAY"), "with BYWAY=off, or under byway run")
class Plain(unittest.TestCase):
    def refused(self, call, *args, **named):
        with self.assertRaisesRegex(OSError, "start it without, or unset BYWAY") as e:
            call(*args, **named)
        self.assertEqual(e.exception.errno, 95)

    def test_grants(self):
        self.refused(byway.reserve, 100)

    def test_long_records(self):
        r, s = byway.records()
        for timeout in [None, 0, 1]:
            self.refused(s.send, bytes(byway.INLINE + 1), timeout=timeout)
        # Nothing of it was written.
        s.send(bytes(byway.INLINE))
        self.assertEqual(r.receive(), bytes(byway.INLINE))
        here, there = byway.duplex()
        self.refused(here.send, bytes(byway.INLINE + 1))
        with self.assertRaises(BlockingIOError):
            there.receive(timeout=0)

    def test_short_records_come_without_a_grant(self):
        r, s = byway.records()
        s.send(b"short")
        self.assertEqual(r.receive_grant(), b"short")

    def test_names(self):
        f = byway.Fifo("plain")
        for call in [f.reader, f.writer, f.receiver, f.sender, f.remove]:
            self.refused(call)

    def test_two_receivers(self):
        # Records that two read by turns would be torn, where only the kernel holds them.
        r, s = byway.records()
        with self.assertRaisesRegex(OSError, "share it behind a lock"):
            r.clone()
        s.clone().send(b"many senders")
        self.assertEqual(r.receive(), b"many senders")


if __name__ == "__main__":
    sys.exit(unittest.main())
