"""Does the steady state allocate? Requests to the C allocator, and Python blocks that stay, over 100,000 operations.

The process preloads a counter (`native/count_allocations.c`). Python's own pools serve small objects such as handles
and are not counted by it; a queue or heap that grows is. The warm-up runs the same operations first.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from itertools import repeat

from contenders.base import Contender, ignore, noop
from measures.common import LOOPS, drain, far_delays
from rig.model import Amount, Entry, Figures, Goal, Measure, Row

PER_TURN = 1_000
COUNTER = "count_allocations"
FORMS = ("deferred", "timers", "lane")
ENTRIES = (*(Entry(name, form) for form in FORMS[:2] for name in LOOPS), Entry("penstock", "lane"))


def cells(form: str) -> dict[str, Entry]:
    return {entry.contender: entry for entry in ENTRIES if entry.form == form}


def steady(contender: Contender, form: str, count: int) -> Figures:
    counter = getattr(ctypes.PyDLL(None), COUNTER)
    counter.restype = ctypes.c_ulong
    delays = far_delays(PER_TURN, seed=1)
    lane = contender.lane(ignore, PER_TURN) if form == "lane" else None
    one_turn = {
        "deferred": lambda: drain(map(contender.soon, repeat(noop, PER_TURN))),
        "timers": lambda: contender.start_cancel(delays),
        "lane": lambda: drain(map(contender.post_to_lane, repeat(lane), repeat(None, PER_TURN))),
    }[form]
    run_turns(contender, one_turn, count)
    gc.collect()
    gc.disable()
    blocks, requests = sys.getallocatedblocks(), counter()
    run_turns(contender, one_turn, count)
    requests = counter() - requests
    gc.collect()
    return {"requests": requests, "blocks": max(0, sys.getallocatedblocks() - blocks)}


def run_turns(contender: Contender, one_turn: object, count: int) -> None:
    soon, left = contender.soon, count

    def turn() -> None:
        nonlocal left
        one_turn()  # type: ignore[operator]
        left -= PER_TURN
        soon(turn if left > 0 else contender.stop)

    soon(turn)
    contender.run()


NONE = Goal("< 100: none per operation", at_most=99)
MEASURE = Measure(
    name="allocations",
    purpose="C allocations in the steady state",
    entries=ENTRIES,
    rows=(
        Row("C allocations per 100,000 deferred", "requests", "requests", cells("deferred"), NONE, ratios=False),
        Row("C allocations per 100,000 timers", "requests", "requests", cells("timers"), NONE, ratios=False),
        Row("C allocations per 100,000 lane posts", "requests", "requests", cells("lane"), NONE, ratios=False),
        Row("Python blocks left by 100,000 cancelled timers", "blocks", "blocks", cells("timers"), NONE, ratios=False),
        Row("Python blocks left by 100,000 lane posts", "blocks", "blocks", cells("lane"), NONE, ratios=False),
    ),
    amount=Amount(full=100_000, quick=100_000),
    work=steady,
    preload=COUNTER,
    rounds_full=1,
    rounds_quick=1,
)
