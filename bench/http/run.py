"""Measures HTTP servers beside one another and prints one table. `bench/http/README.md` says how to read it.

    python bench/http/run.py                                   everything, about ten minutes
    python bench/http/run.py --quick                           less of everything: shows that it works, not how fast
    python bench/http/run.py --only paced --servers nginx      one case, one server
    python bench/http/run.py --rounds 5 --json figures.json    for a noisy machine; every figure of every round

Exit status: 0 when every server that is installed gave its figures, 1 when one failed, 2 for wrong usage. A goal that is
missed is reported and is not a failure: the machine may be busy.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import machine
import servers
import table
from cases import CASES, FULL, QUICK, Amount, Case, Figures
from load import Loads, build
from machine import Failed, Missing

ROUNDS_MAX = 50


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench/http/run.py",
        description="Measure HTTP servers: CPU and latency per request, with up to 10,000 connections.",
        epilog="Cases: " + "; ".join(f"{case.name}: {case.purpose}" for case in CASES.values()) + ".",
    )
    parser.add_argument("--quick", action="store_true", help="less of everything: shows that it works, not how fast")
    parser.add_argument("--only", action="append", metavar="CASE", help="only this case; may be repeated")
    parser.add_argument("--servers", metavar="A,B", help=f"only these of: {', '.join(servers.KINDS)}")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help=f"1 to {ROUNDS_MAX}, interleaved (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round to FILE")
    chosen = parser.parse_args(argv)
    chosen.servers = chosen.servers.split(",") if chosen.servers else list(servers.KINDS)
    for what, names, known in (("case", chosen.only or (), CASES), ("server", chosen.servers, servers.KINDS)):
        for name in names:
            if name not in known:
                parser.error(f"no {what} is called {name!r}; choose from {', '.join(known)}")
    if not 1 <= chosen.rounds <= ROUNDS_MAX:
        parser.error(f"--rounds {chosen.rounds}: give 1 to {ROUNDS_MAX}")
    return chosen


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Run:
    """One run: who takes part, and what has been measured so far."""

    def __init__(self, directory: Path, amount: Amount, names: Sequence[str]) -> None:
        self.directory = directory
        self.amount = amount
        self.site = servers.write_site(directory)
        self.loads = Loads(directory)
        self.absent = {name: why for name in names if (why := servers.KINDS[name].missing())}
        self.names = [name for name in names if name not in self.absent]
        self.results: dict[str, dict[str, list[Figures]]] = {}
        self.failures: dict[str, str] = {}
        self.serial = 0

    def case(self, case: Case, rounds: int) -> None:
        """All rounds of one case, the servers interleaved. Who failed once is not asked again."""
        for _ in range(rounds if case.rounds else 1):
            for name in self.names:
                if f"{case.name}, {name}" not in self.failures:
                    self._one(case, name)

    def _one(self, case: Case, name: str) -> None:
        began_s = time.monotonic()
        self.serial += 1
        own = self.directory / f"server-{self.serial}"
        own.mkdir()
        own.chmod(0o755)
        place = servers.Place(own, self.site, servers.free_port(), case.large, case.settings)
        try:
            with servers.serve(servers.KINDS[name], place, "/small.bin") as server:
                figures = case.measure(self.loads, server, self.amount)
        except (Failed, OSError, ValueError, KeyError, ZeroDivisionError) as failure:
            self.failures[f"{case.name}, {name}"] = f"{type(failure).__name__}: {failure}"
            progress(f"{case.name:12} {name:14} FAILED {failure}")
            return
        self.results.setdefault(case.name, {}).setdefault(name, []).append(figures)
        shown = ", ".join(f"{figure} {table.number(value)}" for figure, value in figures.items())
        progress(f"{case.name:12} {name:14} {time.monotonic() - began_s:4.0f} s  {shown}")


def about(run: Run, quick: bool) -> dict[str, Any]:
    allowed = sorted(os.sched_getaffinity(0))
    return {
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}, CPython {platform.python_version()}",
        "pinned": f"server on core {allowed[machine.SERVER_CORE]}, load on core {allowed[machine.LOAD_CORE]}",
        "versions": {name: servers.KINDS[name].version() for name in run.names},
        "absent": run.absent,
        "quick": quick,
        "amount": vars(run.amount),
    }


def report(run: Run, cases: Sequence[Case], facts: dict[str, Any]) -> None:
    print(f"{facts['machine']}; {facts['pinned']}{'; QUICK: not to be compared' if facts['quick'] else ''}\n")
    print(", ".join(f"{name} {version}".strip() for name, version in facts["versions"].items()), end="\n\n")
    print(table.markdown(cases, run.names, run.results))
    print("\nIn brackets: that server / nginx, median of the rounds.")
    for name, why in run.absent.items():
        print(f"- {name} did not take part: {why}")
    for name, why in run.failures.items():
        print(f"- FAILED {name}: {why}")


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    machine.raise_descriptor_limit()
    with tempfile.TemporaryDirectory(prefix="penstock-http-") as name:
        run = Run(Path(name), QUICK if options.quick else FULL, options.servers)
        try:
            build(run.directory)
        except Missing as missing:
            print(f"bench/http/run.py: {missing}", file=sys.stderr)
            return 2
        facts = about(run, options.quick)
        cases = [case for case in CASES.values() if not options.only or case.name in options.only]
        for case in cases:
            run.case(case, options.rounds)
        report(run, cases, facts)
        if options.json:
            text = json.dumps({**facts, "cases": run.results, "failures": run.failures}, indent=1)
            options.json.write_text(text, encoding="utf-8")
    return 1 if run.failures else 0


if __name__ == "__main__":
    sys.exit(main())
