"""Penstock: a runtime for event-driven programs that must behave correctly under pressure.

Everything that enters is bounded, everything that runs is budgeted, everything that is dropped is counted.
"""

from penstock.core.budget import Budget
from penstock.core.clock import Clock, ManualClock
from penstock.core.handle import Timer
from penstock.core.lane import Lane
from penstock.errors import (
    BadDescriptor,
    ForkedLoop,
    InvariantBroken,
    LaneClosed,
    LoopClosed,
    LoopRunning,
    Overflow,
    PenstockError,
    Unsupported,
    UsageError,
    WrongThread,
)
from penstock.limits import Policy
from penstock.reactor import ERROR, HANGUP, READABLE, WRITABLE, Reactor
from penstock.stats import DropReport, ErrorReport, LaneStats, LoopStats

__all__ = [
    "ERROR",
    "HANGUP",
    "READABLE",
    "WRITABLE",
    "BadDescriptor",
    "Budget",
    "Clock",
    "DropReport",
    "ErrorReport",
    "ForkedLoop",
    "InvariantBroken",
    "Lane",
    "LaneClosed",
    "LaneStats",
    "LoopClosed",
    "LoopRunning",
    "LoopStats",
    "ManualClock",
    "Overflow",
    "PenstockError",
    "Policy",
    "Reactor",
    "Timer",
    "Unsupported",
    "UsageError",
    "WrongThread",
]
__version__ = "0.1.0"
