/* Records: three children send, the parent receives each record whole. */
#include <byway.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
  byway_reader *receiver;
  byway_writer *sender;
  if (byway_pipe(&receiver, &sender) != 0) {
    fprintf(stderr, "byway_pipe: %s\n", byway_error());
    return 1;
  }
  for (int id = 0; id < 3; id++)
    if (fork() == 0) {
      for (int k = 0; k < 100; k++) {
        char record[32];
        int n = snprintf(record, sizeof record, "%d: %d", id, k);
        if (byway_send(sender, record, (size_t)n, BYWAY_FOREVER) != 0)
          _exit(1);
      }
      byway_writer_close(sender);
      _exit(0);
    }
  byway_writer_close(sender);
  char buffer[64];
  size_t length;
  int records = 0, more;
  while ((more = byway_receive(receiver, buffer, sizeof buffer, &length, BYWAY_FOREVER)) == 1)
    records += memchr(buffer, ':', length) != NULL;
  byway_reader_close(receiver);
  while (wait(NULL) > 0)
    ;
  printf("%d records\n", records);
  return more;
}
