# cython: language_level=3
"""The native half of a turn: everything that needs no interpreter.

    1 measure now        the end of the last turn, or a fresh look after a sleep
    2 poll               wait 0 if any work is runnable, else until the next timer, at most WAIT_MAX_NS
    4 timers             native ones run; Python's are set aside in `due`
    5 readiness          native handlers run; Python's are moved to the front of `ready`
    6 changes            interest that the poller does not know yet
    9 account            probes, invariants

Steps 3, 7 and 8 (inbox, deferred, lanes) are Python's and live in loop.py, as does the dispatch of what is set aside
here: if there is any, the GIL is taken once for the whole of it. So native handlers of a turn run before Python's;
among themselves both keep the order of the steps.

This file must not touch an object of the interpreter.
"""

import cython
from cython.cimports.libc.stdint import INT64_MAX, int64_t, uint32_t, uint64_t
from cython.cimports.penstock.core.clock import clock_now, tick_advance
from cython.cimports.penstock.core.inbox import inbox_awake, inbox_may_sleep
from cython.cimports.penstock.core.lane import lane_runnable
from cython.cimports.penstock.core.probes import (
    histogram_add,
    probes_begin,
    probes_mark_native,
    probes_turn,
)
from cython.cimports.penstock.core.registry import (
    registry_at,
    registry_next_again,
    registry_next_change,
    registry_note_again,
    registry_of,
    registry_ok,
    registry_token,
)
from cython.cimports.penstock.core.ring import ring_size
from cython.cimports.penstock.core.system import EBADF, EINTR, PENSTOCK_PROBES, platform_atomic_load
from cython.cimports.penstock.core.timers import timers_fire, timers_next, timers_ok, timers_take
from cython.cimports.penstock.core.types import (
    ERROR,
    FAULT_SHIFT,
    HANGUP,
    READABLE,
    READY_AGAIN,
    READY_DONE,
    READY_PYTHON,
    SUSPECTS,
    ItemC,
    LaneC,
    LoopC,
    RegistrationC,
    SlowC,
    TimerC,
    native_timer_t,
)

# A kernel may prolong a wait by a thousandth of it, to wake for several reasons at once. Waits for a timer that are
# longer than this are therefore cut short by 1/256, and the rest, which is not worth prolonging, is waited for in a
# second step: a timer of one second is then late by microseconds instead of a millisecond.
APPROACH_MIN_NS = cython.declare(int64_t, 50000000)
APPROACH_SHIFT = cython.declare(cython.int, 8)

# Polls in a row that gave events of no live registration before the poller is started afresh: somebody closed a
# descriptor without deregistering it while a duplicate was open, and the kernel reports it for ever.
STALE_POLLS_MAX = cython.declare(uint32_t, 16)


# ---- step 2: how long, and the poll ----------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _lanes_wait(loop: cython.pointer[LoopC]) -> int64_t:
    """0 if some lane can run in this turn; the time to the next tick if one waits for that; else for ever."""
    wait: int64_t = INT64_MAX
    index: uint32_t
    for index in range(loop.lane_count):
        lane: cython.pointer[LaneC] = loop.lanes[index]
        if lane_runnable(lane, loop.turn, loop.tick.fired):
            return 0
        if ring_size(cython.address(lane.ring)) and lane.budget.limit > 0:
            wait = loop.tick.next_ns - loop.now_ns
    return wait if wait > 0 else 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _internal_work(loop: cython.pointer[LoopC]) -> cython.bint:
    """Whether deferred tasks or lanes have something to do in this turn."""
    if ring_size(cython.address(loop.deferred)) or loop.descriptors.completed.size:
        return True
    return loop.lane_pending > 0 and _lanes_wait(loop) == 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def turn_skips_poll(loop: cython.pointer[LoopC]) -> cython.bint:
    """Whether the next turn may do without a poll: internal work is pending, and the last poll is recent."""
    return not loop.clock.manual and loop.now_ns - loop.polled_ns < loop.poll_skip_ns and _internal_work(loop)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _next_ns(loop: cython.pointer[LoopC], internal: cython.bint) -> int64_t:
    """The instant at which something happens by itself: now or earlier if work is runnable, INT64_MAX if never."""
    if (
        internal
        or loop.registry.again_first >= 0
        or platform_atomic_load(cython.address(loop.inbox.filled))
        or platform_atomic_load(cython.address(loop.stopping))
        or loop.signalled
    ):
        return loop.now_ns
    until: int64_t = timers_next(cython.address(loop.timers))
    if loop.report_ns < until:
        until = loop.report_ns
    if loop.lane_pending > 0:
        rest: int64_t = _lanes_wait(loop)
        if rest != INT64_MAX and loop.now_ns + rest < until:
            until = loop.now_ns + rest
    return until


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _poll_now(loop: cython.pointer[LoopC], wait_ns: int64_t) -> cython.int:
    loop.probes.polls += 1
    return loop.poller.wait(loop.poller, loop.ready, loop.ready_batch, wait_ns)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _poll_by_hand(loop: cython.pointer[LoopC], wait_ns: int64_t, timed: cython.bint) -> cython.int:
    """Poll a real poller under a manual clock: instead of sleeping until an instant, jump to it.

    Only where no instant is waited for does the poller really sleep, for somebody else must act then.
    """
    count: cython.int = _poll_now(loop, 0)
    if count != 0:
        return count
    if timed:
        loop.clock.manual_ns += wait_ns
        return 0
    return _poll_now(loop, wait_ns)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _sleep(loop: cython.pointer[LoopC], wait_ns: int64_t, timed: cython.bint, exact: cython.bint) -> cython.int:
    """Poll and wait, and take note of how long that was.

    `timed`: the wait ends at an instant; `exact`: that instant is a timer's, and punctuality matters.
    """
    count: cython.int
    if not inbox_may_sleep(cython.address(loop.inbox)):
        return _poll_now(loop, 0)
    loop.probes.waits += 1
    if loop.clock.manual and not loop.poller.simulated:
        count = _poll_by_hand(loop, wait_ns, timed)
    else:
        if exact and wait_ns > APPROACH_MIN_NS and not loop.clock.manual:
            wait_ns -= wait_ns >> APPROACH_SHIFT
            loop.probes.approaches += 1
        count = _poll_now(loop, wait_ns)
    inbox_awake(cython.address(loop.inbox))
    now: int64_t = clock_now(loop.clock)
    loop.line.asleep_ns = now - loop.now_ns
    loop.probes.asleep_ns += now - loop.now_ns
    loop.now_ns = now
    return count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _poll(loop: cython.pointer[LoopC], wait_cap_ns: int64_t) -> cython.void:
    """Step 2. Leaves what is ready in `ready`, and the present in `now_ns`."""
    internal: cython.bint = _internal_work(loop)
    until: int64_t = _next_ns(loop, internal)
    # A wait ends at an instant unless nothing will ever happen by itself and the caller is patient.
    timed: cython.bint = until != INT64_MAX or wait_cap_ns < loop.wait_max_ns
    wait: int64_t = loop.wait_max_ns if until == INT64_MAX else until - loop.now_ns
    count: cython.int
    exact: cython.bint = until != INT64_MAX
    if wait > loop.wait_max_ns or wait > wait_cap_ns:
        wait = loop.wait_max_ns if loop.wait_max_ns < wait_cap_ns else wait_cap_ns
        exact = False
    if internal and turn_skips_poll(loop):
        loop.probes.polls_skipped += 1
        return
    count = _sleep(loop, wait, timed, exact) if wait > 0 else _poll_now(loop, 0)
    loop.polled_ns = loop.now_ns
    if count < 0:
        # A signal interrupts a wait, and is looked for with the interpreter's help. All else is a failure.
        if count == -EINTR:
            loop.signalled = True
        else:
            loop.failed = count
        return
    histogram_add(cython.address(loop.probes.batch), count)
    loop.ready_count = count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _ran(loop: cython.pointer[LoopC], fd: cython.int) -> cython.void:
    """A native handler has returned. Looks at the clock when there are as many suspects as can be remembered."""
    if not PENSTOCK_PROBES:
        return
    now: cython.pointer[SlowC] = cython.address(loop.probes.native_now)
    now.fds[now.count] = fd
    now.count += 1
    if now.count >= SUSPECTS:
        probes_mark_native(cython.address(loop.probes), clock_now(loop.clock))


# ---- step 4: timers --------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _timers(loop: cython.pointer[LoopC]) -> cython.void:
    """Run native timers that are due, and set the others aside, oldest deadline first, up to the budget."""
    identity: uint64_t = 0
    item: ItemC
    budget: uint32_t = loop.timer_budget
    barrier: uint64_t = loop.timers.sequence
    loop.due_count = 0
    loop.due_next = 0
    while timers_next(cython.address(loop.timers)) <= loop.now_ns:
        if budget == 0:
            loop.line.left |= LEFT_TIMERS
            loop.probes.timers_left += 1
            return
        if not timers_take(cython.address(loop.timers), loop.now_ns, barrier, cython.address(identity)):
            return
        budget -= 1
        timer: cython.pointer[TimerC] = loop.timers.slots + cython.cast(uint32_t, identity)
        histogram_add(cython.address(loop.probes.late_ns), loop.now_ns - timer.deadline_ns)
        if timer.native:
            timers_fire(cython.address(loop.timers), identity, loop.now_ns, cython.address(item))
            loop.line.timers += 1
            cython.cast(native_timer_t, item.first)(loop, identity, item.second)
            _ran(loop, -1)
        else:
            loop.due[loop.due_count] = identity
            loop.due_count += 1


# ---- step 5: readiness -----------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def turn_filter(
    loop: cython.pointer[LoopC], one: cython.pointer[RegistrationC], fd: cython.int, events: uint32_t
) -> uint32_t:
    """What of `events` a handler is told: what it asked for, errors, and a hang-up when nothing is left to read.

    While data waits that somebody wants to read, a hang-up is held back, so that nobody closes on it too early. A
    level-triggered poller tells it again; for an edge-triggered registration it is kept in the queue of those still
    ready.
    """
    told: uint32_t = events & (one.interest | ERROR)
    if not events & HANGUP:
        return told
    if not one.interest & READABLE:
        return told | HANGUP
    if loop.poller.unread(loop.poller, fd) > 0:
        if one.edge:
            registry_note_again(cython.address(loop.registry), fd, HANGUP)
        return told | READABLE
    # A read gives the end of the file now, and does not block.
    return told | READABLE | HANGUP


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _ready_one(loop: cython.pointer[LoopC], fd: cython.int, events: uint32_t) -> cython.void:
    """Run a native handler, or set the descriptor aside for Python."""
    one: cython.pointer[RegistrationC] = registry_at(cython.address(loop.registry), fd)
    generation: uint32_t = one.generation
    if one.native == cython.NULL:
        events = turn_filter(loop, one, fd, events)
        if events:
            loop.ready[loop.ready_count].token = registry_token(one, fd)
            loop.ready[loop.ready_count].events = events
            loop.ready_count += 1
        return
    if not one.internal:
        loop.probes.ready_native += 1
    answer: cython.int = one.native(loop, fd, events, one.context)
    _ran(loop, fd)
    if answer == READY_DONE:
        return
    # The handler may have done anything, also ended its registration or made the table move.
    one = registry_at(cython.address(loop.registry), fd)
    if one == cython.NULL or one.generation != generation:
        return
    if answer & READY_AGAIN:
        registry_note_again(cython.address(loop.registry), fd, events)
    if answer & READY_PYTHON and one.complete != cython.NULL:
        loop.ready[loop.ready_count].token = registry_token(one, fd)
        loop.ready[loop.ready_count].events = events
        loop.ready_count += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _still_ready(loop: cython.pointer[LoopC], last: cython.int) -> cython.void:
    """Give another share to those that stopped at theirs, up to `last`, behind those that the poller has found."""
    budget: uint32_t = loop.ready_batch
    fd: cython.int = -1
    while fd != last and budget > 0:
        fd = registry_next_again(cython.address(loop.registry))
        budget -= 1
        one: cython.pointer[RegistrationC] = registry_at(cython.address(loop.registry), fd)
        if one != cython.NULL and one.again_events:
            events: uint32_t = one.again_events
            one.again_events = 0
            loop.line.ready += 1
            _ready_one(loop, fd, events)
    if fd != last:
        loop.line.left |= LEFT_READY
        loop.probes.ready_left += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _readiness(loop: cython.pointer[LoopC]) -> cython.void:
    """Step 5: one share for each descriptor that is ready; Python's move to the front of the batch."""
    found: uint32_t = loop.ready_count
    index: uint32_t
    stale: cython.bint = False
    # Who stops at its share from now on has had it, and waits for the next turn.
    last: cython.int = loop.registry.again_last
    loop.ready_count = 0
    loop.ready_next = 0
    loop.line.ready = found
    for index in range(found):
        token: uint64_t = loop.ready[index].token
        one: cython.pointer[RegistrationC] = registry_of(cython.address(loop.registry), token)
        if one == cython.NULL:
            loop.probes.stale += 1
            stale = True
        elif one.again and not loop.ready[index].events >> FAULT_SHIFT:
            # It waits for another share: one share a turn, so the two become one.
            one.again_events |= loop.ready[index].events
        else:
            _ready_one(loop, cython.cast(uint32_t, token), loop.ready[index].events)
    if last >= 0:
        _still_ready(loop, last)
    if found:
        loop.stale_polls = loop.stale_polls + 1 if stale else 0
        if loop.stale_polls >= STALE_POLLS_MAX:
            turn_reset_poller(loop)
    loop.probes.ready += loop.line.ready
    loop.probes.ready_python += loop.ready_count


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def turn_reset_poller(loop: cython.pointer[LoopC]) -> cython.void:
    """Start the poller afresh with what is registered now."""
    fd: uint32_t
    loop.stale_polls = 0
    loop.probes.poller_resets += 1
    failed: cython.int = loop.poller.reset(loop.poller)
    if failed < 0:
        loop.failed = failed
        return
    for fd in range(loop.registry.size):
        one: cython.pointer[RegistrationC] = registry_at(cython.address(loop.registry), fd)
        if one != cython.NULL:
            one.applied = one.interest
            failed = loop.poller.add(loop.poller, fd, one.interest, one.edge, registry_token(one, fd))
            if failed < 0 and failed != -EBADF:
                loop.failed = failed


# ---- step 6: changes -------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def turn_changes(loop: cython.pointer[LoopC]) -> cython.void:
    """Step 6: tell the poller what is wanted now; what changed there and back costs nothing."""
    fd: cython.int = registry_next_change(cython.address(loop.registry))
    while fd >= 0:
        one: cython.pointer[RegistrationC] = registry_at(cython.address(loop.registry), fd)
        if one != cython.NULL and one.interest != one.applied:
            failed: cython.int = loop.poller.modify(loop.poller, fd, one.interest, one.edge, registry_token(one, fd))
            loop.probes.changes += 1
            if failed < 0:
                # Closed without being deregistered; the other half of the turn tells somebody.
                loop.probes.changes_failed += 1
                loop.change_failed = fd + 1
            one.applied = one.interest
        fd = registry_next_change(cython.address(loop.registry))


# ---- the turn --------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def turn_native(loop: cython.pointer[LoopC], wait_cap_ns: int64_t) -> cython.void:
    """Steps 1, 2 and the native part of 4 and 5. Afterwards `turn_needs_python` says whether somebody must go on."""
    loop.turn += 1
    probes_begin(loop)
    if loop.ready_next < loop.ready_count or loop.due_next < loop.due_count:
        # The last turn was left by an exception: what it had set aside comes first.
        loop.woke_ns = loop.now_ns
        loop.probes.mark_ns = loop.now_ns
        return
    loop.ready_count = 0
    if loop.registry.changed_first >= 0:
        turn_changes(loop)
    _poll(loop, wait_cap_ns)
    loop.woke_ns = loop.now_ns
    loop.probes.mark_ns = loop.now_ns
    if loop.now_ns >= loop.tick.next_ns:
        tick_advance(cython.address(loop.tick), loop.now_ns)
    if loop.timers.size and loop.timers.heap[0].deadline_ns <= loop.now_ns:
        _timers(loop)
    if loop.ready_count or loop.registry.again_first >= 0:
        _readiness(loop)
    if loop.probes.native_now.count:
        probes_mark_native(cython.address(loop.probes), clock_now(loop.clock))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def turn_needs_python(loop: cython.pointer[LoopC]) -> cython.bint:
    """Whether the other half of this turn has anything to do."""
    return (
        loop.ready_next < loop.ready_count
        or loop.due_next < loop.due_count
        or ring_size(cython.address(loop.deferred)) > 0
        or loop.descriptors.completed.size > 0
        or platform_atomic_load(cython.address(loop.inbox.filled))
        or loop.signalled
        or loop.failed
        or loop.broken
        or loop.change_failed
        or loop.report_ns <= loop.now_ns
        or (loop.lane_pending > 0 and _lanes_wait(loop) == 0)
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def turn_check(loop: cython.pointer[LoopC]) -> cython.void:
    """The invariants that take constant time, each turn."""
    if not timers_ok(cython.address(loop.timers)):
        loop.broken = BROKEN_TIMERS
    elif not registry_ok(cython.address(loop.registry)):
        loop.broken = BROKEN_REGISTRY
    elif ring_size(cython.address(loop.deferred)) > loop.deferred.capacity:
        loop.broken = BROKEN_DEFERRED


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def turn_account(loop: cython.pointer[LoopC], end_ns: int64_t) -> cython.void:
    """Step 9. The end of this turn is the present of the next one."""
    probes_turn(loop, end_ns)
    turn_check(loop)
    loop.now_ns = end_ns


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def turn_idle(loop: cython.pointer[LoopC]) -> cython.bint:
    """Whether nothing is registered, armed or queued. A descriptor record is work while an operation waits at it."""
    return (
        loop.registry.live == loop.registry.owned
        and loop.descriptors.waiting == 0
        and loop.descriptors.completed.size == 0
        and loop.timers.live == 0
        and loop.lane_pending == 0
        and ring_size(cython.address(loop.deferred)) == 0
        and not platform_atomic_load(cython.address(loop.inbox.filled))
    )
