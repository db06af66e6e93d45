cimport cython

from penstock.http.types cimport BodyC, BodyLimitsC, HeadC

# The head must be HEAD_DONE. The answer is BODY_DONE if there is no content, BODY_BAD, or BODY_MORE.
cdef int body_begin(BodyC* body, const HeadC* head, const BodyLimitsC* limits) noexcept nogil
# Looks at `data`, says in `used` how many of its bytes it has used up, and points to the content in them: BODY_...
# BODY_PIECE: call it again with what is left of the data, also if that is nothing.
cdef int body_feed(
    BodyC* body,
    const char* data,
    size_t size,
    size_t* used,
    const char** piece,
    size_t* piece_size,
    const BodyLimitsC* limits,
) noexcept nogil

@cython.final
cdef class BodyReader:
    cdef HeadC head
    cdef BodyC body
    cdef BodyLimitsC limits
