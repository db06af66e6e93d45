"""How long a loop waits, and what ends that: the rows of docs/descriptors.md on timers and waking."""

from __future__ import annotations

import threading

from penstock import ManualClock, Reactor
from penstock.core.poller.simulated import SimulatedKernel, SimulatedPoller
from penstock.limits import WAIT_MAX_NS


def test_a_wait_is_as_long_as_nothing_happens_but_at_most_five_minutes() -> None:
    clock = ManualClock()
    with Reactor(SimulatedPoller(SimulatedKernel(clock)), clock=clock) as reactor:
        before = clock.now_ns()
        reactor.defer(lambda: None)
        reactor.run_once()
        assert clock.now_ns() == before, "work is waiting"
        reactor.set_timeout(2, lambda: None)
        assert (reactor.run_once(), clock.now_ns()) == (1, before + 2 * 10**9)
        before = clock.now_ns()
        reactor.run_once()
        assert clock.now_ns() == before + WAIT_MAX_NS == before + 300 * 10**9


def test_many_wakes_cost_one_and_none_while_the_loop_is_not_blocked() -> None:
    with Reactor() as reactor:
        told: list[int] = []
        for number in range(100):
            reactor.defer_threadsafe(told.append, number)
        assert reactor.stats().wakes == 0
        reactor.run_once()
        assert told == list(range(100))

        def flood() -> None:
            for number in range(100):
                reactor.defer_threadsafe(told.append, number)

        thread = threading.Thread(target=flood)
        thread.start()
        while len(told) < 200:
            reactor.run_once()
        thread.join()
        assert reactor.stats().wakes <= reactor.stats().waits


def test_a_timer_from_elsewhere_that_becomes_the_earliest_wakes_the_loop() -> None:
    with Reactor() as reactor:
        far = reactor.set_timeout(3600, lambda: None)
        thread = threading.Thread(target=reactor.defer_threadsafe, args=(reactor.set_timeout, 0.001, reactor.stop))
        reactor.defer(thread.start)
        reactor.run()
        thread.join()
        assert (far.cancel(), far.cancel()) == (True, False)
