cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from penstock.core.intake cimport Intake
from penstock.core.lane cimport Lane
from penstock.core.types cimport native_ready_t

@cython.no_gc_clear
cdef class Loop(Intake):
    cdef int check(self) except -1
    cdef int _open(self) except -1
    cdef int _watch_self(self, int fd, native_ready_t handler) except -1
    cdef int64_t _turns(self, int64_t wait_cap_ns, int64_t allowance, int turns) except -1
    cdef int _forget_self(self, int fd) except -1
    cdef int _enter(self) except -1
    cdef int _leave(self) except -1
    cdef int _hand_over(self, object first, object second, int kind, Lane lane, int64_t timeout_ns) except -1
    cdef int _close_own(self) except -1
    cdef int _drop_everything(self) except -1

@cython.final
cdef class Timer:
    # A counted reference that the garbage collector is not told of: an object without fields that it follows is 16 bytes
    # smaller, and there may be millions of these.
    cdef PyObject* loop
    cdef uint64_t identity

cdef Timer timer_of(Loop loop, uint64_t identity)
cdef Loop owner_of(Timer timer)
