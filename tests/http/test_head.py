"""Heads of requests: a table of the rules, every way to cut them, and a comparison with a slow model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.http.head import HeadReader
from tests.http.head_cases import CASES, Case, get
from tests.http.head_model import METHODS, judge
from tests.http.strategies import HEADS

MORE, DONE, BAD = 0, 1, 2
SMALL = {"line_max": 24, "head_max": 60, "fields_max": 3}


def outcome(reader: HeadReader, said: int) -> int | dict[str, Any]:
    """Return what the model would: a status, 0 for more, or the facts."""
    if said == BAD:
        assert reader.status >= 400
        assert reader.reason.endswith(".")
        return reader.status
    assert reader.status == 0
    return reader.facts() if said == DONE else 0


def whole(data: bytes, **limits: int) -> int | dict[str, Any]:
    reader = HeadReader(**limits)
    return outcome(reader, reader.feed(data))


def in_pieces(data: bytes, cuts: list[int], **limits: int) -> int | dict[str, Any]:
    """Feed the head so far up to each cut, until something is said."""
    reader = HeadReader(**limits)
    said = MORE
    for cut in [*cuts, len(data)]:
        said = reader.feed(data[:cut])
        if said != MORE:
            break
        assert reader.scanned == min(cut, limits.get("head_max", 16_384))
    return outcome(reader, said)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.section}: {case.rule}")
def test_rule(case: Case) -> None:
    found = whole(case.data)
    if isinstance(case.expected, int) or isinstance(found, int):
        assert found == case.expected
        return
    found["field_count"] = len(found["fields"])
    assert {name: found[name] for name in case.expected} == case.expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.section}: {case.rule}")
def test_the_model_agrees_about_each_rule(case: Case) -> None:
    assert whole(case.data) == judge(case.data)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.section}: {case.rule}")
def test_cuts_change_nothing(case: Case) -> None:
    expected = whole(case.data)
    assert in_pieces(case.data, list(range(len(case.data)))) == expected
    for cut in range(len(case.data)):
        assert in_pieces(case.data, [cut]) == expected


@given(data=HEADS, cuts=st.lists(st.integers(0, 400), max_size=5))
@example(data=b"\r\n" * 4, cuts=[])
def test_heads_are_as_the_model_says_however_they_are_cut(data: bytes, cuts: list[int]) -> None:
    expected = judge(data)
    assert whole(data) == expected
    assert in_pieces(data, sorted(cut for cut in cuts if cut <= len(data))) == expected


@given(
    data=HEADS,
    cuts=st.lists(st.integers(0, 100), max_size=5),
    line_max=st.integers(0, 40),
    head_max=st.integers(1, 100),
    fields_max=st.integers(0, 4),
)
def test_limits_are_as_the_model_says_however_heads_are_cut(
    data: bytes, cuts: list[int], line_max: int, head_max: int, fields_max: int
) -> None:
    expected = judge(data, line_max=line_max, head_max=head_max, fields_max=fields_max)
    limits = {"line_max": line_max, "head_max": head_max, "fields_max": fields_max}
    assert whole(data, **limits) == expected
    assert in_pieces(data, sorted(cut for cut in cuts if cut <= len(data)), **limits) == expected


LINE = b"GET /0123456789 HTTP/1.1"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (LINE + b"\r\n", 0),
        (LINE[:-1], 0),
        (b"GET /01234567890 HTTP/1.1\r\n", 414),
        (LINE + b"\r", 0),
        (LINE + b"\rx", 414),
        (b"x" * 25, 0),
        (b"x" * 26, 414),
        (LINE + b"\r\n" + b"x" * 33, 0),
        (LINE + b"\r\n" + b"x" * 34, 431),
        (LINE + b"\r\nA: b\r\nC: d\r\nHost: e\r\n", 0),
        (LINE + b"\r\nA: b\r\nC: d\r\nE: f\r\nG: h\r\n", 431),
        (b"\r\n" * 4 + LINE + b"\r\n", 0),
    ],
)
def test_what_is_too_long_is_refused_also_without_an_end(data: bytes, expected: int) -> None:
    assert whole(data, **SMALL) == expected
    assert in_pieces(data, list(range(len(data))), **SMALL) == expected


def test_a_head_as_long_as_allowed_is_taken() -> None:
    data = get(b"A: bcd")
    assert isinstance(whole(data, head_max=len(data)), dict)
    assert whole(data, head_max=len(data) - 1) == 431


def test_the_largest_head_that_places_have_room_for() -> None:
    value = b"x" * (65_535 - len(get(b"A: ")))
    data = get(b"A: " + value)
    found = whole(data + b"more", head_max=65_535)
    assert isinstance(found, dict)
    assert found["fields"][1] == (b"A", value)
    assert found["size"] == 65_535
    assert whole(get(b"A: x" + value), head_max=1 << 31) == 431


def test_as_many_fields_as_there_are_places() -> None:
    fields = [b"Expect: 100-continue"] * 99
    found = whole(get(*fields), fields_max=1_000)
    assert isinstance(found, dict)
    assert (len(found["fields"]), found["again"][5], found["first"][5]) == (100, 99, 2)
    assert whole(get(*fields, b"A: b"), fields_max=1_000) == 431


def test_methods_are_known_by_name() -> None:
    for number, name in enumerate(METHODS, 1):
        path = b"a:1" if name == "CONNECT" else b"/"
        found = whole(get(line=name.encode() + b" " + path + b" HTTP/1.1"))
        assert isinstance(found, dict)
        assert found["method_number"] == number
        found = whole(get(line=name.encode() + b"X / HTTP/1.1"))
        assert isinstance(found, dict)
        assert found["method_number"] == 0


def test_what_follows_a_head_is_not_looked_at() -> None:
    reader = HeadReader()
    data = get()
    assert reader.feed(data + b"\0\n\r" * 100) == DONE
    assert reader.scanned == reader.facts()["size"] == len(data)


def test_a_verdict_stays() -> None:
    reader = HeadReader()
    assert reader.feed(b"GET\r\n") == BAD
    assert reader.feed(get()) == BAD
    reader = HeadReader()
    assert reader.feed(get()) == DONE
    assert reader.feed(get() + b"\n") == DONE


def test_a_reader_begins_anew() -> None:
    reader = HeadReader()
    assert reader.feed(b"GET\r\n") == BAD
    assert reader.repeat(get(b"A: b"), 3) == DONE
    assert outcome(reader, DONE) == whole(get(b"A: b"))
