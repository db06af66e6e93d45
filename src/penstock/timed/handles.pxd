cimport cython
from libc.stdint cimport int32_t, uint32_t

from penstock.timed.scheduler cimport Scheduler
from penstock.timed.types cimport SlotC

cdef class Handle:
    cdef readonly str name
    cdef readonly object owner
    cdef Scheduler scheduler
    cdef SlotC* slot
    cdef readonly int32_t index     # the slot
    cdef int32_t reader
    cdef int32_t writer

    cdef int _may_read(self) except -1
    cdef int _may_write(self) except -1

@cython.final
cdef class Port(Handle):
    cdef readonly object type
    cdef readonly bint is_input
    cdef bint checked

@cython.final
cdef class Signal(Handle):
    pass

@cython.final
cdef class Action(Handle):
    cdef readonly object type
    cdef readonly bint physical
    cdef readonly int32_t trigger
    cdef bint checked
    cdef public object poster
    cdef public object gate
