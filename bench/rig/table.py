"""Turns results into one table and a list of the rows in which somebody else is ahead.

A cell is the contender's median; in the columns of the others it is followed by their ratio to penstock, as the median
of the ratios round by round, with the quartiles of these ratios: `635 (2.31 [2.20..2.42])` took 2.31 times as much as
penstock, and between 2.20 and 2.42 times in the middle half of the rounds. Quartiles, because a shared machine changes
its speed in the middle of a round now and then, and the extremes would tell of nothing else.

This file must not know where figures come from.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rig.model import COLUMNS, Goal, Measure, Results, Row

HEADER = ("measurement", "unit", "goal", *COLUMNS)
BASE = COLUMNS[0]
# Not a rival: what no loop can do better than.
YARDSTICK = "raw C"
NOTHING = "-"


@dataclass(frozen=True)
class Line:
    """One line of the table, and the other loops that are ahead of penstock in it."""

    cells: tuple[str, ...]
    ahead: tuple[str, ...]


def number(value: float) -> str:
    if value and abs(value) < 10:
        return f"{value:.2f}"
    return f"{value:.1f}" if abs(value) < 100 and value != int(value) else f"{value:,.0f}"


def lines_of(measure: Measure, results: Results) -> list[Line]:
    """The lines of one measurement; rows for which nobody has a figure are left out."""
    return [line for row in measure.rows if (line := _line(row, results)) is not None]


def _line(row: Row, results: Results) -> Line | None:
    medians = {column: results.typical(row, entry) for column, entry in row.cells.items()}
    if all(median is None for median in medians.values()):
        return None
    ratios = {column: _ratios(row, results, column) for column in COLUMNS[1:]}
    cells = [row.title, row.unit, _verdict(row.goal, medians, ratios)]
    for column in COLUMNS:
        cells.append(_cell(row, results, column, medians.get(column), ratios.get(column, [])))
    rivals = {column: values for column, values in ratios.items() if column != YARDSTICK and values}
    ahead = tuple(_ahead(column, values) for column, values in rivals.items() if _median(values) < 1)
    return Line(tuple(cells), ahead if row.ratios else ())


def _quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _ratios(row: Row, results: Results, column: str) -> list[float]:
    """How many times as much as penstock `column` needs, per round."""
    if column not in row.cells or BASE not in row.cells:
        return []
    return results.ratios(row, row.cells[column], row.cells[BASE])


def _cell(row: Row, results: Results, column: str, median: float | None, ratios: list[float]) -> str:
    if column not in row.cells:
        return NOTHING
    if median is None:
        return "missing"
    if not row.ratios or not ratios:
        return number(median)
    if len(ratios) == 1 or max(ratios) == min(ratios):
        return f"{number(median)} ({ratios[0]:.2f})"
    low, middle, high = _quartiles(ratios)
    return f"{number(median)} ({middle:.2f} [{low:.2f}..{high:.2f}])"


def _verdict(goal: Goal | None, medians: dict[str, float | None], ratios: dict[str, list[float]]) -> str:
    """The goal, and whether the medians of this run reach it. Unknown while penstock has no figure."""
    if goal is None:
        return NOTHING
    mine = medians.get(BASE)
    if mine is None:
        return goal.text
    reached = goal.at_most is None or mine <= goal.at_most
    if goal.within is not None:
        other, factor = goal.within
        # The ratio is theirs to ours, so "within 1.03 times theirs" reads 1 / ratio <= 1.03.
        if not ratios[other]:
            return goal.text
        reached = reached and 1 / _median(ratios[other]) <= factor
    return f"{goal.text}: {'met' if reached else 'missed'}"


def _ahead(column: str, ratios: Sequence[float]) -> str:
    _, middle, high = _quartiles(ratios)
    return f"{column} needs {middle:.2f} of it{'' if high < 1 else ', within the spread'}"


def ahead_of_us(lines: Sequence[Line]) -> list[str]:
    """Where somebody else wins."""
    return [f"{line.cells[0]} ({line.cells[1]}): {'; '.join(line.ahead)}" for line in lines if line.ahead]


def as_text(lines: Sequence[Line]) -> str:
    rows = [HEADER, *(line.cells for line in lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def as_markdown(lines: Sequence[Line]) -> str:
    rows = [HEADER, tuple("---" for _ in HEADER), *(line.cells for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
