"""The `@reaction` decorator: what a method is triggered by, uses and affects.

The method stays a plain function, so that it can be called, inherited and stepped through; the declaration hangs off it.
This file must not know instances.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import UsageError
from penstock.timed.time import Duration, require_duration

if TYPE_CHECKING:
    from penstock.timed.elements import Effect, ParameterReference, Triggering
    from penstock.timed.modes import Mode

F = TypeVar("F", bound=Callable[..., Any])

ATTRIBUTE = "__penstock_reaction__"


@dataclass(frozen=True, slots=True)
class ReactionDeclaration:
    """What stands in front of a reaction."""

    triggers: tuple[Any, ...]
    uses: tuple[Any, ...]
    effects: tuple[Any, ...]
    deadline: Duration | ParameterReference | None
    on_deadline: Callable[..., Any] | None
    on_late: Callable[..., Any] | None
    mode: Mode | None


def reaction(
    *triggers: Triggering,
    uses: Sequence[Triggering] = (),
    effects: Sequence[Effect] = (),
    deadline: Duration | ParameterReference | None = None,
    on_deadline: Callable[..., Any] | None = None,
    on_late: Callable[..., Any] | None = None,
    mode: Mode | None = None,
) -> Callable[[F], F]:
    """Declare a method of a reactor as a reaction.

    It runs at every tag at which one of `triggers` is present. `uses` are read without triggering; `effects` are written,
    scheduled or entered. If the reaction would begin more than `deadline` after its tag in physical time, `on_deadline`
    runs instead. If something that it is triggered by or uses arrived late, `on_late` runs instead.
    """
    if not triggers:
        raise UsageError("a reaction without triggers never runs; name at least one")
    if any(inspect.isfunction(trigger) for trigger in triggers):
        raise UsageError("@reaction needs parentheses and triggers: @reaction(tick, effects=[y])")
    if on_deadline is not None and deadline is None:
        raise UsageError("on_deadline= without deadline= never runs; give both")
    if isinstance(deadline, int):
        require_duration("the deadline of a reaction", deadline)

    def decorate(function: F) -> F:
        declaration = ReactionDeclaration(
            tuple(triggers), tuple(uses), tuple(effects), deadline, on_deadline, on_late, mode
        )
        setattr(function, ATTRIBUTE, declaration)
        return function

    return decorate
