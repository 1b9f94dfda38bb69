/* Copies stdin to stdout; built with -static, so that no preloaded library can be inside. Not a test by
 * itself. */
#include <unistd.h>
int main(void) {
    char b[3000];
    ssize_t n;
    while ((n = read(0, b, sizeof b)) > 0)
        for (ssize_t o = 0, k; o < n; o += k)
            if ((k = write(1, b + o, n - o)) < 0) return 1;
    return n < 0;
}
