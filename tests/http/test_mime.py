"""The Content-Type of a name: the table in C against the table it was made of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.http import types_table
from penstock.http.mime import content_type

TYPES = types_table.build()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("index.html", "text/html; charset=utf-8"),
        ("a/b/INDEX.HTM", "text/html; charset=utf-8"),
        ("style.css", "text/css; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("app.min.mjs", "text/javascript; charset=utf-8"),
        ("app.js.map", "application/json"),
        ("data.json", "application/json"),
        ("logo.svg", "image/svg+xml"),
        ("logo.png", "image/png"),
        ("photo.JPG", "image/jpeg"),
        ("photo.webp", "image/webp"),
        ("photo.avif", "image/avif"),
        ("favicon.ico", "image/x-icon"),
        ("font.woff2", "font/woff2"),
        ("app.wasm", "application/wasm"),
        ("site.webmanifest", "application/manifest+json"),
        ("feed.xml", "application/xml"),
        ("paper.pdf", "application/pdf"),
        ("film.mp4", "video/mp4"),
        ("film.webm", "video/webm"),
        ("song.mp3", "audio/mpeg"),
        ("notes.txt", "text/plain; charset=utf-8"),
        ("notes.md", "text/markdown; charset=utf-8"),
        ("table.csv", "text/csv; charset=utf-8"),
        ("source.tar.gz", "application/gzip"),
        ("source.zip", "application/zip"),
        ("README", "text/plain; charset=utf-8"),
        ("folder.html/LICENSE", "text/plain; charset=utf-8"),
        ("folder.html/file", "application/octet-stream"),
        ("file.", "application/octet-stream"),
        ("file.readme", "application/octet-stream"),
        ("html", "application/octet-stream"),
        (".html", "text/html; charset=utf-8"),
        ("", "application/octet-stream"),
        ("a.unheardof", "application/octet-stream"),
        ("a." + "x" * 300, "application/octet-stream"),
        ("x" * 300, "application/octet-stream"),
        ("a.ht\u00fcml", "application/octet-stream"),
    ],
)
def test_types_of_names(name: str, expected: str) -> None:
    assert content_type(name.encode()) == expected


def test_every_ending_of_the_table_is_found() -> None:
    assert len(TYPES) > 500
    for ending, kind in TYPES.items():
        assert content_type(f"some.name.{ending}".encode()) == kind
        assert content_type(f"X.{ending.upper()}".encode()) == kind
        assert kind.startswith("text/") == kind.endswith("; charset=utf-8")
    for name in types_table.TEXT_NAMES.split():
        assert content_type(name.upper().encode()) == "text/plain; charset=utf-8"


@given(st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=24))
def test_any_name_has_the_type_that_the_table_says(name: str) -> None:
    last = name.rsplit("/", 1)[-1]
    lower = last.lower()
    expected = types_table.OTHERWISE
    if "." in last:
        expected = TYPES.get(lower.rsplit(".", 1)[1], expected)
    elif lower in types_table.TEXT_NAMES.split():
        expected = TYPES["txt"]
    assert content_type(name.encode()) == expected
