"""20 polite clients beside one flooder with half of the load, which is half again as much as can be answered.

The polite ask for three quarters of the capacity together, each from an address of its own; the flooder asks for as much
from a single address, once over a crowd of connections and once by pipelines. Sharing fairly, everybody polite is served.
"""

from __future__ import annotations

import sys

from common import Column, Figures, Script, Stage, main, served_share

POLITE, SHARE = 20, 0.75
FLOODER_SOURCE = "127.0.9.9"
DEPTH = 16
SHAPES: dict[str, dict[str, object]] = {
    "many connections": {"connections": 500},
    "pipelines": {"connections": 8, "pipeline": DEPTH},
}


def measure(stage: Stage) -> list[Figures]:
    return [beside(stage, shape) for shape in SHAPES]


def beside(stage: Stage, shape: str) -> Figures:
    """The polite beside a flooder of one shape."""
    rate = stage.capacity * SHARE
    flooder = stage.crowd(rate, sources=FLOODER_SOURCE, **SHAPES[shape])
    polite = stage.polite(rate, stage.seconds, POLITE).report()
    flood = flooder.report()
    return {
        "shape": shape,
        "served": served_share(polite),
        "good": served_share(polite, "good"),
        "p99_ms": polite["latency_ms"]["accepted"]["p99"],
        "refused": served_share(polite, "refused"),
        "flood_served": served_share(flood),
        "flood_refused": served_share(flood, "refused"),
    }


SCRIPT = Script(
    "flooder",
    "20 polite clients (0.75 of the capacity) beside one flooder (0.75 as well) from one address.",
    measure,
    (
        Column("shape", "the flooder uses"),
        Column("served", "polite answered, %", ">= 99", lambda value: value >= 99),
        Column("good", "polite answered within 100 ms, %"),
        Column("p99_ms", "p99 of the polite, ms"),
        Column("refused", "polite refused, %"),
        Column("flood_served", "flooder answered, %"),
        Column("flood_refused", "flooder refused, %"),
    ),
)

if __name__ == "__main__":
    sys.exit(main(SCRIPT))
