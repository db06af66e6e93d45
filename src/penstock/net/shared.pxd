cimport cython

from penstock.core.loop cimport Loop
from penstock.net.types cimport NetC

@cython.final
cdef class Net:
    cdef NetC c
    cdef list starving

    cdef int freed(self) except -1

cdef Net net_of(Loop loop)
