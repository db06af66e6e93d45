from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint32_t, uint64_t

from penstock.core.clock cimport Clock
from penstock.core.lane cimport Lane
from penstock.core.poller.interface cimport Poller
from penstock.core.types cimport LoopC

cdef PyObject* _call(PyObject* callback, PyObject* args) noexcept

cdef class Dispatch:
    cdef LoopC c
    cdef readonly str name
    cdef readonly object policy
    cdef readonly Clock clock
    cdef readonly Poller poller
    cdef readonly object signals
    cdef object on_error
    cdef readonly dict attached  # what rooms above keep with the loop, each under its own name
    cdef object on_drop
    cdef object reported
    cdef tuple lanes        # which no collector empties; replaced as a whole
    cdef bint lanes_changed
    cdef bint lanes_running
    cdef uint64_t ran_python    # readiness callbacks of this turn
    cdef int64_t allowance      # handlers of Python that may still run; only run_one and poll_one set a bound
    cdef bint running
    cdef bint opened
    cdef int[2] signal_pipe
    cdef int64_t last_report_ns
    cdef uint64_t reported_drops
    cdef object __weakref__

    cdef int _one_turn(self, int64_t wait_cap_ns, bint once, bint keep_alive) except -1
    cdef int _account(self) except -1
    cdef int _dispatch(self) except -1
    cdef int _settle(self, PyObject* answer, PyObject* handler, int fd, str step) except -1
    cdef int _contain(self, object handler, str step) except -1
    cdef int _report(self, object error, object handler, str step) except -1
    cdef int _run_signals(self) except -1
    cdef int _run_inbox(self) except -1
    cdef int _arrive(self, Lane lane, PyObject* event) except -1
    cdef int _run_timers(self) except -1
    cdef int _run_ready(self) except -1
    cdef int _run_completions(self) except -1
    cdef int _run_deferred(self) except -1
    cdef int _run_lanes(self) except -1
    cdef int _run_lane(self, Lane lane) except -1
    cdef int _raise_noted(self) except -1
    cdef int _broken(self, str what) except -1
    cdef int _report_drops(self) except -1
    cdef int _order_lanes(self) except -1
