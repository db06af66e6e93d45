# cython: language_level=3
"""Dates as HTTP writes them (RFC 9110, 5.6.7): one form to write, three to read.

    Sun, 06 Nov 1994 08:49:37 GMT       what is sent
    Sunday, 06-Nov-94 08:49:37 GMT      RFC 850; a year of two digits is not more than 50 years ahead
    Sun Nov  6 08:49:37 1994            asctime

Always UTC, the proleptic Gregorian calendar, no locale. This file must not know what a date is for.
"""

import time

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.string import memcmp, memcpy, strlen
from cython.cimports.penstock.http.files_system import text_t

WEEKDAYS = b"SunMonTueWedThuFriSat"
MONTHS = b"JanFebMarAprMayJunJulAugSepOctNovDec"
WEEKDAYS_LONG[:] = [b"Sunday", b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday"]

DAY_S = cython.declare(int64_t, 86_400)
FIRST_S = cython.declare(int64_t, -62_167_219_200)  # 0000-01-01
LAST_S = cython.declare(int64_t, 253_402_300_799)  # 9999-12-31, its last second
# The calendar repeats itself after 400 years; ten of these periods are added so that no division sees a negative number.
PERIOD_DAYS = cython.declare(int64_t, 146_097)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.cdivision(True)
def _days(year: int64_t, month: int64_t, day: int64_t) -> int64_t:
    """Days from 1970-01-01 to a date of a year from 1 on. A year is counted from March, so that its leap day is its last."""
    if month <= 2:
        year -= 1
        month += 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day - 1 - 719_468


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.cdivision(True)
def _two(out: cython.p_char, number: int64_t) -> cython.void:
    out[0] = cython.cast(cython.char, 48 + number // 10 % 10)
    out[1] = cython.cast(cython.char, 48 + number % 10)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.cdivision(True)
def date_format(seconds: int64_t, out: cython.p_char) -> cython.void:
    """Write the 29 bytes of a date. Years have four digits: what is outside of 0000 to 9999 becomes the nearest date."""
    seconds = max(FIRST_S, min(seconds, LAST_S)) + 10 * PERIOD_DAYS * DAY_S
    # Counted from a first of March.
    days: int64_t = seconds // DAY_S + 719_468
    rest: int64_t = seconds % DAY_S
    era: int64_t = days // PERIOD_DAYS
    of_era: int64_t = days % PERIOD_DAYS
    of_cycle: int64_t = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year: int64_t = of_era - (365 * of_cycle + of_cycle // 4 - of_cycle // 100)
    shifted: int64_t = (5 * of_year + 2) // 153
    day: int64_t = of_year - (153 * shifted + 2) // 5 + 1
    month: int64_t = shifted + 3 if shifted < 10 else shifted - 9
    year: int64_t = of_cycle + 400 * (era - 10) + (1 if month <= 2 else 0)
    memcpy(out, b"Sun, 00 Jan 0000 00:00:00 GMT", 29)
    memcpy(out, WEEKDAYS + (days + 3) % 7 * 3, 3)
    _two(out + 5, day)
    memcpy(out + 8, MONTHS + (month - 1) * 3, 3)
    _two(out + 12, year // 100)
    _two(out + 14, year % 100)
    _two(out + 17, rest // 3_600)
    _two(out + 20, rest // 60 % 60)
    _two(out + 23, rest % 60)


# ---- reading ---------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _number(text: text_t, digits: cython.int) -> int64_t:
    """A number of exactly that many digits; a negative one if it is none."""
    value: int64_t = 0
    i: cython.int
    for i in range(digits):
        if not 48 <= text[i] <= 57:
            return -1
        value = value * 10 + text[i] - 48
    return value


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _one_of(text: text_t, names: text_t, count: cython.int) -> cython.int:
    """Which of the names of three letters the text begins with; -1: none."""
    i: cython.int
    for i in range(count):
        if memcmp(text, names + 3 * i, 3) == 0:
            return i
    return -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.cdivision(True)
def _moment(
    year: int64_t, month: int64_t, day: int64_t, clock: text_t, seconds: cython.pointer[int64_t]
) -> cython.bint:
    """Put a date and the text of a time (hh:mm:ss) together; false if there is no such moment."""
    hour: int64_t = _number(clock, 2)
    minute: int64_t = _number(clock + 3, 2)
    second: int64_t = _number(clock + 6, 2)
    leap: cython.bint = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest: int64_t = 31 - (month == 4 or month == 6 or month == 9 or month == 11)
    if month == 2:
        longest = 28 + leap
    if year < 1 or not 1 <= month <= 12 or not 1 <= day <= longest or clock[2] != b":" or clock[5] != b":":
        return False
    if not 0 <= hour <= 23 or not 0 <= minute <= 59 or not 0 <= second <= 60:
        return False
    # A leap second is the second before it again: none of our clocks has it.
    second = 59 if second == 60 else second
    seconds[0] = _days(year, month, day) * DAY_S + hour * 3_600 + minute * 60 + second
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fixed(text: text_t, seconds: cython.pointer[int64_t]) -> cython.bint:
    """Sun, 06 Nov 1994 08:49:37 GMT"""
    if memcmp(text + 3, b", ", 2) != 0 or text[7] != b" " or text[11] != b" " or memcmp(text + 25, b" GMT", 4) != 0:
        return False
    if _one_of(text, WEEKDAYS, 7) < 0 or text[16] != b" ":
        return False
    return _moment(_number(text + 12, 4), _one_of(text + 8, MONTHS, 12) + 1, _number(text + 5, 2), text + 17, seconds)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _asctime(text: text_t, seconds: cython.pointer[int64_t]) -> cython.bint:
    """Sun Nov  6 08:49:37 1994"""
    day: int64_t = _number(text + 9, 1) if text[8] == b" " else _number(text + 8, 2)
    if text[3] != b" " or text[7] != b" " or text[10] != b" " or text[19] != b" " or _one_of(text, WEEKDAYS, 7) < 0:
        return False
    return _moment(_number(text + 20, 4), _one_of(text + 4, MONTHS, 12) + 1, day, text + 11, seconds)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
@cython.cdivision(True)
def _rfc850(text: text_t, now_s: int64_t, seconds: cython.pointer[int64_t]) -> cython.bint:
    """06-Nov-94 08:49:37 GMT, which is what follows the name of the day"""
    if text[2] != b"-" or text[6] != b"-" or text[9] != b" " or memcmp(text + 18, b" GMT", 4) != 0:
        return False
    short: int64_t = _number(text + 7, 2)
    if short < 0:
        return False
    # The present year as the calendar has it, near enough: an hour around New Year decides nothing.
    present: int64_t = 1970 + now_s // 31_556_952
    year: int64_t = present - present % 100 + short
    if year > present + 50:
        year -= 100
    elif year <= present - 50:
        year += 100
    return _moment(year, _one_of(text + 3, MONTHS, 12) + 1, _number(text, 2), text + 10, seconds)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def date_parse(text: text_t, size: cython.uint, now_s: int64_t, seconds: cython.pointer[int64_t]) -> cython.bint:
    """Read a date in one of the three forms."""
    i: cython.int
    if size == 29 and text[3] == b",":
        return _fixed(text, seconds)
    if size == 24:
        return _asctime(text, seconds)
    for i in range(7):
        name: cython.uint = strlen(WEEKDAYS_LONG[i])
        if size == name + 24 and memcmp(text, WEEKDAYS_LONG[i], name) == 0 and memcmp(text + name, b", ", 2) == 0:
            return _rfc850(text + name + 2, now_s, seconds)
    return False


def format_date(seconds: int):
    """Return a date as HTTP writes it."""
    out: cython.char[30]
    date_format(seconds, out)
    return out[:29]


def parse_date(text: bytes, now_s: int | None = None):
    """Return the seconds since 1970 of a date; None if it is none. `now_s` is what counts as the present."""
    seconds: int64_t = 0
    now: int64_t = int(time.time()) if now_s is None else now_s
    return seconds if date_parse(text, len(text), now, cython.address(seconds)) else None
