"""Sockets that are made or inherited, and what a service manager is told."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.errors import UsageError
from penstock.http.configuration import Configuration
from penstock.http.handover import Notifier, Place, open_place


@pytest.fixture
def places() -> Iterator[list[Place]]:
    opened: list[Place] = []
    yield opened
    for place in opened:
        place.close()


def listening(path: str | None = None) -> socket.socket:
    if path is not None:
        handle = socket.socket(socket.AF_UNIX)
        handle.bind(path)
    else:
        handle = socket.socket()
        handle.bind(("127.0.0.1", 0))
    handle.listen()
    return handle


# ---- ports -----------------------------------------------------------------------------------------------------------


def test_workers_get_sockets_of_their_own_on_one_port(places: list[Place]) -> None:
    place = open_place(Configuration(port=0), 3, {})
    places.append(place)
    assert len({each.fileno() for each in place.sockets}) == 3
    assert {each.getsockname() for each in place.sockets} == {place.address}
    place.resize(5)
    assert len(place.sockets) == 5
    place.resize(2)
    assert len(place.sockets) == 2
    assert all(each.getsockname() == place.address for each in place.sockets)


@pytest.mark.parametrize("loops", [1, 3])
@pytest.mark.parametrize("former", [1, 3])
def test_a_busy_port_is_noticed_even_if_it_is_shared(places: list[Place], former: int, loops: int) -> None:
    place = open_place(Configuration(port=0), former, {})
    places.append(place)
    port = place.sockets[0].getsockname()[1]
    with pytest.raises(UsageError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use; stop what"):
        open_place(Configuration(port=port), loops, {})


def test_a_name_is_looked_up(places: list[Place]) -> None:
    place = open_place(Configuration(host="localhost", port=0), 1, {})
    places.append(place)
    assert place.sockets[0].getsockname()[0] in ("127.0.0.1", "::1")


def test_a_host_that_is_none_is_one_sentence() -> None:
    with pytest.raises(UsageError, match="host is 'no such host', which has no address"):
        open_place(Configuration(host="no such host", port=0), 1, {})


# ---- Unix sockets ----------------------------------------------------------------------------------------------------


def test_a_unix_socket_has_its_permissions_and_goes_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    place = open_place(Configuration(unix=str(path), unix_mode=0o620), 3, {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o620
    assert place.address == str(path)
    assert place[0] is place[2]
    place.close()
    assert not path.exists()


def test_a_unix_socket_that_somebody_else_has_made_since_stays(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    place = open_place(Configuration(unix=str(path)), 1, {})
    path.unlink()
    with listening(str(path)):
        place.close()
        assert path.exists()


def test_a_stale_unix_socket_is_replaced_and_a_live_one_is_not(tmp_path: Path, places: list[Place]) -> None:
    path = tmp_path / "socket"
    listening(str(path)).close()
    place = open_place(Configuration(unix=str(path)), 1, {})
    places.append(place)
    with pytest.raises(UsageError, match="Address already in use; remove the file if nobody uses it"):
        open_place(Configuration(unix=str(path)), 1, {})
    plain = tmp_path / "plain"
    plain.write_text("precious")
    with pytest.raises(UsageError, match="Address already in use"):
        open_place(Configuration(unix=str(plain)), 1, {})
    assert plain.read_text() == "precious"


# ---- inherited -------------------------------------------------------------------------------------------------------


def test_a_descriptor_that_was_handed_over_is_used(places: list[Place]) -> None:
    handle = listening()
    address = handle.getsockname()
    place = open_place(Configuration(fd=handle.detach()), 2, {})
    places.append(place)
    assert place.address == address
    assert place[0] is place[1]


@pytest.mark.parametrize(
    ("kind", "words"),
    [("file", "which is no socket"), ("socket", "a socket that does not listen"), ("none", "no socket")],
)
def test_a_descriptor_that_cannot_be_served_is_one_sentence(tmp_path: Path, kind: str, words: str) -> None:
    with socket.socket() as handle, open(tmp_path / "file", "w") as file:
        fd = {"file": file.fileno(), "socket": handle.fileno(), "none": 1_000_000}[kind]
        with pytest.raises(UsageError, match=f"fd is {fd}, .*{words}"):
            open_place(Configuration(fd=fd), 1, {})


def test_variables_for_another_process_are_not_for_this_one(places: list[Place]) -> None:
    environment = {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDNAMES": "web"}
    place = open_place(Configuration(port=0), 1, environment)
    places.append(place)
    assert place.sockets[0].family == socket.AF_INET
    assert environment == {}


@pytest.mark.parametrize("count", ["one", "-1", "\u0661", "9999"])
def test_a_count_that_is_none_is_one_sentence(count: str) -> None:
    with pytest.raises(UsageError, match="LISTEN_FDS in the environment is"):
        open_place(Configuration(port=0), 1, {"LISTEN_FDS": count, "LISTEN_PID": str(os.getpid())})


# ---- the service manager ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("abstract", [False, True])
def test_the_service_manager_is_told(tmp_path: Path, abstract: bool) -> None:
    name = f"@penstock-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0", 1) if abstract else name)
        manager.setblocking(False)
        environment = {"NOTIFY_SOCKET": name}
        notifier = Notifier(environment)
        assert environment == {}
        notifier.ready("serving")
        notifier.reloading()
        notifier.stopping("leaving")
        assert manager.recv(1_000).decode() == f"READY=1\nSTATUS=serving\nMAINPID={os.getpid()}"
        assert manager.recv(1_000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
        assert manager.recv(1_000) == b"STOPPING=1\nSTATUS=leaving"


def test_a_service_manager_that_is_gone_is_nobodys_error(tmp_path: Path) -> None:
    Notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("serving")
    Notifier({}).ready("serving")


# ---- leaving ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unix", [False, True])
def test_who_has_connected_is_accepted_after_nobody_can_connect_any_more(tmp_path: Path, unix: bool) -> None:
    place = open_place(Configuration(port=0, unix=str(tmp_path / "socket") if unix else None), 1, {})
    kind = socket.AF_UNIX if unix else socket.AF_INET
    with socket.socket(kind) as early, socket.socket(kind) as late:
        early.connect(place.address)
        early.sendall(b"early")
        place.refuse()
        late.settimeout(0.1)
        # TCP tries again until the close; a Unix socket says so at once.
        with pytest.raises(OSError, match=r"timed out|refused"):
            late.connect(place.address)
        accepted, _ = place[0].accept()
        with accepted:
            assert accepted.recv(10) == b"early"
        with pytest.raises(BlockingIOError if not unix else OSError):
            place[0].accept()
        place.close()


def test_what_was_inherited_goes_on() -> None:
    handle = listening()
    with handle.dup() as keeper:
        place = open_place(Configuration(fd=handle.detach()), 1, {})
        place.refuse()
        place.close()
        with socket.create_connection(keeper.getsockname(), timeout=60):
            keeper.accept()[0].close()
