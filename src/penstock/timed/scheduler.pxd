cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

from penstock.core.clock cimport Clock
from penstock.timed.types cimport EventC, SchedulerC, SlotC

cdef extern from "Python.h":
    PyObject* PyObject_CallNoArgs(PyObject* callable)

cdef int _pending_error() except -1

@cython.final
cdef class Scheduler:
    cdef SchedulerC c
    cdef readonly object plan
    cdef Clock clock
    cdef readonly bint keep_alive
    cdef readonly int64_t start_ns
    cdef readonly int64_t stepped_ns
    cdef readonly int64_t wait_ns
    cdef readonly int64_t speed
    cdef uint64_t system_sequence
    cdef list system
    cdef list replay
    cdef Py_ssize_t replayed
    cdef list written
    cdef public object trace_sink
    cdef public object switcher
    cdef public object acquire
    cdef public object on_error
    cdef public object on_wake
    cdef public object on_handled
    cdef public object on_late
    cdef public object on_deadline
    cdef public object on_complete
    cdef public object on_outlet
    cdef public object missed

    cdef int _allocate(self) except -1
    cdef int _load(self) except -1
    cdef int _load_links(self) except -1
    cdef int64_t physical(self) noexcept
    cdef void mark(self, SlotC* slot) noexcept
    cdef int write(self, uint32_t index, PyObject* value) except -1
    cdef int offer(self, uint32_t index, int64_t time_ns, uint32_t microstep, object value, uint32_t late) except -1
    cdef int schedule_after(self, uint32_t index, int64_t delay_ns, object value) except -1
    cdef int schedule_physical(self, uint32_t index, int64_t at_ns, int64_t delay_ns, object value) except -1
    cdef int _next(self, int64_t* time_ns, uint32_t* microstep) except -1
    cdef int _run_system(self, int64_t up_to_ns) except -1
    cdef bint _may_run(self, int64_t time_ns, uint32_t microstep) except -1
    cdef int _run_tag(self, int64_t time_ns, uint32_t microstep) except -1
    cdef int _pop(self) except -1
    cdef void _check_replay(self)
    cdef int _pop_replay(self) except -1
    cdef int _deliver(self, uint32_t index, EventC event) except -1
    cdef int _run_reactions(self) except -1
    cdef int _run_reaction(self, uint32_t rank) except -1
    cdef PyObject* _choose(self, uint32_t rank, int* how) except? NULL
    cdef bint _missed_deadline(self, uint32_t rank) except -1
    cdef int _failed(self, uint32_t rank) except -1
    cdef int _clean_up(self) except -1
    cdef int _send_on(self, uint32_t index) except -1
    cdef void _abandon(self) noexcept
    cdef int _shut_down(self) except -1
    cdef void _drop_all(self) noexcept
    cdef void _set_stop(self, int64_t time_ns, uint32_t microstep) noexcept
    cdef void _check_system(self)
