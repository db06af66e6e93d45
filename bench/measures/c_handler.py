"""How long after its event is taken from the batch a C-level handler is entered. Only penstock has such handlers.

A thousand descriptors are ready in every turn, and one compiled handler reads the clock each time it is called. Between
two entries the kernel leaves the handler, accounts for it, takes the next event and enters again: an upper bound, which
also holds one reading of the clock, about 20 ns by itself.
"""

from __future__ import annotations

import os
import statistics

from contenders.base import Contender
from measures.common import cpu_ns
from rig.model import Amount, Entry, Figures, Goal, Measure, Row

READY = 1_000
TIMED, PLAIN = Entry("penstock", "timed"), Entry("penstock", "plain")


def entries(contender: Contender, form: str, turns: int) -> Figures:
    """The median of the turns: a turn in which somebody else had the core says nothing."""
    fds = [os.eventfd(1, os.EFD_NONBLOCK) for _ in range(READY)]
    before = cpu_ns()
    spans = contender.count_ready(fds, turns, timed=form == "timed")
    return {"entry_ns": statistics.median(spans) / (READY - 1), "cpu_ns": (cpu_ns() - before) / turns / READY}


MEASURE = Measure(
    name="c_handler",
    purpose="C-level handlers, 1,000 ready per turn",
    entries=(TIMED, PLAIN),
    rows=(
        Row(
            "C-level handler: from one entry to the next",
            "ns",
            "entry_ns",
            {"penstock": TIMED},
            Goal("<= 50 ns", at_most=50),
        ),
        Row("C-level handler, per event", "instructions", "instructions", {"penstock": PLAIN}, scale=READY),
    ),
    amount=Amount(full=2_000, quick=300, counted=(10, 60)),
    work=entries,
)
