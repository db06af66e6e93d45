"""What a worker and its parent say to each other: one JSON object per line, on a pair of sockets.

Both sides are bounded: a line that is too long ends the channel, and what a stuck peer does not read is refused. This
file must not know what is said.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from typing import Any

from penstock import limits
from penstock.net import Stream, StreamOptions
from penstock.net.options import HasLoop

_HABITS = StreamOptions(
    cap_bytes=limits.HTTP_CHANNEL_MAX_BYTES,
    high_bytes=limits.HTTP_CHANNEL_MAX_BYTES,
    overflow="reject",
    nodelay=False,
)


class Channel:
    """One end. `on_message` is called with each object, `on_end` once when the other end is gone or spoke nonsense."""

    def __init__(
        self,
        reactor: HasLoop,
        end: socket.socket,
        on_message: Callable[[dict[str, Any]], object],
        on_end: Callable[[], object],
    ) -> None:
        self._on_message = on_message
        self._on_end: Callable[[], object] | None = on_end
        self._rest = b""
        self._stream = Stream(
            reactor, end, options=_HABITS, on_data=self._data, on_eof=self._eof, on_close=self._closed
        )

    def say(self, **message: object) -> None:
        """Send an object. What the other side does not read, or is too large, is not sent."""
        line = json.dumps(message, default=str).encode() + b"\n"
        if self._stream.state == "open" and len(line) <= limits.HTTP_CHANNEL_MAX_BYTES - self._stream.waiting_bytes:
            self._stream.write(line)

    def fileno(self) -> int:
        """The descriptor's number; -1 when it is closed."""
        return self._stream.fileno()

    @property
    def ended(self) -> bool:
        """Whether nothing can be heard any more."""
        return self._on_end is None

    def close(self) -> None:
        """Send what waits to be sent, then end."""
        self._stream.close()

    def abort(self) -> None:
        """End now."""
        self._stream.abort()

    def _data(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if not isinstance(message, dict):
                self._stream.abort()
                return
            self._on_message(message)
        if len(self._rest) > limits.HTTP_CHANNEL_MAX_BYTES:
            self._stream.abort()

    def _eof(self) -> None:
        self._stream.close()

    def _closed(self, _why: str) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()
