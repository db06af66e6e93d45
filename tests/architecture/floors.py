"""Which file of the package imports which: plain imports, imports for the compiler, and declarations in .pxd files.

Import-linter reads plain imports only. In a compiled module `from cython.cimports.penstock.core.ring import ...` binds
just as firmly, so this reads all of them, from the sources, without importing anything.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"

# The floor of each room, as docs/design.md has them.
FLOORS = {
    "errors": 0,
    "limits": 0,
    "stats": 0,
    "core": 1,
    "reactor": 2,
    "budgeted": 2,
    "net": 2,
    "threadlets": 3,
    "timed": 3,
    "aio": 3,
    "http": 4,
    "links": 4,
    "watch": 5,
    "testing": 5,
    "cli": 6,
}
# Neighbours on one floor that may know each other, in this direction.
NEIGHBOURS = {("limits", "errors"), ("stats", "errors"), ("stats", "limits"), ("watch", "testing")}
# What is above all floors: the package's front door and `python -m penstock`.
FRONT = {"__init__", "__main__"}

CIMPORT_PREFIX = "cython.cimports."
PXD_IMPORT = re.compile(
    r"^\s*(?:from\s+(?P<origin>[\w.]+)\s+c?import\s+(?P<names>[^#\n]*)|cimport\s+(?P<modules>[^#\n]+))"
)


def room_of(module: str) -> str | None:
    """Return the room that a dotted module name belongs to: the part after `penstock.`."""
    parts = module.split(".")
    if parts[0] != "penstock":
        return None
    return parts[1] if len(parts) > 1 else "__init__"


def imports_of_python(source: str, package: str) -> Iterator[str]:
    """Yield the dotted names that a .py or .pyi source imports, whichever way."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.removeprefix(CIMPORT_PREFIX) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            if node.level:
                base = package.split(".")[: len(package.split(".")) - node.level + 1]
                origin = ".".join([*base, origin] if origin else base)
            origin = origin.removeprefix(CIMPORT_PREFIX)
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def imports_of_pxd(source: str) -> Iterator[str]:
    """Yield the dotted names that a .pxd source imports. Parentheses may spread names over lines; one name will do."""
    for line in source.splitlines():
        found = PXD_IMPORT.match(line)
        if found and found["origin"]:
            names = [name.split()[0] for name in found["names"].strip("( )\\").split(",") if name.strip()]
            yield from (f"{found['origin']}.{name}" for name in names or ["*"])
        elif found:
            yield from (name.split()[0] for name in found["modules"].split(",") if name.strip())


def imports_of(path: Path) -> Iterator[str]:
    """Yield the dotted names that a file of the package imports."""
    if path.suffix == ".pxd":
        return imports_of_pxd(path.read_text())
    package = ".".join(path.relative_to(SOURCES).parent.parts)
    return imports_of_python(path.read_text(), package)


def complaint(room: str, imported: str) -> str | None:
    """Return why a file of `room` may not import a dotted name, or None."""
    other = room_of(imported)
    if other is None or room in FRONT or other == room:
        return None
    if other not in FLOORS:
        return f"{room} imports {imported}, which is in no room that has a floor"
    if room not in FLOORS:
        return f"{room} has no floor; give it one in tests/architecture/floors.py and in .importlinter"
    if FLOORS[other] < FLOORS[room] or (room, other) in NEIGHBOURS:
        return None
    return f"{room} (floor {FLOORS[room]}) imports {imported} (floor {FLOORS[other]})"


def package_files() -> list[Path]:
    """Return every source file of the package."""
    return sorted(path for suffix in ("py", "pyi", "pxd") for path in (SOURCES / "penstock").rglob(f"*.{suffix}"))


def room_of_file(path: Path) -> str:
    """Return the room that a file lives in."""
    return path.relative_to(SOURCES / "penstock").parts[0].partition(".")[0]
