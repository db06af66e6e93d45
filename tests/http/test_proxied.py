"""Where connections and requests come from: PROXY headers and forwarded fields, of trusted peers and of others."""

from __future__ import annotations

import ipaddress
import re
import ssl
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import limits
from penstock.core.clock import ManualClock
from penstock.errors import UsageError
from penstock.http import Request, Response, Tls
from penstock.http.forwarded import client_of
from penstock.http.log import Log
from penstock.http.options import HttpOptions
from penstock.http.peers import Trust, read_announcement
from tests.http.rig import Served, get, serving
from tests.net.rig import settle

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
CERTIFICATES = Path(__file__).parent / "certificates"
LINE = b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 80\r\n"


def block(command: int, family: int, body: bytes = b"", *, version: int = 2, length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return SIGNATURE + bytes((version << 4 | command, family)) + struct.pack("!H", size) + body


def four(source: str = "192.0.2.7") -> bytes:
    return ipaddress.ip_address(source).packed + bytes((198, 51, 100, 1)) + struct.pack("!HH", 40000, 80)


def six(source: str = "2001:db8::7") -> bytes:
    return ipaddress.ip_address(source).packed + bytes(16) + struct.pack("!HH", 40000, 80)


def whoami(request: Request) -> Response:
    return Response(200, f"{request.peer} {request.scheme}")


# ---- the header alone ------------------------------------------------------------------------------------------------

ANNOUNCEMENTS: list[tuple[bytes, str | None]] = [
    (LINE, "192.0.2.7"),
    (b"PROXY TCP6 2001:db8::7 ::1 1 65535\r\n", "2001:db8::7"),
    (b"PROXY TCP6 ::ffff:192.0.2.7 ::1 0 0\r\n", "192.0.2.7"),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN whatever \x00\xff comes here\r\n", None),
    (
        b"PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
        None,
    ),
    (block(1, 0x11, four()), "192.0.2.7"),
    (block(1, 0x11, four() + b"\x04\x00\x03abc"), "192.0.2.7"),
    (block(1, 0x21, six()), "2001:db8::7"),
    (block(1, 0x21, six("::ffff:198.18.2.3")), "198.18.2.3"),
    (block(1, 0x31, bytes(216)), "unix"),
    (block(1, 0x12, four()), None),
    (block(1, 0x00), None),
    (block(1, 0x00, b"tlv"), None),
    (block(0, 0x00), None),
    (block(0, 0x11, four()), None),
    (block(0, 0xFF, b"ignored"), None),
    (block(1, 0x11, four() + bytes(limits.HTTP_PROXY_BLOCK_MAX_BYTES - 12)), "192.0.2.7"),
]

MALFORMED = [
    b"GET / HTTP/1.1\r\n",
    b"proxy TCP4 1.2.3.4 1.2.3.4 1 1\r\n",
    b"PROXY\tTCP4 1.2.3.4 1.2.3.4 1 1\r\n",
    b"PROXY TCP4 1.2.3.4 1.2.3.4 1 1\n",
    b"PROXY TCP4 1.2.3.4 1.2.3.4 1 1\rX",
    b"PROXY TCP5 1.2.3.4 1.2.3.4 1 1\r\n",
    b"PROXY TCP4 ::1 1.2.3.4 1 1\r\n",
    b"PROXY TCP6 1.2.3.4 ::1 1 1\r\n",
    b"PROXY TCP4 1.2.3.4 ::1 1 1\r\n",
    b"PROXY TCP4 1.2.3.4  1.2.3.4 1 1\r\n",
    b"PROXY TCP4 01.2.3.4 1.2.3.4 1 1\r\n",
    b"PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n",
    b"PROXY TCP4 1.2.3.4 1.2.3.4 01 1\r\n",
    b"PROXY TCP4 1.2.3.4 1.2.3.4 -1 1\r\n",
    b"PROXY TCP4 1.2.3.4 1.2.3.4 1 1 \r\n",
    b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n",
    b"PROXY TCP4 1.2.3.4\x00 1.2.3.4 1 1\r\n",
    b"PROXY TCP4\r\n",
    b"PROXY \r\n",
    b"PROXY UNKNOWNX\r\n",
    b"PROXY UNKNOWN " + b"x" * 92 + b"\r\n",
    b"PROXY UNKNOWN " + b"x" * 93,
    SIGNATURE[:-1] + b"X",
    block(1, 0x11, four(), version=1),
    block(1, 0x11, four(), version=3),
    block(2, 0x11, four()),
    block(1, 0x41, four()),
    block(1, 0x13, four()),
    block(1, 0x11, four(), length=11),
    block(1, 0x21, six(), length=35),
    block(1, 0x31, bytes(216), length=215),
    block(1, 0x11, four(), length=limits.HTTP_PROXY_BLOCK_MAX_BYTES + 1),
    block(1, 0x11, four(), length=65535),
]


@pytest.mark.parametrize(("data", "peer"), ANNOUNCEMENTS)
def test_headers_that_are_right(data: bytes, peer: str | None) -> None:
    assert read_announcement(data) == (len(data), peer)
    assert read_announcement(data + b"GET / HTTP/1.1\r\n") == (len(data), peer)
    for cut in range(0, len(data), 1 if len(data) < 300 else 97):
        assert read_announcement(data[:cut]) == (0, None)


@pytest.mark.parametrize("data", MALFORMED)
def test_headers_that_are_wrong(data: bytes) -> None:
    assert read_announcement(data) == (-1, None)


def address_of(text: str, version: int) -> str | None:
    """The address that a text is, in the way that ours are compared; None if it is none of that version."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return None if found.version != version or "%" in text else plain(found)


def plain(found: Any) -> str:
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or found)


def line_by_model(data: bytes) -> tuple[int, str | None]:
    """The text of the definition, with a regular expression and the standard library's addresses."""
    if not (b"PROXY ".startswith(data[:6])):
        return -1, None
    end = re.search(rb"[\r\n]", data[:107])
    if end is None or (data[end.start() :] == b"\r" and end.start() < 106):
        return (0, None) if len(data) < 107 else (-1, None)
    if data[end.start() : end.start() + 2] != b"\r\n" or end.start() + 2 > 107:
        return -1, None
    size, words = end.start() + 2, data[6 : end.start()].decode("latin-1").split(" ")
    if words[0] == "UNKNOWN":
        return size, None
    if words[0] not in ("TCP4", "TCP6") or len(words) != 5:
        return -1, None
    source, target = (address_of(word, int(words[0][3])) for word in words[1:3])
    ports = all(re.fullmatch(r"0|[1-9][0-9]{0,4}", word) and int(word) < 65536 for word in words[3:])
    return (size, source) if source and target and ports else (-1, None)


def block_by_model(data: bytes) -> tuple[int, str | None]:
    if not SIGNATURE.startswith(data[:12]):
        return -1, None
    if len(data) > 12 and data[12] not in (0x20, 0x21):
        return -1, None
    if len(data) < 16:
        return 0, None
    (length,) = struct.unpack("!H", data[14:16])
    family, transport = data[13] >> 4, data[13] & 15
    known = data[12] == 0x20 or (family < 4 and transport < 3 and length >= (0, 12, 36, 216)[family])
    if not known or length > limits.HTTP_PROXY_BLOCK_MAX_BYTES:
        return -1, None
    if len(data) < 16 + length:
        return 0, None
    peer = None
    if data[12] == 0x21 and transport == 1 and family:
        size = (0, 4, 16, 0)[family]
        peer = "unix" if family == 3 else plain(ipaddress.ip_address(data[16 : 16 + size]))
    return 16 + length, peer


def by_model(data: bytes) -> tuple[int, str | None]:
    if not data:
        return 0, None
    return line_by_model(data) if data[:1] == b"P" else block_by_model(data)


ADDRESSES = st.one_of(
    st.ip_addresses().map(str),
    st.sampled_from(
        ["", "1.2.3", "1.2.3.4.5", "256.1.1.1", "::", "::1", "1::2::3", "::ffff:1.2.3.4", "fe80::1%1", "x"]
    ),
)
PORTS = st.one_of(st.integers(-1, 70000).map(str), st.sampled_from(["", "00", "080", "1a"]))
LINES = st.builds(
    lambda family, source, target, ports, end: f"PROXY {family} {source} {target} {' '.join(ports)}{end}".encode(),
    st.sampled_from(["TCP4", "TCP6", "TCP4", "TCP6", "TCP", "UNKNOWN", "", "tcp4"]),
    ADDRESSES,
    ADDRESSES,
    st.lists(PORTS, min_size=2, max_size=2) | st.lists(PORTS, max_size=3),
    st.sampled_from(["\r\n", "\r\n", "\r\n", "\n", "\r", "\r\r\n", "", "\r\nGET / HTTP/1.1\r\n"]),
)
BLOCKS = st.builds(
    lambda top, family, body, extra: (
        SIGNATURE + bytes((top, family)) + struct.pack("!H", max(0, len(body) + extra)) + body
    ),
    st.sampled_from([0x20, 0x21, 0x21, 0x21, 0x11, 0x22]),
    st.sampled_from([0x00, 0x11, 0x12, 0x21, 0x22, 0x31, 0x32, 0x41, 0x13, 0xFF]),
    st.one_of(st.binary(max_size=50), st.binary(min_size=216, max_size=220), st.binary(min_size=36, max_size=40)),
    st.sampled_from([0, 0, 0, 0, -1, 1, 5000]),
)


@given(st.one_of(LINES, BLOCKS, st.binary(max_size=40)), st.integers(0, 300) | st.none(), st.data())
def test_headers_are_read_as_the_slow_model_reads_them(data: bytes, cut: int | None, more: st.DataObject) -> None:
    if cut is not None:
        data = data[:cut]
    if data and more.draw(st.integers(0, 3)) == 0:
        place = more.draw(st.integers(0, len(data) - 1))
        data = data[:place] + more.draw(st.binary(max_size=2)) + data[place + 1 :]
    size, peer = read_announcement(data)
    if peer not in (None, "unix"):
        peer = plain(ipaddress.ip_address(peer))
    assert (size, peer) == by_model(data)


# ---- networks --------------------------------------------------------------------------------------------------------


@given(st.lists(st.ip_addresses(), min_size=1, max_size=5), st.data())
def test_networks_are_those_of_the_standard_library(addresses: list[Any], data: st.DataObject) -> None:
    networks = []
    for address in addresses:
        bits = data.draw(st.integers(0, address.max_prefixlen))
        networks.append(ipaddress.ip_network((address, bits), strict=False))
    trust = Trust(str(network) for network in networks)
    near = data.draw(st.sampled_from(addresses))
    flipped = type(near)(int(near) ^ (1 << data.draw(st.integers(0, near.max_prefixlen - 1))))
    for address in (near, flipped):
        if getattr(address, "ipv4_mapped", None) is None:
            # An IPv6 network around ::ffff:0:0/96 has all of IPv4 in it.
            wide = any(
                network.version == 6 and ipaddress.ip_address("::ffff:0:0") in network and network.prefixlen <= 96
                for network in networks
            )
            inside = any(address in network for network in networks if network.version == address.version)
            assert (str(address) in trust) == (inside or (address.version == 4 and wide))


def test_trust_is_checked() -> None:
    for wrong in ("198.18.0.1/16", "localhost", "198.18.0.0/33", "", "::g", 7):
        with pytest.raises(UsageError, match="trusted has"):
            HttpOptions(trusted=(wrong,))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="give a tuple"):
        HttpOptions(trusted="127.0.0.1")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="at most 64"):
        HttpOptions(trusted=("::1",) * 65)
    with pytest.raises(UsageError, match="name them with trusted"):
        HttpOptions(proxy_protocol=True)
    with pytest.raises(UsageError, match="True or False"):
        HttpOptions(proxy_protocol=1, trusted=("::1",))  # type: ignore[arg-type]
    assert "unix" in Trust(("unix",))
    assert "unix" not in Trust(("0.0.0.0/0", "::/0"))
    assert "1.2.3.4" in Trust(("::ffff:1.2.3.0/120",))


# ---- forwarded fields alone ------------------------------------------------------------------------------------------

TRUST = Trust(("198.18.0.0/16", "2001:db8::/32"))


def client(*fields: str) -> tuple[str | None, str | None, bool]:
    return client_of(TRUST, get("/", *fields))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([], (None, None, True)),
        (["X-Forwarded-For: 192.0.2.1"], ("192.0.2.1", None, True)),
        (["X-Forwarded-For: 6.6.6.6, 192.0.2.1"], ("192.0.2.1", None, True)),
        (["X-Forwarded-For: 6.6.6.6, 192.0.2.1, 198.18.1.1,198.18.2.2"], ("192.0.2.1", None, True)),
        (
            ["X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 198.18.0.1"],
            ("192.0.2.1", None, True),
        ),
        (["X-Forwarded-For: 198.18.3.3, 198.18.1.1"], ("198.18.3.3", None, True)),
        (["X-Forwarded-For: 192.0.2.1:4711"], ("192.0.2.1", None, True)),
        (["X-Forwarded-For: [2001:db9::1]:4711, [2001:db8::1]"], ("2001:db9::1", None, True)),
        (["X-Forwarded-For: 2001:db9::1"], ("2001:db9::1", None, True)),
        (["X-Forwarded-For: 6.6.6.6, unknown"], (None, None, False)),
        (["X-Forwarded-For: 6.6.6.6, unknown, 198.18.1.1"], ("198.18.1.1", None, False)),
        (["X-Forwarded-For: unknown, 192.0.2.1"], ("192.0.2.1", None, False)),
        (["X-Forwarded-For: ,, 192.0.2.1 ,"], ("192.0.2.1", None, True)),
        (["X-Forwarded-For: "], (None, None, True)),
        (["X-Forwarded-For: 192.0.2.1 6.6.6.6"], (None, None, False)),
        (["X-Forwarded-For: [2001:db9::1"], (None, None, False)),
        (["X-Forwarded-For: 192.0.2.1:123456"], (None, None, False)),
        (["X-Forwarded-Proto: HTTPS"], (None, "https", True)),
        (["X-Forwarded-Proto: https, http", "X-Forwarded-For: 192.0.2.1"], ("192.0.2.1", "http", True)),
        (["X-Forwarded-Proto: gopher"], (None, None, True)),
        (["Forwarded: for=192.0.2.1"], ("192.0.2.1", None, True)),
        (['Forwarded: For="[2001:db9::1]:4711";Proto=https;by=198.18.0.1'], ("2001:db9::1", "https", True)),
        (
            ["Forwarded: for=6.6.6.6;proto=http, for=192.0.2.1;proto=https, for=198.18.1.1;proto=http"],
            ("192.0.2.1", "https", True),
        ),
        (["Forwarded: for=6.6.6.6", "Forwarded: for=192.0.2.1; proto=https ;"], ("192.0.2.1", "https", True)),
        (["Forwarded: for=6.6.6.6, for=_hidden"], (None, None, True)),
        (["Forwarded: for=6.6.6.6, for=unknown, for=198.18.1.1"], ("198.18.1.1", None, True)),
        (['Forwarded: for="a, for=6.6.6.6", for=192.0.2.1'], ("192.0.2.1", None, True)),
        (['Forwarded: for="192.0.2.1'], (None, None, False)),
        (['Forwarded: for="1\\'], (None, None, False)),
        (["Forwarded: for=192.0.2.1 for=6.6.6.6"], (None, None, False)),
        (["Forwarded: for=192.0.2.1;for=6.6.6.6"], (None, None, False)),
        (["Forwarded: for=,for=192.0.2.1"], (None, None, False)),
        (["Forwarded: 192.0.2.1"], (None, None, False)),
        (["Forwarded: for=6.6.6.6", "X-Forwarded-For: 192.0.2.1"], ("192.0.2.1", None, True)),
        (["Forwarded: for=6.6.6.6", "X-Forwarded-Proto: https"], (None, "https", True)),
        (["Forwarded: secret=x;proto=https"], (None, "https", True)),
    ],
)
def test_who_asked(fields: list[str], expected: tuple[str | None, str | None, bool]) -> None:
    assert client(*fields) == expected


HOPS = st.sampled_from(
    ["198.18.0.1", "198.18.9.9", "192.0.2.1", "6.6.6.6", "2001:db8::1", "2001:db9::1", "unknown", "_x", "198.18.0.256"]
)


@given(st.lists(st.lists(HOPS, min_size=1, max_size=4), max_size=4), st.booleans())
def test_the_client_is_the_rightmost_that_is_not_trusted(lines: list[list[str]], standard: bool) -> None:
    """Our walk goes from left to right; the definition goes from right to left."""
    expected = None
    for hop in reversed([hop for line in lines for hop in line]):
        try:
            ipaddress.ip_address(hop)
        except ValueError:
            break
        expected = hop
        if hop not in TRUST:
            break
    if standard:
        fields = [
            "Forwarded: " + ", ".join(f'for="[{hop}]"' if ":" in hop else f"for={hop}" for hop in line)
            for line in lines
        ]
    else:
        fields = ["X-Forwarded-For: " + ", ".join(line) for line in lines]
    assert client(*fields)[0] == expected


@given(st.text('for=prot"\\;,: []1.2a_', max_size=40), st.sampled_from(["Forwarded", "X-Forwarded-For"]))
def test_nonsense_in_forwarded_fields_names_nobody_who_is_not_in_it(text: str, name: str) -> None:
    found, scheme, _ = client(f"{name}: {text}")
    assert scheme in (None, "http", "https")
    assert found is None or (ipaddress.ip_address(found) and (found in text or "::" in text))


# ---- connections -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [LINE, block(1, 0x11, four() + b"\x03\x00\x04crc!")])
def test_a_trusted_peer_announces_its_client_wherever_the_bytes_are_cut(header: bytes) -> None:
    with serving(whoami, proxy_protocol=True, trusted=("127.0.0.0/8",)) as served:
        asked = header + get("/1") + get("/2")
        for cut in range(1, len(header) + 3):
            dialled = served.dial()
            dialled.send(asked[:cut])
            settle(served.reactor, 3)
            dialled.send(asked[cut:])
            assert dialled.answer().body == b"192.0.2.7 http"
            assert dialled.answer().body == b"192.0.2.7 http"
            dialled.close()
        assert served.count("announced") == len(header) + 2
        assert served.count("announced_malformed") == 0


def test_an_announcement_that_drips() -> None:
    with serving(whoami, proxy_protocol=True, trusted=("127.0.0.1",)) as served:
        dialled = served.dial()
        for byte in block(1, 0x21, six() + bytes(40)) + get():
            dialled.send(bytes((byte,)))
            settle(served.reactor, 2)
        assert dialled.answer().body == b"2001:db8::7 http"


@pytest.mark.parametrize(
    ("header", "peer"),
    [(b"PROXY UNKNOWN\r\n", b"127.0.0.1"), (block(0, 0), b"127.0.0.1"), (block(1, 0x31, bytes(216)), b"unix")],
)
def test_announcements_of_nobody(header: bytes, peer: bytes) -> None:
    with serving(whoami, proxy_protocol=True, trusted=("127.0.0.1",)) as served:
        assert served.ask(header + get()).body == peer + b" http"


@pytest.mark.parametrize("data", [*MALFORMED, get()])
def test_a_malformed_announcement_is_closed_unheard(data: bytes) -> None:
    with serving(whoami, proxy_protocol=True, trusted=("127.0.0.1",)) as served:
        dialled = served.dial()
        dialled.send(data)
        assert dialled.rest() == b""
        served.until(lambda: served.server.engine.open == 0, "the end")
        assert served.count("announced_malformed") == 1
        assert served.count("requests") == 0


def test_an_announcement_has_the_time_of_a_first_byte() -> None:
    clock = ManualClock()
    with serving(whoami, clock=clock, proxy_protocol=True, trusted=("127.0.0.1",), first_byte_timeout=3) as served:
        dialled = served.dial()
        for byte in LINE[:3]:
            dialled.send(bytes((byte,)))
            settle(served.reactor, 3)
            clock.advance(1_100_000_000)
            settle(served.reactor, 3)
        assert dialled.rest() == b""
        assert served.count("timeouts") == {"fresh": 1}


def test_half_an_announcement_and_an_end() -> None:
    with serving(whoami, proxy_protocol=True, trusted=("127.0.0.1",)) as served:
        for data, malformed in ((b"", 0), (LINE[:9], 1)):
            dialled = served.dial()
            dialled.send(data)
            dialled.end()
            assert dialled.rest() == b""
            served.until(lambda: served.server.engine.open == 0, "the end")
            assert served.count("announced_malformed") == malformed


def test_others_are_ordinary_clients() -> None:
    with serving(whoami, proxy_protocol=True, trusted=("192.0.2.1",)) as served:
        assert served.ask(get()).body == b"127.0.0.1 http"
        answer = served.ask(LINE + get())
        assert answer.status == 400
        assert served.count("announced") == 0
        assert served.count("bad_requests") == 1


def test_a_second_announcement_is_a_bad_request() -> None:
    with serving(whoami, proxy_protocol=True, trusted=("127.0.0.1", "192.0.2.7")) as served:
        assert served.ask(LINE + LINE + get()).status == 400


def test_an_announcement_comes_before_the_handshake() -> None:
    secure = Tls(str(CERTIFICATES / "one.pem"), str(CERTIFICATES / "one.key"))
    context = ssl.create_default_context(cafile=str(CERTIFICATES / "one.pem"))
    context.check_hostname = False
    for cut in (None, 1, 20, len(LINE) - 1, len(LINE)):
        with serving(whoami, secure=secure, proxy_protocol=True, trusted=("127.0.0.1",)) as served:
            assert private(served, context, cut) == b"192.0.2.7 https"


def private(served: Served, context: ssl.SSLContext, cut: int | None) -> bytes:
    """What a client of a private connection is answered behind an announcement, which is cut somewhere or not at all."""
    dialled = served.dial()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    first = LINE + outgoing.read()
    if cut is not None:
        dialled.send(first[:cut])
        settle(served.reactor, 3)
        first = first[cut:]
    dialled.send(first)
    got = b""

    sent = False

    def handshaken() -> bool:
        nonlocal sent
        incoming.write(dialled.got)
        dialled.got = b""
        try:
            tls.do_handshake()
            sent = True
        except ssl.SSLWantReadError:
            pass
        dialled.send(outgoing.read())
        return sent

    dialled.until(handshaken, "the handshake")
    tls.write(get())
    dialled.send(outgoing.read())

    def answered() -> bool:
        nonlocal got
        incoming.write(dialled.got)
        dialled.got = b""
        try:
            got += tls.read(65536)
        except ssl.SSLWantReadError:
            return False
        return got.endswith(b"https")

    dialled.until(answered, "the answer")
    return got.partition(b"\r\n\r\n")[2]


def test_nonsense_before_a_handshake_is_closed() -> None:
    secure = Tls(str(CERTIFICATES / "one.pem"), str(CERTIFICATES / "one.key"))
    with serving(whoami, secure=secure, proxy_protocol=True, trusted=("127.0.0.1",)) as served:
        dialled = served.dial()
        dialled.send(b"PROXY TCP9 \r\n" + bytes(100))
        assert dialled.rest() == b""
        assert served.count("announced_malformed") == 1


def test_connections_are_counted_by_whom_they_come_from() -> None:
    with serving(whoami, proxy_protocol=True, trusted=("127.0.0.1",), max_connections_per_address=2) as served:
        held = []
        for _ in range(2):
            dialled = served.dial()
            assert dialled.ask(LINE + get()).status == 200
            held.append(dialled)
        crowded = served.dial()
        crowded.send(LINE + get())
        assert crowded.rest() == b""
        assert served.count("crowded") == 1
        assert served.ask(LINE.replace(b".7 ", b".8 ") + get()).status == 200
        # The proxy itself may come as often as it likes.
        for _ in range(4):
            dialled = served.dial()
            assert dialled.ask(b"PROXY UNKNOWN\r\n" + get()).status == 200
        held[0].close()
        served.until(lambda: served.server.engine.recount()["open"] <= 5, "the end of one")
        assert served.ask(LINE + get()).status == 200


def test_others_are_counted_too() -> None:
    with serving(whoami, trusted=("192.0.2.1",), max_connections_per_address=1) as served:
        first = served.dial()
        assert first.ask(get()).status == 200
        assert served.dial().rest() == b""
        assert served.count("crowded") == 1


# ---- requests --------------------------------------------------------------------------------------------------------


def test_forwarded_fields_count_request_by_request(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = Log(str(path), format="{peer} {status}")
    try:
        with serving(whoami, trusted=("127.0.0.1",), log=log) as served:
            dialled = served.dial()
            told = get("/", "X-Forwarded-For: 6.6.6.6, 192.0.2.9", "X-Forwarded-Proto: https")
            asked = told + get() + get("/", "Forwarded: for=192.0.2.10")
            dialled.send(asked + b"NONSENSE\r\n\r\n")
            assert dialled.answer().body == b"192.0.2.9 https"
            assert dialled.answer().body == b"127.0.0.1 http"
            assert dialled.answer().body == b"192.0.2.10 http"
            assert dialled.answer().status == 400
            assert served.count("forwarded") == 2
            assert served.ask(get("/", "X-Forwarded-For: nobody")).body == b"127.0.0.1 http"
            assert served.count("forwarded_malformed") == 1
    finally:
        log.close()
    assert path.read_text().splitlines() == [
        "192.0.2.9 200",
        "127.0.0.1 200",
        "192.0.2.10 200",
        "127.0.0.1 400",
        "127.0.0.1 200",
    ]


def test_forwarded_fields_of_others_are_only_fields() -> None:
    def handler(request: Request) -> Response:
        return Response(200, f"{request.peer} {request.scheme} {request.header('X-Forwarded-For')}")

    field = ("X-Forwarded-For: 192.0.2.9", "X-Forwarded-Proto: https", "Forwarded: for=192.0.2.9")
    with serving(handler) as served:
        assert served.ask(get("/", *field)).body == b"127.0.0.1 http 192.0.2.9"
    with serving(handler, trusted=("198.18.0.0/16",)) as served:
        assert served.ask(get("/", *field)).body == b"127.0.0.1 http 192.0.2.9"
        assert served.count("forwarded") == 0


def test_an_announced_client_is_not_believed_and_an_announced_proxy_is() -> None:
    asked = get("/", "X-Forwarded-For: 203.0.113.5")
    with serving(whoami, proxy_protocol=True, trusted=("127.0.0.1", "198.18.0.0/16")) as served:
        assert served.ask(LINE + asked).body == b"192.0.2.7 http"
        assert served.ask(block(1, 0x11, four("198.18.4.4")) + asked).body == b"203.0.113.5 http"
        assert served.ask(block(1, 0x31, bytes(216)) + asked).body == b"unix http"


def test_those_whom_a_proxy_asks_for_have_shares_of_their_own() -> None:
    asked: list[Request] = []
    with serving(asked.append, trusted=("127.0.0.1",)) as served:
        for number in range(3):
            served.dial().send(get("/", f"X-Forwarded-For: 192.0.2.{number + 1}"))
        served.until(lambda: len(asked) == 3, "the requests")
        assert served.server.engine.admission.counters()["addresses"] == 3
        assert sorted(request.peer for request in asked) == ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
