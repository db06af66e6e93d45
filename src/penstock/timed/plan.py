"""A program after assembly: flat lists of numbers and names, ready for the scheduler.

A plan has no reactors any more, only slots (places for values), triggers, reactions in the order in which they run within
a tag, and modes. Assembly writes it, the scheduler reads it. This file must not know either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

TIMER, ACTION, PHYSICAL, DELAY, INPUT, STARTUP, SHUTDOWN, RESET = range(8)

KIND_NAMES = ("timer", "action", "physical action", "delayed connection", "input", "startup", "shutdown", "reset")


@dataclass(slots=True)
class DelayPlan:
    """One connection that takes time."""

    trigger: int
    delay_ns: int
    physical: bool
    mode: int


@dataclass(slots=True)
class SlotPlan:
    """A place for a value: a port with all that always show the same, an action, a timer."""

    name: str
    reactions: list[int] = field(default_factory=list)
    copies: list[tuple[int, int]] = field(default_factory=list)
    delays: list[DelayPlan] = field(default_factory=list)
    outlet: bool = False


@dataclass(slots=True)
class TriggerPlan:
    """Something that makes a slot present at a tag of its own."""

    name: str
    kind: int
    slot: int
    mode: int = -1
    offset_ns: int = 0
    period_ns: int = 0
    policy: int = 0
    overflow: int = 2
    capacity: int = 1
    capacity_name: str = "ACTION_CAPACITY"
    recorded: bool = False


@dataclass(slots=True)
class ReactionPlan:
    """A reaction: what runs, and what it may touch (handles, by identity)."""

    name: str
    reactor: str
    body: Callable[[], object]
    on_deadline: Callable[[], object] | None = None
    on_late: Callable[[], object] | None = None
    deadline_ns: int = -1
    mode: int = -1
    readable: set[Any] = field(default_factory=set)
    writable: set[Any] = field(default_factory=set)
    watches: list[int] = field(default_factory=list)
    level: int = 0
    inferred_deadline_ns: int = -1

    @property
    def full_name(self) -> str:
        return f"{self.reactor}.{self.name}"


@dataclass(slots=True)
class ModePlan:
    """A mode: what belongs to it directly, and the reactors with modes inside it."""

    name: str
    modal: int
    triggers: list[int] = field(default_factory=list)
    resets: list[Callable[[], None]] = field(default_factory=list)
    modals: list[int] = field(default_factory=list)


@dataclass(slots=True)
class ModalPlan:
    """A reactor with modes."""

    name: str
    initial: int
    enclosing: int
    modes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Plan:
    """The whole program."""

    slots: list[SlotPlan] = field(default_factory=list)
    triggers: list[TriggerPlan] = field(default_factory=list)
    reactions: list[ReactionPlan] = field(default_factory=list)
    modes: list[ModePlan] = field(default_factory=list)
    modals: list[ModalPlan] = field(default_factory=list)
