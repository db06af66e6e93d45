"""Files beneath a root: what each request is answered with, what is cached, and what happens when the disk changes."""

from __future__ import annotations

import email
import gzip
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import limits
from penstock.errors import UsageError
from penstock.http.files import REASONS, Files
from penstock.http.handmade import Made
from penstock.http.message import FilePart
from penstock.http.slow import human
from penstock.testing.serving import HeldAnswer, drive
from tests.http.site import RESTED, RESTED_S, SECOND, content_of, denied, fields_of, get, open_descriptors, put

LARGE = bytes(range(256)) * 256  # 64 KiB
BROWSER = ("Accept-Encoding", "gzip, deflate, br, zstd")
BENCH = Path(__file__).resolve().parents[2] / "bench" / "http" / "files.py"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "site"
    put(root / "index.html", b"<p>hello")
    put(root / "page.txt", b"0123456789" * 10)
    put(root / "large.bin", LARGE)
    put(root / "sub" / "index.html", b"<p>sub")
    put(root / "bare" / "one.txt", b"one")
    return root


@pytest.fixture
def files(root: Path) -> Iterator[Files]:
    files = Files(root)
    yield files
    files.close()


def held(files: Files, path: bytes, now_s: float = 10.0) -> HeldAnswer:
    return HeldAnswer(files, Made(b"GET", path, b"", []), int(now_s * SECOND))


# ---- answers ---------------------------------------------------------------------------------------------------------


def test_a_file_is_answered_with_all_that_is_known_of_it(root: Path, files: Files) -> None:
    answer = get(files, "/page.txt")
    about = (root / "page.txt").stat()
    assert answer.status == 200
    assert answer.body == b"0123456789" * 10
    assert fields_of(answer) == {
        "Content-Length": "100",
        "Content-Type": "text/plain; charset=utf-8",
        "Accept-Ranges": "bytes",
        "Last-Modified": RESTED.decode(),
        "ETag": f'"{about.st_mtime_ns:x}-64-{about.st_ino:x}"',
    }


def test_head_is_answered_like_get(files: Files) -> None:
    for path in ("/page.txt", "/large.bin", "/nothing", "/sub", "/..%2f"):
        by_get, by_head = get(files, path), get(files, path, method="HEAD")
        assert by_get.head == by_head.head
        assert content_of(by_get) == content_of(by_head)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "get", "BREW"])
def test_other_methods_are_refused(files: Files, method: str) -> None:
    answer = get(files, "/page.txt", method=method)
    assert answer.status == 405
    assert fields_of(answer)["Allow"] == "GET, HEAD"
    assert denied(files) == {"method": 1}


def test_a_large_file_is_answered_with_its_place(files: Files) -> None:
    answer = get(files, "/large.bin")
    assert isinstance(answer.body, FilePart)
    assert (answer.body.offset, answer.body.size) == (0, len(LARGE))
    assert content_of(answer) == LARGE
    assert fields_of(answer)["Content-Length"] == str(len(LARGE))


@pytest.mark.parametrize("over", [-1, 0, 1])
def test_what_is_small_is_kept_in_memory(root: Path, files: Files, over: int) -> None:
    size = limits.HTTP_FILE_IN_MEMORY_BYTES + over
    put(root / "edge.bin", b"e" * size)
    answer = get(files, "/edge.bin")
    assert isinstance(answer.body, FilePart) == (over > 0)
    assert content_of(answer) == b"e" * size


def test_an_empty_file_is_a_file(root: Path, files: Files) -> None:
    put(root / "empty.txt", b"")
    answer = get(files, "/empty.txt")
    assert (answer.status, answer.body, fields_of(answer)["Content-Length"]) == (200, b"", "0")
    assert get(files, "/empty.txt", [("Range", "bytes=0-")]).status == 416
    assert get(files, "/empty.txt", [("Range", "bytes=-5")]).status == 200


def test_an_error_says_what_it_is(files: Files) -> None:
    answer = get(files, "/nothing")
    assert answer.status == 404
    assert fields_of(answer) == {
        "Content-Type": "text/plain; charset=utf-8",
        "Content-Length": str(len(content_of(answer))),
    }
    assert content_of(answer).endswith(b".\n")


def test_max_age_is_told_with_everything_that_can_be_kept(root: Path) -> None:
    files = Files(root, max_age=3600)
    etag = fields_of(get(files, "/page.txt"))["ETag"]
    for fields in ([], [("Range", "bytes=0-1")], [("If-None-Match", etag)]):
        assert fields_of(get(files, "/page.txt", fields))["Cache-Control"] == "max-age=3600"
    assert "Cache-Control" not in fields_of(get(files, "/nothing"))


def test_names_of_all_kinds(root: Path, files: Files) -> None:
    for name in ("foo..bar.txt", "a b.txt", "100%.txt", "\u00fc\u4e2d.txt", "a+b&c=d;e.txt", "~x'y.txt", "n" * 255):
        put(root / name, name.encode())
        quoted = "".join(f"%{code:02x}" for code in name.encode())
        if len(quoted) < 8_000:
            assert get(files, f"/{quoted}").body == name.encode()
    assert get(files, "/foo..bar.txt").status == 200
    assert get(files, "/\u00fc\u4e2d.txt").status == 200


def test_dot_files_are_hidden(root: Path) -> None:
    put(root / ".htpasswd", b"secret")
    put(root / ".well-known" / "acme", b"token")
    put(root / ".well-known" / ".key", b"secret")
    files = Files(root)
    assert get(files, "/.htpasswd").status == 404
    assert get(files, "/.well-known/.key").status == 404
    assert get(files, "/.well-known/acme").body == b"token"
    assert denied(files) == {"hidden": 2}
    assert get(Files(root, dotfiles=True), "/.htpasswd").body == b"secret"


# ---- directories -----------------------------------------------------------------------------------------------------


def test_a_directory_is_its_index(root: Path, files: Files) -> None:
    assert get(files, "/").body == b"<p>hello"
    assert get(files, b"").body == b"<p>hello"
    assert get(files, "/sub/").body == b"<p>sub"
    assert fields_of(get(files, "/sub/"))["Content-Type"] == "text/html; charset=utf-8"
    assert get(files, "/bare/").status == 404
    assert get(files, "/page.txt/").status == 404
    assert get(Files(root, index="one.txt"), "/bare/").body == b"one"
    assert get(Files(root, index=None), "/sub/").status == 404
    (root / "bare" / "index.html").mkdir()
    assert get(files, "/bare/").status == 404


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ("/sub", "/sub/"),
        ("/sub?a=1&b=//x", "/sub/?a=1&b=//x"),
        ("//sub", "/sub/"),
        ("///sub", "/sub/"),
        ("/./sub", "/sub/"),
        ("/x/..//sub", "/sub/"),
        ("/a%20b", "/a%20b/"),
        ("/evil.example%00", None),
        ("/%2fevil.example", None),
        ("/%5cevil.example", None),
        ("/\\evil.example", None),
        ("//evil.example", "/evil.example/"),
        ("//evil.example/..", None),
    ],
)
def test_a_directory_without_its_slash_is_redirected_on_this_host(root: Path, path: str, location: str | None) -> None:
    for name in ("a b", "evil.example"):
        (root / name).mkdir()
    files = Files(root)
    for walks in (False, True):
        files.walks = walks
        answer = get(files, path)
        if location is None:
            assert "Location" not in fields_of(answer)
        else:
            assert answer.status == 301
            assert fields_of(answer)["Location"] == location
            assert not location.startswith("//")


def test_a_redirect_does_not_repeat_what_could_end_its_line(files: Files) -> None:
    answer = files.answer("GET", b"/sub", b"a=1\r\nSet-Cookie: x")
    assert fields_of(answer)["Location"] == "/sub/"


def test_a_redirect_to_a_long_place_is_made_the_long_way(root: Path, files: Files) -> None:
    name = "\u4e2d" * 80
    (root / name).mkdir()
    quoted = "".join(f"%{code:02X}" for code in name.encode())
    query = b"q=" + b"x" * 2_000
    assert get(files, f"/{quoted}".encode() + b"?" + query).python
    response = files.slow(b"GET", f"/{quoted}".encode(), query, [])
    assert response.status == 301
    assert f"\r\nLocation: /{quoted}/?".encode() + query + b"\r\n" in response.head
    assert b"Location: /sub/\r\n" in files.slow(b"GET", b"/sub", b"\n" * 1_000, []).head


def test_a_listing_shows_what_can_be_had(root: Path) -> None:
    folder = root / "a <b> & 'c'"
    for name in ("z.txt", "B.txt", "a.txt", "<script>.txt", "javascript:x", "\u00fc.txt"):
        put(folder / name, b"x" * 1_500)
    (folder / "deeper").mkdir()
    put(folder / ".hidden", b"x")
    os.mkfifo(folder / "pipe")
    (folder / "inside").symlink_to("a.txt")
    (folder / "outside").symlink_to("../../../etc")
    put(Path(os.fsdecode(os.fsencode(folder) + b"/\xff.txt")), b"x")
    for walks in (False, True):
        files = Files(root, listing=True)
        files.walks = walks
        path = b"/a%20%3Cb%3E%20&%20'c'/"
        assert get(files, path).python
        response = files.slow(b"GET", path, b"", [])
        assert isinstance(response.body, bytes)
        page = response.body.decode()
        rows = [line.split('href="')[1].split('"')[0] for line in page.splitlines() if line.startswith("<tr><td>")]
        expected = [
            "../",
            "./deeper/",
            "./%3Cscript%3E.txt",
            "./a.txt",
            "./B.txt",
            "./inside",
            "./javascript:x",
            "./z.txt",
        ]
        assert rows == [*expected, "./%C3%BC.txt"]
        assert "&lt;script&gt;.txt" in page
        assert "<script>" not in page
        assert "a &lt;b&gt; &amp; &#x27;c&#x27;" in page
        assert '<a href="/a%20%3Cb%3E%20&amp;%20&#x27;c&#x27;/">' in page
        assert "1.5 KiB" in page
        assert "09 Sep 2001 01:46" in page
        assert b"Content-Type: text/html; charset=utf-8\r\n" in response.head
        for name in ("hidden", "pipe", "outside"):
            assert name not in page
    assert b".hidden" in bytes_of(Files(root, listing=True, dotfiles=True), path)


def bytes_of(files: Files, path: bytes) -> bytes:
    body = files.slow(b"GET", path, b"", []).body
    assert isinstance(body, bytes)
    return body


def test_a_listing_is_bounded(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_LISTING_MAX", 3)
    (root / "many").mkdir()
    for number in range(5):
        put(root / "many" / f"{number}.txt", b"")
        page = bytes_of(Files(root, listing=True), b"/many/").decode()
        assert page.count('<a href="./') == min(number + 1, 3)
        assert ("There are more" in page) == (number >= 3)
    (root / "none").mkdir()
    assert b"nothing here" in bytes_of(Files(root, listing=True), b"/none/")


def test_a_listing_needs_to_be_asked_for(root: Path) -> None:
    files = Files(root, listing=True)
    assert get(files, "/bare/").python
    assert get(files, "/bare").status == 301
    assert get(files, "/").body == b"<p>hello"
    assert get(files, "/nothing/").status == 404
    assert get(files, "/page.txt/").status == 404
    assert b'href="../"' not in bytes_of(Files(root, listing=True, index=None), b"/")
    assert get(Files(root), "/bare/").status == 404


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1048575, "1.0 MiB")])
def test_sizes_for_people(size: int, text: str) -> None:
    assert human(size) == text
    assert human(5 * 1024**6) == "5120.0 PiB"


# ---- what is no file -------------------------------------------------------------------------------------------------


def test_only_regular_files_are_served_and_nothing_freezes(root: Path, files: Files) -> None:
    os.mkfifo(root / "pipe")
    (root / "null").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as listener:
        folder = os.open(root, os.O_RDONLY)
        try:
            # A name of a socket must be short, however deep the folder is.
            listener.bind(f"/proc/self/fd/{folder}/socket" if sys.platform == "linux" else str(root / "socket"))
        finally:
            os.close(folder)
        for walks in (False, True):
            files.walks = walks
            for path in ("/pipe", "/socket", "/null"):
                assert get(files, path).status == 404
    assert denied(files) == {"special": 4, "outside": 2}


def test_what_may_not_be_read_is_forbidden(root: Path, files: Files) -> None:
    put(root / "closed.txt", b"closed").chmod(0)
    root.chmod(0o755)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65_534)
    try:
        assert get(files, "/closed.txt").status == 403
        assert get(files, "/page.txt").status == 200
    finally:
        os.seteuid(user)
    assert denied(files) == {"forbidden": 1}


def test_without_a_free_descriptor_the_cache_stays_good(root: Path, files: Files) -> None:
    resource = pytest.importorskip("resource", reason="this system has no limits to lower")
    assert get(files, "/page.txt", now_s=10).status == 200
    (root / "page.txt").write_bytes(b"changed")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        old = get(files, "/page.txt", now_s=20)
        other = get(files, "/index.html", now_s=20)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert old.body == b"0123456789" * 10
    assert other.status == 503
    assert fields_of(other)["Retry-After"] == "1"
    assert denied(files) == {"busy": 1}
    assert get(files, "/page.txt", now_s=22).body == b"changed"
    assert get(files, "/index.html", now_s=22).status == 200


# ---- the cache -------------------------------------------------------------------------------------------------------


def test_a_change_is_seen_after_a_second(root: Path, files: Files) -> None:
    first = get(files, "/page.txt", now_s=10)
    put(root / "page.txt", b"new", RESTED_S + 1)
    assert get(files, "/page.txt", now_s=10.999) == first
    assert get(files, "/page.txt", now_s=11).body == b"new"
    (root / "page.txt").unlink()
    assert get(files, "/page.txt", now_s=11.5).body == b"new"
    assert get(files, "/page.txt", now_s=12).status == 404
    put(root / "page.txt", b"again", RESTED_S + 2)
    assert get(files, "/page.txt", now_s=12).body == b"again"
    counted = files.counters()
    assert (counted["hits"], counted["misses"], counted["revalidated"]) == (2, 3, 0)
    assert denied(files) == {"absent": 1}


def test_what_has_not_changed_is_only_looked_at(files: Files) -> None:
    for second in range(10, 20):
        for part in range(5):
            assert get(files, "/page.txt", now_s=second + part / 10).status == 200
    counted = files.counters()
    assert (counted["hits"], counted["misses"], counted["revalidated"]) == (40, 1, 9)


def test_a_clock_that_goes_back_makes_nothing_stay_for_ever(root: Path, files: Files) -> None:
    assert get(files, "/page.txt", now_s=1_000).status == 200
    put(root / "page.txt", b"new", RESTED_S + 1)
    assert get(files, "/page.txt", now_s=10).body == b"new"


def test_a_file_that_changed_a_moment_ago_is_read_again(root: Path, files: Files) -> None:
    """The same size and the same time do not mean the same content, if the time is still running."""
    ahead = 4_000_000_000
    put(root / "page.txt", b"one", ahead)
    answer = get(files, "/page.txt", now_s=10)
    assert answer.body == b"one"
    assert fields_of(answer)["Last-Modified"] < "Z"
    assert "2096" not in fields_of(answer)["Last-Modified"]
    put(root / "page.txt", b"two", ahead)
    assert get(files, "/page.txt", now_s=11).body == b"two"
    # Its date cannot stand for its content.
    date = fields_of(get(files, "/page.txt", now_s=11))["Last-Modified"]
    assert get(files, "/page.txt", [("Range", "bytes=0-0"), ("If-Range", date)], now_s=11).status == 200
    put(root / "page.txt", b"three")
    part = get(files, "/page.txt", [("Range", "bytes=0-0"), ("If-Range", RESTED.decode())], now_s=13)
    assert (part.status, part.body) == (206, b"t")


def test_what_is_being_sent_stays_as_it_was(root: Path, files: Files) -> None:
    small, large = held(files, b"/page.txt"), held(files, b"/large.bin")
    with (root / "page.txt").open("r+b") as file:
        file.truncate(0)
    (root / "large.bin").unlink()
    put(root / "large.bin", b"s" * 20_000)
    assert get(files, "/page.txt", now_s=12).body == b""
    assert content_of(get(files, "/large.bin", now_s=12)) == b"s" * 20_000
    files.close()
    assert small.body == b"0123456789" * 10
    descriptor, offset, size = large.place
    assert os.pread(descriptor, size, offset) == LARGE
    large.give_back()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(descriptor)


def test_the_cache_is_bounded(root: Path) -> None:
    for number in range(300):
        put(root / "many" / f"{number}.txt", b"x" * 100)
    before = open_descriptors()
    files = Files(root, cache_entries=10, precompressed=False)
    for number in range(300):
        assert get(files, f"/many/{number}.txt").status == 200
    assert files.counters()["entries"] == 10
    assert files.counters()["evicted"] == 290
    tight = Files(root, cache_bytes=5_000)
    for number in range(300):
        assert get(tight, f"/many/{number}.txt").status == 200
    assert 0 < int(str(tight.counters()["bytes"])) <= 5_000
    for cache_bytes, cache_entries in ((0, 10), (1 << 20, 0)):
        none = Files(root, cache_bytes=cache_bytes, cache_entries=cache_entries)
        assert content_of(get(none, "/large.bin")) == LARGE
        assert get(none, "/page.txt").body == get(none, "/page.txt").body
        assert (none.counters()["entries"], none.counters()["misses"]) == (0, 3)
        none.close()
    files.close()
    tight.close()
    assert open_descriptors() == before


def test_open_files_are_bounded(root: Path, files: Files) -> None:
    count = limits.HTTP_CACHE_OPEN_FILES + 20
    for number in range(count):
        with put(root / f"{number}.bin", b"").open("r+b") as file:
            file.truncate(1 << 20)
    before = open_descriptors()
    for number in range(count):
        assert held(files, f"/{number}.bin".encode()).status == 200
    assert files.counters()["open_files"] == limits.HTTP_CACHE_OPEN_FILES
    assert len(open_descriptors() - before) == limits.HTTP_CACHE_OPEN_FILES


def test_a_hit_asks_the_system_nothing(root: Path, files: Files) -> None:
    made = Made(b"GET", b"/page.txt", b"", [(b"Accept-Encoding", b"gzip, br")])
    drive(files, made, 10 * SECOND, 1)
    for path in sorted(root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    drive(files, made, 10 * SECOND, 1_000)
    counted = files.counters()
    assert (counted["hits"], counted["misses"], denied(files)) == (1_000, 1, {})


def test_what_is_not_there_is_not_remembered(files: Files) -> None:
    for number in range(1_000):
        assert get(files, f"/{number}").status == 404
    assert files.counters()["entries"] == 0


# ---- the root --------------------------------------------------------------------------------------------------------


def test_a_root_that_goes_and_comes_back(root: Path, files: Files) -> None:
    assert get(files, "/page.txt", now_s=10).status == 200
    root.rename(root.parent / "away")
    for now_s in (11, 12, 13):
        assert get(files, "/page.txt", now_s=now_s).status == 404
        assert get(files, "/", now_s=now_s).status == 404
    put(root / "page.txt", b"another")
    assert get(files, "/page.txt", now_s=14).body == b"another"


def test_a_root_that_is_emptied_and_removed(root: Path) -> None:
    files = Files(root, listing=True)
    assert get(files, "/bare/", now_s=10).python
    for path in sorted(root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    root.rmdir()
    for now_s in (11, 12, 13):
        for name in ("/page.txt", "/", "/bare/", "/bare"):
            assert get(files, name, now_s=now_s).status == 404
    assert files.slow(b"GET", b"/", b"", []).status == 404
    root.write_bytes(b"a file by now")
    assert get(files, "/page.txt", now_s=14).status == 404


def test_a_root_that_is_switched_by_a_link(tmp_path: Path) -> None:
    for release in ("one", "two"):
        put(tmp_path / release / "page.txt", release.encode())
    current = tmp_path / "current"
    current.symlink_to("one")
    files = Files(current)
    assert get(files, "/page.txt", now_s=10).body == b"one"
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(current)
    assert get(files, "/page.txt", now_s=10.5).body == b"one"
    assert get(files, "/page.txt", now_s=11).body == b"two"


# ---- codings ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def coded(root: Path) -> Files:
    put(root / "app.js", b"js" * 500)
    put(root / "app.js.br", b"as br")
    put(root / "app.js.gz", gzip.compress(b"js" * 500))
    return Files(root, max_age=60)


def test_a_precompressed_neighbour_is_sent_to_who_wants_it(coded: Files) -> None:
    plain, br, zipped = (get(coded, "/app.js", [("Accept-Encoding", value)]) for value in ("", "gzip, br", "gzip"))
    assert (plain.body, br.body) == (b"js" * 500, b"as br")
    assert gzip.decompress(content_of(zipped)) == b"js" * 500
    assert len({fields_of(answer)["ETag"] for answer in (plain, br, zipped)}) == 3
    for answer, coding in ((plain, None), (br, "br"), (zipped, "gzip")):
        fields = fields_of(answer)
        assert fields.get("Content-Encoding") == coding
        assert fields["Vary"] == "Accept-Encoding"
        assert fields["Content-Type"] == "text/javascript; charset=utf-8"
        assert fields["Content-Length"] == str(len(content_of(answer)))
    assert get(coded, "/app.js").body == plain.body


def test_conditions_are_about_the_coding_that_is_sent(coded: Files) -> None:
    etag = fields_of(get(coded, "/app.js", [BROWSER]))["ETag"]
    assert get(coded, "/app.js", [BROWSER, ("If-None-Match", etag)]).status == 304
    assert get(coded, "/app.js", [("If-None-Match", etag)]).status == 200
    same = fields_of(get(coded, "/app.js", [BROWSER, ("If-None-Match", etag)]))
    assert same == {"ETag": etag, "Cache-Control": "max-age=60", "Vary": "Accept-Encoding"}
    part = get(coded, "/app.js", [BROWSER, ("Range", "bytes=3-"), ("If-Range", etag)])
    assert (part.status, part.body, fields_of(part)["Content-Range"]) == (206, b"br", "bytes 3-4/5")
    assert fields_of(part)["Content-Encoding"] == "br"


def test_who_refuses_everything_gets_nothing(coded: Files) -> None:
    answer = get(coded, "/app.js", [("Accept-Encoding", "identity;q=0")])
    assert (answer.status, fields_of(answer)["Vary"]) == (406, "Accept-Encoding")
    assert get(coded, "/page.txt", [("Accept-Encoding", "gzip, *;q=0")]).status == 406
    assert get(coded, "/app.js", [("Accept-Encoding", "identity;q=0, gzip")]).status == 200
    assert denied(coded) == {"coding": 2}


def test_an_old_neighbour_is_not_used(root: Path, coded: Files) -> None:
    put(root / "app.js", b"new", RESTED_S + 1)
    answer = get(coded, "/app.js", [BROWSER])
    assert answer.body == b"new"
    assert "Vary" not in fields_of(answer)
    put(root / "app.js.br", b"new br", RESTED_S + 1)
    assert get(coded, "/app.js", [BROWSER], now_s=11).body == b"new br"


def test_neighbours_come_and_go(root: Path, coded: Files) -> None:
    def sent(now_s: float) -> str | None:
        return fields_of(get(coded, "/app.js", [BROWSER], now_s)).get("Content-Encoding")

    assert sent(10) == "br"
    (root / "app.js.br").unlink()
    assert sent(11) == "gzip"
    (root / "app.js.gz").unlink()
    (root / "app.js.gz").mkdir()
    assert sent(12) is None
    assert "Vary" not in fields_of(get(coded, "/app.js", now_s=12))
    put(root / "app.js.zst", b"as zst")
    assert sent(13) == "zstd"
    (root / "app.js.zst").unlink()
    (root / "app.js.zst").symlink_to("../../outside")
    assert sent(14) is None
    (root / "app.js").unlink()
    assert get(coded, "/app.js", [BROWSER], now_s=15).status == 404


def test_a_neighbour_is_a_file_by_its_own_name_too(root: Path, coded: Files) -> None:
    put(root / "app.js.gz.gz", b"twice")
    answer = get(coded, "/app.js.gz", [BROWSER])
    fields = fields_of(answer)
    assert fields["Content-Type"] == "application/gzip"
    assert "Content-Encoding" not in fields
    assert "Vary" not in fields


def test_neighbours_can_be_left_alone(root: Path, coded: Files) -> None:
    answer = get(Files(root, precompressed=False), "/app.js", [BROWSER])
    assert answer.body == b"js" * 500
    assert "Vary" not in fields_of(answer)


def test_an_index_has_neighbours_as_well(root: Path, files: Files) -> None:
    put(root / "index.html.gz", b"zipped")
    answer = get(files, "/", [BROWSER])
    assert answer.body == b"zipped"
    assert fields_of(answer)["Content-Type"] == "text/html; charset=utf-8"


# ---- conditions and ranges -------------------------------------------------------------------------------------------


def test_conditions(files: Files) -> None:
    etag = fields_of(get(files, "/page.txt"))["ETag"]
    same = get(files, "/page.txt", [("If-None-Match", etag)])
    assert (same.status, same.body, fields_of(same)) == (304, b"", {"ETag": etag})
    assert get(files, "/page.txt", [("If-Modified-Since", RESTED.decode())]).status == 304
    assert get(files, "/page.txt", [("If-Match", '"other"')]).status == 412
    assert get(files, "/page.txt", [("If-Unmodified-Since", "Sun, 09 Sep 2001 01:46:39 GMT")]).status == 412
    assert get(files, "/nothing", [("If-None-Match", "*")]).status == 404
    assert get(files, "/sub", [("If-Match", '"other"')]).status == 301
    assert denied(files) == {"condition": 2, "absent": 1}


@pytest.mark.parametrize("path", ["/page.txt", "/large.bin"])
def test_one_part(files: Files, path: str) -> None:
    whole = content_of(get(files, path))
    size = len(whole)
    for field, first, last in (("0-0", 0, 0), ("7-20", 7, 20), ("50-", 50, size - 1), ("-9", size - 9, size - 1)):
        answer = get(files, path, [("Range", f"bytes={field}")])
        fields = fields_of(answer)
        assert answer.status == 206
        assert content_of(answer) == whole[first : last + 1]
        assert fields["Content-Range"] == f"bytes {first}-{last}/{size}"
        assert fields["Content-Length"] == str(last - first + 1)
        assert {"Content-Type", "ETag", "Last-Modified"} <= set(fields)
        assert fields_of(get(files, path, [("Range", f"bytes={field}")], method="HEAD"))["Content-Length"] == str(size)
    answer = get(files, path, [("Range", f"bytes={size}-")])
    assert (answer.status, fields_of(answer)["Content-Range"]) == (416, f"bytes */{size}")
    assert denied(files) == {"range": 1}


@pytest.mark.parametrize("path", [b"/page.txt", b"/large.bin"])
def test_several_parts(files: Files, path: bytes) -> None:
    whole = content_of(files.answer("GET", path))
    ranges = [(b"Range", b"bytes=90-95,0-1,-2" if path == b"/page.txt" else b"bytes=60000-,0-1,400-499")]
    expected = [(0, 1), (90, 99)] if path == b"/page.txt" else [(60_000, len(whole) - 1), (0, 1), (400, 499)]
    if path == b"/page.txt":
        ranges = [(b"Range", b"bytes=0-1,90-95,-2")]
    before = open_descriptors()
    assert files.answer("GET", path, b"", ranges).python
    response = files.slow(b"GET", path, b"", ranges)
    assert response.status == 206
    assert not isinstance(response.body, bytes | FilePart)
    body = b"".join(response.body)
    assert len(body) == response.length
    message = email.message_from_bytes(response.head.partition(b"\r\n")[2] + b"\r\n" + body)
    assert message.get_content_type() == "multipart/byteranges"
    parts = [part for part in message.walk() if part is not message]
    assert [part["Content-Range"] for part in parts] == [f"bytes {a}-{b}/{len(whole)}" for a, b in expected]
    assert [part.get_payload(decode=True) for part in parts] == [whole[a : b + 1] for a, b in expected]
    assert open_descriptors() == before
    assert response.head.count(b"Content-Type") == 1
    assert b"ETag" in response.head


def test_parts_give_their_descriptor_back_whatever_happens(root: Path, files: Files) -> None:
    def ask() -> Iterator[bytes]:
        body = files.slow(b"GET", b"/large.bin", b"", [(b"Range", b"bytes=0-9,30000-60000")]).body
        assert not isinstance(body, bytes | FilePart)
        return iter(body)

    get(files, "/page.txt")
    next(ask())
    before = open_descriptors()
    forgotten = ask()
    assert len(open_descriptors()) == len(before) + 1
    del forgotten
    assert open_descriptors() == before
    closed = ask()
    next(closed)
    closed.close()  # type: ignore[attr-defined]
    assert open_descriptors() == before
    with pytest.raises(ValueError, match="closed"):
        list(closed)
    cut = ask()
    with (root / "large.bin").open("r+b") as file:
        file.truncate(100)
    with pytest.raises(OSError, match="shorter"):
        list(cut)
    assert open_descriptors() == before


def test_a_part_of_a_long_file_is_read_in_pieces(root: Path, files: Files) -> None:
    with put(root / "huge.bin", b"").open("r+b") as file:
        file.truncate(1 << 32)
    body = files.slow(b"GET", b"/huge.bin", b"", [(b"Range", b"bytes=0-1000000,4000000000-")]).body
    assert not isinstance(body, bytes | FilePart)
    taken = 0
    for piece in body:
        assert len(piece) <= limits.HTTP_PART_BYTES
        taken += len(piece)
        if taken > 3_000_000:
            break
    assert taken > 3_000_000
    body.close()  # type: ignore[attr-defined]
    answer = get(files, "/huge.bin", [("Range", "bytes=4000000000-")])
    assert fields_of(answer)["Content-Range"] == "bytes 4000000000-4294967295/4294967296"
    assert isinstance(answer.body, FilePart)
    os.close(answer.body.fd)


def test_parts_never_come_to_much_more_than_the_whole(files: Files) -> None:
    for field in ("0-,0-,0-,0-", ",".join(f"{n * 3}-{n * 3 + 1}" for n in range(16)), ",".join(["0-99"] * 2_000)):
        response = files.slow(b"GET", b"/page.txt", b"", [(b"Range", b"bytes=" + field.encode())])
        assert response.length is not None
        assert response.length <= 100


# ---- the long way ----------------------------------------------------------------------------------------------------


def test_the_long_way_gives_the_same_answers(files: Files) -> None:
    cases = [("/page.txt", []), ("/nothing", []), ("/sub", []), ("/..%2f", []), ("/page.txt", [("Range", "bytes=3-5")])]
    for path, fields in cases:
        answer = get(files, path, fields)
        pairs = [(name.encode(), value.encode()) for name, value in fields]
        response = files.slow(b"GET", path.encode(), b"", pairs)
        assert (response.status, response.body) == (answer.status, answer.body)
        lines = [line for line in answer.head.split(b"\r\n") if not line.startswith(b"Content-Length")]
        assert sorted(response.head.split(b"\r\n")) == sorted(lines)
        assert response.length == len(content_of(answer))
    large = files.slow(b"GET", b"/large.bin", b"", []).body
    assert isinstance(large, FilePart)
    assert os.pread(large.fd, large.size, large.offset) == LARGE
    os.close(large.fd)


# ---- the class -------------------------------------------------------------------------------------------------------


def test_a_wrong_root_is_explained(root: Path) -> None:
    with pytest.raises(UsageError, match="does not exist; give a directory"):
        Files(root / "nothing")
    with pytest.raises(UsageError, match=r"page\.txt', which is not a directory"):
        Files(root / "page.txt")
    with pytest.raises(UsageError, match="cannot be looked at"):
        Files(root / "page.txt" / "x")
    for wrong in (5, None, b"/tmp", "a\0b"):
        with pytest.raises(UsageError, match="give the path of a directory"):
            Files(wrong)  # type: ignore[arg-type]


def test_a_root_that_may_not_be_read_is_explained(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o300)
    program = "import os, sys\nfrom penstock.http.files import Files\nos.chdir(sys.argv[1])\n"
    program += "os.geteuid() == 0 and os.setresuid(65534, 65534, 65534)\nFiles('closed')"
    tmp_path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False, timeout=60
    )
    assert "UsageError: root is " in done.stderr
    assert "closed'" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"index": "a/b.html"}, "index"),
        ({"index": "../x"}, "index"),
        ({"index": "x\0"}, "index"),
        ({"index": ".."}, "index"),
        ({"index": 5}, "index"),
        ({"index": "n" * 252}, "index"),
        ({"max_age": -1}, "max_age"),
        ({"max_age": 1.5}, "max_age"),
        ({"max_age": 1 << 40}, "max_age"),
        ({"cache_bytes": -1}, "cache_bytes"),
        ({"cache_entries": "many"}, "cache_entries"),
    ],
)
def test_wrong_options_are_explained(root: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Files(root, **options)  # type: ignore[arg-type]


def test_after_the_end_there_is_nothing(root: Path, files: Files) -> None:
    assert get(files, "/page.txt").status == 200
    files.close()
    files.close()
    for path in ("/page.txt", "/", "/sub", "/sub/"):
        assert get(files, path, now_s=10).status == 404
        assert get(files, path, now_s=100).status == 404
    assert files.counters()["entries"] == 0
    with pytest.raises(UsageError, match="already"):
        files.__init__(root)


def test_objects_and_what_they_hold_go_together(root: Path) -> None:
    before = open_descriptors()
    files = Files(root)
    get(files, "/page.txt")
    kept = held(files, b"/large.bin")
    del files
    assert os.pread(kept.place[0], 4, 0) == LARGE[:4]
    kept.give_back()
    del kept
    assert open_descriptors() == before
    with pytest.raises(UsageError, match=r"give a penstock\.http\.files\.Files"):
        drive("files", Made(b"GET", b"/", b"", []), 0, 1)  # type: ignore[arg-type]


def test_counters_have_every_reason(files: Files) -> None:
    counted = files.counters()["denied"]
    assert isinstance(counted, dict)
    assert tuple(counted) == REASONS
    for path in ("/%", "/.x", "/" + "n" * 256, "/nothing"):
        get(files, path)
    assert denied(files) == {"malformed": 1, "hidden": 1, "long": 1, "absent": 1}


def test_the_measurement_runs() -> None:
    command = [sys.executable, str(BENCH), "--rounds", "10", "--repeat", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert [line for line in done.stdout.splitlines() if line.endswith(" ns")] == done.stdout.splitlines() != []
