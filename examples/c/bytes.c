/* A pipe as a stream of bytes between a parent and the child that it forks. */
#include <byway.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
  byway_reader *reader;
  byway_writer *writer;
  if (byway_pipe(&reader, &writer) != 0) {
    fprintf(stderr, "byway_pipe: %s\n", byway_error());
    return 1;
  }
  pid_t child = fork();
  if (child == 0) {
    byway_reader_close(reader);
    for (int k = 0; k < 1000; k++) {
      char line[32];
      int n = snprintf(line, sizeof line, "line %d\n", k);
      if (byway_write(writer, line, (size_t)n, BYWAY_FOREVER) != n)
        _exit(1);
    }
    byway_writer_close(writer);
    _exit(0);
  }
  byway_writer_close(writer);
  char buffer[4096];
  int lines = 0;
  ssize_t n;
  while ((n = byway_read(reader, buffer, sizeof buffer, BYWAY_FOREVER)) > 0)
    for (ssize_t i = 0; i < n; i++)
      lines += buffer[i] == '\n';
  byway_reader_close(reader);
  waitpid(child, NULL, 0);
  printf("%d lines\n", lines);
  return n == 0 ? 0 : 1;
}
