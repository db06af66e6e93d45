"""A plugin for coverage.py: lines of compiled modules, which were built with `-Dtrace=true` (see `make coverage`).

Two things differ from Python. A compiled frame names its source relative to where it was compiled, so it is looked up again
in the tree. And a line that only the compiler reads, such as a declaration or a decorator, is never executed, so it
is not counted as a statement. This file must not know what the modules do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from coverage.plugin import CoveragePlugin, FileReporter, FileTracer
from coverage.plugin_support import Plugins
from coverage.types import TConfigSectionOut, TLineNo

SOURCES = Path(__file__).resolve().parent.parent / "src"


def statements(source: str) -> Iterator[int]:
    """Yield the first line of each statement that the compiled module executes: those in the body of a function."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            yield from (line for node in function.body for line in _lines(node))


def _lines(node: ast.AST) -> Iterator[int]:
    if isinstance(node, ast.stmt) and not _is_declaration(node):
        yield node.lineno
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield from _lines(child)


def _is_declaration(node: ast.stmt) -> bool:
    """Whether only the compiler reads this: a variable without a value, a docstring, `with cython.nogil`, `global`."""
    if isinstance(node, ast.AnnAssign):
        return node.value is None
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, ast.With):
        return ast.unparse(node.items[0]) in {"cython.nogil", "cython.gil"}
    return isinstance(node, ast.Global | ast.Nonlocal | ast.Pass | ast.Try | ast.FunctionDef | ast.ClassDef)


class CompiledTracer(FileTracer):
    """Says which file the frames of one compiled module belong to."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def source_filename(self) -> str:
        """Return where the source is in the tree."""
        return str(self._path)


class CompiledReporter(FileReporter):
    """Says which lines of one compiled module can be executed at all."""

    def lines(self) -> set[TLineNo]:
        """Return their numbers."""
        return set(statements(self.source()))


class CythonCoverage(CoveragePlugin):
    """Recognises the sources of compiled modules: a .py with declarations beside it."""

    def file_tracer(self, filename: str) -> FileTracer | None:
        """Return a tracer if this is one of ours."""
        parts = Path(filename).parts
        if "penstock" not in parts:
            return None
        path = SOURCES.joinpath(*parts[len(parts) - 1 - parts[::-1].index("penstock") :])
        return CompiledTracer(path) if path.exists() and path.with_suffix(".pxd").exists() else None

    def file_reporter(self, filename: str) -> FileReporter:
        """Return what knows the lines of a file."""
        return CompiledReporter(filename)

    def find_executable_files(self, src_dir: str) -> Iterator[str]:
        """Yield the compiled modules, also those that no test has touched."""
        if Path(src_dir).resolve() in (SOURCES, SOURCES / "penstock"):
            yield from (
                str(path.with_suffix(".py")) for path in SOURCES.rglob("*.pxd") if path.with_suffix(".py").exists()
            )


def coverage_init(plugins: Plugins, options: TConfigSectionOut) -> None:
    """Register with coverage.py."""
    plugins.add_file_tracer(CythonCoverage())
