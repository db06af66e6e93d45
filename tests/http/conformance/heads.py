"""Rules of the head of a request: lines, versions, methods, fields."""

from __future__ import annotations

from tests.http.conformance.table import Case, Check, ask, bad, chunked, field_bad, field_good, good, rule
from tests.http.rig import Answer, get, post

TITLE = "Heads"


def field_value(value: str) -> Check:
    """The program was given this value of X-Field."""

    def check(answers: list[Answer]) -> None:
        assert answers[0].field("X-Field") == value

    return check


def allow(answers: list[Answer]) -> None:
    """Allow names what can be done with a file."""
    listed = (answers[0].field("Allow") or "").replace(" ", "").split(",")
    assert {"GET", "HEAD"} <= set(listed) <= {"GET", "HEAD", "OPTIONS"}


def for_files(name: str, sent: bytes, status: int, check: Check | None = None) -> Case:
    """What is asked of files, which know few methods; the connection goes on."""
    return Case(name, sent, (status,), world="files", check=check)


VISIBLE = "".join(map(chr, range(33, 127)))
UNKNOWN = ("BREW", "get", "GETT", "GE", "head", "PROPFIND", "X" * 300)
NOT_ALLOWED = ("POST", "PUT", "DELETE", "PATCH", "TRACE")
CONNECT = b"CONNECT test:443 HTTP/1.1\r\nHost: test:443\r\n\r\n"

LINES = [
    rule(
        "9112, 2.2",
        "Lines end with CR LF; a bare LF is refused, because who reads it as an end and who does not see two requests.",
        bad("LF behind the request line", b"GET / HTTP/1.1\nHost: test\r\n\r\n", cuts=True),
        bad("LF behind a field", b"GET / HTTP/1.1\r\nHost: test\nX: y\r\n\r\n"),
        bad("LF behind the last field", b"GET / HTTP/1.1\r\nHost: test\n\r\n"),
        bad("LF as the empty line", b"GET / HTTP/1.1\r\nHost: test\r\n\n"),
        bad("LF everywhere", b"GET / HTTP/1.1\nHost: test\n\n"),
        bad("LF within a value", b"GET / HTTP/1.1\r\nHost: test\r\nX: a\nTransfer-Encoding: chunked\r\n\r\n"),
        bad("LF before the request line", b"\nGET / HTTP/1.1\r\nHost: test\r\n\r\n"),
        bad("LF CR", b"GET / HTTP/1.1\n\rHost: test\n\r\n\r"),
    ),
    rule(
        "9112, 2.2",
        "A bare CR is refused.",
        bad("in the request line", b"GET /\r HTTP/1.1\r\nHost: test\r\n\r\n"),
        bad("instead of CR LF", b"GET / HTTP/1.1\rHost: test\r\n\r\n"),
        bad("in a name", b"GET / HTTP/1.1\r\nHo\rst: test\r\n\r\n"),
        bad("in a value", b"GET / HTTP/1.1\r\nHost: test\r\nX: a\rb\r\n\r\n", cuts=True),
        bad("a line within a line", b"GET / HTTP/1.1\r\nHost: test\r\nX: a\rContent-Length: 5\r\n\r\n"),
        bad("twice before LF", b"GET / HTTP/1.1\r\nHost: test\r\r\n\r\n"),
        bad("twice before the last LF", b"GET / HTTP/1.1\r\nHost: test\r\n\r\r\n"),
        bad("before the colon", b"GET / HTTP/1.1\r\nHost\r: test\r\n\r\n"),
        bad("behind the version", b"GET / HTTP/1.1\r\r\nHost: test\r\n\r\n"),
    ),
    rule(
        "9112, 2.2",
        "At least one empty line before a request line is skipped; a few are, many are not.",
        good("one", b"\r\n" + get(), "GET / ", cuts=True),
        good("four", b"\r\n" * 4 + get(), "GET / "),
        good("between two requests", get("/1") + b"\r\n" + get("/2"), "GET /1 ", "GET /2 "),
        good("behind content", ask("POST / HTTP/1.1", "Content-Length: 2", content=b"ab\r\n"), "POST / ab"),
        bad("five", b"\r\n" * 5 + get()),
        bad("a thousand", b"\r\n" * 1000 + get()),
    ),
    rule(
        "9112, 2.2",
        "White space between the request line and the first field is refused.",
        bad("space", b"GET / HTTP/1.1\r\n Host: test\r\n\r\n"),
        bad("tab", b"GET / HTTP/1.1\r\n\tHost: test\r\n\r\n"),
        bad("a line of spaces", b"GET / HTTP/1.1\r\n  \r\nHost: test\r\n\r\n"),
    ),
    rule(
        "9112, 3",
        "The request line is method, one space, target, one space, version.",
        bad("two spaces before the target", ask("GET  / HTTP/1.1")),
        bad("two spaces before the version", ask("GET /  HTTP/1.1")),
        bad("tabs", ask("GET\t/\tHTTP/1.1")),
        bad("a space before it", ask(" GET / HTTP/1.1")),
        bad("a space behind it", ask("GET / HTTP/1.1 ")),
        bad("no target", ask("GET HTTP/1.1")),
        bad("an empty target", ask("GET  HTTP/1.1")),
        bad("no method", ask("/ HTTP/1.1")),
        bad("a method alone", ask("GET")),
        bad("four words", ask("GET / x HTTP/1.1")),
        bad("vertical tab", ask("GET\x0b/ HTTP/1.1")),
        bad("form feed", ask("GET /\x0cHTTP/1.1")),
        bad("a no-break space", ask("GET\xa0/ HTTP/1.1")),
        bad("TLS spoken to a plain port", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
        bad("noise", b"\x00\xff\x80\r\n\r\n"),
    ),
]

VERSIONS = [
    rule(
        "9112, 2.3",
        "The version is `HTTP/` digit `.` digit, in capitals.",
        *(
            bad(name, b"GET / " + text + b"\r\nHost: test\r\n\r\n")
            for name, text in {
                "small letters": b"http/1.1",
                "mixed letters": b"Http/1.1",
                "two digits": b"HTTP/1.10",
                "a leading zero": b"HTTP/01.1",
                "no point": b"HTTP/11",
                "a comma": b"HTTP/1,1",
                "no minor": b"HTTP/1.",
                "no major": b"HTTP/.1",
                "only a major": b"HTTP/1",
                "a letter behind": b"HTTP/1.1x",
                "a letter": b"HTTP/1.x",
                "a sign": b"HTTP/+1.1",
                "a space within": b"HTTP/ 1.1",
                "another protocol": b"HTTPS/1.1",
                "ICY": b"ICY/1.1",
                "NUL": b"HTTP/1.1\x00",
                "a hexadecimal digit": b"HTTP/1.a",
            }.items()
        ),
    ),
    rule(
        "9110, 2.5",
        "A minor version that is not known is served as the highest that is; answers are of HTTP/1.1.",
        *(good(f"1.{minor}", ask(f"GET / HTTP/1.{minor}"), "GET / ") for minor in (1, 2, 3, 9)),
        good("1.0", ask("GET / HTTP/1.0", "Connection: keep-alive"), "GET / "),
    ),
    rule(
        "9110, 15.6.6",
        "A major version that is not supported is answered with 505.",
        *(bad(version, ask(f"GET / HTTP/{version}"), 505) for version in ("0.0", "0.9", "2.0", "2.1", "3.0", "9.9")),
        bad("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        bad("1.1 is not of the future", ask("GET / HTTP/7.1", "Content-Length: x"), 505),
    ),
    rule(
        "9112, 2.3",
        "HTTP/0.9 is refused.",
        bad("a simple request", b"GET /\r\n"),
        bad("with fields", b"GET /\r\nHost: test\r\n\r\n"),
        bad("another method", b"POST /\r\n\r\n"),
    ),
]

METHODS = [
    rule(
        "9110, 9.1",
        "Methods are tokens, told apart by the case of their letters; a program gets every one of them.",
        *(
            good(name, ask(f"{name} /x HTTP/1.1"), f"{name} /x ")
            for name in ("GET", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "get", "Get", "BREW", "M-SEARCH")
        ),
        good("every character of a token", ask("!#$%&'*+-.^_`|~aZ9 / HTTP/1.1"), "!#$%&'*+-.^_`|~aZ9 / "),
        good("a long one", ask("A" * 300 + " / HTTP/1.1"), "A" * 300 + " / "),
        *(
            bad(name, b"G" + byte + b"T / HTTP/1.1\r\nHost: test\r\n\r\n")
            for name, byte in {
                "a bracket": b"(",
                "a colon": b":",
                "a slash": b"/",
                "NUL": b"\x00",
                "a quote": b'"',
                "beyond ASCII": b"\xc9",
                "DEL": b"\x7f",
                "a comma": b",",
            }.items()
        ),
    ),
    rule(
        "9110, 9.1",
        "A method that is not known is answered with 501, one that is known and not allowed with 405 and Allow.",
        *(for_files(name, ask(f"{name} /page.txt HTTP/1.1"), 501) for name in UNKNOWN),
        *(for_files(name, ask(f"{name} /page.txt HTTP/1.1"), 405, allow) for name in NOT_ALLOWED),
        for_files("POST with content", post("/page.txt", b"abc"), 405, allow),
        for_files("POST with chunks", chunked("/page.txt", b"3\r\nabc\r\n0\r\n\r\n"), 405, allow),
        for_files("an unknown one with content", ask("BREW / HTTP/1.1", "Content-Length: 3", content=b"abc"), 501),
        bad("CONNECT", CONNECT, 405, check=allow),
        bad("CONNECT for files", CONNECT, 405, world="files", check=allow),
        for_files("OPTIONS of a file", ask("OPTIONS /page.txt HTTP/1.1"), 204, allow),
        for_files("OPTIONS of the server", ask("OPTIONS * HTTP/1.1"), 204, allow),
    ),
]

NAMES = {
    "empty": b"",
    "a space": b"X Y",
    "a space before it": b" X",
    "a bracket": b"X(Y",
    "a slash": b"X/Y",
    "an at sign": b"X@Y",
    "a quote": b'X"Y',
    "a comma": b"X,Y",
    "a semicolon": b"X;Y",
    "an equals sign": b"X=Y",
    "a question mark": b"X?Y",
    "a backslash": b"X\\Y",
    "braces": b"{X}",
    "square brackets": b"[X]",
    "NUL": b"X\x00Y",
    "a control character": b"X\x01Y",
    "DEL": b"X\x7fY",
    "beyond ASCII": b"X\xc3\xbcY",
    "vertical tab": b"X\x0b",
}

FIELDS = [
    rule(
        "9112, 5.1",
        "No white space stands between a name and its colon.",
        field_bad("space", "X : y", cuts=True),
        field_bad("tab", "X\t: y"),
        field_bad("several", "X \t : y"),
        field_bad("Content-Length", "Content-Length : 5"),
        field_bad("Transfer-Encoding", "Transfer-Encoding : chunked"),
        bad("Host", ask("GET / HTTP/1.1", "Host : test", host=False)),
        field_bad("form feed", b"X\x0c: y"),
        field_bad("a no-break space", b"X\xa0: y"),
    ),
    rule(
        "9110, 5.1",
        "Names of fields are tokens.",
        *(field_bad(name, text + b": y") for name, text in NAMES.items()),
        field_bad("no colon", "X"),
        field_bad("only a colon", ":"),
        field_good("every character of a token", "!#$%&'*+-.^_`|~aZ9: y"),
        field_good("a long one", "X" * 4000 + ": y"),
    ),
    rule(
        "9110, 5.1",
        "The case of letters in names means nothing.",
        good("host", b"GET / HTTP/1.1\r\nhOsT: test\r\n\r\n", "GET / "),
        good("length", ask("POST / HTTP/1.1", "CONTENT-length: 2", content=b"ab"), "POST / ab"),
        good("coding", ask("POST / HTTP/1.1", "tRANSFER-eNCODING: chunked", content=b"0\r\n\r\n"), "POST / "),
        field_good("any", "x-FIELD: y", check=field_value("y")),
    ),
    rule(
        "9110, 5.5",
        "NUL, CR, LF and other control characters in values are refused; tabs and what lies beyond ASCII are not.",
        *(field_bad(f"byte {code:#04x}", b"X: a" + bytes((code,)) + b"b") for code in (*range(9), *range(11, 32), 127)),
        field_bad("NUL at the end", b"X: a\x00"),
        field_bad("NUL at the beginning", b"X: \x00a"),
        field_good("tab", "X-Field: a\tb", check=field_value("a\tb")),
        field_good("Latin", b"X-Field: \xe4", check=field_value("\xe4")),
        field_good("UTF-8", b"X-Field: \xc3\xa4", check=field_value("\xc3\xa4")),
        field_good("every visible character", "X-Field: " + VISIBLE, check=field_value(VISIBLE)),
    ),
    rule(
        "9112, 5.1",
        "White space around a value does not belong to it, and a value may be empty.",
        field_good("none", "X-Field:y", check=field_value("y")),
        field_good("around", "X-Field: \t  y \t ", check=field_value("y")),
        field_good("within", "X-Field:  a  b  ", check=field_value("a  b")),
        field_good("empty", "X-Field:", check=field_value("")),
        field_good("nothing but white space", "X-Field: \t ", check=field_value("")),
        good("around a length", ask("POST / HTTP/1.1", "Content-Length: \t2 \t", content=b"ab"), "POST / ab"),
        good(
            "around a coding", ask("POST / HTTP/1.1", "Transfer-Encoding:\tchunked ", content=b"0\r\n\r\n"), "POST / "
        ),
        field_good("a colon in it", "X-Field: a:b", check=field_value("a:b")),
    ),
    rule(
        "9112, 5.2",
        "A field that is folded over several lines is refused.",
        field_bad("space", "X: a\r\n b", cuts=True),
        field_bad("tab", "X: a\r\n\tb"),
        field_bad("an empty fold", "X: a\r\n \r\nY: z"),
        field_bad("a coding", "Transfer-Encoding:\r\n chunked"),
        field_bad("a length", "Content-Length:\r\n 5"),
        field_bad("a name that begins with a space", "X: a\r\n Content-Length: 5"),
        bad("Host", ask("GET / HTTP/1.1", "Host:\r\n test", host=False)),
    ),
    rule(
        "9110, 5.3",
        "Fields of one name are one list, in their order.",
        good("two", ask("GET / HTTP/1.1", "X-Field: a", "X: y", "x-field: b"), "GET / ", check=field_value("a, b")),
    ),
]

RULES = [*LINES, *VERSIONS, *METHODS, *FIELDS]
