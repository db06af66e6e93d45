"""Timed reactors: deterministic programs with tags, levels and deadlines.

A program is a tree of reactors whose reactions run in the order of logical time: the same inputs give the same outputs,
always. `docs/timed.md` has the rules, `docs/timed-tutorial.md` the first steps.
"""

from penstock.timed.connections import interleaved
from penstock.timed.elements import (
    Input,
    LogicalAction,
    MultiInput,
    MultiOutput,
    Output,
    Parameter,
    PhysicalAction,
    Reset,
    Shutdown,
    Startup,
    State,
    Timer,
)
from penstock.timed.environment import Environment, run
from penstock.timed.errors import (
    AssemblyError,
    CausalityCycle,
    ReactionFailed,
    ReplayMismatch,
    SchedulerStopped,
    UndeclaredUse,
)
from penstock.timed.handles import Action, Port, Signal
from penstock.timed.modes import Mode
from penstock.timed.reactions import reaction
from penstock.timed.reactor import Bank, Reactor, bank, child
from penstock.timed.time import FOREVER, Duration, Tag, minutes, ms, ns, sec, us
from penstock.timed.trace import Trace, TraceEntry

__all__ = [
    "FOREVER",
    "Action",
    "AssemblyError",
    "Bank",
    "CausalityCycle",
    "Duration",
    "Environment",
    "Input",
    "LogicalAction",
    "Mode",
    "MultiInput",
    "MultiOutput",
    "Output",
    "Parameter",
    "PhysicalAction",
    "Port",
    "ReactionFailed",
    "Reactor",
    "ReplayMismatch",
    "Reset",
    "SchedulerStopped",
    "Shutdown",
    "Signal",
    "Startup",
    "State",
    "Tag",
    "Timer",
    "Trace",
    "TraceEntry",
    "UndeclaredUse",
    "bank",
    "child",
    "interleaved",
    "minutes",
    "ms",
    "ns",
    "reaction",
    "run",
    "sec",
    "us",
]
