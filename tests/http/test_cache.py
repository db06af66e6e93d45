"""The cache of entries against an obvious model: bounds on number, bytes and descriptors, and the order of use."""

from __future__ import annotations

from collections import OrderedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.http.cache import EntryCache
from penstock.http.writer import written
from tests.http.site import open_descriptors

KEYS = st.sampled_from([b"", b"a", b"a/", b"index.html", b"assets/app.js", b"assets/app.css", b"x" * 200])
PUTS = st.tuples(st.just("put"), KEYS, st.integers(0, 3), st.integers(0, 900), st.booleans())
GETS = st.tuples(st.just("get"), KEYS, st.integers(0, 3), st.just(0), st.just(False))
CLEARS = st.tuples(st.just("clear"), st.just(b""), st.just(0), st.just(0), st.just(False))
STEPS = st.lists(st.one_of(PUTS, PUTS, GETS, GETS, CLEARS), max_size=60)
Key = tuple[bytes, int]


class Model:
    """The same with an ordered dict: weight, content and descriptor by key, the one used last at the end."""

    def __init__(self, entries_max: int, bytes_max: int, open_max: int) -> None:
        self.bounds = (entries_max, bytes_max, open_max)
        self.held: OrderedDict[Key, tuple[int, bytes, bool]] = OrderedDict()
        self.evicted = 0

    def sums(self) -> tuple[int, int, int]:
        values = self.held.values()
        return len(values), sum(weight for weight, _, _ in values), sum(opened for _, _, opened in values)

    def put(self, key: Key, weight: int, body: bytes, opened: bool) -> None:
        self.held.pop(key, None)
        entries_max, bytes_max, open_max = self.bounds
        if weight > bytes_max or entries_max == 0 or (opened and open_max == 0):
            return
        while self.sums()[0] >= entries_max or self.sums()[1] + weight > bytes_max:
            self.held.popitem(last=False)
            self.evicted += 1
        if opened and self.sums()[2] >= open_max:
            del self.held[next(old for old, (_, _, is_open) in self.held.items() if is_open)]
            self.evicted += 1
        self.held[key] = (weight, body, opened)


@given(st.integers(0, 6), st.integers(0, 3_000), st.integers(0, 2), STEPS)
def test_a_cache_is_as_the_model_has_it(
    entries_max: int, bytes_max: int, open_max: int, steps: list[tuple[str, bytes, int, int, bool]]
) -> None:
    cache, model = EntryCache(entries_max, bytes_max, open_max), Model(entries_max, bytes_max, open_max)
    for number, (what, name, coding, size, opened) in enumerate(steps):
        key = (name, coding)
        if what == "put":
            body = bytes([number & 255]) * size
            weight = cache.put(name, coding, body, opened)
            assert weight > len(name) + size
            model.put(key, weight, body, opened)
        elif what == "get":
            held = model.held.get(key)
            if held is not None:
                model.held.move_to_end(key)
            assert cache.get(name, coding) == (None if held is None else held[1])
        else:
            cache.clear()
            model.held.clear()
        entries, held_bytes, open_files, evicted = cache.counters
        assert (entries, held_bytes, open_files) == model.sums()
        assert evicted == model.evicted
        assert entries <= entries_max
        assert held_bytes <= bytes_max
        assert open_files <= open_max
        assert cache.keys() == list(reversed(model.held))


def test_descriptors_are_closed_with_their_entries() -> None:
    before = open_descriptors()
    cache = EntryCache(100, 1 << 20, 4)
    for number in range(50):
        cache.put(b"%d" % number, 0, b"", True)
        assert len(open_descriptors() - before) <= 4
    assert cache.counters[2:] == (4, 46)
    keys = cache.keys()
    assert [key for key, _ in keys] == [b"49", b"48", b"47", b"46"]
    del cache
    assert open_descriptors() == before


def test_what_is_borrowed_outlives_its_place() -> None:
    cache = EntryCache(1, 1 << 20, 0)
    cache.put(b"old", 0, b"old content")
    handle = cache.borrow(b"old", 0)
    cache.put(b"new", 0, b"new content")
    assert cache.get(b"old", 0) is None
    assert cache.body_of(handle) == b"old content"
    cache.clear()
    assert cache.body_of(handle) == b"old content"
    cache.give_back(handle)
    with pytest.raises(KeyError):
        cache.borrow(b"old", 0)


def test_many_entries_are_found_again() -> None:
    cache = EntryCache(5_000, 1 << 30, 0)
    for number in range(5_000):
        cache.put(b"folder/%d.html" % number, number % 4, b"%d" % number)
    for number in range(5_000):
        assert cache.get(b"folder/%d.html" % number, number % 4) == b"%d" % number
        assert cache.get(b"folder/%d.html" % number, (number + 1) % 4) is None


@given(st.integers(0, 40), st.lists(st.one_of(st.binary(max_size=12), st.integers(0, (1 << 63) - 1)), max_size=6))
def test_what_does_not_fit_is_not_written(room: int, pieces: list[bytes | int]) -> None:
    text = b"".join(piece if isinstance(piece, bytes) else b"%d=0x%x" % (piece, piece) for piece in pieces)
    assert written(room, pieces) == (text if len(text) <= room else None)
