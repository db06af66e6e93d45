"""Rules of limits: what a request may be, to the byte, and that nothing has to end before it is too long."""

from __future__ import annotations

from tests.http.conformance.connections import interim
from tests.http.conformance.table import Case, ask, bad, chunked, good, rule
from tests.http.rig import post

TITLE = "Limits"

LINE = {"max_line": 100}
HEAD = {"max_head": 300}
FIELDS = {"max_fields": 5}
BODY = {"max_body": 10}
KEPT = {"max_body_kept": 10}
CL11 = "Content-Length: 11"


def line_of(size: int) -> bytes:
    """A request whose first line has so many bytes."""
    return ask(f"GET /{'a' * (size - 14)} HTTP/1.1")


def head_of(size: int) -> bytes:
    """A request whose head has so many bytes, with its last line."""
    filler = size - len(ask("GET / HTTP/1.1", "X: "))
    return ask("GET / HTTP/1.1", "X: " + "x" * filler)


def fields_of(count: int) -> bytes:
    """A request with so many fields."""
    return ask("GET / HTTP/1.1", *(f"X{number}: y" for number in range(count - 1)))


RULES = [
    rule(
        "9110, 15.5.15",
        "A request line that is too long is answered with 414.",
        good("as long as may be", line_of(100), f"GET /{'a' * 86} ", options=LINE),
        bad("a byte more", line_of(101), 414, options=LINE),
        bad("much more", line_of(5_000), 414, options=LINE),
        bad("no end in sight", b"GET /" + b"a" * 200, 414, options=LINE),
        bad("a method without end", b"A" * 200, 414, options=LINE),
        bad("spaces without end", b"GET " + b" " * 200, 414, options=LINE),
        bad("behind empty lines", b"\r\n\r\n" + line_of(101), 414, options=LINE),
        good("the limit by default", line_of(8_190), f"GET /{'a' * 8_176} "),
        bad("a byte more by default", line_of(8_191), 414),
        bad("no end in sight by default", b"GET /" + b"a" * 100_000, 414),
        bad("for a file", line_of(101), 414, options=LINE, world="files"),
    ),
    rule(
        "6585, 5",
        "A head that is too large is answered with 431, and never with 413.",
        good("as large as may be", head_of(300), "GET / ", options=HEAD),
        bad("a byte more", head_of(301), 431, options=HEAD),
        bad("much more", head_of(9_000), 431, options=HEAD),
        bad("no end in sight", ask("GET / HTTP/1.1")[:-2] + b"X: " + b"y" * 1_000, 431, options=HEAD),
        bad("a name without end", ask("GET / HTTP/1.1")[:-2] + b"X" * 1_000, 431, options=HEAD),
        bad("fields without end", ask("GET / HTTP/1.1")[:-2] + b"X: y\r\n" * 200, 431, options=HEAD),
        good("the limit by default", head_of(16_384), "GET / "),
        bad("a byte more by default", head_of(16_385), 431),
        bad("no end in sight by default", ask("GET / HTTP/1.1")[:-2] + b"X: " + b"y" * 100_000, 431),
        bad("behind a good one", head_of(300) + head_of(301), 431, "GET / ", options=HEAD),
        bad("for a file", head_of(301), 431, options=HEAD, world="files"),
    ),
    rule(
        "6585, 5",
        "Too many fields are answered with 431.",
        good("as many as may be", fields_of(5), "GET / ", options=FIELDS),
        bad("one more", fields_of(6), 431, options=FIELDS),
        good("the limit by default", fields_of(100), "GET / "),
        bad("one more by default", fields_of(101), 431),
        bad("a thousand", fields_of(1_000), 431),
        bad("the same one a thousand times", ask("GET / HTTP/1.1", *["X: y"] * 1_000), 431),
    ),
    rule(
        "9110, 15.5.14",
        "Content that is too large is answered with 413 as soon as that is known.",
        good("as large as may be", post("/", b"x" * 10), "POST / xxxxxxxxxx", options=BODY),
        bad("a byte more", post("/", b"x" * 11), 413, options=BODY),
        bad("announced and not sent", ask("POST / HTTP/1.1", CL11), 413, options=BODY),
        bad(
            "expected to go on",
            ask("POST / HTTP/1.1", "Expect: 100-continue", CL11),
            413,
            options=BODY,
            check=interim(),
        ),
        good(
            "a chunk as large as may be",
            chunked("/", b"a\r\n0123456789\r\n0\r\n\r\n"),
            "POST / 0123456789",
            options=BODY,
        ),
        bad("a chunk a byte more", chunked("/", b"b\r\n0123456789a\r\n0\r\n\r\n"), 413, options=BODY),
        bad("a chunk announced and not sent", chunked("/", b"b\r\n"), 413, options=BODY),
        bad("two chunks", chunked("/", b"5\r\n01234\r\n6\r\n567890\r\n0\r\n\r\n"), 413, options=BODY),
        good(
            "chunks up to the limit", chunked("/", b"1\r\nx\r\n" * 10 + b"0\r\n\r\n"), "POST / xxxxxxxxxx", options=BODY
        ),
        bad("chunks beyond it", chunked("/", b"1\r\nx\r\n" * 11 + b"0\r\n\r\n"), 413, options=BODY),
        good("none allowed and none sent", post("/", b""), "POST / ", options={"max_body": 0}),
        bad("none allowed and one sent", post("/", b"x"), 413, options={"max_body": 0}),
        good("kept up to a limit", post("/", b"x" * 10), "POST / xxxxxxxxxx", options=KEPT),
        bad("not kept beyond it", post("/", b"x" * 11), 413, options=KEPT),
        bad("chunks not kept beyond it", chunked("/", b"b\r\n0123456789a\r\n0\r\n\r\n"), 413, options=KEPT),
        bad("for a file", ask("GET /page.txt HTTP/1.1", CL11), 413, options=BODY, world="files"),
        Case("for a file up to the limit", post("/page.txt", b"x" * 10), (405,), options=BODY, world="files"),
    ),
]
