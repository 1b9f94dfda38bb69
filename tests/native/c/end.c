/* The native end of a FIFO at a path, whose other end is an unmodified program's: tests/native.sh. tests/native/path/end.rs is the same
   in Rust.      end write PATH | end read PATH LIVES
   Exit: 0, or 3 for a broken pipe, with "broken" on stderr; a reader says "end" there after each life. */
#include <byway.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char b[100000];

static int all(byway_writer *w) {
  size_t n, done;
  while ((n = fread(b, 1, sizeof b, stdin)) > 0)
    for (done = 0; done < n;) {
      /* Fewer than all where the reader goes in the midst of it; the next call tells why. */
      ssize_t k = byway_write(w, b + done, n - done, BYWAY_FOREVER);
      if (k < 0) {
        fprintf(stderr, "%s\n", errno == EPIPE ? "broken" : byway_error());
        return errno == EPIPE ? 3 : 1;
      }
      done += (size_t)k;
    }
  return 0;
}

int main(int argc, char **argv) {
  byway_reader *r;
  byway_writer *w;
  if (argc < 3) return 2;
  if (strcmp(argv[1], "write") == 0) {
    if (byway_writer_from_fd(open(argv[2], O_WRONLY), &w) != 0) return 1;
    int result = all(w);
    byway_writer_close(w);
    return result;
  }
  if (argc < 4 || byway_reader_from_fd(open(argv[2], O_RDONLY), &r) != 0) return 1;
  for (int lives = atoi(argv[3]); lives > 0;) {
    ssize_t n = byway_read(r, b, sizeof b, BYWAY_FOREVER);
    if (n < 0) {
      fprintf(stderr, "%s\n", byway_error());
      return 1;
    }
    fwrite(b, 1, (size_t)n, stdout);
    if (n > 0) continue;
    fprintf(stderr, "end\n");
    struct pollfd p = {byway_reader_fd(r), POLLIN, 0};
    /* The end stays until somebody writes again. */
    while (lives > 1 && poll(&p, 1, 1) >= 0 && !(p.revents & POLLIN)) poll(NULL, 0, 1);
    lives--;
  }
  byway_reader_close(r);
  return 0;
}
