"""The site from memory as a WSGI application: the least that one can do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILES = {f"/{path.name}": path.read_bytes() for path in Path(os.environ["BENCH_SITE"]).iterdir()}
KIND = "application/octet-stream"


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    content = FILES.get(environ["PATH_INFO"])
    status = "200 OK" if content is not None else "404 Not Found"
    content = content or b""
    start_response(status, [("Content-Type", KIND), ("Content-Length", str(len(content)))])
    return [content]
