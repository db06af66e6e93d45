"""Every rule of the table, against a running server: whole, byte by byte, cut anywhere, through TLS, with other limits."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.http.conformance.chapters import CHAPTERS, cases, scenes
from tests.http.conformance.running import Worlds, run
from tests.http.conformance.table import Case, Scene

Table = list[tuple[str, Case]]


def named(table: Table) -> Any:
    """A list of cases for a test, each with its name."""
    return pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in table])


CASES: Table = [(f"{title}: {rule.section}: {case.name}", case) for title, rule, case in cases()]
SCENES = [pytest.param(scene, id=f"{title}: {rule.section}: {scene.name}") for title, rule, scene in scenes()]
CUT = [(name, case) for name, case in CASES if case.cuts]
# Through TLS the same parser gets the same bytes; what may differ is how answers and ends leave.
PRIVATE = [(name, case) for name, case in CASES if case.cuts or name.startswith(("Connections", "Limits", "Files"))]
# With smaller buffers and limits, which requests of this size do not reach, nothing may be different.
SMALL = {"max_line": 400, "max_head": 900, "max_fields": 12}
SMALL_SENT = 300
SHORT = [(name, case) for name, case in CASES if len(case.sent) < SMALL_SENT]
# What a program gets as it comes, or out of a file, is no other request. What is kept in memory is another question.
ASKED = [(name, case) for name, case in CASES if case.world != "files" and "max_body_kept" not in case.options]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worlds]:
    opened = Worlds(tmp_path_factory.mktemp("worlds"))
    yield opened
    opened.close()


@named(CASES)
def test_case(worlds: Worlds, case: Case) -> None:
    run(worlds, case)


@named(CASES)
def test_case_byte_by_byte(worlds: Worlds, case: Case) -> None:
    """Large ones in pieces, so that no case takes more than a few hundred turns."""
    piece = 1 + len(case.sent) // 700
    run(worlds, case, itertools.repeat(piece))


@named(CUT)
def test_case_cut_at_every_byte(worlds: Worlds, case: Case) -> None:
    for cut in range(1, len(case.sent)):
        run(worlds, case, iter((cut, 1 << 20)))


@named(PRIVATE)
def test_case_through_tls(worlds: Worlds, case: Case) -> None:
    run(worlds, case, private=True)


@named(SHORT)
def test_case_with_small_limits(worlds: Worlds, case: Case) -> None:
    run(worlds, case, **{**SMALL, **case.options})


@named(ASKED)
def test_case_with_streaming(worlds: Worlds, case: Case) -> None:
    run(worlds, case, streaming=True)


@named(ASKED)
def test_case_with_spooling(worlds: Worlds, case: Case) -> None:
    run(worlds, case, spooling=True, max_body_kept=1)


@pytest.mark.parametrize("scene", SCENES)
def test_scene(scene: Scene, tmp_path: Path) -> None:
    scene.play(tmp_path)


def test_the_table_says_everything_once() -> None:
    """Names tell cases apart, and no rule is without one."""
    for title, _, rules in CHAPTERS:
        counted = Counter((rule.section, rule.text, case.name) for rule in rules for case in rule.cases)
        assert [name for name, count in counted.items() if count > 1] == [], title
        assert all(rule.cases for rule in rules)
