"""The page of the status in a real browser, where there is one: it follows the figures without another request."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from penstock import Reactor
from penstock.http import Request, Response, Server
from penstock.http.status import StatusHandler
from penstock.http.status_page import PAGE
from tests.http.rig import Served, get
from tests.net.rig import turn_until

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
# What keeps it from asking anybody but this page.
ALONE = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)


def hello(request: Request) -> Response:
    return Response(200, b"hello")


class Held:
    """The status, with a picture that comes only after the second event: so a browser is not done with the page before."""

    def __init__(self, reactor: Reactor, server: Server) -> None:
        self.server = server
        self.told = 0
        self.late: Request | None = None
        self.status = StatusHandler(reactor, self.figures)

    def figures(self) -> dict[str, Any]:
        self.told += 1
        return self.server.counters()

    def __call__(self, request: Request) -> Response | None:
        if request.path == "/late":
            self.late = request
            return None
        if request.path == "/":
            page = PAGE.replace(b"</body>", b'<img src="/late" alt=""></body>')
            return Response(200, page, content_type="text/html; charset=utf-8")
        return self.status(request)

    def release(self) -> None:
        """Let the picture come when it is time."""
        if self.late is not None and self.told >= 2:
            self.late.respond(Response(404))
            self.late = None


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed here")
def test_a_browser_shows_what_the_server_counts(tmp_path: Path) -> None:
    with Reactor() as reactor, Server(hello, reactor=reactor, port=0) as server:
        held = Held(reactor, server)
        with Server(held, reactor=reactor, port=0) as shown:
            client = Served(server, reactor).dial()
            for _ in range(1234):
                client.ask(get())
            look_at(shown.url, tmp_path, reactor, held)
            client.close()
            held.status.close()
    page = (tmp_path / "page.html").read_text()
    assert re.search(r'<span id="state"[^>]*>live</span>', page)
    assert re.search(r'id="open"[^>]*>1<', page)
    assert "1,234" in page
    assert "nothing was refused" in page
    assert re.search(r"requests waiting.*0 of 16,384", page)


def look_at(url: str, folder: Path, reactor: Reactor, held: Held) -> None:
    """Have a browser write down what it shows, while the loop turns."""
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    command = [str(BROWSER), "--headless=new", *root, *ALONE, f"--user-data-dir={folder}", "--dump-dom", url]
    with (folder / "page.html").open("wb") as page:
        # What is preloaded for our own sake is not for a browser.
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        browser = subprocess.Popen(
            command, env=environment, stdout=page, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL
        )

        def done() -> bool:
            held.release()
            return browser.poll() is not None

        try:
            turn_until(reactor, done, "the browser")
        finally:
            browser.kill()
            browser.wait()
