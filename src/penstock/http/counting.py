"""Adding up what several loops, or several processes, have counted.

This file must not know what is counted, but for the names of what is true only now.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

# What is no count of what has happened but a state of things: it ends with whoever told of it.
PRESENT: Final = frozenset(
    (
        *("open", "states"),  # the engine
        *("waiting", "in_work", "limit", "interval_ns", "overloaded", "addresses"),  # the admission
        *("bytes", "entries", "open_files"),  # files
        *("waiting_bytes", "error"),  # the log
        *("threads", "busy"),  # the pool of a WSGI application
    )
)
# Of which the largest counts for all.
_LARGEST: Final = frozenset(("interval_ns", "error"))


def add_up(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Add counters up: numbers, lists of numbers place by place, and the same in what is nested; the rest is the first's.

    Of peaks the largest counts, and what is true of one is true of all.
    """
    total: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = _sum(name, total[name], value) if name in total else value
    return total


def lasting(counted: dict[str, Any]) -> dict[str, Any]:
    """Return what remains true of counters when those who counted are gone."""
    return {
        name: lasting(value) if isinstance(value, dict) else value
        for name, value in counted.items()
        if name not in PRESENT
    }


def _sum(name: str, one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return add_up([one, other])
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [_sum(name, mine, its) for mine, its in zip(one, other, strict=True)]
    if isinstance(one, bool) and isinstance(other, bool):
        return one or other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return max(one, other) if name in _LARGEST or name.endswith("_peak") else one + other
    return one
