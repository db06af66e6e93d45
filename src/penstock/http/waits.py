# cython: language_level=3
"""One queue of requests in order of age, and whether it stands.

A queue stands when for a whole interval its oldest was older than the target whenever somebody looked for work. Single
looks say nothing: after a burst, or after a pause of the whole process, the queue is old too, but soon no more.

This file must not know whose requests these are or what becomes of them.
"""

import cython
from cython.cimports.libc.stdint import INT64_MAX, int64_t, uint32_t
from cython.cimports.penstock.http.types import WaitC, WorkC

# Requests that a late arrival may overtake when it is put where its age belongs. Beyond that it stays out of order.
SORT_STEPS = cython.declare(cython.int, 64)
# The part of the requests that may be refused by a queue that is about to stop standing: one in eight.
CALM_PART = cython.declare(uint32_t, 8)
# That is judged over at least so many requests, because few may come by chance; but over no more than so many intervals.
CALM_LEAST = cython.declare(uint32_t, 32)
CALM_INTERVALS = cython.declare(int64_t, 4)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def wait_link(wait: cython.pointer[WaitC], work: cython.pointer[WorkC]) -> cython.void:
    """Put a request where its age belongs: almost always at the newest end."""
    older: cython.pointer[WorkC] = wait.newest
    steps: cython.int = 0
    while older != cython.NULL and older.arrival_ns > work.arrival_ns and steps < SORT_STEPS:
        older = older.older
        steps += 1
    work.older = older
    work.newer = wait.oldest if older == cython.NULL else older.newer
    if work.newer == cython.NULL:
        wait.newest = work
    else:
        work.newer.older = work
    if older == cython.NULL:
        wait.oldest = work
    else:
        older.newer = work
    work.queued = True
    wait.count += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def wait_unlink(wait: cython.pointer[WaitC], work: cython.pointer[WorkC]) -> cython.void:
    """Take a request out."""
    if work.older == cython.NULL:
        wait.oldest = work.newer
    else:
        work.older.newer = work.newer
    if work.newer == cython.NULL:
        wait.newest = work.older
    else:
        work.newer.older = work.older
    work.older = cython.NULL
    work.newer = cython.NULL
    work.queued = False
    wait.count -= 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _open_window(wait: cython.pointer[WaitC], now_ns: int64_t) -> cython.void:
    wait.window_ns = now_ns
    wait.least_ns = INT64_MAX
    wait.window_begun = 0
    wait.window_refused = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _window_over(wait: cython.pointer[WaitC], interval_ns: int64_t, now_ns: int64_t) -> cython.bint:
    """Whether a standing queue has been watched for long enough to judge it."""
    passed_ns: int64_t = now_ns - wait.window_ns
    if passed_ns < interval_ns:
        return False
    return wait.window_begun >= CALM_LEAST or passed_ns >= CALM_INTERVALS * interval_ns


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _relax(wait: cython.pointer[WaitC]) -> cython.void:
    wait.standing = False
    wait.above_ns = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def wait_look(wait: cython.pointer[WaitC], target_ns: int64_t, interval_ns: int64_t, now_ns: int64_t) -> cython.void:
    """Somebody looks for work: does the queue stand, or does it no longer?"""
    age_ns: int64_t = 0 if wait.oldest == cython.NULL else now_ns - wait.oldest.arrival_ns
    quiet: cython.bint = now_ns - wait.looked_ns >= interval_ns
    wait.looked_ns = now_ns
    if wait.standing:
        if age_ns < wait.least_ns:
            wait.least_ns = age_ns
        if quiet and age_ns <= target_ns:
            _relax(wait)
        elif _window_over(wait, interval_ns, now_ns):
            if wait.least_ns <= target_ns and wait.window_refused * CALM_PART <= wait.window_begun:
                _relax(wait)
            _open_window(wait, now_ns)
    elif age_ns <= target_ns:
        wait.above_ns = 0
    elif wait.above_ns == 0:
        # 0 means that it is not old, so an instant of 0 is taken for the next one.
        wait.above_ns = now_ns if now_ns != 0 else 1
    elif now_ns - wait.above_ns >= interval_ns:
        wait.standing = True
        wait.stood += 1
        _open_window(wait, now_ns)
