"""Polite clients beside those that take their time: heads and bodies byte by byte, and 1 MB that nobody fetches.

The slow ones hold 500 connections of each kind for 15 s, longer than a server should wait for a head; the polite ask for
a fifth of the capacity. `hostile.py` is the slow ones.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from common import Column, Figures, Script, Stage, main, served_share, start, stop

HOSTILE = Path(__file__).resolve().parent / "hostile.py"
COUNT, POLITE_SHARE = 500, 0.2
KINDS = ("heads", "bodies", "readers")
# The deadline for a head is 10 s by default.
SECONDS_MIN = 15.0
END_TIMEOUT_S = 60


def measure(stage: Stage) -> list[Figures]:
    # A short measurement stays short; a full one outlasts the deadlines that it is about.
    seconds = max(stage.seconds, SECONDS_MIN) if stage.seconds >= 10 else stage.seconds
    return [beside(stage, kind, seconds) for kind in KINDS]


def beside(stage: Stage, kind: str, seconds: float) -> Figures:
    """The polite beside slow clients of one kind."""
    command = [sys.executable, str(HOSTILE), kind, str(stage.port), str(COUNT), str(seconds + 1)]
    with stage.memory_growth() as growth:
        slow = start(command)
        try:
            assert slow.stdout is not None
            slow.stdout.readline()
            polite = stage.polite(stage.capacity * POLITE_SHARE, seconds).report()
            out = slow.communicate(timeout=END_TIMEOUT_S)[0]
        finally:
            stop(slow)
    ends: dict[str, int] = json.loads(out.splitlines()[-1])
    return {
        "kind": kind,
        "served": served_share(polite),
        "p50_ms": polite["latency_ms"]["accepted"]["p50"],
        "p99_ms": polite["latency_ms"]["accepted"]["p99"],
        "memory_mb": growth[0],
        "ends": ", ".join(f"{how} {count}" for how, count in sorted(ends.items(), key=lambda end: -end[1])),
    }


SCRIPT = Script(
    "slow_clients",
    "Polite clients (0.2 of the capacity) beside 500 slow ones of one kind.",
    measure,
    (
        Column("kind", "the slow ones"),
        Column("served", "polite answered, %", ">= 99", lambda value: value >= 99),
        Column("p50_ms", "p50 of the polite, ms"),
        Column("p99_ms", "p99 of the polite, ms", "<= 25", lambda value: value <= 25),
        Column("memory_mb", "memory growth, MiB", "<= 16", lambda value: value <= 16),
        Column("ends", "what became of the slow ones"),
    ),
)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
