"""A bounded lane with a budget and a Python handler: post, budget, call. Only penstock has such a thing.

Each turn posts exactly what the budget lets run, so nothing may be dropped and nothing may be left over; the lane's own
counters are asked afterwards whether that is so.
"""

from __future__ import annotations

from itertools import repeat

from contenders.base import Contender, ignore
from measures.common import cpu_of, drain
from rig.model import Amount, Entry, Figures, Goal, Measure, Row

BUDGET = 256
ENTRY = Entry("penstock")


def pushes(contender: Contender, _form: str, count: int) -> Figures:
    soon, stop, turns_left = contender.soon, contender.stop, count // BUDGET
    lane, post = contender.lane(ignore, BUDGET), contender.post_to_lane

    def turn() -> None:
        nonlocal turns_left
        drain(map(post, repeat(lane), repeat(None, BUDGET)))
        turns_left -= 1
        soon(turn if turns_left else stop)

    soon(turn)
    cpu = cpu_of(contender.run)
    posted = count // BUDGET * BUDGET
    contender.check_lane(lane, posted)
    return {"cpu_ns": cpu / posted}


CELLS = {"penstock": ENTRY}
MEASURE = Measure(
    name="lane",
    purpose="lane: post, budget, Python handler",
    entries=(ENTRY,),
    rows=(
        Row("lane: post + budget + Python handler", "ns", "cpu_ns", CELLS, Goal("<= 65 ns", at_most=65)),
        Row("lane: post + budget + Python handler", "instructions", "instructions", CELLS),
    ),
    amount=Amount(full=1_024_000, quick=256_000, counted=(2_560, 25_600)),
    work=pushes,
)
