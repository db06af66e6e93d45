from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

from penstock.timed.memory cimport Memory
from penstock.timed.types cimport EventC

cdef int _pending_error() except -1

cdef class Steps(Memory):
    cdef object system
    cdef list replay
    cdef Py_ssize_t replayed

    cdef int _wake(self) except -1
    cdef int _check_system(self) except -1
    cdef int _steps(self, uint64_t share) except -1
    cdef int _next(self, int64_t* time_ns, uint32_t* microstep) except -1
    cdef int _run_system(self, int64_t up_to_ns) except -1
    cdef bint _may_run(self, int64_t time_ns, uint32_t microstep) except -1
    cdef int _run_tag(self, int64_t time_ns, uint32_t microstep) except -1
    cdef void _prepare(self, int64_t time_ns, uint32_t microstep) noexcept
    cdef int _pop(self) except -1
    cdef int _pop_replay(self) except -1
    cdef int _check_replay(self) except -1
    cdef int _deliver(self, uint32_t index, EventC event) except -1
    cdef int _run_reactions(self) except -1
    cdef int _run_reaction(self, uint32_t rank) except -1
    cdef PyObject* _choose(self, uint32_t rank, int* how) except? NULL
    cdef int _failed(self, uint32_t rank, int how) except -1
    cdef int _clean_up(self) except -1
    cdef int _send_on(self, uint32_t index) except -1
    cdef void _set_stop(self, int64_t time_ns, uint32_t microstep) noexcept
    cdef int _shut_down(self) except -1
    cdef int _drop_all(self) except -1
    cdef int _abandon(self) except -1
