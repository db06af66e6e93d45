"""System events: handshakes, clocks and messages of a federation, which wait for physical time in a queue of their own.

A handler is called directly, with the tag it was queued for: no levels, no presence, no acquisition. The queue is bounded,
and what is left in it at the end is counted. All tags are on the scale of physical time, so when the clock is stepped, all
of them move. This file must not know what a handler does, or when its time has come.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from penstock.errors import Overflow
from penstock.limits import SYSTEM_EVENTS_MAX
from penstock.timed.time import FOREVER, Tag

Handler = Callable[[Tag], object]


class SystemQueue:
    """A heap by tag; equal tags keep the order in which they were queued."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Handler]] = []
        self._sequence = 0
        self._closed = False
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, tag: tuple[int, int], handler: Handler) -> bool:
        """Queue a handler; False if nothing is handled any more."""
        if self._closed:
            self.dropped += 1
            return False
        if len(self._heap) >= SYSTEM_EVENTS_MAX:
            self.dropped += 1
            raise Overflow(
                f"{SYSTEM_EVENTS_MAX:,} system events are pending; wait until some were handled",
                limit="SYSTEM_EVENTS_MAX",
                capacity=SYSTEM_EVENTS_MAX,
            )
        self._sequence += 1
        heapq.heappush(self._heap, (int(tag[0]), int(tag[1]), self._sequence, handler))
        return True

    def first(self) -> Tag:
        """The earliest tag, or `FOREVER`."""
        return Tag(*self._heap[0][:2]) if self._heap else FOREVER

    def pop(self) -> Handler:
        """Take the earliest handler out; the caller knows that there is one."""
        return heapq.heappop(self._heap)[3]

    def shift(self, step_ns: int) -> None:
        """Move every queued event, wherever it is queued. All move alike, so the heap stays one."""
        self._heap[:] = [(time_ns + step_ns, *rest) for time_ns, *rest in self._heap]  # type: ignore[misc]

    def close(self) -> None:
        """Take no more, and drop what is left."""
        self._closed = True
        self.dropped += len(self._heap)
        self._heap.clear()
