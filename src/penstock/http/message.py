"""What a program answers: a status, header fields, and content in one of four forms.

A response is checked when it is made, so that nothing a program says can break the framing of a connection: names are
tokens, values have no control characters, and the fields that the server itself is responsible for are refused. This
file must not know connections, files or the server.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

from penstock.errors import UsageError

# RFC 9110, 5.6.2 and 5.5; obs-text is let through as it is.
_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")

# What frames a message or belongs to the connection is the server's; a program that sets it would have to be believed.
# Date and Server are in every answer already, and may be there once.
_SERVERS = frozenset(
    (b"connection", b"keep-alive", b"transfer-encoding", b"upgrade", b"trailer", b"te", b"date", b"server")
)

Fields = Iterable[tuple[str | bytes, str | bytes]]


@dataclass(frozen=True, slots=True)
class FilePart:
    """Content that lies in an open file: `size` bytes from `offset`. The server closes `fd` when it is done."""

    fd: int
    offset: int
    size: int


class Wait:
    """What an iterable yields when it has nothing yet: it is asked again after `request.resume()`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "WAIT"


WAIT = Wait()

Content = bytes | str | FilePart | Iterable[bytes | Wait]


class Response:
    """An answer: `Response(200, b"hello")`, `Response(404)`, `Response(200, rows(), content_type="text/csv")`.

    `body` is bytes, text (sent as UTF-8), a `FilePart`, or an iterable of bytes, which is asked for more only as fast as
    the peer takes it, and may yield `WAIT` when it has nothing yet. `headers` are pairs; a Content-Length among them is
    a promise, and a body that breaks it ends the connection. With `holds` the request counts as in work until its content
    is complete, as a thread does that makes it; else only until the answer begins.
    """

    __slots__ = ("body", "head", "holds", "length", "status")

    def __init__(
        self,
        status: int = 200,
        body: Content = b"",
        headers: Fields = (),
        *,
        content_type: str | None = None,
        holds: bool = False,
    ) -> None:
        if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 599:
            raise UsageError(f"status is {status!r}; give a number from 200 to 599")
        self.status = int(status)
        self.length: int | None = None
        self.holds = holds
        if isinstance(body, str):
            body = body.encode()
            content_type = content_type or "text/plain; charset=utf-8"
        elif not isinstance(body, bytes | FilePart) and not hasattr(body, "__iter__"):
            raise UsageError(f"body is {body!r}; give bytes, text, a FilePart or an iterable of bytes")
        self.body: bytes | FilePart | Iterable[bytes | Wait] = body
        lines = [f"HTTP/1.1 {self.status} {reason(self.status)}\r\n".encode()]
        if content_type is not None:
            lines.append(self._line("Content-Type", content_type))
        lines.extend(self._line(name, value) for name, value in headers)
        self.head = b"".join(lines)

    def _line(self, name: str | bytes, value: str | bytes) -> bytes:
        name = _bytes("name", name)
        value = _bytes("value", value).strip(b" \t")
        if not _TOKEN.fullmatch(name):
            raise UsageError(f"the header field name {name!r} is not a token")
        if not _VALUE.fullmatch(value):
            raise UsageError(f"the header field {name.decode()} has control characters in its value {value!r}")
        lower = name.lower()
        if lower in _SERVERS:
            raise UsageError(f"the header field {name.decode()} is the server's to set; leave it out")
        if lower == b"content-length":
            self._promise(value)
            return b""
        return name + b": " + value + b"\r\n"

    def _promise(self, value: bytes) -> None:
        if not value.isdigit() or len(value) > 18:
            raise UsageError(f"Content-Length is {value!r}; give a number of bytes")
        if self.length is not None and self.length != int(value):
            raise UsageError(f"Content-Length is given twice, as {self.length} and {value.decode()}")
        self.length = int(value)

    def __repr__(self) -> str:
        return f"<Response {self.status} {reason(self.status)}>"


def reason(status: int) -> str:
    """Return the phrase for a status; "Unknown" for one that has none."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


def _bytes(what: str, text: str | bytes) -> bytes:
    if isinstance(text, bytes):
        return text
    if not isinstance(text, str):
        raise UsageError(f"the {what} of a header field is {text!r}; give text or bytes")
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        raise UsageError(f"the header field {what} {text!r} has characters beyond ISO-8859-1") from None
