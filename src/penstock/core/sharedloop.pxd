from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

from penstock.core.crew cimport CrewC
from penstock.core.loop cimport Loop
from penstock.core.types cimport OperationC, native_ready_t, native_timer_t

cdef struct TakenC:         # one piece of a turn, taken out to be run
    const char* step        # NULL: there was none
    PyObject* callback      # all three owned
    PyObject* args          # NULL: none, or those of `held`
    OperationC held

cdef class SharedLoop(Loop):
    cdef CrewC crew
    cdef set inside         # the threads that run this

    cdef int check(self) except -1
    cdef int register_python(self, int fd, uint32_t interest, object callback, bint edge) except -1
    cdef int register_native(
        self, int fd, uint32_t interest, native_ready_t handler, void* context, bint edge
    ) except -1
    cdef uint64_t start_timer(self, int64_t delay_ns, int64_t period_ns, object callback, object args) except? 0
    cdef uint64_t start_native_timer(
        self, int64_t delay_ns, int64_t period_ns, native_timer_t handler, void* context
    ) except? 0
    cdef bint cancel_timer(self, uint64_t identity) except -1
    cdef bint move_timer(self, uint64_t identity, int64_t delay_ns) except -1
    cdef int deregister_fd(self, int fd) except -1
    cdef int defer_call(self, object callback, object args) except -1

    cdef int _alone(self, str what) except -1
    cdef int _join(self) except -1
    cdef int _part(self) except -1
    cdef int64_t _work(self, int64_t wait_cap_ns, int64_t most, bint stay, int turns) except -1
    cdef int _lead(self, int64_t wait_cap_ns) except -1
    cdef int64_t _rest(self, int64_t most) except -1
    cdef int _follow(self, int64_t wait_cap_ns) except -1
    cdef bint _over(self)
    cdef int _take(self, TakenC* taken) except -1
    cdef bint _take_waiting(self, TakenC* taken)
    cdef int _run_taken(self, TakenC* taken) except -1
    cdef int _done(self) except -1

cdef CrewC* crew_of(Loop loop)
