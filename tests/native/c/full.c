/* Every entry of the table of buffers taken: a buffer that cannot be shared now is still the caller's, and may be tried again. In a
   domain of its own, for others would find no entry either: tests/native.sh. */
#include "check.h"

enum { ENTRIES = 8192 };

int main(void) {
  static byway_grant *held[ENTRIES + 1];
  byway_reader *r, *r2;
  byway_writer *w, *w2;
  byway_grant *mine, *got;
  int n = 0;
  CHECK(byway_pipe(&r, &w) == 0);
  /* One that was received by copy: to be sent it must become a buffer. */
  CHECK(byway_pipe(&r2, &w2) == 0 && byway_send(w2, "short", 5, LONG) == 0 && byway_receive_grant(r2, &got, LONG) == 1);
  for (;; n++) {
    CHECK(n <= ENTRIES && (held[n] = byway_reserve(100)) != NULL);
    memset(byway_grant_data(held[n]), 7, 100);
    if (byway_grant_share(held[n], 50) != 0) break;
  }
  CHECK(errno == ENOMEM && n == ENTRIES);
  mine = held[n];
  /* By each way to share it: as it was, with all of its bytes, and to be filled on. */
  SAYS(byway_grant_share(mine, 10), ENOMEM, "drop some");
  SAYS(byway_send_grant(w, mine, LONG), ENOMEM, "drop some");
  CHECK(byway_grant_clone(mine) == NULL && errno == ENOMEM);
  CHECK(byway_grant_slice(mine, 1, 2) == NULL && errno == ENOMEM);
  CHECK(byway_grant_size(mine) == 100 && ((char *)byway_grant_data(mine))[99] == 7);
  ((char *)byway_grant_data(mine))[0] = 8;
  FAILS(byway_send_grant(w, got, LONG), ENOMEM);
  CHECK(byway_grant_size(got) == 5 && memcmp(byway_grant_data(got), "short", 5) == 0);
  for (int k = 0; k < 4; k++) byway_grant_release(held[k]);
  CHECK(byway_grant_share(mine, 60) == 0 && byway_grant_size(mine) == 60);
  CHECK(byway_send_grant(w, mine, LONG) == 0 && byway_send_grant(w, got, LONG) == 0);
  byway_grant_release(mine);
  byway_grant_release(got);
  CHECK(byway_receive_grant(r, &got, LONG) == 1 && byway_grant_size(got) == 60);
  CHECK(((char *)byway_grant_data(got))[0] == 8 && ((char *)byway_grant_data(got))[59] == 7);
  byway_grant_release(got);
  CHECK(byway_receive_grant(r, &got, LONG) == 1 && memcmp(byway_grant_data(got), "short", 5) == 0);
  byway_grant_release(got);
  for (int k = 4; k < n; k++) byway_grant_release(held[k]);
  byway_end_close(&(byway_end){r, w});
  byway_end_close(&(byway_end){r2, w2});
  printf("%d checks\n", checks);
  return 0;
}
