"""The examples do what their heads say, and the commands run and draw them."""

from __future__ import annotations

import argparse
import importlib.util
import io
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from penstock.cli import graph as graph_command
from penstock.cli import run as run_command
from penstock.errors import Unsupported, UsageError
from penstock.timed import graph as drawing
from penstock.timed import minutes, ms

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def command(module: Any, *arguments: str) -> str:
    parser = argparse.ArgumentParser(exit_on_error=False)
    module.add_options(parser)
    out = io.StringIO()
    module.run(parser.parse_args(list(arguments)), out)
    return out.getvalue()


def test_the_traffic_light_changes_as_its_head_says(capsys: pytest.CaptureFixture[str]) -> None:
    light = example("timed_traffic_light")
    main = light.Main()
    light.run(main, fast=True)
    by_day = [(0, "red"), (4, "green"), (6, "amber"), (7, "red"), (11, "green"), (15, "amber"), (16, "red")]
    by_night = [(second, "amber" if second % 2 == 0 else "dark") for second in range(20, 26)]
    assert main.changes[:7] == by_day
    # Green was due at dusk: it is shown, and then its six seconds wait for the morning.
    assert main.changes[7:15] == [(20, "green"), *by_night, (31, "amber")]
    assert capsys.readouterr().out.endswith("changes\n")


def test_the_pipeline_holds_when_it_is_late() -> None:
    pipeline = example("timed_sensor_pipeline")
    main = pipeline.simulate()
    assert [(tag.time_ns // ms(1), command) for tag, command in main.commands] == [
        (10, "heat"),
        (20, "heat"),
        (30, "cool"),
        (40, "hold"),
        (60, "cool"),
    ]
    assert main.controller.missed == 1
    assert [(value, tag.time_ns // ms(1)) for value, tag in main.filter.late] == [(24.0, 35)]


def test_the_twin_is_the_same_at_any_speed() -> None:
    twin = example("timed_digital_twin")
    fast = twin.simulate(minutes(5), fast=True).levels
    assert fast == twin.simulate(minutes(5), speed=100_000).levels
    assert len(fast) == 6


def test_a_program_is_run_recorded_and_traced_by_command(tmp_path: Path) -> None:
    program = f"{EXAMPLES / 'timed_traffic_light.py'}:Main"
    out = command(
        run_command, program, "--fast", "--figures", "--trace", str(tmp_path / "t.txt"), "--record", str(tmp_path / "r")
    )
    assert "mode_transitions:" in out
    trace = (tmp_path / "t.txt").read_text()
    assert trace.startswith("(0 s, 0) main.light.phases.first -> main.light.phases.lamp\n")
    command(run_command, program, "--replay", str(tmp_path / "r"), "--trace", str(tmp_path / "again.txt"))
    assert (tmp_path / "again.txt").read_text() == trace


@pytest.mark.parametrize("text", ["10", "ms", "-1s", "1h", ""])
def test_a_duration_needs_a_unit(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        run_command.duration(text)
    assert run_command.duration("1.5 s") == ms(1_500)


def test_a_program_is_drawn_by_command(tmp_path: Path) -> None:
    program = f"{EXAMPLES / 'timed_digital_twin.py'}:Twin"
    text = command(graph_command, program)
    assert "main.controller.valve -> main.tank.valve (after 20 ms)" in text
    assert "reaction adjust(level) -> valve [level 2]" in text
    command(graph_command, program, "--format", "dot", "--output", str(tmp_path / "g.dot"))
    dot = (tmp_path / "g.dot").read_text()
    assert '"main.tank.level" -> "main.controller.level" [penwidth=2];' in dot
    assert dot.count("{") == dot.count("}")


def test_svg_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(Unsupported, match="needs graphviz"):
        drawing.svg(example("timed_digital_twin").Twin())


@pytest.mark.parametrize("name", ["Main", "nowhere_at_all:Main", "penstock.timed:Nobody", "missing.py:Main", ":x"])
def test_a_program_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(UsageError):
        command(graph_command, name)
