"""Driving a scheduler on the kernel's loop: turns, waiting, and what arrives from other threads.

The scheduler never blocks; it says "busy", "wait until" or "idle". Here that becomes deferred work, a timer of the loop,
or nothing; and whatever arrives meanwhile wakes it within a turn. Events of other threads come through the loop's inbox
into one lane, both bounded and counted; what they trigger runs in the turn that takes the last of them from the lane. This
file must not know reactors or plans.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from penstock.core.handle import Timer
from penstock.core.lane import Lane
from penstock.errors import LaneClosed, LoopClosed, Overflow
from penstock.limits import TIMED_ARRIVALS_CAPACITY, TIMED_REACTIONS_PER_TURN
from penstock.reactor import Reactor as Loop
from penstock.timed.handles import Action
from penstock.timed.scheduler import Scheduler
from penstock.timed.steps import BUSY, DONE, WAIT

Arrival = tuple[Action[Any], Any, int, int]

# A timer of the loop may not be longer than ten years; a day is as good, since the scheduler looks again.
LONGEST_WAIT_NS = 86_400 * 1_000_000_000


# Several programs may share a loop, whose lanes need different names.
_numbers = itertools.count()


class Driver:
    """One scheduler on one loop."""

    def __init__(self, scheduler: Scheduler, loop: Loop, on_done: Callable[[BaseException | None], object]) -> None:
        self.scheduler = scheduler
        self.loop = loop
        self.on_done = on_done
        self.arrivals_refused = 0
        self._timer: Timer | None = None
        self._due = False
        self._done = False
        self._lane: Lane | None = None
        scheduler.on_wake = self.wake

    def start(self) -> None:
        """Begin at the present, and run in the next turn."""
        name = f"timed arrivals {next(_numbers)}"
        self._lane = self.loop.lane(name, self._arrive, capacity=TIMED_ARRIVALS_CAPACITY, overflow="reject")
        self.wake()

    def wake(self) -> None:
        """Look again in the next turn. In the loop's thread."""
        if not self._due and not self._done:
            self._due = True
            self.loop.defer(self._pump)

    def post(self, action: Action[Any], value: Any, delay_ns: int, at_ns: int) -> bool:
        """From any other thread: hand an event over. Returns whether the loop takes it."""
        if self._lane is None:
            return False
        try:
            self.loop.post_threadsafe(self._lane, (action, value, delay_ns, at_ns), 0)
        except (Overflow, LaneClosed, LoopClosed):
            self.arrivals_refused += 1
            return False
        return True

    @property
    def arrivals_dropped(self) -> int:
        """How many events of other threads were on their way when the program ended."""
        return 0 if self._lane is None else self._lane.counters()["dropped_closed"]

    def _arrive(self, arrival: Arrival) -> None:
        action, value, delay_ns, at_ns = arrival
        if action.gate is not None:
            action.gate.arrived()
        # It is looked at below: nothing needs to be woken by the scheduler itself.
        self.scheduler.note_sleeping(False)
        # A refusal is counted by the action (`rejected`); the thread that posted it has long gone on.
        with suppress(Overflow):
            action.arrive(value, delay_ns, at_ns)
        if self._due or self._lane:
            self.wake()
        else:
            # The last of its batch, and nothing is deferred: at once, since deferred work had its turn before the lanes.
            self._pump()

    def _pump(self) -> None:
        """One share of work."""
        self._due = False
        if self._done:
            return
        scheduler = self.scheduler
        scheduler.note_sleeping(False)
        if self._timer is not None:
            self.loop.cancel_timer(self._timer)
            self._timer = None
        try:
            status = scheduler.step(TIMED_REACTIONS_PER_TURN)
        except Exception as error:  # handed to whoever runs the program
            self._finish(error)
            return
        except BaseException as error:
            self._finish(error)
            raise
        if status == BUSY:
            self.wake()
            return
        if status == DONE:
            self._finish(None)
            return
        scheduler.note_sleeping(True)
        if status == WAIT:
            wait_ns = min(max(0, -((scheduler.physical_ns() - scheduler.wait_ns) // scheduler.speed)), LONGEST_WAIT_NS)
            self._timer = self.loop.set_timeout(wait_ns / 1_000_000_000, self.wake)

    def _finish(self, error: BaseException | None) -> None:
        self._done = True
        if self._lane is not None:
            self._lane.close()
        self.on_done(error)
