"""An application of known service time, for WSGI: `/` burns CPU, `/sleep` waits, `/big` is 1 MB, `/count` tells its work.

The time it burns is the CPU time of its own thread, so the service time is the same however many threads there are.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from typing import Any

BURN_NS = int(os.environ.get("BENCH_BURN_US", "2000")) * 1_000
SLEEP_S = int(os.environ.get("BENCH_SLEEP_US", "20000")) / 1e6
BIG = bytes(1_000_000)
DONE = b"done\n"
PIECE = 65_536

# Counting by next() is one step for all threads; asking for the count takes one too, so each question is noted.
_steps = itertools.count()
_questions = itertools.count()


def answer(path: str) -> bytes:
    """Do the work that a path stands for; return the content."""
    if path == "/big":
        return BIG
    if path == "/count":
        return b"%d" % (next(_steps) - next(_questions))
    next(_steps)
    if path == "/sleep":
        time.sleep(SLEEP_S)
    elif path == "/":
        end_ns = time.thread_time_ns() + BURN_NS
        while time.thread_time_ns() < end_ns:
            pass
    return DONE


def app(environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
    if environ["REQUEST_METHOD"] == "POST":
        while environ["wsgi.input"].read(PIECE):
            pass
    content = answer(environ["PATH_INFO"])
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(content)))])
    return [content]
