/* Every function of byway.h, as C sees it: results, errno, what is said. Built as C11 and as C++17. */
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#ifdef __cplusplus
#define _Static_assert static_assert
#endif

/* The interface, number by number: crates/capi has the same of its side, and what a program was compiled with stays so. */
#define FIELD(type, field, at, bytes)                                                                                  \
  _Static_assert(offsetof(type, field) == (at) && sizeof(((type *)0)->field) == (bytes), #type "." #field)
_Static_assert(sizeof(byway_end) == 16, "byway_end");
FIELD(byway_end, reader, 0, 8);
FIELD(byway_end, writer, 8, 8);
_Static_assert(sizeof(byway_event) == 32, "byway_event");
FIELD(byway_event, ident, 0, 8);
FIELD(byway_event, filter, 8, 2);
FIELD(byway_event, flags, 10, 2);
FIELD(byway_event, fflags, 12, 4);
FIELD(byway_event, data, 16, 8);
FIELD(byway_event, udata, 24, 8);
_Static_assert(BYWAY_FOREVER == -1 && BYWAY_INLINE == 4088, "limits");
_Static_assert(BYWAY_EVFILT_READ == -1 && BYWAY_EVFILT_WRITE == -2, "filters");
_Static_assert(BYWAY_EVFILT_TIMER == -7 && BYWAY_EVFILT_USER == -11, "filters");
_Static_assert(BYWAY_EV_ADD == 0x1 && BYWAY_EV_DELETE == 0x2 && BYWAY_EV_ENABLE == 0x4, "flags");
_Static_assert(BYWAY_EV_DISABLE == 0x8 && BYWAY_EV_ONESHOT == 0x10 && BYWAY_EV_CLEAR == 0x20, "flags");
_Static_assert(BYWAY_EV_DISPATCH == 0x80 && BYWAY_EV_ERROR == 0x4000 && BYWAY_EV_EOF == 0x8000, "flags");
_Static_assert(BYWAY_NOTE_TRIGGER == 0x01000000u && BYWAY_NOTE_USECONDS == 4 && BYWAY_NOTE_NSECONDS == 8, "notes");

static void bytes(void) {
  byway_reader *r, *r2;
  byway_writer *w, *w2;
  char b[100];
  CHECK(byway_pipe(&r, &w) == 0);
  CHECK(byway_reader_is_carried(r) == 1 && byway_writer_is_carried(w) == 1);
  SAYS(byway_read(r, b, sizeof b, 0), EAGAIN, "wait for the descriptor");
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
  SAYS(byway_reader_from_fd(-1, &r), EBADF, "a descriptor that is open");
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

/* No descriptor is free: what to do about it. */
static void descriptors(void) {
  byway_reader *r, *r2;
  byway_writer *w, *w2;
  struct rlimit all, none;
  CHECK(byway_pipe(&r, &w) == 0 && getrlimit(RLIMIT_NOFILE, &all) == 0);
  /* The lowest that is free: all below are taken. */
  int low = open("/dev/null", O_RDONLY);
  CHECK(low > byway_reader_fd(r) && close(low) == 0);
  none = all;
  none.rlim_cur = (rlim_t)low;
  CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
  SAYS(byway_pipe(&r2, &w2), EMFILE, "ulimit -n");
  SAYS(byway_reader_clone(r, &r2), EMFILE, "ulimit -n");
  CHECK(setrlimit(RLIMIT_NOFILE, &all) == 0);
  CHECK(byway_reader_clone(r, &r2) == 0);
  byway_reader_close(r);
  byway_reader_close(r2);
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
  SAYS(byway_fifo_writer(name, 0, &w), EAGAIN, "start the other side");
  FAILS(byway_fifo_writer(name, 5, &w), ETIMEDOUT);
  FAILS(byway_fifo_reader("no/name", 0, &r), EINVAL);
  CHECK(byway_fifo_reader(name, 0, &r) == 0);
  CHECK(byway_fifo_writer(name, BYWAY_FOREVER, &w) == 0);
  CHECK(byway_write(w, "named", 5, LONG) == 5);
  byway_writer_close(w);
  CHECK(byway_read(r, b, sizeof b, LONG) == 5);
  CHECK(byway_read(r, b, sizeof b, LONG) == 0);
  byway_reader_close(r);
  /* An open with a limit: nobody, a writer that is there, one that comes, writes and leaves. */
  FAILS(byway_fifo_reader(name, 5, &r), ETIMEDOUT);
  for (int silent = 0; silent < 2; silent++) {
    int go[2], status;
    CHECK(pipe(go) == 0);
    pid_t child = fork();
    if (child == 0) {
      close(go[1]);
      if (byway_fifo_writer(name, LONG, &w) != 0) _exit(1);
      /* Until the reader is open. */
      if (silent && read(go[0], b, 1) != 0) _exit(2);
      _exit(byway_write(w, "late", 4, LONG) == 4 ? 0 : 3);
    }
    CHECK(byway_fifo_reader(name, LONG, &r) == 0);
    close(go[0]);
    close(go[1]);
    CHECK(byway_read(r, b, sizeof b, LONG) == 4 && memcmp(b, "late", 4) == 0);
    CHECK(byway_read(r, b, sizeof b, LONG) == 0);
    byway_reader_close(r);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
  }
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
  SAYS(byway_receive(r, b, 2, &n, LONG), EMSGSIZE, "receive it into a larger one, or by byway_receive_grant");
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

/* A second handle, of a pipe that has no shared memory: for bytes. Two that receive records would tear them. */
static void seconds(void) {
  static const char no[] = "this pipe has no shared memory, and only one receiver";
  byway_reader *r, *r2;
  byway_writer *w;
  byway_grant *g;
  char b[10];
  size_t n;
  int fds[2];
  CHECK(pipe(fds) == 0 && byway_reader_from_fd(fds[0], &r) == 0 && byway_writer_from_fd(fds[1], &w) == 0);
  CHECK(byway_reader_is_carried(r) == 0);
  CHECK(byway_write(w, "bytes", 5, LONG) == 5);
  CHECK(byway_reader_clone(r, &r2) == 0);
  CHECK(byway_read(r, b, 2, LONG) == 2 && byway_read(r2, b, 3, LONG) == 3);
  /* Either of the two, as long as there are two. */
  CHECK(byway_send(w, "one", 3, LONG) == 0 && byway_send(w, "two", 3, LONG) == 0);
  SAYS(byway_receive(r, b, sizeof b, &n, LONG), ENOTSUP, no);
  SAYS(byway_receive_grant(r2, &g, LONG), ENOTSUP, no);
  byway_reader_close(r);
  CHECK(byway_receive(r2, b, sizeof b, &n, LONG) == 1 && n == 3 && memcmp(b, "one", 3) == 0);
  SAYS(byway_reader_clone(r2, &r), ENOTSUP, no);
  CHECK(byway_receive(r2, b, sizeof b, &n, LONG) == 1 && n == 3 && memcmp(b, "two", 3) == 0);
  byway_reader_close(r2);
  byway_writer_close(w);
  /* Where records go through shared memory: two, each of which gets one. */
  CHECK(byway_pipe(&r, &w) == 0);
  CHECK(byway_send(w, "one", 3, LONG) == 0 && byway_send(w, "two", 3, LONG) == 0);
  CHECK(byway_receive(r, b, sizeof b, &n, LONG) == 1 && memcmp(b, "one", 3) == 0);
  CHECK(byway_reader_clone(r, &r2) == 0);
  CHECK(byway_receive(r2, b, sizeof b, &n, LONG) == 1 && memcmp(b, "two", 3) == 0);
  FAILS(byway_receive(r, b, sizeof b, &n, 0), EAGAIN);
  byway_reader_close(r);
  byway_reader_close(r2);
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

static void both_ways(void) {
  byway_end a, b;
  char text[9];
  size_t n;
  CHECK(byway_duplex(&a, &b) == 0);
  CHECK(byway_write(a.writer, "ping", 4, LONG) == 4 && byway_read(b.reader, text, 9, LONG) == 4);
  CHECK(byway_send(b.writer, "pong", 4, LONG) == 0 && byway_receive(a.reader, text, 9, &n, LONG) == 1 && n == 4);
  byway_writer_close(a.writer);
  a.writer = NULL;
  CHECK(byway_read(b.reader, text, 9, LONG) == 0);
  byway_end_close(&a);
  CHECK(a.reader == NULL && a.writer == NULL);
  FAILS(byway_write(b.writer, "x", 1, LONG), EPIPE);
  byway_end_close(&b);
  byway_end_close(&b);
  byway_end_close(NULL);
  FAILS(byway_duplex(&a, NULL), EINVAL);
}

static byway_event next(byway_queue *q, int ms) {
  byway_event e;
  CHECK(byway_kevent(q, NULL, 0, &e, 1, ms) == 1);
  return e;
}

static void events(void) {
  byway_reader *r;
  byway_writer *w;
  byway_queue *q, *other;
  byway_event e[4], c[3];
  char b[100];
  int here = 0;
  CHECK(byway_kqueue(&q) == 0 && byway_kqueue(&other) == 0);
  CHECK(byway_pipe(&r, &w) == 0);
  CHECK(byway_queue_reader(q, r, BYWAY_EV_ADD, &here) == 0);
  CHECK(byway_kevent(q, NULL, 0, e, 4, 0) == 0 && !shows(byway_queue_fd(q), POLLIN));
  FAILS(byway_queue_reader(other, r, BYWAY_EV_ADD, NULL), EEXIST);
  CHECK(byway_write(w, "hello", 5, LONG) == 5 && shows(byway_queue_fd(q), POLLIN));
  e[0] = next(q, LONG);
  CHECK(e[0].ident == (uint64_t)byway_reader_fd(r) && e[0].filter == BYWAY_EVFILT_READ);
  CHECK(e[0].data == 5 && e[0].udata == &here && e[0].flags == 0);
  CHECK(byway_read(r, b, 2, LONG) == 2 && next(q, 0).data == 3);
  /* Disabled, enabled, to tell once, gone. */
  BYWAY_EV_SET(&c[0], byway_reader_fd(r), BYWAY_EVFILT_READ, BYWAY_EV_DISABLE, 0, 0, NULL);
  CHECK(byway_kevent(q, c, 1, e, 4, 0) == 0);
  c[0].flags = BYWAY_EV_ADD | BYWAY_EV_ONESHOT;
  CHECK(byway_kevent(q, c, 1, e, 4, 0) == 1 && e[0].data == 3 && e[0].flags == BYWAY_EV_ONESHOT);
  CHECK(byway_kevent(q, NULL, 0, e, 4, 0) == 0);
  c[0].flags = BYWAY_EV_DELETE;
  FAILS(byway_kevent(q, c, 1, NULL, 0, 0), ENOENT);
  CHECK(byway_kevent(q, c, 1, e, 4, LONG) == 1 && e[0].flags == BYWAY_EV_ERROR && e[0].data == ENOENT);
  /* To tell once and be quiet until it is enabled again; a reader, and a user event. */
  CHECK(byway_queue_reader(q, r, BYWAY_EV_ADD | BYWAY_EV_DISPATCH, NULL) == 0);
  e[0] = next(q, LONG);
  CHECK(e[0].data == 3 && e[0].flags == BYWAY_EV_DISPATCH);
  CHECK(byway_write(w, "!", 1, LONG) == 1 && byway_kevent(q, NULL, 0, e, 4, 0) == 0);
  c[0].flags = BYWAY_EV_ENABLE;
  CHECK(byway_kevent(q, c, 1, e, 4, LONG) == 1 && e[0].data == 4 && e[0].flags == BYWAY_EV_DISPATCH);
  CHECK(byway_kevent(q, NULL, 0, e, 4, 0) == 0 && byway_read(r, b, 1, LONG) == 1);
  c[0].flags = BYWAY_EV_DELETE;
  CHECK(byway_kevent(q, c, 1, e, 4, 0) == 0);
  c[0].flags = BYWAY_EV_ENABLE;
  FAILS(byway_kevent(q, c, 1, NULL, 0, 0), ENOENT);
  BYWAY_EV_SET(&c[0], 9, BYWAY_EVFILT_USER, BYWAY_EV_ADD | BYWAY_EV_DISPATCH, BYWAY_NOTE_TRIGGER, 1, NULL);
  BYWAY_EV_SET(&c[1], 9, BYWAY_EVFILT_USER, 0, BYWAY_NOTE_TRIGGER, 2, NULL);
  CHECK(byway_kevent(q, c, 1, e, 4, 0) == 1 && e[0].data == 1 && byway_kevent(q, &c[1], 1, e, 4, 0) == 0);
  c[0].flags = BYWAY_EV_ENABLE;
  c[0].fflags = 0;
  CHECK(byway_kevent(q, c, 1, e, 4, 0) == 1 && e[0].ident == 9 && e[0].data == 2);
  c[0].flags = BYWAY_EV_DELETE;
  CHECK(byway_kevent(q, c, 1, e, 4, 0) == 0);
  /* A writer, the end, a user event, a timer, and what does not exist. */
  CHECK(byway_queue_writer(other, w, BYWAY_EV_ADD | BYWAY_EV_CLEAR, NULL) == 0);
  CHECK(next(other, LONG).data >= 4096 && byway_kevent(other, NULL, 0, e, 4, 0) == 0);
  CHECK(byway_queue_reader(q, r, BYWAY_EV_ADD | BYWAY_EV_CLEAR, NULL) == 0);
  byway_writer_close(w);
  e[0] = next(q, LONG);
  CHECK(e[0].flags == (BYWAY_EV_EOF | BYWAY_EV_CLEAR) && e[0].data == 3);
  BYWAY_EV_SET(&c[0], 7, BYWAY_EVFILT_USER, BYWAY_EV_ADD | BYWAY_EV_CLEAR, 0, 0, b);
  BYWAY_EV_SET(&c[1], 7, BYWAY_EVFILT_USER, 0, BYWAY_NOTE_TRIGGER, 42, NULL);
  CHECK(byway_kevent(q, c, 2, NULL, 0, 0) == 0);
  e[0] = next(q, LONG);
  CHECK(e[0].filter == BYWAY_EVFILT_USER && e[0].ident == 7 && e[0].data == 42 && e[0].udata == b);
  BYWAY_EV_SET(&c[0], 1, BYWAY_EVFILT_TIMER, BYWAY_EV_ADD | BYWAY_EV_ONESHOT, BYWAY_NOTE_USECONDS, 500, NULL);
  BYWAY_EV_SET(&c[1], -1, BYWAY_EVFILT_READ, BYWAY_EV_ADD, 0, 0, NULL);
  BYWAY_EV_SET(&c[2], 0, 5, BYWAY_EV_ADD, 0, 0, NULL);
  CHECK(byway_kevent(q, c, 3, e, 4, LONG) == 2);
  CHECK(e[0].data == EBADF && e[1].data == EINVAL && (e[0].flags & BYWAY_EV_ERROR));
  e[0] = next(q, LONG);
  CHECK(e[0].filter == BYWAY_EVFILT_TIMER && e[0].data == 1);
  /* Nanoseconds: as microseconds it would be five minutes; the other, as nanoseconds, would come first. */
  BYWAY_EV_SET(&c[0], 2, BYWAY_EVFILT_TIMER, BYWAY_EV_ADD | BYWAY_EV_ONESHOT, BYWAY_NOTE_NSECONDS, 300000000, b);
  BYWAY_EV_SET(&c[1], 3, BYWAY_EVFILT_TIMER, BYWAY_EV_ADD | BYWAY_EV_ONESHOT, BYWAY_NOTE_USECONDS, 100000000, NULL);
  CHECK(byway_kevent(q, c, 2, NULL, 0, 0) == 0);
  e[0] = next(q, LONG);
  CHECK(e[0].filter == BYWAY_EVFILT_TIMER && e[0].ident == 2 && e[0].data == 1 && e[0].udata == b);
  c[1].flags = BYWAY_EV_DELETE;
  CHECK(byway_kevent(q, &c[1], 1, e, 4, 0) == 0);
  /* A time that is none: said, not taken for another. What FreeBSD calls NOTE_SECONDS, a note of both, one below 0. */
  for (int k = 0; k < 3; k++) {
    static const uint32_t notes[] = {1, BYWAY_NOTE_USECONDS | BYWAY_NOTE_NSECONDS, 0};
    BYWAY_EV_SET(&c[0], 4, BYWAY_EVFILT_TIMER, BYWAY_EV_ADD, notes[k], k == 2 ? -1 : 1, NULL);
    SAYS(byway_kevent(q, c, 1, NULL, 0, 0), EINVAL, k == 2 ? "0 or more" : "no such unit");
    c[0].flags = BYWAY_EV_DELETE;
    FAILS(byway_kevent(q, c, 1, NULL, 0, 0), ENOENT);
  }
  BYWAY_EV_SET(&c[0], 5, BYWAY_EVFILT_USER, BYWAY_EV_ADD, BYWAY_NOTE_USECONDS, 0, NULL);
  SAYS(byway_kevent(q, c, 1, NULL, 0, 0), EINVAL, "BYWAY_NOTE_TRIGGER");
  BYWAY_EV_SET(&c[0], 5, 5, BYWAY_EV_ADD, 0, 0, NULL);
  SAYS(byway_kevent(q, c, 1, NULL, 0, 0), EINVAL, "take BYWAY_EVFILT_READ");
  byway_reader_close(r);
  /* Descriptors of the program's own. */
  int fds[2];
  CHECK(pipe(fds) == 0 && write(fds[1], "four", 4) == 4);
  BYWAY_EV_SET(&c[0], fds[0], BYWAY_EVFILT_READ, BYWAY_EV_ADD, 0, 0, NULL);
  CHECK(byway_kevent(q, c, 1, e, 4, LONG) == 1 && e[0].data == 4);
  close(fds[0]);
  close(fds[1]);
  CHECK(byway_kevent(q, NULL, 0, e, 4, 0) == 0);
  FAILS(byway_kevent(NULL, NULL, 0, e, 4, 0), EINVAL);
  byway_queue_close(q);
  byway_queue_close(other);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  CHECK(byway_why_not_carried() == NULL);
  bytes();
  descriptors();
  nothing();
  names();
  records();
  seconds();
  grants();
  both_ways();
  events();
  printf("%d checks\n", checks);
  return 0;
}
