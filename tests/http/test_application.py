"""Applications that are made by a function, and directories that are served beside them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.errors import UsageError
from penstock.http.application import application
from penstock.http.configuration import Configuration
from penstock.http.station import check
from tests.http.serving import serving

APPLICATION = """
from penstock.http import Response


def make():
    def handler(request):
        return Response(200, "made")

    return handler


def make_wsgi():
    def answer(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"made, " + environ["PATH_INFO"].encode()]

    return answer


def fails():
    raise LookupError("no settings")


def nothing():
    return None
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APPLICATION)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "hello.txt").write_text("from a file")
    return tmp_path


@pytest.mark.parametrize("kind", [(), ("--workers", "2")], ids=["one", "workers"])
def test_a_factory_makes_the_application(app: Path, kind: tuple[str, ...]) -> None:
    with serving("app:make", "--factory", *kind, cwd=app) as server:
        assert server.get()[2] == b"made"
        assert server.leave()[0] == 0


@pytest.mark.parametrize("prefix", [None, "/assets/"])
def test_a_directory_is_served_beside_an_application(app: Path, prefix: str | None) -> None:
    more = () if prefix is None else ("--static-prefix", prefix)
    with serving("app:make_wsgi", "--wsgi", "--factory", "--static", "files", *more, cwd=app) as server:
        assert server.get((prefix or "/static/") + "hello.txt")[2] == b"from a file"
        assert server.get((prefix or "/static/") + "none")[0] == 404
        assert server.get("/other")[2] == b"made, /other"
        assert server.leave()[0] == 0


@pytest.mark.parametrize(
    ("name", "message"), [("fails", "LookupError: no settings"), ("nothing", "makes NoneType instead")]
)
def test_a_factory_that_makes_nothing_is_named(
    app: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    monkeypatch.syspath_prepend(app)
    monkeypatch.delitem(sys.modules, "app", raising=False)
    try:
        with pytest.raises(UsageError, match=message):
            application(f"app:{name}", factory=True)
    finally:
        sys.modules.pop("app", None)


def test_a_directory_has_no_other_beside_it(app: Path) -> None:
    with pytest.raises(UsageError, match="give one of them"):
        check(Configuration(target=str(app), static=str(app / "files")))
