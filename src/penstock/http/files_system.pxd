# Declarations of the system's interface to files, nothing else. What only one system has is reached through platform.h.
from libc.stdint cimport int64_t, uint64_t

ctypedef const char* text_t             # bytes that somebody else owns, as the system's calls take them
ctypedef const unsigned char* bytes_t   # ... and as they are compared

cdef extern from "errno.h" nogil:
    int EACCES, EAGAIN, EEXIST, EINTR, EINVAL, ELOOP, EMFILE, EMLINK, ENAMETOOLONG, ENFILE, ENODEV, ENOENT
    int ENOMEM, ENOSYS, ENOTDIR, ENXIO, EPERM, EWOULDBLOCK, EXDEV, errno

cdef extern from "fcntl.h" nogil:
    int O_RDONLY, O_NONBLOCK, O_NOCTTY, O_CLOEXEC, O_NOFOLLOW, O_DIRECTORY
    int openat(int directory, const char* path, int flags)
    int open(const char* path, int flags)

cdef extern from "unistd.h" nogil:
    int close(int fd)
    int dup(int fd)
    Py_ssize_t pread(int fd, void* buffer, size_t size, int64_t offset)
    Py_ssize_t readlinkat(int directory, const char* path, char* buffer, size_t size)

cdef extern from "platform.h" nogil:
    int PLATFORM_O_SEARCH
    struct platform_about:
        bint regular
        bint directory
        uint64_t device
        uint64_t inode
        int64_t size
        int64_t modified_ns
    int platform_open_beneath(int root, const char* path, int flags)
    int platform_about_file(int fd, platform_about* about)
    int platform_about_path(const char* path, platform_about* about)
    int64_t platform_wall_ns()
