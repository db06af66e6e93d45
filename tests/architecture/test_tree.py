"""What the tree promises to a newcomer.

Each file says what it is for; nothing is oversized, unfinished or bound to somebody's machine; what belongs together is
there together. Each test names all offenders at once.
"""

from __future__ import annotations

import ast
import importlib
import io
import re
import subprocess
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

from penstock.cli.limits import read_limits
from tests.architecture.floors import ROOT, SOURCES, package_files

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
# Files that are longer, each with the reason.
LONGER = {
    "src/penstock/limits.py": "a list: docs/limits.md is made from it, and a limit is looked for in one place",
    "src/penstock/http/types.pxd": "every structure of the server, in the order in which they build on each other",
    "src/penstock/net/stream.py": "one class: its methods share one embedded structure, which no other module may touch",
    "src/penstock/net/transfer.py": "one state machine, whose states all its functions know",
}
CODE = {".py", ".pyi", ".pxd", ".sh", ".h", ".c"}
TEXT = CODE | {".md", ".toml", ".txt", ".build", ".cfg", ".ini", ".yml", ".yaml"}
# Written in pieces, so that this file does not find itself.
UNFINISHED = re.compile("|".join(rf"\b{a}{b}\b" for a, b in (("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("HA", "CK"))))
# Somebody's home or work folder, or an address on a network of one's own.
PRIVATE = re.compile(
    "|".join(rf"(?<![\w.~$])/{folder}/" for folder in ("root", "home", "Users", "work", "opt"))
    + r"|\b(?:10\.\d+|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d+\.\d+\b"
)
# A test that is left out, or expected to fail, and does not say why.
UNREASONED = re.compile(r"pytest\.(mark\.)?(skip|skipif|xfail)\((?!.*reason=)(?!f?['\"])")


def tracked() -> list[Path]:
    """Return the files that belong to the project: those that git knows or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:  # an unpacked archive is no repository
        folders = (ROOT / name for name in ("src", "tests", "scripts", "bench", "docs", "examples"))
        return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())
    return sorted({ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()})


FILES = tracked()
PYTHON = [path for path in FILES if path.suffix == ".py"]
COMPILED = [path for path in package_files() if path.suffix == ".py" and path.with_suffix(".pxd").exists()]

Check = Callable[[Path], Iterator[str]]


def offenders(paths: list[Path], check: Check) -> list[str]:
    """Return "file: what is wrong" for everything that a check finds."""
    assert paths
    return [f"{path.relative_to(ROOT)}: {wrong}" for path in paths for wrong in check(path)]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_a_file_opens_with_what_it_is_for() -> None:
    def check(path: Path) -> Iterator[str]:
        tree = ast.parse(path.read_text())
        if tree.body and not ast.get_docstring(tree):
            yield "has code but no docstring"

    assert not offenders(PYTHON, check)


def test_a_file_of_another_language_opens_with_a_comment() -> None:
    def check(path: Path) -> Iterator[str]:
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#!")]
        if not lines[0].lstrip().startswith(("#", "//", "/*")):
            yield "does not open with a comment"

    others = [path for path in FILES if path.suffix in {".pxd", ".sh", ".h"} and not path.with_suffix(".py").exists()]
    assert not offenders(others, check)


def test_a_file_can_be_read_in_one_go() -> None:
    def check(path: Path) -> Iterator[str]:
        lines = len(path.read_text().splitlines())
        if lines > FILE_LINES_MAX and path.relative_to(ROOT).as_posix() not in LONGER:
            yield f"{lines} lines, more than {FILE_LINES_MAX}"

    assert not offenders([path for path in FILES if path.suffix in CODE], check)


def test_a_function_can_be_seen_at_once() -> None:
    def check(path: Path) -> Iterator[str]:
        for node in functions(path):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.name} has {lines} lines, more than {FUNCTION_LINES_MAX}"

    assert not offenders(PYTHON, check)


def test_nothing_is_unfinished_or_bound_to_a_machine() -> None:
    def check(path: Path) -> Iterator[str]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if UNFINISHED.search(line) or PRIVATE.search(line):
                yield f"line {number}: {line.strip()}"

    assert not offenders([path for path in FILES if path.suffix in TEXT or path.name in {"Makefile", "run"}], check)


def test_nothing_hides_in_a_source() -> None:
    """Control characters and characters without width deceive whoever reads them."""

    def check(path: Path) -> Iterator[str]:
        for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
            if any(not char.isprintable() and char not in "\n\t\f" for char in token.string):
                yield f"line {token.start[0]}: {token.string!r}"

    assert not offenders(PYTHON, check)


def test_a_compiled_module_has_a_stub() -> None:
    assert [path.name for path in COMPILED if not path.with_suffix(".pyi").exists()] == []


def test_the_build_lists_exactly_what_is_there() -> None:
    package = SOURCES / "penstock"
    build = (package / "meson.build").read_text()
    lists = dict(re.findall(r"^(\w+) = \[\n(.*?)^\]", build, re.MULTILINE | re.DOTALL))
    listed = {name: set(re.findall(r"'([^']+)'", body)) for name, body in lists.items()}
    assert listed["compiled"] == {str(path.relative_to(package).with_suffix("")) for path in COMPILED}
    beside = {path.with_suffix(suffix) for path in COMPILED for suffix in (".py", ".pyi", ".pxd")}
    plain = {path for path in FILES if package in path.parents and path.name != "meson.build"} - beside
    assert listed["plain"] == {str(path.relative_to(package)) for path in plain}


def test_public_names_are_sorted_and_complete() -> None:
    def check(path: Path) -> Iterator[str]:
        body = ast.parse(path.read_text()).body
        for names in all_lists(body):
            # As the style check sorts them: constants, then classes, then the rest.
            if list(names) != sorted(names, key=lambda name: (not name.isupper(), not name[:1].isupper(), name)):
                yield "__all__ is not sorted"
            if len(names) != len(set(names)):
                yield "__all__ names something twice"
            defined = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
            missing = sorted(name for name in defined - set(names) if not name.startswith("_"))
            if missing:
                yield f"not in __all__: {missing}"

    assert not offenders([path for path in package_files() if path.suffix == ".py"], check)


def all_lists(body: list[ast.stmt]) -> list[list[str]]:
    assigns = [node for node in body if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)]
    return [ast.literal_eval(node.value) for node in assigns if ast.unparse(node.targets[0]) == "__all__"]


def test_public_names_are_there() -> None:
    def check(path: Path) -> Iterator[str]:
        if not all_lists(ast.parse(path.read_text()).body):
            return
        parts = path.relative_to(SOURCES).with_suffix("").parts
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        yield from (f"__all__ names {name}, which is not there" for name in module.__all__ if not hasattr(module, name))

    assert not offenders([path for path in package_files() if path.suffix == ".py"], check)


def test_every_limit_says_why() -> None:
    table = read_limits()
    assert table
    for limit in table:
        assert len(limit.reason.split()) >= 4, f"{limit.name}: say why in the comment above it"
        assert limit.reason.endswith("."), f"{limit.name}: the comment is cut off"
    names = [limit.name for limit in table]
    assert len(names) == len(set(names))


def test_every_limit_is_in_a_section() -> None:
    source = (SOURCES / "penstock" / "limits.py").read_text()
    constants = set(re.findall(r"^([A-Z][A-Z0-9_]+)(?:: [^=]+)? = ", source, re.MULTILINE))
    assert constants - {limit.name for limit in read_limits()} <= {"NS_PER_S", "POLICY_RANGES", "POLICY_SWITCHES"}


def test_a_test_neither_sleeps_nor_gives_up() -> None:
    """No sleeping to wait for something, and no test that is left out without a reason."""

    def check(path: Path) -> Iterator[str]:
        calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        for call in calls:
            text = ast.unparse(call)
            if re.match(r"time\.sleep\((?!0\))", text):
                yield f"line {call.lineno}: {text}"
            elif UNREASONED.match(text):
                yield f"line {call.lineno}: no reason: {text}"

    assert not offenders([path for path in PYTHON if ROOT / "tests" in path.parents], check)
