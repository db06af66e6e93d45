"""Programs as plain data: what the interpreter reads and what real reactors are built from. Times are milliseconds.

A reaction does the same simple thing in both worlds: it folds what it reads into a number, counts its reactor's reactions,
and carries out those of its operations whose turn it is. So every difference in order, presence or value shows in a trace.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# A reactor that has run this many reactions only counts: so every program ends, also one that would go on at one instant.
RUNS_MAX = 25

# A place in a reactor: the name of a child (or None for itself), and of the element.
Ref = tuple[str | None, str]


@dataclass
class Port:
    name: str
    is_input: bool
    width: int | None = None


@dataclass
class Timer:
    name: str
    offset: int
    period: int
    mode: int | None = None


@dataclass
class Action:
    name: str
    min_delay: int = 0
    spacing: int = 0
    policy: str = "defer"
    mode: int | None = None


@dataclass
class Signal:
    name: str
    kind: str  # startup, shutdown, reset
    mode: int | None = None


@dataclass
class Op:
    kind: str  # set, schedule, enter, pass (the reaction takes so long that the physical clock goes on by `delay`)
    ref: Ref
    every: int = 1
    delay: int = 0
    history: bool = False


@dataclass
class Reaction:
    name: str
    triggers: list[Ref]
    uses: list[Ref] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    deadline: int | None = None
    mode: int | None = None
    salt: int = 1
    on_late: bool = False  # has a handler of late inputs


@dataclass
class Child:
    name: str
    spec: Reactor
    width: int | None = None
    mode: int | None = None


@dataclass
class Connection:
    sources: list[Ref]
    sinks: list[Ref]
    after: int | None = None
    broadcast: bool = False
    mode: int | None = None
    physical: bool = False
    across_sources: bool = False  # interleaved: the first port of every member of a bank, then the second, ...
    across_sinks: bool = False


@dataclass
class Arrival:
    """A value that somebody injects into an input of the main reactor when so many tags are complete."""

    complete: int
    port: str
    index: int
    tag: tuple[int, int]
    value: int


@dataclass
class World:
    """What is around a program: whether physical time is waited for, and what comes from outside."""

    fast: bool = True
    arrivals: list[Arrival] = field(default_factory=list)


@dataclass
class Reactor:
    ports: list[Port] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    reactions: list[Reaction] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)
    modes: int = 0
    count_mode: int | None = None  # the counter is state that this mode resets


def fold(salt: int, reads: list[tuple[bool, Any]]) -> int:
    """The number that a reaction makes of what it reads: presence and (persisting) value of everything, in order."""
    number = salt
    for present, value in reads:
        number = (number * 31 + (3 if present else 5) + (value or 0)) % 100_003
    return number


# What a handler of late inputs adds to its reaction's salt.
LATE_SALT = 50


def fold_late(number: int, intended: list[tuple[int, int]]) -> int:
    """The same for a handler of late inputs, which knows the tags that were intended, too."""
    for time, microstep in intended:
        number = (number * 31 + time * 7 + microstep) % 100_003
    return number
