# cython: language_level=3
"""How much may run before somebody says "more"? A limit, what is left of it, and when it is filled up again.

A budget is refilled by the passing of a turn or of a tick, named by a number that only grows; spending it cannot create
any. What a handler takes beyond what was left is recorded as overrun and not borrowed from the next refill: debts would
starve the innocent. This file must not know what is being budgeted.
"""

import cython
from cython.cimports.libc.stdint import UINT64_MAX, int64_t, uint64_t
from cython.cimports.penstock.core.types import BudgetC

from penstock.errors import UsageError

_UNITS = ("work", "ns")
_REFILLS = ("turn", "tick")
_DENIED = ("keep", "drop")


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def budget_refill(budget: cython.pointer[BudgetC], turn: uint64_t, tick: uint64_t) -> cython.void:
    """Fill up if the turn (or tick) is another one than at the last refill."""
    epoch: uint64_t = tick if budget.refill == REFILL_TICK else turn
    if epoch != budget.epoch:
        budget.epoch = epoch
        budget.left = budget.limit
        budget.spent_before = budget.spent
        budget.refills += 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def budget_take(budget: cython.pointer[BudgetC], amount: int64_t) -> cython.void:
    """Spend `amount`, as far as it is there."""
    if amount < 0:
        amount = 0
    if amount > budget.left:
        budget.overrun += amount - budget.left
        amount = budget.left
    budget.left -= amount
    budget.spent += amount


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def budget_ok(budget: cython.pointer[cython.const[BudgetC]]) -> cython.bint:
    """The invariant: never below zero, and what is spent since the refill plus what is left is the limit."""
    return budget.left >= 0 and budget.spent - budget.spent_before + budget.left == cython.cast(uint64_t, budget.limit)


def _choice(name, value, allowed):
    if value not in allowed:
        raise UsageError(f"{name} is {value!r}; give one of {', '.join(map(repr, allowed))}")
    return allowed.index(value)


class Budget:
    """How much of a lane's work may run per turn or per tick.

    `unit` is "work" (events) or "ns" (time that handlers take); `denied` says what becomes of an event that comes up
    when the budget is spent: "keep" leaves it for the next refill, "drop" drops and counts it.
    """

    def __init__(self, limit, per="turn", *, unit="work", denied="keep"):
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise UsageError(f"a budget of {limit!r}: give a whole number")
        if limit < 0:
            raise UsageError(f"a budget of {limit} is below zero; give 0 (nothing may run) or more")
        if limit >= 1 << 62:
            raise UsageError(f"a budget of {limit} is no limit; give less than 2**62")
        self.c.limit = limit
        self.c.left = limit
        # No denial yet: 0 is an epoch, the one before the first tick.
        self.c.denied_epoch = UINT64_MAX
        self.c.unit = _choice("unit", unit, _UNITS)
        self.c.refill = _choice("per", per, _REFILLS)
        self.c.keep = _choice("denied", denied, _DENIED) == 0

    def refill(self, epoch: int):
        """Fill up if `epoch`, the number of the turn or tick, is another one than at the last refill."""
        budget_refill(cython.address(self.c), epoch, epoch)

    def take(self, amount: int):
        """Spend `amount`, as far as it is there; the rest counts as overrun."""
        budget_take(cython.address(self.c), amount)

    def deny(self):
        """Count an event that found nothing left."""
        self.c.denied += 1

    @property
    def limit(self):
        """What a refill fills up to."""
        return self.c.limit

    @property
    def left(self):
        """What may still be spent before the next refill."""
        return self.c.left

    @property
    def per(self):
        """What refills: "turn" or "tick"."""
        return _REFILLS[self.c.refill]

    @property
    def unit(self):
        """What is counted: "work" or "ns"."""
        return _UNITS[self.c.unit]

    @property
    def denied_policy(self):
        """What becomes of a denied event: "keep" or "drop"."""
        return _DENIED[0 if self.c.keep else 1]

    @property
    def spent(self):
        """What has been spent since the start."""
        return self.c.spent

    @property
    def overrun(self):
        """What was taken beyond what was left."""
        return self.c.overrun

    @property
    def denied(self):
        """How many events found nothing left."""
        return self.c.denied

    @property
    def ok(self):
        """Whether the invariants hold."""
        return bool(budget_ok(cython.address(self.c)))

    def __repr__(self):
        return (
            f"Budget({self.c.limit}, per={self.per!r}, unit={self.unit!r}, denied={self.denied_policy!r}; "
            f"left {self.c.left})"
        )
