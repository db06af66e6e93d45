# cython: language_level=3
"""The kernel's counters as frozen records, made when somebody asks. It changes nothing, and nothing depends on it."""

import cython
from cython.cimports.cpython.ref import PyObject
from cython.cimports.penstock.core.loop import Loop
from cython.cimports.penstock.core.probes import buckets_of, count_of, probes_settle
from cython.cimports.penstock.core.ring import ring_size
from cython.cimports.penstock.core.turn import LEFT_INBOX, LEFT_LANES, LEFT_READY, LEFT_TIMERS
from cython.cimports.penstock.core.types import RECORDER_TURNS, HistogramC, LongestC, LoopC, ProbesC, TurnC

from penstock.core.names import name_of
from penstock.stats import HistogramStats, LaneStats, LongestTurn, LoopStats, TurnStats

_LEFT = (
    (LEFT_INBOX, "inbox"),
    (LEFT_TIMERS, "timers"),
    (LEFT_READY, "readiness"),
    (LEFT_LANES, "lanes"),
)


@cython.cfunc
def _histogram(c: cython.pointer[HistogramC]):
    return HistogramStats(count_of(c), c.total, c.highest, buckets_of(c[0]))


@cython.cfunc
def _turn(c: cython.pointer[TurnC]):
    left = tuple([name for bit, name in _LEFT if c.left & bit])
    return TurnStats(
        c.number, c.start_ns, c.asleep_ns, c.busy_ns, c.ready, c.posts, c.timers, c.deferred, c.events, left
    )


@cython.cfunc
def _recorder(loop: cython.pointer[LoopC]):
    """The lines of the flight recorder, oldest first."""
    lines = []
    for step in range(RECORDER_TURNS):
        index: cython.int = (loop.turn + 1 + step) % RECORDER_TURNS
        line: cython.pointer[TurnC] = cython.address(loop.probes.recorder[index])
        if line.number:
            lines.append(_turn(line))
    return tuple(lines)


@cython.cfunc
def _handlers(c: cython.pointer[LongestC]):
    """The names of the suspects; a native handler is known by its descriptor."""
    names = []
    for index in range(c.slow.count):
        fd = c.slow.fds[index]
        handler: cython.pointer[PyObject] = c.slow.handlers[index]
        if handler != cython.NULL:
            name = name_of(cython.cast(object, handler))
            names.append(name if fd < 0 else f"{name} (descriptor {fd})")
        elif fd < 0:
            names.append("a native timer")
        else:
            names.append(f"the native handler of descriptor {fd}")
    return tuple(names)


@cython.cfunc
def _longest(probes: cython.pointer[ProbesC]):
    c: cython.pointer[LongestC] = cython.address(probes.longest)
    if probes.native_longest.busy_ns > c.busy_ns:
        c = cython.address(probes.native_longest)
    if c.turn == 0:
        return None
    return LongestTurn(c.turn, c.busy_ns, _handlers(c), c.slow.took_ns)


@cython.cfunc
def _settled(c: cython.pointer[LoopC]) -> cython.pointer[ProbesC]:
    """The probes, with everything that had happened by now."""
    probes_settle(cython.address(c.probes))
    return cython.address(c.probes)


def describe_turns(loop: Loop):
    """The last turns, one line each, oldest first."""
    return tuple([str(line) for line in _recorder(cython.address(loop.c))])


def loop_stats(loop: Loop):
    """Everything that the loop counts."""
    c: cython.pointer[LoopC] = cython.address(loop.c)
    probes: cython.pointer[ProbesC] = _settled(c)
    return LoopStats(
        name=loop.name,
        poller=loop.poller.name,
        now_ns=c.now_ns,
        turns=count_of(cython.address(probes.turn_ns)),
        python_turns=probes.python_turns,
        polls=probes.polls,
        polls_skipped=probes.polls_skipped,
        waits=probes.waits,
        approaches=probes.approaches,
        asleep_ns=probes.asleep_ns,
        turn_ns=_histogram(cython.address(probes.turn_ns)),
        longest=_longest(probes),
        late_ns=_histogram(cython.address(probes.late_ns)),
        batch=_histogram(cython.address(probes.batch)),
        ticks=c.tick.fired,
        ticks_missed=c.tick.missed,
        registered=c.registry.live,
        registered_high_water=c.registry.high_water,
        registrations=c.registry.registered,
        ready=probes.ready,
        ready_native=probes.ready_native,
        ready_python=probes.ready_python,
        stale=probes.stale,
        changes=probes.changes,
        changes_failed=probes.changes_failed,
        poller_resets=probes.poller_resets,
        timers=c.timers.live,
        timers_high_water=c.timers.high_water,
        timers_started=c.timers.started,
        timers_fired=c.timers.fired,
        timers_cancelled=c.timers.cancelled,
        timers_moved=c.timers.moved,
        timers_missed_periods=c.timers.missed_periods,
        deferred=probes.deferred,
        deferred_waiting=ring_size(cython.address(c.deferred)),
        deferred_high_water=probes.deferred_high_water,
        deferred_refused=probes.deferred_refused,
        inbox_waiting=ring_size(cython.address(c.inbox.ring)),
        inbox_high_water=c.inbox.high_water,
        inbox_posted=c.inbox.posted,
        inbox_rejected=c.inbox.rejected,
        inbox_waited=c.inbox.waited,
        wakes=c.waker.wakes,
        signals=probes.signals,
        errors=probes.errors,
        drops=c.drops,
        closed_drops=probes.closed_drops,
        timers_left=probes.timers_left,
        ready_left=probes.ready_left,
        inbox_left=probes.inbox_left,
        lanes_left=probes.lanes_left,
        lanes=tuple(
            [
                LaneStats(
                    name=lane.name,
                    overflow=lane.overflow,
                    priority=lane.priority,
                    closed=lane.closed,
                    **lane.counters(),
                )
                for lane in loop.lanes
            ]
        ),
        recorder=_recorder(c),
    )
