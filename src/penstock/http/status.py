"""Looking into a server while it runs: a page for people, figures for Prometheus, ten lines for scripts.

    /          a page that follows the figures by server-sent events
    /events    those events, one a second
    /metrics   the same figures for Prometheus
    /status    ten plain lines

`StatusHandler` is a handler for a `Server` of its own, on an address of its own; where the figures come from it is told.
It answers nothing else, changes nothing, and shows no request of anybody. This file must not know processes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from penstock import limits
from penstock.http.exchange import Request
from penstock.http.message import WAIT, Response, Wait
from penstock.http.status_page import PAGE
from penstock.reactor import Reactor

Figures = dict[str, Any]

# The page is one file: its style and its script are in it, and nothing else may run.
_INLINE = "'unsafe-inline'"
_PAGE_FIELDS = (
    ("Cache-Control", "no-store"),
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)
_NO_STORE = (("Cache-Control", "no-store"),)


class StatusHandler:
    """Answers with the figures that `figures()` gives: what `Server.counters` gives, or a sum of such.

    It must be closed before its reactor is, so that nobody watches any more.
    """

    def __init__(self, reactor: Reactor, figures: Callable[[], Figures]) -> None:
        self.figures = figures
        self._watchers: list[Watcher] = []
        self._timer = reactor.set_interval(limits.STATUS_PERIOD_NS / limits.NS_PER_S, self._tick)

    def __call__(self, request: Request) -> Response:
        """Answer a request."""
        if request.method not in ("GET", "HEAD"):
            return Response(405, "The status can be read, and nothing else.\n", [("Allow", "GET, HEAD")])
        if request.path == "/":
            return Response(200, PAGE, _PAGE_FIELDS, content_type="text/html; charset=utf-8")
        if request.path == "/status":
            return Response(200, plain(self.figures()), _NO_STORE)
        if request.path == "/metrics":
            content_type = "text/plain; version=0.0.4; charset=utf-8"
            return Response(200, metrics(self.figures()).encode(), _NO_STORE, content_type=content_type)
        if request.path == "/events":
            return self._watch(request)
        return Response(404, "There are /, /events, /metrics and /status.\n")

    def _watch(self, request: Request) -> Response:
        if len(self._watchers) >= limits.STATUS_WATCHERS_MAX:
            text = f"{limits.STATUS_WATCHERS_MAX} watch already; ask for /status instead.\n"
            return Response(503, text, [("Retry-After", "10")])
        watcher = Watcher(request, self.figures())
        if request.method == "GET":
            self._watchers.append(watcher)
            request.watch(lambda: self._forget(watcher))
        return Response(200, watcher.events(), _NO_STORE, content_type="text/event-stream; charset=utf-8")

    def _forget(self, watcher: Watcher) -> None:
        if watcher in self._watchers:
            self._watchers.remove(watcher)

    def _tick(self) -> None:
        """Tell everybody who watches."""
        if self._watchers:
            figures = self.figures()
            for watcher in list(self._watchers):
                watcher.tell(figures)

    def close(self) -> None:
        """End what is still watched."""
        self._timer.cancel()
        for watcher in self._watchers:
            watcher.end()
        self._watchers.clear()


class Watcher:
    """One who follows the events. Who does not take them gets the newest when they do, never a queue of old ones."""

    def __init__(self, request: Request, figures: Figures) -> None:
        self._request = request
        self._newest: Figures | None = figures
        self._over = False

    def tell(self, figures: Figures) -> None:
        """There are new figures."""
        self._newest = figures
        self._request.resume()

    def end(self) -> None:
        """There will be no more."""
        self._over = True
        self._request.resume()

    def events(self) -> Iterator[bytes | Wait]:
        """Yield the answer's content."""
        yield b"retry: 2000\n\n"
        while not self._over:
            figures, self._newest = self._newest, None
            yield WAIT if figures is None else f"data: {json.dumps(figures)}\n\n".encode()


# ---- ten lines -------------------------------------------------------------------------------------------------------


def _number(figures: Figures, *path: str) -> int:
    value: Any = figures
    for name in path:
        value = value.get(name, 0) if isinstance(value, dict) else 0
    return int(value) if isinstance(value, int | float) else 0


def _sum(figures: Figures, name: str) -> int:
    value = figures.get(name, {})
    return sum(number for number in value.values() if isinstance(number, int)) if isinstance(value, dict) else 0


def _each(figures: Figures, name: str) -> str:
    value = figures.get(name, {})
    told = [f"{word} {number}" for word, number in value.items() if number] if isinstance(value, dict) else []
    return f" ({', '.join(told)})" if told else ""


def plain(figures: Figures) -> str:
    """Return the ten lines: a word, a colon, a number, and for people what it consists of."""
    turns = figures.get("loop", {}).get("turn_ns", [])
    lines = [
        f"connections: {_number(figures, 'open')}{_each(figures, 'states')}",
        f"accepted: {_number(figures, 'connections')}",
        f"requests: {_number(figures, 'requests')}",
        f"answers: {_sum(figures, 'answers')}{_each(figures, 'answers')}",
        f"waiting: {_number(figures, 'admission', 'waiting')}",
        f"in work: {_number(figures, 'admission', 'in_work')} (limit {_number(figures, 'admission', 'limit')})",
        f"refused: {_sum(figures, 'refused')}{_each(figures, 'refused')}",
        f"timed out: {_sum(figures, 'timeouts')}{_each(figures, 'timeouts')}",
        f"sent bytes: {_number(figures, 'sent_content_bytes')}",
        f"99 % of turns below: {quantile(turns, 0.99) / 1e6:.3f} ms",
    ]
    return "\n".join(lines) + "\n"


def quantile(buckets: list[int], share: float) -> int:
    """Return a bound that this share of the values of a log2 histogram do not exceed, exact to a factor of 2."""
    wanted = share * sum(buckets)
    seen = 0
    for index, count in enumerate(buckets):
        seen += count
        if seen and seen >= wanted:
            return int((1 << index) - 1)
    return 0


# ---- Prometheus ------------------------------------------------------------------------------------------------------

# name, type, help, where it is, and the label of its parts if it has any.
_METRICS: tuple[tuple[str, str, str, tuple[str, ...], str], ...] = (
    ("connections_open", "gauge", "Connections that are open, by state.", ("states",), "state"),
    ("connections_total", "counter", "Connections that were accepted.", ("connections",), ""),
    ("connections_evicted_total", "counter", "Idle connections closed for new ones.", ("evicted",), ""),
    (
        "connections_turned_away_total",
        "counter",
        "Connections refused because all places were busy.",
        ("turned_away",),
        "",
    ),
    ("requests_total", "counter", "Requests that were received.", ("requests",), ""),
    ("requests_bad_total", "counter", "Bytes that were no request.", ("bad_requests",), ""),
    ("requests_refused_total", "counter", "Requests refused by admission, by reason.", ("refused",), "reason"),
    ("requests_waiting", "gauge", "Requests that wait for the program.", ("admission", "waiting"), ""),
    ("requests_in_work", "gauge", "Requests that the program has.", ("admission", "in_work"), ""),
    ("requests_in_work_limit", "gauge", "Requests that the program may have.", ("admission", "limit"), ""),
    ("answers_total", "counter", "Answers, by class of status.", ("answers",), "class"),
    ("answers_aborted_total", "counter", "Answers that did not reach their end.", ("aborted",), ""),
    ("timeouts_total", "counter", "Deadlines that passed, by state.", ("timeouts",), "state"),
    ("content_sent_bytes_total", "counter", "Content of answers.", ("sent_content_bytes",), ""),
    ("content_received_bytes_total", "counter", "Content of requests.", ("received_content_bytes",), ""),
    ("handler_errors_total", "counter", "Errors of the program.", ("errors",), ""),
    ("log_dropped_total", "counter", "Lines of the access log that were dropped.", ("log", "dropped"), ""),
    ("files_cached_bytes", "gauge", "Memory of the cache of files.", ("files", "bytes"), ""),
    ("loop_turns_total", "counter", "Turns of the loops.", ("loop", "turns"), ""),
    ("loop_asleep_seconds_total", "counter", "Time that the loops slept.", ("loop", "asleep_s"), ""),
    ("loop_errors_total", "counter", "Handlers that raised.", ("loop", "errors"), ""),
)


def metrics(figures: Figures) -> str:
    """Return the figures in Prometheus' text format."""
    lines: list[str] = []
    for name, kind, told, path, label in _METRICS:
        value: Any = figures
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        if value is None or isinstance(value, dict) != bool(label):
            continue
        lines += [f"# HELP penstock_{name} {told}", f"# TYPE penstock_{name} {kind}"]
        parts = value.items() if label else (("", value),)
        for word, number in parts:
            labels = f'{{{label}="{word}"}}' if label else ""
            lines.append(f"penstock_{name}{labels} {number}")
    lines += _histogram(figures)
    return "\n".join(lines) + "\n"


def _histogram(figures: Figures) -> Iterator[str]:
    loop = figures.get("loop", {})
    buckets = loop.get("turn_ns", [])
    yield "# HELP penstock_loop_turn_seconds Time of the turns of the loops, without their sleep."
    yield "# TYPE penstock_loop_turn_seconds histogram"
    seen = 0
    for index, count in enumerate(buckets):
        seen += count
        if index >= 10:
            yield f'penstock_loop_turn_seconds_bucket{{le="{((1 << index) - 1) / 1e9:.9f}"}} {seen}'
    yield f'penstock_loop_turn_seconds_bucket{{le="+Inf"}} {seen}'
    yield f"penstock_loop_turn_seconds_sum {loop.get('turn_total_ns', 0) / 1e9:.9f}"
    yield f"penstock_loop_turn_seconds_count {seen}"
