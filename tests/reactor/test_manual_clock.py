"""Under a manual clock, a wait for an instant is a jump to it, however far away it is."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest

from penstock import Budget, ManualClock, Overflow, Policy, Reactor
from penstock.core.poller.choice import available
from penstock.core.poller.simulated import SimulatedKernel, SimulatedPoller

NS_PER_S = 1_000_000_000


@pytest.mark.parametrize("poller", available())
@pytest.mark.parametrize("seconds", [0.001, 299, 300, 301, 3_600, 86_400 * 365])
def test_a_timer_beyond_the_longest_wait_is_reached(poller: str, seconds: float) -> None:
    clock = ManualClock()
    fired: list[int] = []
    with Reactor(poller, clock=clock) as reactor:
        reactor.set_timeout(seconds, lambda: fired.append(clock.now_ns()))
        reactor.run(keep_alive=False)
    assert fired == [int(seconds * NS_PER_S)]


def test_a_tick_that_a_lane_waits_for_is_reached() -> None:
    clock = ManualClock()
    done: list[tuple[int, int]] = []
    policy = Policy(tick_period_ns=1_000 * NS_PER_S)
    with Reactor(clock=clock, policy=policy) as reactor:
        lane = reactor.lane("slow", lambda event: done.append((event, clock.now_ns())), budget=Budget(1, per="tick"))
        for event in range(3):
            reactor.post(lane, event)
        reactor.run(keep_alive=False)
    assert done == [(0, 0), (1, 1_000 * NS_PER_S), (2, 2_000 * NS_PER_S)]


def test_a_turn_jumps_no_further_than_it_may_wait() -> None:
    clock = ManualClock()
    with Reactor(clock=clock) as reactor:
        reactor.set_timeout(10, lambda: None)
        reactor.run_once(3)
        assert clock.now_ns() == 3 * NS_PER_S
        reactor.run_once(0)
        assert clock.now_ns() == 3 * NS_PER_S


@pytest.mark.usefixtures("quick_collector")
@pytest.mark.parametrize("poller", [*available(), "simulated"])
@pytest.mark.parametrize(("overflow", "flood_size"), [("drop-oldest", 100), ("drop-newest", 100), ("reject", 4)])
def test_an_hour_of_flood_takes_no_more_memory_than_a_minute(poller: str, overflow: Any, flood_size: int) -> None:
    """Every second many times what the lane may run, from a timer, a deferred task and the inbox."""
    clock = ManualClock()
    chosen: Any = SimulatedPoller(SimulatedKernel(clock)) if poller == "simulated" else poller
    refused = 0

    def offer() -> None:
        nonlocal refused
        for event in range(flood_size):
            try:
                reactor.post(lane, event)
            except Overflow:
                refused += 1

    def flood() -> None:
        offer()
        reactor.defer(offer)
        reactor.defer_threadsafe(offer)
        reactor.set_timeout(0.5, lambda: None).cancel()

    def run_until(second: int) -> int:
        reactor.set_timeout(second - clock.now_ns() / NS_PER_S, reactor.stop)
        reactor.run()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    with Reactor(chosen, clock=clock) as reactor:
        lane = reactor.lane("flooded", len_of, capacity=16, overflow=overflow, budget=Budget(3, per="tick"))
        reactor.set_interval(1, flood)
        run_until(60)
        tracemalloc.start()
        try:
            after_a_minute = run_until(120)
            after_an_hour = run_until(3_600)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        counters = lane.counters()
    # The last second may be on either side of the end.
    assert counters["offered"] >= 3 * flood_size * 3_598
    assert counters["run"] <= 3 * 3_601
    assert counters["depth"] <= 16
    assert counters["rejected"] == refused
    assert counters["offered"] == sum(counters[name] for name in ("run", "depth", "rejected")) + sum(
        count for name, count in counters.items() if name.startswith("dropped")
    )
    # One number for each event would be 30 MB.
    assert after_an_hour - after_a_minute < 4_000
    assert peak - after_a_minute < 50_000


def len_of(event: int) -> int:
    """The least that a handler can do."""
    return event
