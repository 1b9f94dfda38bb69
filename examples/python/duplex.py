"""A bidirectional pipe: another process doubles the numbers that it is asked for."""

import multiprocessing

import byway


def double(end):
    while True:
        try:
            n = int(end.receive())
        except EOFError:
            return
        end.send(b"%d" % (2 * n))


if __name__ == "__main__":
    here, there = byway.duplex()
    child = multiprocessing.get_context("spawn").Process(target=double, args=(there,))
    child.start()
    there.close()
    total = 0
    for k in range(1000):
        here.send(b"%d" % k)
        total += int(here.receive())
    here.close()
    child.join()
    print("1000 answers, their sum", total)
