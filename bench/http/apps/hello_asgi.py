"""The site from memory as an ASGI application: the least that one can do."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Message = dict[str, Any]

FILES = {f"/{path.name}": path.read_bytes() for path in Path(os.environ["BENCH_SITE"]).iterdir()}


def _start(status: int, size: int) -> Message:
    headers = [(b"content-type", b"application/octet-stream"), (b"content-length", b"%d" % size)]
    return {"type": "http.response.start", "status": status, "headers": headers}


ANSWERS = {
    path: (_start(200, len(content)), {"type": "http.response.body", "body": content})
    for path, content in FILES.items()
}
NOT_FOUND = (_start(404, 0), {"type": "http.response.body", "body": b""})


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    start, body = ANSWERS.get(scope["path"], NOT_FOUND)
    await send(start)
    await send(body)
