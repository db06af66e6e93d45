"""Files beneath a root: what each request is answered with, and what the class tells about itself."""

from __future__ import annotations

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
from penstock.testing.serving import drive
from tests.http.site import (
    LARGE,
    RESTED,
    content_of,
    denied,
    fields_of,
    get,
    held,
    make_site,
    open_descriptors,
    put,
)

BENCH = Path(__file__).resolve().parents[2] / "bench" / "http" / "files.py"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_site(tmp_path / "site")


@pytest.fixture
def files(root: Path) -> Iterator[Files]:
    files = Files(root)
    yield files
    files.close()


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
        ({"expires": True}, "give max_age"),
        ({"expires": 1, "max_age": 1}, "expires"),
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
