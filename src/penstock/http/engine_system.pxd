# What the engine asks of the system about its peers and files.
from libc.stdint cimport int64_t, uint8_t, uint64_t

cdef extern from "unistd.h" nogil:
    Py_ssize_t pread(int fd, void* buffer, size_t size, long long offset)

cdef extern from * nogil:
    """
    #include <arpa/inet.h>
    #include <string.h>
    #include <netinet/in.h>
    #include <sys/socket.h>
    #include <sys/un.h>
    /* The address of the peer (or of this end) as text, at most `room` bytes and no NUL; 0: it has none. An IPv4 address
     * that came by IPv6 is shown as what it is. */
    static inline uint8_t peer_text(int fd, char *out, size_t room, int own) {
        struct sockaddr_storage storage;
        socklen_t size = sizeof storage;
        char text[INET6_ADDRSTRLEN];
        int failed = own ? getsockname(fd, (struct sockaddr *)&storage, &size) : getpeername(fd, (struct sockaddr *)&storage, &size);
        if (failed < 0) return 0;
        if (storage.ss_family == AF_INET) {
            if (!inet_ntop(AF_INET, &((struct sockaddr_in *)&storage)->sin_addr, text, sizeof text)) return 0;
        } else if (storage.ss_family == AF_INET6) {
            const struct in6_addr *address = &((struct sockaddr_in6 *)&storage)->sin6_addr;
            if (IN6_IS_ADDR_V4MAPPED(address)) {
                if (!inet_ntop(AF_INET, address->s6_addr + 12, text, sizeof text)) return 0;
            } else if (!inet_ntop(AF_INET6, address, text, sizeof text)) return 0;
        } else {
            memcpy(text, "unix", 5);
        }
        size_t length = strlen(text);
        if (length > room) length = room;
        memcpy(out, text, length);
        return (uint8_t)length;
    }
    /* A number that is the same for all connections of one host: the address, or its /64 for IPv6, mixed. */
    static inline uint64_t peer_hash(int fd) {
        struct sockaddr_storage storage;
        socklen_t size = sizeof storage;
        uint64_t hash = 0;
        if (getpeername(fd, (struct sockaddr *)&storage, &size) < 0) return 1;
        if (storage.ss_family == AF_INET) {
            hash = ((struct sockaddr_in *)&storage)->sin_addr.s_addr;
        } else if (storage.ss_family == AF_INET6) {
            const struct in6_addr *address = &((struct sockaddr_in6 *)&storage)->sin6_addr;
            if (IN6_IS_ADDR_V4MAPPED(address)) memcpy(&hash, address->s6_addr + 12, 4);
            else memcpy(&hash, address->s6_addr, 8);
        }
        hash ^= hash >> 33; hash *= 0xff51afd7ed558ccdULL;
        hash ^= hash >> 33; hash *= 0xc4ceb9fe1a85ec53ULL;
        hash ^= hash >> 33;
        return hash ? hash : 1;
    }
    """
    uint8_t peer_text(int fd, char* out, size_t room, bint own)
    uint64_t peer_hash(int fd)
