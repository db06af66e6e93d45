/* System calls that fail on purpose: put in front of the C library's by the loader, in a process that a test started.
 *
 * faults_arm(seed, per_mille, kinds) starts it; before that, and for descriptors that are no sockets, every call is the
 * system's. The n-th call's fate depends on the seed alone. The product is the one that is shipped: nothing is compiled in.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { INTERRUPT = 1, BLOCK = 2, SHORT = 4, RESET = 8, STARVE = 16, POLL = 32 };

static uint64_t state;
static int rate, wanted;
static long struck[6];

void faults_arm(uint64_t seed, int per_mille, int kinds) {
    state = seed * 2 + 1;
    rate = per_mille;
    wanted = kinds;
}

long faults_struck(int index) { return struck[index]; }

static uint32_t chance(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33);
}

static int strikes(int fd) {
    struct stat about;
    if (!rate || (int)(chance() % 1000) >= rate) return 0;
    return fd < 0 || (fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode));
}

/* One of the kinds that are wanted and possible here; 0 for none. */
static int kind_of(int possible) {
    possible &= wanted;
    if (!possible) return 0;
    for (;;) {
        int index = (int)(chance() % 6);
        if (possible & (1 << index)) {
            __atomic_add_fetch(&struck[index], 1, __ATOMIC_RELAXED);
            return 1 << index;
        }
    }
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(real))dlsym(RTLD_NEXT, #name)

#define FAIL(number) do { errno = (number); return -1; } while (0)

ssize_t recv(int fd, void *buffer, size_t size, int flags) {
    REAL(recv);
    if (!strikes(fd)) return real(fd, buffer, size, flags);
    switch (kind_of(INTERRUPT | BLOCK | SHORT | RESET)) {
    case INTERRUPT: FAIL(EINTR);
    case BLOCK: FAIL(EAGAIN);
    case RESET: FAIL(ECONNRESET);
    case SHORT: return real(fd, buffer, size > 1 ? 1 + chance() % 7 : size, flags);
    default: return real(fd, buffer, size, flags);
    }
}

ssize_t send(int fd, const void *buffer, size_t size, int flags) {
    REAL(send);
    if (!strikes(fd)) return real(fd, buffer, size, flags);
    switch (kind_of(INTERRUPT | BLOCK | SHORT | RESET | STARVE)) {
    case INTERRUPT: FAIL(EINTR);
    case BLOCK: FAIL(EAGAIN);
    case RESET: FAIL(EPIPE);
    case STARVE: FAIL(ENOBUFS);
    case SHORT: return real(fd, buffer, size > 1 ? 1 + chance() % (size - 1) : size, flags);
    default: return real(fd, buffer, size, flags);
    }
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    REAL(sendmsg);
    if (!strikes(fd)) return real(fd, message, flags);
    switch (kind_of(INTERRUPT | BLOCK | SHORT | RESET)) {
    case INTERRUPT: FAIL(EINTR);
    case BLOCK: FAIL(EAGAIN);
    case RESET: FAIL(ECONNRESET);
    case SHORT: {
        struct msghdr first = *message;
        struct iovec piece = message->msg_iov[0];
        if (piece.iov_len > 1) piece.iov_len = 1 + chance() % (piece.iov_len - 1);
        first.msg_iov = &piece;
        first.msg_iovlen = 1;
        return real(fd, &first, flags);
    }
    default: return real(fd, message, flags);
    }
}

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) {
    REAL(accept4);
    if (!strikes(fd)) return real(fd, address, size, flags);
    static const int starved[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM};
    switch (kind_of(INTERRUPT | RESET | STARVE)) {
    case INTERRUPT: FAIL(EINTR);
    case STARVE: FAIL(starved[chance() % 4]);
    case RESET: {
        /* The peer has given up: the system takes it out of the queue and says so. */
        int taken = real(fd, address, size, flags);
        if (taken >= 0) close(taken);
        FAIL(taken < 0 ? errno : ECONNABORTED);
    }
    default: return real(fd, address, size, flags);
    }
}

int epoll_wait(int epoll, struct epoll_event *events, int capacity, int timeout_ms) {
    REAL(epoll_wait);
    if (strikes(-1) && kind_of(POLL)) FAIL(EINTR);
    return real(epoll, events, capacity, timeout_ms);
}
