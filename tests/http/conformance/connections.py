"""Rules of connections: how long they last, what is asked in a row, what a client expects before it sends content."""

from __future__ import annotations

from tests.http.conformance.table import Case, Check, ask, bad, chunked, good, last, rule
from tests.http.rig import Answer, get, post

TITLE = "Connections"

COUNTS = (1, 2, 3, 10, 100, 1000)
EXPECT = "Expect: 100-continue"


def interim(*statuses: int) -> Check:
    """These came before the last answer but one."""

    def check(answers: list[Answer]) -> None:
        assert tuple(answers[0].interim) == statuses

    return check


def connection(value: str | None) -> Check:
    """What the first answer says of the connection."""

    def check(answers: list[Answer]) -> None:
        assert answers[0].field("Connection") == value

    return check


def asks(version: str, *values: str) -> bytes:
    return ask(f"GET / HTTP/{version}", *(f"Connection: {value}" for value in values))


def many(count: int, bad_at: int | None = None) -> Case:
    """So many requests for a program, perhaps with a bad one among them."""
    requests = [get(f"/{number}") for number in range(count)]
    asked = [f"GET /{number} " for number in range(count)]
    if bad_at is None:
        return good(f"{count:,} for a program", b"".join(requests), *asked)
    requests[bad_at] = b"GET / HTTP/1.1\r\nHost : test\r\n\r\n"
    return bad(f"{count:,}, number {bad_at + 1:,} bad", b"".join(requests), 400, *asked[:bad_at])


def files(count: int) -> Case:
    def check(answers: list[Answer]) -> None:
        assert {answer.body for answer in answers[:count]} == {b"0123456789" * 10}

    return Case(f"{count:,} for a file", get("/page.txt") * count, (200,) * count, world="files", check=check)


def mixed(count: int, bad_at: int | None = None) -> Case:
    """Files and a program by turns, with content and without, small and, if there are not too many, large."""
    large = ("large.bin", 65_536) if count <= 100 else ("page.txt", 100)
    wires = (get("/a"), get("/files/page.txt"), post("/b", b"hi"), get(f"/files/{large[0]}"), get("/files/nothing"))
    asks_of = ("GET /a ", None, "POST /b hi", None, None)
    sizes = (7, 100, 10, large[1], None)
    requests = [wires[number % 5] for number in range(count)]
    statuses = [404 if number % 5 == 4 else 200 for number in range(count)]
    end = count if bad_at is None else bad_at
    if bad_at is not None:
        requests[bad_at] = b"\0\r\n\r\n"
        statuses[bad_at:] = [400]
    asked = tuple(text for number in range(end) if (text := asks_of[number % 5]))

    def check(answers: list[Answer]) -> None:
        for number in range(end):
            size = sizes[number % 5]
            assert size is None or len(answers[number].body) == size

    name = f"{count:,} for files and a program" + ("" if bad_at is None else f", number {bad_at + 1:,} bad")
    return Case(name, b"".join(requests), tuple(statuses), asked, bad_at is None, "mixed", check=check)


def head_and_get(target: str, world: str, status: int = 200) -> Case:
    """HEAD and then GET of the same: the same fields, and no content."""

    def check(answers: list[Answer]) -> None:
        first, second = ([pair for pair in answer.fields if pair[0] != "Date"] for answer in answers[:2])
        assert first == second
        assert answers[1].field("Content-Length") == str(len(answers[1].body))

    sent = get(target, method="HEAD") + get(target)
    return Case(target, sent, (status, status), world=world, heads=(0,), check=check)


RULES = [
    rule(
        "9112, 9.3",
        "A connection of HTTP/1.1 goes on unless the client says otherwise.",
        good("nothing said", get(), "GET / ", check=connection(None), cuts=True),
        good("keep-alive", asks("1.1", "keep-alive"), "GET / "),
        good("another word", asks("1.1", "x"), "GET / "),
        good("empty", asks("1.1", ""), "GET / "),
        good("commas", asks("1.1", ", ,"), "GET / "),
        good("a word that begins like it", asks("1.1", "closed"), "GET / "),
        good("a word that ends like it", asks("1.1", "xclose"), "GET / "),
        good("another field", ask("GET / HTTP/1.1", "Proxy-Connection: close"), "GET / "),
        good("a field in a field's value", ask("GET / HTTP/1.1", "X: Connection: close"), "GET / "),
    ),
    rule(
        "9112, 9.6",
        "After `close` nothing more is looked at; the answer says so, and the connection ends.",
        *(
            last(name, asks("1.1", *values) + get("/hidden"), "GET / ", check=connection("close"))
            for name, values in {
                "close": ("close",),
                "capitals": ("CLOSE",),
                "mixed letters": ("Close",),
                "in a list": ("x, close",),
                "first of a list": ("close, x",),
                "amid a list": ("x,close,y",),
                "white space": ("\tclose ",),
                "with keep-alive": ("keep-alive, close",),
                "before keep-alive": ("close, keep-alive",),
                "on a line of its own": ("x", "close"),
                "keep-alive on a later line": ("close", "keep-alive"),
                "twice": ("close", "close"),
            }.items()
        ),
        last(
            "with content", ask("POST / HTTP/1.1", "Connection: close", "Content-Length: 2", content=b"ab"), "POST / ab"
        ),
        last("with chunks", chunked("/", b"2\r\nab\r\n0\r\n\r\n", "Connection: close"), "POST / ab"),
        Case("for a file", ask("GET /page.txt HTTP/1.1", "Connection: close"), (200,), kept=False, world="files"),
        Case("for no file", ask("GET /nothing HTTP/1.1", "Connection: close"), (404,), kept=False, world="files"),
    ),
    rule(
        "9112, 9.3",
        "A connection of HTTP/1.0 goes on only if the client asks for that, and then the answer says so.",
        last("nothing said", asks("1.0"), "GET / ", check=connection("close")),
        good("keep-alive", asks("1.0", "keep-alive"), "GET / ", check=connection("keep-alive")),
        good("other letters", asks("1.0", "Keep-Alive"), "GET / ", check=connection("keep-alive")),
        good("in a list", asks("1.0", "x, keep-alive"), "GET / ", check=connection("keep-alive")),
        good("on a line of its own", asks("1.0", "x", "keep-alive"), "GET / ", check=connection("keep-alive")),
        last("close", asks("1.0", "close"), "GET / "),
        last("both", asks("1.0", "keep-alive, close"), "GET / "),
        last("a word that is nearly that", asks("1.0", "keepalive"), "GET / "),
        last("another field", ask("GET / HTTP/1.0", "Proxy-Connection: keep-alive"), "GET / "),
        last("only the field Keep-Alive", ask("GET / HTTP/1.0", "Keep-Alive: timeout=5"), "GET / "),
        Case("a file", ask("GET /page.txt HTTP/1.0"), (200,), kept=False, world="files"),
        Case("a file, keep-alive", asks("1.0", "keep-alive"), (200,), world="files", check=connection("keep-alive")),
    ),
    rule(
        "9112, 9.3.2",
        "Requests that are sent in a row are answered in their order.",
        *(many(count) for count in COUNTS),
        *(files(count) for count in COUNTS),
        *(mixed(count) for count in COUNTS),
        good(
            "with content",
            post("/1", b"a") + chunked("/2", b"1\r\nb\r\n0\r\n\r\n") + get("/3"),
            "POST /1 a",
            "POST /2 b",
            "GET /3 ",
        ),
        Case(
            "HEAD among them",
            get("/a", method="HEAD") + get("/b") + get("/c", method="HEAD"),
            (200, 200, 200),
            ("HEAD /a ", "GET /b ", "HEAD /c "),
            heads=(0, 2),
        ),
    ),
    rule(
        "9112, 2.2",
        "A bad request is answered after the good ones before it, and nothing behind it is looked at.",
        many(2, 1),
        many(3, 1),
        many(1000, 500),
        many(1000, 999),
        mixed(10, 5),
        mixed(1000, 500),
        Case(
            "among files",
            get("/page.txt") * 3 + b"X\r\n\r\n" + get("/page.txt"),
            (200, 200, 200, 400),
            kept=False,
            world="files",
        ),
        bad("behind a good head", get("/1") + ask("GET / HTTP/1.1", "X : y") + get("/2"), 400, "GET /1 "),
        bad("behind content", post("/1", b"ab") + b"junk\r\n\r\n", 400, "POST /1 ab"),
        Case("closed before it", asks("1.1", "close") + b"junk\r\n\r\n", (200,), ("GET / ",), kept=False),
    ),
    rule(
        "9110, 10.1.1",
        "100 is sent to who expects it, if the content is wanted, and only then.",
        good(
            "with a length",
            ask("POST / HTTP/1.1", EXPECT, "Content-Length: 2", content=b"ab"),
            "POST / ab",
            check=interim(100),
            cuts=True,
        ),
        good("with chunks", chunked("/", b"2\r\nab\r\n0\r\n\r\n", EXPECT), "POST / ab", check=interim(100)),
        good(
            "other letters",
            ask("POST / HTTP/1.1", "expect: 100-CONTINUE", "Content-Length: 1", content=b"a"),
            "POST / a",
            check=interim(100),
        ),
        good(
            "not for HTTP/1.0",
            ask("POST / HTTP/1.0", "Connection: keep-alive", EXPECT, "Content-Length: 1", content=b"a"),
            "POST / a",
            check=interim(),
        ),
        good("not without content", ask("POST / HTTP/1.1", EXPECT), "POST / ", check=interim()),
        good("not for a length of 0", ask("POST / HTTP/1.1", EXPECT, "Content-Length: 0"), "POST / ", check=interim()),
        good("not where nothing is expected", post("/", b"a"), "POST / a", check=interim()),
        bad(
            "not if it is too large",
            ask("POST / HTTP/1.1", EXPECT, "Content-Length: 99999999999"),
            413,
            check=interim(),
        ),
        Case(
            "not for a file",
            ask("POST /page.txt HTTP/1.1", EXPECT, "Content-Length: 9"),
            (405,),
            kept=False,
            world="files",
            check=interim(),
        ),
        Case(
            "not for a file that is read",
            ask("GET /page.txt HTTP/1.1", EXPECT, "Content-Length: 9"),
            (200,),
            kept=False,
            world="files",
            check=interim(),
        ),
        Case(
            "not for no file",
            ask("GET /nothing HTTP/1.1", EXPECT, "Content-Length: 9"),
            (404,),
            kept=False,
            world="files",
            check=interim(),
        ),
    ),
    rule(
        "9110, 10.1.1",
        "Another expectation is answered with 417.",
        bad("a word", ask("GET / HTTP/1.1", "Expect: x"), 417),
        bad("one of two", ask("GET / HTTP/1.1", "Expect: 100-continue, x"), 417),
        bad("nearly that", ask("GET / HTTP/1.1", "Expect: 100-continued"), 417),
        bad("with a value", ask("GET / HTTP/1.1", "Expect: 100-continue=1"), 417),
        bad("for a file", ask("GET /page.txt HTTP/1.1", "Expect: x"), 417, world="files"),
        last("ignored in HTTP/1.0", ask("GET / HTTP/1.0", "Expect: x"), "GET / "),
    ),
    rule(
        "9110, 9.3.2",
        "HEAD is answered like GET, without content.",
        head_and_get("/page.txt", "files"),
        head_and_get("/large.bin", "files"),
        head_and_get("/", "files"),
        head_and_get("/empty.txt", "files"),
        head_and_get("/nothing", "files", 404),
        head_and_get("/sub", "files", 301),
        head_and_get("/%", "files", 400),
        Case("a program", get("/", method="HEAD"), (200,), ("HEAD / ",), heads=(0,)),
        Case("a program that fails to be found", get("/files/x", method="HEAD"), (404,), world="mixed", heads=(0,)),
    ),
    rule(
        "9110, 9.3.2",
        "HEAD gets no content with an error either, as far as the method can be known.",
        *(
            bad(name, sent, status, heads=(0,))
            for name, sent, status in (
                ("no Host", b"HEAD / HTTP/1.1\r\n\r\n", 400),
                ("a bad field", ask("HEAD / HTTP/1.1", "X : y"), 400),
                ("an unknown coding", ask("HEAD / HTTP/1.1", "Transfer-Encoding: x"), 501),
                ("another expectation", ask("HEAD / HTTP/1.1", "Expect: x"), 417),
                ("a head too large", ask("HEAD / HTTP/1.1", "X: " + "y" * 20_000), 431),
                ("too many fields", ask("HEAD / HTTP/1.1", *["X: y"] * 200), 431),
                ("content too large", ask("HEAD / HTTP/1.1", "Content-Length: 99999999999"), 413),
                ("a bad chunk", ask("HEAD / HTTP/1.1", "Transfer-Encoding: chunked", content=b"x\r\n"), 400),
                ("another version", ask("HEAD / HTTP/2.0"), 505),
            )
        ),
    ),
]
