"""What a loop tells about itself: frozen records, made when asked. This file must not know how they are counted."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class HistogramStats:
    """A log2 histogram: `buckets[k]` counts the values v with 2**(k-1) <= v < 2**k."""

    count: int
    total: int
    highest: int
    buckets: tuple[int, ...]

    @property
    def mean(self) -> float:
        """The arithmetic mean, 0 without values."""
        return self.total / self.count if self.count else 0.0

    def at_most(self, share: float) -> int:
        """A bound that at least `share` (0 to 1) of the values do not exceed: exact to a factor of 2."""
        if not 0 <= share <= 1:
            raise ValueError(f"share is {share}; give a number from 0 to 1")
        wanted = share * self.count
        seen = 0
        for bucket, count in enumerate(self.buckets):
            seen += count
            if seen >= wanted:
                return min((1 << bucket) - 1, self.highest)
        return self.highest


@dataclass(frozen=True, slots=True)
class LaneStats:
    """The books of one lane: offered == run + depth + everything dropped + coalesced + rejected."""

    name: str
    overflow: str
    priority: int
    closed: bool
    capacity: int
    depth: int
    high_water: int
    offered: int
    pushed: int
    run: int
    dropped_oldest: int
    dropped_newest: int
    dropped_denied: int
    dropped_closed: int
    coalesced: int
    rejected: int
    denied: int
    overrun: int

    @property
    def dropped(self) -> int:
        """Everything that was accepted or offered and will never run."""
        return self.dropped_oldest + self.dropped_newest + self.dropped_denied + self.dropped_closed + self.rejected


@dataclass(frozen=True, slots=True)
class TurnStats:
    """One line of the flight recorder."""

    number: int
    start_ns: int
    asleep_ns: int
    busy_ns: int
    ready: int
    posts: int
    timers: int
    deferred: int
    events: int
    left: tuple[str, ...]

    def __str__(self) -> str:
        left = f"; left over: {', '.join(self.left)}" if self.left else ""
        return (
            f"turn {self.number}: asleep {self.asleep_ns:,} ns, busy {self.busy_ns:,} ns; ready {self.ready}, "
            f"posts {self.posts}, timers {self.timers}, deferred {self.deferred}, events {self.events}{left}"
        )


@dataclass(frozen=True, slots=True)
class LongestTurn:
    """The longest turn so far, and which handler took longest in it.

    Several names mean that one of them did: quick handlers are timed in groups (see `handler_ns` for the group's time).
    """

    number: int
    busy_ns: int
    handlers: tuple[str, ...]
    handler_ns: int


@dataclass(frozen=True, slots=True)
class LoopStats:
    """Everything that a loop counts."""

    name: str
    poller: str
    now_ns: int
    turns: int
    python_turns: int
    polls: int
    polls_skipped: int
    waits: int
    approaches: int
    asleep_ns: int
    turn_ns: HistogramStats
    longest: LongestTurn | None
    late_ns: HistogramStats
    batch: HistogramStats
    ticks: int
    ticks_missed: int
    registered: int
    registered_high_water: int
    registrations: int
    ready: int
    ready_native: int
    ready_python: int
    stale: int
    changes: int
    changes_failed: int
    poller_resets: int
    timers: int
    timers_high_water: int
    timers_started: int
    timers_fired: int
    timers_cancelled: int
    timers_moved: int
    timers_missed_periods: int
    deferred: int
    deferred_waiting: int
    deferred_high_water: int
    deferred_refused: int
    inbox_waiting: int
    inbox_high_water: int
    inbox_posted: int
    inbox_rejected: int
    inbox_waited: int
    wakes: int
    signals: int
    errors: int
    drops: int
    closed_drops: int
    timers_left: int
    ready_left: int
    inbox_left: int
    lanes_left: int
    lanes: tuple[LaneStats, ...]
    recorder: tuple[TurnStats, ...]

    def as_dict(self) -> dict[str, Any]:
        """The same as plain dictionaries, lists and numbers, for JSON."""
        return asdict(self)

    def lane(self, name: str) -> LaneStats:
        """The books of the lane of that name."""
        for lane in self.lanes:
            if lane.name == name:
                return lane
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """What an `on_error` hook is told: which handler raised what, in which step of the turn."""

    error: BaseException
    handler: str
    step: str
    loop: str


@dataclass(frozen=True, slots=True)
class DropReport:
    """What an `on_drop` hook is told, at most once per `REPORT_PERIOD_NS`: what was dropped since the last report."""

    loop: str
    lane: str
    overflow: str
    dropped: int
    dropped_in_all: int
    capacity: int

    def __str__(self) -> str:
        return (
            f"lane {self.lane!r} of {self.loop} (overflow {self.overflow}, capacity {self.capacity:,}) "
            f"dropped {self.dropped:,} events, {self.dropped_in_all:,} in all"
        )
