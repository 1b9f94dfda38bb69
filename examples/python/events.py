"""Events: one queue waits for two pipes, a timer and a word from another part of the program."""

import threading

import byway
from byway.events import DELETE, EOF, ONESHOT, READ, TIMER, USER, Queue

queue = Queue()


def write(writer):
    for k in range(100):
        writer.write(b"line %05d" % k)
    writer.close()


for _ in range(2):
    reader, writer = byway.pipe()
    queue.add(reader, READ, udata=reader)
    threading.Thread(target=write, args=(writer,)).start()
queue.add_timer(0, 0.001)
queue.add_user(0, ONESHOT)

count, open_, ticks, word = 0, 2, 0, 0
buffer = bytearray(100)
while not word or not ticks:
    for e in queue.wait():
        if e.filter == TIMER:
            ticks += e.data
        elif e.filter == USER:
            word = e.data
        elif e.flags & EOF and e.data == 0:
            # The end of the stream, and nothing left of it.
            queue.change(e.ident, e.filter, DELETE)
            open_ -= 1
            if open_ == 0:
                queue.trigger(0, 42)
        else:
            count += e.udata.readinto(buffer, timeout=0)
print(f"{count} bytes, the word {word}")
