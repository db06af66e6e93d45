"""Adding up what several loops, or several processes, have counted.

This file must not know what is counted, but for the names of what is true only now.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

# What is no count of what has happened but a state of things: it ends with whoever told of it.
PRESENT: Final = frozenset(("open", "states"))


def add_up(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Add counters up: numbers, lists of numbers place by place, and the same in what is nested; the rest is the first's."""
    total: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            total[name] = _sum(total[name], value) if name in total else value
    return total


def lasting(counted: dict[str, Any]) -> dict[str, Any]:
    """Return what remains true of counters when those who counted are gone."""
    return {
        name: lasting(value) if isinstance(value, dict) else value
        for name, value in counted.items()
        if name not in PRESENT
    }


def _sum(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return add_up([one, other])
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [_sum(mine, its) for mine, its in zip(one, other, strict=True)]
    if _is_number(one) and _is_number(other):
        return one + other
    return one


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
