"""The parser's door for Python: events, what it keeps, what it refuses, and that cuts change nothing."""

from __future__ import annotations

import doctest
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PenstockError, UsageError
from penstock.http import parser as parser_module
from penstock.http.errors import BadRequest
from penstock.http.parser import Content, End, Head, Parser
from penstock.limits import HTTP_BODY_MAX_BYTES
from tests.http.head_cases import CASES, Case, get
from tests.http.head_model import judge
from tests.http.strategies import CHUNKS, HEADS

CHUNKED = get(b"Transfer-Encoding: chunked", line=b"POST / HTTP/1.1")
SIZED = get(b"Content-Length: 5", line=b"POST / HTTP/1.1")


def flat(event: Head | Content | End) -> tuple[object, ...]:
    """Return everything that an event says."""
    if isinstance(event, Content):
        return ("content", event.data)
    if isinstance(event, End):
        return ("end", event.trailers)
    names = [name for name in dir(Head) if not name.startswith("_")]
    return ("head", *((name, getattr(event, name)) for name in names))


def joined(events: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Put pieces of content together: how it is cut depends on how it came."""
    found: list[tuple[object, ...]] = []
    for event in events:
        if event[0] == "content" and found and found[-1][0] == "content":
            before, piece = found[-1][1], event[1]
            assert isinstance(before, bytes)
            assert isinstance(piece, bytes)
            found[-1] = ("content", before + piece)
        else:
            found.append(event)
    return found


def read(pieces: list[bytes], **limits: int) -> tuple[list[tuple[object, ...]], int, bytes, bool]:
    """Feed pieces: the events, a status if there was one, and what is left then."""
    parser = Parser(**limits)
    events: list[tuple[object, ...]] = []
    for piece in pieces:
        try:
            events.extend(map(flat, parser.feed(piece)))
        except BadRequest as bad:
            events.extend(map(flat, bad.events))  # type: ignore[arg-type]
            return joined(events), bad.status, b"", False
    return joined(events), 0, parser.rest, parser.over


def only_head(data: bytes) -> Head:
    head = Parser().feed(data)[0]
    assert isinstance(head, Head)
    return head


def test_the_examples_in_its_description() -> None:
    found = doctest.testmod(parser_module, optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert found.attempted >= 5
    assert found.failed == 0


def test_everything_that_a_head_says() -> None:
    head = only_head(get(b"X-a: b ", b"Expect: 100-continue", b"Content-Length: 7", line=b"PUT /a?b=c HTTP/1.1"))
    fields = ((b"Host", b"a"), (b"X-a", b"b"), (b"Expect", b"100-continue"), (b"Content-Length", b"7"))
    assert head.fields == fields
    assert (head.method, head.target, head.path, head.query, head.host) == (b"PUT", b"/a?b=c", b"/a", b"b=c", b"a")
    assert (head.version_minor, head.keep_alive, head.expect_continue) == (1, True, True)
    assert (head.length, head.chunked) == (7, False)
    assert repr(head) == "<Head PUT /a?b=c HTTP/1.1>"


def test_a_host_that_is_empty_is_not_one_that_is_not_there() -> None:
    assert only_head(b"GET / HTTP/1.0\r\n\r\n").host is None
    assert only_head(b"OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n").host == b""
    assert only_head(b"GET http://b/ HTTP/1.0\r\n\r\n").host == b"b"


def test_events_cannot_be_changed() -> None:
    for event in Parser().feed(SIZED + b"hello"):
        for name in ("method", "data", "trailers", "anything"):
            with pytest.raises((AttributeError, TypeError)):
                setattr(event, name, b"")


def test_content_and_end_compare() -> None:
    assert Content(b"a") == Content(b"a") != Content(b"b")
    assert End() == End(()) != End(((b"a", b"b"),))
    assert Content(b"") != End()
    assert len({Content(b"a"), Content(b"a"), End(), End()}) == 2
    assert [repr(Content(b"a")), repr(End(((b"a", b"b"),)))] == ["Content(b'a')", "End(((b'a', b'b'),))"]


def test_a_request_without_content_ends_with_its_head() -> None:
    head, end = Parser().feed(get())
    assert isinstance(head, Head)
    assert end == End()


def test_content_comes_in_the_pieces_in_which_it_arrives() -> None:
    parser = Parser()
    assert parser.feed(SIZED + b"he")[1:] == [Content(b"he")]
    assert parser.feed(b"l") == [Content(b"l")]
    assert parser.feed(b"") == []
    assert parser.feed(b"lo" + get()[:5]) == [Content(b"lo"), End()]
    assert parser.rest == get()[:5]


def test_trailer_fields_come_with_the_end_however_they_are_cut() -> None:
    data = CHUNKED + b"2\r\nab\r\n0\r\nA: b \r\nc:\td:e\r\n\r\n"
    expected = End(((b"A", b"b"), (b"c", b"d:e")))
    assert Parser().feed(data)[-1] == expected
    parser = Parser()
    events = [event for at in range(len(data)) for event in parser.feed(data[at : at + 1])]
    assert events[-1] == expected
    assert Parser().feed(CHUNKED + b"0\r\n\r\n")[-1] == End(())


def test_a_thousand_requests_in_one_piece() -> None:
    events = Parser().feed(b"".join(get(line=b"GET /%d HTTP/1.1" % number) for number in range(1_000)))
    heads = [event for event in events if isinstance(event, Head)]
    assert [head.path for head in heads] == [b"/%d" % number for number in range(1_000)]
    assert len(events) == 2_000


def test_nothing_behind_the_last_request_is_parsed() -> None:
    parser = Parser()
    assert len(parser.feed(get(b"Connection: close") + get())) == 2
    assert parser.over
    assert parser.rest == get()
    assert parser.feed(b"more") == []
    assert parser.rest == get()
    parser.eof()


def test_what_came_before_a_bad_request_is_not_lost() -> None:
    parser = Parser()
    with pytest.raises(BadRequest) as caught:
        parser.feed(get() + b"GET\r\n" + get())
    assert [type(event) for event in caught.value.events] == [Head, End]
    assert caught.value.status == 400
    assert caught.value.reason.endswith(".")
    assert str(caught.value) == f"400: {caught.value.reason}"
    assert isinstance(caught.value, PenstockError)
    assert parser.rest == b"GET\r\n" + get()
    with pytest.raises(BadRequest) as again:
        parser.feed(get())
    assert (again.value.reason, again.value.events) == (caught.value.reason, ())
    with pytest.raises(BadRequest):
        parser.eof()
    assert not parser.over


def test_content_that_is_too_large() -> None:
    with pytest.raises(BadRequest) as caught:
        Parser(max_body=4).feed(SIZED)
    assert (caught.value.status, caught.value.events) == (413, ())
    parser = Parser(max_body=4)
    assert len(parser.feed(CHUNKED + b"4\r\nabcd\r\n")) == 2
    with pytest.raises(BadRequest) as caught:
        parser.feed(b"1\r\n")
    assert caught.value.status == 413


def test_a_connection_may_end_between_requests_only() -> None:
    for data in (b"", b"\r\n", get(), SIZED + b"hello\r\n", get(b"Connection: close") + b"x"):
        parser = Parser()
        parser.feed(data)
        parser.eof()
        assert parser.over
        assert parser.feed(get()) == []
    for data in (b"\r", b"G", get()[:-1], get() + get()[:-1], SIZED, SIZED + b"hell", CHUNKED + b"0\r\n"):
        parser = Parser()
        parser.feed(data)
        with pytest.raises(BadRequest, match="ended in the middle"):
            parser.eof()


@pytest.mark.parametrize("name", ["max_line", "max_head", "max_fields", "max_body"])
def test_limits_are_checked(name: str) -> None:
    for value in (-1, 1 << 50, "8", True):
        with pytest.raises(UsageError, match=name):
            Parser(**{name: value})  # type: ignore[arg-type]


def test_limits_hold() -> None:
    for limits, data, status in (
        ({"max_line": 64}, b"GET /" + b"a" * 64, 414),
        ({"max_head": 128}, get(b"A: " + b"b" * 128), 431),
        ({"max_fields": 1}, get(b"A: b"), 431),
    ):
        assert read([data], **limits)[1] == status


def test_only_bytes_are_taken() -> None:
    with pytest.raises(TypeError):
        Parser().feed("GET")  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.section}: {case.rule}")
def test_the_door_says_what_is_behind_it(case: Case) -> None:
    events, status, _, _ = read([case.data])
    found = judge(case.data)
    if isinstance(found, int):
        assert status == found
        return
    assert status == (413 if (found["length"] or 0) > HTTP_BODY_MAX_BYTES else 0)
    if status:
        return
    told: dict[str, object] = dict(events[0][1:])  # type: ignore[arg-type]
    same = ("method", "target", "path", "query", "fields", "keep_alive", "expect_continue", "chunked", "length")
    assert {name: told[name] for name in same} == {name: found[name] for name in same}
    assert (told["version_minor"], told["host"] or b"") == (found["minor"], found["host"])


REQUESTS = [
    get(),
    b"\r\n" + get(b"Connection: Keep-Alive", line=b"GET /a?b HTTP/1.0"),
    SIZED + b"hello",
    CHUNKED + b"5;a=b\r\nhello\r\n0\r\nA: b\r\n\r\n",
    get(line=b"OPTIONS * HTTP/1.1"),
]


def test_every_cut_of_a_pipeline_gives_the_same() -> None:
    data = b"".join(REQUESTS) + get(b"Connection: close") + b"rest"
    expected = read([data])
    assert len([event for event in expected[0] if event[0] == "end"]) == 6
    assert expected[1:] == (0, b"rest", True)
    for cut in range(len(data)):
        found = read([data[:cut], data[cut:]])
        assert found[:2] == expected[:2]
        assert found[3]
    assert read([data[at : at + 1] for at in range(len(data))])[:2] == expected[:2]


@given(
    requests=st.lists(st.one_of(st.sampled_from(REQUESTS), HEADS, CHUNKS.map(CHUNKED.__add__)), max_size=4),
    cuts=st.lists(st.integers(0, 600), max_size=5),
)
def test_cuts_change_nothing(requests: list[bytes], cuts: list[int]) -> None:
    data = b"".join(requests)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    expected = read([data])
    found = read([data[a:b] for a, b in pairwise(edges)])
    assert found[:2] == expected[:2]
    assert found[3] == expected[3]
    # After the last request only what came together with its end is kept.
    assert expected[3] or found[2] == expected[2]
