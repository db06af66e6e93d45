"""What a measurement is, in plain data: who runs, how much, and which figures become rows of the table.

A measurement never knows how a table looks, and the table never knows how a figure came about; both meet here. This
file must not import a contender, an event loop or a subprocess.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contenders.base import Contender

# One run of one entry: figure name -> value.
Figures = dict[str, float]

# The columns of the table, in this order. Ratios compare the first one with each of the others.
COLUMNS = ("penstock", "asyncio", "uvloop", "rloop", "raw C")


@dataclass(frozen=True)
class Entry:
    """Somebody who takes part: a contender, and in which of its forms ("" where there is only one)."""

    contender: str
    form: str = ""

    def __str__(self) -> str:
        return f"{self.contender} {self.form}".strip()


@dataclass(frozen=True)
class Goal:
    """What penstock wants to reach in a row. `within` is a factor on another column; `at_most` is absolute."""

    text: str
    at_most: float | None = None
    within: tuple[str, float] | None = None


@dataclass(frozen=True)
class Row:
    """One line of the table: one figure of several entries, one entry per column.

    `scale` divides the figure into the row's unit. `against` names a figure of the same entry that this one is divided
    by (a ratio inside one contender). `worst` shows the largest of the rounds instead of their median: for what must
    never happen.
    """

    title: str
    unit: str
    figure: str
    cells: Mapping[str, Entry]
    goal: Goal | None = None
    scale: float = 1.0
    against: str | None = None
    ratios: bool = True
    worst: bool = False


@dataclass(frozen=True)
class Amount:
    """How much one run does: in the full measurement, in the quick one, and in the two runs of an instruction count.

    The instruction count is the difference of two runs, so that start-up cancels out; `counted` is None where counting
    makes no sense.
    """

    full: int
    quick: int
    counted: tuple[int, int] | None = None


@dataclass(frozen=True)
class Measure:
    """One measurement. `work` runs inside a fresh process of the contender; `sample`, where given, runs in the parent
    instead and starts its own processes."""

    name: str
    purpose: str
    entries: tuple[Entry, ...]
    rows: tuple[Row, ...]
    amount: Amount
    work: Callable[[Contender, str, int], Figures] | None = None
    sample: Callable[[Any, Entry, int], Figures] | None = None
    count: Callable[[Any, Entry, tuple[int, int]], Figures] | None = None
    preload: str | None = None
    rounds_full: int = 7
    rounds_quick: int = 2

    def counted_entries(self) -> set[Entry]:
        """Those whose instructions a row shows."""
        return {entry for row in self.rows if row.figure.startswith("instructions") for entry in row.cells.values()}


@dataclass
class Results:
    """Everything that one measurement gave: per entry one Figures per round (None where the run failed)."""

    rounds: list[dict[Entry, Figures | None]] = field(default_factory=list)
    failures: dict[Entry, str] = field(default_factory=dict)

    def values(self, row: Row, entry: Entry) -> list[float | None]:
        """The row's figure of `entry`, round by round."""
        return [_figure(row, one_round.get(entry)) for one_round in self.rounds]

    def typical(self, row: Row, entry: Entry) -> float | None:
        """The median of the rounds, or the worst of them where the row says so."""
        known = [value for value in self.values(row, entry) if value is not None]
        if not known:
            return None
        return max(known) if row.worst else statistics.median(known)

    def ratios(self, row: Row, entry: Entry, base: Entry) -> list[float]:
        """`entry` divided by `base`, only from rounds in which both ran: noise of the machine hits both alike."""
        pairs = zip(self.values(row, entry), self.values(row, base), strict=True)
        return [mine / other for mine, other in pairs if mine is not None and other]


def _figure(row: Row, figures: Figures | None) -> float | None:
    if figures is None or row.figure not in figures:
        return None
    value = figures[row.figure]
    if row.against is not None:
        return value / figures[row.against] / row.scale if figures.get(row.against) else None
    return value / row.scale
