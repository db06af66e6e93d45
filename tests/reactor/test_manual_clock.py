"""Under a manual clock, a wait for an instant is a jump to it, however far away it is."""

from __future__ import annotations

import pytest

from penstock import Budget, ManualClock, Policy, Reactor
from penstock.core.poller.choice import available

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
