"""`penstock limits`: every bound and default of the project, read from the one file that defines them.

The reason for a limit is the comment above it, so this reads the source of `penstock.limits`, not only its values; the
page `docs/limits.md` is made from the same table. It must not know what any limit is for.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
import shutil
import textwrap
from dataclasses import asdict, dataclass, fields
from typing import Final, TextIO

import penstock.limits

NAME: Final = "limits"
SUMMARY: Final = "print every limit with its unit, its default and the reason for it"

_SECTION = re.compile(r"# ---- (?P<title>.*?) -+$")
# A name's last part says its unit; if it does not, the reason begins with what is counted, or the name contains it.
_UNITS = {"NS": "ns", "US": "us", "MS": "ms", "S": "s", "PERCENT": "%", "BYTES": "bytes"}
_COUNTED = re.compile(r"(?:\w+ ){0,2}?(?P<noun>\w{2,}[^\Ws])s\b")
_LARGER = {
    "ns": (
        ("days", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("min", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
    ),
    "bytes": (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)),
}
_NARROWEST = 60
_WIDEST = 120


@dataclass(frozen=True, slots=True)
class Limit:
    """One constant of `penstock.limits`."""

    name: str
    value: int | float
    unit: str
    reason: str
    section: str
    policy_field: str | None


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what the command understands."""
    parser.add_argument("--json", action="store_true", help="print one JSON list instead of text")


def run(options: argparse.Namespace, out: TextIO) -> None:
    """Print the limits."""
    table = read_limits()
    if options.json:
        json.dump([asdict(limit) for limit in table], out, indent=2)
        out.write("\n")
        return
    width = min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)
    section = ""
    for limit in table:
        if limit.section != section:
            section = limit.section
            out.write(f"{section}\n\n")
        changed_by = f"   (Policy.{limit.policy_field})" if limit.policy_field else ""
        out.write(f"  {limit.name} = {readable(limit)}{changed_by}\n")
        out.write(textwrap.fill(limit.reason, width, initial_indent="    ", subsequent_indent="    ") + "\n\n")


def read_limits(source: str | None = None) -> list[Limit]:
    """Return every limit in the order of the file. A constant before the first section is a mere name for a number."""
    lines = (source if source is not None else inspect.getsource(penstock.limits)).splitlines()
    values = vars(penstock.limits)
    policy = {field.name for field in fields(penstock.limits.Policy)}
    table = []
    for number, name in _constants("\n".join(lines)):
        section = _section(lines, number)
        if section:
            field = name.lower() if name.lower() in policy else None
            reason = _reason(lines, number)
            table.append(Limit(name, values[name], unit_of(name, reason), reason, section, field))
    return table


def readable(limit: Limit) -> str:
    """Return the value as people say it: with its unit, and long times and sizes in larger ones."""
    plain = f"{limit.value:,} {limit.unit}"
    for unit, size in _LARGER.get(limit.unit, ()):
        if limit.value >= size and limit.value % size == 0:
            return f"{plain} ({limit.value // size:,} {unit})"
    return plain


def unit_of(name: str, reason: str) -> str:
    """Return the unit of a limit: of time or size by its name, otherwise what it counts."""
    parts = name.removesuffix("_MAX").removesuffix("_MIN").split("_")
    if parts[-1] in _UNITS:
        return _UNITS[parts[-1]]
    if noun := _COUNTED.match(reason.lower()):
        return f"{noun['noun']}s"
    plurals = [part.lower() for part in parts if part.endswith("S") and not part.endswith("SS")]
    return plurals[-1] if plurals else "count"


def _constants(source: str) -> list[tuple[int, str]]:
    """Return (line index, name) of every assignment of a number to a name in capitals at the top level."""
    found = []
    for node in ast.parse(source).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if (
            isinstance(target, ast.Name)
            and target.id.isupper()
            and isinstance(vars(penstock.limits).get(target.id), int | float)
        ):
            found.append((node.lineno - 1, target.id))
    return found


def _section(lines: list[str], number: int) -> str:
    """Return the title that stands above a line, or nothing."""
    for line in reversed(lines[:number]):
        if title := _SECTION.match(line):
            return title["title"]
    return ""


def _reason(lines: list[str], number: int) -> str:
    """Return the comment above a line. Constants that follow each other without a gap share one."""
    number -= 1
    while number >= 0 and lines[number].strip() and not lines[number].startswith("#"):
        number -= 1
    comment: list[str] = []
    while number >= 0 and lines[number].startswith("#") and not _SECTION.match(lines[number]):
        comment.insert(0, lines[number].lstrip("# ").rstrip())
        number -= 1
    return " ".join(comment)
