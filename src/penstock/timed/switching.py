"""Carrying out mode transitions at the end of a tag.

Three things are remembered of each mode besides which one a reactor is in: whether its startup triggers have fired, whether
its time begins anew at the next activation (`fresh`), and whether `Reset` is due then. A transition is applied at the end
of its tag: first all requests change which modes are current, then every mode whose activity has changed is suspended,
continued or begun; so that modes inside modes need no rule of their own. What begins, begins at the next microstep.

This file must not know reactors: it sees the plan, and asks the scheduler to move triggers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.timed.plan import RESET, STARTUP, TIMER
from penstock.timed.time import Tag

if TYPE_CHECKING:
    from penstock.timed.plan import Plan
    from penstock.timed.scheduler import Scheduler


class Switcher:
    """The state of all modes of a program."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        count = len(plan.modes)
        self.requests: dict[int, tuple[int, bool]] = {}
        self.current = [modal.initial for modal in plan.modals]
        self.active = [False] * count
        self.started = [False] * count
        self.fresh = [True] * count
        self.reset_due = [False] * count
        self.left: list[Tag] = [Tag(0, 0)] * count
        self.transitions = 0

    def request(self, mode: int, history: bool) -> None:
        """Remember a transition until the end of the tag; the last one wins."""
        self.requests[self.plan.modes[mode].modal] = (mode, history)

    def entered(self, mode: int) -> bool:
        """Whether the mode has ever been active."""
        return self.started[mode]

    def begin(self, scheduler: Scheduler) -> None:
        """Activate the initial modes before the first tag."""
        self._suspend_all(scheduler)
        self._apply(scheduler)

    def switch(self, scheduler: Scheduler) -> None:
        """Carry out what was requested in this tag."""
        requests, self.requests = self.requests, {}
        # Outer reactors come first in a plan; they go last here, so that their reset overrides what happens inside.
        for modal in sorted(requests, reverse=True):
            mode, history = requests[modal]
            self.current[modal] = mode
            self.transitions += 1
            if not history:
                self._reset(mode, entering=True)
        self._apply(scheduler)

    def _reset(self, mode: int, *, entering: bool) -> None:
        """Let a mode and all modes inside begin anew, whenever they become active."""
        self.fresh[mode] = True
        self.reset_due[mode] = entering
        for set_back in self.plan.modes[mode].resets:
            set_back()
        for modal in self.plan.modes[mode].modals:
            initial = self.plan.modals[modal].initial
            self.current[modal] = initial
            for inner in self.plan.modals[modal].modes:
                self._reset(inner, entering=entering and inner == initial)

    def _is_active(self, mode: int) -> bool:
        modal = self.plan.modes[mode].modal
        enclosing = self.plan.modals[modal].enclosing
        return self.current[modal] == mode and (enclosing < 0 or self._is_active(enclosing))

    def _suspend_all(self, scheduler: Scheduler) -> None:
        for mode in self.plan.modes:
            for trigger in mode.triggers:
                scheduler.suspend(trigger)

    def _apply(self, scheduler: Scheduler) -> None:
        """Suspend, continue or begin every mode as its new state asks."""
        now = [self._is_active(mode) for mode in range(len(self.plan.modes))]
        before, self.active = self.active, now
        for mode, active in enumerate(now):
            if active != before[mode]:
                scheduler.set_active(mode, active)
            if before[mode] and not active:
                self.left[mode] = scheduler.tag
                for trigger in self.plan.modes[mode].triggers:
                    scheduler.suspend(trigger)
            elif active and self.fresh[mode]:
                self._start(scheduler, mode)
            elif active and not before[mode]:
                for trigger in self.plan.modes[mode].triggers:
                    scheduler.resume(trigger, self.left[mode])

    def _start(self, scheduler: Scheduler, mode: int) -> None:
        """Begin the mode's time anew: timers start, startup triggers fire once, reset triggers if a reset is due."""
        reset, first = self.reset_due[mode], not self.started[mode]
        self.fresh[mode] = self.reset_due[mode] = False
        self.started[mode] = True
        for trigger in self.plan.modes[mode].triggers:
            kind = self.plan.triggers[trigger].kind
            scheduler.restart(trigger)
            if kind == TIMER or (kind == STARTUP and first) or (kind == RESET and reset):
                scheduler.fire(trigger)
