# Records from one Python to another, one way, for `byway bench native` (native/python.rs starts it).
#     python3 -c ... BACKEND BYTES RECORDS CPU CPU      prints ns of a record, and how many were not those that were sent
# Each is numbered by who sends it, and of a large copy a byte of each page is touched on both sides, as the other cases do.
import ctypes
import multiprocessing
import os
import signal
import sys
import time

PAGE = 4096
PR_SET_PDEATHSIG = 1


def copies(receive, send, size):
    """Whole records, from and into buffers of Python's."""
    if size <= PAGE:
        # The number is all of the record.
        def put(i):
            send(i.to_bytes(size, "little"))

        def take(i):
            return receive() == i.to_bytes(size, "little")

        return put, take
    buffer, pages = bytearray(size), range(PAGE, size, PAGE)
    marks = [bytes([k]) * len(pages) for k in range(256)]

    def put(i):
        buffer[PAGE::PAGE] = marks[i & 255]
        buffer[:8] = i.to_bytes(8, "little")
        send(buffer)

    def take(i):
        b = receive()
        return len(b) == size and b[:8] == i.to_bytes(8, "little") and b[PAGE::PAGE] == marks[i & 255]

    return put, take


def grants(byway, receiver, sender, size):
    """Shared memory that is filled in place: numbered, and its pages left alone."""

    def put(i):
        grant = byway.reserve(size)
        with memoryview(grant) as view:
            view[:8] = i.to_bytes(8, "little")
        sender.send_grant(grant)

    def take(i):
        grant = receiver.receive_grant()
        with memoryview(grant) as view:
            return len(view) == size and view[:8] == i.to_bytes(8, "little")

    return put, take


def way(backend, size):
    """What both processes call, and what each closes that is the other's."""
    if backend == "multiprocessing":
        receiver, sender = multiprocessing.Pipe(duplex=False)
        calls = copies(receiver.recv_bytes, sender.send_bytes, size)
    else:
        import byway

        receiver, sender = byway.records()
        if backend == "byway" and size > byway.INLINE:
            calls = grants(byway, receiver, sender, size)
        else:
            calls = copies(receiver.receive, sender.send, size)
    return calls, receiver, sender


def main(backend, size, records, first, second):
    (put, take), receiver, sender = way(backend, size)
    warm = records // 10
    context = multiprocessing.get_context("fork")
    gate = context.Barrier(2)

    def send():
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.sched_setaffinity(0, [first])
        receiver.close()
        gate.wait()
        for i in range(warm + records):
            put(i)
        gate.wait()

    child = context.Process(target=send, daemon=True)
    child.start()
    sender.close()
    os.sched_setaffinity(0, [second])
    gate.wait()
    wrong = 0
    for i in range(warm):
        wrong += not take(i)
    began = time.monotonic_ns()
    for i in range(warm, warm + records):
        wrong += not take(i)
    ended = time.monotonic_ns()
    gate.wait()
    child.join()
    print((ended - began) / records)
    print(wrong)


main(sys.argv[1], *map(int, sys.argv[2:]))
