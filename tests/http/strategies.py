"""Requests for property tests: put together from parts that are right, nearly right or wrong, and then damaged."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.http.head_cases import BAD_HOSTS, CASES, GOOD_HOSTS

METHODS = st.sampled_from([b"GET", b"HEAD", b"POST", b"OPTIONS", b"CONNECT", b"PUT", b"get", b"BREW", b"G T", b""])
TARGETS = st.sampled_from(
    [b"/", b"/a/b?c=d", b"*", b"a:443", b"http://a", b"HTTP://a:1/b?c", b"https://[::1]/?", b"//a", b"/%zz", b"/#", b""]
)
VERSIONS = st.sampled_from([b"HTTP/1.1"] * 6 + [b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"HTTP/1.", b"http/1.1"])
KNOWN = [b"Host", b"host", b"Connection", b"Content-Length", b"Transfer-Encoding", b"Expect", b"Upgrade", b"If-Match"]
OTHERS = [b"A", b"X-Y", b"If-Modified-Since", b"If-Unmodified-Since", b"X-Forwarded-For", b"User-Agent", b"Range"]
NAMES = st.sampled_from([*KNOWN, *OTHERS, b"A ", b"", b"\xff"])
WORDS = [b"", b"close", b"keep-alive", b"5", b"05, 5", b"6", b"chunked", b"gzip, chunked", b"100-continue", b"a, b"]
HOSTS = st.sampled_from(GOOD_HOSTS + BAD_HOSTS)
VALUES = st.one_of(
    st.sampled_from(
        [b"", b"close", b"keep-alive", b"5", b"05, 5", b"6", b"chunked", b"gzip, chunked", b"100-continue", b"a, b"]
    ),
    HOSTS,
    st.text("abc \t,;=\"':0123", max_size=30).map(str.encode),
    st.binary(max_size=12),
)
ENDS = st.sampled_from([b"\r\n"] * 12 + [b"\n", b"\r", b"\r\r\n"])
SPACES = st.sampled_from([b" "] * 8 + [b"", b"  ", b"\t"])


@st.composite
def plausible_heads(draw: st.DrawFn) -> bytes:
    """Heads of which most are right, or wrong in one place."""
    line = draw(st.sampled_from([b"GET / HTTP/1.1", b"POST /a?b HTTP/1.1", b"GET / HTTP/1.0", b"OPTIONS * HTTP/1.1"]))
    parts = [line, b"\r\n"]
    if draw(st.integers(0, 9)):
        parts += [b"Host: ", draw(HOSTS), b"\r\n"]
    for _ in range(draw(st.integers(0, 4))):
        parts += [draw(NAMES), b":", draw(SPACES), draw(VALUES), draw(ENDS)]
    return b"".join([*parts, b"\r\n"])


@st.composite
def wild_heads(draw: st.DrawFn) -> bytes:
    """Heads that may be wrong everywhere."""
    parts = [draw(METHODS), draw(SPACES), draw(TARGETS), draw(SPACES), draw(VERSIONS), draw(ENDS)]
    for _ in range(draw(st.integers(0, 3))):
        parts += [draw(NAMES), b":", draw(SPACES), draw(VALUES), draw(ENDS)]
    return b"".join([*parts, draw(ENDS)])


@st.composite
def damaged(draw: st.DrawFn, whole: st.SearchStrategy[bytes]) -> bytes:
    """Something with a few bytes put in, taken out, replaced or repeated."""
    data = draw(whole)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        size = draw(st.integers(0, 3))
        put = draw(st.one_of(st.binary(max_size=2), st.sampled_from([b"\r\n", b"\n", b" ", b"\t", b":", b",", b"\0"])))
        kept = data[at : at + size] if draw(st.booleans()) else b""
        data = data[:at] + kept + put + data[at + size :]
    return data


TABLE = st.sampled_from([case.data for case in CASES])
HEADS = st.one_of(
    plausible_heads(), wild_heads(), TABLE, damaged(plausible_heads()), damaged(TABLE), st.binary(max_size=60)
)

LINES = [b"5\r\n", b"05\r\n", b"A;b=c\r\n", b"a ;b\r\n", b"5 \r\n", b"5\n", b"\r\n", b"-1\r\n", b"0x5\r\n", b"5;\0\r\n"]
LINES += [b"f" * 16 + b"\r\n", b"f" * 17 + b"\r\n", b"5;" + b"x" * 300 + b"\r\n", b"5;a\rb\r\n", b"5\t;a\r\n"]
FIELDS = [b"", b"A: b\r\n", b"A:b\r\nC:\r\n", b" a\r\n", b"A : b\r\n", b"A: \0\r\n", b"A: b\n", b"A: " + b"x" * 90]
SIZE_LINES = st.sampled_from(LINES)
TRAILERS = st.sampled_from(FIELDS)


@st.composite
def plausible_chunks(draw: st.DrawFn) -> bytes:
    """Chunked content of which most is right."""
    parts = []
    for _ in range(draw(st.integers(0, 3))):
        content = draw(st.binary(min_size=1, max_size=20))
        extension = draw(st.sampled_from([b"", b"", b";a=b", b" ;a", b';a="b;c"']))
        parts += [b"%x" % len(content), extension, b"\r\n", content, b"\r\n"]
    return b"".join([*parts, b"0\r\n", draw(TRAILERS), b"\r\n", draw(st.binary(max_size=4))])


@st.composite
def wild_chunks(draw: st.DrawFn) -> bytes:
    parts = draw(
        st.lists(st.one_of(SIZE_LINES, st.sampled_from([b"hello", b"0123456789"]), ENDS, TRAILERS), max_size=6)
    )
    return b"".join(parts)


CHUNKS = st.one_of(plausible_chunks(), damaged(plausible_chunks()), wild_chunks())
