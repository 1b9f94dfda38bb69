/* A bidirectional pipe: a child doubles the numbers that it is asked for. */
#include <byway.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
  byway_end here, there;
  uint64_t n, sum = 0;
  size_t length;
  if (byway_duplex(&here, &there) != 0) {
    fprintf(stderr, "byway_duplex: %s\n", byway_error());
    return 1;
  }
  if (fork() == 0) {
    byway_end_close(&here);
    while (byway_receive(there.reader, &n, sizeof n, &length, BYWAY_FOREVER) == 1) {
      n *= 2;
      if (byway_send(there.writer, &n, sizeof n, BYWAY_FOREVER) != 0)
        _exit(1);
    }
    byway_end_close(&there);
    _exit(0);
  }
  byway_end_close(&there);
  for (uint64_t k = 0; k < 1000; k++) {
    if (byway_send(here.writer, &k, sizeof k, BYWAY_FOREVER) != 0 ||
        byway_receive(here.reader, &n, sizeof n, &length, BYWAY_FOREVER) != 1)
      return 1;
    sum += n;
  }
  byway_end_close(&here);
  wait(NULL);
  printf("1000 answers, their sum %lu\n", (unsigned long)sum);
  return 0;
}
