# cython: language_level=3
"""What time is it? Monotonic nanoseconds, from the system or by hand, and the tick of the policy clock.

Nothing else in the project reads a clock. This file must not know what time is used for.

A `Tick` turns time into an input: it fires at most once however many periods have gone by, never early, and stays on
the grid of its first period. What it missed it counts, and does not replay: a burst of ticks after a stall would hand
out budgets for time in which nothing could be done.
"""

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.penstock.core.system import CLOCK_MONOTONIC, clock_gettime, timespec
from cython.cimports.penstock.core.types import ClockC, TickC

from penstock.errors import UsageError


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def clock_now(clock: cython.pointer[cython.const[ClockC]]) -> int64_t:
    """The present, in nanoseconds since some fixed instant."""
    if clock.manual:
        return clock.manual_ns
    now: timespec
    clock_gettime(CLOCK_MONOTONIC, cython.address(now))
    return cython.cast(int64_t, now.tv_sec) * 1000000000 + now.tv_nsec


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def tick_advance(tick: cython.pointer[TickC], now_ns: int64_t) -> int64_t:
    """Return how many periods have elapsed since the last call: 0, or at least 1 of which one fires."""
    if now_ns < tick.next_ns:
        return 0
    elapsed: int64_t = (now_ns - tick.next_ns) // tick.period_ns + 1
    tick.next_ns += elapsed * tick.period_ns
    tick.fired += 1
    tick.missed += elapsed - 1
    return elapsed


class Clock:
    """The system's monotonic clock."""

    def __cinit__(self):
        self.c.manual = False
        self.c.manual_ns = 0

    def now_ns(self):
        """The present, in nanoseconds since some fixed instant."""
        return clock_now(cython.address(self.c))

    @property
    def manual(self):
        """Whether time stands still unless somebody moves it."""
        return bool(self.c.manual)


class ManualClock(Clock):
    """A clock that moves only when told to. It never goes back."""

    def __init__(self, start_ns: int = 0):
        if start_ns < 0:
            raise UsageError(f"start_ns is {start_ns}; a clock starts at 0 or later")
        self.c.manual = True
        self.c.manual_ns = start_ns

    def advance(self, by_ns: int):
        """Move forward by `by_ns` and return the new present."""
        if by_ns < 0:
            raise UsageError(f"by_ns is {by_ns}; a clock does not go back")
        self.c.manual_ns += by_ns
        return self.c.manual_ns

    def advance_to(self, to_ns: int):
        """Move forward to `to_ns`; an instant that has passed already changes nothing."""
        if to_ns > self.c.manual_ns:
            self.c.manual_ns = to_ns
        return self.c.manual_ns


class Tick:
    """At most one tick per period, never early, never a burst."""

    def __init__(self, period_ns: int, start_ns: int):
        if period_ns < 1:
            raise UsageError(f"period_ns is {period_ns}; give at least 1")
        self.c.period_ns = period_ns
        self.c.next_ns = start_ns + period_ns
        self.c.fired = 0
        self.c.missed = 0

    def advance(self, now_ns: int):
        """Return how many periods have elapsed since the last call; if any, the tick has fired once."""
        return tick_advance(cython.address(self.c), now_ns)

    @property
    def next_ns(self):
        """When the next tick is due."""
        return self.c.next_ns

    @property
    def fired(self):
        """How many ticks have fired."""
        return self.c.fired

    @property
    def missed(self):
        """How many periods went by without a tick of their own."""
        return self.c.missed
