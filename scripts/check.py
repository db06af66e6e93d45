"""Run every check that needs no test: style, form, types, stubs, import contracts, generated pages.

    .venv/bin/python scripts/check.py

All checks run even if one fails, so that one look shows everything; what a check prints is shown only if it fails. Exit
status: 0 all passed, 1 some did not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "penstock"
TYPED = ("src/penstock", "scripts", "tests", "bench", "examples")
# Folders of scripts that import one another by the plain name, as a script does; other folders use some of these names too.
APART = ("bench/http", "bench/overload")
TYPES_APART = "types, scripts"


def compiled_modules() -> list[str]:
    """Return the names of the modules that are compiled: those with declarations for C beside them."""
    found = (path.with_suffix("") for path in PACKAGE.rglob("*.pxd") if path.with_suffix(".py").exists())
    return sorted(".".join(path.relative_to(PACKAGE.parent).parts) for path in found)


def scripts_of(folder: str) -> list[Path]:
    """Return the Python files of a folder, relative to the root."""
    return sorted(path.relative_to(ROOT) for path in (ROOT / folder).rglob("*.py"))


def checks() -> Iterator[tuple[str, list[str]]]:
    """Yield each check's name and command, the quickest first."""
    python = [sys.executable, "-m"]
    yield "style", [*python, "ruff", "check", "--quiet", "."]
    yield "form", [*python, "ruff", "format", "--check", "--quiet", "."]
    yield "generated pages", [sys.executable, "scripts/docs.py", "--check"]
    contracts = "from importlinter.cli import lint_imports_command as run; run(['--no-cache', '--no-logo'])"
    yield "import contracts", [sys.executable, "-c", contracts]
    apart = ["--exclude", f"^({'|'.join(APART)})/"]
    yield "types", [*python, "mypy", *apart, *(name for name in TYPED if any((ROOT / name).rglob("*.py")))]
    yield TYPES_APART, [*python, "mypy", *(path.as_posix() for folder in APART for path in scripts_of(folder))]
    stubs = [
        "--ignore-disjoint-bases",
        "--concise",
        "--ignore-unused-allowlist",
        "--allowlist",
        "scripts/stubtest_allow.txt",
    ]
    yield "stubs", [*python, "mypy.stubtest", *compiled_modules(), *stubs, "--mypy-config-file", "pyproject.toml"]


def environment(name: str) -> Mapping[str, str]:
    """Return the environment for a check. The import contracts read sources, which the editable install hides."""
    if name == TYPES_APART:
        folders = (str(ROOT / folder / below) for folder in APART for below in (".", "apps"))
        return {**os.environ, "MYPYPATH": os.pathsep.join(map(os.path.normpath, folders))}
    if name != "import contracts":
        return os.environ
    builds = (str(path) for path in (ROOT / "build").glob("*"))
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MESONPY_EDITABLE_SKIP": os.pathsep.join(builds)}


def main() -> int:
    """Run all checks; return the exit status."""
    failed = []
    for name, command in checks():
        started = time.monotonic()
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=environment(name),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        verdict = "ok" if done.returncode == 0 else "FAILED"
        print(f"{name:<18} {verdict:<7} {time.monotonic() - started:5.1f} s", flush=True)
        if done.returncode:
            failed.append(name)
            print(done.stdout.rstrip() or f"(no output; exit status {done.returncode})", flush=True)
    if failed:
        print(f"check: failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
