from penstock.http.files_system cimport text_t
from penstock.http.types cimport HeadC

cdef enum:
    CODING_REFUSED = 4  # none of what is there may be sent

# Which coding to send: CODING_... of those whose bits are in `there`, CODING_NONE or CODING_REFUSED.
cdef int coding_choose(const HeadC* head, const char* bytes, unsigned char there) noexcept nogil
cdef text_t coding_name(int coding) noexcept nogil
cdef text_t coding_suffix(int coding) noexcept nogil
