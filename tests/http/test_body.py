"""Content of requests: of a length, and chunked; a table, every way to cut it, and a comparison with a slow model."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.http.body import BodyReader
from tests.http.body_model import decode_chunked
from tests.http.strategies import CHUNKS

MORE, PIECE, DONE, BAD = 0, 1, 2, 3


def read(reader: BodyReader, pieces: list[bytes]) -> tuple[int, bytes, int]:
    """Feed pieces as the server does: what was said last, the content, and how many bytes were used."""
    content = b""
    total = 0
    said = MORE
    for piece in pieces:
        left = piece
        said = PIECE
        while said == PIECE:
            said, used, part = reader.feed(left)
            assert bool(part) == (said == PIECE)
            content += part
            left = left[used:]
            total += used
        if said != MORE:
            break
        assert not left
    assert reader.received == len(content)
    if said == BAD:
        assert reader.status >= 400
        assert reader.reason.endswith(".")
    return said, content, total


def chunked(data: bytes, cuts: tuple[int, ...] = (), **limits: int) -> tuple[int, bytes, int, int]:
    """What comes of chunked content that is cut there; the last figure is the status."""
    reader = BodyReader(None, **limits)
    assert reader.begin() == MORE
    edges = [0, *cuts, len(data)]
    pieces = [data[a:b] for a, b in pairwise(edges)]
    said, content, total = read(reader, pieces)
    return said, content, total if said == DONE else 0, reader.status


GOOD = [
    ("nothing", "7.1", b"0\r\n\r\n", b""),
    ("one chunk", "7.1", b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
    ("two chunks", "7.1", b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", b"hello!"),
    ("digits in either case", "7.1", b"a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", b"01234567890123456789"),
    ("leading zeros", "7.1", b"0005\r\nhello\r\n000\r\n\r\n", b"hello"),
    ("CR LF in the content", "7.1", b"4\r\n\r\n\r\n\r\n0\r\n\r\n", b"\r\n\r\n"),
    ("an extension", "7.1.1", b"5;a=b\r\nhello\r\n0;last\r\n\r\n", b"hello"),
    ("bad white space before it", "7.1.1", b"5 \t; a = b\r\nhello\r\n0\r\n\r\n", b"hello"),
    ("a quoted one", "7.1.1", b'5;a="b;\tc"\r\nhello\r\n0\r\n\r\n', b"hello"),
    ("trailer fields", "7.1.2", b"0\r\nA: b\r\nContent-Length: 9\r\n\r\n", b""),
]

WRONG = [
    ("no size", "7.1", b"\r\nhello", 400),
    ("an extension without a size", "7.1", b";a\r\n", 400),
    ("a sign", "7.1", b"+5\r\n", 400),
    ("a negative size", "7.1", b"-5\r\n", 400),
    ("a prefix", "7.1", b"0x5\r\n", 400),
    ("a letter that is no digit", "7.1", b"5g\r\n", 400),
    ("white space before the size", "7.1", b" 5\r\n", 400),
    ("white space behind the size", "7.1", b"5 \r\n", 400),
    ("two sizes", "7.1", b"5 5\r\n", 400),
    ("an underscore", "7.1", b"1_0\r\n", 400),
    ("bare LF behind the size", "7.1", b"5\nhello", 400),
    ("bare CR behind the size", "7.1", b"5\rhello", 400),
    ("bare LF in an extension", "7.1.1", b"5;a\nhello", 400),
    ("bare CR in an extension", "7.1.1", b"5;a\rb\r\nhello", 400),
    ("NUL in an extension", "7.1.1", b"5;\0\r\nhello", 400),
    ("bare LF behind the content", "7.1", b"5\r\nhello\n", 400),
    ("bare CR behind the content", "7.1", b"5\r\nhello\r5", 400),
    ("more content than was said", "7.1", b"5\r\nhello!", 400),
    ("17 digits", "7.1", b"1" + b"0" * 16 + b"\r\n", 400),
    ("the largest of 16 digits", "7.1", b"f" * 16 + b"\r\n", 413),
    ("a size line that is too long", "7.1.1", b"5;" + b"a" * 255, 400),
    ("a folded trailer field", "5.2", b"0\r\n A: b\r\n", 400),
    ("a trailer field without a colon", "7.1.2", b"0\r\nA\r\n", 400),
    ("a space before its colon", "5.1", b"0\r\nA : b\r\n", 400),
    ("a trailer field without a name", "7.1.2", b"0\r\n: b\r\n", 400),
    ("NUL in a trailer field", "7.1.2", b"0\r\nA: \0\r\n", 400),
    ("bare LF behind a trailer field", "2.2", b"0\r\nA: b\n", 400),
    ("bare CR in a trailer field", "2.2", b"0\r\nA: b\rc", 400),
    ("bare LF at the end", "2.2", b"0\r\n\n", 400),
    ("bare CR at the end", "2.2", b"0\r\n\rx", 400),
    ("trailer fields that are too large", "7.1.2", b"0\r\nA: " + b"b" * 4_094, 431),
]


@pytest.mark.parametrize(("rule", "section", "data", "content"), GOOD)
def test_what_is_right(rule: str, section: str, data: bytes, content: bytes) -> None:
    expected = (DONE, content, len(data), 0)
    assert chunked(data + b"GET") == expected, rule
    assert chunked(data, tuple(range(len(data)))) == expected
    for cut in range(len(data)):
        assert chunked(data, (cut,)) == expected
        assert chunked(data[:cut])[0] == MORE
    assert decode_chunked(data + b"GET") == ("done", content, len(data))


@pytest.mark.parametrize(("rule", "section", "data", "status"), WRONG)
def test_what_is_wrong(rule: str, section: str, data: bytes, status: int) -> None:
    found = chunked(data)
    assert (found[0], found[3]) == (BAD, status), rule
    assert chunked(data, tuple(range(len(data)))) == found
    assert decode_chunked(data)[0] == "bad"


@given(
    data=CHUNKS,
    cuts=st.lists(st.integers(0, 200), max_size=6),
    body_max=st.integers(0, 40),
    line_max=st.integers(3, 20),
)
def test_chunks_are_as_the_model_says_however_they_are_cut(
    data: bytes, cuts: list[int], body_max: int, line_max: int
) -> None:
    every: list[dict[str, int]] = [{}, {"body_max": body_max, "chunk_line_max": line_max, "trailer_max": body_max}]
    for limits in every:
        verdict, content, size = decode_chunked(data, **limits)
        expected = ({"more": MORE, "done": DONE, "bad": BAD}[verdict], content, size)
        assert chunked(data, (), **limits)[:3] == expected
        assert chunked(data, tuple(sorted(min(cut, len(data)) for cut in cuts)), **limits)[:3] == expected


def test_content_may_be_as_large_as_allowed() -> None:
    data = b"5\r\nhello\r\n3\r\nabc\r\n0\r\n\r\n"
    assert chunked(data, body_max=8)[0] == DONE
    assert chunked(data, body_max=7) == (BAD, b"hello", 0, 413)


def test_trailer_fields_may_be_as_large_as_allowed() -> None:
    data = b"0\r\nA: b\r\n\r\n"
    assert chunked(data, trailer_max=6)[0] == DONE
    assert chunked(data, trailer_max=5) == (BAD, b"", 0, 431)
    assert chunked(b"0\r\n\r\n", trailer_max=0)[0] == DONE


def test_extensions_cannot_outweigh_the_content_for_long() -> None:
    wasteful = b"1;" + b"x" * 250 + b"\r\na\r\n"
    assert chunked(wasteful * 60)[0] == MORE
    assert chunked(wasteful * 80)[3] == 400
    assert decode_chunked(wasteful * 80)[0] == "bad"
    # 68 times 239 bytes too many, and 132 more, are just what is allowed.
    data = (b"1;" + b"x" * 252 + b"\r\na\r\n") * 68 + b"1;" + b"x" * 145
    for rest, expected in ((b"\r\na\r\n", "more"), (b"x\r\na\r\n", "bad")):
        assert decode_chunked(data + rest)[0] == expected
        assert (chunked(data + rest)[0] == MORE) == (expected == "more")
    fair = b"ff;" + b"x" * 250 + b"\r\n" + b"a" * 255 + b"\r\n"
    assert chunked(fair * 200)[0] == MORE


@given(length=st.integers(0, 50), sizes=st.lists(st.integers(0, 20), max_size=10))
def test_content_of_a_length(length: int, sizes: list[int]) -> None:
    reader = BodyReader(length)
    assert reader.begin() == (MORE if length else DONE)
    data = bytes(range(sum(sizes)))
    pieces = [data[sum(sizes[:i]) : sum(sizes[: i + 1])] for i in range(len(sizes))]
    said, content, used = read(reader, pieces)
    assert content == data[:length]
    assert used == len(content)
    assert said == (DONE if pieces and len(data) >= length else MORE)


def test_a_length_is_refused_before_anything_of_it_comes() -> None:
    assert BodyReader(8, body_max=8).begin() == MORE
    reader = BodyReader(9, body_max=8)
    assert (reader.begin(), reader.status) == (BAD, 413)
    assert reader.feed(b"x")[0] == BAD


def test_a_verdict_stays() -> None:
    reader = BodyReader(None)
    reader.begin()
    assert reader.feed(b"x")[0] == BAD
    assert reader.feed(b"0\r\n\r\n")[:2] == (BAD, 0)
    reader = BodyReader(None)
    reader.begin()
    assert reader.feed(b"0\r\n\r\nGET")[:2] == (DONE, 5)
    assert reader.feed(b"GET")[:2] == (DONE, 0)
