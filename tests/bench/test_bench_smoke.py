"""The benchmark runs and prints its table. Says nothing about speed, and knows the benchmark only by its command."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parents[2] / "bench" / "run.py"
RUN_TIMEOUT_S = 120
COLUMNS = ["measurement", "unit", "goal", "penstock", "asyncio", "uvloop", "rloop", "raw C"]

needs_peers = pytest.mark.skipif(
    any(importlib.util.find_spec(peer) is None for peer in ("uvloop", "rloop")),
    reason="the peers of the benchmark are not installed: pip install uvloop rloop",
)
needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")), reason="the benchmark compiles C programs"
)


def run_bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(RUN), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)


def cells(markdown_line: str) -> list[str]:
    return [cell.strip() for cell in markdown_line.strip().strip("|").split("|")]


def test_help_names_every_measurement() -> None:
    done = run_bench("--help")
    assert done.returncode == 0, done.stderr
    measures = {path.stem for path in (RUN.parent / "measures").glob("*.py")} - {"__init__", "common"}
    assert measures
    assert {name for name in measures if f"{name}:" in " ".join(done.stdout.split())} == measures


def test_an_unknown_measurement_is_refused_with_the_choice() -> None:
    done = run_bench("--only", "everything")
    assert done.returncode == 2
    assert "'everything'" in done.stderr
    assert "defer_chain" in done.stderr


@needs_peers
@needs_compiler
def test_a_quick_run_prints_a_row_with_ratios(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    done = run_bench("--quick", "--markdown", "--only", "defer_batch", "--json", str(figures))
    assert done.returncode == 0, done.stdout + done.stderr
    table = [cells(line) for line in done.stdout.splitlines() if line.startswith("|")]
    assert table[0] == COLUMNS
    row = dict(zip(COLUMNS, table[2], strict=True))
    assert row["measurement"] == "deferred, 1,000 per turn"
    assert float(row["penstock"].replace(",", "")) > 0
    assert all("[" in row[peer] for peer in ("asyncio", "uvloop", "rloop"))
    assert row["goal"].endswith(("met", "missed"))
    measured = json.loads(figures.read_text(encoding="utf-8"))["measures"]["defer_batch"]
    assert not measured["failures"]
    assert set(measured["rounds"][0]) == {"penstock", "asyncio", "uvloop", "rloop"}


@needs_peers
@needs_compiler
def test_an_echo_answers_byte_for_byte_on_every_loop(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    done = run_bench("--quick", "--only", "echo", "--rounds", "1", "--json", str(figures))
    assert done.returncode == 0, done.stdout + done.stderr
    measured = json.loads(figures.read_text(encoding="utf-8"))["measures"]["echo"]
    assert all(entry["cpu_ns"] > 0 for entry in measured["rounds"][0].values())
