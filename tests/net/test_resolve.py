"""Names: at once where that is possible, else in few threads, and never without a bound."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from penstock import Overflow, Reactor, UsageError
from penstock.net import Address, Resolver
from penstock.net.resolve import read_hosts
from tests.net.rig import PATIENCE_S, turn_until


class Server:
    """A look-up that answers when it is allowed to."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.asked: list[str] = []
        self.threads: set[int] = set()

    def look_up(self, host: str) -> list[str]:
        self.asked.append(host)
        self.threads.add(threading.get_ident())
        assert self.gate.wait(PATIENCE_S)
        if host.startswith("bad"):
            raise socket.gaierror(-2, "Name or service not known")
        return ["192.0.2.1", "2001:db8::1"]


class Answers:
    def __init__(self) -> None:
        self.got: list[tuple[OSError | None, list[Address]]] = []
        self.threads: set[int] = set()

    def __call__(self, error: OSError | None, found: list[Address]) -> None:
        self.got.append((error, found))
        self.threads.add(threading.get_ident())


def never(host: str) -> list[str]:
    raise AssertionError(f"a thread was asked for {host}")


@pytest.mark.parametrize("host", ["192.0.2.7", "2001:db8::7", "fe80::1%1"])
def test_literals_are_answered_at_once_but_not_inside_the_call(host: str) -> None:
    with Reactor() as reactor:
        answers = Answers()
        resolver = Resolver(reactor, look_up=never)
        resolver.resolve(host, 80, answers)
        assert answers.got == []
        reactor.run_once(0)
        assert answers.got == [(None, [(host, 80)])]
        assert (resolver.asked, resolver.at_once) == (1, 1)


def test_the_hosts_file_is_answered_at_once_and_read_again_when_it_changes(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# comment\n192.0.2.1 one One.example # here\n2001:db8::1 one\nnonsense\n999.1.1.1 two\n")
    with Reactor() as reactor:
        answers = Answers()
        resolver = Resolver(reactor, look_up=never, hosts_file=hosts)
        resolver.resolve("ONE.example.", 1, answers)
        resolver.resolve("one", 2, answers)
        reactor.run_once(0)
        hosts.write_text("192.0.2.99 one\n")
        resolver.resolve("one", 3, answers)
        reactor.run_once(0)
        assert [found for _, found in answers.got] == [
            [("192.0.2.1", 1)],
            [("192.0.2.1", 2), ("2001:db8::1", 2)],
            [("192.0.2.99", 3)],
        ]


def test_this_machine_is_known() -> None:
    with Reactor() as reactor:
        answers = Answers()
        resolver = Resolver(reactor)
        resolver.resolve("localhost", 7, answers)
        turn_until(reactor, lambda: answers.got)
        assert answers.got[0][0] is None
        assert set(answers.got[0][1]) & {("127.0.0.1", 7), ("::1", 7)}
        resolver.close()


def test_names_go_to_few_threads_and_come_back_on_the_loop(tmp_path: Path) -> None:
    server, answers = Server(), Answers()
    with Reactor() as reactor:
        resolver = Resolver(reactor, look_up=server.look_up, hosts_file=tmp_path / "none", threads=2)
        for number in range(10):
            resolver.resolve(f"host{number}", 80, answers)
            resolver.resolve(f"host{number}", 81, answers)
        assert resolver.waiting == 20
        ticks: list[int] = []
        reactor.set_timeout(0, ticks.append, 1)
        turn_until(reactor, lambda: ticks)
        server.gate.set()
        turn_until(reactor, lambda: len(answers.got) == 20)
        assert sorted(server.asked) == [f"host{number}" for number in range(10)]
        assert len(server.threads) <= 2
        assert answers.threads == {threading.get_ident()}
        assert answers.got[0] == (None, [("192.0.2.1", 80), ("2001:db8::1", 80)])
        assert resolver.waiting == 0
        resolver.close()


def test_a_name_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    server, answers = Server(), Answers()
    server.gate.set()
    with Reactor() as reactor:
        resolver = Resolver(reactor, look_up=server.look_up, hosts_file=tmp_path / "none")
        resolver.resolve("bad.example", 80, answers)
        turn_until(reactor, lambda: answers.got)
        error, found = answers.got[0]
        assert isinstance(error, socket.gaierror)
        assert found == []
        resolver.close()


def test_what_waits_is_bounded(tmp_path: Path) -> None:
    server, answers = Server(), Answers()
    with Reactor() as reactor:
        resolver = Resolver(reactor, look_up=server.look_up, hosts_file=tmp_path / "none", threads=1, capacity=3)
        for number in range(3):
            resolver.resolve(f"host{number}", 80, answers)
        with pytest.raises(Overflow, match="one too many"):
            resolver.resolve("host9", 80, answers)
        with pytest.raises(Overflow):
            resolver.resolve("host0", 80, answers)
        assert resolver.refused == 2
        server.gate.set()
        turn_until(reactor, lambda: len(answers.got) == 3)
        resolver.close()


def test_closing_answers_everybody(tmp_path: Path) -> None:
    server, answers = Server(), Answers()
    with Reactor() as reactor:
        resolver = Resolver(reactor, look_up=server.look_up, hosts_file=tmp_path / "none", threads=1)
        resolver.resolve("one", 80, answers)
        resolver.resolve("two", 80, answers)
        resolver.close()
        resolver.close()
        reactor.run_once(0)
        assert len(answers.got) == 2
        assert all("closed" in str(error) for error, _ in answers.got)
        server.gate.set()
        turn_until(reactor, lambda: resolver.undelivered or not any(t.is_alive() for t in resolver._threads))
        with pytest.raises(UsageError):
            resolver.resolve("three", 80, answers)


@pytest.mark.parametrize("host", ["", "x" * 254, "a\0b"])
def test_what_is_no_name(host: str) -> None:
    with Reactor() as reactor, pytest.raises(UsageError):
        Resolver(reactor).resolve(host, 80, print)


def test_a_missing_hosts_file_is_an_empty_one(tmp_path: Path) -> None:
    assert read_hosts(tmp_path / "none") == {}
