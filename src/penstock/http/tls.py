# cython: language_level=3
"""Private connections: the standard library's ssl between a stream and the engine.

What a stream receives goes into one memory BIO and comes out in clear for the engine; what the engine sends goes through
the other way. The table of states and everything behind it is the same as for plain connections, but answers pass the
interpreter: files are read and encrypted piece by piece instead of being sent by the kernel.

A certificate that is replaced on disk is read by `reload`; connections that are open keep theirs. This file must not
know what is served.
"""

import contextlib
import os
import ssl

import cython
from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF, PyObject
from cython.cimports.penstock.http.engine import Engine, engine_announced, engine_eof, engine_receive
from cython.cimports.penstock.http.types import EngineC, HttpC
from cython.cimports.penstock.net.stream import Stream
from cython.cimports.penstock.net.system import iovec
from cython.cimports.penstock.net.transfer import stream_end, stream_write
from cython.cimports.penstock.net.types import END_ERROR, STREAM_OVER

from penstock import limits
from penstock.errors import UsageError

READ_BYTES = limits.READ_SHARE_BYTES
# Reasons of failed handshakes that are counted by name; what comes beyond is "other".
REASONS_MAX = limits.HTTP_TLS_REASONS_MAX


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _send(conn: cython.pointer[HttpC], data: cython.p_const_char, size: cython.size_t) -> cython.int:
    """The engine sends: encrypt, and hand over to the stream."""
    with cython.gil:
        return _send_held(conn, data, size)


@cython.cfunc
@cython.exceptval(check=False)
def _send_held(conn: cython.pointer[HttpC], data: cython.p_const_char, size: cython.size_t) -> cython.int:
    half: TlsHalf = cython.cast(TlsHalf, conn.tls)
    try:
        half._write(data, size)
    except Exception as error:
        _lost(half, error)
        return -1
    return 0


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _finish(conn: cython.pointer[HttpC]) -> cython.void:
    """The engine has sent its last byte: say so."""
    with cython.gil:
        _finish_held(conn)


@cython.cfunc
@cython.exceptval(check=False)
def _finish_held(conn: cython.pointer[HttpC]) -> cython.void:
    half: TlsHalf = cython.cast(TlsHalf, conn.tls)
    try:
        half._end()
    except Exception as error:
        _lost(half, error)


@cython.cfunc
@cython.exceptval(check=False)
def _lost(half: TlsHalf, error) -> cython.void:
    """What cannot be encrypted ends the connection."""
    try:
        half._fail(error)
    except Exception:
        stream_end(cython.address(half.stream.c), END_ERROR, 0)


@cython.cfunc
@cython.exceptval(check=False)
def _gone(conn: cython.pointer[HttpC]) -> cython.void:
    """The connection is over; its stream may still tell this half something."""
    half: TlsHalf = cython.cast(TlsHalf, conn.tls)
    half.conn = cython.NULL
    conn.tls = cython.NULL
    Py_DECREF(half)


class Tls:
    """A certificate and its key, and what is asked of clients.

    `client_ca` is a file of authorities that clients' certificates are checked with; without `client_required` a client
    may come without one.
    """

    def __init__(self, certificate, key=None, *, client_ca=None, client_required: bool = True):
        self.settings = (certificate, key, client_ca, client_required)
        self.handshakes = self.resumed = self.failed = self.reloads = 0
        self.failures = {}
        self.context = _context(self.settings)

    def reload(self):
        """Read the files again. If they cannot be used the old ones stay, and the error is raised."""
        self.context = _context(self.settings)
        self.reloads += 1

    def begin(self, engine: Engine, stream: Stream):
        """Take a fresh connection over."""
        conn: cython.pointer[HttpC] = cython.cast(cython.pointer[HttpC], stream.c.context)
        c: cython.pointer[EngineC] = conn.engine
        half: TlsHalf = TlsHalf.__new__(TlsHalf)
        c.tls_send = _send
        c.tls_end = _finish
        c.tls_gone = _gone
        half.conn = conn
        half.stream = stream
        half.owner = self
        half.incoming = ssl.MemoryBIO()
        half.outgoing = ssl.MemoryBIO()
        half.session = self.context.wrap_bio(half.incoming, half.outgoing, server_side=True)
        # The connection holds the half until it is over.
        Py_INCREF(half)
        conn.tls = cython.cast(cython.pointer[PyObject], half)
        stream.on_data = half.on_data
        stream.on_eof = half.on_eof

    def counters(self):
        """Everything that is counted."""
        return {
            "handshakes": self.handshakes,
            "resumed": self.resumed,
            "failed": self.failed,
            "failures": dict(self.failures),
            "reloads": self.reloads,
        }


class TlsHalf:
    """The private side of one connection."""

    def __init__(self):
        raise UsageError("a TlsHalf is made by Tls.begin")

    def on_data(self, data):
        """Something was received."""
        if self.conn == cython.NULL:
            return
        if self.conn.awaits:
            data = engine_announced(self.conn, data)
            if not data:
                return
        try:
            self.incoming.write(data)
            if not self.open:
                self._shake()
            if self.open:
                self._read()
        except (ssl.SSLError, OSError) as error:
            self._fail(error)
        self._flush()

    def on_eof(self):
        """The peer has ended its half, with or without saying so."""
        if self.conn == cython.NULL:
            return
        self.incoming.write_eof()
        if self.open:
            engine_eof(self.conn)
        else:
            self._fail(ConnectionResetError("the peer went away during the handshake"))

    def _shake(self):
        try:
            self.session.do_handshake()
        except ssl.SSLWantReadError:
            return 0
        self.open = True
        self.owner.handshakes += 1
        if self.session.session_reused:
            self.owner.resumed += 1
        return 0

    def _read(self):
        """Give the engine everything that can be decrypted."""
        while self.conn != cython.NULL and self.stream.c.state < STREAM_OVER:
            try:
                plain: bytes = self.session.read(READ_BYTES)
            except ssl.SSLWantReadError:
                return 0
            except ssl.SSLZeroReturnError:
                plain = b""
            if not plain:
                engine_eof(self.conn)
                return 0
            engine_receive(self.conn, plain)
        return 0

    def _write(self, data: cython.p_const_char, size: cython.size_t):
        self.session.write(PyBytes_FromStringAndSize(data, size))
        return self._flush()

    def _end(self):
        """Say that nothing follows; the answer of the peer is not waited for."""
        if self.open and not self.ended:
            self.ended = True
            # It wants the peer's word, for which nobody waits.
            with contextlib.suppress(ssl.SSLError):
                self.session.unwrap()
            self._flush()
        return 0

    def _flush(self):
        """Hand over what is encrypted."""
        piece: iovec
        if self.outgoing.pending and self.stream.c.state < STREAM_OVER:
            cipher: bytes = self.outgoing.read()
            piece.iov_base = PyBytes_AS_STRING(cipher)
            piece.iov_len = len(cipher)
            stream_write(cython.address(self.stream.c), cython.address(piece), 1, piece.iov_len)
        return 0

    def _fail(self, error):
        """The two sides do not understand each other: count it, tell the peer what the library wants it to know."""
        owner: Tls = self.owner
        reason = getattr(error, "reason", None) or type(error).__name__
        if not self.open:
            owner.failed += 1
            if reason not in owner.failures and len(owner.failures) >= REASONS_MAX:
                reason = "other"
            owner.failures[reason] = owner.failures.get(reason, 0) + 1
        self._flush()
        if self.stream.c.state < STREAM_OVER:
            self.stream.close()
        return 0

    @property
    def certificate(self):
        """What the client has shown, as the ssl module tells it; None if it has shown nothing."""
        return self.session.getpeercert() or None

    @property
    def cipher(self):
        """Name, protocol and bits of what is used."""
        return self.session.cipher()


def _context(settings):
    """A context from files; every failure says which file, and what is wrong with it."""
    certificate, key, client_ca, client_required = settings
    for name in (certificate, key, client_ca):
        if name is not None and not os.path.isfile(name):
            raise UsageError(f"{name} cannot be read: there is no such file; give the path of a PEM file")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, OSError) as error:
        files = certificate if key is None else f"{certificate} with {key}"
        why = getattr(error, "reason", None) or error.strerror or error
        raise UsageError(f"{files} cannot be used ({why}); give a PEM certificate chain and its private key") from None
    if client_ca is not None:
        try:
            context.load_verify_locations(client_ca)
        except (ssl.SSLError, OSError) as error:
            raise UsageError(f"{client_ca} has no certificates ({error}); give a PEM file of authorities") from None
        context.verify_mode = ssl.CERT_REQUIRED if client_required else ssl.CERT_OPTIONAL
    return context


def _no_password():
    raise UsageError("the private key is encrypted, and a server has nobody to ask for its password; decrypt it")
