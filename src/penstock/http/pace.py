# cython: language_level=3
"""How fast are requests worked off, and how many of them should be in work at once?

The limit rises while it is reached, more wait, and requests take hardly longer than when few were in work; it falls by an
eighth when they take three times as long: then they only wait for each other, inside the program instead of in a queue
that knows their age. If lowering the limit to a half has not made them faster, it was not the crowd that slowed them,
and the time they take now is what they are measured against.

Work that is done one request after the other never reaches a limit above one, and only its speed is measured. Means over
a window are compared, not single requests: a program whose requests differ is not taken for one that slows down.

This file must not know queues or clocks.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint32_t
from cython.cimports.penstock.http.types import PaceC

from penstock import limits

WINDOW_NS = cython.declare(int64_t, limits.HTTP_PACE_WINDOW_NS)
FIRST = cython.declare(uint32_t, limits.HTTP_IN_WORK_FIRST)
# Requests that a window must have for its mean to mean something.
WINDOW_LEAST = cython.declare(uint32_t, 8)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pace_init(pace: cython.pointer[PaceC], most: uint32_t) -> cython.void:
    """Nothing is known. The rest of the structure is zero."""
    pace.most = most
    pace.limit = most if most < FIRST else FIRST


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pace_begin(pace: cython.pointer[PaceC]) -> cython.void:
    """Work on a request begins."""
    pace.in_work += 1
    if pace.in_work > pace.in_work_peak:
        pace.in_work_peak = pace.in_work


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _raise(pace: cython.pointer[PaceC], mean_ns: int64_t) -> cython.void:
    """More may be in work: many more while nothing at all speaks against it."""
    step: uint32_t = 1
    if mean_ns * 4 <= pace.base_ns * 5:
        step += pace.limit >> 2
    if pace.limit < pace.most:
        pace.raised += 1
    pace.limit = pace.most if pace.most - pace.limit < step else pace.limit + step
    pace.trial_limit = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _lower(pace: cython.pointer[PaceC], mean_ns: int64_t) -> cython.void:
    """Less may be in work, unless that has been tried and did not help."""
    if pace.trial_limit == 0:
        pace.trial_limit = pace.limit
        pace.trial_ns = mean_ns
    elif pace.limit * 2 <= pace.trial_limit:
        helped: cython.bint = mean_ns * 4 <= pace.trial_ns * 3
        pace.trial_limit = pace.limit if helped else 0
        pace.trial_ns = mean_ns
        if not helped:
            pace.base_ns = mean_ns
            return
    if pace.limit > 1:
        pace.limit -= (pace.limit >> 3) + (1 if pace.limit < 8 else 0)
        pace.lowered += 1
    else:
        pace.base_ns = mean_ns
        pace.trial_limit = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _judge(pace: cython.pointer[PaceC], now_ns: int64_t) -> cython.void:
    """A window is over: what does its mean say about the limit?"""
    mean_ns: int64_t = pace.window_took_ns // pace.window_count
    if mean_ns < 1:
        mean_ns = 1
    if pace.base_ns == 0 or mean_ns < pace.base_ns:
        pace.base_ns = mean_ns
    if pace.window_full and mean_ns > pace.base_ns * 3:
        _lower(pace, mean_ns)
    elif pace.window_full and mean_ns <= pace.base_ns * 2:
        _raise(pace, mean_ns)
    pace.window_ns = now_ns
    pace.window_count = 0
    pace.window_took_ns = 0
    pace.window_full = False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pace_done(pace: cython.pointer[PaceC], took_ns: int64_t, backlog: cython.bint, now_ns: int64_t) -> cython.void:
    """Work on a request has ended that took so long."""
    # While more waits, the time between two ends is what one request costs; else what it took, shared by those in work.
    sample_ns: int64_t = now_ns - pace.mark_ns if pace.backlog else took_ns // pace.in_work
    if sample_ns < 0:
        sample_ns = 0
    if pace.interval_ns == 0:
        pace.interval_ns = sample_ns
    else:
        pace.interval_ns += (sample_ns - pace.interval_ns) // 16
    pace.mark_ns = now_ns
    pace.backlog = backlog
    if backlog and pace.in_work >= pace.limit:
        pace.window_full = True
    pace.in_work -= 1
    if pace.window_count == 0 and now_ns - pace.window_ns >= WINDOW_NS:
        pace.window_ns = now_ns - took_ns
    pace.window_count += 1
    pace.window_took_ns += took_ns
    if pace.window_count >= WINDOW_LEAST and now_ns - pace.window_ns >= WINDOW_NS:
        _judge(pace, now_ns)
