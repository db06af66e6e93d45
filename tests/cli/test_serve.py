"""`penstock serve` as somebody meets it for the first time: what it says, what it refuses, how it ends."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from penstock.http.configuration import SETTINGS, Configuration
from penstock.http.settings import Flag
from tests.http.serving import ENVIRONMENT, PATIENCE_S, serving, started

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "examples" / "site"
PENSTOCK = [sys.executable, "-m", "penstock"]


def run(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PENSTOCK, "serve", *arguments],
        cwd=cwd,
        env={**ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def sentence(*arguments: str, cwd: Path | None = None, **environment: str) -> str:
    """Run what cannot be meant; return the one sentence."""
    done = run(*arguments, cwd=cwd, **environment)
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


# ---- what it says ----------------------------------------------------------------------------------------------------


def test_the_help_names_every_option_with_its_default() -> None:
    text = re.sub(r"\s+", " ", run("--help", COLUMNS="1000").stdout)
    for setting in SETTINGS.values():
        assert setting.option in text or setting.name == "target"
        assert setting.help in text
        if isinstance(setting.kind, Flag):
            assert f"--no-{setting.option[2:]}" in text
    assert "(default: 127.0.0.1)" in text
    assert "{placeholders}" in text


SCRIPTED = [
    *("host", "port", "unix", "fd", "workers", "threads", "header-timeout", "body-timeout", "send-timeout"),
    *("idle-timeout", "drain-timeout", "max-connections", "max-connections-per-address", "max-requests-in-work"),
    *("deadline", "access-log", "tls-cert", "tls-key", "wsgi", "config", "check"),
]


def test_the_options_that_others_script_against_are_there() -> None:
    text = run("--help").stdout
    for name in SCRIPTED:
        assert f"--{name}" in text


def test_the_first_impression_says_where_what_within_which_limits_and_how_to_stop() -> None:
    with serving(str(SITE)) as server:
        host, port = server.address
        assert server.head == (
            f"serving {SITE} at http://{host}:{port}/\n"
            "  at most 1,000 connections and 1,024 requests in work\n"
            "  at most 16 KiB of head within 10 s, 16 MiB of content, 30 s idle\n"
            "  Ctrl-C stops it; what was accepted is answered, for up to 30 s\n"
        )
        status, head, content = server.get("/")
        assert (status, content) == (200, (SITE / "index.html").read_bytes())
        assert "text/html; charset=utf-8" in head
        assert server.get("/none")[0] == 404
        status, rest = server.leave(signal.SIGINT)
        assert (status, server.complaints) == (130, [])
        assert re.fullmatch(
            r"served 2 requests on 2 connections, .* of content \(answers: 1 2xx, 1 4xx; refused: none\)\n", rest
        ), rest


def test_nothing_is_coloured_where_no_terminal_is() -> None:
    with serving(str(SITE), environment={"TERM": "xterm"}) as server:
        server.get("/")
        assert "\033" not in server.head + server.leave()[1]


@pytest.mark.parametrize("colours", [True, False])
def test_a_terminal_shows_a_line_that_lives(colours: bool) -> None:
    ours, theirs = pty.openpty()
    more = {"TERM": "xterm"} if colours else {"TERM": "xterm", "NO_COLOR": "1"}
    command = [*PENSTOCK, "serve", str(SITE), "--port", "0"]
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "NO_COLOR"} | more
    with subprocess.Popen(command, env=environment, stdout=theirs, stderr=subprocess.PIPE) as process:
        os.close(theirs)
        shown = b""
        asked = told = False
        while select.select([ours], [], [], PATIENCE_S)[0]:
            try:
                piece = os.read(ours, 65_536)
            except OSError:  # Linux says so when the other side of a terminal is closed
                break
            if not piece:
                break
            shown += piece
            found = re.search(rb"http://127.0.0.1:(\d+)/", shown)
            if found and b"Ctrl-C" in shown and not asked:
                asked = True
                with socket.create_connection(("127.0.0.1", int(found[1])), timeout=PATIENCE_S) as client:
                    client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                    while client.recv(65_536):
                        pass
            if b" 1 requests (1/s)" in shown and not told:
                told = True
                process.send_signal(signal.SIGTERM)
        os.close(ours)
        assert process.wait(PATIENCE_S) == 0
    assert told, shown
    assert (b"\033[1;36mhttp://" in shown) is colours
    # The line is taken away before the last one is written.
    assert b"\r\033[Kserved 1 requests" in shown


# ---- what it refuses -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to serve; give a directory, or module:name"),
        (["no/such/directory"], "TARGET is 'no/such/directory', which is no directory here; give a directory"),
        (["file.txt"], "TARGET is 'file.txt', which is a file; give a directory"),
        (["nowhere:application"], "there is no module 'nowhere' here or on the path of this interpreter"),
        (["broken:application"], "whose import fails: ZeroDivisionError: division by zero; mend the module"),
        (["fine:other"], "but fine has no other; give the name of a function in it"),
        (["fine:number"], "which cannot be called"),
        (["fine:later"], "which is asynchronous"),
        (["site", "--port", "eighty"], "--port is 'eighty'; give a whole number from 0 to 65,535"),
        (["site", "--header-timeout", "-1"], "--header-timeout is '-1'; give seconds above 0"),
        (["site", "--workers", "2", "--threads", "2"], "leave one of them at 1"),
        (["site", "--prot", "80"], "unrecognized arguments: --prot 80"),
        (["site", "--port"], "--port: expected one argument"),
        (["site", "--config", "none.toml"], "the configuration file none.toml cannot be read: No such file"),
        (["site", "--config", "broken.toml"], "the configuration file broken.toml is not TOML: "),
        (["site", "--access-log", "no/folder/log"], "no/folder/log"),
        (["site", "--access-log", "log", "--log-format", "{nothing}"], "{nothing}"),
        (["site", "--index", "a/b"], "a/b"),
        (["site", "--host", "192.0.2.1"], "cannot listen on 192.0.2.1:0: Cannot assign requested address"),
        (["site", "--host", "no such host"], "host is 'no such host', which has no address"),
        (["site", "--unix", "no/folder/socket"], "cannot listen on unix:no/folder/socket: No such file or directory"),
        (["site", "--unix", "x" * 200], "give a path of 1 to 107 bytes"),
        (["site", "--fd", "1000"], "fd is 1000, which is no socket"),
    ],
)
def test_a_mistake_is_one_sentence_and_status_2(folder: Path, arguments: list[str], words: str) -> None:
    assert words in sentence("--port", "0", *arguments, cwd=folder)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no/such/directory"], "TARGET is 'no/such/directory', which is no directory here; give a directory"),
        (["broken:application"], "whose import fails: ZeroDivisionError: division by zero; mend the module"),
        (["site", "--access-log", "no/folder/log"], "no/folder/log"),
    ],
)
def test_a_mistake_that_a_worker_finds_is_one_sentence_too(folder: Path, arguments: list[str], words: str) -> None:
    assert words in sentence(*arguments, "--port", "0", "--workers", "3", cwd=folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    (tmp_path / "file.txt").write_text("")
    (tmp_path / "broken.toml").write_text("port 80")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "fine.py").write_text("number = 5\nasync def later(): pass\n")
    return tmp_path


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_busy_port_is_one_sentence(workers: str) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        told = sentence(str(SITE), "--port", str(port), "--workers", workers)
    assert told == (
        f"penstock: cannot listen on 127.0.0.1:{port}: Address already in use; stop what listens there, or give another "
        "port\n"
    )


def test_a_mistake_in_the_environment_is_one_sentence() -> None:
    assert "PENSTOCK_PORT in the environment is 'x'; give" in sentence(str(SITE), PENSTOCK_PORT="x")
    assert "did you mean PENSTOCK_WORKERS?" in sentence(str(SITE), PENSTOCK_WORKER="2")


# Become another program that may have few descriptors, and no more.
LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_too_few_descriptors_are_said_and_served_with() -> None:
    command = [sys.executable, "-c", LIMITED, *PENSTOCK, "serve", str(SITE), "--port", "0"]
    with started(command) as server:
        assert server.get("/")[0] == 200
        assert server.leave()[0] == 0
    (complaint,) = server.complaints
    assert complaint.startswith("penstock: the system allows 300 descriptors, fewer than 20,000 connections need;")


# ---- checking --------------------------------------------------------------------------------------------------------


def test_check_prints_the_configuration_and_serves_nothing(tmp_path: Path) -> None:
    config = tmp_path / "penstock.toml"
    config.write_text("port = 1\nheader_timeout = 2.5\n")
    done = run(str(SITE), "--check", "--config", str(config), "--workers", "3", PENSTOCK_PORT="2")
    assert (done.returncode, done.stderr) == (0, "")
    table = tomllib.loads(done.stdout)
    assert table.keys() == SETTINGS.keys()
    assert (table["target"], table["port"], table["header_timeout"], table["workers"]) == (str(SITE), 2, 2.5, 3)
    # What it prints is a configuration file that says the same.
    config.write_text(done.stdout)
    assert run("--check", "--config", str(config)).stdout == done.stdout


@pytest.mark.parametrize(
    "arguments", [["nowhere"], ["--log-format", "{nothing}", "."], [".", "--deadline", "0"]], ids=str
)
def test_check_says_what_is_wrong(arguments: list[str]) -> None:
    assert sentence(*arguments, "--check")


def test_the_page_has_a_configuration_file_that_is_read(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "serve.md").read_text(), re.DOTALL)
    config = tmp_path / "penstock.toml"
    config.write_text(example)
    (tmp_path / "public").mkdir()
    done = run("--check", "--config", str(config), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    told, said = tomllib.loads(done.stdout), tomllib.loads(example)
    assert {name: told[name] for name in said} == said
    assert Configuration(**said).toml() == done.stdout
