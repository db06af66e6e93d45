"""The write buffer and the read pool against their obvious models."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.net.buffer import WriteBuffer
from penstock.net.pool import ReadPool

STEPS = st.lists(st.tuples(st.booleans(), st.integers(1, 20_000)), max_size=60)


@settings(max_examples=60)
@given(STEPS)
def test_a_write_buffer_is_a_queue_of_bytes(steps: list[tuple[bool, int]]) -> None:
    buffer = WriteBuffer(1 << 18)
    model = b""
    written = 0
    for add, size in steps:
        if add:
            piece = bytes((written + index) & 0xFF for index in range(size))
            expected = buffer.may_grow(size)
            taken = buffer.append(piece)
            assert taken == expected
            if taken:
                model += piece
                written += size
        else:
            taken_bytes = buffer.consume(size)
            assert taken_bytes == model[:size]
            model = model[size:]
        assert len(buffer) == len(model)
        assert buffer.total == buffer.capacity <= 1 << 18
        if model:
            # Grown by doubling, and never to more than what waited, the consumed half of it, and one doubling.
            assert buffer.capacity & (buffer.capacity - 1) == 0
        else:
            assert buffer.capacity == 0


def test_a_write_buffer_compacts_instead_of_growing() -> None:
    buffer = WriteBuffer(1 << 20)
    assert buffer.append(b"x" * 4096)
    for _ in range(100):
        buffer.consume(3000)
        assert buffer.append(b"x" * 3000)
    assert buffer.capacity == 4096


def test_a_refused_append_changes_nothing() -> None:
    buffer = WriteBuffer(8192)
    assert buffer.append(b"a" * 5000)
    assert not buffer.append(b"b" * 5000)
    assert buffer.consume(10_000) == b"a" * 5000


@settings(max_examples=60)
@given(st.lists(st.integers(0, 3000), max_size=80))
def test_pieces_of_a_pool_do_not_touch(sizes: list[int]) -> None:
    pool = ReadPool(16_384)
    lent: list[tuple[int, bytes]] = []
    for number, size in enumerate(sizes):
        if size == 0:
            if lent:
                lent.pop()
                pool.give_back()
        else:
            data = bytes([number % 251]) * size
            found = pool.fill(data, 3000, 1000)
            if found is None:
                assert 16_384 - pool.used < 3000
            else:
                lent.append((found[0], data[: found[1]]))
        for place, data in lent:
            assert pool.read(place, len(data)) == data
        assert pool.lent == len(lent)
        if not lent:
            assert pool.used == 0
