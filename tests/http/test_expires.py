"""Expires, beside Cache-Control: with everything of a file that can be kept, and with nothing else."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from penstock.http.exchange import Request
from penstock.http.files import Files
from penstock.http.message import Response
from tests.http.rig import Answer, get, post, serving

AGE_S = 3_600


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "small.txt").write_bytes(b"small")
    (tmp_path / "large.bin").write_bytes(b"l" * 3_000_000)
    (tmp_path / "folder").mkdir()
    return tmp_path


def expires_after_s(answer: Answer) -> float:
    """From the answer's date, which is made in the same second or the one before."""
    expires, date = answer.field("Expires"), answer.field("Date")
    assert expires is not None
    assert date is not None
    return (parsedate_to_datetime(expires) - parsedate_to_datetime(date)).total_seconds()


@pytest.mark.parametrize("path", ["/small.txt", "/large.bin"])
def test_it_is_told_with_everything_of_a_file_that_can_be_kept(root: Path, path: str) -> None:
    with serving(files=Files(root, max_age=AGE_S, expires=True)) as served:
        whole = served.ask(get(path))
        etag = whole.field("ETag")
        answers = {
            200: whole,
            206: served.ask(get(path, "Range: bytes=0-1")),
            304: served.ask(get(path, f"If-None-Match: {etag}")),
        }
        for status, answer in answers.items():
            assert (answer.status, answer.field("Cache-Control")) == (status, f"max-age={AGE_S}")
            assert expires_after_s(answer) == AGE_S
        head = served.dial().ask(get(path, method="HEAD"), head=True)
        assert expires_after_s(head) == AGE_S


def test_it_is_told_with_several_ranges(root: Path) -> None:
    with serving(files=Files(root, max_age=AGE_S, expires=True)) as served:
        answer = served.ask(get("/small.txt", "Range: bytes=0-0,4-4"))
        assert (answer.status, answer.field("Cache-Control")) == (206, f"max-age={AGE_S}")
        assert expires_after_s(answer) in (AGE_S - 1, AGE_S, AGE_S + 1)


def test_it_is_not_told_with_anything_else(root: Path) -> None:
    def hello(_: Request) -> Response:
        return Response(200, "hello")

    with serving(files=Files(root, max_age=0, expires=True, listing=True)) as served:
        for asked, status in (
            (get("/nothing"), 404),
            (get("/folder"), 301),
            (get("/folder/"), 200),
            (get("/small.txt", "Range: bytes=9-"), 416),
            (get("/small.txt", 'If-Match: "another"'), 412),
            (post("/small.txt", b"x"), 405),
            (get("/small.txt", method="OPTIONS"), 204),
        ):
            answer = served.ask(asked)
            assert (answer.status, answer.field("Expires")) == (status, None), asked
        assert expires_after_s(served.ask(get("/small.txt"))) == 0
    with serving(files=Files(root, max_age=AGE_S)) as served:
        assert served.ask(get("/small.txt")).field("Expires") is None
    with serving(hello) as served:
        assert served.ask(get("/")).field("Expires") is None
