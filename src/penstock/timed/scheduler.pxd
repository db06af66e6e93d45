cimport cython

from penstock.timed.steps cimport Steps

@cython.final
cdef class Scheduler(Steps):
    cdef int _shift_system(self, step_ns) except -1
    cdef int _check_thread(self, str what) except -1
    cdef int _check_between(self, str what) except -1
