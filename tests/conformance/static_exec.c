/* Execs PROGRAM, and leaves a child behind: for each byte that comes by descriptor GO the child writes "outside!" to its standard
 * output, and then answers with a byte. Built with -static, so that no preloaded library can be inside. Not a test by itself.
 *   static_exec GO PROGRAM */
#include <stdlib.h>
#include <unistd.h>
int main(int n, char **a) {
    int go = n == 3 ? atoi(a[1]) : -1;
    char c;
    pid_t child = fork();
    if (child < 0) return 1;
    if (!child) {
        while (read(go, &c, 1) == 1)
            if (write(1, "outside!", 8) != 8 || write(go, &c, 1) != 1) return 1;
        return 0;
    }
    close(go);
    execl(a[2], a[2], (char *)0);
    return 1;
}
