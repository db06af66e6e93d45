cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from penstock.core.types cimport ItemC, TimerC, TimersC

cdef enum:
    TIMER_DUE = 0xFFFFFFFE
    TIMER_FREE = 0xFFFFFFFF

cdef void timers_init(TimersC* timers, uint32_t capacity) noexcept nogil
cdef void timers_free(TimersC* timers) noexcept nogil
cdef int timers_start(
    TimersC* timers, int64_t deadline_ns, int64_t period_ns, void* first, void* second, bint native, uint64_t* identity
) noexcept nogil
cdef TimerC* timers_find(TimersC* timers, uint64_t identity) noexcept nogil
cdef bint timers_cancel(TimersC* timers, uint64_t identity, ItemC* out) noexcept nogil
cdef int timers_move(TimersC* timers, uint64_t identity, int64_t deadline_ns) noexcept nogil
cdef int64_t timers_next(const TimersC* timers) noexcept nogil
cdef bint timers_take(TimersC* timers, int64_t now_ns, uint64_t barrier, uint64_t* identity) noexcept nogil
cdef bint timers_fire(TimersC* timers, uint64_t identity, int64_t now_ns, ItemC* out) noexcept nogil
cdef bint timers_pop_any(TimersC* timers, ItemC* out, bint* native) noexcept nogil
cdef bint timers_ok(const TimersC* timers) noexcept nogil

@cython.final
cdef class Timers:
    cdef TimersC c
