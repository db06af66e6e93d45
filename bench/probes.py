"""Measures what the probes cost: the same work on the same machine, built with them and without them.

    make bench-probes          prepares both builds, and prints one table

Each round runs both builds, one directly after the other and in turns first, so that what slows the machine for a while
slows both. A row is the median of the ratios round by round, with their quartiles. The limit is 3 %.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

import measures
from rig.model import Entry, Figures, Measure
from rig.process import Rig, RunFailed

LIMIT_PERCENT = 3.0
ROUNDS = 15
ROUNDS_MAX = 100
# What is measured, and the figure that is compared.
WORK = (
    ("defer_chain", "", "cpu_ns"),
    ("defer_batch", "", "cpu_ns"),
    ("lane", "", "cpu_ns"),
    ("c_handler", "plain", "cpu_ns"),
    ("echo", "sock", "cpu_ns"),
    ("echo", "c", "cpu_ns"),
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/probes.py", description="Measure what the probes cost.")
    parser.add_argument("unprobed", metavar="PYTHON", help="the interpreter of a build without probes")
    parser.add_argument("--rounds", type=int, default=ROUNDS, metavar="N", help="rounds (default: %(default)s)")
    chosen = parser.parse_args()
    if not 1 <= chosen.rounds <= ROUNDS_MAX:
        parser.error(f"--rounds {chosen.rounds}: give 1 to {ROUNDS_MAX}")
    if not Path(chosen.unprobed).exists():
        parser.error(f"there is no {chosen.unprobed}; run: make bench-probes")
    return chosen


def sample(rig: Rig, measure: Measure, form: str) -> Figures:
    entry = Entry("penstock", form) if form else Entry("penstock")
    if measure.sample is not None:
        return measure.sample(rig, entry, measure.amount.full)
    figures: Figures = rig.worker("work", measure.name, entry.contender, entry.form, str(measure.amount.full))
    return figures


def compare(rigs: tuple[Rig, Rig], name: str, form: str, figure: str, rounds: int) -> list[float]:
    """The figure with probes divided by the one without, round by round."""
    measure, ratios = measures.load(name), []
    for number in range(rounds):
        taken: dict[int, float] = {}
        for index in (0, 1) if number % 2 else (1, 0):
            taken[index] = sample(rigs[index], measure, form)[figure]
        ratios.append(taken[0] / taken[1])
    return ratios


def line(title: str, ratios: list[float]) -> str:
    percents = [100 * (ratio - 1) for ratio in ratios]
    quartiles = statistics.quantiles(percents, n=4) if len(percents) > 1 else percents * 3
    median = statistics.median(percents)
    verdict = "met" if median <= LIMIT_PERCENT else "missed"
    return f"| {title} | {median:+.1f} % | {quartiles[0]:+.1f} .. {quartiles[2]:+.1f} % | {verdict} |"


def main() -> int:
    chosen = arguments()
    with tempfile.TemporaryDirectory(prefix="penstock-probes-") as directory:
        rigs = (Rig(Path(directory)), Rig(Path(directory), chosen.unprobed))
        print(f"| what ({chosen.rounds} rounds, CPU time) | probes cost | quartiles | <= {LIMIT_PERCENT:.0f} % |")
        print("| --- | --- | --- | --- |")
        for name, form, figure in WORK:
            try:
                ratios = compare(rigs, name, form, figure, chosen.rounds)
            except RunFailed as failure:
                print(f"bench/probes.py: {name} {form}: {failure}", file=sys.stderr)
                return 1
            print(line(f"{name} {form}".strip(), ratios), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
