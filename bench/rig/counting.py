"""Counts what a noisy machine cannot disturb: user-space instructions (callgrind) and system calls (strace).

Every count is the difference of two runs that differ only in the amount of work, divided by the difference in work:
start-up, imports and shut-down cancel out. Hash randomisation is off, so that two runs differ in nothing else.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from rig import native
from rig.model import Figures
from rig.process import Rig

_serial = itertools.count(1)


def per_operation(
    run: Callable[[Sequence[str], int], object], rig: Rig, what: str, amounts: tuple[int, int]
) -> Figures:
    """`run(tool_command, amount)` twice under the tool that counts `what`; everything it counts, per operation."""
    command_for, read = {"instructions": (_callgrind, _instructions), "syscalls": (_strace, _system_calls)}[what]
    totals = []
    for amount in amounts:
        report = rig.directory / f"{what}-{next(_serial)}.out"
        run(command_for(report), amount)
        totals.append(read(report))
    small, large = totals
    return {name: (large[name] - small[name]) / (amounts[1] - amounts[0]) for name in large}


def can_count(what: str) -> bool:
    return native.tool({"instructions": "valgrind", "syscalls": "strace"}[what]) is not None


def _callgrind(report: Path) -> list[str]:
    return ["valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={report}"]


def _instructions(report: Path) -> Figures:
    """The sum over all functions, which callgrind writes at the end."""
    found = re.search(r"^(?:summary|totals): (\d+)", report.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
    if found is None or not int(found[1]):
        raise ValueError(f"{report} holds no instructions: callgrind did not end properly")
    return {"instructions": int(found[1])}


def _strace(report: Path) -> list[str]:
    return ["strace", "-c", "-f", "-o", str(report)]


def _system_calls(report: Path) -> Figures:
    """The sum of the column `calls`: the fourth field of each line that ends with the name of a call."""
    total = 0
    for line in report.read_text(encoding="ascii", errors="replace").splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[3].isdigit() and fields[-1].isidentifier() and fields[-1] != "total":
            total += int(fields[3])
    return {"syscalls": total}
