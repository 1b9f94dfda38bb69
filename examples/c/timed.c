/* Time: calls that do not wait, and calls that wait so long; and several receivers of one pipe. */
#include <byway.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static void *work(void *mine) {
  char buffer[64];
  size_t length;
  long records = 0;
  int more;
  while ((more = byway_receive(mine, buffer, sizeof buffer, &length, 60000)) == 1)
    records += length == 4 && memcmp(buffer, "work", 4) == 0;
  if (more < 0)
    fprintf(stderr, "byway_receive: %s\n", byway_error());
  byway_reader_close(mine);
  return (void *)records;
}

int main(void) {
  byway_reader *receiver, *each;
  byway_writer *sender;
  pthread_t threads[3];
  char buffer[64];
  size_t length;
  long sent = 0, received = 0;
  if (byway_pipe(&receiver, &sender) != 0) {
    fprintf(stderr, "byway_pipe: %s\n", byway_error());
    return 1;
  }
  /* What is there now. */
  if (byway_receive(receiver, buffer, sizeof buffer, &length, 0) == -1 && errno == EAGAIN)
    puts("nothing is there");
  /* What comes in that time, milliseconds. */
  if (byway_receive(receiver, buffer, sizeof buffer, &length, 10) == -1 && errno == ETIMEDOUT)
    puts("nothing came in time");
  /* As many as there is room for, with nobody to receive them. */
  while (byway_send(sender, "work", 4, 0) == 0)
    sent++;
  printf("there was room: %s\n", sent > 0 ? "true" : "false");
  /* Three at once, each with a handle of its own: each record goes to one of them. */
  for (int i = 0; i < 3; i++) {
    if (byway_reader_clone(receiver, &each) != 0) {
      fprintf(stderr, "byway_reader_clone: %s\n", byway_error());
      return 1;
    }
    if (pthread_create(&threads[i], NULL, work, each) != 0)
      return 1;
  }
  byway_reader_close(receiver);
  /* There is room again as soon as they have begun. */
  for (int k = 0; k < 1000; k++, sent++)
    if (byway_send(sender, "work", 4, 60000) != 0) {
      fprintf(stderr, "byway_send: %s\n", byway_error());
      return 1;
    }
  /* The end, for each of them. */
  byway_writer_close(sender);
  for (int i = 0; i < 3; i++) {
    void *records;
    pthread_join(threads[i], &records);
    received += (long)records;
  }
  printf("all arrived: %s\n", received == sent ? "true" : "false");
  return 0;
}
