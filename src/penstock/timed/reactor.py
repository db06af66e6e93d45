"""The class that timed programs are made of.

Class attributes declare elements; `__new__` turns them into handles before `__init__` runs, so that `__init__` can connect
them and needs no `super().__init__()`. Reactors that an instance keeps in its attributes (alone, or in lists and tuples)
are its children; attributes that begin with an underscore are not looked at. This file must not know how a program is
assembled or run.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from penstock.errors import UsageError
from penstock.timed.connections import Connection, Endpoint
from penstock.timed.elements import (
    Declaration,
    ParameterReference,
    State,
    _ActionDeclaration,
    _MultiPortDeclaration,
    _PortDeclaration,
    _SignalDeclaration,
    check_width,
    value_type,
)
from penstock.timed.errors import AssemblyError
from penstock.timed.handles import Action, Port, Signal
from penstock.timed.modes import Mode, ModeHandle
from penstock.timed.reactions import ATTRIBUTE
from penstock.timed.time import Duration, Tag, require_duration

if TYPE_CHECKING:
    from penstock.timed.environment import Environment

P = ParamSpec("P")
R = TypeVar("R", bound="Reactor")
T = TypeVar("T")


class ChildPort:
    """`child.port` in a class body: resolved when the instance exists."""

    def __init__(self, child: ChildDeclaration, name: str) -> None:
        self.child = child
        self.name = name

    def resolve(self, instance: Reactor) -> Any:
        return getattr(getattr(instance, self.child.name), self.name)


class EachPort:
    """`bank.each(...)` in a class body."""

    def __init__(self, bank: BankDeclaration, choose: Callable[[Any], Any]) -> None:
        self.bank = bank
        self.choose = choose

    def resolve(self, instance: Reactor) -> Any:
        return getattr(instance, self.bank.name).each(self.choose)


def _resolved(value: object, arguments: Mapping[str, Any]) -> Any:
    """The value of a `ParameterReference`, or the thing itself."""
    if not isinstance(value, ParameterReference):
        return value
    if value.name not in arguments:
        raise AssemblyError(f"{value!r} names neither a constructor argument nor a class attribute")
    return arguments[value.name]


class ChildDeclaration(Declaration):
    """A child that every instance of a class has."""

    def __init__(
        self, reactor: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any], mode: Mode | None = None
    ) -> None:
        self.reactor = reactor
        self.args = args
        self.kwargs = kwargs
        self.mode = mode

    def make(self, arguments: Mapping[str, Any]) -> Any:
        args = [_resolved(value, arguments) for value in self.args]
        return self.reactor(*args, **{key: _resolved(value, arguments) for key, value in self.kwargs.items()})

    def __getattr__(self, name: str) -> ChildPort:
        if name.startswith("__"):
            raise AttributeError(name)
        return ChildPort(self, name)


class BankDeclaration(Declaration):
    """A bank that every instance of a class has."""

    def __init__(
        self,
        reactor: Callable[..., Any],
        width: int | ParameterReference,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        mode: Mode | None = None,
    ) -> None:
        self.reactor = reactor
        self.width = width
        self.args = args
        self.kwargs = kwargs
        self.mode = mode

    def make(self, arguments: Mapping[str, Any]) -> Any:
        args = [_resolved(value, arguments) for value in self.args]
        kwargs = {key: _resolved(value, arguments) for key, value in self.kwargs.items()}
        return Bank.make(self.reactor, _resolved(self.width, arguments), *args, **kwargs)

    def each(self, choose: Callable[[Any], Any]) -> EachPort:
        return EachPort(self, choose)


def child(reactor: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Declare, in a class body, a child that every instance has: `ramp = child(Ramp, step=2)`."""
    return cast(R, ChildDeclaration(reactor, args, kwargs))


def bank(reactor: Callable[P, R], width: int | ParameterReference, *args: P.args, **kwargs: P.kwargs) -> Bank[R]:
    """Declare, in a class body, `width` children under one name."""
    return cast("Bank[R]", BankDeclaration(reactor, width, args, kwargs))


class Bank(tuple[R, ...]):
    """Several reactors of one kind; each knows its `bank_index`."""

    __slots__ = ()

    @classmethod
    def make(cls, reactor: Callable[..., R], width: int, *args: Any, **kwargs: Any) -> Bank[R]:
        """Make `width` reactors. One with a constructor argument `bank_index` is given its number."""
        check_width(f"a bank of {getattr(reactor, '__name__', reactor)}", width)
        members = []
        takes_index = "bank_index" in inspect.signature(reactor).parameters
        for index in range(width):
            numbered = {**kwargs, "bank_index": index} if takes_index else kwargs
            member = reactor(*args, **numbered)
            member.bank_index = index
            members.append(member)
        return cls(members)

    def each(self, choose: Callable[[R], T]) -> list[T]:
        """One thing of every member: `self.workers.each(lambda worker: worker.y)`."""
        return [choose(member) for member in self]


class _Namespace(dict[str, Any]):
    """The body of a reactor class: an element's name cannot be used again."""

    def __init__(self, class_name: str, taken: Mapping[str, Any]) -> None:
        super().__init__()
        self.class_name = class_name
        self.taken = taken

    def __setitem__(self, key: str, value: Any) -> None:
        old = self.get(key)
        if old is not None and (_is_element(old) or _is_element(value)):
            raise AssemblyError(f"{self.class_name} uses the name `{key}` twice: first for {old!r}, then for {value!r}")
        inherited = self.taken.get(key)
        if inherited is not None and isinstance(value, Declaration) != isinstance(inherited, Declaration):
            raise AssemblyError(
                f"{self.class_name} uses the name `{key}` for {value!r}, but inherits {inherited!r} under it"
            )
        super().__setitem__(key, value)


def _is_element(value: object) -> bool:
    return isinstance(value, Declaration) or hasattr(value, ATTRIBUTE)


class ReactorType(type):
    """The metaclass of reactors: refuses a name that is used twice, which Python itself would not notice."""

    @classmethod
    def __prepare__(mcs, name: str, bases: tuple[type, ...], /, **kwargs: Any) -> dict[str, Any]:
        taken: dict[str, Any] = {}
        for base in reversed(bases):
            for cls in reversed(base.__mro__):
                if isinstance(cls, ReactorType):
                    taken.update((key, value) for key, value in vars(cls).items() if not key.startswith("_"))
        return _Namespace(name, taken)

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **kwargs: Any) -> ReactorType:
        return super().__new__(mcs, name, bases, dict(namespace), **kwargs)


class Reactor(metaclass=ReactorType):
    """A component that reacts to inputs and events in the order of logical time."""

    if TYPE_CHECKING:
        bank_index: int
        _connections: list[Connection]
        _environment: Environment | None
    else:

        def __new__(cls, *args, **kwargs):
            instance = object.__new__(cls)
            instance._connections = []
            instance._environment = None
            instance._path = ""
            instance.bank_index = kwargs.get("bank_index", 0)
            _populate(instance, _arguments(cls, instance, args, kwargs))
            return instance

    # ---- wiring ------------------------------------------------------------------------------------------------------

    def connect(
        self,
        sources: Endpoint[T],
        sinks: Endpoint[T],
        *,
        after: Duration | None = None,
        physical: bool = False,
        broadcast: bool = False,
        mode: ModeHandle | None = None,
    ) -> None:
        """Connect ports of this reactor and its children, one to one in order.

        With `broadcast=True` the sources are repeated until every sink has one. `after` delays (0: to the next microstep);
        `physical=True` gives arrivals the tag of the physical clock. In a `mode` the connection works only there.
        """
        after_ns = None if after is None else require_duration("after", after)
        self._connections.append(
            Connection.make(self, sources, sinks, after_ns=after_ns, physical=physical, broadcast=broadcast, mode=mode)
        )

    # ---- in reactions ------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The name from the top of the program."""
        return cast(str, self.__dict__["_path"])

    @property
    def environment(self) -> Environment:
        """The environment that this reactor runs in."""
        if self._environment is None:
            raise UsageError(f"{type(self).__name__} is part of no environment yet")
        return self._environment

    @property
    def tag(self) -> Tag:
        """The current tag, counted from the start of the program."""
        return self.environment.scheduler.tag

    @property
    def elapsed(self) -> Duration:
        """Logical time since the start of the program."""
        return Duration(self.environment.scheduler.tag.time_ns)

    @property
    def physical_elapsed(self) -> Duration:
        """Physical time since the start. What depends on it is not deterministic."""
        return Duration(self.environment.scheduler.physical_ns())

    @property
    def lag(self) -> Duration:
        """How far physical time is ahead of the current tag."""
        scheduler = self.environment.scheduler
        return Duration(scheduler.physical_ns() - scheduler.tag.time_ns)

    def check_deadline(self) -> bool:
        """Whether the deadline of the reaction that runs has passed by now."""
        return self.environment.scheduler.check_deadline()

    def request_stop(self) -> None:
        """Stop the program at the next microstep."""
        self.environment.request_stop()

    @property
    def random(self) -> random.Random:
        """A source of random numbers that depends on the environment's seed and this reactor's path only."""
        return self.environment.random_for(self)


def _arguments(cls: type, instance: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What a `ParameterReference` can name: class attributes, overridden by constructor arguments."""
    known = {
        key: value
        for base in reversed(cls.__mro__)
        for key, value in vars(base).items()
        if not key.startswith("_") and not isinstance(value, (Declaration, property)) and not callable(value)
    }
    initializer = cls.__init__  # type: ignore[misc]
    if initializer is not object.__init__:
        try:
            bound = inspect.signature(initializer).bind(instance, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}(): {error}") from None
        bound.apply_defaults()
        known.update(bound.arguments)
        for value in bound.kwargs.values():
            if isinstance(value, dict):
                known.update(value)
    elif args or kwargs:
        raise TypeError(f"{cls.__name__}() takes no arguments")
    return known


def declarations(cls: type) -> dict[str, Declaration]:
    """The elements of a class in order: those of base classes first."""
    found: dict[str, Declaration] = {}
    for base in reversed(cls.__mro__):
        found.update((key, value) for key, value in vars(base).items() if isinstance(value, Declaration))
    return found


def reactions(cls: type) -> dict[str, Any]:
    """The reactions of a class in lexical order: those of base classes first; an overridden one keeps its place."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for key, value in vars(base).items():
            declaration = getattr(value, ATTRIBUTE, None)
            if declaration is not None:
                found[key] = declaration
    return found


def _populate(instance: Reactor, arguments: Mapping[str, Any]) -> None:
    """Give an instance its handles."""
    attributes = instance.__dict__
    for name, declaration in declarations(type(instance)).items():
        attributes[name] = _handle(instance, name, declaration, arguments)


def _handle(instance: Reactor, name: str, declaration: Any, arguments: Mapping[str, Any]) -> Any:
    if isinstance(declaration, _PortDeclaration):
        return Port(name, instance, value_type(declaration), declaration.is_input)
    if isinstance(declaration, _MultiPortDeclaration):
        width = check_width(f"{type(instance).__name__}.{name}", _resolved(declaration.width, arguments))
        kind = value_type(declaration)
        return tuple(Port(f"{name}[{index}]", instance, kind, declaration.is_input) for index in range(width))
    if isinstance(declaration, _ActionDeclaration):
        instance.__dict__[f"_delays_{name}"] = (
            _nanoseconds(instance, f"{name}.min_delay", declaration.min_delay, arguments),
            _nanoseconds(instance, f"{name}.min_spacing", declaration.min_spacing, arguments),
        )
        return Action(name, instance, value_type(declaration), declaration.physical)
    if isinstance(declaration, _SignalDeclaration):
        if hasattr(declaration, "period"):
            instance.__dict__[f"_delays_{name}"] = (
                _nanoseconds(instance, f"{name}.offset", declaration.offset, arguments),  # type: ignore[attr-defined]
                _nanoseconds(instance, f"{name}.period", declaration.period, arguments),
            )
        return Signal(name, instance)
    return _other_handle(instance, name, declaration, arguments)


def _other_handle(instance: Reactor, name: str, declaration: Any, arguments: Mapping[str, Any]) -> Any:
    if isinstance(declaration, Mode):
        return ModeHandle(name, instance, declaration)
    if isinstance(declaration, (ChildDeclaration, BankDeclaration)):
        return declaration.make(arguments)
    if isinstance(declaration, State):
        return declaration.fresh()
    raise AssemblyError(f"{type(instance).__name__}.{name} is {declaration!r}, which is no element of a reactor")


def _nanoseconds(instance: Reactor, what: str, value: object, arguments: Mapping[str, Any]) -> int:
    return require_duration(f"{type(instance).__name__}.{what}", _resolved(value, arguments))


def children(instance: Reactor) -> Iterable[tuple[str, Reactor]]:
    """The reactors in the attributes of another, by the names that they get."""
    for name, value in vars(instance).items():
        if name.startswith("_"):
            continue
        if isinstance(value, Reactor):
            yield name, value
        elif isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                if isinstance(item, Reactor):
                    yield f"{name}[{index}]", item
