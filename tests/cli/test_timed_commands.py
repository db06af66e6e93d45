"""`penstock run` and `penstock graph` as a user meets them: a mistake is one sentence and status 2, never a traceback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from penstock import limits
from penstock.cli import main
from penstock.timed import Environment, PhysicalAction, Reactor, ReplayMismatch

# Only a process that hangs takes as long: a machine with much else to do may start an interpreter in a minute.
PATIENCE_S = 600
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

PROGRAM = """
from penstock.timed import PhysicalAction, Reactor, Timer, ms, reaction

class Main(Reactor):
    arrival = PhysicalAction(int)

class Raises(Reactor):
    def __init__(self):
        raise KeyError("no such room")

class Needs(Reactor):
    def __init__(self, number):
        pass

class Fails(Reactor):
    tick = Timer(period=ms(1))

    @reaction(tick)
    def go(self):
        raise ValueError("broken on purpose")

class Cycle(Reactor):
    def __init__(self):
        self.connect(self.ones, self.ones)
"""
MODULES = {
    "good.py": PROGRAM,
    "syntax.py": "def x(:\n",
    "zero.py": "\n1 / 0\n",
    "inner.py": "import nothing_of_this_name\n",
    "leaves.py": "raise SystemExit(0)\n",
    "random.py": PROGRAM,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("programs")
    for name, text in MODULES.items():
        (place / name).write_text(text)
    return place


# `python -m penstock` of what is built. A process of an editable install would first have the build tool look whether the
# sources have changed, and then build, at the same time as others; this process did that when it imported the package.
COMMAND = """
import runpy, sys
for finder in sys.meta_path:
    if hasattr(finder, "_build_cmd"):
        finder._build_cmd = ["true"]
runpy.run_module("penstock", run_name="__main__", alter_sys=True)
"""


def penstock(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # Isolated, so that the modules of the folder are found by the command and not by the interpreter's start.
    return subprocess.run(
        [sys.executable, "-I", "-c", COMMAND, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.fixture
def refused(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that must be refused, in this process; return its sentence."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [part for part in sys.path if part])
    monkeypatch.setattr(sys, "modules", dict(sys.modules))

    def run(*arguments: str) -> str:
        try:
            status = main(arguments)
        except SystemExit as left:
            status = left.code  # type: ignore[assignment]
        shown = capsys.readouterr()
        assert (status, shown.out) == (2, ""), shown.err
        return sentence(shown.err)

    return run


def sentence(text: str) -> str:
    assert text.startswith("penstock")
    assert text.count("\n") == 1
    assert len(text) < 600
    return text


@pytest.mark.parametrize("command", ["run", "graph"])
@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("good", "the program is 'good'; give module:Main"),
        ("nowhere:Main", "there is no module 'nowhere'"),
        ("missing.py:Main", "there is no file missing.py"),
        ("good:Other", "good has no reactor class Other"),
        ("..good:Main", "'..good' is no name of a module"),
        (".:Main", "'.' is no name of a module"),
        ("syntax:Main", "syntax cannot be imported: SyntaxError: "),
        ("syntax.py:Main", "(syntax.py, line 1)"),
        ("zero:Main", "zero cannot be imported: ZeroDivisionError: division by zero ("),
        ("zero.py:Main", "zero.py, line 2)"),
        ("inner:Main", "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("leaves:Main", "leaves cannot be imported: SystemExit: 0"),
        ("good:Raises", "good:Raises cannot be made without arguments: KeyError: 'no such room' ("),
        ("good:Needs", "missing a required argument: 'number'"),
        ("good:Cycle", "good:Cycle cannot be made without arguments: AttributeError: "),
    ],
)
def test_a_program_that_cannot_be_loaded_is_one_sentence(
    refused: Callable[..., str], command: str, program: str, words: str
) -> None:
    assert words in refused(command, program)


@pytest.mark.parametrize("program", ["nowhere:Main", "syntax.py:Main", "leaves:Main", "good:Raises"])
def test_a_process_says_the_same(folder: Path, program: str) -> None:
    done = penstock(folder, "run", program)
    assert (done.returncode, done.stdout) == (2, "")
    sentence(done.stderr)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--speed", "0"], "--speed: '0' is no whole number from 1"),
        (["--speed", "quick"], "--speed: 'quick' is no whole number"),
        (["--seed", "x"], "--seed: 'x' is no whole number"),
        (["--timeout", "10"], "--timeout: '10' is no duration; give a number and a unit"),
        (["--timeout", "1e400s"], "is no duration"),
        (["--timeout", "99999999999s"], "is more than ten years"),
        (["--trace", "t.xml"], "end the file's name in .txt, or .json"),
        (["--trace", "nowhere/t.txt"], "--trace is nowhere/t.txt, which cannot be written: No such file or directory"),
        (["--record", "nowhere/r"], "the record nowhere/r cannot be written: No such file or directory"),
        (["--record", "r", "--replay", "r"], "--record and --replay were both given"),
        (["--replay", "nowhere"], "the record nowhere cannot be read: No such file or directory"),
        (["--replay", "."], "the record . cannot be read: Is a directory"),
        (["--slow"], "unrecognized arguments: --slow"),
    ],
)
def test_a_bad_option_is_one_sentence(refused: Callable[..., str], arguments: list[str], words: str) -> None:
    assert words in refused("run", "good:Main", "--timeout", "1ms", *arguments)


def test_a_drawing_that_cannot_be_written_is_one_sentence(refused: Callable[..., str]) -> None:
    words = refused("graph", "good:Main", "--format", "dot", "--output", "nowhere/g.dot")
    assert "--output is nowhere/g.dot, which cannot be written: No such file or directory" in words
    assert "invalid choice: 'gif'" in refused("graph", "good:Main", "--format", "gif")


HEAD = '{"format":"penstock timed record","version":1,"seed":0}\n'
HOSTILE: dict[str, bytes | str] = {
    "empty": "",
    "no json": "hello\n",
    "no object": "[]\n",
    "no head": '{"tag":[0,0]}\n',
    "another version": HEAD.replace("1", "2"),
    "a seed that is none": HEAD.replace("0}", "[[]]}"),
    "a huge head": HEAD.replace("penstock", "x" * 100_000),
    "no text": b"\xff\xfe\x00\x80",
    "half a line": HEAD + '{"tag":[0,0',
    "deep": HEAD + "[" * 200_000 + "]" * 200_000 + "\n",
    "a long line": HEAD + '{"tag":[0,0],"name":"' + "x" * limits.RECORD_LINE_BYTES_MAX + '","value":1}\n',
    "many digits": HEAD + f'{{"stop":[{"9" * 6_000},0]}}\n',
    "a stop beyond time": HEAD + f'{{"stop":[{10**30},0]}}\n',
    "an event beyond time": HEAD + f'{{"tag":[{10**30},0],"name":"main.arrival","value":1}}\n',
    "microsteps beyond count": HEAD + f'{{"tag":[0,{2**33}],"name":"main.arrival","value":1}}\n',
    "a tag before the start": HEAD + '{"tag":[-1,0],"name":"main.arrival","value":1}\n',
    "a tag of truths": HEAD + '{"tag":[true,false],"name":"main.arrival","value":1}\n',
    "a tag of three": HEAD + '{"tag":[1,2,3],"name":"main.arrival","value":1}\n',
    "late before its time": HEAD + '{"tag":[5,0],"name":"main.arrival","value":1,"intended":[9,0]}\n',
    "an infinite check": HEAD + '{"missed":[0,0],"reaction":"main.go","check":1e400}\n',
    "a name that is none": HEAD + '{"tag":[0,0],"name":[],"value":1}\n',
    "no value": HEAD + '{"tag":[0,0],"name":"main.arrival"}\n',
    "an unknown name": HEAD + '{"tag":[0,0],"name":"main.other","value":1}\n',
    "a name that draws on the terminal": HEAD + '{"tag":[0,0],"name":"a\\n\\u001b[31m","value":1}\n',
    "an unknown reaction": HEAD + '{"missed":[0,0],"reaction":"main.other","check":0}\n',
}


class Arrives(Reactor):
    arrival = PhysicalAction(int)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_record_is_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    path = tmp_path / "r"
    content = HOSTILE[name]
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ReplayMismatch) as caught:
        Environment(Arrives(), replay=path)
    words = str(caught.value)
    assert words.isprintable()
    assert len(words) < len(str(path)) + 300


@pytest.mark.parametrize("name", ["no json", "deep", "a stop beyond time", "a name that draws on the terminal"])
def test_the_command_refuses_a_hostile_record(folder: Path, refused: Callable[..., str], name: str) -> None:
    content = HOSTILE[name]
    (folder / "record").write_bytes(content.encode() if isinstance(content, str) else content)
    assert "record" in refused("run", "good:Main", "--replay", "record")


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="this system has no file without end")
def test_a_record_without_end_is_refused(refused: Callable[..., str]) -> None:
    assert "RECORD_LINE_BYTES_MAX" in refused("run", "good:Main", "--replay", "/dev/zero")


def test_a_reaction_that_raises_shows_its_traceback_and_one_sentence(folder: Path) -> None:
    done = penstock(folder, "run", "good:Fails", "--fast")
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0].startswith("Traceback")
    assert any("good.py" in line and line.endswith("in go") for line in lines)
    assert lines[-2] == "ValueError: broken on purpose"
    assert lines[-1] == "penstock: main.go raised ValueError at tag (0 s, 0): broken on purpose"


def test_a_program_may_be_named_as_a_module_of_the_library(folder: Path) -> None:
    done = penstock(folder, "run", "random.py:Main", "--fast", "--timeout", "1ms", "--keep-alive")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz is not installed here")
@pytest.mark.parametrize("program", ["timed_traffic_light.py:Main", "timed_sensor_pipeline.py:Main"])
def test_graphviz_draws_every_reactor_and_reaction(tmp_path: Path, program: str) -> None:
    path = f"{EXAMPLES}/{program}"
    done = penstock(tmp_path, "graph", path, "--output", "g.svg")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    root = ElementTree.parse(tmp_path / "g.svg").getroot()
    assert root.tag.endswith("svg")
    drawn = {element.text for element in root.iter() if element.tag.endswith("title")}
    dot = penstock(tmp_path, "graph", path, "--format", "dot").stdout
    boxes = [line for line in dot.splitlines() if "shape=hexagon" in line]
    assert boxes
    assert {line.strip().split('"')[1] for line in boxes} <= drawn


def test_a_run_is_recorded_and_replayed_by_command(folder: Path) -> None:
    done = penstock(folder, "run", "good:Main", "--timeout", "5ms", "--record", "run.jsonl", "--trace", "a.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads((folder / "run.jsonl").read_text().splitlines()[-1]) == {"stop": [5_000_000, 0]}
    done = penstock(folder, "run", "good:Main", "--replay", "run.jsonl", "--trace", "b.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "a.json").read_bytes() == (folder / "b.json").read_bytes()
