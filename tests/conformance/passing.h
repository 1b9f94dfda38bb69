/* Shared by programs that pass a descriptor to another process (SCM_RIGHTS), which include check.h first. */
static void passes(int s, int fd) {
    char c = 'x', room[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec v = {&c, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    *h = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(h), &fd, sizeof fd);
    IS(sendmsg(s, &m, 0), 1);
}
static int takes_passed(int s) {
    char c, room[CMSG_SPACE(sizeof(int))];
    struct iovec v = {&c, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    int fd;
    IS(recvmsg(s, &m, 0), 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}
