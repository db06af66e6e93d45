"""uvloop, debug mode off."""

from __future__ import annotations

from importlib.metadata import version

import uvloop

from contenders.eventloop import EventLoopContender


class CONTENDER(EventLoopContender):
    name = "uvloop"
    version = version("uvloop")

    def __init__(self) -> None:
        super().__init__(uvloop.new_event_loop)
