/* System calls that fail on purpose: put in front of the C library's by the loader, in a process that a test started.
 *
 * faults_arm(seed, per_mille, kinds) starts it; before that, and for descriptors that are not watched by a loop, every call
 * is the system's. The n-th call's fate depends on the seed alone. The product is the one that is shipped: nothing is
 * compiled in. Each fault is one that a kernel may show; what a kernel owes afterwards is kept: a connect that was
 * interrupted goes on, and an edge-triggered descriptor that would block is reported when it does not.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { INTERRUPT = 1, BLOCK = 2, SHORT = 4, RESET = 8, STARVE = 16, POLL = 32, REFUSE = 64, KINDS = 7 };

#define CALLS(X) \
    X(recv) X(read) X(recvmsg) X(send) X(sendto) X(sendmsg) X(write) X(sendfile) X(accept4) X(connect) X(socket) \
    X(eventfd) X(pipe) X(epoll_create1) X(epoll_ctl) X(epoll_wait) X(epoll_pwait2) X(poll) X(pselect)
#define AS_NUMBER(name) CALL_##name,
#define AS_NAME(name) #name " "
enum { CALLS(AS_NUMBER) CALL_COUNT };

static uint64_t state;
static int rate, wanted;
static long struck[KINDS], struck_at[CALL_COUNT];

void faults_arm(uint64_t seed, int per_mille, int kinds) {
    state = seed * 2 + 1;
    rate = per_mille;
    wanted = kinds;
}

long faults_struck(int kind) { return struck[kind]; }
long faults_struck_at(int call) { return struck_at[call]; }
const char *faults_calls(void) { return CALLS(AS_NAME); }

static uint32_t chance(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

/* What happens to a call: one of the kinds that are wanted and possible there; 0: what the system does. */
static int fate(int call, int possible) {
    possible &= wanted;
    if (!rate || !possible || (int)(chance() % 1000) >= rate) return 0;
    for (;;) {
        int index = (int)(chance() % KINDS);
        if (possible & (1 << index)) {
            __atomic_add_fetch(&struck[index], 1, __ATOMIC_RELAXED);
            __atomic_add_fetch(&struck_at[call], 1, __ATOMIC_RELAXED);
            return 1 << index;
        }
    }
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, #name)

#define FAIL(number) do { errno = (number); return -1; } while (0)

/* ---- descriptors ------------------------------------------------------------------------------------------------- */

/* A waker's word. It is never lied about: a wake that is lost because the pipe is "full" is a real loss. */
enum { WAKE_BYTES = 8, NUMBERS = 1 << 16 };

static struct { int epoll; struct epoll_event event; } edges[NUMBERS];

static int some(int mode, int fd) {
    struct stat about;
    int before = errno;
    int is = fd > 2 && fstat(fd, &about) == 0 && (int)(about.st_mode & S_IFMT) == mode;
    errno = before;
    return is;
}

static int is_socket(int fd) { return some(S_IFSOCK, fd); }
static int is_pipe(int fd) { return some(S_IFIFO, fd); }
static int is_nameless(int fd) { return some(0, fd); } /* an eventfd, among others */

/* A piece of a datagram would be another datagram. */
static int is_stream(int fd) {
    int type = 0, before = errno;
    socklen_t size = sizeof type;
    int is = is_pipe(fd) || (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM);
    errno = before;
    return is;
}

static int moving(int call, int fd, int possible) {
    if (!rate || !(is_socket(fd) || is_pipe(fd))) return 0;
    return fate(call, is_stream(fd) ? possible : possible & ~(SHORT | RESET));
}

static size_t piece_of(size_t size) { return size > 1 ? 1 + chance() % (size - 1) : size; }

int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event) {
    REAL(epoll_ctl);
    /* Only adding takes memory. */
    if (operation == EPOLL_CTL_ADD && fate(CALL_epoll_ctl, REFUSE)) FAIL(chance() % 2 ? ENOMEM : ENOSPC);
    int done = real(epoll, operation, fd, event);
    if (done == 0 && fd >= 0 && fd < NUMBERS) {
        memset(&edges[fd], 0, sizeof edges[fd]);
        if (operation != EPOLL_CTL_DEL && event->events & EPOLLET) {
            edges[fd].epoll = epoll;
            edges[fd].event = *event;
        }
    }
    return done;
}

static void look_again(int fd) {
    REAL(epoll_ctl);
    if (fd >= 0 && fd < NUMBERS && edges[fd].event.events) real(edges[fd].epoll, EPOLL_CTL_MOD, fd, &edges[fd].event);
}

/* Who was told "would block" is told when that is over: with edges only by somebody who makes the kernel look again. */
static int would_block(int fd) {
    look_again(fd);
    FAIL(EAGAIN);
}

/* ---- moving bytes ------------------------------------------------------------------------------------------------ */

ssize_t recv(int fd, void *buffer, size_t size, int flags) {
    REAL(recv);
    switch (moving(CALL_recv, fd, INTERRUPT | BLOCK | SHORT | RESET | STARVE)) {
    case INTERRUPT: FAIL(EINTR);
    case BLOCK: return would_block(fd);
    case RESET: FAIL(ECONNRESET);
    case STARVE: FAIL(ENOMEM);
    case SHORT: return real(fd, buffer, size > 1 ? 1 + chance() % 7 : size, flags);
    default: return real(fd, buffer, size, flags);
    }
}

ssize_t read(int fd, void *buffer, size_t size) {
    REAL(read);
    int what = rate && is_nameless(fd) ? fate(CALL_read, INTERRUPT)
                                       : moving(CALL_read, fd, INTERRUPT | BLOCK | SHORT | RESET);
    switch (what) {
    case INTERRUPT: FAIL(EINTR);
    case BLOCK: return would_block(fd);
    case RESET: FAIL(is_socket(fd) ? ECONNRESET : EIO);
    case SHORT: return real(fd, buffer, piece_of(size));
    default: return real(fd, buffer, size);
    }
}

ssize_t recvmsg(int fd, struct msghdr *message, int flags) {
    REAL(recvmsg);
    struct iovec *first = message->msg_iov, whole;
    size_t count = message->msg_iovlen;
    ssize_t got;
    switch (moving(CALL_recvmsg, fd, INTERRUPT | BLOCK | (count ? SHORT : 0) | RESET)) {
    case INTERRUPT: FAIL(EINTR);
    case BLOCK: return would_block(fd);
    case RESET: FAIL(ECONNRESET);
    case SHORT:
        whole = *first;
        first->iov_len = piece_of(first->iov_len);
        message->msg_iovlen = 1;
        got = real(fd, message, flags);
        *first = whole;
        message->msg_iovlen = count;
        return got;
    default: return real(fd, message, flags);
    }
}

ssize_t send(int fd, const void *buffer, size_t size, int flags) {
    REAL(send);
    switch (moving(CALL_send, fd, INTERRUPT | BLOCK | SHORT | RESET | STARVE)) {
    case INTERRUPT: FAIL(EINTR);
    case BLOCK: return would_block(fd);
    case RESET: FAIL(EPIPE);
    case STARVE: FAIL(ENOBUFS);
    case SHORT: return real(fd, buffer, piece_of(size), flags);
    default: return real(fd, buffer, size, flags);
    }
}

ssize_t sendto(int fd, const void *buffer, size_t size, int flags, const struct sockaddr *address, socklen_t length) {
    REAL(sendto);
    switch (moving(CALL_sendto, fd, INTERRUPT | BLOCK | STARVE)) {
    case INTERRUPT: FAIL(EINTR);
    case BLOCK: return would_block(fd);
    case STARVE: FAIL(ENOBUFS);
    default: return real(fd, buffer, size, flags, address, length);
    }
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    REAL(sendmsg);
    int possible = INTERRUPT | BLOCK | RESET | STARVE | (message->msg_iovlen ? SHORT : 0);
    switch (moving(CALL_sendmsg, fd, possible)) {
    case INTERRUPT: FAIL(EINTR);
    case BLOCK: return would_block(fd);
    case RESET: FAIL(ECONNRESET);
    case STARVE: FAIL(ENOBUFS);
    case SHORT: {
        struct msghdr first = *message;
        struct iovec piece = message->msg_iov[0];
        piece.iov_len = piece_of(piece.iov_len);
        first.msg_iov = &piece;
        first.msg_iovlen = 1;
        return real(fd, &first, flags);
    }
    default: return real(fd, message, flags);
    }
}

ssize_t write(int fd, const void *buffer, size_t size) {
    REAL(write);
    int what = 0;
    if (rate && (is_nameless(fd) || (is_pipe(fd) && size <= WAKE_BYTES))) what = fate(CALL_write, INTERRUPT);
    else what = moving(CALL_write, fd, INTERRUPT | BLOCK | SHORT | RESET);
    switch (what) {
    case INTERRUPT: FAIL(EINTR);
    case BLOCK: return would_block(fd);
    case RESET: FAIL(EPIPE);
    case SHORT: return real(fd, buffer, piece_of(size));
    default: return real(fd, buffer, size);
    }
}

ssize_t sendfile64(int fd, int file, off64_t *offset, size_t size) {
    REAL(sendfile64);
    switch (moving(CALL_sendfile, fd, INTERRUPT | BLOCK | SHORT | RESET | STARVE)) {
    case INTERRUPT: FAIL(EINTR);
    case BLOCK: return would_block(fd);
    case RESET: FAIL(EPIPE);
    case STARVE: FAIL(ENOBUFS);
    case SHORT: return real(fd, file, offset, piece_of(size));
    default: return real(fd, file, offset, size);
    }
}

#if defined(__LP64__)
ssize_t sendfile(int fd, int file, off_t *offset, size_t size) { return sendfile64(fd, file, (off64_t *)offset, size); }
#endif

/* ---- connections and descriptors --------------------------------------------------------------------------------- */

static int starved(void) {
    static const int reasons[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM};
    return reasons[chance() % 4];
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
    REAL(accept4);
    /* It never says falsely that nobody waits; a lie of another kind is enough. */
    switch (fate(CALL_accept4, INTERRUPT | RESET | STARVE)) {
    case INTERRUPT: FAIL(EINTR);
    case STARVE: FAIL(starved());
    case RESET: {
        /* The peer has given up: the system takes it out of the queue and says so. */
        int taken = real(fd, address, size, flags);
        if (taken >= 0) close(taken);
        FAIL(taken < 0 ? errno : ECONNABORTED);
    }
    default: return real(fd, address, size, flags);
    }
}

int connect(int fd, const struct sockaddr *address, socklen_t size) {
    REAL(connect);
    int done;
    switch (fate(CALL_connect, INTERRUPT | RESET | STARVE)) {
    case INTERRUPT:
        done = real(fd, address, size);
        if (done == 0 || errno == EINPROGRESS) FAIL(EINTR);
        return done;
    case RESET: FAIL(ECONNREFUSED);
    case STARVE: FAIL(ENOBUFS);
    default: return real(fd, address, size);
    }
}

int socket(int family, int type, int protocol) {
    REAL(socket);
    if (fate(CALL_socket, STARVE)) FAIL(starved());
    return real(family, type, protocol);
}

int eventfd(unsigned int first, int flags) {
    REAL(eventfd);
    if (fate(CALL_eventfd, STARVE)) FAIL(chance() % 2 ? EMFILE : ENFILE);
    return real(first, flags);
}

int pipe(int ends[2]) {
    REAL(pipe);
    if (fate(CALL_pipe, STARVE)) FAIL(chance() % 2 ? EMFILE : ENFILE);
    return real(ends);
}

int epoll_create1(int flags) {
    REAL(epoll_create1);
    if (fate(CALL_epoll_create1, STARVE)) FAIL(chance() % 2 ? EMFILE : ENFILE);
    return real(flags);
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

int epoll_wait(int epoll, struct epoll_event *events, int capacity, int timeout_ms) {
    REAL(epoll_wait);
    if (fate(CALL_epoll_wait, POLL)) FAIL(EINTR);
    return real(epoll, events, capacity, timeout_ms);
}

/* epoll_pwait2 is called by its number. Whatever the call is, it has at most six words. */
long syscall(long number, ...) {
    REAL(syscall);
    long words[6];
    va_list all;
    va_start(all, number);
    for (int index = 0; index < 6; index++) words[index] = va_arg(all, long);
    va_end(all);
#ifdef SYS_epoll_pwait2
    if (number == SYS_epoll_pwait2 && fate(CALL_epoll_pwait2, POLL)) FAIL(EINTR);
#endif
    return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
    REAL(poll);
    if (fate(CALL_poll, POLL)) {
        /* The interpreter takes an interrupt of a look without a wait for "nothing is ready": a word to keep, too. */
        for (nfds_t index = 0; index < count; index++) look_again(fds[index].fd);
        FAIL(EINTR);
    }
    return real(fds, count, timeout_ms);
}

int pselect(int count, fd_set *readable, fd_set *writable, fd_set *exceptional, const struct timespec *wait,
            const sigset_t *mask) {
    REAL(pselect);
    if (fate(CALL_pselect, POLL)) FAIL(EINTR);
    return real(count, readable, writable, exceptional, wait, mask);
}
