/* A FIFO by name. Without an argument: starts itself again as the writer. */
#include <byway.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
  char name[64], text[64];
  byway_reader *reader;
  byway_writer *writer;
  if (argc > 1) {
    if (byway_fifo_writer(argv[1], BYWAY_FOREVER, &writer) != 0)
      return 1;
    ssize_t n = byway_write(writer, "found by name", 13, BYWAY_FOREVER);
    byway_writer_close(writer);
    return n == 13 ? 0 : 1;
  }
  snprintf(name, sizeof name, "example-%d", (int)getpid());
  if (fork() == 0) {
    execl(argv[0], argv[0], name, (char *)NULL);
    _exit(1);
  }
  if (byway_fifo_reader(name, BYWAY_FOREVER, &reader) != 0) {
    fprintf(stderr, "byway_fifo_reader: %s\n", byway_error());
    return 1;
  }
  ssize_t n = byway_read(reader, text, sizeof text, BYWAY_FOREVER);
  byway_reader_close(reader);
  wait(NULL);
  byway_fifo_remove(name);
  printf("%.*s\n", (int)n, text);
  return n == 13 ? 0 : 1;
}
