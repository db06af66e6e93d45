cimport cython
from libc.stdint cimport int64_t

from penstock.core.types cimport ClockC, TickC

cdef int64_t clock_now(const ClockC* clock) noexcept nogil
cdef int64_t tick_advance(TickC* tick, int64_t now_ns) noexcept nogil

cdef class Clock:
    cdef ClockC c

cdef class ManualClock(Clock):
    pass

@cython.final
cdef class Tick:
    cdef TickC c
