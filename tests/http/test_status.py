"""The status of a server: ten lines, Prometheus, the page, and those who watch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from penstock import limits
from penstock.core.clock import ManualClock
from penstock.http import Request, Response, Server
from penstock.http.status import StatusHandler, metrics, plain, quantile
from tests.http.rig import Client, Served, get, serving
from tests.net.rig import settle


def hello(request: Request) -> Response:
    return Response(200, b"hello")


@contextmanager
def watched(**more: Any) -> Iterator[tuple[Served, Served, StatusHandler]]:
    """A server, and the server of its status on the same loop."""
    with serving(hello, **more) as served:
        handler = StatusHandler(served.reactor, served.server.counters)
        with Server(handler, reactor=served.reactor, port=0) as server:
            status = Served(server, served.reactor)
            yield served, status, handler
            for client in status.clients:
                client.close()
            handler.close()


def test_ten_lines() -> None:
    with watched() as (served, status, _):
        client = served.dial()
        for _ in range(3):
            client.ask(get())
        answer = status.ask(get("/status"))
        lines = answer.body.decode().splitlines()
        assert len(lines) == 10
        assert all(re.match(r"[a-z0-9 %]+: [0-9.]+", line) for line in lines)
        assert lines[0] == "connections: 1 (idle 1)"
        assert lines[2] == "requests: 3"
        assert lines[3] == "answers: 3 (2xx 3)"


def test_figures_for_prometheus_have_the_form_that_it_asks_for() -> None:
    with watched() as (served, status, _):
        served.ask(get())
        answer = status.ask(get("/metrics"))
        assert (answer.field("Content-Type") or "").startswith("text/plain; version=0.0.4")
        text = answer.body.decode()
    assert text.endswith("\n")
    declared: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            match = re.fullmatch(r"# (HELP|TYPE) (penstock_[a-z_]+) (.+)", line)
            assert match, line
            if match[1] == "TYPE":
                assert match[2] not in declared
                declared[match[2]] = match[3]
        else:
            match = re.fullmatch(r'(penstock_[a-z_]+)(\{[a-z]+="[^"]*"\})? (\d+(?:\.\d+)?(?:e[-+]\d+)?)', line)
            assert match, line
            name = re.sub("_(bucket|sum|count)$", "", match[1]) if "turn_seconds" in match[1] else match[1]
            assert name in declared
            assert declared[name] != "counter" or name.endswith("_total")
    assert "penstock_requests_total 1" in text
    assert 'penstock_answers_total{class="2xx"} 1' in text


def test_the_page_names_no_other_host() -> None:
    with watched() as (_, status, _handler):
        answer = status.ask(get("/"))
        assert (answer.field("Content-Type") or "").startswith("text/html")
        assert b"//" not in answer.body.replace(b"<!doctype", b"")
        assert "default-src 'none'" in (answer.field("Content-Security-Policy") or "")


def test_nothing_else_is_answered() -> None:
    with watched() as (_, status, _handler):
        assert status.ask(get("/other")).status == 404
        assert status.ask(get("/", method="POST")).status == 405
        assert status.ask(get("/events", method="HEAD"), head=True).status == 200


def events(client: Client) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in client.got.decode().splitlines() if line.startswith("data: ")]


def test_who_watches_is_told_once_a_second() -> None:
    clock = ManualClock()
    with watched(clock=clock) as (served, status, handler):
        watcher = status.dial()
        watcher.send(get("/events"))
        watcher.until(lambda: len(events(watcher)) == 1, "the first event")
        for number in range(1, 4):
            served.ask(get())
            clock.advance(limits.STATUS_PERIOD_NS)
            watcher.until(lambda number=number: len(events(watcher)) == number + 1, "an event")  # type: ignore[misc]
        assert [event["requests"] for event in events(watcher)] == [0, 1, 2, 3]
        assert events(watcher)[-1]["bounds"]["connections"][1] == limits.HTTP_CONNECTIONS_MAX
        handler.close()
        watcher.until(lambda: watcher.got.endswith(b"0\r\n\r\n"), "the end")


def test_who_watches_and_goes_away_is_forgotten() -> None:
    with watched() as (_, status, handler):
        watcher = status.dial()
        watcher.send(get("/events"))
        watcher.until(lambda: events(watcher), "an event")
        watcher.close()
        handler._tick()
        status.until(lambda: not handler._watchers, "to be forgotten")


def test_who_watches_and_does_not_read_gets_the_newest() -> None:
    """Nothing is queued for who does not take it."""
    with watched() as (_, status, handler):
        watcher = status.dial(receive_buffer=4096)
        watcher.send(get("/events"))
        watcher.until(lambda: events(watcher), "an event")
        for _ in range(5000):
            handler._tick()
            settle(status.reactor, 1)
        assert status.server.engine.counters()["states"]["sending"] == 1
        watcher.close()


def test_only_so_many_may_watch() -> None:
    with watched() as (_, status, _handler):
        for _ in range(limits.STATUS_WATCHERS_MAX):
            watcher = status.dial()
            watcher.send(get("/events"))
            watcher.until(lambda watcher=watcher: events(watcher), "an event")  # type: ignore[misc]
        assert status.ask(get("/events")).status == 503


def test_figures_may_be_missing() -> None:
    assert len(plain({}).splitlines()) == 10
    assert "penstock_loop_turn_seconds_count 0" in metrics({})


def test_quantiles_of_a_histogram() -> None:
    assert quantile([], 0.99) == 0
    assert quantile([0, 0, 100], 0.99) == 3
    assert quantile([0, 99, 1], 0.99) == 1
    assert quantile([0, 98, 2], 0.99) == 3
