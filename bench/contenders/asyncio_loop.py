"""asyncio's selector loop, debug mode off."""

from __future__ import annotations

import asyncio
import platform

from contenders.eventloop import EventLoopContender


class CONTENDER(EventLoopContender):
    name = "asyncio"
    version = platform.python_version()

    def __init__(self) -> None:
        super().__init__(asyncio.SelectorEventLoop)
