"""Records: three threads send, the main program receives each record whole."""

import threading

import byway

receiver, sender = byway.records()


def send(sender, number):
    for k in range(100):
        sender.send(f"{number}: {k}".encode())
    sender.close()


for number in range(3):
    threading.Thread(target=send, args=(sender.clone(), number)).start()
sender.close()
records = 0
while True:
    try:
        assert b":" in receiver.receive()
    except EOFError:
        break
    records += 1
print(records, "records")
