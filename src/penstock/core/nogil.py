# cython: language_level=3
"""What a native handler may ask of its loop, without the GIL: the same as intake.py offers to Python.

Only native registrations and timers can be touched here: those of Python own objects, which needs the interpreter. All
calls answer with -errno instead of raising. This file must not touch an object of the interpreter.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uint32_t, uint64_t
from cython.cimports.penstock.core.clock import clock_now
from cython.cimports.penstock.core.registry import (
    registry_at,
    registry_close,
    registry_note_again,
    registry_note_change,
    registry_open,
    registry_token,
)
from cython.cimports.penstock.core.system import EBUSY, EEXIST, EMFILE, ENOENT
from cython.cimports.penstock.core.timers import timers_cancel, timers_find, timers_start
from cython.cimports.penstock.core.types import (
    ItemC,
    LoopC,
    RegistrationC,
    TimerC,
    native_complete_t,
    native_ready_t,
    native_timer_t,
)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def native_register(
    loop: cython.pointer[LoopC],
    fd: cython.int,
    interest: uint32_t,
    handler: native_ready_t,
    context: cython.p_void,
    edge: cython.bint,
) -> cython.int:
    """Watch a descriptor. -EMFILE: beyond `descriptors_max`; -EBUSY: registered already; else what the poller says."""
    if registry_at(cython.address(loop.registry), fd) != cython.NULL:
        return -EBUSY
    one: cython.pointer[RegistrationC] = registry_open(cython.address(loop.registry), fd)
    if one == cython.NULL:
        return -EMFILE
    one.interest = interest
    one.applied = interest
    one.edge = edge
    one.internal = False
    one.callback = cython.NULL
    one.number = cython.NULL
    one.native = handler
    one.context = context
    token: uint64_t = registry_token(one, fd)
    answer: cython.int = loop.poller.add(loop.poller, fd, interest, edge, token)
    if answer == -EEXIST:
        answer = loop.poller.modify(loop.poller, fd, interest, edge, token)
    if answer < 0:
        registry_close(cython.address(loop.registry), fd)
    return answer


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _native_at(loop: cython.pointer[LoopC], fd: cython.int) -> cython.pointer[RegistrationC]:
    one: cython.pointer[RegistrationC] = registry_at(cython.address(loop.registry), fd)
    if one == cython.NULL or one.native == cython.NULL or one.internal:
        return cython.NULL
    return one


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def native_complete(loop: cython.pointer[LoopC], fd: cython.int, complete: native_complete_t) -> cython.int:
    """Give a native registration the half that needs the GIL; it runs when the handler answers READY_PYTHON."""
    one: cython.pointer[RegistrationC] = _native_at(loop, fd)
    if one == cython.NULL:
        return -ENOENT
    one.complete = complete
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def native_note(loop: cython.pointer[LoopC], fd: cython.int, events: uint32_t) -> cython.int:
    """Have a native handler called with `events` in the next readiness step, without asking the poller."""
    if _native_at(loop, fd) == cython.NULL:
        return -ENOENT
    registry_note_again(cython.address(loop.registry), fd, events)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def native_modify(loop: cython.pointer[LoopC], fd: cython.int, interest: uint32_t) -> cython.int:
    """Change what is wanted of a native registration; the poller learns of it in step 6. -ENOENT: there is none."""
    one: cython.pointer[RegistrationC] = _native_at(loop, fd)
    if one == cython.NULL:
        return -ENOENT
    one.interest = interest
    if one.interest != one.applied:
        registry_note_change(cython.address(loop.registry), fd)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def native_deregister(loop: cython.pointer[LoopC], fd: cython.int) -> cython.int:
    """End a native registration; its handler is not called again. -ENOENT: there is none."""
    if _native_at(loop, fd) == cython.NULL:
        return -ENOENT
    loop.poller.remove(loop.poller, fd)
    registry_close(cython.address(loop.registry), fd)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def native_start_timer(
    loop: cython.pointer[LoopC],
    delay_ns: int64_t,
    period_ns: int64_t,
    handler: native_timer_t,
    context: cython.p_void,
) -> uint64_t:
    """Start a native timer; 0 if there are too many, or there is no memory."""
    identity: uint64_t = 0
    deadline_ns: int64_t = clock_now(loop.clock) + delay_ns
    failed: cython.int = timers_start(
        cython.address(loop.timers),
        deadline_ns,
        period_ns,
        cython.cast(cython.p_void, handler),
        context,
        True,
        cython.address(identity),
    )
    return 0 if failed else identity


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def native_cancel_timer(loop: cython.pointer[LoopC], identity: uint64_t) -> cython.bint:
    """Cancel a native timer; False if it has fired or was cancelled before."""
    item: ItemC
    timer: cython.pointer[TimerC] = timers_find(cython.address(loop.timers), identity)
    if timer == cython.NULL or not timer.native:
        return False
    return timers_cancel(cython.address(loop.timers), identity, cython.address(item))
