# cython: language_level=3
"""What a Range field asks for (RFC 9110, 14): clipped to the content, merged where parts overlap, never more than it.

A field that is malformed, of another unit, or asks for more than RANGES_MAX parts is ignored, as the RFC allows, so that
the whole content is sent. Ranges that overlap, touch, or have less between them than a part's own fields would take
become one: what is sent is never noticeably longer than the content. This file must not know files or conditions.
"""

import cython
from cython.cimports.libc.stdint import INT64_MAX, int64_t
from cython.cimports.penstock.http.files_system import text_t
from cython.cimports.penstock.http.types import RANGES_MAX, RangesC

from penstock import limits

if limits.HTTP_RANGES_MAX != RANGES_MAX:
    raise AssertionError("RANGES_MAX in types.pxd is not that of limits.py")

GAP = cython.declare(int64_t, limits.HTTP_RANGE_GAP_BYTES)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _add(ranges: cython.pointer[RangesC], first: int64_t, last: int64_t) -> cython.bint:
    """Add a range, merged with all that it touches; it takes the place of the earliest of them. False: there is no room."""
    i: cython.int = 0
    place: cython.int = -1
    keep: cython.int
    while i < ranges.count:
        # Both are below 2^63 by more than the gap, because they lie within a file.
        if first <= ranges.last[i] + GAP and ranges.first[i] <= last + GAP:
            first = min(first, ranges.first[i])
            last = max(last, ranges.last[i])
            place = i if place < 0 else min(place, i)
            # What has grown may touch others: take this one out and look again.
            for keep in range(i, ranges.count - 1):
                ranges.first[keep] = ranges.first[keep + 1]
                ranges.last[keep] = ranges.last[keep + 1]
            ranges.count -= 1
            i = 0
        else:
            i += 1
    if ranges.count == RANGES_MAX:
        return False
    if place < 0:
        place = ranges.count
    for keep in range(ranges.count, place, -1):
        ranges.first[keep] = ranges.first[keep - 1]
        ranges.last[keep] = ranges.last[keep - 1]
    ranges.first[place] = first
    ranges.last[place] = last
    ranges.count += 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _digits(text: text_t, size: cython.uint, at: cython.pointer[cython.uint]) -> int64_t:
    """The number at a place, which then lies behind it; -1: there is none. What is too large is the largest there is."""
    value: int64_t = -1
    while at[0] < size and 48 <= text[at[0]] <= 57:
        value = 0 if value < 0 else value
        digit: cython.int = text[at[0]] - 48
        value = INT64_MAX if value > (INT64_MAX - digit) // 10 else value * 10 + digit
        at[0] += 1
    return value


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _skip(text: text_t, size: cython.uint, at: cython.uint) -> cython.uint:
    while at < size and (text[at] == b" " or text[at] == b"\t"):
        at += 1
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _is_bytes(text: text_t, size: cython.uint) -> cython.bint:
    """Whether the unit is bytes, in any case of letters."""
    unit: cython.p_char = b"bytes"
    i: cython.uint
    if size < 6 or text[5] != b"=":
        return False
    for i in range(5):  # noqa: SIM110 - C
        if text[i] | 32 != unit[i]:
            return False
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def ranges_parse(text: text_t, size: cython.uint, length: int64_t, ranges: cython.pointer[RangesC]) -> cython.int:
    """Read the field. RANGE_..."""
    at: cython.uint = 6
    seen: cython.int = 0
    first: int64_t
    last: int64_t
    ranges.count = 0
    if not _is_bytes(text, size):
        return RANGE_IGNORED
    while True:
        at = _skip(text, size, at)
        if at < size and text[at] != b",":
            first = _digits(text, size, cython.address(at))
            if at == size or text[at] != b"-":
                return RANGE_IGNORED
            at += 1
            last = _digits(text, size, cython.address(at))
            if (first < 0 and last < 0) or (last >= 0 and first > last):
                return RANGE_IGNORED
            if first < 0 and last > 0 and length == 0:
                return RANGE_IGNORED  # the last bytes of nothing: all of it, and no range can say so
            if first < 0 and last > 0:
                first = length - last if last < length else 0
                last = length - 1
            elif first < 0:
                first = length  # the last 0 bytes
            last = length - 1 if last < 0 or last >= length else last
            seen += 1
            if seen > RANGES_MAX or (first < length and not _add(ranges, first, last)):
                return RANGE_IGNORED
            at = _skip(text, size, at)
        if at == size:
            break
        if text[at] != b",":
            return RANGE_IGNORED
        at += 1
    if seen == 0:
        return RANGE_IGNORED
    return RANGE_SOME if ranges.count else RANGE_NONE


def parse_ranges(text: bytes, length: int):
    """Return the ranges of a field as pairs of first and last; [] if none can be satisfied, None if it is to be ignored."""
    ranges: RangesC
    found: cython.int = ranges_parse(text, len(text), length, cython.address(ranges))
    if found == RANGE_IGNORED:
        return None
    return [(ranges.first[i], ranges.last[i]) for i in range(ranges.count)]
