"""Workers as their parent knows them: one post for each that is wanted, and who holds it.

This file must not know how workers are started or ended.
"""

from __future__ import annotations

import signal
from typing import Any, Final

from penstock import limits
from penstock.core.handle import Timer
from penstock.http.channel import Channel
from penstock.http.configuration import Configuration

STARTING: Final = "starting"
SERVING: Final = "serving"
LEAVING: Final = "leaving"
KILLED: Final = "killed"


class Child:
    """One worker process as its parent knows it."""

    def __init__(self, post: Post, pid: int, configuration: Configuration, born_ns: int) -> None:
        self.post = post
        self.pid = pid
        self.configuration = configuration
        self.born_ns = born_ns
        self.state = STARTING
        self.why = ""
        self.counted: dict[str, Any] = {}
        self.asked = False
        # It has said that it accepts no more.
        self.deaf = False
        self.status: int | None = None
        self.timer: Timer | None = None
        self.channel: Channel | None = None

    def __str__(self) -> str:
        return f"worker {self.post.number} (process {self.pid})"

    @property
    def end(self) -> str:
        """How it has ended, to be read after its name."""
        status = self.status or 0
        because = f": {self.why}" if self.why else ""
        if status < 0:
            return f"was ended by {signal.Signals(-status).name}{because}"
        return f"ended with status {status}{because}"


class Post:
    """One worker's place: who holds it, who is coming, who held it and is still answering."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.current: Child | None = None
        self.coming: Child | None = None
        self.former: list[Child] = []
        self.pause_ns = limits.HTTP_WORKER_PAUSE_NS
        self.restart: Timer | None = None
        self.life: Timer | None = None

    def children(self) -> list[Child]:
        """Everybody who lives."""
        return [child for child in (self.current, self.coming, *self.former) if child is not None]


def cancel(timer: Timer | None) -> None:
    """Cancel a timer if there is one."""
    if timer is not None:
        timer.cancel()
