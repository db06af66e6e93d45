"""A broken promise of the budgeted system is found at once: it is made faulty in many ways, and must notice each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.budgeted import BudgetedSystem, Event, Figures, Kind
from penstock.core.clock import ManualClock
from penstock.errors import InvariantBroken

Fault = Callable[[BudgetedSystem], None]


def simulated(
    on_internal: Callable[[Event], object] | None = None, **options: Any
) -> tuple[BudgetedSystem, ManualClock]:
    clock = ManualClock()
    return BudgetedSystem(on_internal or (lambda event: None), clock=clock, **options), clock


def tick(system: BudgetedSystem, clock: ManualClock) -> list[object]:
    """Let one period pass and handle what can be handled. Return the payloads that ran."""
    clock.advance_to(system.next_tick_ns)
    return drain(system)


def drain(system: BudgetedSystem) -> list[object]:
    ran = []
    while True:
        event = system.step()
        if event is not None and event.kind is Kind.INTERNAL:
            ran.append(event.payload)
        if system.idle:
            return ran


def flood(system: BudgetedSystem, clock: ManualClock) -> None:
    """Work that meets every rule: more posts than fit, more events than may run, five times."""
    for _ in range(5):
        tick(system, clock)
        for number in range(7):
            system.post(number)
        drain(system)


def run_for_free(system: BudgetedSystem) -> None:
    """Count what runs, but charge nothing, and fill up again and again."""
    original = system._allow

    def allow(event: Event) -> bool:
        allowed = original(event)
        if system._budget == 0:
            system._budget = 1
            system._granted = system._now.run + 1
        if system._now.run > 2:
            system._granted = 2
            system._budget = 0
        return allowed

    system._allow = allow  # type: ignore[method-assign]


def run_on_debt(system: BudgetedSystem) -> None:
    """Forget to look whether anything is left."""
    original = system._allow

    def allow(event: Event) -> bool:
        if event.kind is Kind.TIMER:
            return original(event)
        system._budget -= 1
        system._now.run += 1
        return True

    system._allow = allow  # type: ignore[method-assign]


def create_budget(system: BudgetedSystem) -> None:
    """A handler helps itself."""

    def bribe(event: Event) -> None:
        system._budget += 1

    system._handlers[Kind.INTERNAL] = bribe


def refill_without_a_timer(system: BudgetedSystem) -> None:
    """Every look at the ring refills."""
    original = system._observe

    def observe() -> Event | None:
        system._budget = system._per_tick
        return original()

    system._observe = observe  # type: ignore[method-assign]


def promise_less_room(system: BudgetedSystem) -> None:
    """The ring is larger than what was promised."""
    system._capacity = 3


def drop_uncounted(system: BudgetedSystem) -> None:
    """Make room and tell nobody."""
    original = system._make_room

    def make_room() -> bool:
        dropped = system._now.dropped
        room = original()
        system._now.dropped = dropped
        return room

    system._make_room = make_room  # type: ignore[method-assign]


def lose_the_newest(system: BudgetedSystem) -> None:
    """Say that there is room where there is none."""
    system._make_room = lambda: True  # type: ignore[method-assign]


def swallow(system: BudgetedSystem) -> None:
    """A handler takes what is not its own."""
    system._handlers[Kind.INTERNAL] = lambda event: len(system._ring) and system._ring.pop()


@pytest.mark.parametrize(
    ("fault", "promise"),
    [
        (run_on_debt, "the budget is -1, below zero"),
        (run_for_free, "3 internal events ran in a tick that allows 2"),
        (create_budget, "the budget became 2 without a TIMER"),
        (refill_without_a_timer, "the budget became 1 without a TIMER"),
        (promise_less_room, "4 events wait in a ring for 3"),
        (drop_uncounted, "7 internal events arrived, but [0-9] left and [0-9] wait"),
        (lose_the_newest, "a ring of 4 refused an event although room was made"),
        (swallow, "7 internal events arrived, but [0-9] left and [0-9] wait"),
    ],
)
def test_a_fault_in_the_system_is_found(fault: Fault, promise: str) -> None:
    system, clock = simulated(queue_capacity=4)
    fault(system)
    with pytest.raises(InvariantBroken, match=promise) as caught:
        flood(system, clock)
    assert len(caught.value.turns) == 1
    assert "budget " in caught.value.turns[0]


def test_without_a_fault_the_same_work_is_fine() -> None:
    system, clock = simulated(queue_capacity=4)
    flood(system, clock)
    assert system.total() == Figures(tick=5, arrived=35, run=10, denied=10, dropped=15)


@pytest.mark.parametrize(
    ("change", "promise"),
    [
        ({"_budget": -1}, "the budget is -1, below zero"),
        ({"_budget": 1}, "the budget became 1 without a TIMER"),
        ({"_capacity": 1}, "2 events wait in a ring for 1"),
        ({"_granted": 1}, "2 internal events ran in a tick that allows 1"),
        ({"_timer_waits": True}, "a TIMER is said to wait but is not in the ring"),
    ],
)
def test_each_check_fires_on_its_own(change: dict[str, Any], promise: str) -> None:
    system, clock = simulated(denied="keep")
    for number in range(4):
        system.post(number)
    tick(system, clock)
    for name, value in change.items():
        setattr(system, name, value)
    with pytest.raises(InvariantBroken, match=promise):
        system.step()


def test_a_broken_promise_leaves_run_past_the_error_hook() -> None:
    system, _ = simulated(on_error=lambda event, error: None)

    def cheat(event: Event) -> None:
        system._budget = 99

    system._handlers[Kind.TIMER] = cheat
    with pytest.raises(InvariantBroken):
        system.run(2)
