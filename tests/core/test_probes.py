"""Histograms: which bucket, how much in all, and bounds that hold; against the values themselves."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.probes import Histogram
from penstock.stats import HistogramStats

VALUES = st.lists(st.one_of(st.integers(-10, 300), st.integers(0, 2**62)), max_size=60)
BUCKETS = 48


def filled(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


@given(values=VALUES)
def test_it_counts_each_value_once_in_the_bucket_of_its_highest_bit(values: list[int]) -> None:
    histogram = filled(values)
    wanted = [0] * BUCKETS
    for value in values:
        wanted[min(max(0, value).bit_length(), BUCKETS - 1)] += 1
    while wanted and wanted[-1] == 0:
        wanted.pop()
    assert list(histogram.buckets) == wanted
    assert histogram.count == len(values)
    assert histogram.total == sum(max(0, value) for value in values) % 2**64
    assert histogram.highest == max(values, default=0) if max(values, default=0) > 0 else histogram.highest == 0


@given(values=st.lists(st.integers(0, 10_000), min_size=1, max_size=60), share=st.floats(0, 1))
def test_a_bound_holds_for_its_share_and_is_exact_to_a_factor_of_two(values: list[int], share: float) -> None:
    histogram = filled(values)
    stats = HistogramStats(histogram.count, histogram.total, histogram.highest, histogram.buckets)
    bound = stats.at_most(share)
    assert sum(value <= bound for value in values) >= share * len(values)
    assert stats.at_most(1) == max(values)
    assert stats.mean == sum(values) / len(values)
    # No value that the share needs is smaller than half of the bound.
    needed = sorted(values)[max(0, -int(-share * len(values) // 1) - 1)]
    assert bound <= 2 * max(needed, 0) or bound == 0 or needed == 0


def test_an_empty_one_is_all_zero() -> None:
    histogram = Histogram()
    assert (histogram.count, histogram.total, histogram.highest, histogram.buckets) == (0, 0, 0, ())
    stats = HistogramStats(0, 0, 0, ())
    assert (stats.mean, stats.at_most(0.5)) == (0.0, 0)


@pytest.mark.parametrize("share", [-0.1, 1.1])
def test_a_share_is_from_0_to_1(share: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        HistogramStats(0, 0, 0, ()).at_most(share)


def test_counting_allocates_nothing() -> None:
    histogram = Histogram()
    before = sys.getallocatedblocks()
    for _ in range(10_000):
        histogram.add(100)
    assert sys.getallocatedblocks() - before <= 2
