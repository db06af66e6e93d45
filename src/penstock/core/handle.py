# cython: language_level=3, nonecheck=True
"""A timer as programs hold it. There may be millions of these, so an object is as small as it can be.

The timers themselves are in the loop's heap; a handle knows its loop and an identity, and finds nothing once the timer is
over.
"""

import cython
from cython.cimports.cpython.ref import Py_INCREF, Py_XDECREF, PyObject
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.penstock.core.loop import Loop
from cython.cimports.penstock.core.timers import timers_find
from cython.cimports.penstock.core.types import TimerC

from penstock.errors import UsageError


@cython.cfunc
def timer_of(loop: Loop, identity: uint64_t) -> Timer:
    """The object for a timer that was just started."""
    timer: Timer = Timer.__new__(Timer)
    Py_INCREF(loop)
    timer.loop = cython.cast(cython.pointer[PyObject], loop)
    timer.identity = identity
    return timer


@cython.cfunc
def owner_of(timer: Timer) -> Loop:
    """The loop that a timer belongs to."""
    if timer.loop == cython.NULL:
        raise UsageError("a Timer is made by set_timeout or set_interval")
    return cython.cast(Loop, timer.loop)


class Timer:
    """A timer of a loop: cancel it, ask when it is due."""

    def __init__(self):
        raise UsageError("a Timer is made by set_timeout or set_interval")

    def __dealloc__(self):
        Py_XDECREF(self.loop)

    def cancel(self):
        """Cancel; False if it has fired or was cancelled before."""
        loop: Loop = owner_of(self)
        loop.check()
        return bool(loop.cancel_timer(self.identity))

    @property
    def active(self):
        """Whether it will still fire."""
        return self.deadline_ns is not None

    @property
    def deadline_ns(self):
        """When it is due, by the loop's clock; None if it has fired or was cancelled."""
        loop: Loop = owner_of(self)
        timer: cython.pointer[TimerC] = timers_find(cython.address(loop.c.timers), self.identity)
        return None if timer == cython.NULL else timer.deadline_ns

    def __repr__(self):
        deadline = self.deadline_ns
        return "<Timer, over>" if deadline is None else f"<Timer due at {deadline:,} ns>"
