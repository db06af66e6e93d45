"""What is cached of files, and what happens when they, or the root, change."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import limits
from penstock.http.files import Files
from penstock.http.handmade import Made
from penstock.testing.serving import drive
from tests.http.site import (
    LARGE,
    RESTED,
    RESTED_S,
    SECOND,
    content_of,
    denied,
    fields_of,
    get,
    held,
    make_site,
    open_descriptors,
    put,
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_site(tmp_path / "site")


@pytest.fixture
def files(root: Path) -> Iterator[Files]:
    files = Files(root)
    yield files
    files.close()


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
