"""The smallest policy-aware system: two kinds of events, one bounded ring, one budget. Read this file first.

What it promises, whatever its handlers do and however much is posted:

- Time is an input. A TIMER enters at most once per period, never early and never in a burst; periods that went by
  without one of their own are counted as missed.
- Memory is bounded. Everything that waits is in one ring; when it is full, the oldest INTERNAL event goes, counted.
- Work is bounded. INTERNAL events spend a budget that only a TIMER fills, so that nothing runs before the first, and
  work that makes more work gains nothing by it. One that finds the budget spent is denied and counted; it is dropped,
  or kept at the head of the ring for the next tick.
- A TIMER is neither lost nor starved. At most one waits, it never gives way to an INTERNAL event, it passes those that
  are kept, and the system does not sleep while it waits: it runs after at most `queue_capacity - 1` other events.
- What enters is accounted for: arrived = run + denied and dropped + pushed out + waiting, after every iteration.

One iteration handles at most one event, in five steps: arrival, observation, policy, execution, throttle.

A system belongs to one thread, and is not for signal handlers. This file must not know descriptors, lanes or the loop:
it needs a clock and a ring.
"""

from __future__ import annotations

import enum
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, NoReturn

from penstock.core.clock import Clock, ManualClock, Tick
from penstock.core.ring import Ring
from penstock.errors import InvariantBroken, LoopRunning, UsageError, WrongThread
from penstock.limits import (
    BUDGETED_INTERNAL_PER_TICK,
    BUDGETED_INTERNAL_PER_TICK_MAX,
    BUDGETED_QUEUE_CAPACITY,
    BUDGETED_QUEUE_CAPACITY_MAX,
    BUDGETED_THROTTLE_MAX_NS,
    BUDGETED_THROTTLE_NS,
    NS_PER_S,
    REPORTS_PER_PERIOD,
    TICK_PERIOD_MAX_NS,
    TICK_PERIOD_MIN_NS,
    TICK_PERIOD_NS,
    require_whole,
)

__all__ = ["BudgetedSystem", "Denied", "Event", "Figures", "Kind"]

Denied = Literal["drop", "keep"]


def _require_callable(**handlers: object) -> None:
    for name, handler in handlers.items():
        if not callable(handler):
            raise UsageError(f"{name} is {handler!r}, which cannot be called; give a function")


class Kind(enum.Enum):
    """What an event is about."""

    TIMER = "timer"
    INTERNAL = "internal"


class Event(NamedTuple):
    """One event: its kind, when it arrived, and what whoever posted it gave along."""

    kind: Kind
    at_ns: int
    payload: object = None


Handler = Callable[[Event], object]
ErrorHook = Callable[[Event, Exception], object]


@dataclass(slots=True)
class Figures:
    """What happened in one tick, or up to and including it. Tick 0 is the time before the first TIMER."""

    tick: int = 0
    missed: int = 0  # periods without a TIMER of their own
    arrived: int = 0  # INTERNAL events that were posted
    run: int = 0  # ... that were handled
    denied: int = 0  # ... that found the budget spent
    kept: int = 0  # ... of these, that stayed in the ring
    dropped: int = 0  # ... that were pushed out of a full ring
    errors: int = 0  # handlers that failed, of both kinds
    depth: int = 0  # events that waited at the end

    def include(self, later: Figures) -> None:
        """Add the figures of the next tick."""
        for name in ("missed", "arrived", "run", "denied", "kept", "dropped", "errors"):
            setattr(self, name, getattr(self, name) + getattr(later, name))
        self.tick, self.depth = later.tick, later.depth


class BudgetedSystem:
    """A bounded queue of TIMER and INTERNAL events, and the policy of what may run when.

    `on_timer` and `on_internal` handle the two kinds. What they raise goes to `on_error` (by default it is printed, a
    few times per tick) and the system goes on; what is no `Exception`, or is raised by `on_error`, leaves `run()`.
    """

    def __init__(
        self,
        on_internal: Handler,
        on_timer: Handler | None = None,
        *,
        queue_capacity: int = BUDGETED_QUEUE_CAPACITY,
        internal_per_tick: int = BUDGETED_INTERNAL_PER_TICK,
        denied: Denied = "drop",
        period_ns: int = TICK_PERIOD_NS,
        throttle_ns: int = BUDGETED_THROTTLE_NS,
        clock: Clock | None = None,
        sleep: Callable[[float], object] = time.sleep,
        on_error: ErrorHook | None = None,
    ) -> None:
        require_whole("queue_capacity", queue_capacity, 1, BUDGETED_QUEUE_CAPACITY_MAX)
        require_whole("internal_per_tick", internal_per_tick, 0, BUDGETED_INTERNAL_PER_TICK_MAX)
        require_whole("period_ns", period_ns, TICK_PERIOD_MIN_NS, TICK_PERIOD_MAX_NS)
        require_whole("throttle_ns", throttle_ns, 0, BUDGETED_THROTTLE_MAX_NS)
        if denied not in ("drop", "keep"):
            raise UsageError(f'denied is {denied!r}; give "drop" or "keep"')
        if clock is not None and not isinstance(clock, Clock):
            raise UsageError(f"clock is {clock!r}; give a penstock.Clock or a ManualClock")
        optional = {"on_timer": on_timer, "on_error": on_error}
        given = {name: handler for name, handler in optional.items() if handler is not None}
        _require_callable(on_internal=on_internal, sleep=sleep, **given)
        self._handlers: dict[Kind, Handler | None] = {Kind.TIMER: on_timer, Kind.INTERNAL: on_internal}
        self._on_error = on_error
        self._capacity = queue_capacity
        self._per_tick = internal_per_tick
        self._keeps = denied == "keep"
        self._throttle_ns = throttle_ns
        self._clock = clock if clock is not None else Clock()
        self._sleep = sleep
        self._tick = Tick(period_ns, self._clock.now_ns())
        self._ring: Ring[Event] = Ring(queue_capacity)
        self._timer_waits = False
        self._head_kept = False  # the head of the ring was denied in this tick
        self._granted = 0  # what the last TIMER gave: nothing before the first
        self._budget = 0  # what is left of it
        self._now = Figures()
        self._before = Figures()
        self._last_tick: Figures | None = None
        self._owner = threading.get_ident()
        self._stepping = False
        self._stopping = False

    # ---- looking in --------------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        """How many events wait, a TIMER included."""
        return len(self._ring)

    @property
    def budget(self) -> int:
        """How many INTERNAL events may still run before the next TIMER."""
        return self._budget

    @property
    def ticks(self) -> int:
        """How many TIMER events have been handled."""
        return self._now.tick

    @property
    def next_tick_ns(self) -> int:
        """When the present period ends, on the system's clock."""
        return self._tick.next_ns

    @property
    def idle(self) -> bool:
        """Whether nothing that waits can be handled before the next TIMER arrives."""
        return not len(self._ring) or (self._head_kept and not self._timer_waits)

    @property
    def last_tick(self) -> Figures | None:
        """The figures of the tick that ended when the last TIMER was handled."""
        return self._last_tick

    def this_tick(self) -> Figures:
        """The figures since the last TIMER was handled."""
        return replace(self._now, depth=self.depth)

    def total(self) -> Figures:
        """The figures since the start."""
        total = replace(self._before)
        total.include(self.this_tick())
        return total

    # ---- what programs call ------------------------------------------------------------------------------------------

    def post(self, payload: object = None) -> bool:
        """Add an INTERNAL event. When the ring is full the oldest one goes; False means that it was this one."""
        self._require_owner("post")
        self._now.arrived += 1
        entered = self._make_room()
        if entered:
            self._push(Event(Kind.INTERNAL, self._clock.now_ns(), payload))
        return entered

    def run(self, ticks: int | None = None) -> None:
        """Iterate until `stop()`, or until `ticks` more TIMER events and what they allow have been handled.

        Under a manual clock this simulates: when nothing else can be done, the clock is moved to the next tick.
        """
        if ticks is not None and (isinstance(ticks, bool) or not isinstance(ticks, int) or ticks < 1):
            raise UsageError(f"ticks is {ticks!r}; give a whole number of at least 1, or None to run until stop()")
        last = None if ticks is None else self.ticks + ticks
        try:
            while not self._stopping:
                self.step()
                if self.idle:
                    if last is not None and self.ticks >= last:
                        break
                    if isinstance(self._clock, ManualClock):
                        self._clock.advance_to(self._tick.next_ns)
        finally:
            self._stopping = False

    def stop(self) -> None:
        """Let `run()` return after the present iteration. May be called from anywhere."""
        self._stopping = True

    def step(self) -> Event | None:
        """One iteration. Return the event that was handled, if any."""
        self._require_owner("step")
        if self._stepping:
            raise LoopRunning("step() was called by a handler of the same system; post an event instead")
        self._stepping = True
        try:
            self._arrive()
            event = self._observe()
            if event is not None and not self._allow(event):
                event = None
            self._check()
            if event is not None:
                self._execute(event)
                self._check()
        finally:
            self._stepping = False
        self._throttle()
        return event

    # ---- the five steps ----------------------------------------------------------------------------------------------

    def _arrive(self) -> None:
        """Time enters: at most one TIMER, however many periods have gone by."""
        now_ns = self._clock.now_ns()
        elapsed = self._tick.advance(now_ns)
        if elapsed and self._timer_waits:
            self._now.missed += elapsed
        elif elapsed:
            self._now.missed += elapsed - 1
            self._make_room()
            self._push(Event(Kind.TIMER, now_ns))
            self._timer_waits = True

    def _observe(self) -> Event | None:
        """Take the oldest event out. One that is kept stays where it is, and a TIMER passes it."""
        if not len(self._ring):
            return None
        if self._head_kept:
            return self._take_timer() if self._timer_waits else None
        if self._keeps and not self._budget and self._ring.oldest().kind is Kind.INTERNAL:
            self._now.denied += 1
            self._now.kept += 1
            self._head_kept = True
            return None
        return self._ring.pop()

    def _allow(self, event: Event) -> bool:
        """Apply the policy: a TIMER fills the budget, an INTERNAL event spends it or is denied."""
        if event.kind is Kind.TIMER:
            self._timer_waits = False
            self._head_kept = False
            self._begin_tick()
            return True
        if not self._budget:
            self._now.denied += 1
            return False
        self._budget -= 1
        self._now.run += 1
        return True

    def _execute(self, event: Event) -> None:
        """Call the handler. Its errors are its own."""
        handler = self._handlers[event.kind]
        if handler is None:
            return
        try:
            handler(event)
        except Exception as error:
            self._now.errors += 1
            if self._on_error is not None:
                self._on_error(event, error)
            elif self._now.errors <= REPORTS_PER_PERIOD:
                name = getattr(handler, "__qualname__", repr(handler))
                print(f"penstock: {name} failed on an event of kind {event.kind.name}:", file=sys.stderr)
                traceback.print_exception(error)

    def _throttle(self) -> None:
        """Sleep a little, but not past the next tick, nor while a TIMER waits; never under a manual clock."""
        if self._clock.manual or self._timer_waits:
            return
        pause_ns = min(self._throttle_ns, self._tick.next_ns - self._clock.now_ns())
        if pause_ns > 0:
            self._sleep(pause_ns / NS_PER_S)

    # ---- ring and budget ---------------------------------------------------------------------------------------------

    def _make_room(self) -> bool:
        """Push the oldest INTERNAL event out if the ring is full. False if a TIMER holds the only slot."""
        if not self._ring.is_full:
            return True
        self._now.dropped += 1
        if self._ring.oldest().kind is Kind.INTERNAL:
            self._ring.pop()
            self._head_kept = False
        elif self._capacity > 1:
            self._ring.pop_second()
        else:
            return False
        return True

    def _push(self, event: Event) -> None:
        """Append an event for which there is room."""
        if not self._ring.push(event):
            self._broken(f"a ring of {self._capacity} refused an event although room was made")
        self._check_size()

    def _take_timer(self) -> Event:
        """Take the waiting TIMER out from among kept events. One round of the ring keeps their order."""
        timer = None
        for _ in range(len(self._ring)):
            event = self._ring.pop()
            if event.kind is Kind.TIMER:
                timer = event
            else:
                self._ring.push(event)
        if timer is None:
            self._broken("a TIMER is said to wait but is not in the ring")
        return timer

    def _begin_tick(self) -> None:
        """Close the account of the tick that ends, and fill the budget. Nothing else fills it."""
        self._last_tick = self.this_tick()
        self._before.include(self._last_tick)
        self._now = Figures(tick=self._last_tick.tick + 1)
        self._granted = self._budget = self._per_tick

    # ---- promises ----------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Stop at once if a promise is broken: that is a bug of this file, and going on would hide it."""
        if self._budget < 0:
            self._broken(f"the budget is {self._budget}, below zero")
        self._check_size()
        if self._now.run > self._granted:
            self._broken(f"{self._now.run} internal events ran in a tick that allows {self._granted}")
        if self._budget + self._now.run != self._granted:
            self._broken(f"the budget became {self._budget} without a TIMER")
        now, before = self._now, self._before
        arrived = before.arrived + now.arrived
        handled = before.run + now.run + before.dropped + now.dropped
        denied = before.denied + now.denied - before.kept - now.kept
        waiting = len(self._ring) - self._timer_waits
        if arrived != handled + denied + waiting:
            self._broken(f"{arrived} internal events arrived, but {handled + denied} left and {waiting} wait")

    def _check_size(self) -> None:
        if len(self._ring) > self._capacity:
            self._broken(f"{len(self._ring)} events wait in a ring for {self._capacity}")

    def _broken(self, promise: str) -> NoReturn:
        raise InvariantBroken(promise, [self._line()])

    def _line(self) -> str:
        """The present state in one line, for whoever reads a broken promise."""
        figures = ", ".join(f"{name} {getattr(self._now, name)}" for name in self._now.__slots__)
        return f"budget {self._budget} of {self._granted}, {self.depth} of {self._capacity} wait, {figures}"

    def _require_owner(self, call: str) -> None:
        caller = threading.get_ident()
        if caller != self._owner:
            raise WrongThread(
                f"{call}() was called in thread {caller}, but this system belongs to thread {self._owner}"
            )
