"""One markdown table from the figures of all rounds: a row for each figure, a column for each server.

A cell is the median of the rounds; in brackets stands its ratio to nginx, taken within each round and then the median of
these. This file must not know where figures come from.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from cases import Case, Figures, Row

BASE, OURS = "nginx", "penstock"

# Case name -> server name -> figures, round by round.
Results = Mapping[str, Mapping[str, Sequence[Figures]]]


def number(value: float) -> str:
    """Return a figure with about three digits."""
    if value == int(value) and abs(value) < 100_000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:,.0f}"


def typical(rounds: Sequence[Figures], figure: str) -> float | None:
    """Return the median of a figure; of errors the worst."""
    values = [one[figure] for one in rounds if figure in one]
    if not values:
        return None
    return max(values) if figure == "errors" else statistics.median(values)


def ratio(rounds: Sequence[Figures], base: Sequence[Figures], figure: str) -> float | None:
    """Return the median ratio to the base, round by round."""
    pairs = zip(rounds, base, strict=False)
    found = [mine[figure] / other[figure] for mine, other in pairs if figure in mine and other.get(figure)]
    return statistics.median(found) if found else None


def _cell(row: Row, server: str, rounds: Sequence[Figures], base: Sequence[Figures]) -> str:
    value = typical(rounds, row.figure)
    if value is None:
        return "-"
    against = ratio(rounds, base, row.figure) if row.ratio and server != BASE else None
    return number(value) if against is None else f"{number(value)} ({against:.2f})"


def verdict(row: Row, results: Mapping[str, Sequence[Figures]]) -> str:
    """Return the goal, and whether penstock reached it in this run."""
    if not row.goal or row.bound is None:
        return row.goal
    ours, base = results.get(OURS, ()), results.get(BASE, ())
    value = ratio(ours, base, row.figure) if row.of_nginx else typical(ours, row.figure)
    if value is None:
        return row.goal
    reached = value >= row.bound if row.at_least else value <= row.bound
    return f"{row.goal}: {'met' if reached else 'missed'}"


def markdown(cases: Sequence[Case], servers: Sequence[str], results: Results) -> str:
    """Return the whole table."""
    lines = [f"| case | figure | goal | {' | '.join(servers)} |", "|---" * (3 + len(servers)) + "|"]
    for case in cases:
        figures = results.get(case.name, {})
        title = case.purpose
        for row in case.rows:
            cells = [_cell(row, server, figures.get(server, ()), figures.get(BASE, ())) for server in servers]
            lines.append(f"| {title} | {row.title} | {verdict(row, figures)} | {' | '.join(cells)} |")
            title = ""
    return "\n".join(lines)
