cimport cython

from penstock.core.types cimport WakerC

cdef int waker_open(WakerC* waker, bint eventfd) noexcept nogil
cdef void waker_wake(WakerC* waker) noexcept nogil
cdef void waker_drain(WakerC* waker) noexcept nogil
cdef void waker_close(WakerC* waker) noexcept nogil

@cython.final
cdef class Waker:
    cdef WakerC c
