"""The words that pollers and loops share: event bits, and the shape of a poller that is written in Python.

A poller knows numbers, interests and tokens. It must not know what a loop or a callback is: a token is given with a
descriptor when it is added, and comes back with its events.
"""

from __future__ import annotations

from typing import Final, Protocol

# A read will not block: there is data, or the end of the file.
READABLE: Final = 1
# A write will not block.
WRITABLE: Final = 2
# The descriptor has an error pending. Reported whether asked for or not.
ERROR: Final = 4
# The other side is gone for good. Reported whether asked for or not.
HANGUP: Final = 8
# Out-of-band data waits.
PRIORITY: Final = 16


class PollerLike(Protocol):
    """What a poller in Python must offer. All calls raise `OSError` with the errno that a kernel would give.

    A poller that is `simulated` never blocks: while nothing is ready, `wait` moves the (manual) clock to the next thing
    that will happen, by at most `timeout_ns`.
    """

    name: str
    supports_edge: bool
    simulated: bool

    def add(self, fd: int, interest: int, edge: bool, token: int) -> None: ...
    def modify(self, fd: int, interest: int, edge: bool, token: int) -> None: ...
    def remove(self, fd: int) -> None: ...
    def wait(self, capacity: int, timeout_ns: int) -> list[tuple[int, int]]:
        """Return at most `capacity` pairs of (token, events). A negative timeout waits for ever."""
        ...

    def unread(self, fd: int) -> int:
        """Bytes that a read would give now, or 0 where that cannot be known."""
        ...

    def reset(self) -> None:
        """Forget everything that was added."""
        ...

    def close(self) -> None: ...
