# Declarations of the system's socket interface, nothing else. What only one system has is reached through core/.
from libc.stdint cimport int64_t, uint16_t, uint32_t

cdef extern from "errno.h" nogil:
    int EPIPE, ECONNRESET, ENOBUFS, ENFILE, EWOULDBLOCK, ECONNABORTED, EPROTO, ENOTCONN, ECONNREFUSED, EINPROGRESS

cdef extern from "sys/types.h" nogil:
    ctypedef unsigned int socklen_t

cdef extern from "sys/uio.h" nogil:
    struct iovec:
        void* iov_base
        size_t iov_len

cdef extern from "sys/socket.h" nogil:
    struct sockaddr:
        uint16_t sa_family
    struct sockaddr_storage:
        uint16_t ss_family
    struct msghdr:
        void* msg_name
        socklen_t msg_namelen
        iovec* msg_iov
        size_t msg_iovlen
    struct linger_s "linger":
        int l_onoff
        int l_linger
    Py_ssize_t sendmsg(int fd, const msghdr* message, int flags)
    int getpeername(int fd, sockaddr* address, socklen_t* size)
    int setsockopt(int fd, int level, int name, const void* value, socklen_t size)
    int getsockopt(int fd, int level, int name, void* value, socklen_t* size)
    int shutdown(int fd, int how)
    int SHUT_WR, SOL_SOCKET, SO_ERROR, SO_LINGER, MSG_DONTWAIT, AF_INET, AF_INET6

cdef extern from *:
    """
    /* Where a send cannot be asked to raise no SIGPIPE, Python has switched that signal off for the process. */
    #ifdef MSG_NOSIGNAL
    #define NET_SEND_FLAGS (MSG_DONTWAIT | MSG_NOSIGNAL)
    #else
    #define NET_SEND_FLAGS MSG_DONTWAIT
    #endif
    /* More follows at once: do not send a small packet for this. */
    #ifdef MSG_MORE
    #define NET_MORE_FLAG MSG_MORE
    #else
    #define NET_MORE_FLAG 0
    #endif
    """
    int NET_SEND_FLAGS, NET_MORE_FLAG

cdef extern from * nogil:
    """
    static inline void message_clear_control(struct msghdr *message) {
        message->msg_control = 0;
        message->msg_controllen = 0;
        message->msg_flags = 0;
    }
    """
    void message_clear_control(msghdr* message)

cdef extern from "Python.h":
    # A view of the memory of an object; -1: it offers none, and an exception is set.
    ctypedef struct view_s "Py_buffer":
        void* buf
        Py_ssize_t len
    int PyObject_GetBuffer(object thing, view_s* view, int flags) except -1
    void PyBuffer_Release(view_s* view)
    int PYBUF_SIMPLE "PyBUF_SIMPLE"

cdef extern from "netinet/in.h" nogil:
    struct in_addr:
        uint32_t s_addr
    struct sockaddr_in:
        in_addr sin_addr
    struct in6_addr:
        unsigned char s6_addr[16]
    struct sockaddr_in6:
        in6_addr sin6_addr
    int IPPROTO_TCP

cdef extern from "netinet/tcp.h" nogil:
    int TCP_NODELAY

cdef extern from * nogil:
    # The sum of all write buffers belongs to several threads.
    int64_t atomic_add "__atomic_add_fetch"(int64_t* value, int64_t by, int order)
    int64_t atomic_read "__atomic_load_n"(const int64_t* value, int order)
    int ATOMIC_RELAXED "__ATOMIC_RELAXED"
