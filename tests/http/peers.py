"""What h11 and httptools make of requests, in the words of our parser, and where it is meant to differ from them.

Both are more lenient mostly. A request that only one of us takes must have a reason in `STRICTER` or `MORE_LENIENT` that is
to be seen in its bytes; one that both take must mean the same to both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import h11
import httptools

from penstock.http.errors import BadRequest
from penstock.http.parser import Content, End, Head, Parser
from tests.http.body_model import decode_chunked
from tests.http.head_model import FIELD, TOKEN, Bad, host_and_port, read_target


class Message(NamedTuple):
    """One request as a parser understands it."""

    method: bytes
    target: bytes
    minor: int
    fields: tuple[tuple[bytes, bytes], ...]
    content: bytes


class Reading(NamedTuple):
    """Every complete request in some bytes, and why it went no further: None if there is nothing wrong."""

    messages: list[Message]
    wrong: str | None


def ours(data: bytes) -> Reading:
    parser = Parser()
    try:
        events = parser.feed(data)
        wrong = None
    except BadRequest as bad:
        events = list(bad.events)  # type: ignore[arg-type]
        wrong = str(bad)
    messages: list[Message] = []
    head: Head | None = None
    content = b""
    for event in events:
        if isinstance(event, Head):
            head, content = event, b""
        elif isinstance(event, Content):
            content += event.data
        elif isinstance(event, End) and head is not None:
            fields = tuple((name.lower(), value) for name, value in head.fields)
            messages.append(Message(head.method, head.target, head.version_minor, fields, content))
    return Reading(messages, wrong)


def by_h11(data: bytes) -> Reading:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=100_000)
    connection.receive_data(data)
    messages: list[Message] = []
    request: Any = None
    content = b""
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                request, content = event, b""
            elif isinstance(event, h11.Data):
                content += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                minor = min(int(request.http_version[2:]), 1)
                fields = tuple((bytes(name), bytes(value)) for name, value in request.headers)
                messages.append(Message(request.method, request.target, minor, fields, content))
                connection.send(h11.Response(status_code=404, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE:
                    return Reading(messages, None)
                connection.start_next_cycle()
            else:
                return Reading(messages, None)
    except h11.RemoteProtocolError as error:
        return Reading(messages, str(error))


class _Collector:
    """Takes the calls of httptools."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.parser = httptools.HttpRequestParser(self)
        self.on_message_begin()

    def on_message_begin(self) -> None:
        self.url = self.content = b""
        self.fields: list[tuple[bytes, bytes]] = []

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value or b""))

    def on_headers_complete(self) -> None:
        # Trailer fields come as more headers.
        self.head = (self.parser.get_method(), self.parser.get_http_version(), tuple(self.fields))

    def on_body(self, data: bytes) -> None:
        self.content += data

    def on_message_complete(self) -> None:
        method, version, fields = self.head
        minor = 0 if version == "1.0" else 1
        self.messages.append(Message(method, self.url, minor, fields, self.content))


def by_httptools(data: bytes) -> Reading:
    collector = _Collector()
    try:
        collector.parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        return Reading(collector.messages, None)
    except httptools.HttpParserError as error:
        return Reading(collector.messages, str(error) or type(error).__name__)
    return Reading(collector.messages, None)


class Sight:
    """One request, taken apart as far as a few regular expressions can, to see a reason in it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        head, _, self.body = re.sub(rb"\A(\r\n)*", b"", data).partition(b"\r\n\r\n")
        self.line, *self.fields = head.split(b"\r\n")
        self.minor_0 = self.line.endswith(b"HTTP/1.0")

    def values(self, name: bytes) -> list[bytes]:
        """Return the values of a field, also of one that is not quite right."""
        pairs = [field.partition(b":") for field in self.fields]
        return [value.strip(b" \t").lower() for key, _, value in pairs if key.strip(b" \t").lower() == name]

    def target_is_bad(self) -> bool:
        words = self.line.split(b" ")
        try:
            read_target(words[0], words[1] if len(words) > 1 else b"")
        except Bad:
            return True
        return False

    def host_is_bad(self) -> bool:
        hosts = self.values(b"host")
        return len(hosts) != 1 or not hosts[0] or not (host_and_port(hosts[0]) or (b"", None))[0]

    def length_is_bad(self) -> bool:
        return any(not re.fullmatch(b"[0-9]{1,18}", value) for value in self.values(b"content-length"))

    def lengths(self) -> int:
        return len(self.values(b"content-length")) + len(self.values(b"transfer-encoding"))


class Difference(NamedTuple):
    """A way in which we differ: why, what the refusal says, and what must be seen in the request then."""

    reason: str
    says: str
    seen: Callable[[Sight], object]


# What we refuse and a peer takes. `says` is looked for in what our parser says.
STRICTER = [
    Difference(
        "RFC 9112 2.2 allows a bare LF, and httptools skips any number of empty lines; a proxy may see other lines",
        "CR LF|empty lines|bare CR",
        lambda sight: re.search(rb"(?<!\r)\n|\r(?!\n)|\A(\r\n){5}", sight.data),
    ),
    Difference(
        "RFC 9112 3.2 asks for 400 if Host is not valid; the peers leave that to the application",
        r" Host\b",
        Sight.host_is_bad,
    ),
    Difference(
        "RFC 9112 3.2 has four forms of a target; the peers take any characters, or any form",
        "target",
        Sight.target_is_bad,
    ),
    Difference(
        "the peers leave it to the application to refuse other versions; HTTP/0.9 has none",
        "505:|version",
        lambda sight: not re.fullmatch(rb"\S+ \S+ HTTP/1\.[0-9]", sight.line),
    ),
    Difference(
        "one space parts the request line",
        "request line does not|more than one space",
        lambda sight: not re.fullmatch(TOKEN + rb" [^ ]+ [^ ]+", sight.line),
    ),
    Difference(
        "RFC 9112 6.1: what is not chunked, or not for HTTP/1.0, cannot be framed",
        "coding",
        lambda sight: sight.minor_0 or sight.values(b"transfer-encoding") != [b"chunked"],
    ),
    Difference(
        "RFC 9112 6.3 allows to prefer Transfer-Encoding; that is how requests are smuggled",
        "both Transfer-Encoding and Content-Length",
        lambda sight: sight.lengths() > 1,
    ),
    Difference(
        "a number beyond 63 bits is no length; h11 lets it be",
        "Content-Length",
        lambda sight: sight.length_is_bad() or sight.lengths() > 1,
    ),
    Difference(
        "RFC 9110 10.1.1 wants 417, which the peers leave to the application",
        "417:",
        lambda sight: any(item.strip() != b"100-continue" for item in b",".join(sight.values(b"expect")).split(b",")),
    ),
    Difference(
        "h11 unfolds folded lines; both leave some control characters to the application",
        "header field",
        lambda sight: not all(FIELD.fullmatch(field) for field in sight.fields),
    ),
    Difference(
        "RFC 9112 7.1 has no white space behind a size, and no control characters in extensions or trailer fields",
        "chunk|trailer",
        lambda sight: decode_chunked(sight.body)[0] == "bad",
    ),
]

# What we take and a peer refuses. `says` is looked for in what the peer says.
MORE_LENIENT = [
    Difference(
        "RFC 9112 2.2 wants at least one empty line before a request to be skipped; h11 skips none",
        "no request line",
        lambda sight: sight.data.startswith(b"\r\n"),
    ),
    Difference(
        "httptools has a list of methods; RFC 9110 9.1 wants 501, which is the server's answer",
        "method",
        lambda sight: sight.line.split(b" ")[0] not in (b"GET", b"HEAD", b"POST", b"PUT", b"OPTIONS", b"CONNECT"),
    ),
    Difference(
        "httptools takes the method PRI for the beginning of HTTP/2, whatever follows it",
        "HTTP/2 Connection Preface",
        lambda sight: sight.line.startswith(b"PRI "),
    ),
    Difference(
        "RFC 9110 5.5: white space behind a value is no part of it; httptools does not know a coding before a tab",
        "Transfer-Encoding",
        lambda sight: re.search(rb"(?im)^transfer-encoding:[^\r\n]*\t[ \t]*\r$", sight.data),
    ),
    Difference(
        "RFC 9110 2.5: a higher minor version is treated as the highest that is known",
        "version",
        lambda sight: re.search(rb"HTTP/1\.[2-9]\Z", sight.line),
    ),
    Difference(
        "RFC 9110 8.6 allows to take several equal lengths for one",
        "Content-Length",
        lambda sight: len(b",".join(sight.values(b"content-length")).split(b",")) > 1,
    ),
    Difference(
        "RFC 9112 7.1.1 and 9110 5.6.3: white space before the semicolon of an extension must be removed",
        "chunk",
        lambda sight: re.search(rb"[0-9A-Fa-f][ \t]+;", sight.body),
    ),
    Difference(
        "RFC 9112 7.1.1: extensions that mean nothing to us are ignored; httptools wants their grammar to be right",
        "chunk extension",
        lambda sight: re.search(rb"[0-9A-Fa-f][ \t]*;", sight.body),
    ),
    Difference(
        "RFC 9110 6.5.1: trailer fields frame nothing; httptools takes them for fields of the head",
        "Content-Length|Transfer-Encoding",
        lambda sight: re.search(rb"(?i)0[^\r\n]*\r\n(.*\r\n)*(content-length|transfer-encoding) *:", sight.body),
    ),
    Difference(
        "RFC 9110 5.6.1: empty items of a list are ignored",
        "Transfer-Encoding",
        lambda sight: b"," in b"".join(sight.values(b"transfer-encoding")),
    ),
]


def explained(differences: list[Difference], wrong: str, data: bytes) -> bool:
    """Whether there is a difference that says so and is to be seen."""
    sight = Sight(data)
    return any(re.search(difference.says, wrong) and difference.seen(sight) for difference in differences)


def essence(message: Message) -> tuple[object, ...]:
    """Return what must be the same: h11 rewrites lengths and codings, httptools keeps white space behind values."""
    fields = [(name, value.strip(b" \t")) for name, value in message.fields]
    kept = [(name, value) for name, value in fields if name not in (b"content-length", b"transfer-encoding")]
    return message.method, message.target, message.minor, kept, message.content


def complaints(data: bytes, mine: Reading, other: Reading) -> list[str]:
    """Return what cannot be explained about the first request."""
    if mine.messages and other.messages:
        if essence(mine.messages[0]) != essence(other.messages[0]):
            return [f"{mine.messages[0]} is {other.messages[0]}"]
    elif other.messages and mine.wrong is None:
        return [f"only the peer found {other.messages[0]}"]
    elif other.messages and not explained(STRICTER, mine.wrong or "", data):
        return [f"only we refuse: {mine.wrong}"]
    elif mine.messages and other.wrong is None:
        return [f"only we found {mine.messages[0]}"]
    elif mine.messages and not explained(MORE_LENIENT, other.wrong or "", data):
        return [f"only the peer refuses: {other.wrong}"]
    return []


PEERS = {"h11": by_h11, "httptools": by_httptools}
