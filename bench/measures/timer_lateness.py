"""How late timers are on a loop that has nothing else to do, and how many fire too early.

One timer at a time, started in the callback of the one before. The clock is read before the call that starts the timer:
a loop that counts from an older reading of its own fires early by this measure, as its user sees it. The delays are
not whole milliseconds. A nanosecond is granted for the rounding of seconds to a float.
"""

from __future__ import annotations

import random
import time

from contenders.base import Contender
from measures.common import EVERY_LOOP, LOOP_CELLS
from rig.model import Amount, Figures, Goal, Measure, Row

DELAY_NS_MIN, DELAY_NS_MAX = 300_000, 4_000_000
ROUNDING_NS = 1


def lateness(contender: Contender, _form: str, count: int) -> Figures:
    later, clock_ns = contender.later, time.monotonic_ns
    source = random.Random(3)
    late_ns: list[int] = []
    due_ns = 0

    def arm() -> None:
        nonlocal due_ns
        delay_ns = source.randrange(DELAY_NS_MIN, DELAY_NS_MAX, 1_000)
        due_ns = clock_ns() + delay_ns
        later(delay_ns / 1e9, fired)

    def fired() -> None:
        late_ns.append(clock_ns() - due_ns)
        if len(late_ns) < count:
            arm()
        else:
            contender.stop()

    contender.soon(arm)
    contender.run()
    late_ns.sort()
    return {
        "p50_ns": late_ns[count // 2],
        "p99_ns": late_ns[count * 99 // 100],
        "early": 100 * sum(late < -ROUNDING_NS for late in late_ns) / count,
        "earliest_ns": max(0, -late_ns[0]),
    }


MEASURE = Measure(
    name="timer_lateness",
    purpose="lateness and earliness of timers on an idle loop",
    entries=EVERY_LOOP,
    rows=(
        Row("timer lateness, p50", "us", "p50_ns", LOOP_CELLS, scale=1_000, ratios=False),
        Row(
            "timer lateness, p99",
            "us",
            "p99_ns",
            LOOP_CELLS,
            Goal("< 1 ms", at_most=999.999),
            scale=1_000,
            ratios=False,
        ),
        Row(
            "timers that fire early, worst round",
            "%",
            "early",
            LOOP_CELLS,
            Goal("none", at_most=0),
            ratios=False,
            worst=True,
        ),
        Row("the earliest is early by", "us", "earliest_ns", LOOP_CELLS, scale=1_000, ratios=False, worst=True),
    ),
    amount=Amount(full=300, quick=100),
    work=lateness,
    rounds_full=5,
)
