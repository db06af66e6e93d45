"""The parts of docs/http.md that are generated, and docs/conformance.md: made from what the server itself goes by.

The states are drawn from the table that a connection walks, the options from the record that a server is given, the
rules from the table that the tests run. This file must not know how pages are compared or written.
"""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

from penstock.http.connection import diagram
from penstock.http.options import DEFAULT, RANGES, TIMES, HttpOptions

ROOT = Path(__file__).resolve().parent.parent

# What each option bounds, and what happens then.
MEANING = {
    "first_byte_timeout": "from the connection to its first byte; then it is closed",
    "header_timeout": "from the first byte of a head to its last, however it trickles; then 408",
    "body_timeout": "the period over which content must come at `min_body_rate`; then 408",
    "send_timeout": "without any progress in sending; then the connection is reset",
    "idle_timeout": "between two requests; then it is closed",
    "work_timeout": "for the handler to answer; then 503",
    "drain_timeout": "for a server that leaves to answer what was asked; then it ends all connections",
    "linger": "after the last answer, in which what still comes is thrown away",
    "deadline": "for a request to wait for the handler; then 503",
    "max_line": "bytes of a request line; more: 414",
    "max_head": "bytes of a head; more: 431",
    "max_fields": "fields of a head; more: 431",
    "max_body": "bytes of content; more: 413",
    "max_body_kept": "bytes of content that are kept in memory for a handler that does not stream; more: 413, or a file",
    "min_body_rate": "bytes per second at which content must come; 0: any",
    "max_connections": "connections; one more takes the place of the one that was idle for longest, or gets 503",
    "max_connections_per_address": "connections of one address",
    "max_requests_in_work": "requests that the handler has at a time",
    "max_requests_queued": "requests that wait for the handler; more: 503",
    "trusted": "addresses and networks whose word counts about where a request comes from",
    "proxy_protocol": "connections of trusted peers begin with a PROXY header",
}


def _shown(value: object) -> str:
    if value is None:
        return "not limited"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int | float):
        return f"{value:,g}" if isinstance(value, float) else f"{value:,}"
    return str(value) if value else "none"


def options_table() -> str:
    """Return the options as a table."""
    rows = ["| option | default | from | to | what |", "|---|---|---|---|---|"]
    for option in fields(HttpOptions):
        default = _shown(getattr(DEFAULT, option.name))
        if option.name in TIMES and default != "not limited":
            default += " s"
        bounds = RANGES.get(option.name)
        limits = f"{bounds[0]:,} | {bounds[1]:,}" if bounds else " | "
        rows.append(f"| `{option.name}` | {default} | {limits} | {MEANING[option.name]} |")
    return "\n".join(rows)


def between(page: str, name: str, text: str) -> str:
    """Return the page with this text between the two marks of that name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, found, rest = page.partition(begin)
    _, closed, tail = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"docs/http.md has no marks {begin} and {end}; put them where the generated text belongs")
    return f"{head}{begin}\n\n{text}\n\n{end}{tail}"


def http_page(page: str) -> str:
    """Return docs/http.md with its generated parts as they should be."""
    page = between(page, "states", f"```text\n{diagram()}\n```")
    return between(page, "options", options_table())


def conformance_page() -> str:
    """Return docs/conformance.md."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from tests.http.conformance.page import conformance_page as page

    return page()
