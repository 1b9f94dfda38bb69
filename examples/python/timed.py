"""Time: calls that do not wait, and calls that wait so long; and several receivers of one pipe."""

import threading

import byway

receiver, sender = byway.records()
# What is there now.
try:
    receiver.receive(timeout=0)
except BlockingIOError:
    print("nothing is there")
# What comes in that time, seconds.
try:
    receiver.receive(timeout=0.01)
except TimeoutError:
    print("nothing came in time")
# As many as there is room for, with nobody to receive them.
sent = 0
try:
    while True:
        sender.send(b"work", timeout=0)
        sent += 1
except BlockingIOError:
    print("there was room:", "true" if sent > 0 else "false")
received = []


def work(mine):
    records = 0
    with mine:
        try:
            while mine.receive(timeout=60) == b"work":
                records += 1
        except EOFError:
            received.append(records)


# Three at once, each with a receiver of its own: each record goes to one of them.
threads = [threading.Thread(target=work, args=(receiver.clone(),)) for _ in range(3)]
for t in threads:
    t.start()
# There is room again as soon as they have begun.
with sender:
    for _ in range(1000):
        sender.send(b"work", timeout=60)
        sent += 1
# That was the end, for each of them.
for t in threads:
    t.join()
print("all arrived:", "true" if sum(received) == sent else "false")
