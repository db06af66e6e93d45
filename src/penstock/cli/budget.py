"""`penstock budget`: the budgeted system under a flood, tick by tick.

Each TIMER posts a flood of INTERNAL events into the ring; the table shows what became of them. Time is simulated, so
that an hour takes a moment and every run prints the same; `--real` waits for the system's clock instead. This file must
not know how the policy works: it only posts, and prints figures.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Final, Protocol, TextIO

from penstock.budgeted import BudgetedSystem, Event, Figures
from penstock.cli.arguments import Progress, whole_number
from penstock.core.clock import Clock, ManualClock
from penstock.limits import (
    BUDGETED_FLOOD_MAX,
    BUDGETED_INTERNAL_PER_TICK,
    BUDGETED_INTERNAL_PER_TICK_MAX,
    BUDGETED_QUEUE_CAPACITY,
    BUDGETED_QUEUE_CAPACITY_MAX,
    BUDGETED_TICKS_MAX,
)

NAME: Final = "budget"
SUMMARY: Final = "show a bounded queue and a work budget under a flood of events"

_COLUMNS: Final = ("tick", "arrived", "run", "denied", "dropped", "depth")
_DEFAULT_TICKS: Final = 5
_DEFAULT_FLOOD: Final = 1_000
# Whether progress is due is looked at this often: about every 50 ms.
_POSTS_PER_LOOK: Final = 65_536


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what the command understands."""
    number = parser.add_argument
    number(
        "--queue",
        type=whole_number(1, BUDGETED_QUEUE_CAPACITY_MAX),
        default=BUDGETED_QUEUE_CAPACITY,
        metavar="N",
        help="events that may wait (default: %(default)s)",
    )
    number(
        "--internal",
        type=whole_number(0, BUDGETED_INTERNAL_PER_TICK_MAX),
        default=BUDGETED_INTERNAL_PER_TICK,
        metavar="N",
        help="internal events that may run per tick (default: %(default)s)",
    )
    number(
        "--ticks",
        type=whole_number(1, BUDGETED_TICKS_MAX),
        default=_DEFAULT_TICKS,
        metavar="N",
        help="ticks to run, one second each (default: %(default)s)",
    )
    number(
        "--flood",
        type=whole_number(0, BUDGETED_FLOOD_MAX),
        default=_DEFAULT_FLOOD,
        metavar="N",
        help="internal events that arrive in each tick (default: %(default)s)",
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep a denied event for the next tick instead of dropping it"
    )
    parser.add_argument("--real", action="store_true", help="wait for real seconds instead of simulating them")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")


def run(options: argparse.Namespace, out: TextIO) -> None:
    """Run the system for the ticks that were asked for, and print each as it ends."""
    report: Report = JsonReport(options, out) if options.json else TableReport(options, out)
    progress = Progress("tick", options.ticks, Clock())

    def on_timer(event: Event) -> None:
        ended = system.last_tick
        if ended is not None and ended.tick:
            report.tick(ended)
            if options.real:
                out.flush()  # the next line is a second away
        progress.update(system.ticks - 1)
        for number in range(options.flood):
            if number % _POSTS_PER_LOOK == 0:
                progress.update(system.ticks - 1)
            system.post(number)

    def on_error(event: Event, error: Exception) -> None:
        raise error  # nobody to print for, such as a reader that went away: no reason to go on

    system = BudgetedSystem(
        lambda event: None,
        on_timer,
        queue_capacity=options.queue,
        internal_per_tick=options.internal,
        denied="keep" if options.keep else "drop",
        clock=Clock() if options.real else ManualClock(),
        on_error=on_error,
    )
    try:
        report.begin()
        out.flush()
        system.run(options.ticks)
    finally:
        # Also after Ctrl-C: what was printed so far must still make sense to whoever reads it.
        progress.close()
        if system.ticks:
            report.tick(system.this_tick())
        report.end(system.total())


class Report(Protocol):
    """How ticks are printed. They are written as they end, because there may be a million."""

    def begin(self) -> None: ...
    def tick(self, figures: Figures) -> None: ...
    def end(self, total: Figures) -> None: ...


class TableReport:
    """One line per tick, in columns."""

    def __init__(self, options: argparse.Namespace, out: TextIO) -> None:
        largest = max(options.flood * options.ticks, options.queue, options.internal)
        self._width = max(len(str(largest)), *map(len, _COLUMNS)) + 2
        self._out = out

    def begin(self) -> None:
        """Write the titles."""
        self._line(_COLUMNS)

    def tick(self, figures: Figures) -> None:
        """Write one tick."""
        self._line([str(getattr(figures, name)) for name in _COLUMNS])

    def end(self, total: Figures) -> None:
        """Write the sums."""
        self._line(["all", *(str(getattr(total, name)) for name in _COLUMNS[1:])])

    def _line(self, cells: Sequence[str]) -> None:
        self._out.write("".join(cell.rjust(self._width) for cell in cells).removeprefix("  ") + "\n")


class JsonReport:
    """One JSON object, written piece by piece."""

    def __init__(self, options: argparse.Namespace, out: TextIO) -> None:
        self._policy = {name: getattr(options, name) for name in ("queue", "internal", "flood", "keep", "real")}
        self._out = out
        self._separator = "\n    "

    def begin(self) -> None:
        """Write what was asked for."""
        self._out.write(f'{{\n  "policy": {json.dumps(self._policy)},\n  "ticks": [')

    def tick(self, figures: Figures) -> None:
        """Write one tick."""
        self._out.write(self._separator + json.dumps(asdict(figures)))
        self._separator = ",\n    "

    def end(self, total: Figures) -> None:
        """Write the sums and close what is open."""
        self._out.write(f'\n  ],\n  "total": {json.dumps(asdict(total))}\n}}\n')
