from libc.stdint cimport int64_t, uint32_t, uint64_t

from penstock.core.types cimport LoopC, RegistrationC

cdef enum:
    LEFT_TIMERS = 1
    LEFT_READY = 2
    LEFT_INBOX = 4
    LEFT_LANES = 8

cdef enum:
    BROKEN_TIMERS = 1
    BROKEN_REGISTRY = 2
    BROKEN_LANE = 3
    BROKEN_DEFERRED = 4

cdef bint turn_skips_poll(LoopC* loop) noexcept nogil
cdef void turn_native(LoopC* loop, int64_t wait_cap_ns) noexcept nogil
cdef bint turn_needs_python(LoopC* loop) noexcept nogil
cdef void turn_changes(LoopC* loop) noexcept nogil
cdef void turn_reset_poller(LoopC* loop) noexcept nogil
cdef void turn_account(LoopC* loop, int64_t end_ns) noexcept nogil
cdef void turn_check(LoopC* loop) noexcept nogil
cdef bint turn_idle(LoopC* loop) noexcept nogil
cdef uint32_t turn_filter(LoopC* loop, RegistrationC* one, int fd, uint32_t events) noexcept nogil
