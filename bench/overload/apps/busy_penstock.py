"""The application of known service time as a handler of our own server: `python busy_penstock.py PORT`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from busy_wsgi import answer

# By name, so that the other servers can be measured with a tree that has no server yet.
DOOR = importlib.import_module("penstock.http")


def handler(request: Any) -> Any:
    return DOOR.Response(200, answer(request.path), content_type="text/plain")


if __name__ == "__main__":
    DOOR.Server(handler, host="127.0.0.1", port=int(sys.argv[1])).run()
