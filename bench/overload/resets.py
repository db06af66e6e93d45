"""Clients that reset their connection before the answer: work for nobody is what makes an overload last.

Twice the capacity is asked for by clients that reset after 5 ms, beside polite clients who ask for a quarter of it. The
application counts what it works on; what was neither answered to the polite nor to anybody else was for nobody.
"""

from __future__ import annotations

import sys

from common import Column, Figures, Script, Stage, main, recovery_s, served_share

FACTOR, POLITE_SHARE, RESET_AFTER_MS = 2, 0.25, 5.0
AFTER_S = 6.0


def measure(stage: Stage) -> Figures:
    before = stage.work_done()
    with stage.memory_growth() as growth:
        crowd = stage.crowd(stage.capacity * FACTOR, reset_after=RESET_AFTER_MS)
        probe = stage.probe(stage.seconds + AFTER_S)
        polite = stage.polite(stage.capacity * POLITE_SHARE, stage.seconds).report()
        report, probed = crowd.report(), probe.report()
    answered = report["answered"] + polite["answered"] + probed["answered"]
    worked = stage.work_done() - before
    return {
        "served": served_share(polite),
        "good": served_share(polite, "good"),
        "p99_ms": polite["latency_ms"]["accepted"]["p99"],
        "abandoned": report["abandoned"],
        "wasted": 100 * max(0, worked - answered) / max(1, worked),
        "recovery_s": recovery_s(probed["samples"], report["began_s"] + stage.seconds),
        "memory_mb": growth[0],
    }


SCRIPT = Script(
    "resets",
    "Twice the capacity from clients that reset 5 ms after asking, beside polite clients (0.25 of the capacity).",
    measure,
    (
        Column("served", "polite answered, %", ">= 99", lambda value: value >= 99),
        Column("good", "polite answered within 100 ms, %"),
        Column("p99_ms", "p99 of the polite, ms"),
        Column("abandoned", "requests reset"),
        Column("wasted", "work for nobody, % of all work"),
        Column("recovery_s", "new clients served again after, s", "<= 0.3", lambda value: value <= 0.3),
        Column("memory_mb", "memory growth, MiB", "<= 16", lambda value: value <= 16),
    ),
)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
