/* No test: so many processes (its argument) with 40 descriptors each, that do nothing until its standard input ends.
 * Says "ready" once all are there. Beside them a look at all descriptors of the machine takes long. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
enum { FDS = 40 };
int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 400;
    pid_t me = getpid();
    for (int fd = open("/dev/null", O_RDONLY); fd >= 0 && fd < FDS - 1;) fd = dup(fd);
    for (int i = 0; i < n; i++) {
        pid_t child = fork();
        if (child < 0) return 1;
        if (child) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != me) return 1;
        for (;;) pause();
    }
    puts("ready");
    fflush(stdout);
    for (char c; read(0, &c, 1) > 0;) continue;
    return 0;
}
