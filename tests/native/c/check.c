/* Every function of byway.h, as C sees it: results, errno, what is said. Built as C11 and as C++17. */
#include <byway.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG 60000
static int checks;
#define CHECK(what)                                                                                                    \
  do {                                                                                                                 \
    checks++;                                                                                                          \
    if (!(what)) {                                                                                                     \
      fprintf(stderr, "%s:%d: not so: %s (errno %d, %s)\n", __FILE__, __LINE__, #what, errno, byway_error());          \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)
#define FAILS(call, number)                                                                                            \
  do {                                                                                                                 \
    errno = 0;                                                                                                         \
    CHECK((call) == -1);                                                                                               \
    CHECK(errno == (number));                                                                                          \
    CHECK(byway_error()[0] != 0);                                                                                      \
  } while (0)

static int shows(int fd, short events) {
  struct pollfd p = {fd, events, 0};
  return poll(&p, 1, 0) == 1 && (p.revents & events);
}

static void bytes(void) {
  byway_reader *r, *r2;
  byway_writer *w, *w2;
  char b[100];
  CHECK(byway_pipe(&r, &w) == 0);
  CHECK(byway_reader_is_carried(r) == 1 && byway_writer_is_carried(w) == 1);
  FAILS(byway_read(r, b, sizeof b, 0), EAGAIN);
  CHECK(!shows(byway_reader_fd(r), POLLIN));
  CHECK(byway_write(w, "hello", 5, 0) == 5);
  CHECK(shows(byway_reader_fd(r), POLLIN));
  CHECK(byway_read(r, b, sizeof b, LONG) == 5 && memcmp(b, "hello", 5) == 0);
  FAILS(byway_read(r, b, sizeof b, 5), ETIMEDOUT);
  CHECK(byway_reader_clone(r, &r2) == 0 && byway_writer_clone(w, &w2) == 0);
  byway_reader_close(r);
  byway_writer_close(w);
  CHECK(byway_write(w2, "again", 5, BYWAY_FOREVER) == 5);
  byway_writer_close(w2);
  CHECK(byway_read(r2, b, sizeof b, BYWAY_FOREVER) == 5);
  CHECK(byway_read(r2, b, sizeof b, BYWAY_FOREVER) == 0);
  byway_reader_close(r2);

  CHECK(byway_pipe(&r, &w) == 0);
  byway_reader_close(r);
  FAILS(byway_write(w, "x", 1, LONG), EPIPE);
  CHECK(byway_writer_fd(w) >= 0);
  byway_writer_close(w);

  /* Descriptors from elsewhere, and back to those who know nothing. */
  FAILS(byway_reader_from_fd(-1, &r), EBADF);
  FAILS(byway_reader_from_fd(open("/dev/null", O_RDONLY), &r), EINVAL);
  CHECK(byway_pipe(&r, &w) == 0);
  CHECK(byway_write(w, "plain", 5, 0) == 5);
  int fd = byway_reader_into_fd(r);
  CHECK(fd >= 0 && read(fd, b, sizeof b) == 5);
  CHECK(byway_writer_is_carried(w) == 0);
  CHECK(byway_reader_from_fd(fd, &r) == 0);
  int out = byway_writer_into_fd(w);
  CHECK(out >= 0 && write(out, "back", 4) == 4);
  CHECK(byway_writer_from_fd(out, &w) == 0);
  CHECK(byway_read(r, b, sizeof b, LONG) == 4);
  byway_reader_close(r);
  byway_writer_close(w);
}

static void nothing(void) {
  char b[1];
  size_t n;
  byway_reader *r;
  byway_writer *w;
  FAILS(byway_pipe(NULL, &w), EINVAL);
  FAILS(byway_pipe(&r, NULL), EINVAL);
  FAILS(byway_read(NULL, b, 1, 0), EINVAL);
  FAILS(byway_write(NULL, b, 1, 0), EINVAL);
  FAILS(byway_send(NULL, b, 1, 0), EINVAL);
  FAILS(byway_receive(NULL, b, 1, &n, 0), EINVAL);
  FAILS(byway_reader_fd(NULL), EINVAL);
  FAILS(byway_reader_into_fd(NULL), EINVAL);
  FAILS(byway_fifo_reader(NULL, 0, &r), EINVAL);
  FAILS(byway_grant_share(NULL, 0), EINVAL);
  CHECK(byway_grant_data(NULL) == NULL && byway_grant_size(NULL) == 0 && byway_grant_clone(NULL) == NULL);
  byway_reader_close(NULL);
  byway_writer_close(NULL);
  byway_grant_release(NULL);
}

static void names(void) {
  byway_reader *r;
  byway_writer *w;
  char name[64], b[10];
  snprintf(name, sizeof name, "check-%d", (int)getpid());
  FAILS(byway_fifo_writer(name, 0, &w), EAGAIN);
  FAILS(byway_fifo_writer(name, 5, &w), ETIMEDOUT);
  FAILS(byway_fifo_reader("no/name", 0, &r), EINVAL);
  CHECK(byway_fifo_reader(name, 0, &r) == 0);
  CHECK(byway_fifo_writer(name, BYWAY_FOREVER, &w) == 0);
  CHECK(byway_write(w, "named", 5, LONG) == 5);
  byway_writer_close(w);
  CHECK(byway_read(r, b, sizeof b, LONG) == 5);
  CHECK(byway_read(r, b, sizeof b, LONG) == 0);
  byway_reader_close(r);
  CHECK(byway_fifo_remove(name) == 0);
}

static void records(void) {
  byway_reader *r;
  byway_writer *w;
  static char big[200000], b[200000];
  size_t n = 99;
  CHECK(byway_pipe(&r, &w) == 0);
  FAILS(byway_receive(r, b, sizeof b, &n, 0), EAGAIN);
  FAILS(byway_receive(r, b, sizeof b, &n, 5), ETIMEDOUT);
  memset(big, 3, sizeof big);
  CHECK(byway_send(w, "one", 3, LONG) == 0);
  CHECK(byway_send(w, NULL, 0, LONG) == 0);
  CHECK(byway_send(w, big, BYWAY_INLINE, LONG) == 0);
  CHECK(byway_send(w, big, sizeof big, LONG) == 0);
  FAILS(byway_receive(r, b, 2, &n, LONG), EMSGSIZE);
  CHECK(byway_receive(r, b, sizeof b, &n, LONG) == 1 && n == 3 && memcmp(b, "one", 3) == 0);
  CHECK(byway_receive(r, b, sizeof b, &n, LONG) == 1 && n == 0);
  CHECK(byway_receive(r, b, sizeof b, &n, LONG) == 1 && n == BYWAY_INLINE);
  CHECK(byway_receive(r, b, sizeof b, &n, LONG) == 1 && n == sizeof big && memcmp(b, big, n) == 0);
  byway_writer_close(w);
  CHECK(byway_receive(r, b, sizeof b, &n, LONG) == 0);
  byway_reader_close(r);
  /* What is no record. */
  CHECK(byway_pipe(&r, &w) == 0);
  CHECK(byway_write(w, big, 100, LONG) == 100);
  FAILS(byway_receive(r, b, sizeof b, &n, LONG), EPROTO);
  byway_reader_close(r);
  byway_writer_close(w);
}

static void grants(void) {
  byway_reader *r;
  byway_writer *w;
  byway_grant *g, *h, *part;
  CHECK(byway_pipe(&r, &w) == 0);
  g = byway_reserve(1 << 20);
  CHECK(g != NULL && byway_grant_size(g) == 1 << 20);
  memset(byway_grant_data(g), 5, 1 << 20);
  CHECK(byway_grant_share(g, 1000000) == 0 && byway_grant_size(g) == 1000000);
  CHECK(byway_send_grant(w, g, LONG) == 0);
  part = byway_grant_slice(g, 10, 20);
  CHECK(part != NULL && byway_grant_size(part) == 20);
  CHECK((char *)byway_grant_data(part) == (char *)byway_grant_data(g) + 10);
  CHECK(byway_grant_slice(g, 10, 1000000) == NULL && errno == EINVAL);
  h = byway_grant_clone(g);
  CHECK(h != NULL);
  void *at = byway_grant_data(g);
  byway_grant_release(g);
  byway_grant_release(h);
  CHECK(byway_receive_grant(r, &h, LONG) == 1);
  CHECK(byway_grant_data(h) == at && byway_grant_size(h) == 1000000 && ((char *)at)[999999] == 5);
  byway_grant_release(h);
  CHECK(((char *)byway_grant_data(part))[19] == 5);
  byway_grant_release(part);
  /* A short record is a grant too, and can be sent on. */
  CHECK(byway_send(w, "short", 5, LONG) == 0);
  CHECK(byway_receive_grant(r, &g, LONG) == 1);
  CHECK(byway_grant_size(g) == 5 && memcmp(byway_grant_data(g), "short", 5) == 0);
  CHECK(byway_send_grant(w, g, 0) == 0);
  byway_grant_release(g);
  CHECK(byway_receive_grant(r, &g, 0) == 1 && memcmp(byway_grant_data(g), "short", 5) == 0);
  byway_grant_release(g);
  FAILS(byway_receive_grant(r, &g, 0), EAGAIN);
  byway_writer_close(w);
  CHECK(byway_receive_grant(r, &g, LONG) == 0);
  byway_reader_close(r);
  CHECK(byway_reserve((size_t)1 << 50) == NULL && errno == ENOMEM);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  CHECK(byway_why_not_carried() == NULL);
  bytes();
  nothing();
  names();
  records();
  grants();
  printf("%d checks\n", checks);
  return 0;
}
