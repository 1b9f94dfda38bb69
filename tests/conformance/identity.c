/* Checks: calls that set who the process is, or what it may call, with bytes in flight: those that change nothing, those that fail,
 * and those that change something. Does not check: which of them a process under byway resigns for (run.sh). */
#include "check.h"
#include <grp.h>
#include <linux/seccomp.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
static void ids(uid_t u[6]) {
    getresuid(u, u + 1, u + 2);
    getresgid(u + 3, u + 4, u + 5);
}
static void all_to_what_is_so(void) {
    uid_t u[6];
    ids(u);
    IS(setuid(u[1]), 0);
    IS(setgid(u[4]), 0);
    IS(setreuid(u[0], u[1]), 0);
    IS(setreuid(-1, u[1]), 0);
    IS(setregid(-1, -1), 0);
    IS(setresuid(-1, u[1], -1), 0);
    IS(setresgid(u[3], u[4], u[5]), 0);
    IS(seteuid(u[1]), 0);
    IS(setegid(u[4]), 0);
    IS(setfsuid(-1), u[1]);
    IS(setfsuid(u[1]), u[1]);
    IS(setfsgid(u[4]), u[4]);
}
static void nothing_changes(void) {
    int p[2];
    uid_t before[6], after[6];
    mkpipe(p);
    put(p[1], 5000, 0);
    ids(before);
    all_to_what_is_so();
    ids(after);
    CHECK(!memcmp(before, after, sizeof before), "the ids must be what they were");
    put(p[1], 1000, 5000);
    get(p[0], 6000, 0);
    close(p[1]);
    AT_EOF(p[0]);
}
static void asked_for_in_vain(void) {
    int p[2];
    uint32_t action = SECCOMP_RET_ALLOW;
    mkpipe(p);
    put(p[1], 5000, 0);
    IS(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action), 0);
    FAILS(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0), EFAULT);
    FAILS(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 0), EFAULT);
    FAILS(prctl(PR_SET_SECCOMP, 99, 0), EINVAL);
    IS(prctl(PR_SET_TSC, PR_TSC_ENABLE), 0);
    IS(prctl(PR_GET_SECCOMP), 0);
    put(p[1], 1000, 5000);
    get(p[0], 6000, 0);
}
static void several_threads(void) {
    pthread_t t;
    int p[2];
    mkpipe(p);
    put(p[1], 5000, 0);
    pthread_create(&t, 0, warm_writer, (void *)(intptr_t)open("/dev/null", O_WRONLY));
    all_to_what_is_so();
    pthread_join(t, 0);
    get(p[0], 5000, 0);
}
/* LINUX: setresuid(2): the ids that are not -1 change, each of them by itself. */
static void each_changes(void) {
    if (geteuid()) {
        dprintf(1, "ok %s skip: needs root\n", case_name);
        _exit(0);
    }
    for (int what = 0; what < 9; what++) {
        int p[2];
        mkpipe(p);
        put(p[1], 5000, 0);
        pid_t c = child();
        if (!c) {
            uid_t u[6];
            IS((what == 0   ? setuid(65534)
                : what == 1 ? setgid(65534)
                : what == 2 ? setreuid(-1, 65534)
                : what == 3 ? setregid(65534, -1)
                : what == 4 ? setresuid(-1, -1, 65534)
                : what == 5 ? setresuid(-1, 65534, -1)
                : what == 6 ? setresgid(65534, -1, -1)
                : what == 7 ? setfsuid(65534)
                            : setfsgid(65534)),
               0);
            ids(u);
            static const char want[9][7] = {"111000", "000111", "011000", "000100", "001000",
                                            "010000", "000100", "000000", "000000"};
            /* LINUX setreuid(2): the saved id becomes the effective one that was set. */
            for (int i = 0; i < 6; i++) IS(u[i], want[what][i] == '1' ? 65534 : 0);
            IS(setfsuid(-1), what == 0 || what == 2 || what == 5 || what == 7 ? 65534 : 0);
            IS(setfsgid(-1), what == 1 || what == 8 ? 65534 : 0);
            get(p[0], 2000, 0);
            put(p[1], 1000, 5000);
            _exit(0);
        }
        REAP0(c);
        get(p[0], 4000, 2000);
        close(p[1]);
        AT_EOF(p[0]);
        close(p[0]);
    }
}
MAIN(T(nothing_changes), T(asked_for_in_vain), T(several_threads), T(each_changes))
