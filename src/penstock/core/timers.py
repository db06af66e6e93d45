# cython: language_level=3
"""When is what due? A heap of deadlines that remembers where each timer stands in it.

Order is (deadline, sequence): equal deadlines fire in the order in which they were set. Cancel and move are O(log n)
because every timer's slot knows its place in the heap; the heap holds the keys themselves, so that comparing follows no
pointer, and has four children per node, so that a comparison of siblings stays within two cache lines.

A timer's identity is generation << 32 | slot: a stale identity finds nothing. The life of a slot:

    free --start--> in the heap --take (due)--> due --fire--> free, or in the heap again if it has a period
                       |  ^   '---------- cancel ---------> free      (also when due)
                       '--'  move                                     (also when due: back into the heap)

Between `take` and `fire` other handlers run, and may cancel or move what is due; `fire` then finds nothing to do.

This file must not know what the two pointers of a timer mean: whoever started it gets them back exactly once.
"""

import cython
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdint import INT64_MAX, UINT32_MAX, int64_t, uint32_t, uint64_t
from cython.cimports.libc.stdlib import free, realloc
from cython.cimports.penstock.core.types import ItemC, TimerC, TimerKeyC, TimersC

from penstock.errors import UsageError

# The first allocation; it doubles from there.
FIRST_TIMERS = cython.declare(uint32_t, 64)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def timers_init(timers: cython.pointer[TimersC], capacity: uint32_t) -> cython.void:
    """An empty heap that will hold at most `capacity` timers; memory comes when it is needed."""
    timers.heap = cython.NULL
    timers.slots = cython.NULL
    timers.size = 0
    timers.live = 0
    timers.used = 0
    timers.allocated = 0
    timers.capacity = capacity
    timers.first_free = UINT32_MAX
    timers.sequence = 0
    timers.started = 0
    timers.cancelled = 0
    timers.moved = 0
    timers.fired = 0
    timers.missed_periods = 0
    timers.high_water = 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def timers_free(timers: cython.pointer[TimersC]) -> cython.void:
    """Give the memory back. What timers point at must be gone already (`timers_pop_any`)."""
    free(timers.heap)
    free(timers.slots)
    timers_init(timers, timers.capacity)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _before(a: cython.pointer[TimerKeyC], b: cython.pointer[TimerKeyC]) -> cython.bint:
    return a.deadline_ns < b.deadline_ns or (a.deadline_ns == b.deadline_ns and a.sequence < b.sequence)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.inline
def _place(timers: cython.pointer[TimersC], position: uint32_t, key: cython.pointer[TimerKeyC]) -> cython.void:
    timers.heap[position] = key[0]
    timers.slots[key.slot].position = position


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _sift_up(timers: cython.pointer[TimersC], position: uint32_t, key: TimerKeyC) -> uint32_t:
    """Move the hole at `position` up until `key` fits, put it there, and return where."""
    while position > 0:
        parent: uint32_t = (position - 1) >> 2
        if not _before(cython.address(key), timers.heap + parent):
            break
        _place(timers, position, timers.heap + parent)
        position = parent
    _place(timers, position, cython.address(key))
    return position


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _sift_down(timers: cython.pointer[TimersC], position: uint32_t, key: TimerKeyC) -> cython.void:
    """Move the hole at `position` down until `key` fits, and put it there."""
    while True:
        child: uint32_t = (position << 2) + 1
        if child >= timers.size:
            break
        last: uint32_t = child + 3 if child + 3 < timers.size else timers.size - 1
        best: uint32_t = child
        while child < last:
            child += 1
            if _before(timers.heap + child, timers.heap + best):
                best = child
        if not _before(timers.heap + best, cython.address(key)):
            break
        _place(timers, position, timers.heap + best)
        position = best
    _place(timers, position, cython.address(key))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _unheap(timers: cython.pointer[TimersC], position: uint32_t) -> cython.void:
    """Take the key at `position` out of the heap: the last one moves into the hole."""
    timers.size -= 1
    if position == timers.size:
        return
    last: TimerKeyC = timers.heap[timers.size]
    if position > 0 and _before(cython.address(last), timers.heap + ((position - 1) >> 2)):
        _sift_up(timers, position, last)
    else:
        _sift_down(timers, position, last)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _enheap(timers: cython.pointer[TimersC], slot: uint32_t, deadline_ns: int64_t) -> cython.void:
    key: TimerKeyC
    key.deadline_ns = deadline_ns
    key.sequence = timers.sequence
    key.slot = slot
    timers.sequence += 1
    timers.slots[slot].deadline_ns = deadline_ns
    timers.size += 1
    _sift_up(timers, timers.size - 1, key)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _grow(timers: cython.pointer[TimersC]) -> cython.int:
    wanted: uint64_t = cython.cast(uint64_t, timers.allocated) * 2 if timers.allocated else FIRST_TIMERS
    if wanted > timers.capacity:
        wanted = timers.capacity
    heap: cython.p_void = realloc(timers.heap, wanted * cython.sizeof(TimerKeyC))
    if heap == cython.NULL:
        return -1
    timers.heap = cython.cast(cython.pointer[TimerKeyC], heap)
    slots: cython.p_void = realloc(timers.slots, wanted * cython.sizeof(TimerC))
    if slots == cython.NULL:
        return -1
    timers.slots = cython.cast(cython.pointer[TimerC], slots)
    timers.allocated = cython.cast(uint32_t, wanted)
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _take_slot(timers: cython.pointer[TimersC]) -> uint32_t:
    """A free slot: one that was used before, most recent first, else a new one. UINT32_MAX: no memory."""
    slot: uint32_t = timers.first_free
    if slot != UINT32_MAX:
        timers.first_free = timers.slots[slot].next_free
        return slot
    if timers.used == timers.allocated and _grow(timers) < 0:
        return UINT32_MAX
    slot = timers.used
    timers.used += 1
    timers.slots[slot].generation = 1
    return slot


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _free_slot(timers: cython.pointer[TimersC], slot: uint32_t, out: cython.pointer[ItemC]) -> cython.void:
    timer: cython.pointer[TimerC] = timers.slots + slot
    out.first = timer.first
    out.second = timer.second
    out.mark = timer.native
    timer.position = TIMER_FREE
    timer.generation += 1
    timer.next_free = timers.first_free
    timers.first_free = slot
    timers.live -= 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def timers_start(
    timers: cython.pointer[TimersC],
    deadline_ns: int64_t,
    period_ns: int64_t,
    first: cython.p_void,
    second: cython.p_void,
    native: cython.bint,
    identity: cython.pointer[uint64_t],
) -> cython.int:
    """Start a timer. Returns 0, -1 if there are `capacity` timers already, -2 if there is no memory."""
    if timers.live >= timers.capacity:
        return -1
    slot: uint32_t = _take_slot(timers)
    if slot == UINT32_MAX:
        return -2
    timer: cython.pointer[TimerC] = timers.slots + slot
    timer.first = first
    timer.second = second
    timer.period_ns = period_ns
    timer.native = native
    timers.live += 1
    timers.started += 1
    if timers.live > timers.high_water:
        timers.high_water = timers.live
    _enheap(timers, slot, deadline_ns)
    identity[0] = (cython.cast(uint64_t, timer.generation) << 32) | slot
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def timers_find(timers: cython.pointer[TimersC], identity: uint64_t) -> cython.pointer[TimerC]:
    """The timer of that identity, in the heap or due; NULL if it has fired or was cancelled."""
    slot: uint32_t = cython.cast(uint32_t, identity)
    if slot >= timers.used:
        return cython.NULL
    timer: cython.pointer[TimerC] = timers.slots + slot
    if timer.generation != cython.cast(uint32_t, identity >> 32) or timer.position == TIMER_FREE:
        return cython.NULL
    return timer


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def timers_cancel(timers: cython.pointer[TimersC], identity: uint64_t, out: cython.pointer[ItemC]) -> cython.bint:
    """Cancel, also what is due already, and hand back its pointers; False if there is no such timer any more."""
    timer: cython.pointer[TimerC] = timers_find(timers, identity)
    if timer == cython.NULL:
        return False
    if timer.position != TIMER_DUE:
        _unheap(timers, timer.position)
    timers.cancelled += 1
    _free_slot(timers, cython.cast(uint32_t, identity), out)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def timers_move(timers: cython.pointer[TimersC], identity: uint64_t, deadline_ns: int64_t) -> cython.int:
    """Give a timer another deadline; among equal ones it is now the last. Returns False if there is no such timer."""
    timer: cython.pointer[TimerC] = timers_find(timers, identity)
    if timer == cython.NULL:
        return False
    if timer.position != TIMER_DUE:
        _unheap(timers, timer.position)
    timers.moved += 1
    _enheap(timers, cython.cast(uint32_t, identity), deadline_ns)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def timers_next(timers: cython.pointer[cython.const[TimersC]]) -> int64_t:
    """The earliest deadline; INT64_MAX if there is none."""
    return timers.heap[0].deadline_ns if timers.size else INT64_MAX


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def timers_take(
    timers: cython.pointer[TimersC], now_ns: int64_t, barrier: uint64_t, identity: cython.pointer[uint64_t]
) -> cython.bint:
    """Take the earliest timer out of the heap if it is due at `now_ns` and was set before `barrier`, a sequence number.

    A new timer is never due before `now_ns`, so behind one that is beyond the barrier there are only others like it.
    """
    if timers.size == 0 or timers.heap[0].deadline_ns > now_ns or timers.heap[0].sequence >= barrier:
        return False
    slot: uint32_t = timers.heap[0].slot
    _unheap(timers, 0)
    timers.slots[slot].position = TIMER_DUE
    identity[0] = (cython.cast(uint64_t, timers.slots[slot].generation) << 32) | slot
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def timers_fire(
    timers: cython.pointer[TimersC], identity: uint64_t, now_ns: int64_t, out: cython.pointer[ItemC]
) -> cython.bint:
    """Give out the pointers of a timer that is due and not cancelled or moved since.

    One without a period is gone with that, and the pointers are the caller's. One with a period keeps them, and is
    set for the first instant of its grid after `now_ns`: it never drifts, and periods that went by are counted, not
    replayed. `out.mark` says whether the pointers are the caller's.
    """
    timer: cython.pointer[TimerC] = timers_find(timers, identity)
    if timer == cython.NULL or timer.position != TIMER_DUE:
        return False
    timers.fired += 1
    if timer.period_ns == 0:
        _free_slot(timers, cython.cast(uint32_t, identity), out)
        out.mark = True
        return True
    out.first = timer.first
    out.second = timer.second
    out.mark = False
    periods: int64_t = 1
    if now_ns >= timer.deadline_ns + timer.period_ns:
        periods = (now_ns - timer.deadline_ns) // timer.period_ns + 1
    timers.missed_periods += periods - 1
    _enheap(timers, cython.cast(uint32_t, identity), timer.deadline_ns + periods * timer.period_ns)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def timers_pop_any(
    timers: cython.pointer[TimersC], out: cython.pointer[ItemC], native: cython.pointer[cython.bint]
) -> cython.bint:
    """Cancel some timer, for an owner that closes; False when there is none left."""
    while timers.used > 0:
        slot: uint32_t = timers.used - 1
        timer: cython.pointer[TimerC] = timers.slots + slot
        if timer.position != TIMER_FREE:
            if timer.position != TIMER_DUE:
                _unheap(timers, timer.position)
            timers.cancelled += 1
            _free_slot(timers, slot, out)
            native[0] = timer.native
            return True
        timers.used -= 1
    timers.first_free = UINT32_MAX
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def timers_ok(timers: cython.pointer[cython.const[TimersC]]) -> cython.bint:
    """The invariant at the head of the heap, in constant time: the head is before its children, and places agree."""
    if timers.size > timers.live or timers.live > timers.capacity or timers.size > timers.allocated:
        return False
    if timers.size == 0:
        return True
    if timers.slots[timers.heap[0].slot].position != 0:
        return False
    child: uint32_t = 1
    while child < timers.size and child < 5:
        if _before(timers.heap + child, timers.heap):
            return False
        child += 1
    return True


class Timers:
    """A heap of deadlines for Python objects, without a clock of its own."""

    def __cinit__(self, capacity: int):
        if not 1 <= capacity <= 1 << 28:
            raise UsageError(f"capacity is {capacity}; give a whole number from 1 to {1 << 28:,}")
        timers_init(cython.address(self.c), capacity)

    def __dealloc__(self):
        item: ItemC
        native: cython.bint = False
        while timers_pop_any(cython.address(self.c), cython.address(item), cython.address(native)):
            Py_DECREF(cython.cast(object, item.first))
        timers_free(cython.address(self.c))

    def start(self, deadline_ns: int, value, period_ns: int = 0):
        """Set a timer and return its identity, or None if there are `capacity` timers already."""
        identity: uint64_t = 0
        failed: cython.int = timers_start(
            cython.address(self.c),
            deadline_ns,
            period_ns,
            cython.cast(cython.p_void, value),
            cython.NULL,
            False,
            cython.address(identity),
        )
        if failed == -1:
            return None
        if failed:
            raise MemoryError("no memory for another timer")
        Py_INCREF(value)
        return identity

    def cancel(self, identity: int):
        """Cancel a timer; False if it has fired or was cancelled before."""
        item: ItemC
        if not timers_cancel(cython.address(self.c), identity, cython.address(item)):
            return False
        Py_DECREF(cython.cast(object, item.first))
        return True

    def move(self, identity: int, deadline_ns: int):
        """Give a timer another deadline; False if it has fired or was cancelled before."""
        return bool(timers_move(cython.address(self.c), identity, deadline_ns))

    def take(self, now_ns: int, barrier=None):
        """Take the earliest timer that is due out of the heap and return its identity, or None."""
        identity: uint64_t = 0
        limit: uint64_t = self.c.sequence if barrier is None else barrier
        if not timers_take(cython.address(self.c), now_ns, limit, cython.address(identity)):
            return None
        return identity

    def fire(self, identity: int, now_ns: int):
        """Return the value of a timer that was taken, in a tuple; None if it was cancelled or moved since."""
        item: ItemC
        if not timers_fire(cython.address(self.c), identity, now_ns, cython.address(item)):
            return None
        value = cython.cast(object, item.first)
        if item.mark:
            Py_DECREF(value)
        return (value,)

    def deadline_ns(self, identity: int):
        """When a timer is due, or None if it has fired or was cancelled before."""
        timer: cython.pointer[TimerC] = timers_find(cython.address(self.c), identity)
        return None if timer == cython.NULL else timer.deadline_ns

    @property
    def next_ns(self):
        """The earliest deadline, or None."""
        return timers_next(cython.address(self.c)) if self.c.size else None

    @property
    def sequence(self):
        """The number that the next timer gets: a barrier for `take`."""
        return self.c.sequence

    def __len__(self):
        return self.c.live

    @property
    def missed_periods(self):
        """How many periods of intervals went by without a firing of their own."""
        return self.c.missed_periods

    @property
    def ok(self):
        """Whether the whole heap is in order: the long form of the check that the kernel makes in constant time."""
        position: uint32_t
        for position in range(1, self.c.size):
            if _before(self.c.heap + position, self.c.heap + ((position - 1) >> 2)):
                return False
        for position in range(self.c.size):
            if self.c.slots[self.c.heap[position].slot].position != position:
                return False
        return bool(timers_ok(cython.address(self.c)))
