"""What a poller must report of a connected local socket: the oracle of the tests of pollers and of the whole reactor.

A channel is the near end of a pair; its far end is the world outside. A watch is what a poller remembers of it. The
rules of edges are Linux's: whoever is woken for something he asked for is reported once, with all that is true then.
This file must not know pollers or loops.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.poller.events import HANGUP, READABLE, WRITABLE


@dataclass
class WatchModel:
    """An entry of a poller."""

    interest: int
    edge: bool
    token: object
    # An edge has been seen and not reported.
    armed: bool = False


class ChannelModel:
    """The near end of a connection."""

    def __init__(self) -> None:
        self.unread = 0
        self.full = self.hung_up = False
        self.watch: WatchModel | None = None

    @property
    def state(self) -> int:
        events = 0 if self.full else WRITABLE
        if self.unread or self.hung_up:
            events |= READABLE
        return events | HANGUP if self.hung_up else events

    @property
    def reported(self) -> int:
        """What a wait would report now."""
        watch = self.watch
        if watch is None or (watch.edge and not watch.armed):
            return 0
        return self.state & (watch.interest | HANGUP)

    def set_watch(self, interest: int, edge: bool, token: object) -> None:
        """Add, or change, which looks anew."""
        armed = self.watch is not None and self.watch.armed
        self.watch = WatchModel(interest, edge, token, armed or bool(self.state & (interest | HANGUP)))

    def was_reported(self) -> None:
        if self.watch:
            self.watch.armed = False

    def _wake(self, events: int) -> None:
        if self.watch and events & (self.watch.interest | HANGUP):
            self.watch.armed = True

    def arrive(self, size: int) -> None:
        self.unread += size
        self._wake(READABLE)

    def read(self, size: int) -> int:
        size = min(size, self.unread)
        self.unread -= size
        return size

    def fill(self) -> None:
        self.full = True

    def drained(self) -> None:
        """The other end has read everything that it had not read."""
        if self.full:
            self.full = False
            self._wake(WRITABLE)

    def hang_up(self) -> None:
        """The other end reads everything and closes."""
        self.drained()
        self.hung_up = True
        self._wake(READABLE | WRITABLE | HANGUP)
