"""The site from memory by aiohttp's own server on uvloop: `python aiohttp_server.py PORT BACKLOG IDLE_S`."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop
from aiohttp import web


def answer(content: bytes) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=content, content_type="application/octet-stream")

    return handle


def main() -> None:
    port, backlog, idle_s = map(int, sys.argv[1:])
    app = web.Application()
    for path in Path(os.environ["BENCH_SITE"]).iterdir():
        app.router.add_get(f"/{path.name}", answer(path.read_bytes()))
    web.run_app(
        app,
        host="127.0.0.1",
        port=port,
        backlog=backlog,
        keepalive_timeout=idle_s,
        access_log=None,
        print=None,
        loop=uvloop.new_event_loop(),
    )


if __name__ == "__main__":
    main()
