"""The budgeted system against a slow, obvious model: whatever a program does, both must say the same."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.budgeted import BudgetedSystem, Event, Figures, Kind
from penstock.core.clock import ManualClock

PERIOD = 1_000_000_000


class Model:
    """The rules once more, on a plain list: no ring, no flags, everything is looked for anew."""

    def __init__(self, capacity: int, per_tick: int, keeps: bool) -> None:
        self.capacity, self.per_tick, self.keeps = capacity, per_tick, keeps
        self.waiting: list[Any] = []  # "TIMER", or a payload
        self.refused: set[int] = set()  # payloads that were denied in this tick
        self.now_ns = self.handled_until_ns = self.ticks = self.missed = 0
        self.budget = self.arrived = self.run = self.denied = self.kept = self.dropped = self.errors = 0

    def enter(self, item: Any) -> None:
        if len(self.waiting) == self.capacity:
            self.dropped += 1
            internal = [each for each in self.waiting if each != "TIMER"]
            if not internal:
                return
            self.waiting.remove(internal[0])
        self.waiting.append(item)

    def post(self, payload: Any) -> None:
        self.arrived += 1
        self.enter(payload)

    def step(self) -> Any:
        while self.now_ns - self.handled_until_ns >= PERIOD:
            self.handled_until_ns += PERIOD
            if "TIMER" in self.waiting:
                self.missed += 1
            else:
                self.enter("TIMER")
        if not self.waiting:
            return None
        head = self.waiting[0]
        if head in self.refused:
            head = "TIMER"
        if head not in self.waiting:
            return None
        if head != "TIMER" and self.budget == 0:
            self.denied += 1
            self.kept += self.keeps
            if self.keeps:
                self.refused.add(head)
            else:
                self.waiting.remove(head)
            return None
        self.waiting.remove(head)
        if head == "TIMER":
            self.ticks += 1
            self.refused.clear()
            self.budget = self.per_tick
        else:
            self.budget -= 1
            self.run += 1
        return head


class AgainstTheModel(RuleBasedStateMachine):
    """Anything that a program can do, done to both. Payloads are numbers; a table says what their handlers do."""

    @initialize(capacity=st.integers(1, 6), per_tick=st.integers(0, 4), keeps=st.booleans())
    def start(self, capacity: int, per_tick: int, keeps: bool) -> None:
        self.model = Model(capacity, per_tick, keeps)
        self.clock = ManualClock()
        self.system = BudgetedSystem(
            self.handle,
            self.handle,
            queue_capacity=capacity,
            internal_per_tick=per_tick,
            denied="keep" if keeps else "drop",
            clock=self.clock,
            on_error=lambda event, error: None,
        )
        self.numbers = itertools.count()
        self.children: dict[Any, tuple[list[int], bool]] = {}
        self.next_timer: tuple[list[int], bool] = ([], False)

    def handle(self, event: Event) -> None:
        plan = self.next_timer if event.kind is Kind.TIMER else self.children[event.payload]
        for child in plan[0]:
            self.system.post(child)
        if plan[1]:
            raise ValueError("the handler fails")

    def plan(self, children: int, fails: bool) -> tuple[list[int], bool]:
        fresh = [next(self.numbers) for _ in range(children)]
        self.children.update({child: ([], False) for child in fresh})
        return fresh, fails

    @rule(count=st.integers(1, 9), children=st.integers(0, 4), fails=st.booleans())
    def post(self, count: int, children: int, fails: bool) -> None:
        for _ in range(count):
            number = next(self.numbers)
            self.children[number] = self.plan(children, fails)
            self.model.post(number)
            entered = self.system.post(number)
            assert entered == (number in self.model.waiting)

    @rule(children=st.integers(0, 8), fails=st.booleans())
    def let_the_next_timer(self, children: int, fails: bool) -> None:
        self.next_timer = self.plan(children, fails)

    @rule(by_ns=st.sampled_from([1, PERIOD // 3, PERIOD - 1, PERIOD, PERIOD + 1, 3 * PERIOD + 7]))
    def advance(self, by_ns: int) -> None:
        self.clock.advance(by_ns)
        self.model.now_ns += by_ns

    @rule(times=st.integers(1, 8))
    def step(self, times: int) -> None:
        for _ in range(times):
            expected = self.model.step()
            if expected is not None:
                children, fails = self.next_timer if expected == "TIMER" else self.children[expected]
                for child in children:
                    self.model.post(child)
                self.model.errors += fails
            event = self.system.step()
            if event is not None:
                assert event.at_ns <= self.clock.now_ns()
            assert expected == (event and ("TIMER" if event.kind is Kind.TIMER else event.payload))
            if expected == "TIMER":
                self.next_timer = ([], False)

    @precondition(lambda self: hasattr(self, "system"))
    @invariant()
    def agree(self) -> None:
        model, total = self.model, self.system.total()
        assert total == Figures(
            tick=model.ticks,
            missed=model.missed,
            arrived=model.arrived,
            run=model.run,
            denied=model.denied,
            kept=model.kept,
            dropped=model.dropped,
            errors=model.errors,
            depth=len(model.waiting),
        )
        assert self.system.budget == model.budget
        assert total.run <= model.per_tick * model.ticks
        assert self.system.this_tick().run <= model.per_tick


TestAgainstTheModel = AgainstTheModel.TestCase
TestAgainstTheModel.settings = settings(stateful_step_count=40)
