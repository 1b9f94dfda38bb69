/* A grant: one megabyte that is filled once, goes to two receivers, and is copied by nobody. */
#include <byway.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  byway_reader *in[2];
  byway_writer *out[2];
  byway_grant *got[2];
  if (byway_pipe(&in[0], &out[0]) != 0 || byway_pipe(&in[1], &out[1]) != 0)
    return 1;
  byway_grant *grant = byway_reserve(1 << 20);
  if (grant == NULL) {
    fprintf(stderr, "byway_reserve: %s\n", byway_error());
    return 1;
  }
  memset(byway_grant_data(grant), 7, byway_grant_size(grant));
  for (int k = 0; k < 2; k++)
    if (byway_send_grant(out[k], grant, BYWAY_FOREVER) != 0)
      return 1;
  byway_grant_release(grant);
  for (int k = 0; k < 2; k++)
    if (byway_receive_grant(in[k], &got[k], BYWAY_FOREVER) != 1)
      return 1;
  printf("%zu bytes, the same memory: %s\n", byway_grant_size(got[0]),
         byway_grant_data(got[0]) == byway_grant_data(got[1]) ? "true" : "false");
  for (int k = 0; k < 2; k++) {
    byway_grant_release(got[k]);
    byway_reader_close(in[k]);
    byway_writer_close(out[k]);
  }
  return 0;
}
