"""Certificates are replaced while the command serves: a reload takes the new ones, and open connections keep theirs."""

from __future__ import annotations

import shutil
import signal
import socket
import ssl
from pathlib import Path

import pytest

from tests.http.serving import Serving, ask, eventually, serving
from tests.http.test_tls import ONE, TWO, trusting
from tests.net.rig import PATIENCE_S

KINDS = [(), ("--threads", "2"), ("--workers", "2")]


def private(server: Serving, name: str) -> ssl.SSLSocket:
    """Connect, and trust only the certificate of that name."""
    plain = socket.create_connection(server.address, timeout=PATIENCE_S)
    try:
        return trusting(name).wrap_socket(plain)
    except BaseException:
        plain.close()
        raise


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0] if kind else "one")
def test_a_reload_takes_new_certificates(tmp_path: Path, kind: tuple[str, ...]) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "index.html").write_text("private")
    certificate, key = tmp_path / "site.pem", tmp_path / "site.key"
    shutil.copy(ONE[0], certificate)
    shutil.copy(ONE[1], key)
    with serving(str(site), "--tls-cert", str(certificate), "--tls-key", str(key), *kind) as server:
        assert "https://" in server.head
        with private(server, "one") as old:
            assert ask(old)[2] == b"private"
            # A key that does not belong to the certificate changes nothing.
            shutil.copy(TWO[0], certificate)
            server.send(signal.SIGHUP)
            eventually(server.complained("the configuration was not changed"))
            with private(server, "one") as again:
                assert ask(again)[0] == 200
            shutil.copy(TWO[1], key)
            server.send(signal.SIGHUP)
            eventually(server.complained("serving with the configuration as it is now"))
            for _ in range(4):
                with private(server, "two") as new:
                    assert ask(new)[2] == b"private"
            with pytest.raises(ssl.SSLCertVerificationError):
                private(server, "one").close()
        assert server.leave()[0] == 0
