"""Codings, conditions, ranges, and answers that are made the long way."""

from __future__ import annotations

import email
import gzip
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.http.files import Files
from penstock.http.message import FilePart
from tests.http.site import (
    LARGE,
    RESTED,
    RESTED_S,
    SECOND,
    content_of,
    denied,
    fields_of,
    get,
    make_site,
    open_descriptors,
    put,
)

# One site for all examples; removed when the interpreter exits.
FOLDER = tempfile.TemporaryDirectory()
SITE = Files(make_site(Path(FOLDER.name)))
BROWSER = ("Accept-Encoding", "gzip, deflate, br, zstd")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_site(tmp_path / "site")


@pytest.fixture
def files(root: Path) -> Iterator[Files]:
    files = Files(root)
    yield files
    files.close()


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
    body = b"".join(cast("Iterable[bytes]", response.body))
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
        return iter(cast("Iterable[bytes]", body))

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
    for piece in cast("Iterable[bytes]", body):
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


FIELD_NAMES = st.sampled_from(
    ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range", "Accept-Encoding"]
)
WORDS = st.sampled_from(["bytes=", "0-", "-1", ",", " ", '"x"', "W/", "*", "gzip", ";q=0", ";q=1.000", "GMT"])
FIELD_VALUES = st.one_of(
    st.text(' \t,;=-*"/0123456789Wbytesqgzip.', max_size=40),
    st.lists(WORDS, max_size=12).map("".join),
    st.binary(max_size=40).map(lambda raw: raw.decode("latin-1")),
)


@given(st.lists(st.tuples(FIELD_NAMES, FIELD_VALUES), max_size=8), st.sampled_from(["page.txt", "large.bin"]))
def test_no_field_does_harm(fields: list[tuple[str, str]], name: str) -> None:
    pairs = [(field.encode(), value.encode("latin-1")) for field, value in fields]
    answer = SITE.answer("GET", f"/{name}".encode(), b"", pairs, 10 * SECOND)
    if answer.python:
        answer = SITE.answer("HEAD", f"/{name}".encode(), b"", pairs, 10 * SECOND)
    assert answer.status in {200, 206, 304, 406, 412, 416}
    told = fields_of(answer)
    assert answer.status == 304 or len(content_of(answer)) == int(told["Content-Length"])
