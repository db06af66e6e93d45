"""Measures penstock against asyncio, uvloop and rloop and prints one table. `bench/README.md` says how to read it.

    python bench/run.py                      everything, about six minutes
    python bench/run.py --quick              everything, less of it, under half a minute
    python bench/run.py --only echo          one measurement
    python bench/run.py --markdown           the table for a README
    python bench/run.py --json results.json  every single figure

Exit status: 0 when penstock and every peer that is installed gave their figures, 1 when one failed, 2 for wrong usage.
A goal that is missed is reported and is not a failure: the machine may be busy.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import contenders
import measures
from rig import counting, native, table
from rig.model import Entry, Figures, Measure, Results
from rig.process import RAW, Rig, RunFailed

ROUNDS_MAX = 100


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/run.py",
        description="Measure penstock against asyncio, uvloop and rloop: CPU time and instructions per operation.",
        epilog="Measurements: " + "; ".join(f"{name}: {measures.load(name).purpose}" for name in measures.NAMES) + ".",
    )
    parser.add_argument("--quick", action="store_true", help="less of everything: shows that it works, not how fast")
    parser.add_argument("--only", action="append", metavar="NAME", help="only this measurement; may be repeated")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"rounds of each measurement, 1 to {ROUNDS_MAX}")
    parser.add_argument("--no-counting", action="store_true", help="leave out instructions and system calls")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round to FILE")
    parser.add_argument("--markdown", action="store_true", help="print the table as markdown")
    chosen = parser.parse_args(argv)
    unknown = [name for name in chosen.only or () if name not in measures.NAMES]
    if unknown:
        parser.error(f"no measurement is called {unknown[0]!r}; choose from {', '.join(measures.NAMES)}")
    if chosen.rounds is not None and not 1 <= chosen.rounds <= ROUNDS_MAX:
        parser.error(f"--rounds {chosen.rounds}: give 1 to {ROUNDS_MAX}")
    return chosen


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def probe(rig: Rig) -> tuple[dict[str, str], dict[str, str]]:
    """Which contenders can be imported here: name -> version, and name -> why not."""
    present, absent = {}, {}
    for name in contenders.MODULES:
        try:
            present[name] = rig.worker("probe", name)
        except RunFailed as failure:
            absent[name] = str(failure)
    try:
        native.build("raw_echo", rig.directory)
        present[RAW.contender] = "epoll"
    except native.Missing as missing:
        absent[RAW.contender] = str(missing)
    return present, absent


class Run:
    """One run of the benchmark: the chosen amounts, and who is here to take part."""

    def __init__(self, rig: Rig, options: argparse.Namespace, present: dict[str, str]) -> None:
        self.rig = rig
        self.options = options
        self.present = present

    def measure(self, measure: Measure) -> Results:
        """All rounds of one measurement, the contenders interleaved, then the counts."""
        results = Results()
        entries = [entry for entry in measure.entries if entry.contender in self.present]
        for _ in range(self._rounds(measure)):
            results.rounds.append({entry: self._attempt(results, entry, self._sampler(measure)) for entry in entries})
        if measure.amount.counted and not self.options.no_counting and not self.options.quick:
            for entry in (entry for entry in entries if entry in measure.counted_entries()):
                counts = self._attempt(results, entry, self._counter(measure))
                for one_round in results.rounds:
                    one_round[entry] = {**(one_round[entry] or {}), **(counts or {})}
        return results

    def _rounds(self, measure: Measure) -> int:
        if self.options.rounds is not None:
            return int(self.options.rounds)
        return measure.rounds_quick if self.options.quick else measure.rounds_full

    def _attempt(self, results: Results, entry: Entry, job: Callable[[Entry], Figures]) -> Figures | None:
        """The figures of one run. Whoever failed once is not started again."""
        if entry in results.failures:
            return None
        try:
            return job(entry)
        except (RunFailed, native.Missing, ValueError) as failure:
            results.failures[entry] = str(failure)
            return None

    def _sampler(self, measure: Measure) -> Callable[[Entry], Figures]:
        amount = measure.amount.quick if self.options.quick else measure.amount.full
        if measure.sample is not None:
            sample = measure.sample
            return lambda entry: sample(self.rig, entry, amount)
        return lambda entry: self._work(measure, entry, amount)

    def _counter(self, measure: Measure) -> Callable[[Entry], Figures]:
        amounts = measure.amount.counted
        assert amounts is not None
        if measure.count is not None:
            count = measure.count
            return lambda entry: count(self.rig, entry, amounts)
        return lambda entry: self._instructions(measure, entry, amounts)

    def _instructions(self, measure: Measure, entry: Entry, amounts: tuple[int, int]) -> Figures:
        if not counting.can_count("instructions"):
            return {}

        def run(tool: Sequence[str], amount: int) -> None:
            self._work(measure, entry, amount, tool)

        return counting.per_operation(run, self.rig, "instructions", amounts)

    def _work(self, measure: Measure, entry: Entry, amount: int, tool: Sequence[str] = ()) -> Figures:
        words = ("work", measure.name, entry.contender, entry.form, str(amount))
        figures: Figures = self.rig.worker(*words, preload=measure.preload, tool=tool)
        return figures


def machine(rig: Rig) -> str:
    cores = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    pinned = f"server on core {rig.cores[0]}, load on core {rig.cores[1]}" if rig.cores else "not pinned"
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    return f"{system}, {platform.python_implementation()} {platform.python_version()}, {cores}, {pinned}"


def not_counted(options: argparse.Namespace) -> list[str]:
    """What the table will lack, and why."""
    if options.quick or options.no_counting:
        return ["instructions and system calls are not counted in this run"]
    names = {"instructions": "valgrind", "syscalls": "strace"}
    return [f"no {what}: {tool} is not installed" for what, tool in names.items() if not counting.can_count(what)]


def as_json(about: dict[str, Any], everything: dict[str, Results]) -> dict[str, Any]:
    def plain(results: Results) -> dict[str, Any]:
        rounds = [{str(entry): figures for entry, figures in one.items()} for one in results.rounds]
        return {"rounds": rounds, "failures": {str(entry): why for entry, why in results.failures.items()}}

    return {**about, "measures": {name: plain(results) for name, results in everything.items()}}


def report(lines: list[table.Line], everything: dict[str, Results], absent: dict[str, str], *, markdown: bool) -> None:
    print(table.as_markdown(lines) if markdown else table.as_text(lines))
    print("\nIn brackets: that contender / penstock, median of the rounds [quartiles]. Ahead of penstock:")
    for remark in table.ahead_of_us(lines) or ["nobody, in the rows above"]:
        print(f"- {remark}")
    for name, why in absent.items():
        print(f"- {name} did not take part: {why}")
    for name, results in everything.items():
        for entry, why in results.failures.items():
            print(f"- FAILED {name}, {entry}: {why}")


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
        rig = Rig(Path(directory))
        present, absent = probe(rig)
        about = {"machine": machine(rig), "versions": present, "absent": absent, "quick": options.quick}
        versions = ", ".join(f"{name} {version}" for name, version in present.items())
        print("\n".join((about["machine"], versions, *not_counted(options))), end="\n\n")
        run = Run(rig, options, present)
        everything: dict[str, Results] = {}
        lines: list[table.Line] = []
        for name in options.only or measures.NAMES:
            measure = measures.load(name)
            started = time.monotonic()
            everything[name] = run.measure(measure)
            progress(f"{name}: {measure.purpose}: {time.monotonic() - started:.0f} s")
            lines += table.lines_of(measure, everything[name])
    report(lines, everything, absent, markdown=options.markdown)
    if options.json:
        options.json.write_text(json.dumps(as_json(about, everything), indent=1) + "\n", encoding="utf-8")
    failed = table.BASE in absent or any(results.failures for results in everything.values())
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
