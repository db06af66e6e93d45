# cython: language_level=3
"""The rules for one trigger: when an event may be scheduled, and what happens to it when its mode is left.

Spacing, policies, capacity and the pile-up of equal tags are decided here, when an event is scheduled, so that its tag is
known at once and never changes again (but by leaving and entering a mode, whose local time stands still in between).

Rules, in this order:

1. Spacing: an event closer to the latest scheduled one than the minimum spacing is deferred to the earliest allowed time,
   dropped, put in the place of the latest one if that is still pending (`replace`: keeps its tag; `update`: takes the new
   tag, as far as the spacing from the one before allows). What is not pending any more cannot be replaced: deferred.
2. Equal tags: a second event with the tag of a pending one is handled by the same policy; `defer` means the next microstep
   that is free.
3. Capacity: a full trigger answers with its overflow policy.

This file must not know reactions, or what the present is: callers pass the tags.
"""

import cython
from cython.cimports.cpython.ref import Py_XDECREF, PyObject
from cython.cimports.libc.stdint import int64_t, uint32_t
from cython.cimports.penstock.timed.timeline import (
    line_remove,
    line_set,
    pending_at,
    pending_find,
    pending_insert,
    pending_remove,
)
from cython.cimports.penstock.timed.types import (
    KIND_TIMER,
    OVERFLOW_BLOCK,
    OVERFLOW_COALESCE,
    OVERFLOW_DROP_OLDEST,
    OVERFLOW_REJECT,
    POLICY_DEFER,
    POLICY_DROP,
    POLICY_REPLACE,
    EventC,
    PendingC,
    TimelineC,
    TriggerC,
)


@cython.cfunc
@cython.exceptval(check=False)
def _replace_value(event: cython.pointer[EventC], value: cython.pointer[PyObject], late: uint32_t) -> cython.void:
    old: cython.pointer[PyObject] = event.value
    event.value = value
    event.late = late
    Py_XDECREF(old)


@cython.cfunc
@cython.exceptval(check=False)
def _remove(trigger: cython.pointer[TriggerC], index: uint32_t) -> cython.void:
    event: EventC = pending_remove(cython.address(trigger.pending), index)
    Py_XDECREF(event.value)


@cython.cfunc
@cython.exceptval(check=False)
def _space(
    trigger: cython.pointer[TriggerC],
    time_ns: cython.pointer[int64_t],
    microstep: cython.pointer[uint32_t],
    value: cython.pointer[PyObject],
    late: uint32_t,
) -> cython.int:
    """Apply the minimum spacing. TAKEN (0): go on, perhaps with another tag; else the outcome."""
    pending: cython.pointer[PendingC] = cython.address(trigger.pending)
    earliest_ns: int64_t = trigger.last_ns + trigger.period_ns
    if time_ns[0] >= earliest_ns:
        return 0
    if trigger.policy == POLICY_DROP:
        trigger.dropped_policy += 1
        Py_XDECREF(value)
        return 2
    if trigger.policy != POLICY_DEFER and pending.size > 0:
        trigger.replaced += 1
        if trigger.policy == POLICY_REPLACE:
            _replace_value(pending_at(pending, pending.size - 1), value, late)
            return 1
        _remove(trigger, pending.size - 1)
        if pending.size > 0:
            earliest_ns = pending_at(pending, pending.size - 1).time_ns + trigger.period_ns
        elif trigger.handled_before:
            earliest_ns = trigger.handled_ns + trigger.period_ns
        else:
            return 0
        if time_ns[0] >= earliest_ns:
            return 0
    time_ns[0] = earliest_ns
    microstep[0] = 0
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def _pile_up(
    trigger: cython.pointer[TriggerC],
    time_ns: int64_t,
    microstep: cython.pointer[uint32_t],
    value: cython.pointer[PyObject],
    late: uint32_t,
) -> cython.int:
    """Resolve a tag that is taken already. TAKEN (0): go on, perhaps at a later microstep; else the outcome."""
    pending: cython.pointer[PendingC] = cython.address(trigger.pending)
    index: int64_t = pending_find(pending, time_ns, microstep[0])
    if index < 0:
        return 0
    if trigger.policy == POLICY_DROP:
        trigger.dropped_policy += 1
        Py_XDECREF(value)
        return 2
    if trigger.policy != POLICY_DEFER:
        trigger.replaced += 1
        _replace_value(pending_at(pending, cython.cast(uint32_t, index)), value, late)
        return 1
    tail: cython.pointer[EventC] = pending_at(pending, pending.size - 1)
    if tail.time_ns == time_ns and tail.microstep - microstep[0] == pending.size - 1 - cython.cast(uint32_t, index):
        microstep[0] = tail.microstep + 1
        return 0
    place: uint32_t = cython.cast(uint32_t, index)
    while place < pending.size and pending_at(pending, place).time_ns == time_ns:
        if pending_at(pending, place).microstep != microstep[0]:
            break
        microstep[0] += 1
        place += 1
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def _make_room(trigger: cython.pointer[TriggerC], value: cython.pointer[PyObject], late: uint32_t) -> cython.int:
    """Answer for a full trigger. TAKEN (0): there is room now; else the outcome."""
    if trigger.overflow == OVERFLOW_DROP_OLDEST:
        trigger.dropped_oldest += 1
        _remove(trigger, 0)
        return 0
    if trigger.overflow == OVERFLOW_COALESCE:
        trigger.coalesced += 1
        _replace_value(pending_at(cython.address(trigger.pending), trigger.pending.size - 1), value, late)
        return 1
    Py_XDECREF(value)
    if trigger.overflow in (OVERFLOW_REJECT, OVERFLOW_BLOCK):
        trigger.rejected += 1
        return 3
    trigger.dropped_newest += 1
    return 2


@cython.cfunc
@cython.exceptval(check=False)
def _refresh(line: cython.pointer[TimelineC], index: uint32_t) -> cython.void:
    """Let the heap's key follow the trigger's earliest event."""
    trigger: cython.pointer[TriggerC] = line.triggers + index
    head: cython.pointer[EventC]
    if trigger.pending.size == 0:
        line_remove(line, index)
        return
    head = pending_at(cython.address(trigger.pending), 0)
    if trigger.position >= 0 and (
        line.heap[trigger.position].time_ns == head.time_ns and line.heap[trigger.position].microstep == head.microstep
    ):
        return
    line_set(line, index, head.time_ns, head.microstep)


@cython.cfunc
@cython.exceptval(check=False)
def trigger_schedule(  # noqa: PLR0917 - C
    line: cython.pointer[TimelineC],
    index: uint32_t,
    time_ns: cython.pointer[int64_t],
    microstep: cython.pointer[uint32_t],
    value: cython.pointer[PyObject],
    late: uint32_t,
) -> cython.int:
    """Offer an event; its final tag is written back. Takes over the reference to `value` whatever the outcome."""
    trigger: cython.pointer[TriggerC] = line.triggers + index
    pending: cython.pointer[PendingC] = cython.address(trigger.pending)
    outcome: cython.int = 0
    if trigger.suspended:
        trigger.dropped_inactive += 1
        Py_XDECREF(value)
        return 2
    if trigger.scheduled_before and trigger.period_ns > 0:
        outcome = _space(trigger, time_ns, microstep, value, late)
    if outcome == 0 and pending.size > 0:
        outcome = _pile_up(trigger, time_ns[0], microstep, value, late)
    if outcome == 0 and pending.size >= pending.capacity:
        outcome = _make_room(trigger, value, late)
    if outcome == 0:
        if pending_insert(pending, time_ns[0], microstep[0], late, value) < 0:
            Py_XDECREF(value)
            return 4
        trigger.scheduled += 1
        trigger.scheduled_before = True
        trigger.last_ns = time_ns[0]
        trigger.last_microstep = microstep[0]
        trigger.high_water = max(trigger.high_water, pending.size)
    _refresh(line, index)
    return outcome


@cython.cfunc
@cython.exceptval(check=False)
def trigger_start(
    line: cython.pointer[TimelineC], index: uint32_t, now_ns: int64_t, microstep: uint32_t
) -> cython.void:
    """Let a timer or a built-in trigger begin: at the tag given, or its offset later."""
    trigger: cython.pointer[TriggerC] = line.triggers + index
    if trigger.kind == KIND_TIMER and trigger.offset_ns > 0:
        line_set(line, index, now_ns + trigger.offset_ns, 0)
    else:
        line_set(line, index, now_ns, microstep)


@cython.cfunc
@cython.exceptval(check=False)
def trigger_drop(line: cython.pointer[TimelineC], index: uint32_t) -> uint32_t:
    """Forget whatever is pending; return how many events that were."""
    trigger: cython.pointer[TriggerC] = line.triggers + index
    dropped: uint32_t = trigger.pending.size
    while trigger.pending.size > 0:
        _remove(trigger, trigger.pending.size - 1)
    line_remove(line, index)
    trigger.kept.trigger = 0
    trigger.scheduled_before = False
    trigger.handled_before = False
    return dropped


@cython.cfunc
@cython.exceptval(check=False)
def trigger_suspend(line: cython.pointer[TimelineC], index: uint32_t) -> cython.void:
    """Take the trigger out of the heap; remember its key if it has one (`kept.trigger` says so)."""
    trigger: cython.pointer[TriggerC] = line.triggers + index
    trigger.suspended = True
    trigger.kept.trigger = 0
    if trigger.position >= 0:
        trigger.kept = line.heap[trigger.position]
        trigger.kept.trigger = 1
        line_remove(line, index)


@cython.cfunc
@cython.exceptval(check=False)
def _shift(  # noqa: PLR0917 - C
    time_ns: cython.pointer[int64_t],
    step: cython.pointer[uint32_t],
    left_ns: int64_t,
    left_microstep: uint32_t,
    now_ns: int64_t,
    microstep: uint32_t,
) -> cython.void:
    """Move a tag by the time that its mode was inactive; what was due in later microsteps stays as many microsteps away."""
    if time_ns[0] == left_ns:
        step[0] = step[0] - left_microstep + microstep
    time_ns[0] += now_ns - left_ns


@cython.cfunc
@cython.exceptval(check=False)
def trigger_resume(  # noqa: PLR0917 - C
    line: cython.pointer[TimelineC],
    index: uint32_t,
    left_ns: int64_t,
    left_microstep: uint32_t,
    now_ns: int64_t,
    microstep: uint32_t,
) -> cython.void:
    """Continue after the mode was inactive from the tag `left` to the tag `now`."""
    trigger: cython.pointer[TriggerC] = line.triggers + index
    event: cython.pointer[EventC]
    place: uint32_t
    trigger.suspended = False
    trigger.last_ns += now_ns - left_ns
    trigger.handled_ns += now_ns - left_ns
    for place in range(trigger.pending.size):
        event = pending_at(cython.address(trigger.pending), place)
        _shift(
            cython.address(event.time_ns), cython.address(event.microstep), left_ns, left_microstep, now_ns, microstep
        )
    if trigger.kept.trigger:
        _shift(
            cython.address(trigger.kept.time_ns),
            cython.address(trigger.kept.microstep),
            left_ns,
            left_microstep,
            now_ns,
            microstep,
        )
        line_set(line, index, trigger.kept.time_ns, trigger.kept.microstep)
