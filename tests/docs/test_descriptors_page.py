"""Every test that docs/descriptors.md names exists, and every numbered behaviour has a row."""

from __future__ import annotations

import re

from tests.architecture.floors import ROOT

PAGE = (ROOT / "docs" / "descriptors.md").read_text()


def test_every_test_that_is_named_exists() -> None:
    named = set(re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", PAGE))
    assert len(named) > 40
    missing = [f"{path}::{name}" for path, name in named if f"def {name}(" not in (ROOT / path).read_text()]
    assert not missing


def test_all_thirty_behaviours_have_a_row() -> None:
    assert re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE) == [str(number) for number in range(1, 31)]
