"""Making a process for a worker, so that it has nothing of its parent's but what it needs.

This file must not know what the worker does, nor when one is needed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterable

# Called in the child with its end of the channel, and with what lets signals through again; returns the exit status.
Work = Callable[[socket.socket, Callable[[], object]], int]


def fork(work: Work, sockets: Iterable[socket.socket], descriptors: Iterable[int]) -> tuple[int, socket.socket]:
    """Fork, and do `work` in the child, which never returns from here. Return its number and our end of the channel.

    The child closes `sockets` and `descriptors`: those of its siblings, which must be seen to end when they do. Signals are
    held back in it until it can answer them; its parent's handlers never run there.
    """
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    former = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _be_the_child(work, (*sockets, ours), descriptors, theirs, former)
    except BaseException:
        ours.close()
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
        theirs.close()
    return pid, ours


def _be_the_child(
    work: Work,
    sockets: Iterable[socket.socket],
    descriptors: Iterable[int],
    theirs: socket.socket,
    former: Iterable[int],
) -> None:
    """Leave only by os._exit: everything above on the stack is the parent's."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        for each in sockets:
            each.close()
        for fd in descriptors:
            with contextlib.suppress(OSError):
                os.close(fd)
        status = work(theirs, lambda: signal.pthread_sigmask(signal.SIG_SETMASK, former))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)
