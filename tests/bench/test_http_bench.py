"""The commands of the HTTP benchmarks: they explain themselves, refuse nonsense, and read what other tools print."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
SCRIPTS = ("capacity", "twice", "tenfold", "flooder", "slow_clients", "resets")
TIMEOUT_S = 60


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(BENCH / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def evaluate(folder: str, expression: str) -> Any:
    """Evaluate an expression among the modules of a folder, which only its own scripts can import."""
    program = f"import json; print(json.dumps({expression}))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=BENCH / folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


STAND_IN = Path(__file__).with_name("stand_in.py")
needs_compiler = pytest.mark.skipif(
    not any(shutil.which(name) for name in ("cc", "gcc", "clang")), reason="the generator is a C program"
)


def play(folder: str, program: str, module: str, report: Path) -> dict[str, Any]:
    """Run a benchmark with the stand-in as its only server; return its figures."""
    command = f"lambda place: [{sys.executable!r}, {str(STAND_IN)!r}, str(place.port), {folder!r}, {module!r}]"
    done = subprocess.run(
        [sys.executable, "-c", f"command = {command}\n{program}", "--json", str(report)],
        cwd=BENCH / Path(folder).parts[-2],
        env={**os.environ, "BENCH_BURN_US": "500"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "stand-in" in done.stdout
    figures: dict[str, Any] = json.loads(report.read_text())
    return figures


@needs_compiler
@pytest.mark.parametrize(("case", "figure"), [("small-100", "rate"), ("idle", "total_mb")])
def test_a_case_measures_any_server(tmp_path: Path, case: str, figure: str) -> None:
    program = f"""
import sys, cases, run, servers
servers.KINDS.clear()
servers.KINDS["stand-in"] = servers.Kind("stand-in", command, "wsgiref")
run.QUICK = cases.Amount(flat_s=1.0, crowd_s=1.0, paced_s=1.0, crowd=20)
sys.exit(run.main(["--quick", "--only", "{case}", *sys.argv[1:]]))
"""
    figures = play(str(BENCH / "http" / "apps"), program, "hello_wsgi", tmp_path / "figures.json")
    assert not figures["failures"]
    (only,) = figures["cases"][case]["stand-in"]
    assert only[figure] > 0


@needs_compiler
def test_connections_that_stop_in_the_middle_are_held(tmp_path: Path) -> None:
    """By the server of this project: the stand-in serves one after the other."""
    report = tmp_path / "figures.json"
    only = ("--only", "half", "--only", "stalled", "--servers", "penstock")
    done = run("http/run.py", "--quick", *only, "--json", str(report))
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(report.read_text())
    assert not figures["failures"]
    for case in ("half", "stalled"):
        (measured,) = figures["cases"][case]["penstock"]
        assert measured["errors"] == 0


@needs_compiler
def test_an_overload_script_measures_any_server(tmp_path: Path) -> None:
    program = """
import sys, common, flooder
stand_in = common.Contender(common.Kind("stand-in", command, "wsgiref"))
common.CONTENDERS.clear()
common.CONTENDERS["stand-in"] = stand_in
sys.exit(common.main(flooder.SCRIPT, ["--seconds", "1", *sys.argv[1:]]))
"""
    figures = play(str(BENCH / "overload" / "apps"), program, "busy_wsgi", tmp_path / "figures.json")
    assert [row["shape"] for row in figures["rows"]] == ["many connections", "pipelines"]
    assert all(row["capacity"] > 0 and 0 <= row["served"] <= 100 for row in figures["rows"])


def test_slow_clients_are_slow_and_end() -> None:
    """Against a listener that never accepts, all of them stay open to the end."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        for kind in ("heads", "bodies", "readers"):
            done = run("overload/hostile.py", kind, str(silent.getsockname()[1]), "5", "0.2")
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout.splitlines()[-1]) == {"still open": 5}
    assert "give heads, bodies or readers" in run("overload/hostile.py", "shouts", "1", "5", "0.2").stderr


def test_help_names_every_case() -> None:
    done = run("http/run.py", "--help")
    assert done.returncode == 0, done.stderr
    text = " ".join(done.stdout.split())
    cases = evaluate("http", "list(__import__('cases').CASES)")
    assert len(cases) >= 8
    assert [case for case in cases if f"{case}:" not in text] == []


def test_an_unknown_case_or_server_is_refused_with_the_choice() -> None:
    for arguments, wrong in ((("--only", "all"), "'all'"), (("--servers", "nginx,iis"), "'iis'")):
        done = run("http/run.py", *arguments)
        assert done.returncode == 2
        assert wrong in done.stderr
        assert "choose from" in done.stderr


@pytest.mark.parametrize("script", SCRIPTS)
def test_each_script_says_what_it_measures(script: str) -> None:
    done = run(f"overload/{script}.py", "--help")
    assert done.returncode == 0, done.stderr
    assert "--quick" in done.stdout
    refused = run(f"overload/{script}.py", "--servers", "iis")
    assert refused.returncode == 2
    assert "'iis'" in refused.stderr


def test_all_scripts_are_run_by_the_chore() -> None:
    chore = (BENCH / "overload" / "all.sh").read_text()
    there = {path.stem for path in (BENCH / "overload").glob("*.py") if "main(SCRIPT)" in path.read_text()}
    assert there == set(SCRIPTS)
    assert all(script in chore for script in SCRIPTS)


WRK = """
  Latency Distribution
     50%    1.50ms
     75%    3.82ms
     90%  561.00us
     99%    1.07s
  92945 requests in 2.50s, 136.50MB read
  Socket errors: connect 1, read 2, write 3, timeout 4
  Non-2xx or 3xx responses: 5
Requests/sec:  46062.20
"""


def test_what_wrk_prints_is_read() -> None:
    read = evaluate("http", f"__import__('load').read_wrk({WRK!r})")
    assert (read["requests"], read["seconds"], read["errors"]) == (92945, 2.5, 15)
    assert (read["p50"], read["p90"], read["p99"]) == (1.5, 0.561, 1070)


def test_a_table_compares_with_nginx_and_judges_goals() -> None:
    rounds = [{"rate": 100.0, "cpu_us": 10.0, "p99_ms": 1.0, "errors": 0}, {"rate": 300.0, "cpu_us": 30.0, "errors": 0}]
    ours = [{"rate": 200.0, "cpu_us": 5.0, "p99_ms": 1.0, "errors": 0}, {"rate": 600.0, "cpu_us": 15.0, "errors": 2}]
    results = {"small-100": {"nginx": rounds, "penstock": ours}}
    cases = "[__import__('cases').CASES['small-100']]"
    text = evaluate("http", f"__import__('table').markdown({cases}, ['penstock', 'nginx', 'absent'], {results!r})")
    rows = {line.split("|")[2].strip(): [cell.strip() for cell in line.split("|")[3:-1]] for line in text.splitlines()}
    assert rows["requests/s"] == ["", "400 (2.00)", "200", "-"]
    assert rows["CPU us per request"] == ["<= 0.65 of nginx: met", "10 (0.50)", "20", "-"]
    assert rows["errors"] == ["0: missed", "2", "0", "-"]


def test_recovery_takes_three_good_answers_in_a_row() -> None:
    good, late, refused = (1.0, "answered", 10.0), (1.0, "answered", 200.0), (1.0, "refused", 1.0)
    story = [good, good, good, late, good, good, refused, good, good, good]
    samples = [(10 + number, outcome, took) for number, (_, outcome, took) in enumerate(story)]
    assert evaluate("overload", f"__import__('common').recovery_s({samples!r}, 12.0)") == 5.0
    assert evaluate("overload", f"__import__('common').recovery_s({samples[:8]!r}, 12.0)") is None


def test_a_process_tree_is_measured() -> None:
    """CPU time and memory include the children; whoever has ended is not there."""
    command = ["sh", "-c", "sleep 1000 & echo ready; wait"]
    of_it = "[len(m.tree(p.pid)), m.cpu_s(p.pid), m.memory_kb(p.pid), (m.stop(p), m.tree(p.pid))[1]]"
    begin = f"m := __import__('machine'), (p := m.start({command!r}, 0)), p.stdout.readline()"
    tree, cpu_s, memory_kb, gone = evaluate("http", f"({begin}, {of_it})[-1]")
    assert tree == 2
    assert cpu_s >= 0
    assert memory_kb > 0
    assert gone == []
