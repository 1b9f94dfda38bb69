/* What the C checks here share: a check that ends the program with where it was, what was said and errno. */
#ifndef CHECK_H
#define CHECK_H
#include <byway.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Only against hanging. */
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
/* The same, with a part of what byway_error() says. */
#define SAYS(call, number, part)                                                                                       \
  do {                                                                                                                 \
    FAILS(call, number);                                                                                               \
    CHECK(strstr(byway_error(), part) != NULL);                                                                        \
  } while (0)

static inline int shows(int fd, short events) {
  struct pollfd p = {fd, events, 0};
  return poll(&p, 1, 0) == 1 && (p.revents & events);
}
#endif
