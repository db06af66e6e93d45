"""A slow, obvious model of a reactor: lists, sorted anew whenever somebody looks, and the turn in the order of the page.

The model does what a program does to a reactor, through the same few calls. What a model cannot know is in which order a
poller reports what is ready at the same time: it is told that order, and checks that it is one that may be. This file must
not import the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.core.lane_model import LaneModel

READABLE, WRITABLE, HANGUP = 1, 2, 8

Action = tuple[Any, ...]
# Applies the actions of a callback to the side that it runs on.
Follow = Callable[[Any, tuple[Action, ...]], list[object]]


class Refused(Exception):
    """The model's word for any error that a reactor raises at a call."""


@dataclass
class End:
    """A socket at a place: what has come, and whether the other side is gone."""

    unread: int = 0
    hung_up: bool = False


@dataclass
class Registration:
    """One life of a descriptor."""

    life: int
    interest: int
    applied: int
    script: tuple[Action, ...]
    had: list[int] = field(default_factory=list)  # every interest that it has had in this turn


@dataclass
class Alarm:
    """One timer."""

    serial: int
    deadline: int
    order: int
    period: int
    script: tuple[Action, ...]
    due: bool = False


class Model:
    """A reactor as it should be."""

    def __init__(self, now: int, places: int, lanes: dict[str, LaneModel], follow: Follow, idle_hang_ups: bool) -> None:
        self.now = now
        self.next_tick = now + 1
        self.turns = 0
        self.ticks = 0
        self.idle_hang_ups = idle_hang_ups  # whether the poller sees one of a descriptor that nobody wants anything of
        self.follow = follow
        self.ends: list[End | None] = [None] * places
        self.registered: dict[int, Registration] = {}
        self.alarms: dict[int, Alarm] = {}
        self.deferred: list[tuple[int, tuple[Action, ...]]] = []
        self.posts: list[tuple[int, tuple[Action, ...]]] = []
        self.lanes = lanes
        self.log: list[tuple[Any, ...]] = []
        self.serial = 0
        self.order = 0
        self.missed = 0

    def next_serial(self) -> int:
        self.serial += 1
        return self.serial

    # ---- the world ---------------------------------------------------------------------------------------------------

    def open(self, place: int) -> None:
        if self.ends[place] is None:
            self.ends[place] = End()

    def close(self, place: int) -> None:
        """Deregister and close, as a program should."""
        if self.ends[place] is not None:
            self.registered.pop(place, None)
            self.ends[place] = None

    def feed(self, place: int, size: int) -> None:
        end = self.ends[place]
        if end is not None and not end.hung_up:
            end.unread += size

    def drain(self, place: int) -> None:
        end = self.ends[place]
        if end is not None:
            end.unread = 0

    def hang_up(self, place: int) -> None:
        end = self.ends[place]
        if end is not None:
            end.hung_up = True

    def advance(self, by: int) -> None:
        self.now += by

    # ---- what programs call ------------------------------------------------------------------------------------------

    def register(self, place: int, interest: int, script: tuple[Action, ...]) -> None:
        life = self.next_serial()
        self.registered.pop(place, None)
        if self.ends[place] is None:
            raise Refused
        self.registered[place] = Registration(life, interest, interest, script)

    def modify(self, place: int, interest: int) -> None:
        if place not in self.registered:
            raise Refused
        self.registered[place].interest = interest
        self.registered[place].had.append(interest)

    def deregister(self, place: int) -> None:
        if place not in self.registered:
            raise Refused
        del self.registered[place]

    def timer(self, delay: int, period: int, script: tuple[Action, ...]) -> None:
        self.order += 1
        serial = self.next_serial()
        self.alarms[serial] = Alarm(serial, self.now + delay, self.order, period, script)

    def cancel(self, index: int) -> bool:
        return self.alarms.pop(self._chosen(index), None) is not None

    def move(self, index: int, delay: int) -> bool:
        alarm = self.alarms.get(self._chosen(index))
        if alarm is None:
            return False
        self.order += 1
        alarm.deadline, alarm.order, alarm.due = self.now + delay, self.order, False
        return True

    def _chosen(self, index: int) -> int:
        """The same timer on both sides: one of the serials that were ever given out."""
        return index % (self.serial + 1)

    def defer(self, script: tuple[Action, ...]) -> None:
        self.deferred.append((self.next_serial(), script))

    def post_call(self, script: tuple[Action, ...]) -> None:
        self.posts.append((self.next_serial(), script))

    def post(self, name: str) -> bool:
        outcome = self.lanes[name].offer(self.next_serial())
        if outcome in ("rejected", "full"):
            raise Refused
        return outcome != "dropped-newest"

    def flood(self, name: str, count: int) -> object:
        return [answer for _ in range(count) for answer in self.follow(self, (("post", name),))]

    # ---- the turn ----------------------------------------------------------------------------------------------------

    def turn(self, reported: list[tuple[int, int]]) -> None:
        """One turn. `reported`: the places whose callbacks the poller's order has led to, with their lives."""
        self.turns += 1
        if self.now >= self.next_tick:
            # One, however many periods went by, and on the grid.
            self.ticks += 1
            self.next_tick = self.now + 1
        for one in self.registered.values():
            one.applied = one.interest
            one.had = [one.interest]
        ready = {place: (one.life, self._events(place)) for place, one in self.registered.items()}
        batch = {place: found for place, found in ready.items() if found[1]}
        due = sorted(
            (alarm for alarm in self.alarms.values() if alarm.deadline <= self.now),
            key=lambda alarm: (alarm.deadline, alarm.order),
        )
        for alarm in due:
            alarm.due = True
        present = self.now
        for serial, script in self._take(self.posts):
            self._call(("post", serial), script)
        for alarm in due:
            self._fire(alarm, present)
        self._readiness(batch, reported)
        for one in self.registered.values():
            one.applied = one.interest
        for serial, script in self._take(self.deferred):
            self._call(("deferred", serial), script)
        self._run_lanes()

    @staticmethod
    def _take(queue: list[Any]) -> list[Any]:
        taken = queue[:]
        queue.clear()
        return taken

    def _call(self, entry: tuple[Any, ...], script: tuple[Action, ...]) -> None:
        self.log.append(entry)
        self.follow(self, script)

    def _fire(self, alarm: Alarm, present: int) -> None:
        if self.alarms.get(alarm.serial) is not alarm or not alarm.due:
            return
        alarm.due = False
        if alarm.period:
            periods = (present - alarm.deadline) // alarm.period + 1
            self.missed += periods - 1
            self.order += 1
            alarm.deadline, alarm.order = alarm.deadline + periods * alarm.period, self.order
        else:
            del self.alarms[alarm.serial]
        script, alarm.script = alarm.script, ()
        self._call(("timer", alarm.serial), script)

    def _events(self, place: int) -> int:
        """What a handler is told of a place: a hang-up waits for the data before it, if anybody reads."""
        end, one = self.ends[place], self.registered[place]
        assert end is not None
        found = WRITABLE | (READABLE if end.unread or end.hung_up else 0)
        if not end.hung_up or not (one.interest or self.idle_hang_ups):
            return found & one.interest
        if end.unread and one.interest & READABLE:
            return found & one.interest
        return (found & one.interest) | HANGUP

    def _readiness(self, batch: dict[int, tuple[int, int]], reported: list[tuple[int, int]]) -> None:
        for place, life in reported:
            assert batch.get(place, (None, 0))[0] == life, f"place {place}, life {life}, is not in the batch {batch}"
            events = batch.pop(place)[1] & self._still(place, life)
            assert events, f"place {place} was called though nobody wants anything of it"
            one = self.registered[place]
            script, one.script = one.script, ()
            self._call(("ready", place, life, events), script)
        for place, (life, events) in batch.items():
            # Its turn in the batch may have come while nobody wanted anything of it: it is reported again.
            dull = self._still(place, life) == 0 or any(
                not events & (had | HANGUP) for had in self.registered[place].had
            )
            assert dull, f"place {place} was ready and not called"

    def _still(self, place: int, life: int) -> int:
        """The events that this life of a place may still be told of: nothing once it is over."""
        one = self.registered.get(place)
        if one is None or one.life != life:
            return 0
        return one.interest | HANGUP

    def _run_lanes(self) -> None:
        """Each lane up to its budget, with what was there when the step began. Their handlers post nothing."""
        for name, lane in self.lanes.items():
            while lane.runnable(self.turns, self.ticks):
                if lane.budget.left:
                    lane.budget.take(1)
                    self._call(("lane", name, lane.take()), ())
                else:
                    lane.drop_denied()
            if lane.waiting:
                lane.budget.deny_kept()
