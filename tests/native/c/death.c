/* A peer is killed: the end and the broken pipe are there as soon as the kernel's own pipe, which the dead held too, tells of it, and
   nobody waits. "As soon" by the order of events: who has reaped a process knows that it has closed all it had (LINUX do_exit), so
   every call after that is one that does not wait, or fails this. tests/native/death.rs is the same from Rust, at more moments. */
#include "check.h"
#include <signal.h>

static char b[30000];

struct peer {
  pid_t child;
  byway_reader *r;
  byway_writer *w;
  int beside[2];
};

/* A child that has `p`'s one end, and the kernel's beside it, and either works or sleeps. */
static void start(struct peer *p, int reads, int works) {
  CHECK(pipe(p->beside) == 0 && byway_pipe(&p->r, &p->w) == 0);
  CHECK(byway_reader_is_carried(p->r) == 1);
  p->child = fork();
  if (p->child == 0) {
    alarm(LONG / 1000);
    close(p->beside[reads]);
    if (reads)
      byway_writer_close(p->w);
    else
      byway_reader_close(p->r);
    while (works)
      if ((reads ? byway_read(p->r, b, 1000, BYWAY_FOREVER) : byway_write(p->w, b, 1000, BYWAY_FOREVER)) <= 0) _exit(1);
    for (;;) pause();
  }
  CHECK(p->child > 0);
  close(p->beside[!reads]);
  if (reads)
    byway_reader_close(p->r);
  else
    byway_writer_close(p->w);
}

static void end(struct peer *p) {
  int status;
  CHECK(kill(p->child, SIGKILL) == 0 && waitpid(p->child, &status, 0) == p->child);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void of_the_writer(int works, int late) {
  struct peer p;
  ssize_t n;
  start(&p, 0, works);
  if (works)
    CHECK(byway_read(p.r, b, sizeof b, LONG) > 0);
  else
    FAILS(byway_read(p.r, b, sizeof b, 0), EAGAIN);
  usleep((useconds_t)late);
  CHECK(!shows(p.beside[0], POLLHUP) && (works || !shows(byway_reader_fd(p.r), POLLHUP)));
  end(&p);
  CHECK(shows(p.beside[0], POLLHUP) && read(p.beside[0], b, 1) == 0);
  /* What it had written, and the end. */
  while ((n = byway_read(p.r, b, sizeof b, 0)) > 0) CHECK(works);
  CHECK(n == 0 && byway_read(p.r, b, sizeof b, BYWAY_FOREVER) == 0);
  close(p.beside[0]);
  byway_reader_close(p.r);
}

static void of_the_reader(int works, int late) {
  struct peer p;
  ssize_t n;
  start(&p, 1, works);
  if (works)
    CHECK(byway_write(p.w, b, 3000, LONG) == 3000);
  else
    while (byway_write(p.w, b, 3000, 0) > 0) continue;
  usleep((useconds_t)late);
  CHECK(!shows(p.beside[1], POLLERR));
  end(&p);
  CHECK(shows(p.beside[1], POLLERR) && write(p.beside[1], b, 1) == -1 && errno == EPIPE);
  /* A writer asks the kernel every 50 us; what it writes before is for nobody. One that was full has no such moment. */
  while ((n = byway_write(p.w, b, 3000, 0)) > 0) CHECK(works);
  CHECK(n == -1 && errno == EPIPE);
  SAYS(byway_write(p.w, b, sizeof b, BYWAY_FOREVER), EPIPE, "its last reader was closed");
  close(p.beside[1]);
  byway_writer_close(p.w);
}

/* Asleep in a call without a limit, when the other one is killed by a third. */
static void asleep(int reads) {
  struct peer p;
  int status;
  start(&p, reads, 0);
  pid_t killer = fork();
  if (killer == 0) {
    usleep(50000);
    _exit(kill(p.child, SIGKILL));
  }
  if (reads) {
    ssize_t n;
    while ((n = byway_write(p.w, b, sizeof b, BYWAY_FOREVER)) >= 0) continue;
    CHECK(n == -1 && errno == EPIPE);
    byway_writer_close(p.w);
  } else {
    CHECK(byway_read(p.r, b, sizeof b, BYWAY_FOREVER) == 0);
    byway_reader_close(p.r);
  }
  close(p.beside[reads]);
  CHECK(waitpid(killer, &status, 0) == killer && waitpid(p.child, &status, 0) == p.child && WIFSIGNALED(status));
}

/* Records: the end, or a broken pipe, after whole records only. */
static void records(void) {
  byway_reader *r;
  byway_writer *w;
  size_t n;
  int status, got, count = 0;
  CHECK(byway_pipe(&r, &w) == 0);
  pid_t child = fork();
  if (child == 0) {
    alarm(LONG / 1000);
    byway_reader_close(r);
    memset(b, 5, sizeof b);
    for (n = 0; byway_send(w, b, n % 5000, BYWAY_FOREVER) == 0; n += 7) continue;
    _exit(1);
  }
  byway_writer_close(w);
  while ((got = byway_receive(r, b, sizeof b, &n, LONG)) == 1) {
    for (size_t k = 0; k < n; k++) CHECK(b[k] == 5);
    CHECK(n == (size_t)(7 * count) % 5000);
    if (++count == 300) CHECK(kill(child, SIGKILL) == 0);
  }
  CHECK(got == 0 && count >= 300);
  CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
  byway_reader_close(r);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  CHECK(byway_why_not_carried() == NULL);
  /* A hang is a failure, not a wait. */
  alarm(LONG / 1000);
  for (int k = 0; k < 20; k++)
    for (int works = 0; works < 2; works++) {
      of_the_writer(works, k * 97);
      of_the_reader(works, k * 97);
    }
  asleep(0);
  asleep(1);
  records();
  printf("%d checks\n", checks);
  return 0;
}
