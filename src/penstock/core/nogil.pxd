from libc.stdint cimport int64_t, uint32_t, uint64_t

from penstock.core.types cimport LoopC, native_complete_t, native_ready_t, native_timer_t

cdef int native_register(
    LoopC* loop, int fd, uint32_t interest, native_ready_t handler, void* context, bint edge
) noexcept nogil
cdef int native_modify(LoopC* loop, int fd, uint32_t interest) noexcept nogil
cdef int native_complete(LoopC* loop, int fd, native_complete_t complete) noexcept nogil
cdef int native_note(LoopC* loop, int fd, uint32_t events) noexcept nogil
cdef int native_deregister(LoopC* loop, int fd) noexcept nogil
cdef uint64_t native_start_timer(
    LoopC* loop, int64_t delay_ns, int64_t period_ns, native_timer_t handler, void* context
) noexcept nogil
cdef bint native_cancel_timer(LoopC* loop, uint64_t identity) noexcept nogil
