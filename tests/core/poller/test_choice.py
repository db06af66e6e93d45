"""Which poller is taken: the best that the system has, also while the process is short of descriptors."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from penstock import Reactor
from penstock.core.poller.choice import available


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Nothing can be opened, nor what is open be used less."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.skipif("epoll" not in available(), reason="only a poller that is a descriptor can lack one")
@pytest.mark.parametrize("choice", ["auto", "epoll"])
def test_want_of_descriptors_is_told_and_is_no_reason_for_another_poller(choice: str) -> None:
    before = available()
    with no_descriptors():
        listed = available()
        with pytest.raises(OSError, match=r"poller 'epoll' cannot be opened: Too many open files") as told:
            Reactor(choice)
    assert told.value.errno == errno.EMFILE
    assert listed == before
