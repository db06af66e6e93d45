"""One case per rule of RFC 9110, 9112 and 3986 about heads: the rule, where it stands, the bytes, what must come of them.

An expectation is a status to refuse with, or facts of the head. `get(...)` writes a request with a Host around a case.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Case(NamedTuple):
    rule: str
    section: str
    data: bytes
    expected: int | dict[str, Any]


def get(*fields: bytes, line: bytes = b"GET / HTTP/1.1", host: bytes | None = b"Host: a") -> bytes:
    """Return a request of these lines."""
    lines = [line, *([host] if host is not None else []), *fields, b"", b""]
    return b"\r\n".join(lines)


def one_zero(*fields: bytes) -> bytes:
    return get(*fields, line=b"GET / HTTP/1.0", host=None)


def target(text: bytes, method: bytes = b"GET") -> bytes:
    return get(line=method + b" " + text + b" HTTP/1.1")


def host(text: bytes) -> bytes:
    return get(host=b"Host: " + text)


LINES = [
    Case("a plain request", "9112 3", get(), {"method": b"GET", "path": b"/", "minor": 1, "host": b"a", "form": 0}),
    Case("an empty line before it is skipped", "9112 2.2", b"\r\n" + get(), {"method": b"GET"}),
    Case("a few of them", "9112 2.2", b"\r\n" * 4 + get(), {"method": b"GET"}),
    Case("but not more", "9112 2.2", b"\r\n" * 5 + get(), 400),
    Case("an empty line ends with CR LF too", "9112 2.2", b"\n" + get(), 400),
    Case("bare LF after the request line", "9112 2.2", b"GET / HTTP/1.1\nHost: a\r\n\r\n", 400),
    Case("bare LF after a field", "9112 2.2", b"GET / HTTP/1.1\r\nHost: a\n\r\n", 400),
    Case("bare LF instead of the empty line", "9112 2.2", b"GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
    Case("bare CR in the request line", "9112 2.2", b"GET /\rx HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    Case("two CR", "9112 2.2", b"GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", 400),
    Case("white space before the request line", "9112 2.2", b" GET / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    Case("no method", "9112 3.1", get(line=b" / HTTP/1.1"), 400),
    Case("a method that is no token", "9112 3.1", get(line=b"G(T / HTTP/1.1"), 400),
    Case("a method nobody knows", "9110 9.1", get(line=b"BREW / HTTP/1.1"), {"method": b"BREW", "method_number": 0}),
    Case("methods have a case", "9110 9.1", get(line=b"get / HTTP/1.1"), {"method": b"get", "method_number": 0}),
    Case("two spaces before the target", "9112 3", get(line=b"GET  / HTTP/1.1"), 400),
    Case("two spaces behind the target", "9112 3", get(line=b"GET /  HTTP/1.1"), 400),
    Case("a tabulator is no space", "9112 3", get(line=b"GET\t/ HTTP/1.1"), 400),
    Case("a space at the end", "9112 3", get(line=b"GET / HTTP/1.1 "), 400),
    Case("a space in the target", "9112 3.2", get(line=b"GET /a b HTTP/1.1"), 400),
    Case("HTTP/0.9", "9112 2.3", b"GET /\r\n", 400),
    Case("no target and no version", "9112 3", b"GET\r\n", 400),
    Case("a space and no version", "9112 3", get(line=b"GET / "), 400),
    Case("version 1.0", "9112 2.3", one_zero(), {"minor": 0, "host": b""}),
    Case("version 1.7 is taken for 1.1", "9110 2.5", get(line=b"GET / HTTP/1.7"), {"minor": 1}),
    Case("version 2.0", "9110 15.6.6", get(line=b"GET / HTTP/2.0"), 505),
    Case("the preface of HTTP/2", "9113 3.4", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    Case("version 0.9 said aloud", "9110 15.6.6", get(line=b"GET / HTTP/0.9"), 505),
    Case("a version with two digits", "9112 2.3", get(line=b"GET / HTTP/1.10"), 400),
    Case("a version without a point", "9112 2.3", get(line=b"GET / HTTP/11"), 400),
    Case("a version without a minor", "9112 2.3", get(line=b"GET / HTTP/2"), 400),
    Case("a version in lower case", "9112 2.3", get(line=b"GET / http/1.1"), 400),
    Case("another protocol", "9112 2.3", get(line=b"GET / ICAP/1.0"), 400),
    Case("a version with a sign", "9112 2.3", get(line=b"GET / HTTP/1.+"), 400),
]

TARGETS = [
    Case("path and query", "9112 3.2.1", target(b"/a/b?c=d?e"), {"path": b"/a/b", "query": b"c=d?e"}),
    Case("a path may begin with two slashes", "9112 3.2.1", target(b"//a/b"), {"path": b"//a/b", "form": 0}),
    Case("an empty query", "9112 3.2.1", target(b"/?"), {"path": b"/", "query": b""}),
    Case("every character that is allowed", "3986 3.3", target(b"/-._~!$&'()*+,;=:@%41z9Z?/?"), {"form": 0}),
    Case("what browsers do not encode", "3986 2", target(b"/[]|^`{}?[]|^`{}\\"), {"query": b"[]|^`{}\\"}),
    Case("a backslash in a path", "3986 2", target(b"/a\\b"), 400),
    Case("a quotation mark", "3986 2", target(b'/a"b'), 400),
    Case("angle brackets", "3986 2", target(b"/<a>"), 400),
    Case("a fragment", "9112 3.2", target(b"/a#b"), 400),
    Case("a fragment in the query", "9112 3.2", target(b"/a?b#c"), 400),
    Case("NUL in the target", "3986 2", target(b"/a\0b"), 400),
    Case("DEL in the target", "3986 2", target(b"/a\x7fb"), 400),
    Case("UTF-8 in the target", "3986 2", target("/ä".encode()), 400),
    Case("a path without a slash", "9112 3.2", target(b"index.html"), 400),
    Case("a query alone", "9112 3.2", target(b"?a"), 400),
    Case(
        "absolute form",
        "9112 3.2.2",
        target(b"http://b:8/c?d"),
        {"form": 1, "host": b"b:8", "path": b"/c", "query": b"d"},
    ),
    Case("its scheme has no case", "9112 3.2.2", target(b"HTTPS://b/"), {"form": 1, "host": b"b"}),
    Case("its path may be empty", "9110 4.2.3", target(b"http://b"), {"path": b"/", "host": b"b"}),
    Case("also before a query", "9110 4.2.3", target(b"http://b?c/d"), {"path": b"/", "query": b"c/d", "host": b"b"}),
    Case("it needs Host all the same", "9112 3.2.2", get(line=b"GET http://b/ HTTP/1.1", host=None), 400),
    Case("that may be empty", "9112 3.2.2", get(line=b"GET http://b/ HTTP/1.1", host=b"Host:"), {"host": b"b"}),
    Case("but is checked", "9112 3.2.2", get(line=b"GET http://b/ HTTP/1.1", host=b"Host: a b"), 400),
    Case("no host in it", "9110 4.2.1", target(b"http:///a"), 400),
    Case("a port and no host in it", "9110 4.2.1", target(b"http://:80/a"), 400),
    Case("user information in it", "9110 4.2.4", target(b"http://me@b/"), 400),
    Case("another scheme", "9110 7.4", target(b"ftp://b/"), 400),
    Case("half a scheme", "9110 7.4", target(b"http:/b"), 400),
    Case("asterisk form", "9112 3.2.4", target(b"*", b"OPTIONS"), {"form": 2, "path": b"", "host": b"a"}),
    Case("for OPTIONS only", "9112 3.2.4", target(b"*"), 400),
    Case("and nothing behind it", "9112 3.2.4", target(b"*?a", b"OPTIONS"), 400),
    Case("authority form", "9112 3.2.3", target(b"b:443", b"CONNECT"), {"form": 3, "host": b"b:443", "path": b""}),
    Case("of an address", "9112 3.2.3", target(b"[::1]:443", b"CONNECT"), {"form": 3, "host": b"[::1]:443"}),
    Case("with a port", "9110 9.3.6", target(b"b", b"CONNECT"), 400),
    Case("that is not empty", "9110 9.3.6", target(b"b:", b"CONNECT"), 400),
    Case("nor 0", "9110 9.3.6", target(b"b:0", b"CONNECT"), 400),
    Case("nor has anything behind it", "9110 9.3.6", target(b"b:443/", b"CONNECT"), 400),
    Case("CONNECT has no path", "9112 3.2.3", target(b"/", b"CONNECT"), 400),
    Case("authority form is for CONNECT only", "9112 3.2.3", target(b"b:443"), 400),
]

GOOD_HOSTS = [b"a", b"a.b:80", b"a:", b"a:00080", b"a:65535", b"127.0.0.1:1", b"[::1]", b"[::]:8", b"[1:2:3:4:5:6:7:8]"]
GOOD_HOSTS += [
    b"[1::8]",
    b"[1:2:3:4:5:6:7::]",
    b"[::2:3:4:5:6:7:8]",
    b"[::ffff:127.0.0.1]",
    b"[v1.a:b]",
    b"a%20b",
    b"a_b",
]
GOOD_HOSTS += [b"999.1.1.1", b"a,b;c=d", b"xn--4ca.example"]
BAD_HOSTS = [b"a b", b"a, b", b"a/b", b"a:b", b"a:65536", b"a:99999999999", b"a:1:2", b"a:-1", b"me@a", b"a?b", b"a#b"]
BAD_HOSTS += [
    b":80",
    b"[::1",
    b"::1",
    b"[]",
    b"[1:2:3:4:5:6:7]",
    b"[1:2:3:4:5:6:7:8:9]",
    b"[1::2::3]",
    b"[:::]",
    b"[1:]",
]
BAD_HOSTS += [b"[12345::]", b"[::256.0.0.1]", b"[::1.2.3]", b"[::01.2.3.4]", b"[fe80::1%25eth0]", b"[g::]", b"[::1]x"]
BAD_HOSTS += [b"[v.a]", b"[v1.]", b"[1:2:3:4:5:6:7:1.2.3.4]", b"[:1]", b"a%2", b"a%zz", b"a\\b", "ä".encode(), b"<a>"]
BAD_HOSTS += [b"[1:2:3:4::5:6:7:8]", b"[::1:2:3:4:5:6:7:8]", b"[1:2:3:4:5:6:7:8::]"]
BAD_HOSTS += [b'"a"', b"a\tb", b"[::1.2.3.4.]"]
BAD_LENGTHS = [
    b"",
    b"+5",
    b"-5",
    b"0x5",
    b"5.0",
    b"5 5",
    b"5;a",
    b"1e3",
    b"five",
    b'"5"',
    b"9" * 19,
    b"9" * 40,
    b"\xb2",
]
CONTROLS = [*range(9), *range(11, 32), 127]

HOSTS = [
    *(Case(f"host {text.decode()}", "3986 3.2.2", host(text), {"host": text}) for text in GOOD_HOSTS),
    *(Case(f"host {text!r}", "3986 3.2.2", host(text), 400) for text in BAD_HOSTS),
    Case("no Host", "9112 3.2", get(host=None), 400),
    Case("an empty Host", "9110 4.2.1", get(host=b"Host:"), 400),
    Case("two of them", "9112 3.2", get(b"Host: a"), 400),
    Case("two in HTTP/1.0", "9112 3.2", one_zero(b"Host: a", b"host: a"), 400),
    Case("HTTP/1.0 needs none", "9112 3.2", one_zero(), {"host": b""}),
    Case("a bad one in HTTP/1.0", "9112 3.2", one_zero(b"Host: a b"), 400),
]

FIELDS = [
    Case(
        "white space around a value", "9112 5.1", get(b"A: \t b c \t "), {"fields": ((b"Host", b"a"), (b"A", b"b c"))}
    ),
    Case("no white space", "9112 5.1", get(b"A:b"), {"fields": ((b"Host", b"a"), (b"A", b"b"))}),
    Case("an empty value", "9110 5.5", get(b"A:"), {"fields": ((b"Host", b"a"), (b"A", b""))}),
    Case("a value of white space", "9110 5.5", get(b"A: \t"), {"fields": ((b"Host", b"a"), (b"A", b""))}),
    Case("a tabulator in a value", "9110 5.5", get(b"A: long enough\tvalue"), {"field_count": 2}),
    Case("bytes beyond ASCII in a value", "9110 5.5", get(b"A: \xff\x80\xa0 and more of it"), {"field_count": 2}),
    Case("colons in a value", "9112 5", get(b"A:: b"), {"fields": ((b"Host", b"a"), (b"A", b": b"))}),
    Case("every character of a token", "9110 5.6.2", get(b"!#$%&'*+-.^_`|~09azAZ: b"), {"field_count": 2}),
    Case("a space before the colon", "9112 5.1", get(b"A : b"), 400),
    Case("a tabulator before the colon", "9112 5.1", get(b"A\t: b"), 400),
    Case("a space in the name", "9110 5.1", get(b"A b: c"), 400),
    Case("no name", "9110 5.1", get(b": b"), 400),
    Case("no colon", "9112 5", get(b"A"), 400),
    Case("a folded line", "9112 5.2", get(b"A: b", b" c"), 400),
    Case("a folded first line", "9112 2.2", get(b"A: b", host=b" Host: a"), 400),
    Case("a line of white space", "9112 5.2", get(b" "), 400),
    Case("a parenthesis in the name", "9110 5.6.2", get(b"A(: b"), 400),
    Case("NUL in the name", "9110 5.6.2", get(b"A\0: b"), 400),
    Case("UTF-8 in the name", "9110 5.6.2", get("Ä: b".encode()), 400),
    *(
        Case(f"byte {c} in a short value", "9110 5.5", get(b"A: b%cc" % c), 400)
        for c in (*range(9), *range(11, 32), 127)
    ),
    *(
        Case(f"byte {c} in a long value", "9110 5.5", get(b"A: longer than eight%cx" % c), 400)
        for c in (0, 8, 11, 13, 31, 127)
    ),
]

LENGTHS = [
    Case("a length", "9110 8.6", get(b"Content-Length: 5"), {"length": 5, "chunked": False}),
    Case("none", "9112 6.3", get(), {"length": None, "chunked": False}),
    Case("0", "9110 8.6", get(b"content-length: 0"), {"length": 0}),
    Case("leading zeros", "9110 8.6", get(b"Content-Length: 0005"), {"length": 5}),
    Case("the same twice in a list", "9110 8.6", get(b"Content-Length: 5, 5"), {"length": 5}),
    Case("the same twice", "9110 8.6", get(b"Content-Length: 5", b"Content-Length: 05"), {"length": 5}),
    Case("two different ones", "9112 6.3", get(b"Content-Length: 5", b"Content-Length: 6"), 400),
    Case("two in a list", "9112 6.3", get(b"Content-Length: 5, 6"), 400),
    Case("a list with a gap", "9110 8.6", get(b"Content-Length: 5, "), 400),
    Case("the largest", "9110 8.6", get(b"Content-Length: %d" % ((1 << 63) - 1)), {"length": (1 << 63) - 1}),
    Case("one more", "9110 8.6", get(b"Content-Length: %d" % (1 << 63)), 400),
    *(
        Case(f"length {text!r}", "9110 8.6", get(b"Content-Length: " + text), 400)
        for text in (
            b"",
            b"+5",
            b"-5",
            b"0x5",
            b"5.0",
            b"5 5",
            b"5;a",
            b"1e3",
            b"five",
            b'"5"',
            b"9" * 19,
            b"9" * 40,
            b"\xb2",
        )
    ),
    Case("2 to the 64th and 5", "9110 8.6", get(b"Content-Length: %d" % ((1 << 64) + 5)), 400),
    Case("chunked", "9112 7.1", get(b"Transfer-Encoding: chunked"), {"chunked": True, "length": None}),
    Case("in other letters", "9112 7", get(b"transfer-encoding: ChunKed"), {"chunked": True}),
    Case("with empty items", "9110 5.6.1", get(b"Transfer-Encoding: , chunked ,"), {"chunked": True}),
    Case("chunked and a length", "9112 6.3", get(b"Transfer-Encoding: chunked", b"Content-Length: 5"), 400),
    Case("a length and chunked", "9112 6.3", get(b"Content-Length: 5", b"Transfer-Encoding: chunked"), 400),
    Case("an unknown coding", "9112 6.1", get(b"Transfer-Encoding: gzip, chunked"), 501),
    Case("an unknown coding alone", "9112 6.1", get(b"Transfer-Encoding: xchunked"), 501),
    Case("identity is none any more", "9112 6.1", get(b"Transfer-Encoding: identity"), 501),
    Case("chunked is not the last", "9112 6.3", get(b"Transfer-Encoding: chunked, gzip"), 400),
    Case("chunked twice", "9112 6.1", get(b"Transfer-Encoding: chunked, chunked"), 400),
    Case("in two fields", "9112 6.1", get(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), 400),
    Case("unknown after chunked", "9112 6.3", get(b"Transfer-Encoding: chunked", b"Transfer-Encoding: x"), 400),
    Case("a parameter of chunked", "9112 7.1", get(b"Transfer-Encoding: chunked;a=b"), 400),
    Case("a quoted coding", "9112 7", get(b'Transfer-Encoding: "chunked"'), 400),
    Case("an empty Transfer-Encoding", "9112 6.1", get(b"Transfer-Encoding:"), 400),
    Case("only empty items", "9112 6.1", get(b"Transfer-Encoding: ,"), 400),
    Case("vertical tabulator before it", "9112 6.1", get(b"Transfer-Encoding: \x0bchunked"), 400),
    Case("in HTTP/1.0", "9112 6.1", one_zero(b"Transfer-Encoding: chunked"), 400),
    Case("a space before its colon", "9112 5.1", get(b"Transfer-Encoding : chunked", b"Content-Length: 5"), 400),
]

CONNECTIONS = [
    Case("1.1 stays", "9112 9.3", get(), {"keep_alive": True}),
    Case("1.1 closes when asked", "9112 9.6", get(b"Connection: close"), {"keep_alive": False}),
    Case("in other letters, in a list", "9110 7.6.1", get(b"Connection: TE, ClOsE"), {"keep_alive": False}),
    Case("in a second field", "9110 5.3", get(b"Connection: TE", b"connection:close"), {"keep_alive": False}),
    Case("close wins", "9112 9.3", get(b"Connection: close, keep-alive"), {"keep_alive": False}),
    Case("close wins in any order", "9112 9.3", one_zero(b"Connection: keep-alive, close"), {"keep_alive": False}),
    Case(
        "close wins over a later field",
        "9112 9.3",
        one_zero(b"Connection: close", b"Connection: keep-alive"),
        {"keep_alive": False},
    ),
    Case("1.0 closes", "9112 9.3", one_zero(), {"keep_alive": False}),
    Case("1.0 stays when asked", "9112 9.3", one_zero(b"Connection: Keep-Alive"), {"keep_alive": True}),
    Case("a word that contains it", "9110 7.6.1", get(b"Connection: closed, xclose, close-x"), {"keep_alive": True}),
    Case("upgrades are ignored", "9110 7.8", get(b"Connection: upgrade", b"Upgrade: h2c"), {"keep_alive": True}),
    Case("an expectation", "9110 10.1.1", get(b"Expect: 100-Continue"), {"expect_continue": True}),
    Case("none", "9110 10.1.1", get(b"Expect:"), {"expect_continue": False}),
    Case("an unknown one", "9110 10.1.1", get(b"Expect: 100-continue, more"), 417),
    Case("one with a parameter", "9110 10.1.1", get(b"Expect: 100-continue;a=b"), 417),
    Case("ignored in HTTP/1.0", "9110 10.1.1", one_zero(b"Expect: 100-continue"), {"expect_continue": False}),
    Case("an unknown one in HTTP/1.0", "9110 10.1.1", one_zero(b"Expect: more"), {"expect_continue": False}),
]

CASES = LINES + TARGETS + HOSTS + FIELDS + LENGTHS + CONNECTIONS
