cimport cython
from libc.stdint cimport int64_t, uint32_t

from penstock.core.loop cimport Loop
from penstock.core.types cimport DescriptorC, OperationC

cdef struct ReadingC:
    OperationC operation        # first: a pointer to it is one to this
    int64_t performs
    int64_t completes
    int64_t read_bytes
    bint stays                  # it never ends: a drain, as a waker has

@cython.final
cdef class NativeRead:
    cdef ReadingC c
    cdef Loop loop
    cdef DescriptorC* record
    cdef uint32_t generation
