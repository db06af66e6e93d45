"""The fuzzer runs, for a few rounds, and finds what is wrong; `make fuzz` runs it for longer."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.http import fuzz_parser


def test_a_few_rounds_find_nothing() -> None:
    assert fuzz_parser.fuzz(seed=1, seconds=60, rounds=300) == (300, [])


def test_what_is_wrong_is_found_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def thinks_that_tabulators_are_wrong(data: bytes, luck: random.Random) -> Iterator[str]:
        if b"\t" in data:
            yield "a tabulator"

    monkeypatch.setattr(fuzz_parser, "CHECKS", [thinks_that_tabulators_are_wrong])
    rounds, found = fuzz_parser.fuzz(seed=1, seconds=60, rounds=10_000)
    assert 0 < rounds < 10_000
    assert "\\t" in found[0]
    assert found[1] == "thinks_that_tabulators_are_wrong: a tabulator"
