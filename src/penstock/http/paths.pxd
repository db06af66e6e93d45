from libc.stdint cimport uint32_t

from penstock.http.files_system cimport bytes_t, text_t

cdef enum:
    PATH_OK = 0
    PATH_BAD = 1        # not a path at all, or a disguised one
    PATH_LONG = 2
    PATH_HIDDEN = 3     # a dot file

    DECODED_BYTES = 2048    # the same numbers as in limits.py; paths.py compares them when it is imported
    NAME_BYTES = 255
    UPS_PER_LINK = 8        # names that a link may go up, on average
    WALK_ON = -100000       # no errno is that large: one name is done, and the path goes on
    WALK_BYTES = 8192       # of a path and the links in it that are still to be followed

cdef struct WalkC:          # following a path by foot
    int root
    int directory           # where we are
    int links
    int ups
    int done_size
    int todo_start
    int todo_size
    char name[NAME_BYTES + 1]
    char done[WALK_BYTES]   # the names that have led here, none of them a link
    char todo[WALK_BYTES]
    char link[WALK_BYTES]

cdef unsigned char plain_bytes[256]
cdef unsigned char url_bytes[256]

# Decodes, resolves and judges the path of a target. `out` has room for DECODED_BYTES + 1. PATH_...
cdef int path_decode(bytes_t raw, uint32_t size, bint dotfiles, char* out, uint32_t* out_size) noexcept nogil
# Writes a path as a part of a URL; -1 if there is no room.
cdef int path_encode(bytes_t path, uint32_t size, char* out, uint32_t room) noexcept nogil
# Opens a resolved path beneath a root; the descriptor or -errno.
cdef int path_open(int root, text_t path, bint* walks) noexcept nogil
