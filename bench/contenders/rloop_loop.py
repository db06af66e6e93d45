"""rloop, debug mode off."""

from __future__ import annotations

import rloop

from contenders.eventloop import EventLoopContender


class CONTENDER(EventLoopContender):
    name = "rloop"
    version = rloop.__version__

    def __init__(self) -> None:
        super().__init__(rloop.new_event_loop)
