cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from cpython.ref cimport PyObject

from penstock.core.clock cimport Clock
from penstock.timed.types cimport SchedulerC, SlotC

cdef class Memory:
    cdef SchedulerC c
    cdef readonly object plan
    cdef Clock clock
    cdef readonly bint keep_alive
    cdef readonly int64_t start_ns
    cdef readonly int64_t stepped_ns
    cdef readonly int64_t wait_ns
    cdef readonly int64_t speed
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
    cdef public object on_room
    cdef public object on_end

    cdef int _allocate(self) except -1
    cdef int _load(self) except -1
    cdef int _load_links(self) except -1
    cdef int64_t physical(self) noexcept
    cdef void mark(self, SlotC* slot) noexcept
    cdef int write(self, uint32_t index, PyObject* value) except -1
    cdef int offer(self, uint32_t index, int64_t time_ns, uint32_t microstep, object value, uint32_t late) except -1
    cdef int schedule_after(self, uint32_t index, int64_t delay_ns, object value) except -1
    cdef int schedule_physical(self, uint32_t index, int64_t at_ns, int64_t delay_ns, object value) except -1
    cdef bint _missed_deadline(self, uint32_t rank) except -1
