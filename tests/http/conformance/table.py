"""What the server is held to: rules, each with where it is said, and the cases that try it.

A `Case` is bytes that a client sends and what must come back. Behind every case the client asks for `/probe`, in the same
send: a connection that goes on must answer that, as a request of its own and with nothing before it, and one that ends
must not have looked at it. So each case also shows that client and server agree where a request ends, and that is what
request smuggling lives on. A `Scene` is a case that takes more than bytes: time, files, ends, a program.

This file must not know how cases are run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.http.rig import Answer

Check = Callable[[list[Answer]], object]

HOST = b"Host: test\r\n"
PROBE = b"GET /probe HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Case:
    """Bytes, and what comes of them.

    `statuses` of the answers in order; `asked`: what the program was asked, as "METHOD path content"; `kept`: whether
    the connection goes on. `world` is the server that is asked: a `program`, `files`, or both (`mixed`). `check` looks
    closer at the answers; those to the requests in `heads` have no content because HEAD was asked.
    """

    name: str
    sent: bytes
    statuses: tuple[int, ...]
    asked: tuple[str, ...] = ()
    kept: bool = True
    world: str = "program"
    heads: tuple[int, ...] = ()
    check: Check | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    cuts: bool = False

    @property
    def expected(self) -> str:
        """What must come back, in a few characters."""
        shown = ", ".join(str(status) for status in self.statuses[:4]) + (", …" if len(self.statuses) > 4 else "")
        return shown if self.kept else f"{shown}, end" if shown else "end"


@dataclass(frozen=True, slots=True)
class Scene:
    """A case that is played: a function that gets an empty directory."""

    name: str
    play: Callable[[Path], None]

    @property
    def expected(self) -> str:
        """What must happen, in the words of the function."""
        return ""


@dataclass(frozen=True, slots=True)
class Rule:
    """A sentence, where it is said, and the cases that try it. RFC 9110 and 9112, or `ours` where those leave a choice."""

    section: str
    text: str
    cases: tuple[Case | Scene, ...]


def rule(section: str, text: str, *cases: Case | Scene) -> Rule:
    """A rule with its cases."""
    return Rule(section, text, cases)


def ask(line: str | bytes, *lines: str | bytes, content: bytes = b"", host: bool = True) -> bytes:
    """A request from its lines, and nothing added but Host and the ends of lines."""
    every = [line, *(["Host: test"] if host else []), *lines]
    raw = [each if isinstance(each, bytes) else each.encode("latin-1") for each in every]
    return b"\r\n".join(raw) + b"\r\n\r\n" + content


def chunked(path: str, content: bytes, *lines: str | bytes, coding: str = "Transfer-Encoding: chunked") -> bytes:
    """A POST whose content is in chunks, or pretends to be."""
    return ask(f"POST {path} HTTP/1.1", coding, *lines, content=content)


def good(name: str, sent: bytes, *asked: str, **more: Any) -> Case:
    """The program is asked exactly this, answers, and the connection goes on."""
    return Case(name, sent, (200,) * len(asked), asked, **more)


def last(name: str, sent: bytes, *asked: str, **more: Any) -> Case:
    """The program is asked exactly this, answers, and the connection ends."""
    return Case(name, sent, (200,) * len(asked), asked, kept=False, **more)


def bad(name: str, sent: bytes, status: int = 400, *asked: str, **more: Any) -> Case:
    """After what is asked, the request is refused and nothing behind it is looked at."""
    return Case(name, sent, (200,) * len(asked) + (status,), asked, kept=False, **more)


def field_bad(name: str, line: str | bytes, status: int = 400, **more: Any) -> Case:
    """A request is refused for one line of its head."""
    return bad(name, ask("GET / HTTP/1.1", line), status, **more)


def field_good(name: str, line: str | bytes, **more: Any) -> Case:
    """A request is answered with one more line in its head."""
    return good(name, ask("GET / HTTP/1.1", line), "GET / ", **more)


def target_good(name: str, target: str, path: str, **more: Any) -> Case:
    """The program is asked for this path when the client asks for that target."""
    return good(name, ask(f"GET {target} HTTP/1.1"), f"GET {path} ", **more)


def target_bad(name: str, target: str | bytes, method: bytes = b"GET", **more: Any) -> Case:
    """A target is refused."""
    raw = target if isinstance(target, bytes) else target.encode("latin-1")
    return bad(name, ask(method + b" " + raw + b" HTTP/1.1"), **more)
