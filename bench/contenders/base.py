"""What a measurement may ask of a loop. Each contender does it in the way that its own users would find fastest.

The hot calls (`soon`, `later`, `post`) are plain attributes bound to the loop's own methods: a wrapper here would be
measured as part of the loop. This file must not import any loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Callback = Callable[..., Any]

# A server of the benchmark ends by itself, whatever becomes of its parent.
SERVER_LIFETIME_S = 60
RECEIVE_BYTES = 65_536
LISTEN_BACKLOG = 1_024


def noop() -> None:
    """The least that a Python callback can do."""


def ignore(_item: object) -> None:
    """The least that a Python handler of items can do."""


class Contender:
    """One loop, fresh, not running."""

    name: str
    version: str

    # soon(callback, *args): run it in a later step of this loop.
    soon: Callback
    # later(seconds, callback): a one-shot timer; returns what `start_cancel` needs.
    later: Callback
    # post(callback, *args): as `soon`, from any thread.
    post: Callback
    # post_to_lane(lane, item), for a loop that has lanes.
    post_to_lane: Callback
    run: Callable[[], Any]
    stop: Callable[[], Any]
    close: Callable[[], Any]

    def start_cancel(self, delays: Iterable[float]) -> None:
        """Start one timer per delay and cancel it at once."""
        raise NotImplementedError

    def lane(self, handler: Callback, budget: int) -> Any:
        """A bounded lane that calls `handler` for up to `budget` items per turn."""
        raise NotImplementedError

    def check_lane(self, lane: Any, posted: int) -> None:
        """Raise AssertionError unless the lane has handled exactly `posted` items and dropped none."""
        raise NotImplementedError

    def count_ready(self, fds: Sequence[int], turns: int, *, timed: bool) -> list[int]:
        """See penstock's, which is the only one."""
        raise NotImplementedError

    def serve_echo(self, form: str, announce: Callable[[int], None]) -> None:
        """Echo on loopback until every accepted connection is closed; `announce` the port first."""
        raise NotImplementedError
