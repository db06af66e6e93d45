cimport cython

from penstock.net.types cimport PoolC

cdef int pool_open(PoolC* pool, size_t capacity) noexcept nogil
cdef void pool_close(PoolC* pool) noexcept nogil
cdef size_t pool_room(PoolC* pool, size_t wanted, size_t least, char** out) noexcept nogil
cdef void pool_lend(PoolC* pool, size_t size) noexcept nogil
cdef void pool_give_back(PoolC* pool) noexcept nogil

@cython.final
cdef class ReadPool:
    cdef PoolC c
