cimport cython
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

from penstock.core.clock cimport Clock
from penstock.core.lane cimport Lane
from penstock.core.poller.interface cimport Poller
from penstock.core.types cimport LoopC, native_ready_t, native_timer_t

@cython.no_gc_clear
cdef class Loop:
    cdef LoopC c
    cdef readonly str name
    cdef readonly object policy
    cdef readonly Clock clock
    cdef readonly Poller poller
    cdef readonly object signals
    cdef object on_error
    cdef object on_drop
    cdef object reported
    cdef list lanes
    cdef bint lanes_changed
    cdef bint lanes_running
    cdef uint64_t ran_python    # readiness callbacks of this turn
    cdef bint running
    cdef bint opened
    cdef int[2] signal_pipe
    cdef int64_t last_report_ns
    cdef uint64_t reported_drops
    cdef object __weakref__

    # for the rooms above; each raises what is wrong with its arguments
    cdef int check(self) except -1
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

    # the Python half of a turn
    cdef int _open(self) except -1
    cdef int _watch_self(self, int fd, native_ready_t handler) except -1
    cdef int _register(
        self, int fd, uint32_t interest, bint edge, object callback, native_ready_t handler, void* context
    ) except -1
    cdef int _refuse(self, int fd, int number, bint edge) except -1
    cdef uint64_t _start(
        self, int64_t delay_ns, int64_t period_ns, void* first, void* second, bint native
    ) except? 0
    cdef int _enter(self) except -1
    cdef int _leave(self) except -1
    cdef int _one_turn(self, int64_t wait_cap_ns, bint once, bint keep_alive) except -1
    cdef int _dispatch(self) except -1
    cdef int _account(self) except -1
    cdef int _raise_noted(self) except -1
    cdef int _run_signals(self) except -1
    cdef int _run_inbox(self) except -1
    cdef int _arrive(self, Lane lane, PyObject* event) except -1
    cdef int _run_timers(self) except -1
    cdef int _run_ready(self) except -1
    cdef int _run_deferred(self) except -1
    cdef int _run_lanes(self) except -1
    cdef int _run_lane(self, Lane lane) except -1
    cdef int _settle(self, PyObject* answer, PyObject* handler, int fd, str step) except -1
    cdef int _contain(self, object handler, str step) except -1
    cdef int _report_drops(self) except -1
    cdef int _broken(self, str what) except -1
    cdef int _order_lanes(self) except -1
    cdef int _end_registration(self, int fd) except -1
    cdef int _hand_over(self, object first, object second, int kind, Lane lane, int64_t timeout_ns) except -1
    cdef int _close_own(self) except -1
    cdef int _drop_everything(self) except -1

@cython.final
cdef class Timer:
    cdef Loop loop
    cdef uint64_t identity

cdef Timer timer_of(Loop loop, uint64_t identity)
cdef PyObject* _call(PyObject* callback, PyObject* args) noexcept
