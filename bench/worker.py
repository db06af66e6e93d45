"""The process in which one contender is measured once. Started by `run.py`; not meant to be called by hand.

    worker.py probe CONTENDER                       say the version that is installed
    worker.py work MEASURE CONTENDER FORM COUNT     measure, print the figures
    worker.py serve CONTENDER FORM                  echo on loopback until all connections are closed

Prints one JSON object per line. It is already pinned to its core by whoever started it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable

import contenders
import measures
from contenders.base import SERVER_LIFETIME_S

# More than any loop receives at once.
SETTLING_BYTES = 4_194_304


def settle_allocator() -> None:
    """Free one large block, as every program has done that ran for a while.

    glibc maps each large block anew until it has seen one freed. asyncio receives into 256 KiB: in a process that never
    freed so much, each message costs it three more system calls, four times the time, and says nothing about its loop.
    """
    bytes(SETTLING_BYTES)


def say(answer: object) -> None:
    print(json.dumps(answer), flush=True)


def probe(contender: str) -> None:
    say(contenders.load(contender).version)


def work(measure: str, contender: str, form: str, count: str) -> None:
    job = measures.load(measure).work
    if job is None:
        raise SystemExit(f"{measure} has no part that runs in a worker")
    say(job(contenders.load(contender), form, int(count)))
    # Taking down a million timers can take longer than measuring them, and nobody asked for it.
    sys.stdout.flush()
    os._exit(0)


def serve(contender: str, form: str) -> None:
    signal.alarm(SERVER_LIFETIME_S)
    settle_allocator()
    contenders.load(contender).serve_echo(form, lambda port: print(f"port {port}", flush=True))


if __name__ == "__main__":
    calls: dict[str, Callable[..., None]] = {"probe": probe, "work": work, "serve": serve}
    calls[sys.argv[1]](*sys.argv[2:])
