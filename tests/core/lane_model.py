"""What a lane and its budget must do, on a plain list: the oracle of the tests of lanes and of the whole reactor.

Slow and obvious on purpose. It must not know the kernel: only numbers, words and what the documentation says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class BudgetModel:
    """A limit, what is left of it, and the turn or tick in which it was filled up last."""

    limit: int
    per: str = "turn"
    unit: str = "work"
    denied_policy: str = "keep"
    left: int = field(init=False)
    epoch: int = 0
    spent: int = 0
    overrun: int = 0
    denied: int = 0
    denied_in: int | None = None

    def __post_init__(self) -> None:
        self.left = self.limit

    def refill(self, turn: int, tick: int) -> None:
        epoch = turn if self.per == "turn" else tick
        if epoch != self.epoch:
            self.epoch, self.left = epoch, self.limit

    def take(self, amount: int) -> None:
        paid = min(amount, self.left)
        self.left -= paid
        self.spent += paid
        self.overrun += amount - paid

    def deny_kept(self) -> None:
        """An event stays because nothing is left: counted once until the next refill."""
        if self.denied_in != self.epoch:
            self.denied_in = self.epoch
            self.denied += 1


COUNTERS = [
    "offered",
    "run",
    "dropped_oldest",
    "dropped_newest",
    "dropped_denied",
    "dropped_closed",
    "coalesced",
    "rejected",
    "high_water",
]


class LaneModel:
    """A list of (event, number of the offer), and its books."""

    def __init__(
        self,
        capacity: int,
        overflow: str,
        budget: BudgetModel,
        *,
        priority: int = 0,
        merge: Callable[[Any, Any], Any] | None = None,
    ) -> None:
        self.capacity, self.overflow, self.budget = capacity, overflow, budget
        self.priority, self.merge = priority, merge
        self.waiting: list[tuple[Any, int]] = []
        self.closed = False
        self.books = dict.fromkeys(COUNTERS, 0)

    def offer(self, event: Any) -> str:
        """Do what the overflow policy says, and return the outcome."""
        books, waiting = self.books, self.waiting
        books["offered"] += 1
        if len(waiting) < self.capacity:
            waiting.append((event, books["offered"]))
            books["high_water"] = max(books["high_water"], len(waiting))
            return "pushed"
        if self.overflow == "drop-oldest":
            waiting.pop(0)
            waiting.append((event, books["offered"]))
            books["dropped_oldest"] += 1
            return "dropped-oldest"
        if self.overflow == "coalesce":
            newest = waiting.pop()[0]
            waiting.append((self.merge(newest, event) if self.merge else event, books["offered"]))
            books["coalesced"] += 1
            return "coalesced"
        if self.overflow == "drop-newest":
            books["dropped_newest"] += 1
            return "dropped-newest"
        books["rejected"] += 1
        return "rejected" if self.overflow == "reject" else "full"

    def take(self) -> Any:
        self.books["run"] += 1
        return self.waiting.pop(0)[0]

    def drop_denied(self) -> Any:
        self.books["dropped_denied"] += 1
        self.budget.denied += 1
        return self.waiting.pop(0)[0]

    def runnable(self, turn: int, tick: int) -> bool:
        if not self.waiting:
            return False
        self.budget.refill(turn, tick)
        return self.budget.left > 0 or self.budget.denied_policy == "drop"

    def close(self) -> int:
        if self.closed:
            return 0
        dropped = len(self.waiting)
        self.books["dropped_closed"] += dropped
        self.waiting.clear()
        self.closed = True
        return dropped

    @property
    def dropped(self) -> int:
        """Everything that will never run and was not merged into something that does."""
        names = ("dropped_oldest", "dropped_newest", "dropped_denied", "dropped_closed", "rejected")
        return sum(self.books[name] for name in names)

    def counters(self) -> dict[str, int]:
        """The same as `Lane.counters()`."""
        books = self.books
        return {
            **books,
            "depth": len(self.waiting),
            "capacity": self.capacity,
            "pushed": books["offered"] - books["dropped_newest"] - books["rejected"],
            "denied": self.budget.denied,
            "overrun": self.budget.overrun,
        }
