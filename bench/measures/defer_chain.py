"""One deferred callback per turn: each callback defers the next, so a whole turn of the loop is paid for each."""

from __future__ import annotations

from contenders.base import Contender
from measures.common import EVERY_LOOP, LOOP_CELLS, cpu_of
from rig.model import Amount, Figures, Goal, Measure, Row


def chain(contender: Contender, _form: str, count: int) -> Figures:
    soon, stop, left = contender.soon, contender.stop, count

    def step() -> None:
        nonlocal left
        left -= 1
        if left:
            soon(step)
        else:
            stop()

    soon(step)
    cpu = cpu_of(contender.run)
    if left:
        raise AssertionError(f"{left} of {count} callbacks never ran")
    return {"cpu_ns": cpu / count}


MEASURE = Measure(
    name="defer_chain",
    purpose="one deferred callback per turn",
    entries=EVERY_LOOP,
    rows=(
        Row(
            "deferred, one per turn",
            "ns",
            "cpu_ns",
            LOOP_CELLS,
            Goal("<= 200 ns, ahead of rloop", at_most=200, within=("rloop", 1.0)),
        ),
        Row("deferred, one per turn", "instructions", "instructions", LOOP_CELLS),
    ),
    amount=Amount(full=400_000, quick=50_000, counted=(2_000, 12_000)),
    work=chain,
)
