"""The probes: what a loop tells about itself adds up, and says who was slow."""

from __future__ import annotations

import json
import os
import socket
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from penstock import READABLE, Budget, DropReport, ManualClock, Overflow, Reactor
from penstock.stats import HistogramStats
from penstock.testing.native import Counter, NativeTimer
from tests.reactor.conftest import ignore

Make = Callable[..., Reactor]
Pipe = Callable[[], tuple[int, int]]

MS = 1_000_000


# ---- lanes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overflow", "counter"),
    [
        ("drop-oldest", "dropped_oldest"),
        ("drop-newest", "dropped_newest"),
        ("reject", "rejected"),
        ("coalesce", "coalesced"),
    ],
)
def test_the_books_of_a_lane(make: Make, overflow: Any, counter: str) -> None:
    reactor = make()
    lane = reactor.lane("lane", int, capacity=4, overflow=overflow, budget=3)
    for number in range(7):
        try:
            reactor.post(lane, number)
        except Overflow:
            assert overflow == "reject"
    before = reactor.stats().lane("lane")
    assert (before.depth, before.high_water, before.offered, before.run) == (4, 4, 7, 0)
    assert getattr(before, counter) == 3
    assert before.pushed == (7 if overflow in ("drop-oldest", "coalesce") else 4)
    reactor.run_once(0)
    after = reactor.stats().lane("lane")
    assert (after.depth, after.run, after.denied) == (1, 3, 1)
    assert after.offered == after.run + after.depth + after.dropped + after.coalesced
    assert reactor.stats().drops == after.dropped


def test_a_denied_event_that_is_not_kept_is_counted(make: Make) -> None:
    reactor = make()
    lane = reactor.lane("lane", int, budget=Budget(2, denied="drop"))
    for number in range(5):
        reactor.post(lane, number)
    assert reactor.run_once(0) == 2
    stats = reactor.stats().lane("lane")
    assert (stats.run, stats.denied, stats.dropped_denied, stats.depth) == (2, 3, 3, 0)


def test_a_budget_of_zero_lets_nothing_run_and_spins_for_nothing(make: Make) -> None:
    clock = ManualClock()
    reactor = make(clock=clock)
    reactor.post(reactor.lane("lane", int, budget=0), 1)
    reactor.set_timeout(0.01, reactor.stop)
    reactor.run()
    stats = reactor.stats()
    assert (stats.lane("lane").run, stats.lane("lane").depth) == (0, 1)
    assert stats.turns <= 3


def test_a_budget_of_time_is_overrun_by_one_handler_at_most(make: Make) -> None:
    clock = ManualClock()
    reactor = make(clock=clock)
    lane = reactor.lane("lane", lambda event: clock.advance(400), budget=Budget(1_000, unit="ns"))
    for number in range(4):
        reactor.post(lane, number)
    assert [reactor.run_once(0) for _ in range(2)] == [3, 1]
    assert reactor.stats().lane("lane").overrun == 200


# ---- turns -----------------------------------------------------------------------------------------------------------


def test_the_histogram_of_turns_is_logarithmic(make: Make) -> None:
    clock = ManualClock()
    reactor = make(clock=clock)
    durations = [0, 1, 2, 3, 4, 1_000, 1_023, 1_024, 5 * MS]
    for duration in durations:
        reactor.defer(clock.advance, duration)
        reactor.run_once(0)
    turns = reactor.stats().turn_ns
    assert (turns.count, turns.total, turns.highest) == (len(durations), sum(durations), 5 * MS)
    wanted = [0] * 24
    for duration in durations:
        wanted[duration.bit_length()] += 1
    assert list(turns.buckets) == wanted[: len(turns.buckets)]
    assert turns.mean == sum(durations) / len(durations)
    assert turns.at_most(0.0) == 0
    assert turns.at_most(1.0) == 5 * MS
    assert 3 <= turns.at_most(0.5) <= 7
    with pytest.raises(ValueError, match="give a number from 0 to 1"):
        turns.at_most(1.5)
    assert HistogramStats(0, 0, 0, ()).mean == 0.0


def culprit(clock: ManualClock) -> Callable[..., None]:
    def slow_handler(*_: object) -> None:
        clock.advance(7 * MS)

    return slow_handler


@pytest.mark.parametrize("step", ["timer", "deferred", "inbox", "lane", "readiness"])
def test_the_longest_turn_names_the_handler_that_caused_it(make: Make, pipe: Pipe, step: str) -> None:
    clock = ManualClock()
    reactor = make(clock=clock)
    slow = culprit(clock)
    reader, writer = pipe()
    os.write(writer, b"x")
    # Something quick in every step, before and after.
    reactor.set_timeout(0, int)
    reactor.defer(int)
    if step == "timer":
        reactor.set_timeout(0, slow)
    elif step == "deferred":
        reactor.defer(slow)
    elif step == "inbox":
        reactor.defer_threadsafe(slow)
    elif step == "readiness":
        reactor.register(reader, READABLE, slow)
    else:
        reactor.post(reactor.lane("lane", slow), 1)
    reactor.defer(int)
    reactor.run_once(0)
    number = reactor.stats().turns
    if step == "readiness":
        reactor.deregister(reader)
    reactor.defer(clock.advance, MS)
    reactor.run_once(0)
    longest = reactor.stats().longest
    assert longest is not None
    assert longest.number == number
    assert longest.busy_ns == 7 * MS
    assert longest.handler_ns == 7 * MS
    # Quick handlers are timed in groups: it is one of the few that are named.
    assert any("slow_handler" in name for name in longest.handlers)
    assert len(longest.handlers) <= 16
    if step == "readiness":
        assert any(f"(descriptor {reader})" in name for name in longest.handlers)


def test_who_ran_in_quick_turns_is_not_suspected_in_a_slow_one(reactor: Reactor) -> None:
    left = 2_000

    def quick() -> None:
        nonlocal left
        left -= 1
        reactor.defer(quick if left else slow)

    def slow() -> None:
        longest = reactor.stats().longest
        until_ns = time.monotonic_ns() + 10 * (longest.busy_ns if longest is not None else MS)
        while time.monotonic_ns() < until_ns:
            pass
        reactor.stop()

    reactor.defer(quick)
    reactor.run()
    longest = reactor.stats().longest
    assert longest is not None
    assert len(longest.handlers) == 1
    assert "slow" in longest.handlers[0]


@pytest.mark.parametrize("asks", [True, False])
def test_every_turn_is_in_the_histogram_once(reactor: Reactor, asks: bool) -> None:
    left, seen = 1_000, []

    def step() -> None:
        nonlocal left
        left -= 1
        if asks and left % 7 == 0:
            stats = reactor.stats()
            seen.append((sum(stats.turn_ns.buckets), stats.turns, stats.recorder[-1].number - 1))
        if left:
            reactor.defer(step)
        else:
            reactor.stop()

    reactor.defer(step)
    reactor.run()
    stats = reactor.stats()
    seen.append((sum(stats.turn_ns.buckets), stats.turns, stats.recorder[-1].number))
    assert all(counted == turns == number for counted, turns, number in seen)
    recorded = [line.busy_ns for line in stats.recorder]
    assert stats.turn_ns.highest >= max(recorded)
    assert stats.turn_ns.total >= sum(recorded)


class Called:
    """A callback of which one can tell when it is gone."""

    def __call__(self) -> None:
        pass


def one_is_let_go(reactor: Reactor, run: Callable[[weakref.ref[Called]], object]) -> bool:
    """Whether a callback is gone when `run` looks. The one of the longest turn so far may stay, so there are several."""
    for _ in range(20):
        called = Called()
        gone = weakref.ref(called)
        reactor.defer(called)
        del called
        if run(gone) is None:
            return True
    return False


def test_a_callback_is_let_go_before_the_loop_sleeps(reactor: Reactor) -> None:
    def until_it_has_slept(gone: weakref.ref[Called]) -> object:
        seen: list[object] = []

        def look() -> None:
            seen.append(gone())
            reactor.stop()

        reactor.set_timeout(0.001, look)
        reactor.run()
        return seen[0]

    assert one_is_let_go(reactor, until_it_has_slept)


def test_a_callback_is_let_go_when_the_run_returns(reactor: Reactor) -> None:
    def once(gone: weakref.ref[Called]) -> object:
        reactor.run_once(0)
        return gone()

    assert one_is_let_go(reactor, once)


def test_a_slow_native_turn_names_a_descriptor_or_a_timer(reactor: Reactor, pipe: Pipe) -> None:
    reader, writer = pipe()
    os.write(writer, b"x")
    counter = Counter(reactor)
    counter.register(reader, READABLE)
    timer = NativeTimer(reactor, 0)
    for _ in range(50):
        reactor.run_once(0)
    assert timer.calls == 1
    longest = reactor.stats().longest
    assert longest is not None
    assert set(longest.handlers) <= {"a native timer", f"the native handler of descriptor {reader}"}


def test_no_turn_no_longest(reactor: Reactor) -> None:
    assert reactor.stats().longest is None
    assert reactor.stats().recorder == ()


def test_the_recorder_remembers_the_last_turns(make: Make) -> None:
    clock = ManualClock()
    reactor = make(clock=clock)
    for number in range(100):
        reactor.set_timeout(0.001, clock.advance, number)
        reactor.run_once(1)
    lines = reactor.stats().recorder
    assert [line.number for line in lines] == list(range(37, 101))
    last = lines[-1]
    assert (last.asleep_ns, last.busy_ns, last.timers) == (MS, 99, 1)
    assert last.start_ns + last.asleep_ns + last.busy_ns == clock.now_ns()
    assert str(last).startswith("turn 100: asleep 1,000,000 ns, busy 99 ns; ready 0, posts 0, timers 1")


# ---- time ------------------------------------------------------------------------------------------------------------


def test_lateness_of_timers(make: Make) -> None:
    clock = ManualClock()
    reactor = make(clock=clock)
    reactor.set_timeout(0.001, int)
    reactor.set_timeout(0.002, int)
    clock.advance(10 * MS)
    reactor.run_once(0)
    late = reactor.stats().late_ns
    assert (late.count, late.highest, late.total) == (2, 9 * MS, 17 * MS)


def test_time_asleep_is_the_time_that_was_waited(make: Make) -> None:
    clock = ManualClock()
    reactor = make(clock=clock)
    reactor.set_timeout(0.005, clock.advance, MS)
    reactor.set_timeout(0.010, clock.advance, MS)
    reactor.run(keep_alive=False)
    stats = reactor.stats()
    assert stats.asleep_ns == 9 * MS
    assert stats.waits == 2
    assert stats.now_ns == 11 * MS
    assert stats.turn_ns.total == 2 * MS


def test_batches_of_the_poller(make: Make, pipe: Pipe) -> None:
    reactor = make()
    writers = []
    for _ in range(6):
        reader, writer = pipe()
        writers.append(writer)
        reactor.register(reader, READABLE, lambda fd, events: os.read(fd, 1))
    reactor.run_once(0)
    for ready in (1, 6, 2):
        for writer in writers[:ready]:
            os.write(writer, b"x")
        reactor.run_once(0)
    batch = reactor.stats().batch
    assert (batch.count, batch.total, batch.highest) == (4, 9, 6)
    assert list(batch.buckets) == [1, 1, 1, 1]


def test_stats_are_plain_and_complete(reactor: Reactor) -> None:
    reactor.lane("lane", int)
    reactor.defer(int)
    reactor.run_once(0)
    figures: dict[str, Any] = json.loads(json.dumps(reactor.stats().as_dict()))
    assert figures["turns"] == 1
    assert figures["lanes"][0]["name"] == "lane"
    assert figures["poller"] == reactor.poller
    with pytest.raises(KeyError):
        reactor.stats().lane("other")


def test_stats_may_be_asked_for_after_the_end(make: Make) -> None:
    reactor = make()
    lane = reactor.lane("lane", int)
    reactor.post(lane, 1)
    reactor.defer(int)
    reactor.set_timeout(1, int)
    reactor.defer_threadsafe(int)
    reactor.close()
    stats = reactor.stats()
    assert stats.lane("lane").dropped_closed == 1
    assert stats.closed_drops == 2
    assert stats.timers_cancelled == 1
    assert (stats.timers, stats.deferred_waiting, stats.inbox_waiting) == (0, 0, 0)


# ---- reports of drops ------------------------------------------------------------------------------------------------


def test_drops_are_reported_at_most_once_a_second_with_right_sums(make: Make) -> None:
    clock = ManualClock()
    reports: list[tuple[int, DropReport]] = []
    reactor = make(clock=clock, name="mine", on_drop=lambda report: reports.append((clock.now_ns() // MS, report)))
    lane = reactor.lane("lane", int, capacity=1, overflow="drop-newest", budget=0)
    reactor.post(lane, 0)

    def drop() -> None:
        reactor.post(lane, 1)

    timer = reactor.set_interval(0.1, drop)
    reactor.set_timeout(2.55, timer.cancel)
    reactor.set_timeout(10, reactor.stop)
    reactor.run()
    assert [at for at, _ in reports] == [100, 1_100, 2_100, 3_100]
    assert [report.dropped for _, report in reports] == [1, 10, 10, 4]
    assert [report.dropped_in_all for _, report in reports] == [1, 11, 21, 25]
    assert str(reports[-1][1]) == ("lane 'lane' of mine (overflow drop-newest, capacity 1) dropped 4 events, 25 in all")


def test_every_lane_that_dropped_is_in_the_report_and_no_other(make: Make) -> None:
    reports: list[tuple[str, int]] = []
    reactor = make(on_drop=lambda report: reports.append((report.lane, report.dropped)))
    for name, posts in (("none", 1), ("one", 2), ("three", 4)):
        reactor.lane(name, int, capacity=1)
        for number in range(posts):
            reactor.post(name, number)
    for _ in range(3):
        reactor.run_once(0)
    assert reports == [("one", 1), ("three", 3)]


def test_the_drops_of_a_lane_that_was_closed_are_not_mixed_with_its_successors(make: Make) -> None:
    clock = ManualClock()
    reports: list[tuple[str, int, int]] = []
    reactor = make(clock=clock, on_drop=lambda report: reports.append((report.lane, report.dropped, report.capacity)))
    for capacity in (5, 2, 1):
        lane = reactor.lane("lane", int, capacity=capacity, overflow="drop-newest")
        for number in range(capacity + 3):
            reactor.post(lane, number)
        if capacity == 5:
            reactor.run_once(0)
            reactor.run_once(0)
        lane.close()
    clock.advance(1_000 * MS)
    reactor.run_once(0)
    clock.advance(1_000 * MS)
    reactor.run_once(0)
    assert reports == [("lane", 3, 5), ("lane", 5, 2), ("lane", 4, 1)]


def test_a_hook_that_fails_is_an_error_of_the_hook(make: Make) -> None:
    errors: list[str] = []

    def hook(report: DropReport) -> None:
        raise LookupError(report.lane)

    reactor = make(on_drop=hook, on_error=lambda report: errors.append(f"{report.step} {report.error!r}"))
    lane = reactor.lane("lane", int, capacity=1)
    reactor.post(lane, 1)
    reactor.post(lane, 2)
    for _ in range(3):
        reactor.run_once(0)
    assert errors == ["on_drop LookupError('lane')"]
    assert reactor.stats().errors == 1


# ---- descriptors -----------------------------------------------------------------------------------------------------


def test_registrations_are_counted(make: Make, pair: Callable[[], tuple[socket.socket, socket.socket]]) -> None:
    reactor = make()
    ends = [end for _ in range(3) for end in pair()]
    for end in ends:
        reactor.register(end, READABLE, ignore)
    for end in ends[:4]:
        reactor.deregister(end)
    reactor.register(ends[5], READABLE, ignore)
    stats = reactor.stats()
    assert (stats.registered, stats.registered_high_water, stats.registrations) == (2, 6, 7)
