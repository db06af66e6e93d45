"""Start a timer and cancel it, while 100,000 and then 1,000,000 others are outstanding: the life of a time-out.

The pairs run inside callbacks of the running loop, a thousand per turn, so that a loop which only marks a timer as
cancelled pays for sweeping it up. A short measurement leaves the million out: to start them takes longer than all else.
"""

from __future__ import annotations

from itertools import repeat

from contenders.base import Contender, noop
from measures.common import EVERY_LOOP, LOOP_CELLS, cpu_of, drain, far_delays
from rig.model import Amount, Figures, Goal, Measure, Row

PAIRS_PER_TURN = 1_000
FEW, MANY = 100_000, 1_000_000
SHORT = 100_000


def run_pairs(contender: Contender, count: int) -> int:
    """CPU nanoseconds of `count` pairs."""
    soon, stop, left = contender.soon, contender.stop, count
    delays = far_delays(PAIRS_PER_TURN, seed=2)

    def turn() -> None:
        nonlocal left
        contender.start_cancel(delays)
        left -= PAIRS_PER_TURN
        soon(turn if left > 0 else stop)

    soon(turn)
    return cpu_of(contender.run)


def pairs(contender: Contender, _form: str, count: int) -> Figures:
    figures: Figures = {}
    live = 0
    stages = [(FEW, "few_ns"), (MANY, "many_ns")]
    for outstanding, figure in stages if count >= SHORT else stages[:1]:
        drain(map(contender.later, far_delays(outstanding - live, seed=outstanding), repeat(noop)))
        live = outstanding
        run_pairs(contender, PAIRS_PER_TURN)
        figures[figure] = run_pairs(contender, count) / count
    return figures


MEASURE = Measure(
    name="timer_cancel",
    purpose="start and cancel a timer among 100,000 and 1,000,000 others",
    entries=EVERY_LOOP,
    rows=(
        Row("timer start + cancel, 100,000 live", "ns", "few_ns", LOOP_CELLS, Goal("<= 300 ns", at_most=300)),
        Row("timer start + cancel, 1,000,000 live", "ns", "many_ns", LOOP_CELLS),
        Row(
            "the same, 1,000,000 live / 100,000 live",
            "x",
            "many_ns",
            LOOP_CELLS,
            Goal("<= 1.5", at_most=1.5),
            against="few_ns",
            ratios=False,
        ),
    ),
    amount=Amount(full=200_000, quick=20_000),
    work=pairs,
    rounds_full=5,
    rounds_quick=1,
)
