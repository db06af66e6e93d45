"""Resident memory per live timer, when nobody keeps the handle and when everybody does (it is needed to cancel)."""

from __future__ import annotations

import gc
import os
from itertools import repeat

from contenders.base import Contender, noop
from measures.common import LOOPS, drain, far_delays
from rig.model import Amount, Entry, Figures, Goal, Measure, Row

WARM_TIMERS = 1_000
TIMERS_FEW = 200_000
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
ENTRIES = tuple(Entry(name, form) for form in ("dropped", "kept") for name in LOOPS)


def cells(form: str) -> dict[str, Entry]:
    return {name: Entry(name, form) for name in LOOPS}


def resident_bytes() -> int:
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * PAGE_BYTES


def grow(contender: Contender, form: str, count: int) -> Figures:
    """Bytes per timer at 200,000 and at `count` timers; the list that keeps the handles exists before."""
    later = contender.later
    delays = far_delays(count, seed=1)
    kept: list[object] = [None] * count
    drain(map(later, far_delays(WARM_TIMERS, seed=2), repeat(noop)))
    contender.soon(contender.stop)
    contender.run()
    before = resident_bytes()
    figures: Figures = {}
    start = 0
    for end in (min(TIMERS_FEW, count), count):
        if form == "kept":
            kept[start:end] = map(later, delays[start:end], repeat(noop))
        else:
            drain(map(later, delays[start:end], repeat(noop)))
        start = end
        figures["few_bytes" if end == TIMERS_FEW else "many_bytes"] = (resident_bytes() - before) / end
    return figures


MEASURE = Measure(
    name="timer_memory",
    purpose="resident memory per live timer",
    entries=ENTRIES,
    rows=(
        Row("memory per timer, 200,000 live", "B", "few_bytes", cells("dropped"), Goal("<= 120 B", at_most=120)),
        Row("memory per timer, 1,000,000 live", "B", "many_bytes", cells("dropped"), Goal("<= 120 B", at_most=120)),
        Row("with every handle kept, 1,000,000 live", "B", "many_bytes", cells("kept"), Goal("<= 120 B", at_most=120)),
    ),
    amount=Amount(full=1_000_000, quick=TIMERS_FEW),
    work=grow,
    rounds_full=1,
    rounds_quick=1,
)
