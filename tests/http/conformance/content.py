"""Rules of files: what is sent of them, when, and that nothing outside the root is."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from penstock.core.clock import ManualClock
from tests.http.conformance.running import make_conformance_site
from tests.http.conformance.table import Case, Scene, ask, rule
from tests.http.rig import Answer, Incomplete, get, serving, take_answer
from tests.http.site import LARGE, RESTED, RESTED_S, put
from tests.http.test_paths import SLASHES, UPS

TITLE = "Files"

PAGE = b"0123456789" * 10


def file(name: str, path: str, status: int, body: bytes | None = None, *lines: str, **fields: str | None) -> Case:
    """What a file is answered with: content, and fields by their names in small letters with underscores."""

    def check(answers: list[Answer]) -> None:
        if body is not None:
            assert answers[0].body == body
        for field, value in fields.items():
            assert answers[0].field(field.replace("_", "-")) == value, field

    return Case(name, ask(f"GET {path} HTTP/1.1", *lines), (status,), world="files", check=check)


def part(name: str, spec: str, first: int, end: int) -> Case:
    """One range of the page."""
    told = {"content_range": f"bytes {first}-{end}/100", "content_length": str(end - first + 1)}
    return file(name, "/page.txt", 206, PAGE[first : end + 1], f"Range: {spec}", **told)


def whole(name: str, *lines: str) -> Case:
    """A range that is ignored."""
    return file(name, "/page.txt", 200, PAGE, *lines, content_range=None, content_length="100")


def none(name: str, spec: str) -> Case:
    """A range that lies beyond the page."""
    return file(name, "/page.txt", 416, None, f"Range: {spec}", content_range="bytes */100")


def parts(name: str, spec: str, *ranges: tuple[int, int], path: str = "/page.txt", content: bytes = PAGE) -> Case:
    """Several ranges: each with its own head, in their order, and the length exact."""

    def check(answers: list[Answer]) -> None:
        answer = answers[0]
        kind = re.fullmatch(r"multipart/byteranges; boundary=([0-9a-f]+)", answer.field("Content-Type") or "")
        assert kind is not None
        assert answer.field("Content-Range") is None
        assert answer.field("Content-Length") == str(len(answer.body))
        pieces = answer.body.split(b"\r\n--" + kind[1].encode())
        assert pieces[0] == b""
        assert pieces[-1] == b"--\r\n"
        got = []
        for piece in pieces[1:-1]:
            head, _, data = piece.partition(b"\r\n\r\n")
            place = re.search(rb"Content-Range: bytes (\d+)-(\d+)/(\d+)", head)
            assert place is not None
            assert int(place[3]) == len(content)
            assert b"Content-Type: " in head
            first, end = int(place[1]), int(place[2])
            assert data == content[first : end + 1]
            got.append((first, end))
        assert tuple(got) == ranges

    return Case(name, ask(f"GET {path} HTTP/1.1", f"Range: {spec}"), (206,), world="files", check=check)


def judged(name: str, status: int, *lines: str, method: str = "GET", body: bytes | None = None) -> Scene:
    """A request with conditions, in which `{etag}` is that of the page."""

    def play(folder: Path) -> None:
        with serving(files=make_conformance_site(folder), clock=ManualClock()) as served:
            client = served.dial()
            known = client.ask(get("/page.txt"))
            etag, modified = known.field("ETag") or "", known.field("Last-Modified")
            assert modified == RESTED.decode()
            fields = [line.format(etag=etag) for line in lines]
            answer = client.ask(get("/page.txt", *fields, method=method), head=method == "HEAD")
            assert answer.status == status
            if status in (200, 206, 304):
                assert answer.field("ETag") == etag
            if status == 304:
                assert answer.field("Last-Modified") in (None, modified)
                assert answer.field("Content-Length") in (None, "100")
            if body is not None:
                assert answer.body == body
            # What follows an answer without content is the next answer.
            assert client.ask(get("/page.txt")).body == PAGE

    return Scene(name, play)


def climbs(up: str) -> Scene:
    """A way to say `..`, with every way to say `/`, as deep as the secret lies."""

    def play(folder: Path) -> None:
        with serving(files=make_conformance_site(folder), clock=ManualClock()) as served:
            for slash in SLASHES:
                for path in (f"/{up}{slash}secret.txt", f"/sub{slash}{up}{slash}{up}{slash}secret.txt"):
                    client = served.dial()
                    client.send(
                        b"GET " + path.encode("utf-8") + b" HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
                    )
                    answer, rest = take_answer(client.rest(), ended=True)
                    assert answer.status in (400, 404), path
                    assert b"secret" not in answer.body
                    assert rest == b""
                    client.close()

    return Scene(repr(up), play)


def file_scene(name: str, make: Callable[[Path], None], path: str, *statuses: int) -> Scene:
    """What lies in the root is not what it should be."""

    def play(folder: Path) -> None:
        site = make_conformance_site(folder)
        make(site)
        with serving(files=site, clock=ManualClock()) as served:
            client = served.dial()
            answer = client.ask(get(path))
            assert answer.status in statuses
            assert b"secret" not in answer.body
            assert client.ask(get("/page.txt")).body == PAGE

    return Scene(name, play)


def shrinks(folder: Path) -> None:
    """The answer breaks off, and the connection with it; nobody else is disturbed."""
    site = make_conformance_site(folder)
    put(site / "huge.bin", b"x" * 30_000_000)
    with serving(files=site, clock=ManualClock()) as served:
        client = served.dial(receive_buffer=65_536)
        client.send(get("/huge.bin") + get("/page.txt"))
        client.until(lambda: len(client.got) > 100_000, "the beginning")
        os.truncate(site / "huge.bin", 100_000)
        got = client.rest()
        assert len(got) < 30_000_000
        assert PAGE not in got
        assert served.count("truncated") == 1
        assert served.ask(get("/page.txt")).body == PAGE


def shrinks_in_parts(folder: Path) -> None:
    """The same for several ranges, which the program's half sends."""
    site = make_conformance_site(folder)
    put(site / "huge.bin", b"x" * 30_000_000)
    with serving(files=site, clock=ManualClock()) as served:
        served.server.engine.on_error = lambda error, what: None
        client = served.dial(receive_buffer=65_536)
        client.send(get("/huge.bin", "Range: bytes=0-9,1000-29999999") + get("/page.txt"))
        client.until(lambda: len(client.got) > 100_000, "the beginning")
        os.truncate(site / "huge.bin", 100_000)
        got = client.rest()
        try:
            take_answer(got, ended=True)
        except Incomplete:
            pass
        else:
            raise AssertionError("the answer looks complete")
        assert served.ask(get("/page.txt")).body == PAGE


BIG = ", ".join(f"{number}-{number}" for number in range(0, 60_000, 3_000))

RULES = [
    rule(
        "9110, 8",
        "A file is sent with its type, its length, its validators, and nothing else.",
        file(
            "text",
            "/page.txt",
            200,
            PAGE,
            content_type="text/plain; charset=utf-8",
            content_length="100",
            last_modified=RESTED.decode(),
        ),
        file("a page", "/", 200, b"<p>hello", content_type="text/html; charset=utf-8"),
        file("large", "/large.bin", 200, LARGE, content_type="application/octet-stream", content_length="65536"),
        file("empty", "/empty.txt", 200, b"", content_length="0"),
        file("dots in a name", "/foo..bar.txt", 200, b"dots"),
        file("an escape", "/a%20b.txt", 200, b"space"),
        file("a letter that need not be escaped", "/%70age.txt", 200, PAGE),
        file("a query is ignored", "/page.txt?x=/../y", 200, PAGE),
        file("a whole URI", "http://other/page.txt", 200, PAGE),
        file("two slashes", "//page.txt", 200, PAGE),
        file("a dot segment", "/./page.txt", 200, PAGE),
        file("dot segments that stay inside", "/sub/../page.txt", 200, PAGE),
        file("a link inside", "/in.txt", 200, PAGE),
        file("well known", "/.well-known/security.txt", 200, b"known"),
        file("nothing there", "/nothing", 404, None, content_type="text/plain; charset=utf-8"),
        file("a file is no directory", "/page.txt/", 404),
    ),
    rule(
        "9110, 15.4.2",
        "A directory without its slash is redirected to a path, never to another host.",
        file("a directory", "/sub", 301, None, location="/sub/"),
        file("with a query", "/sub?a=b", 301, None, location="/sub/?a=b"),
        file("two slashes before it", "//sub", 301, None, location="/sub/"),
        file("another Host in the target", "http://evil/sub", 301, None, location="/sub/"),
        file("a name that looks like a host", "//evil.example/..//sub", 301, None, location="/sub/"),
        file("its index", "/sub/", 200, b"<p>sub"),
        file("without index and listing", "/bare/", 404),
    ),
    rule(
        "9110, 13.2.2",
        "Conditions are judged in their order, and only for what is there.",
        judged("If-None-Match, the same", 304, "If-None-Match: {etag}"),
        judged("If-None-Match, HEAD", 304, "If-None-Match: {etag}", method="HEAD"),
        judged("If-None-Match, weakly the same", 304, "If-None-Match: W/{etag}"),
        judged("If-None-Match, in a list", 304, 'If-None-Match: "x", {etag}, "y"'),
        judged("If-None-Match, on a later line", 304, 'If-None-Match: "x"', "If-None-Match: {etag}"),
        judged("If-None-Match, any", 304, "If-None-Match: *"),
        judged("If-None-Match, another", 200, 'If-None-Match: "x"', body=PAGE),
        judged("If-None-Match, malformed", 200, "If-None-Match: x", body=PAGE),
        judged(
            "If-None-Match before If-Modified-Since", 200, 'If-None-Match: "x"', f"If-Modified-Since: {RESTED.decode()}"
        ),
        judged(
            "If-None-Match beside an older date",
            304,
            "If-None-Match: {etag}",
            "If-Modified-Since: Sat, 08 Sep 2001 01:46:40 GMT",
        ),
        judged("If-Modified-Since, the same", 304, f"If-Modified-Since: {RESTED.decode()}"),
        judged("If-Modified-Since, later", 304, "If-Modified-Since: Mon, 10 Sep 2001 01:46:40 GMT"),
        judged("If-Modified-Since, before", 200, "If-Modified-Since: Sun, 09 Sep 2001 01:46:39 GMT", body=PAGE),
        judged("If-Modified-Since, RFC 850", 304, "If-Modified-Since: Sunday, 09-Sep-01 01:46:40 GMT"),
        judged("If-Modified-Since, asctime", 304, "If-Modified-Since: Sun Sep  9 01:46:40 2001"),
        judged("If-Modified-Since, no date", 200, "If-Modified-Since: yesterday", body=PAGE),
        judged("If-Modified-Since, twice", 200, *[f"If-Modified-Since: {RESTED.decode()}"] * 2),
        judged("If-Match, the same", 200, "If-Match: {etag}", body=PAGE),
        judged("If-Match, any", 200, "If-Match: *", body=PAGE),
        judged("If-Match, another", 412, 'If-Match: "x"'),
        judged("If-Match, only weakly the same", 412, "If-Match: W/{etag}"),
        judged("If-Match before If-None-Match", 412, 'If-Match: "x"', "If-None-Match: {etag}"),
        judged("If-Match and If-None-Match, the same", 304, "If-Match: {etag}", "If-None-Match: {etag}"),
        judged("If-Unmodified-Since, the same", 200, f"If-Unmodified-Since: {RESTED.decode()}", body=PAGE),
        judged("If-Unmodified-Since, before", 412, "If-Unmodified-Since: Sun, 09 Sep 2001 01:46:39 GMT"),
        judged("If-Unmodified-Since, no date", 200, "If-Unmodified-Since: x", body=PAGE),
        judged(
            "If-Match before If-Unmodified-Since",
            200,
            "If-Match: {etag}",
            "If-Unmodified-Since: Sun, 09 Sep 2001 01:46:39 GMT",
        ),
        file("nothing there has no conditions", "/nothing", 404, None, "If-Match: *"),
        file("nothing there is not unmodified", "/nothing", 404, None, "If-None-Match: *"),
    ),
    rule(
        "9110, 14.2",
        "One range is answered with 206 and exactly these bytes.",
        part("from and to", "bytes=0-9", 0, 9),
        part("in the middle", "bytes=10-19", 10, 19),
        part("one byte", "bytes=5-5", 5, 5),
        part("to the end", "bytes=90-", 90, 99),
        part("beyond the end", "bytes=90-1000", 90, 99),
        part("a number too large to count", "bytes=90-" + "9" * 40, 90, 99),
        part("the last bytes", "bytes=-10", 90, 99),
        part("more last bytes than there are", "bytes=-1000", 0, 99),
        part("all", "bytes=0-", 0, 99),
        part("capitals", "BYTES=0-9", 0, 9),
        part("white space in the list", "bytes= 0-9 ", 0, 9),
        part("two that touch", "bytes=0-9,10-19", 0, 19),
        part("two that overlap", "bytes=0-19,10-29", 0, 29),
        part("one of two beyond the end", "bytes=0-9,200-300", 0, 9),
        part("the same a few times", "bytes=0-9,0-9,0-9", 0, 9),
        file(
            "of a large file",
            "/large.bin",
            206,
            LARGE[1000:2001],
            "Range: bytes=1000-2000",
            content_range="bytes 1000-2000/65536",
        ),
    ),
    rule(
        "9110, 14.2",
        "A Range that makes no sense is ignored.",
        whole("another unit", "Range: lines=0-9"),
        whole("no unit", "Range: 0-9"),
        whole("no equals sign", "Range: bytes 0-9"),
        whole("empty", "Range: bytes="),
        whole("only a comma", "Range: bytes=,"),
        whole("only a dash", "Range: bytes=-"),
        whole("backwards", "Range: bytes=9-0"),
        whole("a sign", "Range: bytes=+0-9"),
        whole("two dashes", "Range: bytes=0--9"),
        whole("letters", "Range: bytes=a-b"),
        whole("hexadecimal", "Range: bytes=0x0-0x9"),
        whole("one of several makes none", "Range: bytes=0-9,x"),
        whole("white space within", "Range: bytes=0 - 9"),
        whole("twice", "Range: bytes=0-9", "Range: bytes=0-9"),
        whole("too many", "Range: bytes=" + ",".join(["0-0"] * 17)),
        whole("a thousand of them", "Range: bytes=" + ",".join(["0-"] * 1_000)),
        Case("for HEAD", get("/page.txt", "Range: bytes=0-9", method="HEAD"), (200,), world="files", heads=(0,)),
        Case("for what is not there", get("/nothing", "Range: bytes=0-9"), (404,), world="files"),
    ),
    rule(
        "9110, 15.5.17",
        "A range that lies beyond the file is answered with 416 and the file's size.",
        none("behind the end", "bytes=100-"),
        none("far behind", "bytes=1000-2000"),
        none("a number too large to count", "bytes=" + "9" * 40 + "-"),
        none("the last 0 bytes", "bytes=-0"),
        none("several, all of them", "bytes=100-,200-300"),
        file("of an empty file", "/empty.txt", 416, None, "Range: bytes=0-", content_range="bytes */0"),
    ),
    rule(
        "9110, 14.6",
        "Several ranges are parts of one answer, in their order, no more bytes than the file has.",
        parts("two of a large file", "bytes=0-9,1000-1009", (0, 9), (1000, 1009), path="/large.bin", content=LARGE),
        parts("backwards", "bytes=1000-1009,0-9", (1000, 1009), (0, 9), path="/large.bin", content=LARGE),
        parts("first and last", "bytes=0-0,-1", (0, 0), (99, 99)),
        parts(
            "three",
            "bytes=0-9,20000-30000,-5",
            (0, 9),
            (20000, 30000),
            (65531, 65535),
            path="/large.bin",
            content=LARGE,
        ),
        file("too many", "/large.bin", 200, LARGE, f"Range: bytes={BIG}"),
    ),
    rule(
        "9110, 14.5, 13.1.5",
        "If-Range lets a range through only for the very same file.",
        judged("the same", 206, "Range: bytes=0-9", "If-Range: {etag}", body=PAGE[:10]),
        judged("another", 200, "Range: bytes=0-9", 'If-Range: "x"', body=PAGE),
        judged("weakly the same", 200, "Range: bytes=0-9", "If-Range: W/{etag}", body=PAGE),
        judged("the date", 206, "Range: bytes=0-9", f"If-Range: {RESTED.decode()}", body=PAGE[:10]),
        judged("another date", 200, "Range: bytes=0-9", "If-Range: Mon, 10 Sep 2001 01:46:40 GMT", body=PAGE),
        judged("nonsense", 200, "Range: bytes=0-9", "If-Range: x", body=PAGE),
        judged("without Range", 200, "If-Range: {etag}", body=PAGE),
        judged("beyond the end", 416, "Range: bytes=100-", "If-Range: {etag}"),
        judged("beyond the end of another", 200, "Range: bytes=100-", 'If-Range: "x"', body=PAGE),
        judged("after the other conditions", 304, "Range: bytes=0-9", "If-None-Match: {etag}"),
    ),
    rule(
        "9110, 12.5.3",
        "A packed neighbour is sent to who wants it, and everybody is told with Vary that there are two.",
        file(
            "gzip",
            "/packed.txt",
            200,
            b"gzip!",
            "Accept-Encoding: gzip",
            content_encoding="gzip",
            vary="Accept-Encoding",
            content_type="text/plain; charset=utf-8",
        ),
        file(
            "brotli is better",
            "/packed.txt",
            200,
            b"brotli!",
            "Accept-Encoding: gzip, br",
            content_encoding="br",
            vary="Accept-Encoding",
        ),
        file("weights", "/packed.txt", 200, b"gzip!", "Accept-Encoding: br;q=0.1, gzip;q=0.9", content_encoding="gzip"),
        file(
            "refused by weight",
            "/packed.txt",
            200,
            b"as it is" * 10,
            "Accept-Encoding: gzip;q=0, br;q=0",
            content_encoding=None,
            vary="Accept-Encoding",
        ),
        file("not asked for", "/packed.txt", 200, b"as it is" * 10, content_encoding=None, vary="Accept-Encoding"),
        file("unknown", "/packed.txt", 200, b"as it is" * 10, "Accept-Encoding: x", vary="Accept-Encoding"),
        file(
            "nothing is acceptable",
            "/packed.txt",
            406,
            None,
            "Accept-Encoding: identity;q=0, x",
            vary="Accept-Encoding",
        ),
        file("a file without neighbours", "/page.txt", 200, PAGE, "Accept-Encoding: gzip, br", content_encoding=None),
    ),
    rule(
        "ours",
        "No way to write a path leads out of the root, and none freezes or breaks the server.",
        *map(climbs, UPS),
    ),
    rule(
        "ours",
        "Only regular files beneath the root are sent, and what is hidden stays so.",
        file("a link to an absolute place", "/out.txt", 404),
        file("a link that climbs out", "/up.txt", 404),
        file("a directory that climbs out", "/up/secret.txt", 404),
        file("hidden", "/.hidden", 404),
        file("hidden, escaped", "/%2ehidden", 404),
        file("a name too long", "/" + "a" * 300, 404),
        file("a path too long", "/a" * 3_000, 404),
        file("NUL", "/page.txt%00", 400),
        file("NUL and another ending", "/page.txt%00.html", 400),
        file("an escaped slash", "/sub%2findex.html", 400),
        file("an escaped backslash", "/sub%5cindex.html", 400),
        file("half an escape", "/page.txt%2", 400),
        file("not UTF-8", "/%ff", 400),
        file("overlong UTF-8", "/%c0%af", 400),
        file("escaped twice", "/%2570age.txt", 404),
        file_scene("a FIFO", lambda site: os.mkfifo(site / "pipe"), "/pipe", 404),
        file_scene("a FIFO with a neighbour's name", lambda site: os.mkfifo(site / "page.txt.gz"), "/page.txt", 200),
        file_scene("a link to a device", lambda site: (site / "null").symlink_to("/dev/zero"), "/null", 404),
        file_scene("a link to itself", lambda site: (site / "loop").symlink_to("loop"), "/loop", 404),
        file_scene("a dangling link", lambda site: (site / "gone").symlink_to("nothing"), "/gone", 404),
        file_scene("an index that is a FIFO", lambda site: os.mkfifo(site / "bare" / "index.html"), "/bare/", 404),
        file_scene(
            "a time far in the future",
            lambda site: os.utime(site / "in.txt", (RESTED_S * 100, RESTED_S * 100)),
            "/in.txt",
            200,
        ),
    ),
    rule(
        "ours",
        "A file that becomes shorter while it is sent ends the connection; its length was promised.",
        Scene("a large file", shrinks),
        Scene("several ranges of it", shrinks_in_parts),
    ),
]
