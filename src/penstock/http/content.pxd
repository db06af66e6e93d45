from libc.stdint cimport int64_t, uint32_t

from penstock.http.types cimport EntryC, FilesC

cdef enum:
    CONTENT_FOUND = -1      # an entry was made; the other results are DENY_...
    CONTENT_DIRECTORY = -2

# Reads the file that files.path names (a directory: its index) in a coding. What was made belongs to the caller.
cdef int content_load(FilesC* files, int coding, int64_t now_ns, EntryC** out) noexcept nogil
# Looks whether an entry still is what is on the disk. If the system cannot tell at the moment, it is.
cdef bint content_is_same(FilesC* files, EntryC* entry, int64_t now_ns) noexcept nogil
# Looks whether the root still is where its name leads, and opens it anew if it is not.
cdef void content_check_root(FilesC* files, int64_t now_ns) noexcept nogil
