from libc.stdint cimport uint32_t

from penstock.http.files_system cimport text_t

cdef enum:
    MIME_SLOTS = 2048       # at least twice the endings of the table
    ENDING_BYTES = 15       # the longest ending

cdef struct MimeC:
    char ending[ENDING_BYTES + 1]
    unsigned char size      # 0: an empty slot
    const char* type

cdef MimeC slots[MIME_SLOTS]
cdef const char* otherwise

# The Content-Type of a file of that name, which may have folders before it; valid for ever.
cdef text_t mime_of(text_t name, uint32_t size) noexcept nogil
