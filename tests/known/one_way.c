/* What theirs.py has libevent's tests load: a pair of stream sockets becomes a pipe, for Byway carries no sockets.
   ONE_WAY says which of the two is written: 0 or 1. A test that needs both directions fails, on the plain kernel too.
   Each new pipe has had traffic, so that Byway carries it: what the tests write themselves is too little.
   Invariant: a call on another descriptor is libc's own; a new pipe is empty.
   Not here: datagrams, options of sockets, a shutdown of the reading side. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIBC(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

int pipe2(int ends[2], int flags) {
    char block[4096] = {0};
    if (LIBC(pipe2)(ends, flags)) return -1;
    if (flags & O_DIRECT) return 0;
    for (int i = 0; i < 32; i++)
        if (write(ends[1], block, sizeof block) != sizeof block || read(ends[0], block, sizeof block) != sizeof block) abort();
    return 0;
}

int pipe(int ends[2]) { return pipe2(ends, 0); }

int socketpair(int family, int type, int protocol, int pair[2]) {
    if (!(type & SOCK_STREAM)) return LIBC(socketpair)(family, type, protocol, pair);
    int ends[2], writes = atoi(getenv("ONE_WAY"));
    int flags = (type & SOCK_NONBLOCK ? O_NONBLOCK : 0) | (type & SOCK_CLOEXEC ? O_CLOEXEC : 0);
    if (pipe2(ends, flags)) return -1;
    pair[writes] = ends[1];
    pair[!writes] = ends[0];
    return 0;
}

ssize_t send(int fd, const void *from, size_t n, int flags) {
    ssize_t done = LIBC(send)(fd, from, n, flags);
    return done < 0 && errno == ENOTSOCK ? write(fd, from, n) : done;
}

ssize_t recv(int fd, void *to, size_t n, int flags) {
    ssize_t done = LIBC(recv)(fd, to, n, flags);
    return done < 0 && errno == ENOTSOCK ? read(fd, to, n) : done;
}

/* The write end goes, and its number stays taken. */
int shutdown(int fd, int how) {
    int done = LIBC(shutdown)(fd, how);
    if (done == 0 || errno != ENOTSOCK || how == SHUT_RD) return done;
    int none = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (none < 0) return -1;
    done = dup2(none, fd) < 0 ? -1 : 0;
    close(none);
    return done;
}
