"""Our parser beside h11 and httptools: who differs, and whether we know why."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.http.head_cases import CASES, Case
from tests.http.peers import (
    MORE_LENIENT,
    PEERS,
    STRICTER,
    by_h11,
    by_httptools,
    complaints,
    explained,
    ours,
)
from tests.http.strategies import CHUNKS, HEADS
from tests.http.test_parser import CHUNKED, SIZED

CONTENT = [b"hello", b"5\r\nhello\r\n0\r\n\r\n"]
# One request, and perhaps its content: in a pipeline one could not say which of the requests a reason belongs to.
REQUESTS = st.one_of(
    HEADS,
    st.tuples(HEADS, st.sampled_from(CONTENT)).map(b"".join),
    CHUNKS.map(CHUNKED.__add__),
    st.binary(max_size=9).map(SIZED.__add__),
)


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.section}: {case.rule}")
def test_every_rule_beside_a_peer(case: Case, peer: str) -> None:
    for data in (case.data, *(case.data + content for content in CONTENT)):
        assert complaints(data, ours(data), PEERS[peer](data)) == []


@pytest.mark.parametrize("peer", PEERS)
@given(data=REQUESTS)
def test_requests_beside_a_peer(peer: str, data: bytes) -> None:
    assert complaints(data, ours(data), PEERS[peer](data)) == []


def test_every_difference_is_one() -> None:
    """Each of the reasons is needed by some case of the table or of these."""
    more = [
        CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"5 ;a\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"0\r\nContent-Length: 5\r\n\r\n",
        CHUNKED + b"5;:\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"5;a\0\r\nhello\r\n0\r\n\r\n",
        CHUNKED + b"0\r\nA: \x01\r\n\r\n",
        b"PRI / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n",
    ]
    found = set()
    for data in [case.data + content for case in CASES for content in CONTENT] + more:
        mine = ours(data)
        for other in (by_h11(data), by_httptools(data)):
            if other.messages and not mine.messages:
                found |= {d.reason for d in STRICTER if explained([d], mine.wrong or "", data)}
            if mine.messages and not other.messages:
                found |= {d.reason for d in MORE_LENIENT if explained([d], other.wrong or "", data)}
    assert found == {difference.reason for difference in STRICTER + MORE_LENIENT}
