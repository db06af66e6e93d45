"""A server of several processes, or threads, under what happens to servers: crashes, signals, reloads, full disks.

Everything is real: processes, signals, connections over loopback.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.http.serving import (
    APPLICATION,
    ENVIRONMENT,
    PATIENCE_S,
    Load,
    Serving,
    answer,
    ask,
    eventually,
    gone,
    serving,
    started,
)

# One process and one loop; loops in threads; processes.
KINDS = {"one": (), "threads": ("--threads", "3"), "workers": ("--workers", "3")}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APPLICATION)
    return tmp_path


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "index.html").write_text("<h1>hello</h1>")
    return folder


def all_gone(pids: set[int]) -> bool:
    return all(gone(pid) for pid in pids)


def has_age(server: Serving, age: int) -> bool:
    return f"max-age={age}" in server.get()[1]


def pid_of(content: bytes) -> int:
    return int(content.split()[1])


def all_pids(server: Serving, count: int) -> set[int]:
    """Ask until all workers have answered."""
    found: set[int] = set()

    def another() -> bool:
        found.add(pid_of(server.get()[2]))
        return len(found) >= count

    eventually(another, f"{count} workers")
    return found


# ---- serving ---------------------------------------------------------------------------------------------------------


@each_kind
def test_everybody_serves_and_the_counts_are_added_up(site: Path, kind: tuple[str, ...]) -> None:
    with serving(str(site), *kind) as server:
        for _ in range(60):
            assert server.get()[::2] == (200, b"<h1>hello</h1>")
        status, rest = server.leave()
        assert (status, server.complaints) == (0, [])
        assert rest.startswith("served 60 requests on 60 connections, 840 bytes of content (answers: 60 2xx;")


def test_workers_are_processes_that_share_a_port(app: Path) -> None:
    with serving("app:handler", "--workers", "3", cwd=app) as server:
        pids = all_pids(server, 3)
        assert server.process.pid not in pids
        assert server.leave()[0] == 0
        assert all(gone(pid) for pid in pids)


@each_kind
def test_a_unix_socket_is_served_and_removed(site: Path, tmp_path: Path, kind: tuple[str, ...]) -> None:
    path = tmp_path / "socket"
    with serving(str(site), *kind, "--unix", str(path), "--unix-mode", "600", port=False) as server:
        assert server.address == str(path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert server.get()[0] == 200
        assert server.leave()[0] == 0
        assert not path.exists()


# What a service manager does: the socket becomes descriptor 3, and the variables name the process that is started.
HAND_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()))
os.execv(sys.executable, [sys.executable, "-m", "penstock", "serve", *sys.argv[2:]])
"""


@each_kind
@pytest.mark.parametrize("named", [False, True])
def test_a_socket_that_was_handed_over_outlives_the_server(site: Path, kind: tuple[str, ...], named: bool) -> None:
    with socket.socket() as handle:
        handle.bind(("127.0.0.1", 0))
        handle.listen()
        fd = str(handle.fileno())
        command = (
            [sys.executable, "-m", "penstock", "serve", str(site), *kind, "--fd", fd]
            if named
            else [sys.executable, "-c", HAND_OVER, fd, str(site), *kind]
        )
        for _ in range(2):
            with started(command, pass_fds=[handle.fileno()]) as server:
                assert server.address == handle.getsockname()
                assert server.get()[0] == 200
                assert server.leave()[0] == 0


def test_the_service_manager_is_told_of_everything(site: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(PATIENCE_S)
        with serving(str(site), environment={"NOTIFY_SOCKET": str(tmp_path / "notify")}) as server:
            assert f"MAINPID={server.process.pid}" in manager.recv(1_000).decode()
            server.send(signal.SIGHUP)
            assert manager.recv(1_000).startswith(b"RELOADING=1")
            assert manager.recv(1_000).startswith(b"READY=1")
            server.send(signal.SIGTERM)
            assert manager.recv(1_000).startswith(b"STOPPING=1")


# ---- crashes ---------------------------------------------------------------------------------------------------------


def test_a_killed_worker_disturbs_nobody_else_and_its_queue_is_answered(app: Path) -> None:
    with serving("app:handler", "--workers", "2", cwd=app) as server:
        victim, other = sorted(all_pids(server, 2))
        kept = eventually(lambda: connected_to(server, other))
        # A stopped process accepts nothing: what connects to its socket now waits there.
        os.kill(victim, signal.SIGSTOP)
        waiting = [server.connect() for _ in range(40)]
        for client in waiting:
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        for _ in range(20):
            assert pid_of(ask(kept)[2]) == other
        os.kill(victim, signal.SIGKILL)
        answered = Counter(pid_of(answer(client)[2]) for client in waiting)
        for _ in range(20):
            assert pid_of(ask(kept)[2]) == other
        kept.close()
        for client in waiting:
            client.close()
        assert victim not in answered
        assert len(answered) == 2, "nobody took the queue over"
        assert server.complained(
            f"worker {0} (process {victim}) was ended by SIGKILL; another one begins in 0.1 s"
        )() or (server.complained(f"worker {1} (process {victim}) was ended by SIGKILL; another one begins in 0.1 s")())
        assert server.leave()[0] == 0


def connected_to(server: Serving, pid: int) -> socket.socket | None:
    client = server.connect()
    if pid_of(ask(client)[2]) == pid:
        return client
    client.close()
    return None


def test_the_pause_before_a_restart_grows(app: Path) -> None:
    with serving("app:handler", "--workers", "2", cwd=app) as server:
        for pause in ("0.1", "0.2", "0.4"):
            complained = server.complained(f"begins in {pause} s")
            while not complained():
                die(server)
        assert server.get()[0] == 200
        assert server.leave()[0] == 0


def die(server: Serving) -> None:
    with server.connect() as client:
        client.sendall(b"GET /die HTTP/1.1\r\nHost: a\r\n\r\n")
        with contextlib.suppress(OSError):
            client.recv(1)


def test_workers_leave_when_their_parent_is_killed(app: Path) -> None:
    with serving("app:handler", "--workers", "2", cwd=app) as server:
        pids = all_pids(server, 2)
        server.send(signal.SIGKILL)
        for pid in pids:
            eventually(partial(gone, pid), f"process {pid}")


def test_a_worker_that_never_serves_ends_the_command_with_its_reason(app: Path) -> None:
    (app / "broken.py").write_text("import no_such_module_anywhere\n")
    command = [sys.executable, "-m", "penstock", "serve", "broken:application", "--workers", "2", "--port", "0"]
    done = subprocess.run(
        command, cwd=app, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "penstock: TARGET is 'broken:application', whose import fails: No module named 'no_such_module_anywhere'; "
        "install what it needs\n"
    )


def test_workers_are_replaced_when_they_are_old(app: Path) -> None:
    with (
        serving("app:handler", "--workers", "2", "--worker-lifetime", "0.5", "--deadline", "60", cwd=app) as server,
        Load(server) as load,
    ):
        first = all_pids(server, 2)
        eventually(lambda: all(gone(pid) for pid in first), "the first workers")
        load.more()
        load.stop()
        assert load.lost == []
        assert server.leave()[0] == 0


# ---- leaving ---------------------------------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("keep", [False, True], ids=["connections", "kept"])
def test_nothing_that_was_accepted_is_lost_on_sigterm(site: Path, kind: tuple[str, ...], keep: bool) -> None:
    with serving(str(site), *kind) as server, Load(server, keep=keep) as load:
        load.more(50)
        status, rest = server.leave()
        load.stop()
        assert (status, server.complaints) == (0, [])
        if not keep:
            # Whoever asks on a kept connection while it is being closed learns that it was not heard, and asks again.
            assert load.lost == []
        served = re.match(r"served ([\d,]+) requests", rest)
        assert served, rest
        assert int(served[1].replace(",", "")) >= load.answered


@contextlib.contextmanager
def holding(app: Path, *arguments: str):
    """A server that has a request in work, which is answered when there is a file "release"; and its client."""
    with serving("app:wsgi", "--wsgi", *arguments, cwd=app) as server, server.connect() as client:
        client.sendall(b"GET /hold HTTP/1.1\r\nHost: a\r\n\r\n")
        eventually((app / "held").exists)
        yield server, client


def refused(server: Serving) -> bool:
    try:
        with socket.create_connection(server.address, timeout=1):
            return False
    except OSError:
        return True


@each_kind
def test_what_is_in_work_is_answered_before_it_leaves(app: Path, kind: tuple[str, ...]) -> None:
    with holding(app, *kind) as (server, client):
        server.send(signal.SIGTERM)
        eventually(lambda: refused(server), "nobody listens")
        (app / "release").touch()
        assert answer(client)[2].startswith(b"wsgi ")
        assert server.wait()[0] == 0


@each_kind
def test_a_second_signal_ends_everything_at_once(app: Path, kind: tuple[str, ...]) -> None:
    with holding(app, *kind) as (server, client):
        server.send(signal.SIGTERM)
        eventually(lambda: refused(server), "nobody listens")
        assert server.leave()[0] == 0, server.complaints
        assert server.complained("told to leave a second time")()
        assert ended(client)


@each_kind
def test_the_drain_time_out_ends_what_takes_too_long(app: Path, kind: tuple[str, ...]) -> None:
    with holding(app, *kind, "--drain-timeout", "0.2") as (server, client):
        assert server.leave()[0] == 0
        assert ended(client)


def ended(client: socket.socket) -> bool:
    try:
        return client.recv(1_000) == b""
    except ConnectionResetError:
        return True


# ---- reloading -------------------------------------------------------------------------------------------------------


@each_kind
def test_a_reload_changes_the_configuration_and_loses_nothing(
    site: Path, tmp_path: Path, kind: tuple[str, ...]
) -> None:
    config = tmp_path / "penstock.toml"
    config.write_text("max_connections = 1000\nmax_age = 1\n")
    with serving(str(site), *kind, "--config", str(config)) as server, Load(server) as load:
        for age in (2, 3):
            assert has_age(server, age - 1)
            config.write_text(f"max_age = {age}\n")
            load.more(5)
            server.send(signal.SIGHUP)
            eventually(server.complained("serving with the configuration as it is now", age - 1))
            # Whoever connects from now on meets the new one.
            assert all(has_age(server, age) for _ in range(8))
        load.more(5)
        load.stop()
        assert load.lost == []
        assert server.leave()[0] == 0


def test_a_reload_starts_workers_with_the_application_as_it_is_now(app: Path) -> None:
    with serving("app:handler", "--workers", "2", "--deadline", "60", cwd=app) as server, Load(server) as load:
        first = all_pids(server, 2)
        (app / "app.py").write_text(APPLICATION.replace('"first"', '"second application"'))
        server.send(signal.SIGHUP)
        eventually(lambda: all(gone(pid) for pid in first), "the first workers")
        load.stop()
        assert load.lost == []
        assert server.get()[2].startswith(b"second application ")
        assert server.leave()[0] == 0


@each_kind
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max_age = -1\n", "max_age is -1; give a whole number"),
        ("max_agee = 1\n", "did you mean max_age?"),
        ('access_log = "no/such/folder/log"\n', "no/such/folder/log"),
        ("port = 1\nhost = '192.0.2.1'\n", "cannot listen on 192.0.2.1:"),
    ],
    ids=["value", "name", "log", "place"],
)
def test_a_broken_reload_changes_nothing(
    site: Path, tmp_path: Path, kind: tuple[str, ...], text: str, words: str
) -> None:
    config = tmp_path / "penstock.toml"
    config.write_text("max_connections = 1000\nmax_age = 1\n")
    with serving(str(site), *kind, "--config", str(config)) as server, Load(server) as load:
        config.write_text(text)
        server.send(signal.SIGHUP)
        eventually(server.complained("the configuration was not changed:"))
        assert server.complained(words)(), server.complaints
        load.more(5)
        load.stop()
        assert load.lost == []
        assert "max-age=1" in server.get()[1]
        assert server.leave()[0] == 0


def test_a_reload_changes_the_number_of_workers(app: Path) -> None:
    config = app / "penstock.toml"
    config.write_text("workers = 2\n")
    with serving("app:handler", "--config", str(config), "--deadline", "60", cwd=app) as server, Load(server) as load:
        former = all_pids(server, 2)
        for count in (4, 2):
            config.write_text(f"workers = {count}\n")
            server.send(signal.SIGHUP)
            eventually(partial(all_gone, former), "the former workers")
            former = all_pids(server, count)
        load.stop()
        assert load.lost == []
        assert server.leave()[0] == 0


@each_kind
def test_a_reload_moves_to_another_place(site: Path, tmp_path: Path, kind: tuple[str, ...]) -> None:
    config = tmp_path / "penstock.toml"
    config.write_text("max_connections = 1000\nmax_age = 1\n")
    path = tmp_path / "socket"
    with serving(str(site), *kind, "--config", str(config)) as server:
        config.write_text(f'unix = "{path}"\n')
        server.send(signal.SIGHUP)
        eventually(server.complained("serving with the configuration as it is now"))
        eventually(lambda: refused(server), "nobody listens on the port")
        server.address = str(path)
        assert server.get()[0] == 200
        assert server.leave()[0] == 0
        assert not path.exists()


# ---- logs, disks, directories ----------------------------------------------------------------------------------------


@each_kind
def test_a_log_is_rotated(site: Path, tmp_path: Path, kind: tuple[str, ...]) -> None:
    log = tmp_path / "access.log"
    with serving(str(site), *kind, "--access-log", str(log)) as server:
        for _ in range(20):
            assert server.get("/?early")[0] == 200
        eventually(lambda: log.read_text().count("early") == 20)
        log.rename(tmp_path / "access.log.1")
        server.send(signal.SIGUSR1)
        eventually(log.exists)
        eventually(lambda: server.get("/?late")[0] == 200 and "late" in log.read_text())
        assert server.leave()[0] == 0
        assert "early" not in log.read_text()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
@each_kind
def test_a_full_disk_of_the_log_stops_nobody(site: Path, kind: tuple[str, ...]) -> None:
    with serving(str(site), *kind, "--access-log", "/dev/full") as server, Load(server) as load:
        load.more(100)
        load.stop()
        assert load.lost == []
        assert server.leave()[0] == 0


@each_kind
def test_a_removed_directory_is_not_found_and_the_server_stays(site: Path, kind: tuple[str, ...]) -> None:
    with serving(str(site), *kind) as server:
        assert server.get()[0] == 200
        shutil.rmtree(site)
        eventually(lambda: server.get()[0] == 404, "the directory is gone")
        site.mkdir()
        (site / "index.html").write_text("again")
        eventually(lambda: server.get()[::2] == (200, b"again"), "the directory is there again")
        assert server.leave()[0] == 0
