"""uvloop, debug mode off."""

from __future__ import annotations

import uvloop

from contenders.eventloop import EventLoopContender


class CONTENDER(EventLoopContender):
    name = "uvloop"
    version = uvloop.__version__

    def __init__(self) -> None:
        super().__init__(uvloop.new_event_loop)
