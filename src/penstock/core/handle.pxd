cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport uint64_t

from penstock.core.loop cimport Loop

@cython.final
cdef class Timer:
    # A counted reference that the garbage collector is not told of: an object without fields that it follows is 16 bytes
    # smaller, and there may be millions of these.
    cdef PyObject* loop
    cdef uint64_t identity

cdef Timer timer_of(Loop loop, uint64_t identity)
cdef Loop owner_of(Timer timer)
