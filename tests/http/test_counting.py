"""Adding up what loops have counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.http.counting import PRESENT, add_up, lasting

COUNTS = st.recursive(
    st.dictionaries(st.sampled_from(["requests", "refused", "answers", "open"]), st.integers(0, 1_000)),
    lambda inner: st.dictionaries(st.sampled_from(["admission", "files"]), inner),
)


def test_each_kind_of_value_is_added_in_its_way() -> None:
    one = {"requests": 1, "answers": {"2xx": 1}, "ages": [1, 2], "waiting_peak": 3, "overloaded": False, "error": 28}
    two = {
        "requests": 2,
        "answers": {"2xx": 1, "4xx": 5},
        "ages": [3, 4],
        "waiting_peak": 2,
        "overloaded": True,
        "error": 0,
    }
    assert add_up([one, two]) == {
        "requests": 3,
        "answers": {"2xx": 2, "4xx": 5},
        "ages": [4, 6],
        "waiting_peak": 3,
        "overloaded": True,
        "error": 28,
    }
    assert add_up([]) == {}


def test_what_was_true_only_then_does_not_last() -> None:
    counted = {"requests": 5, "open": 3, "admission": {"offered": 5, "in_work": 2}, "log": {"lines": 5, "error": 28}}
    assert lasting(counted) == {"requests": 5, "admission": {"offered": 5}, "log": {"lines": 5}}


@given(COUNTS, COUNTS)
def test_the_order_does_not_matter_and_nothing_is_a_neutral_part(one: dict, two: dict) -> None:  # type: ignore[type-arg]
    assert add_up([one, {}]) == add_up([{}, one]) == one
    if all(type(one.get(name)) is type(two.get(name)) for name in one.keys() & two.keys()):
        assert add_up([one, two]) == add_up([two, one])
    assert not PRESENT & lasting(add_up([one, two])).keys()
