"""What can be wrong with what a peer of HTTP has sent. This file must not know parsers or connections."""

from __future__ import annotations

from penstock.errors import PenstockError


class BadRequest(PenstockError):
    """A request that must be refused, after which the connection cannot be used any more.

    `status` is what to answer, `reason` a sentence for the client. `events` are those of the bytes that were fed together
    with the bad ones and lay before them: answer these first.
    """

    def __init__(self, status: int, reason: str, events: tuple[object, ...] = ()) -> None:
        super().__init__(f"{status}: {reason}")
        self.status = status
        self.reason = reason
        self.events = events
