"""The gate of a physical action that blocks: threads that feed it wait until there is room.

A thread that was let in has its place: what is on its way to the program counts as if it were pending already, so it never
finds the action full. The program's own thread is refused instead of waiting for itself, and whoever waits longer than the
loop's `block_timeout_ns` is refused, too. This file must not know actions or schedulers: it is told how many events are
pending.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.errors import Overflow


class Gate:
    """Places of one action."""

    def __init__(self, name: str, capacity: int, pending: Callable[[], int]) -> None:
        self.name = name
        self.capacity = capacity
        self.blocked = 0
        self.refused = 0
        self.timeout_ns = 0
        self._pending = pending
        self._promised = 0
        self._closed = False
        self._changed = threading.Condition()

    def _open(self) -> bool:
        return self._closed or self._pending() + self._promised < self.capacity

    def _refuse(self, why: str) -> Overflow:
        self.refused += 1
        return Overflow(
            f"{self.name} has {self.capacity:,} events pending, which is its capacity, and blocks; {why}",
            limit="PHYSICAL_ACTION_CAPACITY",
            capacity=self.capacity,
        )

    def check(self) -> None:
        """In the program's own thread: raise if there is no room."""
        with self._changed:
            if not self._open():
                raise self._refuse("the program's own thread cannot wait for itself, another one can")

    def enter(self) -> None:
        """In another thread: wait for a place, and keep it until `arrived` or `leave`."""
        with self._changed:
            if not self._open():
                self.blocked += 1
                if not self._changed.wait_for(self._open, self.timeout_ns / 1_000_000_000):
                    raise self._refuse("nothing was taken out in time; give it more capacity, or schedule less")
            self._promised += 1

    def arrived(self) -> None:
        """The place that was kept is given up: the event is pending now, or was dropped."""
        with self._changed:
            self._promised -= 1
            self._changed.notify()

    def room(self) -> None:
        """Something was taken out."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """The program has ended: nobody waits any more, and what comes is dropped where it arrives."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
