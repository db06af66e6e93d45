# cython: language_level=3
"""Conditional requests, in the order of precedence of RFC 9110, 13.2.2.

1. If-Match, compared strongly: not met is 412.
2. Only without it, If-Unmodified-Since: not met is 412.
3. If-None-Match, compared weakly: a match is 304.
4. Only without it, If-Modified-Since: not modified is 304.
5. Range, unless there is an If-Range that is not met: an ETag compared strongly, or exactly the date of the file, which
   only counts if the file had not changed for a while when it was read.

A date that cannot be read, or is there twice, is as if it were not there; so is the Range of a method other than GET.
This file must not know files.
"""

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.string import memcmp
from cython.cimports.penstock.http.dates import date_parse
from cython.cimports.penstock.http.files_system import text_t
from cython.cimports.penstock.http.handmade import Made
from cython.cimports.penstock.http.ranges import RANGE_IGNORED, ranges_parse
from cython.cimports.penstock.http.types import (
    FIELD_IF_MATCH,
    FIELD_IF_MODIFIED_SINCE,
    FIELD_IF_NONE_MATCH,
    FIELD_IF_RANGE,
    FIELD_IF_UNMODIFIED_SINCE,
    FIELD_RANGE,
    METHOD_GET,
    HeadC,
    RangesC,
)

_NAMES = {CONDITION_MET: None, CONDITION_SAME: 304, CONDITION_FAILED: 412}


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def head_has_conditions(head: cython.pointer[cython.const[HeadC]]) -> cython.bint:
    """Whether there is anything here to judge: mostly there is not."""
    return (
        head.first[FIELD_IF_MATCH]
        | head.first[FIELD_IF_NONE_MATCH]
        | head.first[FIELD_IF_MODIFIED_SINCE]
        | head.first[FIELD_IF_UNMODIFIED_SINCE]
        | head.first[FIELD_RANGE]
    ) != 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _listed(
    text: text_t, size: cython.uint, validators: cython.pointer[cython.const[ValidatorsC]], weak: cython.bint
) -> cython.bint:
    """Whether the ETag, which is a strong one, is in a list; `weak`: a weak one of the same value counts too."""
    at: cython.uint = 0
    while at < size:
        while at < size and text[at] in (b" ", b"\t", b","):
            at += 1
        is_weak: cython.bint = at + 1 < size and text[at] == b"W" and text[at + 1] == b"/"
        if is_weak:
            at += 2
        begin: cython.uint = at
        if at < size and text[at] == b"*":
            return size == 1
        if at >= size or text[at] != b'"':
            return False
        at += 1
        while at < size and text[at] != b'"':
            at += 1
        if at >= size:
            return False
        at += 1
        counts: cython.bint = (weak or not is_weak) and at - begin == validators.etag_size
        if counts and memcmp(text + begin, validators.etag, at - begin) == 0:
            return True
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _any_listed(
    head: cython.pointer[cython.const[HeadC]],
    bytes: text_t,
    validators: cython.pointer[cython.const[ValidatorsC]],
    field: cython.int,
    weak: cython.bint,
) -> cython.bint:
    """The same for a field that may be on several lines."""
    i: cython.uint
    for i in range(head.first[field] - 1, head.field_count):
        if head.fields[i].known != field:
            continue
        if _listed(bytes + head.fields[i].value.start, head.fields[i].value.size, validators, weak):
            return True
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _date(
    head: cython.pointer[cython.const[HeadC]],
    bytes: text_t,
    field: cython.int,
    now_s: int64_t,
    seconds: cython.pointer[int64_t],
) -> cython.bint:
    """The date in a field; false if there is none, or none that counts."""
    if head.again[field] != 1:
        return False
    i: cython.uint = head.first[field] - 1
    return date_parse(bytes + head.fields[i].value.start, head.fields[i].value.size, now_s, seconds)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def conditions_judge(
    head: cython.pointer[cython.const[HeadC]],
    bytes: text_t,
    validators: cython.pointer[cython.const[ValidatorsC]],
) -> cython.int:
    """Judge everything but the range. CONDITION_..."""
    date: int64_t = 0
    if head.first[FIELD_IF_MATCH]:
        if not _any_listed(head, bytes, validators, FIELD_IF_MATCH, False):
            return CONDITION_FAILED
    elif (
        _date(head, bytes, FIELD_IF_UNMODIFIED_SINCE, validators.now_s, cython.address(date))
        and validators.modified_s > date
    ):
        return CONDITION_FAILED
    if head.first[FIELD_IF_NONE_MATCH]:
        if _any_listed(head, bytes, validators, FIELD_IF_NONE_MATCH, True):
            return CONDITION_SAME
    elif (
        _date(head, bytes, FIELD_IF_MODIFIED_SINCE, validators.now_s, cython.address(date))
        and validators.modified_s <= date
    ):
        return CONDITION_SAME
    return CONDITION_MET


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _range_allowed(
    head: cython.pointer[cython.const[HeadC]],
    bytes: text_t,
    validators: cython.pointer[cython.const[ValidatorsC]],
) -> cython.bint:
    """What If-Range says."""
    date: int64_t = 0
    if head.first[FIELD_IF_RANGE] == 0:
        return True
    if head.again[FIELD_IF_RANGE] != 1:
        return False
    i: cython.uint = head.first[FIELD_IF_RANGE] - 1
    size: cython.uint = head.fields[i].value.size
    text: text_t = bytes + head.fields[i].value.start
    if size > 0 and text[0] == b'"':
        return size == validators.etag_size and memcmp(text, validators.etag, size) == 0
    if not _date(head, bytes, FIELD_IF_RANGE, validators.now_s, cython.address(date)):
        return False
    return validators.exact and date == validators.modified_s


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def conditions_range(
    head: cython.pointer[cython.const[HeadC]],
    bytes: text_t,
    validators: cython.pointer[cython.const[ValidatorsC]],
    length: int64_t,
    ranges: cython.pointer[RangesC],
) -> cython.int:
    """What is to be sent of content of that length. RANGE_..."""
    if head.again[FIELD_RANGE] != 1 or head.method != METHOD_GET or not _range_allowed(head, bytes, validators):
        return RANGE_IGNORED
    i: cython.uint = head.first[FIELD_RANGE] - 1
    return ranges_parse(bytes + head.fields[i].value.start, head.fields[i].value.size, length, ranges)


def judge(fields: list, etag: bytes, modified_s: int, *, method: bytes = b"GET", exact: bool = True, length: int = 100):
    """Judge a request: 304, 412, or what it asks for of the content: None for all, else a list of first and last bytes."""
    made: Made = Made(method, b"/", b"", fields)
    validators: ValidatorsC
    ranges: RangesC
    validators.etag = etag
    validators.etag_size = len(etag)
    validators.modified_s = modified_s
    validators.exact = exact
    validators.now_s = modified_s
    verdict: cython.int = conditions_judge(cython.address(made.head), made.text, cython.address(validators))
    if verdict != CONDITION_MET:
        return _NAMES[verdict]
    found: cython.int = conditions_range(
        cython.address(made.head), made.text, cython.address(validators), length, cython.address(ranges)
    )
    if found == RANGE_IGNORED:
        return None
    return [(ranges.first[i], ranges.last[i]) for i in range(ranges.count)]
