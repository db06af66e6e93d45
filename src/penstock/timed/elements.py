"""What a reactor class declares: ports, timers, actions, built-in triggers, state.

A declaration is a class attribute. When a reactor is made, each becomes a handle (`penstock.timed.handles`) stored in the
instance under the same name, so that a reaction reaches it without a detour. For mypy a declaration is a descriptor that
turns into the handle's type; at run time its `__get__` is reached only where no handle exists, and says so. This file
must not know graphs, tags or schedulers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from types import UnionType
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, Union, cast, get_args, get_origin, overload

from penstock.errors import UsageError
from penstock.limits import (
    ACTION_CAPACITY,
    ACTION_CAPACITY_MAX,
    MULTIPORT_WIDTH_MAX,
    PHYSICAL_ACTION_CAPACITY,
)
from penstock.timed.time import Duration, ns

if TYPE_CHECKING:
    from typing import TypeAlias

    from penstock.timed.handles import Action, Port, Signal
    from penstock.timed.modes import Mode
    from penstock.timed.reactor import Reactor

T = TypeVar("T")

Policy = Literal["defer", "drop", "replace", "update"]
POLICIES = ("defer", "drop", "replace", "update")

Overflow = Literal["drop-oldest", "drop-newest", "reject", "coalesce", "block"]
OVERFLOWS = ("drop-oldest", "drop-newest", "reject", "coalesce", "block")


# No time at all: the default of every delay.
ZERO = ns(0)


class ParameterReference:
    """The value of a constructor argument (or class attribute), for a declaration that depends on it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Parameter({self.name!r})"


def Parameter(name: str) -> Any:
    """The constructor argument (or class attribute) `name` of the instance: `Timer(period=Parameter("period"))`.

    Its type is that of the argument, which mypy cannot know here.
    """
    return ParameterReference(name)


class Declaration:
    """One element of a reactor class. `name` is set when the class is made."""

    name: str = ""
    mode: Mode | None = None

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"{type(self).__name__} {self.name!r}"


def _no_handle(declaration: Declaration, instance: object) -> Any:
    raise UsageError(
        f"{declaration!r} of {type(instance).__name__} has no handle: was `{declaration.name}` deleted, or __new__ replaced?"
    )


def value_type(declaration: Any) -> type | UnionType | None:
    """The type that a declaration was made for: `Output(int)` and `Output[int]()` both give `int`.

    What `isinstance` cannot look into is checked as far as it can: `list[int]` as a list, `Any` not at all.
    """
    wanted = declaration.type
    if wanted is None:
        arguments = getattr(getattr(declaration, "__orig_class__", None), "__args__", ())
        wanted = arguments[0] if arguments else None
    return _checkable(wanted)


def _checkable(wanted: Any) -> type | UnionType | None:
    if get_origin(wanted) in (Union, UnionType):
        parts = [_checkable(part) for part in get_args(wanted)]
        return None if None in parts else reduce(or_, parts)
    wanted = get_origin(wanted) or wanted
    if not isinstance(wanted, type) or wanted is Any:
        return None
    try:
        isinstance(None, wanted)
    except TypeError:  # a protocol that is not for run time
        return None
    return wanted


class _PortDeclaration(Declaration, Generic[T]):
    """What inputs and outputs have in common."""

    is_input = False

    def __init__(self, type: type[T] | None = None) -> None:
        self.type = type

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type[Reactor]) -> Self: ...
        @overload
        def __get__(self, instance: Reactor, owner: type[Reactor]) -> Port[T]: ...
        def __get__(self, instance: Reactor | None, owner: type[Reactor]) -> Any: ...
    else:

        def __get__(self, instance, owner):
            return self if instance is None else _no_handle(self, instance)


class Input(_PortDeclaration[T]):
    """A value that comes from outside the reactor."""

    is_input = True


class Output(_PortDeclaration[T]):
    """A value that the reactor sends."""


class _MultiPortDeclaration(Declaration, Generic[T]):
    """`width` ports under one name."""

    is_input = False

    def __init__(self, type: type[T] | None = None, *, width: int | ParameterReference) -> None:
        self.type = type
        self.width = width

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type[Reactor]) -> Self: ...
        @overload
        def __get__(self, instance: Reactor, owner: type[Reactor]) -> tuple[Port[T], ...]: ...
        def __get__(self, instance: Reactor | None, owner: type[Reactor]) -> Any: ...
    else:

        def __get__(self, instance, owner):
            return self if instance is None else _no_handle(self, instance)


class MultiInput(_MultiPortDeclaration[T]):
    """Several inputs under one name."""

    is_input = True


class MultiOutput(_MultiPortDeclaration[T]):
    """Several outputs under one name."""


def check_width(what: str, width: object) -> int:
    """A width is a whole number from 0 to its limit."""
    if isinstance(width, bool) or not isinstance(width, int) or not 0 <= width <= MULTIPORT_WIDTH_MAX:
        raise UsageError(f"the width of {what} is {width!r}; give a whole number from 0 to {MULTIPORT_WIDTH_MAX:,}")
    return width


class _SignalDeclaration(Declaration):
    """A trigger without a value."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type[Reactor]) -> Self: ...
        @overload
        def __get__(self, instance: Reactor, owner: type[Reactor]) -> Signal: ...
        def __get__(self, instance: Reactor | None, owner: type[Reactor]) -> Any: ...
    else:

        def __get__(self, instance, owner):
            return self if instance is None else _no_handle(self, instance)


class Timer(_SignalDeclaration):
    """Fires at `offset` after the start (or after its mode is entered), then every `period`; period 0: once."""

    def __init__(
        self,
        *,
        period: Duration | ParameterReference = ZERO,
        offset: Duration | ParameterReference = ZERO,
        mode: Mode | None = None,
    ) -> None:
        self.period = period
        self.offset = offset
        self.mode = mode


class Startup(_SignalDeclaration):
    """Present at the first tag of the program, or at the first tag of its mode."""

    def __init__(self, *, mode: Mode | None = None) -> None:
        self.mode = mode


class Shutdown(_SignalDeclaration):
    """Present at the stop tag, after the events of that tag."""

    def __init__(self, *, mode: Mode | None = None) -> None:
        self.mode = mode


class Reset(_SignalDeclaration):
    """Present when the mode that it is in was entered by a reset transition."""

    def __init__(self, *, mode: Mode | None = None) -> None:
        self.mode = mode


class _ActionDeclaration(Declaration, Generic[T]):
    """What logical and physical actions have in common."""

    physical = False
    overflow: Overflow = "reject"

    def __init__(
        self,
        type: type[T] | None = None,
        *,
        min_delay: Duration | ParameterReference = ZERO,
        min_spacing: Duration | ParameterReference = ZERO,
        policy: Policy = "defer",
        capacity: int = ACTION_CAPACITY,
        mode: Mode | None = None,
    ) -> None:
        self.type = type
        self.min_delay = min_delay
        self.min_spacing = min_spacing
        self.policy = policy
        self.capacity = capacity
        self.mode = mode
        if policy not in POLICIES:
            raise UsageError(f"the policy of an action is {policy!r}; give one of {', '.join(POLICIES)}")
        if isinstance(capacity, bool) or not isinstance(capacity, int) or not 1 <= capacity <= ACTION_CAPACITY_MAX:
            raise UsageError(f"the capacity of an action is {capacity!r}; give 1 to {ACTION_CAPACITY_MAX:,}")

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type[Reactor]) -> Self: ...
        @overload
        def __get__(self, instance: Reactor, owner: type[Reactor]) -> Action[T]: ...
        def __get__(self, instance: Reactor | None, owner: type[Reactor]) -> Any: ...
    else:

        def __get__(self, instance, owner):
            return self if instance is None else _no_handle(self, instance)


class LogicalAction(_ActionDeclaration[T]):
    """Scheduled by reactions, at the current tag plus a delay."""


class PhysicalAction(_ActionDeclaration[T]):
    """Scheduled from anywhere (threads too), at the physical time of the call plus a delay. Bounded by `overflow`."""

    physical = True

    def __init__(
        self,
        type: type[T] | None = None,
        *,
        min_delay: Duration | ParameterReference = ZERO,
        min_spacing: Duration | ParameterReference = ZERO,
        policy: Policy = "defer",
        capacity: int = PHYSICAL_ACTION_CAPACITY,
        overflow: Overflow = "drop-oldest",
        mode: Mode | None = None,
    ) -> None:
        super().__init__(
            type, min_delay=min_delay, min_spacing=min_spacing, policy=policy, capacity=capacity, mode=mode
        )
        self.overflow = overflow
        if overflow not in OVERFLOWS:
            raise UsageError(f"the overflow of a physical action is {overflow!r}; give one of {', '.join(OVERFLOWS)}")


class State(Declaration, Generic[T]):
    """A variable with an initial value. With `reset=True` a reset transition of its mode sets it back.

    `factory` makes a fresh initial value for each instance and each reset: `State(factory=list)`.
    """

    @overload
    def __init__(self, initial: T, *, reset: bool = False, mode: Mode | None = None) -> None: ...
    @overload
    def __init__(self, *, factory: Callable[[], T], reset: bool = False, mode: Mode | None = None) -> None: ...
    def __init__(
        self,
        initial: Any = None,
        *,
        factory: Callable[[], Any] | None = None,
        reset: bool = False,
        mode: Mode | None = None,
    ) -> None:
        if isinstance(initial, (list, dict, set, bytearray)):
            raise UsageError(f"the initial value {initial!r} would be shared by all instances; give factory= instead")
        self.initial = initial
        self.factory = factory
        self.reset = reset
        self.mode = mode

    def fresh(self) -> T:
        """The initial value, made anew if there is a factory."""
        return cast(T, self.factory() if self.factory is not None else self.initial)

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: None, owner: type[Reactor]) -> Self: ...
        @overload
        def __get__(self, instance: Reactor, owner: type[Reactor]) -> T: ...
        def __get__(self, instance: Reactor | None, owner: type[Reactor]) -> Any: ...
        def __set__(self, instance: Reactor, value: T) -> None: ...


if TYPE_CHECKING:
    # What may stand in front of a reaction: own elements by declaration, those of children by handle.
    Triggering: TypeAlias = (
        _PortDeclaration[Any] | _MultiPortDeclaration[Any] | _SignalDeclaration | _ActionDeclaration[Any]
        | Port[Any] | tuple[Port[Any], ...] | list[Port[Any]]
    )  # fmt: skip
    Effect: TypeAlias = (
        _PortDeclaration[Any] | _MultiPortDeclaration[Any] | _ActionDeclaration[Any] | Mode
        | Port[Any] | tuple[Port[Any], ...] | list[Port[Any]]
    )  # fmt: skip
