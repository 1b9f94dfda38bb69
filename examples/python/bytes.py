"""A pipe as a stream of bytes: a child writes lines, the parent counts them."""

import io
import os

import byway

reader, writer = byway.pipe()
if os.fork() == 0:
    reader.close()
    with io.TextIOWrapper(io.BufferedWriter(writer)) as text:
        for k in range(1000):
            print("line", k, file=text)
    os._exit(0)
writer.close()
print(sum(1 for _ in io.BufferedReader(reader)), "lines")
os.wait()
