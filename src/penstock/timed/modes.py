"""Modes of a reactor: declarations in the class, handles in the instance.

A mode is declared like any other element; timers, actions, reactions, state, children and connections name it with
`mode=`. What is in an inactive mode does not run, and its time stands still. This file must not know how a transition is
carried out (`switching.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast, overload

from penstock.errors import UsageError
from penstock.timed.elements import Declaration, ParameterReference, _no_handle
from penstock.timed.errors import UndeclaredUse

if TYPE_CHECKING:
    from penstock.timed.reactor import Bank, Reactor
    from penstock.timed.scheduler import Scheduler
    from penstock.timed.switching import Switcher

P = ParamSpec("P")
R = TypeVar("R", bound="Reactor")


class Mode(Declaration):
    """One mode of a reactor; exactly one of them has `initial=True`."""

    def __init__(self, *, initial: bool = False) -> None:
        self.initial = initial

    def child(self, reactor: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """A child that lives in this mode."""
        from penstock.timed.reactor import ChildDeclaration

        return cast(R, ChildDeclaration(reactor, args, kwargs, self))

    def bank(
        self, reactor: Callable[P, R], width: int | ParameterReference, *args: P.args, **kwargs: P.kwargs
    ) -> Bank[R]:
        """A bank of children that lives in this mode."""
        from penstock.timed.reactor import BankDeclaration

        return cast("Bank[R]", BankDeclaration(reactor, width, args, kwargs, self))

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type[Reactor]) -> Self: ...
        @overload
        def __get__(self, instance: Reactor, owner: type[Reactor]) -> ModeHandle: ...
        @overload
        def __get__(self, instance: Declaration, owner: type[Declaration]) -> Self: ...
        def __get__(self, instance: Any, owner: Any) -> Any: ...
    else:

        def __get__(self, instance, owner):
            return self if instance is None else _no_handle(self, instance)


class ModeHandle:
    """A mode of one reactor."""

    __slots__ = ("_scheduler", "_switcher", "declaration", "index", "name", "owner")

    def __init__(self, name: str, owner: Reactor, declaration: Mode) -> None:
        self.name = name
        self.owner = owner
        self.declaration = declaration
        self.index = -1
        self._scheduler: Scheduler | None = None
        self._switcher: Switcher | None = None

    def bind(self, scheduler: Scheduler, switcher: Switcher, index: int) -> None:
        """Attach to a program that has been assembled."""
        self._scheduler = scheduler
        self._switcher = switcher
        self.index = index

    @property
    def path(self) -> str:
        """The name from the top of the program."""
        return f"{self.owner.path}.{self.name}"

    @property
    def is_active(self) -> bool:
        """Whether the reactor is in this mode, and every mode around it is active, too."""
        return self._scheduler is not None and self._scheduler.is_active(self.index)

    def enter(self, *, history: bool = False) -> None:
        """Leave the present mode at the end of this tag and be in this one from the next microstep.

        A reset transition (the default) begins anew: what was pending is forgotten, timers start over, state with
        `reset=True` is set back, and the same in all modes inside. With `history=True` everything continues where it
        stood. Of several transitions in one tag the last one wins.
        """
        if self._scheduler is None or self._switcher is None or self._scheduler.current is None:
            raise UsageError(f"mode {self.path} can be entered by a reaction only, while it runs")
        reaction = self._scheduler.current
        if self not in reaction.writable:
            raise UndeclaredUse(f"{reaction.full_name} enters mode {self.path}; declare it in effects=[...]")
        self._switcher.request(self.index, history)

    def __repr__(self) -> str:
        return f"<ModeHandle {self.path}>"
