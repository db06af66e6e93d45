cimport cython
from libc.stdint cimport uint32_t

from penstock.core.crew cimport CrewC
from penstock.core.loop cimport Loop
from penstock.core.types cimport DescriptorC, OperationC

cdef class Descriptor:
    cdef DescriptorC* c
    cdef uint32_t generation    # of the record; another one: the record is somebody else's by now
    cdef Loop loop
    cdef CrewC* crew            # NULL: the loop belongs to one thread
    cdef int number
    cdef bint is_socket
    cdef bint was_blocking
    cdef readonly bint closed
    cdef object given           # what the descriptor was given as, if not as a number
    cdef object calls
    cdef object helper          # a socket object for what only that can do
    cdef object __weakref__

    cdef bint _alive(self) noexcept
    cdef int _open(self, bint edge) except -1
    cdef OperationC* _new(self, object callback, object key) except NULL
    cdef int _start(self, OperationC* operation, int kind, bint speculative) except -1
    cdef int _take_back(self, OperationC* operation) except -1
    cdef int _start_call(self, int kind, object call, object callback, object key, bint speculative) except -1
    cdef _lend(self, OperationC* operation, object memory, int flags)
    cdef uint32_t _cancel_equal(self, int kind, object key) except? 0xFFFFFFFF
    cdef bint _deregister(self) except -1
