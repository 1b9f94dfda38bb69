"""A FIFO by name: another process gets the name, and finds it."""

import multiprocessing
import os

import byway


def write(fifo):
    with fifo.writer() as writer:
        writer.write(b"found by name")


if __name__ == "__main__":
    fifo = byway.Fifo(f"example-{os.getpid()}")
    child = multiprocessing.get_context("spawn").Process(target=write, args=(fifo,))
    child.start()
    with fifo.reader() as reader:
        print(reader.read().decode())
    child.join()
    fifo.remove()
