cimport cython
from libc.stdint cimport uint32_t

from penstock.http.types cimport HeadC, HeadLimitsC, SpanC

cdef void head_reset(HeadC* head) noexcept nogil
# `data` is the head from its first byte, `size` what is there of it by now (and what may follow it). HEAD_...
cdef int head_feed(HeadC* head, const char* data, uint32_t size, const HeadLimitsC* limits) noexcept nogil

@cython.final
cdef class HeadReader:
    cdef HeadC head
    cdef HeadLimitsC limits
    cdef object data
    cdef object _text(self, SpanC span)
