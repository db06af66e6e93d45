"""An application of known service time, for ASGI: `/` burns CPU, `/sleep` waits, `/big` is 1 MB, `/count` tells its work.

The time it burns is the CPU time of its own thread, so the service time is the same however busy the machine is.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

BURN_NS = int(os.environ.get("BENCH_BURN_US", "2000")) * 1_000
SLEEP_S = int(os.environ.get("BENCH_SLEEP_US", "20000")) / 1e6
BIG = bytes(1_000_000)
DONE = b"done\n"

done = 0


async def answer(path: str) -> bytes:
    global done  # noqa: PLW0603
    if path == "/big":
        return BIG
    if path == "/count":
        return b"%d" % done
    done += 1
    if path == "/sleep":
        await asyncio.sleep(SLEEP_S)
    elif path == "/":
        end_ns = time.thread_time_ns() + BURN_NS
        while time.thread_time_ns() < end_ns:
            pass
    return DONE


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    if scope["method"] == "POST":
        while (await receive()).get("more_body"):
            pass
    content = await answer(scope["path"])
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(content))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})
