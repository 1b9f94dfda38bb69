/* Events: one queue waits for two pipes from children, a timer and a word of the program's own. */
#include <byway.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, byway_error());
  return 1;
}

int main(void) {
  byway_queue *queue;
  byway_reader *ends[2];
  byway_event changes[2], events[4];
  char buffer[100];
  for (int id = 0; id < 2; id++) {
    byway_writer *writer;
    if (byway_pipe(&ends[id], &writer) != 0)
      return fail("byway_pipe");
    if (fork() == 0) {
      for (int k = 0; k < 100; k++) {
        snprintf(buffer, sizeof buffer, "line %05d", k);
        if (byway_write(writer, buffer, 10, BYWAY_FOREVER) != 10)
          _exit(1);
      }
      byway_writer_close(writer);
      _exit(0);
    }
    byway_writer_close(writer);
  }
  if (byway_kqueue(&queue) != 0)
    return fail("byway_kqueue");
  for (int id = 0; id < 2; id++)
    if (byway_queue_reader(queue, ends[id], BYWAY_EV_ADD, &ends[id]) != 0)
      return fail("byway_queue_reader");
  BYWAY_EV_SET(&changes[0], 0, BYWAY_EVFILT_TIMER, BYWAY_EV_ADD, 0, 1, NULL);
  BYWAY_EV_SET(&changes[1], 0, BYWAY_EVFILT_USER, BYWAY_EV_ADD | BYWAY_EV_ONESHOT, 0, 0, NULL);
  if (byway_kevent(queue, changes, 2, NULL, 0, 0) != 0)
    return fail("byway_kevent");

  long bytes = 0, ticks = 0, word = 0;
  int open = 2;
  while (word == 0 || ticks == 0) {
    int n = byway_kevent(queue, NULL, 0, events, 4, BYWAY_FOREVER);
    if (n < 0)
      return fail("byway_kevent");
    for (int i = 0; i < n; i++) {
      byway_event *e = &events[i];
      if (e->filter == BYWAY_EVFILT_TIMER) {
        ticks += e->data;
      } else if (e->filter == BYWAY_EVFILT_USER) {
        word = e->data;
      } else if ((e->flags & BYWAY_EV_EOF) && e->data == 0) {
        /* The end of the stream, and nothing left of it. */
        byway_reader_close(*(byway_reader **)e->udata);
        if (--open == 0) {
          BYWAY_EV_SET(&changes[0], 0, BYWAY_EVFILT_USER, 0, BYWAY_NOTE_TRIGGER, 42, NULL);
          if (byway_kevent(queue, changes, 1, NULL, 0, 0) != 0)
            return fail("byway_kevent");
        }
      } else {
        ssize_t got = byway_read(*(byway_reader **)e->udata, buffer, sizeof buffer, 0);
        bytes += got > 0 ? got : 0;
      }
    }
  }
  byway_queue_close(queue);
  while (wait(NULL) > 0)
    ;
  printf("%ld bytes, the word %ld\n", bytes, word);
  return 0;
}
