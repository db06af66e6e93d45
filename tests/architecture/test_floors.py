"""A room imports only from floors below its own, whichever kind of import it uses."""

from __future__ import annotations

import pytest

from tests.architecture.floors import (
    FLOORS,
    ROOT,
    complaint,
    imports_of,
    imports_of_pxd,
    imports_of_python,
    package_files,
    room_of_file,
)


def test_imports_reach_downwards_only() -> None:
    complaints = [
        f"{path.relative_to(ROOT)}: {wrong}"
        for path in package_files()
        for name in imports_of(path)
        if (wrong := complaint(room_of_file(path), name))
    ]
    assert not complaints


def test_the_import_contract_has_the_same_rooms() -> None:
    contract = (ROOT / ".importlinter").read_text().partition("layers =")[2]
    rooms = contract.replace("(", " ").replace(")", " ").replace("|", " ").replace(":", " ").split()
    assert set(rooms) == FLOORS.keys()
    floors = [FLOORS[room] for room in rooms]
    assert floors == sorted(floors, reverse=True)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("import penstock.net", ["penstock.net"]),
        ("from penstock import net, http as h", ["penstock.net", "penstock.http"]),
        ("def f():\n    from penstock.net import Stream", ["penstock.net.Stream"]),
        ("from cython.cimports.penstock.core.ring import ring_push", ["penstock.core.ring.ring_push"]),
        ("from cython.cimports.penstock import net", ["penstock.net"]),
        ("from . import ring", ["penstock.core.ring"]),
        ("from ..net import stream", ["penstock.net.stream"]),
    ],
)
def test_every_import_of_python_is_seen(source: str, names: list[str]) -> None:
    assert list(imports_of_python(source, "penstock.core")) == names


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from penstock.net.stream cimport StreamC, x", ["penstock.net.stream.StreamC", "penstock.net.stream.x"]),
        ("from penstock.net cimport (\n  a,\n)", ["penstock.net.*"]),
        ("from penstock cimport net  # why", ["penstock.net"]),
        ("cimport penstock.net.stream as s, cython", ["penstock.net.stream", "cython"]),
        ('cdef extern from "x.h":\n    int f()', []),
    ],
)
def test_every_import_of_declarations_is_seen(source: str, names: list[str]) -> None:
    assert list(imports_of_pxd(source)) == names


@pytest.mark.parametrize(
    ("room", "name"),
    [
        ("core", "penstock.reactor"),
        ("reactor", "penstock.net.stream"),
        ("timed", "penstock.aio"),
        ("errors", "penstock.limits"),
        ("core", "penstock"),
        ("core", "penstock.cellar"),
        ("attic", "penstock.core"),
    ],
)
def test_what_is_forbidden_is_noticed(room: str, name: str) -> None:
    assert complaint(room, name)


@pytest.mark.parametrize(
    ("room", "name"),
    [("core", "penstock.limits"), ("limits", "penstock.errors"), ("cli", "penstock.timed.x"), ("core", "os")],
)
def test_what_is_allowed_is_let_through(room: str, name: str) -> None:
    assert complaint(room, name) is None
