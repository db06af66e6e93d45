"""A server that every Python has, so that the benchmarks can be tried without their peers: `PORT FOLDER MODULE`."""

from __future__ import annotations

import importlib
import sys
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer, make_server


class Quiet(WSGIRequestHandler):
    """Logs nothing."""

    def log_message(self, *_: object) -> None:
        pass


class Ready(WSGIServer):
    """Lets as many wait as the crowds of a quick run are large."""

    request_queue_size = 1024


def main() -> None:
    sys.path.insert(0, sys.argv[2])
    app = importlib.import_module(sys.argv[3]).app
    # A client that has gone is no reason for a traceback.
    ServerHandler.log_exception = lambda *_: None  # type: ignore[method-assign]
    with make_server("127.0.0.1", int(sys.argv[1]), app, server_class=Ready, handler_class=Quiet) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        server.serve_forever()


if __name__ == "__main__":
    main()
