from libc.stdint cimport int64_t, uint32_t, uint64_t

from penstock.core.dispatch cimport Dispatch
from penstock.core.lane cimport Lane
from penstock.core.types cimport native_ready_t, native_timer_t

cdef class Intake(Dispatch):
    cdef int register_python(self, int fd, uint32_t interest, object callback, bint edge) except -1
    cdef int register_native(
        self, int fd, uint32_t interest, native_ready_t handler, void* context, bint edge
    ) except -1
    cdef int modify_fd(self, int fd, uint32_t interest) except -1
    cdef int deregister_fd(self, int fd) except -1
    cdef uint64_t start_timer(self, int64_t delay_ns, int64_t period_ns, object callback, object args) except? 0
    cdef uint64_t start_native_timer(
        self, int64_t delay_ns, int64_t period_ns, native_timer_t handler, void* context
    ) except? 0
    cdef bint cancel_timer(self, uint64_t identity) except -1
    cdef bint move_timer(self, uint64_t identity, int64_t delay_ns) except -1
    cdef int defer_call(self, object callback, object args) except -1
    cdef int post_event(self, Lane lane, object event) except -1

    cdef int _register(
        self, int fd, uint32_t interest, bint edge, object callback, native_ready_t handler, void* context
    ) except -1
    cdef int _refuse(self, int fd, int number, bint edge) except -1
    cdef object _retire(self, int fd)
    cdef uint64_t _start(
        self, int64_t delay_ns, int64_t period_ns, void* first, void* second, bint native
    ) except? 0
