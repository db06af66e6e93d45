"""Budgets: filled up once per turn or tick, never below zero, no debts, and no creation; against a model."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core.budget import Budget
from penstock.errors import UsageError
from tests.core.lane_model import BudgetModel


class AgainstTheModel(RuleBasedStateMachine):
    """Spend and refill in any order. The number of a turn or tick only grows."""

    @initialize(limit=st.integers(0, 20), per=st.sampled_from(["turn", "tick"]), unit=st.sampled_from(["work", "ns"]))
    def start(self, limit: int, per: Literal["turn", "tick"], unit: Literal["work", "ns"]) -> None:
        self.budget = Budget(limit, per, unit=unit)
        self.model = BudgetModel(limit, per, unit)
        self.epoch = 0
        self.filled = limit
        self.denials = 0

    @rule(step=st.integers(0, 2))
    def refill(self, step: int) -> None:
        self.epoch += step
        if step:
            self.filled += self.model.limit - self.model.left
        self.budget.refill(self.epoch)
        self.model.refill(self.epoch, self.epoch)

    @rule(amount=st.integers(0, 30))
    def take(self, amount: int) -> None:
        self.budget.take(amount)
        self.model.take(amount)

    @rule()
    def deny(self) -> None:
        self.budget.deny()
        self.denials += 1

    @invariant()
    def same(self) -> None:
        budget = self.budget
        assert budget.ok
        assert (budget.left, budget.spent, budget.overrun) == (self.model.left, self.model.spent, self.model.overrun)
        assert budget.denied == self.denials
        assert 0 <= budget.left <= budget.limit

    @invariant()
    def only_refills_create(self) -> None:
        assert self.budget.spent + self.budget.left == self.filled


TestAgainstTheModel = AgainstTheModel.TestCase


@given(limit=st.integers(0, 100), amounts=st.lists(st.integers(-5, 50), max_size=30))
def test_between_two_refills_no_more_than_the_limit_is_spent(limit: int, amounts: list[int]) -> None:
    budget = Budget(limit)
    for amount in amounts:
        budget.take(amount)
    wanted = sum(max(0, amount) for amount in amounts)
    assert budget.spent == min(limit, wanted)
    assert budget.overrun == wanted - budget.spent


def test_an_overrun_is_not_borrowed_from_the_next_refill() -> None:
    budget = Budget(10, unit="ns")
    budget.take(1_000_000)
    assert (budget.left, budget.overrun) == (0, 999_990)
    budget.refill(1)
    assert (budget.left, budget.overrun) == (10, 999_990)


def test_what_is_not_used_is_not_saved() -> None:
    budget = Budget(10)
    budget.refill(1)
    budget.take(3)
    budget.refill(2)
    assert budget.left == 10
    budget.refill(2)
    assert budget.left == 10


def test_it_says_what_it_is() -> None:
    budget = Budget(3, "tick", unit="ns", denied="drop")
    assert (budget.limit, budget.per, budget.unit, budget.denied_policy) == (3, "tick", "ns", "drop")
    assert repr(budget) == "Budget(3, per='tick', unit='ns', denied='drop'; left 3)"


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        ((-1,), {}, "below zero"),
        ((True,), {}, "whole number"),
        ((1.5,), {}, "whole number"),
        ((1 << 62,), {}, "no limit"),
        ((1, "hour"), {}, "'turn', 'tick'"),
        ((1,), {"unit": "ms"}, "'work', 'ns'"),
        ((1,), {"denied": "lose"}, "'keep', 'drop'"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: tuple[object, ...], options: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Budget(*arguments, **options)  # type: ignore[arg-type]
