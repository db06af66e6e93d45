from libc.stdint cimport uint32_t

from penstock.http.types cimport HeadC

# The bytes of the host in `host [":" port]`; -1 if that is not what it is.
cdef int authority_host(const char* text, uint32_t size) noexcept nogil
# Find form, path, query and host of `head.target`; its question mark is at `mark`, or that is its end. NULL, or what is wrong.
cdef const char* target_parse(HeadC* head, const char* data, uint32_t mark) noexcept nogil
