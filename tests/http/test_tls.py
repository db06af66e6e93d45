"""Private connections: the same answers, resumption, client certificates, reload, and clients that make no sense."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
from pathlib import Path

import pytest

from penstock.errors import UsageError
from penstock.http import Request, Response, Tls
from tests.http.rig import Answer, Client, Incomplete, Served, get, post, serving, take_answer
from tests.net.rig import turn_until

CERTIFICATES = Path(__file__).parent / "certificates"
ONE = (str(CERTIFICATES / "one.pem"), str(CERTIFICATES / "one.key"))
TWO = (str(CERTIFICATES / "two.pem"), str(CERTIFICATES / "two.key"))


def trusting(*names: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    for name in names or ("one",):
        context.load_verify_locations(CERTIFICATES / f"{name}.pem")
    return context


class PrivateClient:
    """A client of a private connection, over the plain one of the rig."""

    def __init__(self, served: Served, context: ssl.SSLContext, session: ssl.SSLSession | None = None) -> None:
        self.plain: Client = served.dial()
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost", session=session)
        self.got = b""
        self.ended = False
        self._until(self._shaken)

    def _shaken(self) -> bool:
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def _until(self, condition: object) -> None:
        def holds() -> bool:
            if not self.plain.ended:
                self.plain.look()
            self.incoming.write(self.plain.got)
            self.plain.got = b""
            try:
                done = bool(condition())  # type: ignore[operator]
            finally:
                out = self.outgoing.read()
                if out:
                    self.plain.send(out)
            return done

        turn_until(self.plain.served.reactor, holds)

    def _read(self) -> None:
        while True:
            try:
                data = self.tls.read(65_536)
            except ssl.SSLWantReadError:
                return
            except ssl.SSLZeroReturnError:
                data = b""
            self.got += data
            if not data:
                self.ended = True
                return

    def send(self, data: bytes) -> None:
        self.tls.write(data)
        self.plain.send(self.outgoing.read())

    def answer(self) -> Answer:
        found: list[Answer] = []

        def complete() -> bool:
            self._read()
            try:
                answer, self.got = take_answer(self.got, ended=self.ended)
            except Incomplete:
                assert not self.ended
                return False
            found.append(answer)
            return True

        self._until(complete)
        return found[0]

    def ask(self, data: bytes) -> Answer:
        self.send(data)
        return self.answer()

    def rest(self) -> bytes:
        def over() -> bool:
            self._read()
            return self.ended

        self._until(over)
        return self.got


def echo(request: Request) -> Response:
    return Response(200, f"{request.scheme} {request.path}\n".encode() + request.body)


def test_a_private_connection_is_answered() -> None:
    with serving(echo, secure=Tls(*ONE)) as served:
        assert served.server.url.startswith("https://")
        client = PrivateClient(served, trusting())
        assert client.ask(get("/a")).body == b"https /a\n"
        assert client.ask(post("/b", b"x" * 200_000)).body == b"https /b\n" + b"x" * 200_000
        client.send(b"".join(get(f"/{number}") for number in range(100)))
        for number in range(100):
            assert client.answer().body == f"https /{number}\n".encode()


def test_the_last_answer_ends_with_a_farewell() -> None:
    """Without it a client could not tell an answer from one that was cut."""
    with serving(echo, secure=Tls(*ONE)) as served:
        client = PrivateClient(served, trusting())
        client.send(get("/", "Connection: close"))
        assert client.rest().endswith(b"https /\n")


def test_files_large_and_small_are_served(tmp_path: Path) -> None:
    small, large = os.urandom(1300), os.urandom(3_000_000)
    (tmp_path / "small.bin").write_bytes(small)
    (tmp_path / "large.bin").write_bytes(large)
    with serving(files=tmp_path, secure=Tls(*ONE)) as served:
        client = PrivateClient(served, trusting())
        for _ in range(2):
            assert client.ask(get("/small.bin")).body == small
            assert client.ask(get("/large.bin")).body == large
        assert client.ask(get("/large.bin", "Range: bytes=1000-2000")).body == large[1000:2001]


def test_a_session_is_resumed() -> None:
    tls = Tls(*ONE)
    context = trusting()
    with serving(echo, secure=tls) as served:
        first = PrivateClient(served, context)
        first.ask(get())
        second = PrivateClient(served, context, first.tls.session)
        second.ask(get())
        assert second.tls.session_reused
        assert (tls.handshakes, tls.resumed) == (2, 1)


def test_the_protocol_is_agreed_on() -> None:
    context = trusting()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with serving(echo, secure=Tls(*ONE)) as served:
        client = PrivateClient(served, context)
        assert client.tls.selected_alpn_protocol() == "http/1.1"


def test_a_client_shows_a_certificate() -> None:
    names: list[object] = []

    def handler(request: Request) -> Response:
        assert request.certificate is not None
        names.append(request.certificate["subject"])
        return Response(200)

    tls = Tls(*ONE, client_ca=str(CERTIFICATES / "ca.pem"))
    context = trusting()
    context.load_cert_chain(CERTIFICATES / "client.pem", CERTIFICATES / "client.key")
    with serving(handler, secure=tls) as served:
        assert PrivateClient(served, context).ask(get()).status == 200
        assert names == [((("commonName", "a client"),),)]
        stranger = PrivateClient(served, trusting())
        with pytest.raises(ssl.SSLError):
            stranger.ask(get())
        assert tls.failed == 1


def test_new_certificates_are_taken_without_a_restart(tmp_path: Path) -> None:
    certificate, key = tmp_path / "site.pem", tmp_path / "site.key"
    shutil.copy(ONE[0], certificate)
    shutil.copy(ONE[1], key)
    tls = Tls(str(certificate), str(key))
    with serving(echo, secure=tls) as served:
        old = PrivateClient(served, trusting("one"))
        shutil.copy(TWO[0], certificate)
        with pytest.raises(UsageError, match="cannot be used"):
            tls.reload()
        PrivateClient(served, trusting("one")).ask(get())
        shutil.copy(TWO[1], key)
        tls.reload()
        PrivateClient(served, trusting("two")).ask(get())
        assert old.ask(get("/old")).body == b"https /old\n"


def test_who_does_not_speak_tls_is_closed_and_counted() -> None:
    tls = Tls(*ONE)
    with serving(echo, secure=tls) as served:
        client = served.dial()
        client.send(get())
        client.rest()
        assert tls.failed == 1
        assert sum(tls.failures.values()) == 1
        assert PrivateClient(served, trusting()).ask(get()).status == 200


def test_a_handshake_that_is_left_half_done_is_closed() -> None:
    tls = Tls(*ONE)
    with serving(echo, secure=tls) as served:
        client = served.dial()
        client.send(b"\x16\x03\x01")
        client.end()
        client.rest()
        assert tls.failed == 1


def test_a_connection_that_is_reset_leaves_nothing() -> None:
    with serving(lambda request: Response(200, b"x" * 10_000_000), secure=Tls(*ONE)) as served:
        client = PrivateClient(served, trusting())
        client.send(get())
        served.until(lambda: served.count("states")["sending"], "the answer")
        client.plain.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.plain.close()
        served.until(lambda: served.server.engine.open == 0, "the end")


@pytest.mark.parametrize(
    ("files", "says"),
    [
        (("missing.pem", None), "no such file"),
        ((ONE[0], ONE[0]), "cannot be used"),
        ((ONE[0], TWO[1]), "cannot be used"),
        ((__file__, None), "cannot be used"),
    ],
)
def test_files_that_cannot_be_used_are_named(files: tuple[str, str | None], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Tls(*files)


def test_authorities_that_are_none_are_named() -> None:
    with pytest.raises(UsageError, match="authorities"):
        Tls(*ONE, client_ca=__file__)
