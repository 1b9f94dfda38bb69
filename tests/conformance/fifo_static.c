/* Opens a FIFO by path, from outside: built with -static, so that no preloaded library can be inside. Not a
 * test by itself.    fifo_static r|R|p|w PATH N POS r reads N bytes; R reads N bytes and EOF; p first polls
 * and counts them; w writes them. Says "o" on descriptor 3 once it has opened. */
#include "fifo_common.h"
int main(int c, char **v) {
    if (c < 5) return 2;
    size_t n = strtoull(v[3], 0, 0);
    uint64_t pos = strtoull(v[4], 0, 0);
    snprintf(case_name, sizeof case_name, "static %s", v[1]);
    sea_init();
    int f = OPEN(v[2], *v[1] == 'w' ? O_WRONLY : *v[1] == 'p' ? O_RDONLY | O_NONBLOCK : O_RDONLY);
    write(3, "o", 1);
    if (*v[1] == 'w') {
        qput(f, n, pos, 3000);
        return 0;
    }
    if (*v[1] == 'p') {
        int k = -1;
        IS(events(f, POLLIN, 10000) & POLLIN, POLLIN);
        IS(ioctl(f, FIONREAD, &k), 0);
        IS(k, n);
    }
    qget(f, n, pos, 3000);
    if (*v[1] == 'R') AT_EOF(f);
    return 0;
}
