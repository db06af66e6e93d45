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
    /* The address of the peer in sixteen bytes, IPv4 as ::ffff:a.b.c.d. 0: there is none, 1: here it is, 2: a Unix socket. */
    static inline uint8_t peer_address(int fd, uint8_t *out) {
        struct sockaddr_storage storage;
        socklen_t size = sizeof storage;
        memset(out, 0, 16);
        if (getpeername(fd, (struct sockaddr *)&storage, &size) < 0) return 0;
        if (storage.ss_family == AF_INET) {
            out[10] = out[11] = 0xff;
            memcpy(out + 12, &((struct sockaddr_in *)&storage)->sin_addr, 4);
        } else if (storage.ss_family == AF_INET6) {
            memcpy(out, &((struct sockaddr_in6 *)&storage)->sin6_addr, 16);
        } else return 2;
        return 1;
    }
    /* Whether sixteen bytes are an IPv4 address. */
    static inline int address_is_four(const uint8_t *address) {
        static const uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255};
        return memcmp(address, prefix, 12) == 0;
    }
    /* A number that is the same for all connections of one host: the address, or its /64 for IPv6, mixed. */
    static inline uint64_t address_hash(const uint8_t *address) {
        uint64_t hash = 0;
        if (address_is_four(address)) memcpy(&hash, address + 12, 4);
        else memcpy(&hash, address, 8);
        hash ^= hash >> 33; hash *= 0xff51afd7ed558ccdULL;
        hash ^= hash >> 33; hash *= 0xc4ceb9fe1a85ec53ULL;
        hash ^= hash >> 33;
        return hash ? hash : 1;
    }
    static inline uint64_t peer_hash(int fd) {
        uint8_t address[16];
        return peer_address(fd, address) ? address_hash(address) : 1;
    }
    /* An address as text, without NUL, into at least 46 bytes: how many those are. */
    static inline uint8_t address_text(const uint8_t *address, char *out) {
        char text[INET6_ADDRSTRLEN];
        const char *made = address_is_four(address) ? inet_ntop(AF_INET, address + 12, text, sizeof text)
                                                    : inet_ntop(AF_INET6, address, text, sizeof text);
        size_t length = made ? strlen(text) : 0;
        memcpy(out, text, length);
        return (uint8_t)length;
    }
    /* Reads an address: 4 or 6 is its family, 0: it is none. */
    static inline int address_read(const char *text, size_t size, uint8_t *out) {
        char copy[INET6_ADDRSTRLEN];
        if (size == 0 || size >= sizeof copy || memchr(text, 0, size)) return 0;
        memcpy(copy, text, size);
        copy[size] = 0;
        memset(out, 0, 10);
        out[10] = out[11] = 0xff;
        if (inet_pton(AF_INET, copy, out + 12) == 1) return 4;
        return inet_pton(AF_INET6, copy, out) == 1 ? 6 : 0;
    }
    """
    uint8_t peer_text(int fd, char* out, size_t room, bint own)
    uint64_t peer_hash(int fd)
    uint8_t peer_address(int fd, uint8_t* out)
    bint address_is_four(const uint8_t* address)
    uint64_t address_hash(const uint8_t* address)
    uint8_t address_text(const uint8_t* address, char* out)
    int address_read(const char* text, size_t size, uint8_t* out)
