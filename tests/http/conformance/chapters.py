"""The table as a whole: its chapters in their order."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from tests.http.conformance import connections, content, ends, framing, heads, programs, sizes, targets, times
from tests.http.conformance.table import Case, Rule, Scene

MODULES: tuple[ModuleType, ...] = (heads, targets, framing, connections, sizes, content, times, ends, programs)
CHAPTERS: list[tuple[str, str, list[Rule]]] = [
    (module.TITLE, module.__name__.rpartition(".")[2], module.RULES) for module in MODULES
]


def cases() -> Iterator[tuple[str, Rule, Case]]:
    """Every case that is bytes, with its chapter and rule."""
    for title, _, rules in CHAPTERS:
        yield from ((title, rule, case) for rule in rules for case in rule.cases if isinstance(case, Case))


def scenes() -> Iterator[tuple[str, Rule, Scene]]:
    """Every case that is played, with its chapter and rule."""
    for title, _, rules in CHAPTERS:
        yield from ((title, rule, case) for rule in rules for case in rule.cases if isinstance(case, Scene))
