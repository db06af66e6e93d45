/* The one place where systems differ.
 *
 * Each function has one form for Linux and one for everybody else; no room above knows which one it got.
 * It must not know what a loop is: descriptors, times and error numbers only. All functions return -errno on failure.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* accept4 */
#endif
#ifndef PENSTOCK_PLATFORM_H
#define PENSTOCK_PLATFORM_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifdef __linux__
#define PLATFORM_HAS_EPOLL 1
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#define PLATFORM_EPOLLIN EPOLLIN
#define PLATFORM_EPOLLOUT EPOLLOUT
#define PLATFORM_EPOLLERR EPOLLERR
#define PLATFORM_EPOLLHUP EPOLLHUP
#define PLATFORM_EPOLLPRI EPOLLPRI
#define PLATFORM_EPOLLET ((uint32_t)EPOLLET)
#define PLATFORM_EPOLL_ADD EPOLL_CTL_ADD
#define PLATFORM_EPOLL_MOD EPOLL_CTL_MOD
#define PLATFORM_EPOLL_DEL EPOLL_CTL_DEL
#else
#define PLATFORM_HAS_EPOLL 0
#define PLATFORM_EPOLLIN 1u
#define PLATFORM_EPOLLOUT 4u
#define PLATFORM_EPOLLERR 8u
#define PLATFORM_EPOLLHUP 16u
#define PLATFORM_EPOLLPRI 2u
#define PLATFORM_EPOLLET (1u << 31)
#define PLATFORM_EPOLL_ADD 1
#define PLATFORM_EPOLL_MOD 3
#define PLATFORM_EPOLL_DEL 2
#endif

#define PLATFORM_NS_PER_S 1000000000LL
/* Seconds whose nanoseconds fit into 64 bits, with room for those that are added. */
#define PLATFORM_FILE_TIME_MAX_S 9000000000LL
#define PLATFORM_NS_PER_MS 1000000LL
/* The probes are always on. Only `-Dprobes=false` leaves them out, so that their cost can be measured. */
#ifndef PENSTOCK_PROBES
#define PENSTOCK_PROBES 1
#endif

/* A longer wait than this many milliseconds does not fit epoll_wait's int. */
#define PLATFORM_WAIT_MS_MAX 2000000000LL

/* ---- epoll ------------------------------------------------------------------------------------------------------- */

static inline int platform_epoll_create(void) {
#if PLATFORM_HAS_EPOLL
    int fd = epoll_create1(EPOLL_CLOEXEC);
    return fd < 0 ? -errno : fd;
#else
    return -ENOSYS;
#endif
}

static inline int platform_epoll_ctl(int epoll, int operation, int fd, uint32_t events, uint64_t token) {
#if PLATFORM_HAS_EPOLL
    struct epoll_event event;
    memset(&event, 0, sizeof event);
    event.events = events;
    event.data.u64 = token;
    return epoll_ctl(epoll, operation, fd, &event) < 0 ? -errno : 0;
#else
    (void)epoll; (void)operation; (void)fd; (void)events; (void)token;
    return -ENOSYS;
#endif
}

static inline size_t platform_epoll_event_size(void) {
#if PLATFORM_HAS_EPOLL
    return sizeof(struct epoll_event);
#else
    return 16;
#endif
}

static inline uint32_t platform_epoll_events_at(const void *events, int index) {
#if PLATFORM_HAS_EPOLL
    return ((const struct epoll_event *)events)[index].events;
#else
    (void)events; (void)index;
    return 0;
#endif
}

static inline uint64_t platform_epoll_token_at(const void *events, int index) {
#if PLATFORM_HAS_EPOLL
    return ((const struct epoll_event *)events)[index].data.u64;
#else
    (void)events; (void)index;
    return 0;
#endif
}

/* Waits in nanoseconds by epoll_pwait2; where the running kernel lacks it, `*coarse` becomes 1 and milliseconds are used,
 * rounded up so that no wait ends early. A negative timeout waits for ever. */
static inline int platform_epoll_wait(int epoll, void *events, int capacity, int64_t timeout_ns, int *coarse) {
#if PLATFORM_HAS_EPOLL
    int count;
#ifdef SYS_epoll_pwait2
    if (!*coarse && timeout_ns > 0) {
        struct timespec wait = {timeout_ns / PLATFORM_NS_PER_S, timeout_ns % PLATFORM_NS_PER_S};
        count = (int)syscall(SYS_epoll_pwait2, epoll, events, capacity, &wait, NULL, (size_t)0);
        if (count >= 0) return count;
        if (errno != ENOSYS && errno != EPERM) return -errno;
        *coarse = 1; /* an old kernel, or a sandbox that does not know the call */
    }
#else
    *coarse = 1;
#endif
    int64_t ms = timeout_ns < 0 ? -1 : (timeout_ns + PLATFORM_NS_PER_MS - 1) / PLATFORM_NS_PER_MS;
    if (ms > PLATFORM_WAIT_MS_MAX) ms = PLATFORM_WAIT_MS_MAX;
    count = epoll_wait(epoll, (struct epoll_event *)events, capacity, (int)ms);
    return count < 0 ? -errno : count;
#else
    (void)epoll; (void)events; (void)capacity; (void)timeout_ns; (void)coarse;
    return -ENOSYS;
#endif
}

/* ---- descriptors -------------------------------------------------------------------------------------------------- */

/* 0, -EBADF, or -EPERM for what is always ready as far as a kernel can tell. */
static inline int platform_can_wait(int fd) {
    struct stat about;
    if (fstat(fd, &about) < 0) return -errno;
    return S_ISREG(about.st_mode) || S_ISDIR(about.st_mode) ? -EPERM : 0;
}

/* Bytes that a read would give now; 0 where the kernel does not tell. */
static inline int64_t platform_unread(int fd) {
    int count = 0;
    return ioctl(fd, FIONREAD, &count) < 0 || count < 0 ? 0 : count;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

/* Opens a directory only to go on from it: where the system can, without the right to list it. */
#if defined(O_PATH)
#define PLATFORM_O_SEARCH O_PATH
#elif defined(O_SEARCH)
#define PLATFORM_O_SEARCH O_SEARCH
#else
#define PLATFORM_O_SEARCH O_RDONLY
#endif

/* How often a path is tried again after something was renamed on the way. */
#define PLATFORM_BENEATH_TRIES 8

/* Opens a path that cannot lead out of `root`: -EXDEV if it would; -ENOSYS where the kernel cannot promise that. */
static inline int platform_open_beneath(int root, const char *path, int flags) {
#if defined(__linux__) && defined(SYS_openat2)
    /* RESOLVE_NO_MAGICLINKS and RESOLVE_BENEATH; written out, because older headers lack them. */
    struct { uint64_t flags, mode, resolve; } how = {(uint64_t)flags, 0, 0x02 | 0x08};
    for (int tries = 0; tries < PLATFORM_BENEATH_TRIES; tries++) {
        int fd = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
        if (fd >= 0) return fd;
        if (errno == EPERM) return -ENOSYS; /* a sandbox that does not know the call */
        if (errno != EAGAIN && errno != EINTR) return -errno;
    }
    return -EAGAIN;
#else
    (void)root; (void)path; (void)flags;
    return -ENOSYS;
#endif
}

/* What a file is: enough to tell whether it is still the same. */
struct platform_about {
    int regular, directory;
    uint64_t device, inode;
    int64_t size, modified_ns;
};

static inline void platform_about_from(const struct stat *from, struct platform_about *about) {
#ifdef __APPLE__
    const struct timespec *modified = &from->st_mtimespec;
#else
    const struct timespec *modified = &from->st_mtim;
#endif
    about->regular = S_ISREG(from->st_mode);
    about->directory = S_ISDIR(from->st_mode);
    about->device = (uint64_t)from->st_dev;
    about->inode = (uint64_t)from->st_ino;
    about->size = (int64_t)from->st_size;
    /* A file may say that it is of the year 2446; nanoseconds in 64 bits end in 2262. */
    int64_t seconds = (int64_t)modified->tv_sec;
    if (seconds > PLATFORM_FILE_TIME_MAX_S) seconds = PLATFORM_FILE_TIME_MAX_S;
    if (seconds < -PLATFORM_FILE_TIME_MAX_S) seconds = -PLATFORM_FILE_TIME_MAX_S;
    about->modified_ns = seconds * PLATFORM_NS_PER_S + modified->tv_nsec;
}

static inline int platform_about_file(int fd, struct platform_about *about) {
    struct stat found;
    if (fstat(fd, &found) < 0) return -errno;
    platform_about_from(&found, about);
    return 0;
}

static inline int platform_about_path(const char *path, struct platform_about *about) {
    struct stat found;
    if (stat(path, &found) < 0) return -errno;
    platform_about_from(&found, about);
    return 0;
}

/* The calendar's time, since 1970. */
static inline int64_t platform_wall_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * PLATFORM_NS_PER_S + now.tv_nsec;
}

/* ---- wakers ------------------------------------------------------------------------------------------------------ */

static inline int platform_make_quiet(int fd) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) return -errno;
    return 0;
}

/* A pipe, both ends non-blocking and closed on exec. */
static inline int platform_pipe_open(int *ends) {
    if (pipe(ends) < 0) return -errno;
    int failed = platform_make_quiet(ends[0]);
    if (!failed) failed = platform_make_quiet(ends[1]);
    if (failed) {
        close(ends[0]);
        close(ends[1]);
    }
    return failed;
}

/* An eventfd where there is one (both ends are then the same descriptor), else a pipe. */
static inline int platform_waker_open(int *ends) {
#ifdef __linux__
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd >= 0) {
        ends[0] = ends[1] = fd;
        return 0;
    }
#endif
    return platform_pipe_open(ends);
}

/* ---- sockets ---------------------------------------------------------------------------------------------------- */

/* Accepts a connection that is non-blocking and closed on exec. */
static inline int platform_accept(int listener) {
#ifdef __linux__
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    return fd < 0 ? -errno : fd;
#else
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) return -errno;
    int failed = platform_make_quiet(fd);
    if (failed) {
        close(fd);
        return failed;
    }
    return fd;
#endif
}

/* Sends what fits without raising SIGPIPE; -errno on failure. */
static inline ssize_t platform_send(int fd, const void *buffer, size_t size) {
#ifdef MSG_NOSIGNAL
    ssize_t sent = send(fd, buffer, size, MSG_DONTWAIT | MSG_NOSIGNAL);
#else
    ssize_t sent = send(fd, buffer, size, MSG_DONTWAIT);
#endif
    return sent < 0 ? -errno : sent;
}

/* Sends from a file, which it reads from `offset` on and not from its own place. 0: the file ends there. */
static inline ssize_t platform_sendfile(int fd, int file, int64_t offset, size_t size) {
#ifdef __linux__
    off_t place = (off_t)offset;
    ssize_t sent = sendfile(fd, file, &place, size);
    return sent < 0 ? -errno : sent;
#else
    char buffer[16384];
    ssize_t got = pread(file, buffer, size < sizeof buffer ? size : sizeof buffer, (off_t)offset);
    if (got <= 0) return got < 0 ? -errno : 0;
    return platform_send(fd, buffer, (size_t)got);
#endif
}

/* A file that has no name and is gone when it is closed; in $TMPDIR, or /tmp. */
static inline int platform_nameless_file(void) {
    const char *folder = getenv("TMPDIR");
    char path[512];
    int fd;
    if (!folder || !*folder || strlen(folder) > sizeof path - 32) folder = "/tmp";
#ifdef O_TMPFILE
    fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) return fd;
#endif
    strcpy(path, folder);
    strcat(path, "/penstock-XXXXXX");
    fd = mkstemp(path);
    if (fd < 0) return -errno;
    unlink(path);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

/* How long ago the system received the last data of a connection; 0 where it does not tell. */
static inline int64_t platform_data_age_ns(int fd) {
#ifdef __linux__
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0) return 0;
    if (size < offsetof(struct tcp_info, tcpi_last_data_recv) + sizeof info.tcpi_last_data_recv) return 0;
    return (int64_t)info.tcpi_last_data_recv * PLATFORM_NS_PER_MS;
#else
    (void)fd;
    return 0;
#endif
}

/* ---- threads and forks ------------------------------------------------------------------------------------------- */

static inline int platform_cond_init(pthread_cond_t *condition) {
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);
    if (failed) return -failed;
#ifndef __APPLE__ /* macOS has no monotonic conditions; platform_cond_wait_until waits relatively there */
    failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
#endif
    if (!failed) failed = pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
    return -failed;
}

static inline int platform_cond_wait_until(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t deadline_ns) {
    struct timespec at = {deadline_ns / PLATFORM_NS_PER_S, deadline_ns % PLATFORM_NS_PER_S};
#ifdef __APPLE__
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t rest = deadline_ns - (now.tv_sec * PLATFORM_NS_PER_S + now.tv_nsec);
    if (rest <= 0) return -ETIMEDOUT;
    at.tv_sec = rest / PLATFORM_NS_PER_S;
    at.tv_nsec = rest % PLATFORM_NS_PER_S;
    return -pthread_cond_timedwait_relative_np(condition, lock, &at);
#else
    return -pthread_cond_timedwait(condition, lock, &at);
#endif
}

/* Forks are counted per process and not per loop: a loop compares the count at its birth with the present one, so that
 * use after fork is found without a system call. This is the only variable that lives outside a loop; every compiled
 * module that includes this file has one of its own, and only loop.py uses it. */
static uint32_t platform_forks = 0;
static int platform_forks_watched = 0;

static void platform_forked(void) { platform_forks++; }

static inline int platform_watch_forks(void) {
    if (!platform_forks_watched) {
        int failed = pthread_atfork(NULL, NULL, platform_forked);
        if (failed) return -failed;
        platform_forks_watched = 1;
    }
    return 0;
}

static inline uint32_t platform_fork_count(void) { return platform_forks; }
static inline const uint32_t *platform_fork_counter(void) { return &platform_forks; }

/* ---- atomics ----------------------------------------------------------------------------------------------------- */

static inline int platform_atomic_load(const int *value) { return __atomic_load_n(value, __ATOMIC_ACQUIRE); }
static inline void platform_atomic_store(int *value, int to) { __atomic_store_n(value, to, __ATOMIC_RELEASE); }

#endif
