"""Rules of what is asked: the forms of targets, and the grammar of hosts."""

from __future__ import annotations

from tests.http.conformance.table import Check, ask, bad, good, rule, target_bad, target_good
from tests.http.rig import Answer

TITLE = "Targets and hosts"


def host_is(value: str) -> Check:
    """The program was told this host."""

    def check(answers: list[Answer]) -> None:
        assert answers[0].field("X-Host") == value

    return check


def with_host(value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode("latin-1")
    return b"GET / HTTP/1.1\r\nHost: " + raw + b"\r\n\r\n"


GOOD_HOSTS = (
    "a",
    "a.b.c",
    "A.B",
    "a.",
    "a-b.c_d",
    "a:80",
    "a:",
    "a:0",
    "a:65535",
    "127.0.0.1",
    "127.0.0.1:8000",
    "1.2.3.4.5",
    "1",
    "999.1.1.1",
    "[::1]",
    "[::1]:80",
    "[::1]:",
    "[::]",
    "[1:2:3:4:5:6:7:8]",
    "[::ffff:1.2.3.4]",
    "[1::8]",
    "[v1.x:y]",
    "a%20b",
    "%C3%BC",
    "a!$&'()*+,;=b",
    "xn--bcher-kva.example",
    "~",
    "a" * 255,
)
BAD_HOSTS = {
    "empty": "",
    "only a port": ":80",
    "only a colon": ":",
    "a space": "a b",
    "a tab": "a\tb",
    "a path": "a/b",
    "a query": "a?b",
    "a fragment": "a#b",
    "user information": "user@a",
    "user and password": "u:p@a",
    "a URI": "http://a",
    "a backslash": "a\\b",
    "less than": "<a>",
    "a quote": '"a"',
    "braces": "{a}",
    "a bar": "a|b",
    "a caret": "a^b",
    "a back-tick": "a`b",
    "a port of letters": "a:b",
    "a signed port": "a:+80",
    "a negative port": "a:-1",
    "a port too large": "a:65536",
    "a port much too large": "a:" + "9" * 30,
    "two ports": "a:80:80",
    "a port with space": "a: 80",
    "space before the port": "a :80",
    "a hexadecimal port": "a:0x50",
    "no bracket behind": "[::1",
    "no bracket before": "::1]",
    "no brackets": "::1",
    "empty brackets": "[]",
    "text behind brackets": "[::1]a",
    "text before brackets": "a[::1]",
    "too many groups": "[1:2:3:4:5:6:7:8:9]",
    "too few groups": "[1:2:3]",
    "two gaps": "[1::2::3]",
    "three colons": "[:::1]",
    "a group too long": "[12345::]",
    "no digits": "[g::]",
    "a zone": "[fe80::1%eth0]",
    "IPv4 in brackets": "[127.0.0.1]",
    "IPv4 too large": "[::1.2.3.256]",
    "a future version without a point": "[v1]",
    "a future version without a number": "[v.x]",
    "half an escape": "a%2",
    "an escape that is none": "a%zz",
    "a percent sign": "%",
    "beyond ASCII": "\xfc",
    "NUL": "a\0b",
    "a control character": "a\x01",
    "DEL": "a\x7f",
    "two with a space": "a, b",
}

HOSTS = [
    rule(
        "9112, 3.2",
        "A request of HTTP/1.1 has exactly one Host; one of HTTP/1.0 may have none.",
        bad("none", b"GET / HTTP/1.1\r\n\r\n", cuts=True),
        bad("none, and other fields", ask("GET / HTTP/1.1", "X: y", host=False)),
        bad("two that are the same", ask("GET / HTTP/1.1", "Host: test")),
        bad("two that differ", ask("GET / HTTP/1.1", "Host: other")),
        bad("two, apart", ask("GET / HTTP/1.1", "X: y", "HOST: test")),
        bad("three", ask("GET / HTTP/1.1", "Host: test", "Host: test")),
        bad("two, the first empty", b"GET / HTTP/1.1\r\nHost:\r\nHost: test\r\n\r\n"),
        bad("none with an absolute target", ask("GET http://test/ HTTP/1.1", host=False)),
        bad("none in a later minor version", b"GET / HTTP/1.2\r\n\r\n"),
        good("none in HTTP/1.0", b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "GET / "),
        good("one in HTTP/1.0", ask("GET / HTTP/1.0", "Connection: keep-alive"), "GET / ", check=host_is("test")),
        bad("two in HTTP/1.0", ask("GET / HTTP/1.0", "Host: other")),
        bad("an invalid one in HTTP/1.0", b"GET / HTTP/1.0\r\nHost: a b\r\n\r\n"),
        good("not the first field", b"GET / HTTP/1.1\r\nX: y\r\nHost: test\r\n\r\n", "GET / ", check=host_is("test")),
    ),
    rule(
        "9110, 7.2",
        "Host is a host and perhaps a port.",
        *(
            good(name if len(name) < 50 else "255 letters", with_host(name), "GET / ", check=host_is(name))
            for name in GOOD_HOSTS
        ),
    ),
    rule(
        "9112, 3.2",
        "A Host that is none is answered with 400.",
        *(bad(name, with_host(value)) for name, value in BAD_HOSTS.items()),
    ),
]

TARGETS = [
    rule(
        "9112, 3.2.1",
        "A path and perhaps a query is what is asked of a server.",
        target_good("the root", "/", "/"),
        target_good("a path", "/a/b.c", "/a/b.c"),
        target_good("a query", "/a?b=c&d", "/a?b=c&d"),
        target_good("an empty query", "/a?", "/a"),
        target_good("question marks in a query", "/a?b?c", "/a?b?c"),
        target_good("escapes stay as they are", "/%41%2f?%00", "/%41%2f?%00"),
        target_good("two slashes are no host", "//other/x", "//other/x"),
        target_good("a URI in a query", "/?http://other/", "/?http://other/"),
        target_good("a colon", "/a:b", "/a:b"),
        target_good("what browsers do not encode", "/[a]|^`{b}", "/[a]|^`{b}"),
        target_good("dot segments are the program's affair", "/a/../b", "/a/../b"),
    ),
    rule(
        "9112, 3.2.2",
        "A whole URI is accepted; its host counts, not that of the field.",
        *(
            good(name, ask(f"GET {target} HTTP/1.1"), f"GET {path} ", check=host_is(host))
            for name, target, path, host in (
                ("a path", "http://other/a?b", "/a?b", "other"),
                ("a port", "http://other:80/a", "/a", "other:80"),
                ("no path", "http://other", "/", "other"),
                ("no path, but a query", "http://other?b", "/?b", "other"),
                ("https", "https://other/", "/", "other"),
                ("capitals", "HTTP://OTHER/", "/", "OTHER"),
                ("an address", "http://[::1]:80/", "/", "[::1]:80"),
                ("an at sign in the path", "http://other/a@b", "/a@b", "other"),
            )
        ),
        bad("an invalid Host is still invalid", b"GET http://other/ HTTP/1.1\r\nHost: a b\r\n\r\n"),
        target_bad("user information", "http://user@other/"),
        target_bad("a password", "http://user:pass@other/"),
        target_bad("no host", "http:///a"),
        target_bad("only a port", "http://:80/"),
        target_bad("an invalid host", "http://a%zz/"),
        target_bad("an invalid port", "http://a:b/"),
        target_bad("one slash", "http:/a"),
        target_bad("no slashes", "http:a"),
        target_bad("another scheme", "ftp://other/"),
        target_bad("a file", "file:///etc/passwd"),
        target_bad("a scheme within a name", "xhttp://other/"),
        target_bad("a backslash behind the host", "http://other\\a/"),
    ),
    rule(
        "9112, 3.2.4",
        "The asterisk is for OPTIONS only.",
        good("OPTIONS", ask("OPTIONS * HTTP/1.1"), "OPTIONS * "),
        target_bad("GET", "*"),
        target_bad("POST", "*", b"POST"),
        target_bad("more than an asterisk", "*a", b"OPTIONS"),
        target_bad("two", "**", b"OPTIONS"),
        target_bad("with a query", "*?a", b"OPTIONS"),
    ),
    rule(
        "9112, 3.2.3",
        "A host and a port is for CONNECT only, and CONNECT has nothing else.",
        target_bad("GET", "test:80"),
        target_bad("GET without a port", "test"),
        target_bad("OPTIONS", "test:80", b"OPTIONS"),
        target_bad("CONNECT of a path", "/", b"CONNECT"),
        target_bad("CONNECT of a URI", "http://test:80/", b"CONNECT"),
        target_bad("CONNECT without a port", "test", b"CONNECT"),
        target_bad("CONNECT of port 0", "test:0", b"CONNECT"),
        target_bad("CONNECT with user information", "u@test:80", b"CONNECT"),
        target_bad("CONNECT of an asterisk", "*", b"CONNECT"),
    ),
    rule(
        "9112, 3.2",
        "A target with a character that no URI has is refused.",
        *(
            target_bad(
                f"byte {code:#04x}{' in the query' if query else ''}", b"/a" + b"?" * query + bytes((code,)) + b"b"
            )
            for query in (False, True)
            for code in (0, 1, 8, 9, 11, 12, 27, 31, 32, 34, 35, 60, 62, 127, 128, 160, 255)
        ),
        target_bad("a backslash", "/a\\b"),
        target_bad("not beginning with a slash", "a/b"),
        target_bad("a query alone", "?a"),
        target_bad("UTF-8", "/\xc3\xbc"),
        target_bad("a relative path", "../a"),
    ),
]

RULES = [*TARGETS, *HOSTS]
