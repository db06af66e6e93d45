"""Conditional requests, ranges, dates and codings: tables, and slow models written after the RFC."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.errors import UsageError
from penstock.http.codings import NAMES, choose_coding
from penstock.http.conditions import judge
from penstock.http.dates import format_date, parse_date
from penstock.http.ranges import parse_ranges

ETAG = '"here"'
MODIFIED_S = 1_000_000_000
LENGTH = 100
BEFORE, EQUAL, AFTER = (format_date(MODIFIED_S + shift).decode() for shift in (-1, 0, 1))

Fields = Sequence[tuple[str, str]]
Verdict = int | list[tuple[int, int]] | None


def ask(fields: Fields, *, method: str = "GET", exact: bool = True, length: int = LENGTH) -> Verdict:
    pairs = [(name.encode(), value.encode()) for name, value in fields]
    return judge(pairs, ETAG.encode(), MODIFIED_S, method=method.encode(), exact=exact, length=length)


# ---- precedence ------------------------------------------------------------------------------------------------------

LISTS = (None, ETAG, f"W/{ETAG}", '"other"', "*", f'"other", W/"x" , {ETAG}')
DATES = (None, BEFORE, EQUAL, AFTER, "yesterday")
IF_RANGES = (None, ETAG, f"W/{ETAG}", '"other"', EQUAL, BEFORE, AFTER, "nonsense")
RANGES = (None, "bytes=0-9", "bytes=100-")


def has_etag(value: str, weak: bool) -> bool:
    """Whether a list names the ETag, with strong or weak comparison."""
    members = [member.strip() for member in value.split(",")]
    return value == "*" or ETAG in members or (weak and f"W/{ETAG}" in members)


def date_of(value: str | None) -> int | None:
    return None if value is None else {BEFORE: MODIFIED_S - 1, EQUAL: MODIFIED_S, AFTER: MODIFIED_S + 1}.get(value)


def model(fields: dict[str, str | None], method: str, exact: bool) -> Verdict:
    """The five steps of RFC 9110, 13.2.2, and what is left of the range."""
    match, since = fields["If-Match"], date_of(fields["If-Unmodified-Since"])
    if match is not None:
        if not has_etag(match, weak=False):
            return 412
    elif since is not None and since < MODIFIED_S:
        return 412
    match, since = fields["If-None-Match"], date_of(fields["If-Modified-Since"])
    if match is not None:
        if has_etag(match, weak=True):
            return 304
    elif since is not None and since >= MODIFIED_S:
        return 304
    condition, wanted = fields["If-Range"], fields["Range"]
    allowed = condition is None or condition == ETAG or (exact and date_of(condition) == MODIFIED_S)
    if method != "GET" or wanted is None or not allowed:
        return None
    return [(0, 9)] if wanted == "bytes=0-9" else []


def test_precedence() -> None:
    names = ("If-Match", "If-Unmodified-Since", "If-None-Match", "If-Modified-Since", "Range", "If-Range")
    asked = 0
    for values in itertools.product(LISTS, DATES, LISTS, DATES, RANGES, IF_RANGES):
        fields = dict(zip(names, values, strict=True))
        method, exact = ("GET", "HEAD")[asked % 3 == 0], asked % 5 != 0
        present = [(name, value) for name, value in fields.items() if value is not None]
        assert ask(present, method=method, exact=exact) == model(fields, method, exact), (present, method, exact)
        asked += 1
    assert asked == 6 * 5 * 6 * 5 * 3 * 8


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([("If-None-Match", '"a"'), ("If-None-Match", ETAG)], 304),
        ([("If-None-Match", f'"a,b", {ETAG}')], 304),
        ([("If-None-Match", f",, {ETAG} ,")], 304),
        ([("If-None-Match", '"a'), ("if-none-match", ETAG)], 304),
        ([("If-None-Match", "here")], None),
        ([("If-None-Match", '"here')], None),
        ([("If-None-Match", f"*, {ETAG}")], None),
        ([("If-None-Match", "")], None),
        ([("If-None-Match", 'W/"')], None),
        ([("If-None-Match", "w/" + ETAG)], None),
        ([("If-Match", "")], 412),
        ([("If-Match", '"a"'), ("If-Match", ETAG)], None),
        # What is there twice, and must not be, is not there.
        ([("If-Modified-Since", EQUAL), ("If-Modified-Since", EQUAL)], None),
        ([("If-Unmodified-Since", BEFORE), ("If-Unmodified-Since", BEFORE)], None),
        ([("Range", "bytes=0-1"), ("Range", "bytes=0-1")], None),
        ([("Range", "bytes=0-1"), ("If-Range", ETAG), ("If-Range", ETAG)], None),
        ([("Range", "bytes=0-1"), ("If-Range", "")], None),
        ([("If-Range", '"other"')], None),
    ],
)
def test_special_cases(fields: Fields, expected: Verdict) -> None:
    assert ask(fields) == expected


# ---- ranges ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("bytes=0-0", [(0, 0)]),
        ("bytes=10-", [(10, 99)]),
        ("bytes=-10", [(90, 99)]),
        ("bytes=-1000", [(0, 99)]),
        ("bytes=90-1000", [(90, 99)]),
        ("BYTES=1-2", [(1, 2)]),
        ("bytes= 1-2 ,, ", [(1, 2)]),
        ("bytes=99-99999999999999999999999999", [(99, 99)]),
        ("bytes=-99999999999999999999999999", [(0, 99)]),
        ("bytes=0-10,5-20", [(0, 20)]),
        ("bytes=50-60,0-9,61-70", [(0, 70)]),
        ("bytes=0-1,100-", [(0, 1)]),
        ("bytes=100-", []),
        ("bytes=100-200,300-", []),
        ("bytes=-0", []),
        ("bytes=99999999999999999999999999-", []),
        # Ignored.
        ("bytes", None),
        ("bytes=", None),
        ("bytes=,", None),
        ("bytes=5-4", None),
        ("bytes=0-1,5-4", None),
        ("bytes=a-b", None),
        ("bytes=1", None),
        ("bytes=-", None),
        ("bytes=--1", None),
        ("bytes=1-2-3", None),
        ("bytes=1-2 3-4", None),
        ("bytes=+1-2", None),
        ("bytes 1-2", None),
        ("lines=1-2", None),
        ("bytes=" + ",".join(["0-0"] * 17), None),
        ("bytes=" + ",".join(["0-"] * 1_000), None),
        ("bytes=" + ",".join(["0-0"] * 16), [(0, 0)]),
    ],
)
def test_ranges(field: str, expected: list[tuple[int, int]] | None) -> None:
    assert parse_ranges(field.encode(), LENGTH) == expected


def test_parts_keep_the_order_in_which_they_were_asked_for() -> None:
    assert parse_ranges(b"bytes=5000-5009,0-9,-10", 10_000) == [(5000, 5009), (0, 9), (9990, 9999)]
    assert parse_ranges(b"bytes=5000-5009,0-9,5010-5019", 10_000) == [(5000, 5019), (0, 9)]
    assert parse_ranges(b"bytes=5000-5009,0-9,10-5000", 10_000) == [(0, 5009)]


def test_nothing_has_no_parts() -> None:
    assert parse_ranges(b"bytes=0-", 0) == []
    assert parse_ranges(b"bytes=-5", 0) is None


SPECS = st.one_of(
    st.tuples(st.integers(0, 3_000), st.integers(0, 3_000)).map(lambda pair: (min(pair), max(pair))),
    st.tuples(st.integers(0, 3_000), st.none()),
    st.tuples(st.none(), st.integers(0, 3_000)),
)


@given(st.lists(SPECS, min_size=1, max_size=16), st.integers(1, 2_500))
def test_ranges_cover_what_is_asked_for_and_hardly_more(
    specs: list[tuple[int | None, int | None]], length: int
) -> None:
    text = ",".join(f"{'' if a is None else a}-{'' if b is None else b}" for a, b in specs)
    found = parse_ranges(f"bytes={text}".encode(), length)
    wanted: set[int] = set()
    for first, last in specs:
        if first is None:
            wanted |= set(range(max(0, length - (last or 0)), length))
        else:
            wanted |= set(range(first, length if last is None else min(last + 1, length)))
    assert found is not None
    covered = [place for first, last in found for place in range(first, last + 1)]
    assert len(covered) == len(set(covered))
    assert wanted <= set(covered)
    for first, last in found:
        assert 0 <= first <= last < length
        assert first in wanted
        assert last in wanted
    gaps = sorted(found)
    for (_, last), (first, _) in itertools.pairwise(gaps):
        assert first - last - 1 >= limits.HTTP_RANGE_GAP_BYTES
    # What was filled in lies in gaps that are too small to be left out.
    for first, last in found:
        places = sorted(wanted & set(range(first, last + 1)))
        assert all(after - before - 1 < limits.HTTP_RANGE_GAP_BYTES for before, after in itertools.pairwise(places))


# ---- dates -----------------------------------------------------------------------------------------------------------

FIRST_S, LAST_S = -62_135_596_800, 253_402_300_799
MOMENTS = st.integers(FIRST_S, LAST_S)


def moment(seconds: int) -> datetime:
    days, rest = divmod(seconds, 86_400)
    return datetime.fromordinal(days + 719_163).replace(
        hour=rest // 3600, minute=rest // 60 % 60, second=rest % 60, tzinfo=UTC
    )


@given(MOMENTS)
def test_dates_are_written_and_read(seconds: int) -> None:
    at = moment(seconds)
    day = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[at.weekday()]
    month = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][at.month - 1]
    text = f"{day}, {at.day:02} {month} {at.year:04} {at:%H:%M:%S} GMT"
    assert format_date(seconds) == text.encode()
    assert parse_date(text.encode()) == seconds
    assert parse_date(f"{day} {month} {at.day:2} {at:%H:%M:%S} {at.year:04}".encode()) == seconds


@given(st.integers(0, 4_000_000_000), st.integers(-1_500_000_000, 1_500_000_000))
def test_years_of_two_digits_are_near_the_present(now_s: int, shift: int) -> None:
    at = moment(now_s + shift)
    text = f"{at:%A}, {at.day:02}-{at:%b}-{at.year % 100:02} {at:%H:%M:%S} GMT"
    assert parse_date(text.encode(), now_s) == now_s + shift


@given(st.one_of(st.integers(-(1 << 62), FIRST_S), st.integers(LAST_S, 1 << 62)))
def test_dates_beyond_four_digits_stop_there(seconds: int) -> None:
    written = format_date(seconds)
    assert len(written) == 29
    assert written[12:16] in {b"0000", b"9999"} or seconds in {FIRST_S, LAST_S}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
        ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
        ("Sun Nov  6 08:49:37 1994", 784_111_777),
        ("Sun Nov 06 08:49:37 1994", 784_111_777),
        ("Thu, 29 Feb 2024 00:00:00 GMT", 1_709_164_800),
        ("Sat, 31 Dec 2016 23:59:60 GMT", 1_483_228_799),
        ("Sun, 06 Nov 1994 08:49:37 UTC", None),
        ("Sun, 06 Nov 1994 08:49:37", None),
        ("Sun, 06 Nov 1994 08:49:37 GMT ", None),
        ("Sun, 6 Nov 1994 08:49:37 GMT", None),
        ("sun, 06 Nov 1994 08:49:37 GMT", None),
        ("Xxx, 06 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 nov 1994 08:49:37 GMT", None),
        ("Sun, 00 Nov 1994 08:49:37 GMT", None),
        ("Sun, 31 Nov 1994 08:49:37 GMT", None),
        ("Wed, 29 Feb 2023 00:00:00 GMT", None),
        ("Wed, 29 Feb 1900 00:00:00 GMT", None),
        ("Sun, 06 Nov 1994 24:00:00 GMT", None),
        ("Sun, 06 Nov 1994 08:60:37 GMT", None),
        ("Sun, 06 Nov 1994 08:49:61 GMT", None),
        ("Sun, 06 Nov 1994 -8:49:37 GMT", None),
        ("Sun, 06 Nov 1994 08-49-37 GMT", None),
        ("Sun, 06 Nov 0000 08:49:37 GMT", None),
        ("Sunday, 06-Nov-94 08:49:37 EST", None),
        ("Sunday, 06-Nov-1994 08:49:37 GMT", None),
        ("Sunday; 06-Nov-94 08:49:37 GMT", None),
        ("Sun Nov  6 08:49:37 94", None),
        ("784111777", None),
        ("0", None),
        ("", None),
    ],
)
def test_reading_dates(text: str, expected: int | None) -> None:
    assert parse_date(text.encode(), 1_700_000_000) == expected


@given(st.text("SunModay, 0123456789-:GMT NovFeb", max_size=34))
def test_reading_any_text_as_a_date_is_harmless(text: str) -> None:
    found = parse_date(text.encode(), 0)
    assert found is None or FIRST_S <= found <= LAST_S


# ---- codings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "there", "expected"),
    [
        ([], NAMES, "identity"),
        ([""], NAMES, "identity"),
        (["gzip"], NAMES, "gzip"),
        (["gzip, deflate, br, zstd"], NAMES, "br"),
        (["gzip, deflate, br, zstd"], ("zstd", "gzip"), "zstd"),
        (["gzip", "br"], NAMES, "br"),
        (["GZIP"], NAMES, "gzip"),
        (["x-gzip"], NAMES, "gzip"),
        (["gzip;q=1.0, br;q=0.5"], NAMES, "gzip"),
        (["gzip ; q=0.9 , br ;q=0.999"], NAMES, "br"),
        (["gzip;Q=0.5"], NAMES, "gzip"),
        (["gzip;q=0"], NAMES, "identity"),
        (["gzip;q=0.000, *"], NAMES, "br"),
        (["*"], ("gzip",), "gzip"),
        (["*;q=0"], NAMES, None),
        (["*;q=0, identity"], NAMES, "identity"),
        (["*;q=0, gzip"], ("br",), None),
        (["identity;q=0"], (), None),
        (["identity;q=0"], NAMES, None),
        (["identity;q=0, gzip"], NAMES, "gzip"),
        (["identity;q=0, *"], NAMES, "br"),
        (["identity;q=0, deflate"], NAMES, None),
        (["identity, gzip;q=0.5"], NAMES, "identity"),
        (["identity;q=0.5, gzip;q=0.5"], NAMES, "gzip"),
        (["gzip;q=0.5"], NAMES, "gzip"),
        (["gzip;q=2"], NAMES, "identity"),
        (["gzip;q=1.1"], NAMES, "identity"),
        (["gzip;q=x, br"], NAMES, "br"),
        (["gzip;q=0.1234"], NAMES, "identity"),
        (["gzip;level=9"], NAMES, "identity"),
        (["gzipp, brr"], NAMES, "identity"),
        (["deflate"], NAMES, "identity"),
        ([",,gzip,,"], NAMES, "gzip"),
        (["gzip;"], NAMES, "gzip"),
        (["gzip;q="], NAMES, "identity"),
        (["gzip", "identity;q=0"], (), None),
    ],
)
def test_codings(fields: list[str], there: tuple[str, ...], expected: str | None) -> None:
    assert choose_coding([field.encode() for field in fields], there) == expected


WEIGHTS = st.dictionaries(st.sampled_from([*NAMES, "identity", "*", "deflate"]), st.integers(0, 1_000))


@given(WEIGHTS, st.sets(st.sampled_from(NAMES)))
def test_the_best_coding_is_chosen(weights: dict[str, int], there: set[str]) -> None:
    field = ", ".join(f"{name};q={weight / 1_000:.3f}" for name, weight in weights.items())
    chosen = choose_coding([field.encode()], tuple(there))
    of = {name: weights.get(name, weights.get("*", 0)) for name in there}
    best = max(of.values(), default=0)
    if best > 0 and best >= weights.get("identity", 0):
        assert chosen == next(name for name in NAMES if of.get(name) == best)
    elif weights.get("identity", weights.get("*", 1)) == 0:
        assert chosen is None
    else:
        assert chosen == "identity"


def test_a_head_made_by_hand_has_bounds() -> None:
    with pytest.raises(UsageError, match="101 fields"):
        ask([("a", "b")] * 101)
    with pytest.raises(UsageError, match="bytes"):
        ask([("a", "b" * 70_000)])
