"""What the budgeted system promises, one promise at a time: time, work, memory, handlers, running.

Its rules as a whole are compared with a model in test_budgeted_model.py; that a broken promise is found is tested in
test_budgeted_invariants.py.
"""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from penstock.budgeted import BudgetedSystem, Event, Figures, Kind
from penstock.core.clock import Clock, ManualClock
from penstock.errors import LoopRunning, UsageError, WrongThread

PERIOD = 1_000_000_000


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


# ---- time is an input ------------------------------------------------------------------------------------------------


def test_there_is_one_timer_per_period_however_fast_the_loop_turns() -> None:
    system, clock = simulated()
    timers = []
    for _ in range(1_000):
        clock.advance(PERIOD // 100)
        event = system.step()
        if event is not None:
            timers.append(event.at_ns)
    assert timers == [PERIOD * number for number in range(1, 11)]


def test_missed_periods_are_counted_and_not_replayed() -> None:
    system, clock = simulated()
    clock.advance(5 * PERIOD + 3)
    assert [event.at_ns if (event := system.step()) else None for _ in range(3)] == [5 * PERIOD + 3, None, None]
    assert (system.ticks, system.total().missed) == (1, 4)
    assert system.next_tick_ns == 6 * PERIOD


def test_at_most_one_timer_waits() -> None:
    """One that arrives while another waits is a missed period too: it could only refill what is full."""
    system, clock = simulated(internal_per_tick=1, queue_capacity=4)
    for number in range(3):
        system.post(number)
    clock.advance(PERIOD)
    system.step()
    clock.advance(PERIOD)
    assert system.depth == 3
    system.step()
    assert (system.depth, system.total().missed) == (2, 1)
    drain(system)
    assert system.ticks == 1


# ---- work is bounded -------------------------------------------------------------------------------------------------


def test_nothing_runs_before_the_first_timer() -> None:
    system, _ = simulated()
    system.post("early")
    assert drain(system) == []
    assert system.total().denied == 1


def test_work_that_makes_more_work_gains_nothing() -> None:
    def multiply(event: Event) -> None:
        for _ in range(10):
            system.post(event.payload)

    system, clock = simulated(multiply, internal_per_tick=3, denied="keep")
    system.post("seed")
    assert [len(tick(system, clock)) for _ in range(20)] == [3] * 20
    assert system.depth == 16


@pytest.mark.parametrize("denied", ["drop", "keep"])
def test_a_budget_of_zero_runs_nothing_ever(denied: Any) -> None:
    system, clock = simulated(internal_per_tick=0, denied=denied)
    for number in range(100):
        system.post(number)
        assert tick(system, clock) == []
    assert (system.ticks, system.total().run) == (100, 0)


def test_kept_events_run_in_the_order_in_which_they_came() -> None:
    system, clock = simulated(denied="keep", queue_capacity=8)
    ran = []
    for number in range(30):
        if number < 6:
            system.post(number)
        ran += tick(system, clock)
    assert ran == [0, 1, 2, 3, 4, 5]
    assert system.total().dropped == 0


# ---- a TIMER is neither lost nor starved -----------------------------------------------------------------------------


@pytest.mark.parametrize("denied", ["drop", "keep"])
@pytest.mark.parametrize("capacity", [1, 2, 3, 16])
@pytest.mark.parametrize("per_tick", [0, 1, 2, 100])
def test_a_timer_runs_within_one_round_of_the_ring(denied: Any, capacity: int, per_tick: int) -> None:
    """However hard the ring is flooded, before it arrives and while it waits."""
    system, clock = simulated(queue_capacity=capacity, internal_per_tick=per_tick, denied=denied)
    for _ in range(5):
        for number in range(3 * capacity):
            system.post(number)
            system.step()
            system.post(number)
        clock.advance_to(system.next_tick_ns)
        before = system.ticks
        for _ in range(capacity + 1):
            system.step()
            for number in range(2 * capacity):
                system.post(number)
        assert system.ticks == before + 1


def test_a_timer_in_a_ring_of_one_is_not_pushed_out() -> None:
    system, clock = simulated(queue_capacity=1, denied="keep")
    system.post("old")
    clock.advance(PERIOD)
    event = system.step()
    assert event is not None
    assert event.kind is Kind.TIMER
    assert system.total().dropped == 1


def test_what_is_posted_while_a_timer_holds_the_only_slot_is_refused_and_counted() -> None:
    # Capacity 1 and a TIMER that waits: only an iteration sees this, between arrival and observation.
    system, clock = simulated(queue_capacity=1)
    clock.advance(PERIOD)
    system._arrive()
    assert system.post("refused") is False
    assert system.total().dropped == 1
    event = system.step()
    assert event is not None
    assert event.kind is Kind.TIMER


def test_when_the_ring_is_full_the_oldest_internal_event_goes() -> None:
    system, clock = simulated(queue_capacity=3, internal_per_tick=9)
    clock.advance(PERIOD)
    system.step()
    for number in range(5):
        assert system.post(number)
    assert drain(system) == [2, 3, 4]
    assert system.total().dropped == 2


# ---- handlers --------------------------------------------------------------------------------------------------------


def test_a_handler_that_fails_is_reported_and_the_system_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(event: Event) -> None:
        raise ValueError(f"cannot digest {event.payload}")

    system, clock = simulated(fail, internal_per_tick=50, queue_capacity=50)
    for number in range(30):
        system.post(number)
    assert len(tick(system, clock)) == 0
    for number in range(30):
        system.post(number)
    assert len(drain(system)) == 30
    said = capsys.readouterr().err
    assert "fail failed on an event of kind INTERNAL" in said
    assert said.count("ValueError: cannot digest") == 10
    assert system.total().errors == 30


def test_what_the_error_hook_raises_leaves_and_the_accounts_still_close() -> None:
    def fail(event: Event) -> None:
        raise ValueError("bad")

    def escalate(event: Event, error: Exception) -> None:
        raise RuntimeError("enough") from error

    system, clock = simulated(fail, on_error=escalate)
    clock.advance(PERIOD)
    system.step()
    system.post()
    with pytest.raises(RuntimeError, match="enough"):
        system.step()
    assert system.total().run == 1
    assert drain(system) == []


def test_an_interrupt_leaves_run() -> None:
    def interrupt(event: Event) -> None:
        raise KeyboardInterrupt

    system, _ = simulated(None, internal_per_tick=2)
    system._handlers[Kind.TIMER] = interrupt
    with pytest.raises(KeyboardInterrupt):
        system.run()
    system._handlers[Kind.TIMER] = None
    system.run(1)
    assert system.ticks == 2


def test_a_handler_cannot_iterate_its_own_system() -> None:
    errors: list[Exception] = []
    system, clock = simulated(lambda event: system.step(), on_error=lambda event, error: errors.append(error))
    clock.advance(PERIOD)
    system.step()
    system.post()
    system.step()
    assert isinstance(errors[0], LoopRunning)


def test_another_thread_is_turned_away() -> None:
    system, _ = simulated()
    errors: list[Exception] = []

    def intrude() -> None:
        for call in (system.post, system.step):
            try:
                call()
            except WrongThread as error:
                errors.append(error)

    thread = threading.Thread(target=intrude)
    thread.start()
    thread.join()
    assert [str(threading.get_ident()) in str(error) for error in errors] == [True, True]


# ---- running ---------------------------------------------------------------------------------------------------------


class WallClock(Clock):
    """A clock that is not manual, but moves only while somebody sleeps: real time without the waiting."""

    def __init__(self, handler_ns: int = 0) -> None:
        super().__init__()
        self.at_ns = 17
        self.pauses: list[float] = []

    def now_ns(self) -> int:
        return self.at_ns

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.at_ns += round(seconds * 1e9)


def test_real_time_sleeps_a_little_after_each_iteration_and_never_past_a_tick() -> None:
    clock = WallClock()
    system = BudgetedSystem(lambda event: None, clock=clock, sleep=clock.sleep, throttle_ns=300_000_000)
    system.run(ticks=3)
    assert clock.at_ns == 17 + 3 * PERIOD + 300_000_000
    assert clock.pauses == pytest.approx([0.3, 0.3, 0.3, 0.1] * 3 + [0.3])
    assert system.total().missed == 0


def test_there_is_no_pause_while_a_timer_waits() -> None:
    clock = WallClock()
    system = BudgetedSystem(lambda event: None, clock=clock, sleep=clock.sleep, throttle_ns=1_000_000)
    for number in range(16):
        system.post(number)
    clock.at_ns += PERIOD
    for _ in range(15):
        system.step()
    assert clock.pauses == []


def test_a_manual_clock_never_sleeps_and_is_moved_by_run() -> None:
    pauses: list[float] = []
    system, clock = simulated(sleep=pauses.append)
    system.run(ticks=7)
    assert (system.ticks, clock.now_ns(), pauses) == (7, 7 * PERIOD, [])


def test_stop_lets_run_return_and_run_can_be_called_again() -> None:
    system, _ = simulated()
    system._handlers[Kind.TIMER] = lambda event: system.stop()
    ticks = []
    for _ in range(2):
        system.run()
        ticks.append(system.ticks)
    assert ticks == [1, 2]


def test_figures_of_a_tick_and_of_all() -> None:
    system, clock = simulated(queue_capacity=4)
    for _ in range(2):
        tick(system, clock)
        for number in range(6):
            system.post(number)
        drain(system)
    tick(system, clock)
    assert system.last_tick == Figures(tick=2, arrived=6, run=2, denied=2, dropped=2)
    assert system.total() == Figures(tick=3, arrived=12, run=4, denied=4, dropped=4)


@pytest.mark.parametrize(
    "options",
    [
        {"queue_capacity": 0},
        {"queue_capacity": 1 << 40},
        {"queue_capacity": True},
        {"internal_per_tick": -1},
        {"internal_per_tick": 1.5},
        {"period_ns": 0},
        {"throttle_ns": -1},
        {"throttle_ns": 10**12},
        {"denied": "maybe"},
        {"on_timer": 0},
        {"on_error": "print"},
        {"sleep": None},
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(options))} is "):
        simulated(**options)


def test_before_the_first_timer_no_tick_has_ended() -> None:
    assert simulated()[0].last_tick is None


@pytest.mark.parametrize("ticks", [0, -1, True, 1.5, "3"])
def test_run_for_what_is_no_number_of_ticks_is_refused(ticks: Any) -> None:
    with pytest.raises(UsageError, match=f"ticks is {ticks!r}; give a whole number of at least 1"):
        simulated()[0].run(ticks)


def test_a_handler_that_cannot_be_called_is_refused_at_once() -> None:
    nothing: Any = None
    with pytest.raises(UsageError, match="on_internal is None, which cannot be called"):
        BudgetedSystem(nothing)


def test_a_clock_that_is_none_is_refused_at_once() -> None:
    odd: Any = 7
    with pytest.raises(UsageError, match="clock is 7; give a penstock"):
        BudgetedSystem(print, clock=odd)


# ---- memory ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick_collector")
@pytest.mark.parametrize("denied", ["drop", "keep"])
def test_an_hour_of_flood_takes_no_more_memory_than_a_minute(denied: Any) -> None:
    system, _ = simulated(denied=denied)

    def flood(event: Event) -> None:
        for number in range(20):
            system.post(number)

    system._handlers[Kind.TIMER] = flood
    system.run(60)
    gc.collect()
    tracemalloc.start()
    try:
        system.run(60)
        gc.collect()
        after_a_minute = tracemalloc.get_traced_memory()[0]
        system.run(3_600 - 120)
        gc.collect()
        after_an_hour, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert system.ticks == 3_600
    assert system.total().arrived == 72_000
    # A list of one number per event would be 500 KB.
    assert after_an_hour - after_a_minute < 2_000
    assert peak < 50_000
