"""How a stream behaves: one frozen record of its limits, which a listener gives to every stream that it accepts.

Every field that is a limit has its default in `penstock.limits`. This file must not know sockets.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

from penstock import limits
from penstock.core.loop import Loop
from penstock.errors import UsageError
from penstock.limits import NS_PER_S, require_whole

Mode = Literal["lt", "et"]
Overflow = Literal["close", "reject", "drop-newest"]

OVERFLOWS: dict[str, int] = {"close": 0, "reject": 1, "drop-newest": 2}


def nanoseconds(name: str, seconds: object, most_ns: int = limits.TIMER_DELAY_MAX_NS) -> int:
    """Return seconds as nanoseconds, rounded up so that nothing is early."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds * NS_PER_S <= most_ns:
        raise UsageError(f"{name} is {seconds!r}; give seconds from 0 to {most_ns // NS_PER_S:,}")
    return seconds * NS_PER_S if isinstance(seconds, int) else math.ceil(seconds * NS_PER_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """The limits and habits of a stream.

    `mode` is "lt" or "et" (level- or edge-triggered); `overflow` says what a full write buffer does; `idle` and
    `deadline` are seconds without a byte, and in all, after which the stream ends; `keepalive` is the seconds of
    silence after which the system asks whether the peer is still there.
    """

    mode: Mode = "lt"
    high_bytes: int = limits.WRITE_HIGH_BYTES
    low_bytes: int = limits.WRITE_LOW_BYTES
    cap_bytes: int = limits.WRITE_CAP_BYTES
    overflow: Overflow = "close"
    share_bytes: int = limits.READ_SHARE_BYTES
    share_operations: int = limits.READ_SHARE_OPERATIONS
    nodelay: bool = True
    keepalive: int | None = None
    keepalive_probes: int = 3
    idle: float | None = None
    deadline: float | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("lt", "et"):
            raise UsageError(f'mode is {self.mode!r}; give "lt" or "et"')
        if self.overflow not in OVERFLOWS:
            raise UsageError(f'overflow is {self.overflow!r}; give "close", "reject" or "drop-newest"')
        require_whole("cap_bytes", self.cap_bytes, 1, limits.WRITE_CAP_MAX_BYTES)
        require_whole("high_bytes", self.high_bytes, 0, limits.WRITE_CAP_MAX_BYTES)
        require_whole("low_bytes", self.low_bytes, 0, limits.WRITE_CAP_MAX_BYTES)
        require_whole("share_bytes", self.share_bytes, 1, limits.READ_POOL_BYTES)
        require_whole("share_operations", self.share_operations, 1, 1 << 20)
        require_whole("keepalive_probes", self.keepalive_probes, 1, 127)
        if self.keepalive is not None:
            require_whole("keepalive", self.keepalive, 1, 32_767)
        if self.low_bytes > self.high_bytes:
            raise UsageError(f"low_bytes is {self.low_bytes:,}, above high_bytes, {self.high_bytes:,}; give less")
        for name in ("idle", "deadline"):
            value = getattr(self, name)
            if value is not None and nanoseconds(name, value) == 0:
                raise UsageError(f"{name} is {value!r}; give seconds above 0, or None for no such deadline")

    @property
    def idle_ns(self) -> int:
        """The idle deadline; 0 if there is none."""
        return 0 if self.idle is None else nanoseconds("idle", self.idle)

    @property
    def deadline_ns(self) -> int:
        """The time that a stream has in all; 0 if that has no limit."""
        return 0 if self.deadline is None else nanoseconds("deadline", self.deadline)


DEFAULT = StreamOptions()


class HasLoop(Protocol):
    """What streams need of a reactor."""

    @property
    def loop(self) -> Loop:
        """The loop that everything is registered with."""


class HasFileno(Protocol):
    """What owns a descriptor."""

    def fileno(self) -> int:
        """Return its number."""
