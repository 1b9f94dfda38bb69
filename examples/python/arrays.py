"""numpy: an array that lies in shared memory. It is filled in place, summed by another process, and copied by nobody."""

import multiprocessing

import byway

N = 1_000_000


def add(receiver, sender):
    import numpy

    numbers = numpy.frombuffer(receiver.receive_grant(), dtype=numpy.float64)
    sender.send(b"%d" % numbers.sum())


def main():
    try:
        import numpy
    except ImportError:
        return print("numpy is not installed: pip install numpy")
    receiver, sender = byway.records()
    answers, answer = byway.records()
    child = multiprocessing.get_context("spawn").Process(target=add, args=(receiver, answer))
    child.start()
    receiver.close()
    answer.close()
    grant = byway.reserve(8 * N)
    numbers = numpy.frombuffer(grant, dtype=numpy.float64)
    numbers[:] = numpy.arange(N)
    # Nobody writes into a grant that was sent: no array may still be over it.
    del numbers
    sender.send_grant(grant)
    print("sum of", N, "numbers:", int(answers.receive()))
    child.join()


if __name__ == "__main__":
    main()
