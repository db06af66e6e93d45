# cython: language_level=3
"""What happens when more arrives than fits? A bounded queue of one kind of work, its overflow policy, its budget.

    offer --> [ ring ] --take--> handler          what a full lane does is its overflow policy;
                 |                                what may be taken is its budget;
                 '--> displaced, denied           everything else is counted, by reason.

The books always balance, and the kernel checks it (`lane_ok`):

    offered == run + waiting + dropped (oldest, newest, denied, closed) + coalesced + rejected

This file must not know who calls handlers, or when: a lane knows no loop. `pending` and `drops` are sums over several
lanes that an owner may keep; a lane without an owner keeps its own.
"""

import cython
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.libc.stdint import uint64_t
from cython.cimports.penstock.core.budget import Budget, budget_ok, budget_refill
from cython.cimports.penstock.core.ring import ring_free, ring_init, ring_newest, ring_pop, ring_push, ring_size
from cython.cimports.penstock.core.types import ItemC, LaneC

from penstock import limits
from penstock.errors import LaneClosed, UsageError

OVERFLOWS = ("drop-oldest", "drop-newest", "reject", "coalesce", "block")
_OUTCOMES = ("pushed", "dropped-oldest", "coalesced", "dropped-newest", "rejected", "full")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def lane_offer(lane: cython.pointer[LaneC], item: cython.p_void, displaced: cython.pointer[ItemC]) -> cython.int:
    """Push, or do what the overflow policy says; the answer tells who owns `item` and whether `displaced` was set."""
    lane.offered += 1
    if ring_push(cython.address(lane.ring), item, cython.NULL, lane.offered):
        lane.pending[0] += 1
        if ring_size(cython.address(lane.ring)) > lane.high_water:
            lane.high_water = ring_size(cython.address(lane.ring))
        return OFFER_PUSHED
    return _overflow(lane, item, displaced)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _overflow(lane: cython.pointer[LaneC], item: cython.p_void, displaced: cython.pointer[ItemC]) -> cython.int:
    if lane.overflow == OVERFLOW_DROP_OLDEST:
        ring_pop(cython.address(lane.ring), displaced)
        ring_push(cython.address(lane.ring), item, cython.NULL, lane.offered)
        lane.dropped_oldest += 1
        lane.drops[0] += 1
        return OFFER_DROPPED_OLDEST
    if lane.overflow == OVERFLOW_COALESCE:
        newest: cython.pointer[ItemC] = ring_newest(cython.address(lane.ring))
        displaced[0] = newest[0]
        newest.first = item
        newest.mark = lane.offered
        lane.coalesced += 1
        return OFFER_COALESCED
    if lane.overflow == OVERFLOW_DROP_NEWEST:
        lane.dropped_newest += 1
        lane.drops[0] += 1
        return OFFER_DROPPED_NEWEST
    lane.rejected += 1
    lane.drops[0] += 1
    return OFFER_REJECTED if lane.overflow == OVERFLOW_REJECT else OFFER_FULL


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def lane_take(lane: cython.pointer[LaneC], out: cython.pointer[ItemC]) -> cython.bint:
    """Take the oldest event to run it. The caller has seen that the budget allows it, and pays."""
    if not ring_pop(cython.address(lane.ring), out):
        return False
    lane.pending[0] -= 1
    lane.run += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def lane_drop_denied(lane: cython.pointer[LaneC], out: cython.pointer[ItemC]) -> cython.bint:
    """Take the oldest event to drop it, because the budget is spent and the lane does not keep what is denied."""
    if not ring_pop(cython.address(lane.ring), out):
        return False
    lane.pending[0] -= 1
    lane.dropped_denied += 1
    lane.budget.denied += 1
    lane.drops[0] += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def lane_runnable(lane: cython.pointer[LaneC], turn: uint64_t, tick: uint64_t) -> cython.bint:
    """Whether a step in that turn and tick would find something to do here: to run, or to drop as denied."""
    if ring_size(cython.address(lane.ring)) == 0:
        return False
    budget_refill(cython.address(lane.budget), turn, tick)
    return lane.budget.left > 0 or not lane.budget.keep


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def lane_close(lane: cython.pointer[LaneC]) -> uint64_t:
    """Take no more, and account for what waits as dropped; the caller empties the ring. Returns how many waited."""
    waiting: uint64_t = ring_size(cython.address(lane.ring))
    lane.closed = True
    lane.pending[0] -= waiting
    lane.dropped_closed += waiting
    lane.drops[0] += waiting
    return waiting


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def lane_dropped(lane: cython.pointer[cython.const[LaneC]]) -> uint64_t:
    """Everything that was accepted or offered and will never run."""
    return lane.dropped_oldest + lane.dropped_newest + lane.dropped_denied + lane.dropped_closed + lane.rejected


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def lane_ok(lane: cython.pointer[cython.const[LaneC]]) -> cython.bint:
    """The invariants: within the bound, the books balance, the budget is sound."""
    waiting: uint64_t = ring_size(cython.address(lane.ring))
    gone: uint64_t = lane.run + lane_dropped(lane) + lane.coalesced
    return (
        waiting <= lane.ring.capacity
        and waiting <= lane.high_water <= lane.ring.capacity
        and lane.offered == gone + waiting
        and budget_ok(cython.address(lane.budget))
    )


def _check_name(name):
    if not isinstance(name, str) or not name:
        raise UsageError(f"a lane named {name!r}; give a text that is not empty")
    if len(name) > limits.NAME_MAX_CHARACTERS:
        raise UsageError(f"a lane's name of {len(name)} characters; give at most {limits.NAME_MAX_CHARACTERS}")


class Lane:
    """A bounded queue of one kind of work, with an overflow policy, a budget and counters."""

    def __cinit__(self, *args, **kwargs):
        self.c.pending = cython.address(self.c.own_pending)
        self.c.drops = cython.address(self.c.own_drops)

    def __init__(
        self,
        name,
        handler=None,
        *,
        capacity=limits.LANE_CAPACITY,
        overflow="drop-oldest",
        budget=limits.LANE_BUDGET,
        priority=0,
        merge=None,
    ):
        _check_name(name)
        if handler is not None and not callable(handler):
            raise UsageError(f"lane {name!r}: the handler {handler!r} cannot be called")
        if isinstance(capacity, bool) or not isinstance(capacity, int):
            raise UsageError(f"lane {name!r}: a capacity of {capacity!r}; give a whole number")
        if not 1 <= capacity <= limits.LANE_CAPACITY_MAX:
            raise UsageError(f"lane {name!r}: a capacity of {capacity:,}; give 1 to {limits.LANE_CAPACITY_MAX:,}")
        if overflow not in OVERFLOWS:
            raise UsageError(f"lane {name!r}: overflow is {overflow!r}; give one of {', '.join(map(repr, OVERFLOWS))}")
        if merge is not None and overflow != "coalesce":
            raise UsageError(f'lane {name!r}: merge goes with overflow="coalesce", not with {overflow!r}')
        if merge is not None and not callable(merge):
            raise UsageError(f"lane {name!r}: merge is {merge!r}, which cannot be called")
        if isinstance(priority, bool) or not isinstance(priority, int) or not -1000 <= priority <= 1000:
            raise UsageError(f"lane {name!r}: a priority of {priority!r}; give a whole number from -1000 to 1000")
        if self.c.ring.slots != cython.NULL:
            raise UsageError(f"lane {name!r}: __init__ was called twice")
        if not isinstance(budget, Budget):
            budget = Budget(budget)
        self.name = name
        self.handler = handler
        self.merge = merge
        self.c.overflow = OVERFLOWS.index(overflow)
        self.c.priority = priority
        self.c.budget = cython.cast(Budget, budget).c
        if ring_init(cython.address(self.c.ring), capacity) < 0:
            raise MemoryError(f"lane {name!r}: no memory for {capacity:,} events")

    def __dealloc__(self):
        item: ItemC
        if self.c.ring.slots != cython.NULL:
            while ring_pop(cython.address(self.c.ring), cython.address(item)):
                Py_DECREF(cython.cast(object, item.first))
            ring_free(cython.address(self.c.ring))

    def offer_object(self, item):
        """Push an object, keeping the counts of references right; returns an OFFER_ outcome."""
        if self.merge is not None and ring_size(cython.address(self.c.ring)) >= self.c.ring.capacity:
            item = self._merged(item)
            if self.c.closed:
                # The function has closed its own lane: what it made has nowhere to go.
                self.c.offered += 1
                self.c.dropped_closed += 1
                self.c.drops[0] += 1
                return OFFER_DROPPED_NEWEST
        displaced: ItemC
        outcome: cython.int = lane_offer(
            cython.address(self.c), cython.cast(cython.p_void, item), cython.address(displaced)
        )
        if outcome <= OFFER_COALESCED:
            Py_INCREF(item)
        if outcome in (OFFER_DROPPED_OLDEST, OFFER_COALESCED):
            Py_DECREF(cython.cast(object, displaced.first))
        return outcome

    def _merged(self, item):
        # The function may do anything, also post here. Only if the newest is still the newest is the result meant.
        newest = cython.cast(object, ring_newest(cython.address(self.c.ring)).first)
        merged = self.merge(newest, item)
        slot: cython.pointer[ItemC] = ring_newest(cython.address(self.c.ring))
        return merged if slot != cython.NULL and slot.first == cython.cast(cython.p_void, newest) else item

    def offer(self, item):
        """Push `item` as the overflow policy says, and say what happened.

        Only for a lane that belongs to no loop; with a loop, use `post`.
        """
        if self.c.closed:
            raise LaneClosed(f"lane {self.name!r} is closed; nothing can be offered to it")
        self._own()
        return _OUTCOMES[self.offer_object(item)]

    def _own(self):
        if self.owner is not None and self.owner() is not None:
            raise UsageError(f"lane {self.name!r} belongs to a loop; post to it, and let the loop run its events")
        return 0

    def take(self, epoch: int):
        """Take the oldest event that the budget of that turn or tick allows, in a tuple; None if there is none."""
        item: ItemC
        self._own()
        if not lane_runnable(cython.address(self.c), epoch, epoch):
            return None
        if self.c.budget.left == 0:
            while lane_drop_denied(cython.address(self.c), cython.address(item)):
                Py_DECREF(cython.cast(object, item.first))
            return None
        lane_take(cython.address(self.c), cython.address(item))
        self.c.budget.left -= 1
        self.c.budget.spent += 1
        taken = cython.cast(object, item.first)
        Py_DECREF(taken)
        return (taken,)

    def close(self):
        """Take no more; what waits is dropped and counted. Returns how many that were.

        A lane that belongs to a loop is closed by that loop's thread.
        """
        if self.c.closed:
            return 0
        loop = None if self.owner is None else self.owner()
        if loop is not None:
            loop.closing_lane(self)
        return self.shut()

    def shut(self):
        """Close without asking the owner."""
        item: ItemC
        waiting = lane_close(cython.address(self.c))
        while ring_pop(cython.address(self.c.ring), cython.address(item)):
            Py_DECREF(cython.cast(object, item.first))
        return waiting

    def __len__(self):
        return ring_size(cython.address(self.c.ring))

    @property
    def capacity(self):
        """How many events may wait."""
        return self.c.ring.capacity

    @property
    def overflow(self):
        """What the lane does when it is full."""
        return OVERFLOWS[self.c.overflow]

    @property
    def priority(self):
        """Lanes of higher priority run first in each turn."""
        return self.c.priority

    @property
    def closed(self):
        """Whether the lane takes no more."""
        return bool(self.c.closed)

    @property
    def ok(self):
        """Whether the invariants hold."""
        return bool(lane_ok(cython.address(self.c)))

    def counters(self):
        """Every counter of the lane, by the names that `stats()` uses."""
        return {
            "depth": ring_size(cython.address(self.c.ring)),
            "capacity": self.c.ring.capacity,
            "high_water": self.c.high_water,
            "offered": self.c.offered,
            "pushed": self.c.offered - self.c.dropped_newest - self.c.rejected,
            "run": self.c.run,
            "dropped_oldest": self.c.dropped_oldest,
            "dropped_newest": self.c.dropped_newest,
            "dropped_denied": self.c.dropped_denied,
            "dropped_closed": self.c.dropped_closed,
            "coalesced": self.c.coalesced,
            "rejected": self.c.rejected,
            "denied": self.c.budget.denied,
            "overrun": self.c.budget.overrun,
        }

    def __repr__(self):
        state = "closed" if self.c.closed else f"{len(self)} of {self.capacity}"
        return f"<Lane {self.name!r} {state}, {self.overflow}>"
