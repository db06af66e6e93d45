cimport cython
from libc.stdint cimport int64_t, uint64_t

from penstock.core.types cimport ItemC, RingC

cdef int ring_init(RingC* ring, uint64_t capacity) noexcept nogil
cdef void ring_free(RingC* ring) noexcept nogil
cdef uint64_t ring_size(const RingC* ring) noexcept nogil
cdef bint ring_push(RingC* ring, void* first, void* second, int64_t mark) noexcept nogil
cdef bint ring_pop(RingC* ring, ItemC* out) noexcept nogil
cdef ItemC* ring_oldest(RingC* ring) noexcept nogil
cdef ItemC* ring_newest(RingC* ring) noexcept nogil
cdef bint ring_pop_second(RingC* ring, ItemC* out) noexcept nogil

@cython.final
cdef class Ring:
    cdef RingC c
    cdef _clear(self)
