"""Check what is in a wheel: all that a user needs, and nothing that belongs to the build.

    .venv/bin/python scripts/check_wheel.py dist/penstock-*.whl

Exit status: 0 the content is right, 1 it is not, with one line for each mistake.
"""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "penstock"


def expected() -> tuple[set[str], set[str]]:
    """Return the files that must be in the wheel, and the modules (without suffix) that must be in it compiled."""
    files = {path for suffix in ("py", "pyi", "pxd", "h") for path in PACKAGE.rglob(f"*.{suffix}")}
    compiled = {path for path in files if path.suffix == ".py" and path.with_suffix(".pxd").exists()}
    plain = {path.relative_to(PACKAGE.parent).as_posix() for path in files - compiled} | {"penstock/py.typed"}
    return plain, {path.relative_to(PACKAGE.parent).with_suffix("").as_posix() for path in compiled}


def mistakes(wheel: Path) -> Iterator[str]:
    """Yield what is wrong with a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/") and ".dist-info/" not in name}
        entries = next((archive.read(n).decode() for n in archive.namelist() if n.endswith("entry_points.txt")), "")
    plain, compiled = expected()
    modules = {name.partition(".")[0] for name in names if PurePosixPath(name).suffix == ".so"}
    yield from (f"{name} is missing" for name in sorted(plain - names))
    yield from (f"{name} is not there as a compiled module" for name in sorted(compiled - modules))
    yield from (f"{name}.py is there although it is compiled" for name in sorted(compiled) if f"{name}.py" in names)
    others = {name for name in names - plain if name.partition(".")[0] not in compiled}
    yield from (f"{name} does not belong there" for name in sorted(others))
    yield from (f"{name} does not belong there" for name in sorted(names) if name.endswith((".c", ".build")))
    if "penstock = penstock.cli:main" not in entries:
        yield "the command penstock is not declared"


def main() -> int:
    """Check the wheel that is named; return the exit status."""
    wheel = Path(sys.argv[1])
    wrong = list(mistakes(wheel))
    for line in wrong:
        print(f"{wheel.name}: {line}", file=sys.stderr)
    if not wrong:
        print(f"{wheel.name}: {wheel.stat().st_size / 1024:,.0f} KiB, content as it should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
