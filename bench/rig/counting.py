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
from rig.process import Rig

_serial = itertools.count(1)


def per_operation(run: Callable[[Sequence[str], int], object], rig: Rig, what: str, amounts: tuple[int, int]) -> float:
    """`run(tool_command, amount)` twice under the tool that counts `what`."""
    command_for, read = {"instructions": (_callgrind, _instructions), "syscalls": (_strace, _system_calls)}[what]
    totals = []
    for amount in amounts:
        report = rig.directory / f"{what}-{next(_serial)}.out"
        run(command_for(report), amount)
        totals.append(read(report))
    return (totals[1] - totals[0]) / (amounts[1] - amounts[0])


def can_count(what: str) -> bool:
    return native.tool({"instructions": "valgrind", "syscalls": "strace"}[what]) is not None


def _callgrind(report: Path) -> list[str]:
    return ["valgrind", "--tool=callgrind", "--quiet", f"--callgrind-out-file={report}"]


def _instructions(report: Path) -> int:
    found = re.search(r"^(?:totals|summary): (\d+)", report.read_text(encoding="ascii", errors="replace"), re.MULTILINE)
    if not found:
        raise ValueError(f"{report} has no total: callgrind did not end properly")
    return int(found.group(1))


def _strace(report: Path) -> list[str]:
    return ["strace", "-c", "-f", "-o", str(report)]


def _system_calls(report: Path) -> int:
    """The sum of the column `calls`: the fourth field of each line that ends with the name of a call."""
    total = 0
    for line in report.read_text(encoding="ascii", errors="replace").splitlines():
        fields = line.split()
        if len(fields) >= 5 and fields[3].isdigit() and fields[-1].isidentifier() and fields[-1] != "total":
            total += int(fields[3])
    return total
