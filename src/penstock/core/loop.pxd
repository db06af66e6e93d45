cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint64_t

from penstock.core.intake cimport Intake
from penstock.core.lane cimport Lane
from penstock.core.types cimport native_ready_t

cdef class Loop(Intake):
    cdef int check(self) except -1
    cdef int check_elsewhere(self) except -1
    cdef int _shut_down(self) except -1
    cdef int _open(self) except -1
    cdef int _watch_self(self, int fd, native_ready_t handler) except -1
    cdef int64_t _turns(self, int64_t wait_cap_ns, int64_t allowance, int turns) except -1
    cdef int _forget_self(self, int fd) except -1
    cdef int _enter(self) except -1
    cdef int _leave(self) except -1
    cdef int _hand_over(self, object first, object second, int kind, Lane lane, int64_t timeout_ns) except -1
    cdef int _close_own(self) except -1
    cdef int _drop_everything(self) except -1
