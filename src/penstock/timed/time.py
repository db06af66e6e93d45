"""Durations and tags: logical time as integers of nanoseconds.

A `Duration` is a subclass of `int`, not a `NewType`: a `NewType` is gone at run time, while `Timer(period=10)` must be
refused both by mypy (an `int` is no `Duration`) and by a running program. Sums, differences and multiples of durations
are durations again; anything else falls back to `int` and has to be converted on purpose. This file must not know what
is scheduled.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Self

from penstock.errors import UsageError
from penstock.limits import TIMER_DELAY_MAX_NS


class Duration(int):
    """A span of time in nanoseconds. Made by `ns`, `us`, `ms`, `sec`, `minutes`; never written as a bare number."""

    __slots__ = ()

    def __new__(cls, ns_count: int) -> Self:
        """Take a whole number of nanoseconds; fractions and unreasonable spans are mistakes of units."""
        if isinstance(ns_count, bool) or not isinstance(ns_count, int):
            raise UsageError(f"a duration of {ns_count!r} ns; give a whole number (use us(), ms(), sec() for units)")
        if abs(ns_count) > TIMER_DELAY_MAX_NS:
            raise UsageError(f"a duration of {ns_count:,} ns is more than ten years; check its unit")
        return super().__new__(cls, ns_count)

    def __add__(self, other: int) -> Duration:
        return Duration(int(self) + _duration("added to", other))

    def __sub__(self, other: int) -> Duration:
        return Duration(int(self) - _duration("subtracted from", other))

    def __mul__(self, factor: int) -> Duration:
        if isinstance(factor, Duration):
            raise TypeError("a duration times a duration is no duration")
        return Duration(int(self) * factor)

    __rmul__ = __mul__

    def __neg__(self) -> Duration:
        return Duration(-int(self))

    def __repr__(self) -> str:
        return format_ns(int(self))

    __str__ = __repr__


def _duration(how: str, value: object) -> int:
    if not isinstance(value, Duration):
        raise TypeError(f"{value!r} was {how} a duration; give a duration such as ms(10)")
    return int(value)


def ns(count: int) -> Duration:
    """`count` nanoseconds."""
    return Duration(count)


def us(count: int) -> Duration:
    """`count` microseconds."""
    return Duration(count * 1_000)


def ms(count: int) -> Duration:
    """`count` milliseconds."""
    return Duration(count * 1_000_000)


def sec(count: int) -> Duration:
    """`count` seconds."""
    return Duration(count * 1_000_000_000)


def minutes(count: int) -> Duration:
    """`count` minutes."""
    return Duration(count * 60_000_000_000)


def require_duration(what: str, value: Any, *, least: int = 0) -> int:
    """Return `value` as plain nanoseconds, or say that `what` needs a duration of at least `least`."""
    if not isinstance(value, Duration):
        raise UsageError(f"{what} is {value!r}; give a duration such as ms(10), not a bare {type(value).__name__}")
    if value < least:
        raise UsageError(f"{what} is {value}; give at least {format_ns(least)}")
    return int(value)


_UNITS: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))


def format_ns(count: int) -> str:
    """Write nanoseconds in the largest unit that leaves no fraction: `10 ms`, `1500 us`, `0 s`."""
    for size, unit in _UNITS:
        if count % size == 0:
            return f"{count // size} {unit}"
    return f"{count} ns"


class Tag(NamedTuple):
    """A point of logical time: nanoseconds since the start of the program, and the microstep within that instant."""

    time_ns: int
    microstep: int = 0

    def after(self, delay_ns: int) -> Tag:
        """The tag `delay_ns` later; a delay of 0 is the next microstep."""
        return Tag(self.time_ns + delay_ns, 0) if delay_ns > 0 else Tag(self.time_ns, self.microstep + 1)

    def __str__(self) -> str:
        return f"({format_ns(self.time_ns)}, {self.microstep})"


# The tag that no program reaches: what "for ever" means for stop tags and last known tags.
FOREVER: Final = Tag(2**62, 0)
