"""Addresses as text, and as the system takes them."""

from __future__ import annotations

import socket

import pytest

from penstock import UsageError
from penstock.net import parse, show
from penstock.net.address import from_system, system_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        ("name.example:65535", ("name.example", 65_535)),
        ("[::1]:0", ("::1", 0)),
        ("[fe80::1%1]:8", ("fe80::1%1", 8)),
        (":80", ("", 80)),
        ("unix:/run/x", "/run/x"),
        ("/run/x", "/run/x"),
        ("unix:relative", "relative"),
    ],
)
def test_what_is_read_and_written_again(text: str, address: object) -> None:
    assert parse(text) == address
    assert parse(show(parse(text))) == address


@pytest.mark.parametrize(
    "text", ["", "80", "1.2.3.4", "::1:80", "[::1]", "[name]:1", "h:65536", "h:-1", "unix:", "h:٣"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)


@pytest.mark.parametrize(
    ("address", "family", "name"),
    [
        (("127.0.0.1", 1), socket.AF_INET, ("127.0.0.1", 1)),
        (("", 1), socket.AF_INET, ("0.0.0.0", 1)),
        (("::1", 1), socket.AF_INET6, ("::1", 1, 0, 0)),
        (("fe80::1%7", 1), socket.AF_INET6, ("fe80::1", 1, 0, 7)),
        ("/run/x", socket.AF_UNIX, "/run/x"),
    ],
)
def test_what_the_system_takes(address: tuple[str, int] | str, family: int, name: object) -> None:
    assert system_address(address) == (family, name)


@pytest.mark.parametrize(
    "address", [("name", 1), ("127.0.0.1", 70_000), ("127.0.0.1", True), ("127.0.0.1",), 7, "x" * 200]
)
def test_what_the_system_does_not_take(address: object) -> None:
    with pytest.raises(UsageError):
        system_address(address)  # type: ignore[arg-type]


def test_what_the_system_gives() -> None:
    assert from_system(("::ffff:192.0.2.1", 5, 0, 0)) == ("192.0.2.1", 5)
    assert from_system("") is None
    assert from_system(b"\0abstract") == "\0abstract"
    assert show(None) == "nobody"
