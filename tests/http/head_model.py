"""What a head means, said slowly: regular expressions written down from the grammars of the RFCs, on whole lines.

It shares no line with the parser and does everything twice if that is simpler.
"""

from __future__ import annotations

import re
from typing import Any

METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"]
KNOWN = ["host", "connection", "content-length", "transfer-encoding", "expect", "upgrade", "if-match", "if-none-match"]
KNOWN += ["if-modified-since", "if-unmodified-since", "if-range", "range", "accept-encoding", "user-agent", "referer"]
KNOWN += ["content-type", "x-forwarded-for", "x-forwarded-proto", "forwarded"]
EMPTY_LINES = 4
FORMS = {"origin": 0, "absolute": 1, "asterisk": 2, "authority": 3}

TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
FIELD = re.compile(rb"(" + TOKEN + rb"):[ \t]*([\t -~\x80-\xff]*?)[ \t]*", re.DOTALL)

# RFC 3986, appendix A.
OCTET = r"(?:[0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
V4 = rf"{OCTET}\.{OCTET}\.{OCTET}\.{OCTET}"
H16 = "[0-9a-fA-F]{1,4}"
LS32 = rf"(?:{H16}:{H16}|{V4})"
V6 = "|".join(
    [
        rf"(?:{H16}:){{6}}{LS32}",
        rf"::(?:{H16}:){{5}}{LS32}",
        rf"(?:{H16})?::(?:{H16}:){{4}}{LS32}",
        rf"(?:(?:{H16}:){{0,1}}{H16})?::(?:{H16}:){{3}}{LS32}",
        rf"(?:(?:{H16}:){{0,2}}{H16})?::(?:{H16}:){{2}}{LS32}",
        rf"(?:(?:{H16}:){{0,3}}{H16})?::{H16}:{LS32}",
        rf"(?:(?:{H16}:){{0,4}}{H16})?::{LS32}",
        rf"(?:(?:{H16}:){{0,5}}{H16})?::{H16}",
        rf"(?:(?:{H16}:){{0,6}}{H16})?::",
    ]
)
VFUTURE = r"[vV][0-9a-fA-F]+\.[A-Za-z0-9._~!$&'()*+,;=:-]+"
REGISTERED = r"(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9a-fA-F]{2})*"
AUTHORITY = re.compile(rf"(?P<host>\[(?:{V6}|{VFUTURE})\]|{REGISTERED})(?::(?P<port>[0-9]*))?".encode())
TARGET = re.compile(rb"(?P<path>[A-Za-z0-9._~!$&'()*+,;=%:/@\[\]|^`{}-]*)(?:\?(?P<query>[^\x00-\x20\x7f-\xff\"<>#]*))?")


class Bad(Exception):
    """The request must be refused with a status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


def host_and_port(text: bytes) -> tuple[bytes, bytes | None] | None:
    """Return host and port of an authority without user information; None if it is not valid."""
    found = AUTHORITY.fullmatch(text)
    if not found or (found["port"] and int(found["port"]) > 65535):
        return None
    return found["host"], found["port"]


def read_target(method: bytes, target: bytes) -> dict[str, Any]:
    found = TARGET.fullmatch(target)
    if not found or not target:
        raise Bad(400)
    if method == b"CONNECT":
        place = host_and_port(target)
        if not place or not place[0] or not place[1] or not int(place[1]):
            raise Bad(400)
        return {"form": FORMS["authority"], "path": b"", "query": b"", "host": target}
    query = found["query"] or b""
    if target.startswith(b"/"):
        return {"form": FORMS["origin"], "path": found["path"], "query": query, "host": None}
    if target == b"*":
        if method != b"OPTIONS":
            raise Bad(400)
        return {"form": FORMS["asterisk"], "path": b"", "query": b"", "host": None}
    split = re.fullmatch(rb"(?i:https?)://([^/]*)(.*)", found["path"])
    if not split:
        raise Bad(400)
    place = host_and_port(split[1])
    if not place or not place[0]:
        raise Bad(400)
    return {"form": FORMS["absolute"], "path": split[2] or b"/", "query": query, "host": split[1]}


def read_request_line(line: bytes) -> dict[str, Any]:
    found = re.fullmatch(rb"(" + TOKEN + rb") ([^ ]+) (HTTP/([0-9])\.([0-9]))", line, re.DOTALL)
    if not found or not TARGET.fullmatch(found[2]):
        raise Bad(400)
    if found[4] != b"1":
        raise Bad(505)
    name = found[1].decode()
    number = METHODS.index(name) + 1 if name in METHODS else 0
    minor = 0 if found[5] == b"0" else 1
    request = {"method": found[1], "method_number": number, "minor": minor, "target": found[2]}
    return request | read_target(found[1], found[2])


def items(values: list[bytes]) -> list[bytes]:
    return [item.strip(b" \t") for value in values for item in value.split(b",")]


def check_host(facts: dict[str, Any], values: list[bytes]) -> None:
    """The last of `values` is new."""
    if len(values) > 1:
        raise Bad(400)
    place = host_and_port(values[-1])
    if not place or (values[-1] and not place[0]) or (not values[-1] and facts["form"] == FORMS["origin"]):
        raise Bad(400)


def check_lengths(values: list[bytes]) -> None:
    numbers = items(values)
    if any(not re.fullmatch(b"[0-9]+", number) for number in numbers):
        raise Bad(400)
    if len({int(number) for number in numbers}) > 1 or int(numbers[0]) >= 1 << 63:
        raise Bad(400)


def check_codings(minor: int, values: list[bytes]) -> None:
    """Each field is judged when it comes: what an earlier one makes wrong is found then."""
    new = [item.lower() for item in items(values[-1:]) if item]
    if minor == 0 or not new:
        raise Bad(400)
    chunked = len(values) > 1
    for coding in new:
        if chunked or not re.fullmatch(TOKEN, coding):
            raise Bad(400)
        if coding != b"chunked":
            raise Bad(501)
        chunked = True


def check_expectation(minor: int, values: list[bytes]) -> None:
    if minor > 0 and any(item.lower() not in (b"", b"100-continue") for item in items(values)):
        raise Bad(417)


class Model:
    """Reads one head as far as it goes."""

    def __init__(self, data: bytes, line_max: int = 8_190, head_max: int = 16_384, fields_max: int = 100) -> None:
        self.data = data
        self.line_max = line_max
        self.head_max = head_max
        self.fields_max = fields_max
        self.facts: dict[str, Any] | None = None
        self.fields: list[tuple[bytes, bytes]] = []

    def values(self, name: str) -> list[bytes]:
        return [value for key, value in self.fields if key.lower() == name.encode()]

    def add_field(self, line: bytes) -> None:
        assert self.facts is not None
        found = FIELD.fullmatch(line)
        if not found:
            raise Bad(400)
        if len(self.fields) == self.fields_max:
            raise Bad(431)
        self.fields.append((found[1], found[2]))
        name = found[1].lower()
        if name == b"host":
            check_host(self.facts, self.values("host"))
        elif name == b"content-length":
            check_lengths(self.values("content-length"))
        elif name == b"transfer-encoding":
            check_codings(self.facts["minor"], self.values("transfer-encoding"))
        elif name == b"expect":
            check_expectation(self.facts["minor"], self.values("expect"))

    def finish(self, size: int) -> dict[str, Any]:
        assert self.facts is not None
        if self.facts["minor"] > 0 and not self.values("host"):
            raise Bad(400)
        lengths = items(self.values("content-length"))
        chunked = bool(self.values("transfer-encoding"))
        if lengths and chunked:
            raise Bad(400)
        options = [item.lower() for item in items(self.values("connection"))]
        names = [name.lower().decode() for name, _ in self.fields]
        host = self.facts["host"]
        return self.facts | {
            "fields": tuple(self.fields),
            "known": tuple(KNOWN.index(name) + 1 if name in KNOWN else 0 for name in names),
            "first": (0, *(names.index(name) + 1 if name in names else 0 for name in KNOWN)),
            "again": (0, *(names.count(name) for name in KNOWN)),
            "host": host if host is not None else (self.values("host") or [b""])[0],
            "keep_alive": b"close" not in options and (self.facts["minor"] > 0 or b"keep-alive" in options),
            "expect_continue": self.facts["minor"] > 0 and any(items(self.values("expect"))),
            "chunked": chunked,
            "length": int(lengths[0]) if lengths else None,
            "size": size,
        }

    def read(self) -> dict[str, Any] | None:
        """Return what is known of the head; None if more must come. Bad: it must be refused."""
        start = 0
        empty = 0
        seen = self.data[: self.head_max]
        while (end := seen.find(b"\n", start)) >= 0:
            line = seen[start:end]
            if self.facts is None and len(line) > self.line_max + 1:
                raise Bad(414)
            if not line.endswith(b"\r"):
                raise Bad(400)
            line = line[:-1]
            start = end + 1
            if self.facts is not None and not line:
                return self.finish(start)
            if self.facts is not None:
                self.add_field(line)
            elif line:
                self.facts = read_request_line(line)
            else:
                empty += 1
                if empty > EMPTY_LINES:
                    raise Bad(400)
        if self.facts is None and (len(seen) - start >= self.line_max + 2 or len(seen) >= self.head_max):
            raise Bad(414)
        if len(seen) >= self.head_max:
            raise Bad(431)
        return None


def judge(data: bytes, **limits: int) -> int | dict[str, Any]:
    """Return a status of 400 and more, 0 if more must come, or what is known of the head."""
    try:
        return Model(data, **limits).read() or 0
    except Bad as bad:
        return bad.status
