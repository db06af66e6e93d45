"""What a newcomer meets first: the pinned tools agree with the build, and what is missing is said in one sentence."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BOOTSTRAP = ROOT / "scripts" / "bootstrap.py"


def pinned(name: str) -> dict[str, str]:
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    requirements = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[^\s=]+", line) for line in requirements)
    return {normal(line): line.partition("==")[2] for line in requirements}


def normal(requirement: str) -> str:
    return re.split(r"[=<>!~;\[ ]", requirement)[0].lower().replace("_", "-")


def test_the_pinned_tools_contain_what_the_build_and_the_project_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    tools = pinned("dev.txt")
    for requirement in project["build-system"]["requires"]:
        assert tools[normal(requirement)] == requirement.partition("==")[2]
    assert {normal(requirement) for requirement in project["project"].get("dependencies", [])} <= tools.keys()


def test_bench_requirements_are_pinned() -> None:
    assert pinned("bench.txt")
    assert pinned("bench-http.txt")


def bootstrap(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BOOTSTRAP), *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def the_sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_missing_compiler_is_one_sentence(tmp_path: Path) -> None:
    done = bootstrap("--venv", str(tmp_path / "v"), PATH=str(tmp_path), CC="")
    assert "no C compiler" in the_sentence(done)
    assert not (tmp_path / "v").exists()


def test_a_compiler_that_was_named_and_is_not_there_is_named(tmp_path: Path) -> None:
    assert "nocc" in the_sentence(bootstrap("--venv", str(tmp_path / "v"), CC="nocc -O2"))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("exit 127", "does not start"),
        ("echo nonsense", "does not start"),
        ("""echo '{"version": [3, 9, 1], "ensurepip": true}'""", "is Python 3.9.1, but 3.11 or newer is needed"),
        ("""echo '{"version": [3, 12, 1], "executable": "/p", "ensurepip": false}'""", "lacks venv or ensurepip"),
        (
            """echo '{"version": [3, 12, 1], "executable": "/p", "ensurepip": true, "include": "/nowhere"}'""",
            "Python.h is not in /nowhere",
        ),
    ],
)
def test_an_unfit_interpreter_is_one_sentence(tmp_path: Path, answer: str, words: str) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{answer}\n")
    python.chmod(0o755)
    assert words in the_sentence(bootstrap("--venv", str(tmp_path / "v"), "--python", str(python)))


def test_a_folder_that_is_no_environment_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("")
    done = bootstrap("--venv", str(tmp_path))
    assert "no virtual environment" in the_sentence(done)
    assert (tmp_path / "precious").exists()


def test_the_bootstrap_uses_nothing_newer_than_python_3_6() -> None:
    import ast

    ast.parse(BOOTSTRAP.read_text(), feature_version=(3, 6))
    assert not re.search(
        r"""\bf["']|from __future__ import annotations|capture_output|text=True""", BOOTSTRAP.read_text()
    )
