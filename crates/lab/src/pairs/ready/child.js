// Reads standard input by node's event loop, as many bytes as its argument says; prints MB/s from the first to the last.
let bytes = 0, began;
const now = process.hrtime.bigint;
process.stdin.on('data', (chunk) => {
  began ??= now();
  bytes += chunk.length;
});
process.stdin.on('end', () => {
  if (bytes !== Number(process.argv[1])) throw new Error(`${bytes} bytes came`);
  console.log(bytes * 1e3 / Number(now() - began));
});
