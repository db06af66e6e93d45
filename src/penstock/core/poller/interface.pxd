from libc.stdint cimport int64_t, uint32_t, uint64_t

from penstock.core.types cimport PollerC, ReadyC

cdef class Poller:
    cdef _answer(self, long long answer, str what, fd)
    cdef PollerC c
    cdef readonly str name
    cdef object pending_error

cdef class PythonPoller(Poller):
    cdef object _add
    cdef object _modify
    cdef object _remove
    cdef object _wait
    cdef object _unread
    cdef object _reset
    cdef readonly object like
