# Declarations of the system's C interface, nothing else.
#
# What only one system has is reached through `platform.h`, so that no room above knows which system it runs on.
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

cdef extern from "time.h" nogil:
    ctypedef int clockid_t
    struct timespec:
        long tv_sec
        long tv_nsec
    int clock_gettime(clockid_t clock, timespec* out)
    int CLOCK_MONOTONIC

cdef extern from "Python.h":
    # Calls with pointers, for which nobody counts references behind our back. NULL: an exception is set.
    PyObject* PyObject_Vectorcall(PyObject* callable, PyObject** args, size_t count, PyObject* names)
    PyObject* PyObject_Call(PyObject* callable, PyObject* args, PyObject* names)
    size_t PY_VECTORCALL_ARGUMENTS_OFFSET
    bint PyCallable_Check(PyObject* thing)
    unsigned long PyThread_get_thread_ident()

cdef extern from * nogil:
    int clz64 "__builtin_clzll"(unsigned long long value)

cdef extern from "errno.h" nogil:
    int errno
    int EINTR, EAGAIN, EBADF, ECANCELED, EEXIST, ENOENT, EPERM, EINVAL, ENOSYS, ENOMEM, EMFILE, ETIMEDOUT, ENOTSUP, EIO, EBUSY

cdef extern from "unistd.h" nogil:
    int close(int fd)
    Py_ssize_t read(int fd, void* buffer, size_t size)
    Py_ssize_t write(int fd, const void* buffer, size_t size)
    void abort "abort"()

cdef extern from "sys/socket.h" nogil:
    Py_ssize_t recv(int fd, void* buffer, size_t size, int flags)
    Py_ssize_t send(int fd, const void* buffer, size_t size, int flags)
    int MSG_DONTWAIT

cdef extern from "sys/select.h" nogil:
    ctypedef struct fd_set:
        pass
    int FD_SETSIZE
    void FD_ZERO(fd_set* s)
    void FD_SET(int fd, fd_set* s)
    void FD_CLR(int fd, fd_set* s)
    bint FD_ISSET(int fd, fd_set* s)
    int pselect(int count, fd_set* readable, fd_set* writable, fd_set* exceptional, const timespec* timeout, void* mask)

cdef extern from "poll.h" nogil:
    struct pollfd:
        int fd
        short events
        short revents
    int poll(pollfd* fds, unsigned long count, int timeout_ms)
    short POLLIN, POLLOUT, POLLERR, POLLHUP, POLLNVAL, POLLPRI

cdef extern from "pthread.h" nogil:
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    ctypedef unsigned long pthread_t
    int pthread_mutex_init(pthread_mutex_t* lock, void* attributes)
    int pthread_mutex_destroy(pthread_mutex_t* lock)
    int pthread_mutex_lock(pthread_mutex_t* lock)
    int pthread_mutex_unlock(pthread_mutex_t* lock)
    int pthread_cond_destroy(pthread_cond_t* condition)
    int pthread_cond_signal(pthread_cond_t* condition)
    int pthread_cond_broadcast(pthread_cond_t* condition)

cdef extern from "platform.h" nogil:
    # One epoll interface on every system: where there is no epoll, platform_epoll_create fails with ENOSYS.
    bint PENSTOCK_PROBES
    struct platform_epoll_event:
        uint32_t events
        uint64_t token
    int PLATFORM_HAS_EPOLL
    uint32_t PLATFORM_EPOLLIN, PLATFORM_EPOLLOUT, PLATFORM_EPOLLERR, PLATFORM_EPOLLHUP, PLATFORM_EPOLLPRI, PLATFORM_EPOLLET
    int PLATFORM_EPOLL_ADD, PLATFORM_EPOLL_MOD, PLATFORM_EPOLL_DEL
    int platform_epoll_create()
    int platform_epoll_ctl(int epoll, int operation, int fd, uint32_t events, uint64_t token)
    int platform_epoll_wait(int epoll, void* events, int capacity, int64_t timeout_ns, int* coarse)
    size_t platform_epoll_event_size()
    uint32_t platform_epoll_events_at(const void* events, int index)
    uint64_t platform_epoll_token_at(const void* events, int index)
    # A waker is an eventfd where there is one (then both ends are the same descriptor), else a pipe.
    # 0, -EBADF, or -EPERM for a file whose readiness means nothing (regular files, directories).
    int platform_can_wait(int fd)
    int64_t platform_unread(int fd)
    int platform_waker_open(int* ends)
    int platform_pipe_open(int* ends)
    # Waits on a condition until an instant of the monotonic clock.
    int platform_cond_init(pthread_cond_t* condition)
    int platform_cond_wait_until(pthread_cond_t* condition, pthread_mutex_t* lock, int64_t deadline_ns)
    # Accepts a connection that is non-blocking and closed on exec.
    int platform_accept(int listener)
    # Sends without raising SIGPIPE.
    Py_ssize_t platform_send(int fd, const void* buffer, size_t size)
    # Sends from a file at an offset. 0: the file ends there.
    Py_ssize_t platform_sendfile(int fd, int file, int64_t offset, size_t size)
    # A file without a name, in the folder for such files.
    int platform_nameless_file()
    # How long ago the system received the last data of a connection.
    int64_t platform_data_age_ns(int fd)
    # Counts the forks that this process is away from the one that loaded the library.
    int platform_watch_forks()
    uint32_t platform_fork_count()
    const uint32_t* platform_fork_counter()
    int platform_atomic_load(const int* value)
    void platform_atomic_store(int* value, int to)
