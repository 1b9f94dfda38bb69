"""Bidirectional pipes: two pipes as one."""

import io

__all__ = ["Duplex"]


class Duplex(io.RawIOBase):
    """One end of a bidirectional pipe: bytes (io.RawIOBase), or records (send and receive); never both ways of one direction.

    `reader` and `writer` are its halves for bytes, `receiver` and `sender` for records; `fileno()` is that of the reader:
    who waits for room waits for the writer's.
    """

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer
        self.receiver, self.sender = reader._end, writer._end

    def fileno(self):
        return self.reader.fileno()

    def readable(self):
        return True

    def writable(self):
        return True

    @property
    def is_carried(self):
        """Whether bytes go through shared memory in both directions, or would with the next write."""
        return self.reader.is_carried and self.writer.is_carried

    def readinto(self, buffer, timeout=None):
        return self.reader.readinto(buffer, timeout)

    def write(self, data, timeout=None):
        return self.writer.write(data, timeout)

    def send(self, data, timeout=None):
        """Sends a record."""
        self.sender.send(data, timeout)

    def receive(self, timeout=None):
        """The next record; EOFError at the end."""
        return self.receiver.receive(timeout)

    def send_grant(self, grant, timeout=None):
        """Sends a grant."""
        self.sender.send_grant(grant, timeout)

    def receive_grant(self, timeout=None):
        """The next record without a copy; EOFError at the end."""
        return self.receiver.receive_grant(timeout)

    def close(self):
        if not self.closed:
            self.reader.close()
            self.writer.close()
            super().close()

    def __reduce__(self):
        return Duplex, (self.reader, self.writer)
