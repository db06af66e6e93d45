"""The command as a user meets it: in a process of its own, with its exit status and both of its outputs."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import penstock.limits
from penstock.cli import main
from penstock.cli.limits import read_limits

PATIENCE_S = 60
PENSTOCK = [sys.executable, "-m", "penstock"]
# As a user has it: what is printed is buffered, and shown when the command flushes it.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PENSTOCK, *arguments], env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def start(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*PENSTOCK, *arguments], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def output(*arguments: str) -> str:
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


# ---- what is asked wrongly -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name a command: budget, echo, graph, limits, run, serve"),
        (["flood"], "invalid choice: 'flood'"),
        (["budget", "--queue", "0"], "--queue: '0' is no whole number from 1 to 1,048,576"),
        (["budget", "--queue", "9" * 5000], "is no whole number from 1"),
        (["budget", "--internal", "-1"], "--internal: '-1' is no whole number from 0"),
        (["budget", "--ticks", "1e3"], "--ticks: '1e3' is no whole number"),
        (["budget", "--ticks", "\uff11"], "--ticks: '\uff11' is no whole number"),
        (["budget", "--flood", ""], "--flood: '' is no whole number"),
        (["budget", "--flood"], "--flood: expected one argument"),
        (["budget", "--tick", "5"], "unrecognized arguments: --tick 5"),
        (["budget", "now"], "unrecognized arguments: now"),
        (["limits", "--xml"], "unrecognized arguments: --xml"),
    ],
)
def test_a_mistake_is_answered_with_one_sentence(arguments: list[str], words: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("penstock")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
def test_a_full_disk_is_one_sentence() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PENSTOCK, "budget"],
            env=ENVIRONMENT,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "penstock: cannot go on: No space left on device\n")


# ---- what is asked rightly -------------------------------------------------------------------------------------------


def test_version_and_help() -> None:
    assert output("--version") == f"penstock {version('penstock')}\n"
    assert {"budget", "limits"} <= set(output("--help").split())
    for option in ("--queue", "--internal", "--ticks", "--flood", "--keep", "--real", "--json"):
        assert option in output("budget", "--help")


def test_the_installed_command_is_the_same() -> None:
    command = Path(sys.executable).with_name("penstock")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stdout) == (0, f"penstock {version('penstock')}\n")


def test_budget_shows_each_tick_and_the_sums() -> None:
    lines = [line.split() for line in output("budget", "--ticks", "3", "--flood", "100").splitlines()]
    assert lines == [
        ["tick", "arrived", "run", "denied", "dropped", "depth"],
        *([str(tick), "100", "2", "14", "84", "0"] for tick in (1, 2, 3)),
        ["all", "300", "6", "42", "252", "0"],
    ]


def test_budget_keeps_what_it_is_asked_to_keep() -> None:
    told = json.loads(output("budget", "--keep", "--queue", "4", "--flood", "1", "--internal", "0", "--json"))
    # The TIMER that ends the fourth tick finds a full ring, and the oldest event makes room for it.
    assert [tick["depth"] for tick in told["ticks"]] == [1, 2, 3, 3, 4]
    assert told["total"]["dropped"] == 1


@pytest.mark.parametrize("keep", [(), ("--keep",)])
@pytest.mark.parametrize("queue", ["1", "2", "16", "1000"])
@pytest.mark.parametrize("internal", ["0", "2", "500"])
def test_budget_accounts_for_every_event(
    capsys: pytest.CaptureFixture[str], queue: str, internal: str, keep: tuple[str, ...]
) -> None:
    sizes = ("--queue", queue, "--internal", internal, "--ticks", "4", "--flood", "300", "--json")
    assert main(["budget", *sizes, *keep]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [tick["tick"] for tick in told["ticks"]] == [1, 2, 3, 4]
    for tick in told["ticks"]:
        assert tick["run"] <= int(internal)
        assert tick["depth"] <= int(queue)
    total = told["total"]
    assert total["arrived"] == 1_200
    assert total["arrived"] == total["run"] + total["denied"] - total["kept"] + total["dropped"] + total["depth"]


def test_budget_in_simulated_time_is_the_same_every_time() -> None:
    assert output("budget", "--ticks", "50", "--json") == output("budget", "--ticks", "50", "--json")


def test_budget_waits_for_a_real_tick() -> None:
    told = json.loads(output("budget", "--real", "--ticks", "1", "--json"))
    assert told["policy"]["real"] is True
    assert [tick["run"] for tick in told["ticks"]] == [2]


def test_limits_lists_every_limit() -> None:
    table = json.loads(output("limits", "--json"))
    assert {each["name"]: each["value"] for each in table} == {each.name: each.value for each in read_limits()}
    for each in table:
        assert getattr(penstock.limits, each["name"]) == each["value"]
        assert each["unit"]
        assert each["reason"]
    text = output("limits")
    assert all(each["name"] in text for each in table)


# ---- how it ends -----------------------------------------------------------------------------------------------------


def test_a_reader_that_goes_away_ends_it_quietly() -> None:
    with start("budget", "--ticks", "1000000", "--flood", "3") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 141
        assert process.stderr.read() == b""


def test_ctrl_c_ends_it_with_130_and_leaves_whole_json() -> None:
    with start("budget", "--real", "--ticks", "1000", "--json") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        # The head is written when everything is set up.
        head = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(PATIENCE_S) == 130
        assert process.stderr.read() == b""
        assert json.loads(head + rest)["total"]["errors"] == 0


# ---- progress --------------------------------------------------------------------------------------------------------


def on_a_terminal(*arguments: str, output_too: bool = False) -> bytes:
    """Run the command with a terminal as its error output; return what it showed there."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*PENSTOCK, *arguments], stdout=theirs if output_too else subprocess.DEVNULL, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = b""
        while select.select([ours], [], [], PATIENCE_S)[0]:
            try:
                piece = os.read(ours, 65_536)
            except OSError:  # Linux says so when the other side of a terminal is closed
                break
            if not piece:
                break
            shown += piece
        os.close(ours)
        assert process.wait(PATIENCE_S) == 0
    return shown


def test_a_long_run_shows_progress_on_a_terminal_and_takes_it_away() -> None:
    shown = on_a_terminal("budget", "--ticks", "2", "--flood", "500000")
    assert b"\rtick 0 of 2" in shown or b"\rtick 1 of 2" in shown
    assert shown.endswith(b"\r\x1b[K")


def test_a_short_run_shows_none() -> None:
    assert on_a_terminal("budget", "--ticks", "2", "--flood", "10") == b""


def test_the_table_is_its_own_progress() -> None:
    shown = on_a_terminal("budget", "--ticks", "1", "--flood", "500000", output_too=True)
    assert b"\rtick 0" not in shown
    assert b" 499984" in shown
