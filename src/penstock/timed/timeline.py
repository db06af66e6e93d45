# cython: language_level=3
"""What is to happen when: the pending events of each trigger, and a heap of triggers by their earliest tag.

Each trigger keeps its own events in tag order (a ring that grows by doubling up to its capacity), and the heap holds one
key per trigger that has something pending. So the heap is as small as the program, however many events wait; an event
costs 24 bytes; no sequence number is needed, because one trigger never has two events with the same tag (the second is
deferred by a microstep, see `scheduler.py`); and what is asked about the events of one trigger - is this tag taken, which
was the latest - needs no search through those of others.

An insertion at either end is O(1), elsewhere O(distance to the nearer end). This file must not know what a value is: who
pushes a pointer owns it again when it comes back.
"""

import cython
from cython.cimports.cpython.ref import PyObject
from cython.cimports.libc.stdint import int32_t, int64_t, uint32_t
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.penstock.timed.types import EventC, KeyC, PendingC, TimelineC

FIRST_EVENTS = cython.declare(uint32_t, 4)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def pending_at(pending: cython.pointer[PendingC], index: uint32_t) -> cython.pointer[EventC]:
    """The event at `index` in tag order; the caller knows that there is one."""
    return pending.events + ((pending.head + index) & (pending.allocated - 1))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _grow(pending: cython.pointer[PendingC]) -> cython.int:
    """Double the ring and straighten it; return -1 without memory."""
    wanted: uint32_t = pending.allocated * 2 if pending.allocated else FIRST_EVENTS
    events: cython.pointer[EventC] = cython.cast(
        cython.pointer[EventC], malloc(cython.cast(cython.size_t, wanted) * cython.sizeof(EventC))
    )
    if events == cython.NULL:
        return -1
    index: uint32_t
    for index in range(pending.size):
        events[index] = pending_at(pending, index)[0]
    free(pending.events)
    pending.events = events
    pending.head = 0
    pending.allocated = wanted
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _lower_bound(pending: cython.pointer[PendingC], time_ns: int64_t, microstep: uint32_t) -> uint32_t:
    """How many events are earlier than the tag."""
    low: uint32_t = 0
    high: uint32_t = pending.size
    middle: uint32_t
    event: cython.pointer[EventC]
    while low < high:
        middle = low + (high - low) // 2
        event = pending_at(pending, middle)
        if event.time_ns < time_ns or (event.time_ns == time_ns and event.microstep < microstep):
            low = middle + 1
        else:
            high = middle
    return low


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pending_find(pending: cython.pointer[PendingC], time_ns: int64_t, microstep: uint32_t) -> int64_t:
    """The index of the event with exactly this tag, or -1."""
    if pending.size == 0:
        return -1
    newest: cython.pointer[EventC] = pending_at(pending, pending.size - 1)
    if newest.time_ns < time_ns or (newest.time_ns == time_ns and newest.microstep < microstep):
        return -1
    index: uint32_t = _lower_bound(pending, time_ns, microstep)
    event: cython.pointer[EventC] = pending_at(pending, index)
    return index if event.time_ns == time_ns and event.microstep == microstep else -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pending_insert(
    pending: cython.pointer[PendingC],
    time_ns: int64_t,
    microstep: uint32_t,
    late: uint32_t,
    value: cython.pointer[PyObject],
) -> cython.int:
    """Insert an event at its place in tag order; return -1 without memory. The caller has looked at the capacity."""
    if pending.size == pending.allocated and _grow(pending) < 0:
        return -1
    index: uint32_t = pending.size
    last: cython.pointer[EventC]
    if index > 0:
        last = pending_at(pending, index - 1)
        if last.time_ns > time_ns or (last.time_ns == time_ns and last.microstep > microstep):
            index = _lower_bound(pending, time_ns, microstep)
    step: uint32_t
    if index < pending.size - index:
        pending.head = (pending.head - 1) & (pending.allocated - 1)
        for step in range(index):
            pending_at(pending, step)[0] = pending_at(pending, step + 1)[0]
    else:
        step = pending.size
        while step > index:
            pending_at(pending, step)[0] = pending_at(pending, step - 1)[0]
            step -= 1
    pending.size += 1
    event: cython.pointer[EventC] = pending_at(pending, index)
    event.time_ns = time_ns
    event.microstep = microstep
    event.late = late
    event.value = value
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def pending_remove(pending: cython.pointer[PendingC], index: uint32_t) -> EventC:
    """Take out the event at `index`; the caller knows that there is one."""
    event: EventC = pending_at(pending, index)[0]
    step: uint32_t
    if index < pending.size - index:
        step = index
        while step > 0:
            pending_at(pending, step)[0] = pending_at(pending, step - 1)[0]
            step -= 1
        pending.head = (pending.head + 1) & (pending.allocated - 1)
    else:
        for step in range(index, pending.size - 1):
            pending_at(pending, step)[0] = pending_at(pending, step + 1)[0]
    pending.size -= 1
    return event


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def key_before(a: cython.pointer[cython.const[KeyC]], b: cython.pointer[cython.const[KeyC]]) -> cython.bint:
    """Tag order. Equal tags are popped together; the trigger only makes that order a fixed one."""
    if a.time_ns != b.time_ns:
        return a.time_ns < b.time_ns
    if a.microstep != b.microstep:
        return a.microstep < b.microstep
    return a.trigger < b.trigger


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _place(line: cython.pointer[TimelineC], position: uint32_t, key: KeyC) -> cython.void:
    line.heap[position] = key
    line.triggers[key.trigger].position = position


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _sift(line: cython.pointer[TimelineC], position: uint32_t, key: KeyC) -> cython.void:
    """Put `key` where it belongs, starting at the hole `position`."""
    parent: uint32_t
    child: uint32_t
    while position > 0:
        parent = (position - 1) // 2
        if not key_before(cython.address(key), line.heap + parent):
            break
        _place(line, position, line.heap[parent])
        position = parent
    while True:
        child = 2 * position + 1
        if child >= line.size:
            break
        if child + 1 < line.size and key_before(line.heap + child + 1, line.heap + child):
            child += 1
        if not key_before(line.heap + child, cython.address(key)):
            break
        _place(line, position, line.heap[child])
        position = child
    _place(line, position, key)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def line_set(line: cython.pointer[TimelineC], trigger: uint32_t, time_ns: int64_t, microstep: uint32_t) -> cython.void:
    """The earliest tag of `trigger` is this; whether it had one before does not matter."""
    key = cython.declare(KeyC)
    key.time_ns = time_ns
    key.microstep = microstep
    key.trigger = trigger
    position: int32_t = line.triggers[trigger].position
    if position < 0:
        position = line.size
        line.size += 1
    _sift(line, position, key)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def line_remove(line: cython.pointer[TimelineC], trigger: uint32_t) -> cython.void:
    """`trigger` has nothing pending."""
    position: int32_t = line.triggers[trigger].position
    if position < 0:
        return
    line.triggers[trigger].position = -1
    line.size -= 1
    moved: KeyC = line.heap[line.size]
    if moved.trigger != trigger:
        _sift(line, position, moved)
