from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint32_t

from penstock.timed.types cimport TimelineC, TriggerC

# What became of an event that was offered.
cdef enum:
    TAKEN = 0
    REPLACED = 1            # it took the place of a pending one
    DROPPED = 2             # counted
    REFUSED = 3             # counted; the caller raises
    NO_MEMORY = 4

cdef int trigger_schedule(
    TimelineC* line, uint32_t index, int64_t* time_ns, uint32_t* microstep, PyObject* value, uint32_t late
) noexcept
cdef void trigger_start(TimelineC* line, uint32_t index, int64_t now_ns, uint32_t microstep) noexcept
cdef uint32_t trigger_drop(TimelineC* line, uint32_t index) noexcept
cdef void trigger_suspend(TimelineC* line, uint32_t index) noexcept
cdef void trigger_resume(
    TimelineC* line, uint32_t index, int64_t left_ns, uint32_t left_microstep, int64_t now_ns, uint32_t microstep
) noexcept
