"""Reads what `cat FILE` says, by asyncio, as many bytes as the second argument says; prints MB/s from the first to the
last."""
import asyncio, sys, time
PIECE = 1 << 16


async def main(path, size):
    cat = await asyncio.create_subprocess_exec("cat", path, stdout=asyncio.subprocess.PIPE)
    got = len(await cat.stdout.read(PIECE))
    began = time.monotonic()
    while piece := await cat.stdout.read(PIECE):
        got += len(piece)
    took = time.monotonic() - began
    await cat.wait()
    if got != size:
        sys.exit(f"{got} bytes came")
    print(got / 1e6 / took)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
