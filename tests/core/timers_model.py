"""What timers must do, on a plain list: the oracle of the tests of the heap and of the whole reactor.

Slow and obvious on purpose: the earliest timer is looked for anew each time. It must not know the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class TimerModel:
    """One timer. It waits, is due (taken, not fired yet), or is over."""

    value: Any
    deadline_ns: int
    sequence: int
    period_ns: int
    state: str = "waiting"


class TimersModel:
    """All timers of a loop, and their books."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.timers: list[TimerModel] = []
        self.sequence = 0
        self.started = self.fired = self.cancelled = self.moved = self.missed_periods = self.high_water = 0

    @property
    def live(self) -> list[TimerModel]:
        return [timer for timer in self.timers if timer.state != "over"]

    @property
    def waiting(self) -> list[TimerModel]:
        """In the order in which they will fire."""
        waiting = [timer for timer in self.timers if timer.state == "waiting"]
        return sorted(waiting, key=lambda timer: (timer.deadline_ns, timer.sequence))

    @property
    def next_ns(self) -> int | None:
        return self.waiting[0].deadline_ns if self.waiting else None

    def _arm(self, timer: TimerModel, deadline_ns: int) -> None:
        timer.deadline_ns, timer.sequence, timer.state = deadline_ns, self.sequence, "waiting"
        self.sequence += 1

    def start(self, deadline_ns: int, value: Any, period_ns: int = 0) -> TimerModel | None:
        if len(self.live) >= self.capacity:
            return None
        timer = TimerModel(value, deadline_ns, 0, period_ns)
        self._arm(timer, deadline_ns)
        self.timers = [*self.live, timer]
        self.started += 1
        self.high_water = max(self.high_water, len(self.timers))
        return timer

    def cancel(self, timer: TimerModel) -> bool:
        if timer.state == "over":
            return False
        timer.state = "over"
        self.cancelled += 1
        return True

    def move(self, timer: TimerModel, deadline_ns: int) -> bool:
        if timer.state == "over":
            return False
        self._arm(timer, deadline_ns)
        self.moved += 1
        return True

    def take(self, now_ns: int, barrier: int | None = None) -> TimerModel | None:
        """The earliest timer if it is due and was set before the barrier, a sequence number."""
        if not self.waiting:
            return None
        first = self.waiting[0]
        if first.deadline_ns > now_ns or (barrier is not None and first.sequence >= barrier):
            return None
        first.state = "due"
        return first

    def fire(self, timer: TimerModel, now_ns: int) -> bool:
        """Whether it fires: it was taken, and neither cancelled nor moved since."""
        if timer.state != "due":
            return False
        self.fired += 1
        if not timer.period_ns:
            timer.state = "over"
            return True
        deadline_ns = timer.deadline_ns + timer.period_ns
        while deadline_ns <= now_ns:
            deadline_ns += timer.period_ns
            self.missed_periods += 1
        self._arm(timer, deadline_ns)
        return True
