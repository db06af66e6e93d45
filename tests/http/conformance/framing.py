"""Rules of where a request ends: lengths, codings, chunks, trailers. Every doubt here is somebody's attack."""

from __future__ import annotations

from tests.http.conformance.table import Case, ask, bad, chunked, field_bad, good, last, rule
from tests.http.rig import get, post

TITLE = "Framing"

END = b"0\r\n\r\n"
HELLO = b"5\r\nhello\r\n"
HIDDEN = b"GET /hidden HTTP/1.1\r\nHost: test\r\n\r\n"


def length_bad(name: str, *values: str | bytes, status: int = 400) -> Case:
    lines = [b"Content-Length: " + (value if isinstance(value, bytes) else value.encode()) for value in values]
    return bad(name, ask("POST / HTTP/1.1", *lines, content=b"hello"), status)


def coding_bad(name: str, *values: str | bytes, status: int = 400) -> Case:
    lines = [b"Transfer-Encoding: " + (value if isinstance(value, bytes) else value.encode()) for value in values]
    return bad(name, ask("POST / HTTP/1.1", *lines, content=HELLO + END), status)


def coding_good(name: str, line: str) -> Case:
    return good(name, chunked("/", HELLO + END, coding=line), "POST / hello")


def chunks_bad(name: str, content: bytes, status: int = 400, cuts: bool = False) -> Case:
    return bad(name, chunked("/", content), status, cuts=cuts)


def chunks_good(name: str, content: bytes, asked: str = "hello", cuts: bool = False) -> Case:
    return good(name, chunked("/", content), f"POST / {asked}", cuts=cuts)


def both(name: str, *lines: str | bytes) -> Case:
    return bad(name, ask("POST / HTTP/1.1", *lines, content=END + HIDDEN))


NO_NUMBERS: dict[str, str | bytes] = {
    "a plus sign": "+5",
    "a minus sign": "-5",
    "minus zero": "-0",
    "a space within": "5 5",
    "hexadecimal": "0x5",
    "a letter": "5a",
    "a letter before": "a5",
    "a point": "5.0",
    "an exponent": "5e0",
    "empty": "",
    "a comma": ",",
    "a comma behind": "5,",
    "a comma before": ",5",
    "two commas": "5,,5",
    "a semicolon": "5;",
    "a quote": '"5"',
    "a word": "five",
    "an underscore": "1_0",
    "Arabic digits": b"\xd9\xa5",
    "a superscript": b"\xb2",
    "full width": b"\xef\xbc\x95",
    "NUL": b"5\0",
    "a vertical tab": b"\x0b5",
    "a form feed": b"5\x0c",
    "a no-break space": b"\xa05",
    "in brackets": "(5)",
    "a bare CR": b"5\r",
}

LENGTHS = [
    rule(
        "9112, 6.3",
        "Content of a length ends exactly there, and what follows is the next request.",
        good("none", ask("POST / HTTP/1.1"), "POST / "),
        good("zero", post("/", b""), "POST / "),
        good("one", post("/", b"a"), "POST / a"),
        good("five", post("/", b"hello"), "POST / hello", cuts=True),
        good("content that looks like a request", post("/", HIDDEN), "POST / " + HIDDEN.decode()),
        good("content that looks like a chunk", post("/", HELLO + END), "POST / 5\r\nhello\r\n0\r\n\r\n"),
        good(
            "content of a GET",
            ask("GET / HTTP/1.1", "Content-Length: 36", content=HIDDEN),
            "GET / " + HIDDEN.decode()[:36],
        ),
        good(
            "shorter than what was sent",
            ask("POST / HTTP/1.1", "Content-Length: 3", content=b"abc" + HIDDEN),
            "POST / abc",
            "GET /hidden ",
        ),
        good("leading zeros", ask("POST / HTTP/1.1", "Content-Length: 0005", content=b"hello"), "POST / hello"),
        good(
            "a field whose name is nearly that",
            ask("POST / HTTP/1.1", "Content_Length: 5", "Content-Length: 2", content=b"ab"),
            "POST / ab",
        ),
        good(
            "of HTTP/1.0",
            ask("POST / HTTP/1.0", "Connection: keep-alive", "Content-Length: 2", content=b"ab"),
            "POST / ab",
        ),
        last("none in HTTP/1.0", ask("POST / HTTP/1.0"), "POST / "),
        Case(
            "content for a file",
            ask("GET /page.txt HTTP/1.1", "Content-Length: 36", content=HIDDEN),
            (200,),
            world="files",
        ),
        Case("content that no file takes", post("/page.txt", HIDDEN), (405,), world="files"),
        Case("content for what is not there", post("/nothing", HIDDEN), (405,), world="files"),
        Case(
            "content for the server",
            ask("OPTIONS * HTTP/1.1", "Content-Length: 36", content=HIDDEN),
            (204,),
            world="files",
        ),
    ),
    rule(
        "9110, 8.6",
        "A Content-Length that is not digits is refused.",
        *(length_bad(name, value) for name, value in NO_NUMBERS.items()),
    ),
    rule(
        "9112, 6.3",
        "A Content-Length that is larger than any number we count with is refused, not cut.",
        length_bad("2^63", "9223372036854775808"),
        length_bad("2^64", "18446744073709551616"),
        length_bad("2^64 + 5", "18446744073709551621"),
        length_bad("2^32 + 5", "4294967301", status=413),
        length_bad("2^63 - 1", "9223372036854775807", status=413),
        length_bad("2^128", str(1 << 128)),
        length_bad("a thousand digits", "9" * 1000),
        good(
            "a thousand zeros",
            ask("POST / HTTP/1.1", "Content-Length: " + "0" * 1000 + "5", content=b"hello"),
            "POST / hello",
        ),
    ),
    rule(
        "9112, 6.3",
        "Several values of Content-Length are the same, or the request is refused.",
        length_bad("two that differ", "5", "6"),
        length_bad("the first zero", "0", "5"),
        length_bad("the last zero", "5", "0"),
        length_bad("three, one differs", "5", "5", "6"),
        length_bad("a list that differs", "5, 6"),
        length_bad("a list without spaces", "5,6"),
        length_bad("one of them is no number", "5", "x"),
        length_bad("one of them is empty", "5", ""),
        length_bad("one of them has a sign", "5", "+5"),
        good(
            "two that are the same",
            ask("POST / HTTP/1.1", "Content-Length: 5", "Content-Length: 5", content=b"hello"),
            "POST / hello",
        ),
        good("a list of the same", ask("POST / HTTP/1.1", "Content-Length: 5, 5", content=b"hello"), "POST / hello"),
    ),
]

CODINGS = [
    rule(
        "9112, 6.1",
        "The transfer coding chunked is understood, whatever the case of its letters.",
        coding_good("small letters", "Transfer-Encoding: chunked"),
        coding_good("capitals", "TRANSFER-ENCODING: CHUNKED"),
        coding_good("mixed", "Transfer-encoding: cHuNkEd"),
        coding_good("no space", "Transfer-Encoding:chunked"),
        coding_good("a tab", "Transfer-Encoding:\tchunked\t"),
        coding_good("empty items of the list", "Transfer-Encoding: , chunked, ,"),
        good("for a GET", ask("GET / HTTP/1.1", "Transfer-Encoding: chunked", content=HELLO + END), "GET / hello"),
        Case(
            "for a file",
            ask("GET /page.txt HTTP/1.1", "Transfer-Encoding: chunked", content=HELLO + END),
            (200,),
            world="files",
        ),
        Case("for no file", chunked("/page.txt", HELLO + END), (405,), world="files"),
    ),
    rule(
        "9112, 6.1",
        "A transfer coding that is not understood is answered with 501, and the connection ends.",
        *(
            coding_bad(value, value, status=501)
            for value in (
                "gzip",
                "deflate",
                "identity",
                "compress",
                "x-gzip",
                "cow",
                "xchunked",
                "chunkedx",
                "chunke",
                "gzip, chunked",
            )
        ),
        bad("for a file", ask("GET /page.txt HTTP/1.1", "Transfer-Encoding: gzip"), 501, world="files"),
    ),
    rule(
        "9112, 7.1",
        "Chunked is applied once and last, without parameters.",
        coding_bad("twice", "chunked, chunked"),
        coding_bad("twice, in two fields", "chunked", "chunked"),
        coding_bad("not last", "chunked, gzip"),
        coding_bad("identity behind it", "chunked, identity"),
        coding_bad("identity behind it, in a field of its own", "chunked", "identity"),
        coding_bad("a word behind it", "chunked", "x"),
        coding_bad("a parameter", "chunked;q=1"),
        coding_bad("an empty parameter", "chunked;"),
        coding_bad("quoted", '"chunked"'),
        coding_bad("quoted by single ones, with a space", "chunked '"),
        coding_bad("two words", "chunked chunked"),
        coding_bad("empty", ""),
        coding_bad("a comma", ","),
        coding_bad("NUL behind it", b"chunked\0"),
        coding_bad("a vertical tab before it", b"\x0bchunked"),
        coding_bad("a form feed behind it", b"chunked\x0c"),
        coding_bad("a bare CR before it", b"\rchunked"),
        coding_bad("a no-break space before it", b"\xa0chunked"),
        coding_bad("UTF-8 that some fold to ASCII", b"chun\xe2\x84\xaaed"),
        coding_bad("a colon", ": chunked"),
        coding_bad("in brackets", "(chunked)"),
        coding_bad("a slash", "chunked/1"),
    ),
    rule(
        "9112, 6.1",
        "Transfer-Encoding and Content-Length together are refused, and the connection ends.",
        both("length first", "Content-Length: 5", "Transfer-Encoding: chunked"),
        both("coding first", "Transfer-Encoding: chunked", "Content-Length: 5"),
        both("a length of zero", "Content-Length: 0", "Transfer-Encoding: chunked"),
        both("apart", "Transfer-Encoding: chunked", "X: y", "Content-Length: 40"),
        both("other letters", "TRANSFER-ENCODING: Chunked", "content-length: 5"),
        both("a space before the colon of the coding", "Content-Length: 5", "Transfer-Encoding : chunked"),
        both("a space before the colon of the length", "Content-Length : 5", "Transfer-Encoding: chunked"),
        both("a folded coding", "Content-Length: 5", "X: y\r\n Transfer-Encoding: chunked"),
        both("a coding behind a bare LF", "Content-Length: 5", "X: y\nTransfer-Encoding: chunked"),
        both("a coding behind a bare CR", "Content-Length: 5", "X: y\rTransfer-Encoding: chunked"),
        both("a coding behind NUL", "Content-Length: 5", "X: y\0Transfer-Encoding: chunked"),
        both("a name with NUL", "Content-Length: 5", "Transfer-Encoding\0: chunked"),
        both("a name with a tab", "Content-Length: 5", "Transfer-Encoding\t: chunked"),
        both("a quoted coding", "Content-Length: 5", 'Transfer-Encoding: "chunked"'),
        Case(
            "an unknown coding",
            ask("POST / HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: xchunked", content=END),
            (501,),
            kept=False,
        ),
        bad(
            "for a file",
            ask("GET /page.txt HTTP/1.1", "Content-Length: 5", "Transfer-Encoding: chunked", content=END),
            world="files",
        ),
    ),
    rule(
        "9112, 6.1",
        "A field that is nearly Transfer-Encoding is just a field: the length counts.",
        *(
            good(line, ask("POST / HTTP/1.1", "Content-Length: 5", line, content=END), "POST / 0\r\n\r\n")
            for line in (
                "Transfer_Encoding: chunked",
                "TransferEncoding: chunked",
                "X-Transfer-Encoding: chunked",
                "Transfer-Encodin: chunked",
                "TE: chunked",
                "Content-Encoding: chunked",
            )
        ),
    ),
    rule(
        "9112, 6.1",
        "HTTP/1.0 knows no transfer coding: a request with one is refused.",
        bad("chunked", ask("POST / HTTP/1.0", "Transfer-Encoding: chunked", content=END)),
        bad("to be kept", ask("POST / HTTP/1.0", "Connection: keep-alive", "Transfer-Encoding: chunked", content=END)),
        bad("with a length", ask("POST / HTTP/1.0", "Content-Length: 5", "Transfer-Encoding: chunked", content=END)),
        bad("identity", ask("GET / HTTP/1.0", "Transfer-Encoding: identity")),
    ),
]

CHUNKS = [
    rule(
        "9112, 7.1",
        "Chunks are put together, up to the last one.",
        chunks_good("one", HELLO + END, cuts=True),
        chunks_good("none", END, ""),
        chunks_good("two", b"2\r\nhe\r\n3\r\nllo\r\n" + END),
        chunks_good("many", b"1\r\nx\r\n" * 200 + END, "x" * 200),
        chunks_good("leading zeros", b"0005\r\nhello\r\n" + END),
        chunks_good("several zeros at the end", HELLO + b"000\r\n\r\n"),
        chunks_good("hexadecimal, small", b"a\r\n0123456789\r\n" + END, "0123456789"),
        chunks_good("hexadecimal, capitals", b"A\r\n0123456789\r\n" + END, "0123456789"),
        chunks_good("ends of lines as content", b"4\r\n\r\n\r\n\r\n" + END, "\r\n\r\n"),
        chunks_good("content that looks like the end", b"5\r\n0\r\n\r\n\r\n" + END, "0\r\n\r\n"),
        chunks_good(
            "content that looks like a request", b"%x\r\n%b\r\n0\r\n\r\n" % (len(HIDDEN), HIDDEN), HIDDEN.decode()
        ),
    ),
    rule(
        "9112, 7.1",
        "The size of a chunk is hexadecimal digits and nothing else.",
        *(
            chunks_bad(name, value + b"\r\nhello\r\n" + END)
            for name, value in {
                "a prefix": b"0x5",
                "a plus sign": b"+5",
                "a minus sign": b"-5",
                "a space before": b" 5",
                "a tab before": b"\t5",
                "a space behind": b"5 ",
                "a tab behind": b"5\t",
                "empty": b"",
                "a letter beyond f": b"g",
                "a letter behind": b"5g",
                "h": b"5h",
                "a point": b"5.0",
                "a comma": b"5,",
                "an underscore": b"0_5",
                "a quote": b'"5"',
                "NUL": b"5\0",
                "a bare CR": b"5\r",
                "a vertical tab": b"5\x0b",
                "a no-break space": b"5\xa0",
                "Arabic digits": b"\xd9\xa5",
                "two sizes": b"5 5",
                "an equals sign": b"5=",
                "a colon": b"5:",
            }.items()
        ),
    ),
    rule(
        "9112, 7.1",
        "A size that is larger than any number we count with is refused, not cut.",
        chunks_bad("2^64", b"10000000000000000\r\nhello\r\n" + END),
        chunks_bad("2^64 + 5", b"10000000000000005\r\nhello\r\n" + END),
        chunks_bad("2^128 + 5", b"1" + b"0" * 31 + b"5\r\nhello\r\n" + END),
        chunks_bad("2^64 - 1", b"ffffffffffffffff\r\nhello\r\n" + END, 413),
        chunks_bad("2^63", b"8000000000000000\r\nhello\r\n" + END, 413),
        chunks_bad("2^63 - 1", b"7fffffffffffffff\r\nhello\r\n" + END, 413),
        chunks_bad("2^32 + 5", b"100000005\r\nhello\r\n" + END, 413),
        chunks_bad("the sum of two", b"5\r\nhello\r\nfffffffffffffffb\r\nhello\r\n" + END, 413),
        chunks_bad("zeros without end", b"0" * 400 + b"5\r\nhello\r\n" + END),
    ),
    rule(
        "9112, 7.1",
        "Every line of the coding ends with CR LF.",
        chunks_bad("LF behind a size", b"5\nhello\r\n" + END, cuts=True),
        chunks_bad("CR behind a size", b"5\rhello\r\n" + END),
        chunks_bad("LF behind content", b"5\r\nhello\n" + END),
        chunks_bad("CR behind content", b"5\r\nhello\r" + END),
        chunks_bad("nothing behind content", b"5\r\nhello" + END),
        chunks_bad("more content than the size", b"5\r\nhello!\r\n" + END),
        chunks_bad("less content than the size", b"6\r\nhello\r\n" + END),
        chunks_bad("LF behind the last size", HELLO + b"0\n\r\n"),
        chunks_bad("LF as the last line", HELLO + b"0\r\n\n"),
        chunks_bad("LF everywhere", b"5\nhello\n0\n\n"),
        chunks_bad("CR CR LF as the last line", HELLO + b"0\r\n\r\r\n"),
        chunks_bad("an empty line between chunks", HELLO + b"\r\n" + END),
        chunks_bad("two characters that are not CR LF", b"5\r\nhelloXX" + END),
        chunks_bad("LF behind an extension", b"5;a\nhello\r\n" + END),
        chunks_bad("CR within an extension", b"5;a\rb\r\nhello\r\n" + END),
        chunks_bad("an extension that a bare LF ends for others", b"5;\nxx\r\nhello\r\n" + END),
    ),
    rule(
        "9112, 7.1.1",
        "Extensions of chunks are ignored, within a limit.",
        chunks_good("a name", b"5;a\r\nhello\r\n" + END),
        chunks_good("a value", b"5;a=b\r\nhello\r\n" + END, cuts=True),
        chunks_good("a quoted value", b'5;a="b;c"\r\nhello\r\n' + END),
        chunks_good("several", b"5;a=b;c;d=e\r\nhello\r\n" + END),
        chunks_good("spaces around", b"5 ; a = b\r\nhello\r\n" + END),
        chunks_good("empty", b"5;\r\nhello\r\n" + END),
        chunks_good("of the last chunk", HELLO + b"0;a=b\r\n\r\n"),
        chunks_good("200 bytes", b"5;" + b"a" * 200 + b"\r\nhello\r\n" + END),
        chunks_bad("NUL", b"5;a\0\r\nhello\r\n" + END),
        chunks_bad("a control character", b"5;a\x01\r\nhello\r\n" + END),
        chunks_bad("300 bytes", b"5;" + b"a" * 300 + b"\r\nhello\r\n" + END),
        chunks_bad("more extensions than content", (b"1;" + b"a" * 200 + b"\r\nx\r\n") * 200 + END),
    ),
    rule(
        "9112, 7.1.2",
        "Trailer fields are checked and ignored, whatever they are called.",
        chunks_good("one", HELLO + b"0\r\nA: b\r\n\r\n", cuts=True),
        chunks_good("several", HELLO + b"0\r\nA: b\r\nC: d\r\nE:\r\n\r\n"),
        *(
            chunks_good(line.decode(), HELLO + b"0\r\n" + line + b"\r\n\r\n")
            for line in (
                b"Content-Length: 50",
                b"Transfer-Encoding: chunked",
                b"Host: other",
                b"Connection: close",
                b"X-Field: evil",
                b"Expect: 100-continue",
            )
        ),
        chunks_bad("no colon", HELLO + b"0\r\nA\r\n\r\n"),
        chunks_bad("no name", HELLO + b"0\r\n: b\r\n\r\n"),
        chunks_bad("a space before the colon", HELLO + b"0\r\nA : b\r\n\r\n"),
        chunks_bad("folded", HELLO + b"0\r\nA: b\r\n c\r\n\r\n"),
        chunks_bad("NUL", HELLO + b"0\r\nA: b\0\r\n\r\n"),
        chunks_bad("a bare LF", HELLO + b"0\r\nA: b\n\r\n"),
        chunks_bad("a bare CR", HELLO + b"0\r\nA: b\rC: d\r\n\r\n"),
        chunks_bad("a request instead of them", HELLO + b"0\r\n" + HIDDEN),
        chunks_bad("too large", HELLO + b"0\r\nA: " + b"b" * 5000 + b"\r\n\r\n", 431),
        chunks_bad("too many", HELLO + b"0\r\n" + b"A: b\r\n" * 2000 + b"\r\n", 431),
    ),
]

RULES = [
    *LENGTHS,
    *CODINGS,
    *CHUNKS,
    rule(
        "9112, 6.3",
        "What a proxy and a server might read differently is one request for us, or none.",
        good("a length that hides a request", post("/", b"x=" + HIDDEN), "POST / x=" + HIDDEN.decode()),
        bad(
            "two requests and an unfinished one",
            get("/1") + get("/2") + b"GET /3 HTTP/1.1\r\nX\r\n\r\n",
            400,
            "GET /1 ",
            "GET /2 ",
        ),
        bad("a chunk that hides a request behind the end", chunked("/", b"0\r\n\r\n" + b"G\r\n\r\n"), 400, "POST / "),
        good("a request behind the end", chunked("/", END + HIDDEN), "POST / ", "GET /hidden "),
        field_bad("upgrade to HTTP/2 with a bare LF", b"Upgrade: h2c\nHTTP2-Settings: x"),
        good(
            "an upgrade that we do not offer",
            ask("GET / HTTP/1.1", "Connection: upgrade", "Upgrade: websocket"),
            "GET / ",
        ),
    ),
]
