cimport cython
from libc.stdint cimport int64_t

from penstock.net.types cimport BufferC, TotalC

cdef TotalC* buffer_total() noexcept nogil
cdef void buffer_init(BufferC* buffer, TotalC* total) noexcept nogil
cdef size_t buffer_waiting(const BufferC* buffer) noexcept nogil
cdef bint buffer_may_grow(const BufferC* buffer, size_t size) noexcept nogil
cdef int buffer_append(BufferC* buffer, const char* data, size_t size) noexcept nogil
cdef void buffer_consume(BufferC* buffer, size_t size) noexcept nogil
cdef void buffer_free(BufferC* buffer) noexcept nogil

cdef TotalC process_total

@cython.final
cdef class WriteBuffer:
    cdef BufferC c
    cdef TotalC own
