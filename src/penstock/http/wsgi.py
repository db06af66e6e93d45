"""WSGI applications (PEP 3333) in a bounded pool of threads.

The loop receives a request whole, content and all (what is too large for memory is in a file without a name), and only
then gives it to a thread: a slow sender holds no thread. As many requests are in work as there are threads; what waits,
waits in the admission's queue, where its age is known. What an application yields goes to the loop through a bounded
hand-over, so that a slow reader holds its own thread back and nothing else.

This file must not know sockets.
"""

from __future__ import annotations

import collections
import queue
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any
from urllib.parse import unquote_to_bytes

from penstock import limits
from penstock.errors import Overflow, UsageError
from penstock.http.exchange import Request
from penstock.http.message import WAIT, Response, Wait
from penstock.reactor import Reactor

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
ExcInfo = tuple[type[BaseException], BaseException, TracebackType]

# What the server itself says of every answer.
_SERVERS = frozenset(("date", "server"))


class Gone(OSError):
    """The client is gone while its answer is being made."""


class WsgiHandler:
    """A handler for `Server` that asks a WSGI application, in `threads` threads.

    The server should have as many requests in work as there are threads (`options.max_requests_in_work`), and
    `spooling`.
    """

    def __init__(self, application: Application, reactor: Reactor, *, threads: int = limits.WSGI_THREADS) -> None:
        limits.require_whole("threads", threads, 1, limits.WSGI_THREADS_MAX)
        if not callable(application):
            raise UsageError(f"the WSGI application {application!r} cannot be called")
        self.application = application
        self.reactor = reactor
        # As many as are in work, and a little more for those whose threads are about to be free.
        self._jobs: queue.Queue[Job | None] = queue.Queue(2 * threads + 16)
        self._counting = threading.Lock()
        self.busy = 0
        self.done = 0
        self._threads = [
            threading.Thread(target=self._work, name=f"penstock-wsgi-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def __call__(self, request: Request) -> None:
        """Give a request to a thread."""
        self._jobs.put_nowait(Job(self, request))

    def close(self, timeout: float = limits.WSGI_CLOSE_S) -> bool:
        """Let the threads end; False if one is still busy after that time."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join(timeout)
        return not any(thread.is_alive() for thread in self._threads)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            with self._counting:
                self.busy += 1
            try:
                job.run()
            finally:
                with self._counting:
                    self.busy -= 1
                    self.done += 1

    def counters(self) -> dict[str, int]:
        """What the threads do."""
        return {"threads": len(self._threads), "busy": self.busy, "waiting": self._jobs.qsize(), "done": self.done}


class Job:
    """One request on its way through an application; also the hand-over of its answer."""

    def __init__(self, handler: WsgiHandler, request: Request) -> None:
        self.handler = handler
        self.request = request
        self.environ = environ(request, len(handler._threads) > 1)
        # The application may put something else into its place.
        self.input = self.environ["wsgi.input"]
        self.status = 0
        self.fields: list[tuple[str, str]] | None = None
        self.begun = False
        self.gone = False
        self.ended = False
        self.failure: BaseException | None = None
        self._room = threading.Condition()
        self._pieces: collections.deque[bytes] = collections.deque()
        self._bytes = 0
        self._waiting = False
        request.watch(self._leave)

    # ---- in the thread -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Ask the application, and hand over what it says."""
        result: Iterable[bytes] = ()
        try:
            try:
                result = self.handler.application(self.environ, self.start_response)
                self._send_all(result)
            finally:
                close = getattr(result, "close", None)
                if close is not None:
                    close()
                self.input.close()
        except Gone:
            pass
        except BaseException as error:
            self.failure = error
        self._end()

    def _send_all(self, result: Iterable[bytes]) -> None:
        if isinstance(result, list | tuple) and not self.begun:
            # All there is: an answer with a length.
            body = b"".join(result)
            self._begin(body)
            return
        for piece in result:
            if not isinstance(piece, bytes):
                raise UsageError(f"the application yielded {type(piece).__name__}; WSGI wants bytes")
            if piece:
                self.write(piece)
        if not self.begun:
            self._begin(b"")

    def start_response(
        self, status: str, fields: list[tuple[str, str]], exc_info: ExcInfo | None = None
    ) -> Callable[[bytes], None]:
        """Note what the answer's head will be."""
        if exc_info is not None:
            try:
                if self.begun:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self.fields is not None:
            raise UsageError("start_response was called twice without exc_info")
        if not isinstance(status, str) or not status[:3].isdigit() or status[3:4] not in (" ", ""):
            raise UsageError(f"the status is {status!r}; WSGI wants a text such as '200 OK'")
        self.status = int(status[:3])
        self.fields = [pair for pair in fields if pair[0].lower() not in _SERVERS]
        return self.write

    def _head(self, body: bytes | Iterable[bytes | Wait]) -> Response:
        if self.fields is None:
            raise UsageError("the application answered without calling start_response")
        return Response(self.status, body, self.fields, holds=True)

    def _begin(self, body: bytes | Iterable[bytes | Wait]) -> None:
        response = self._head(body)
        self.begun = True
        self._tell(self._respond, response)

    def write(self, piece: bytes) -> None:
        """Hand a piece over; waits while the client has not taken what was handed over before."""
        if not self.begun:
            self._begin(self._taken())
        with self._room:
            while self._bytes >= limits.WSGI_WINDOW_BYTES and not self.gone:
                self._room.wait(limits.WSGI_WAIT_S)
            if self.gone:
                raise Gone("the client is gone")
            self._pieces.append(piece)
            self._bytes += len(piece)
            wake, self._waiting = self._waiting, False
        if wake:
            self._tell(self._resume)

    def _end(self) -> None:
        with self._room:
            self.ended = True
            wake, self._waiting = self._waiting, False
        if not self.begun and not self.gone:
            self._tell(self._fail)
        elif wake or self.failure is not None:
            self._tell(self._resume)

    def _tell(self, call: Callable[..., object], *args: object) -> None:
        """Have the loop do something. Its inbox is bounded: wait for a place, as long as there is somebody to be told."""
        pause = threading.Event()
        while not self.gone:
            try:
                self.handler.reactor.defer_threadsafe(call, *args)
                return
            except Overflow:
                pause.wait(limits.WSGI_RETRY_S)
            except Exception:
                # The loop is closed.
                self.gone = True

    # ---- in the loop ---------------------------------------------------------------------------------------------------

    def _respond(self, response: Response) -> None:
        if not self.request.answered:
            self.request.respond(response)

    def _resume(self) -> None:
        self.request.resume()

    def _fail(self) -> None:
        """The application raised before it had begun to answer."""
        error = self.failure or UsageError("the application gave no answer")
        self.request.engine.fail(self.request, error)

    def _leave(self) -> None:
        """The client is gone."""
        with self._room:
            self.gone = True
            self._room.notify_all()

    def _taken(self) -> Iterator[bytes | Wait]:
        """Yield what the thread has handed over, as the client takes it."""
        while True:
            with self._room:
                if self._pieces:
                    piece = self._pieces.popleft()
                    self._bytes -= len(piece)
                    self._room.notify_all()
                elif self.ended:
                    if self.failure is not None:
                        raise self.failure
                    return
                else:
                    self._waiting = True
                    piece = None
            yield WAIT if piece is None else piece


def environ(request: Request, multithread: bool = True) -> dict[str, Any]:
    """Return what WSGI tells an application of a request."""
    host, _, port = request.host.rpartition(":") if ":" in request.host.split("]")[-1] else (request.host, "", "")
    secure = request.scheme == "https"
    told: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote_to_bytes(request.path).decode("latin-1"),
        "QUERY_STRING": request.query,
        "SERVER_NAME": host or "localhost",
        "SERVER_PORT": port or ("443" if secure else "80"),
        "SERVER_PROTOCOL": f"HTTP/{request.version}",
        "SERVER_SOFTWARE": "penstock",
        "REMOTE_ADDR": request.peer,
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": request.scheme,
        "wsgi.input": request.open_body(),
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": multithread,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        "wsgi.input_terminated": True,
    }
    for name, value in request.headers:
        _add_field(told, name, value)
    told["CONTENT_LENGTH"] = str(request.body_bytes)
    return told


def _add_field(told: dict[str, Any], name: str, value: str) -> None:
    lower = name.lower()
    # An underscore could pass for another field's hyphen; Proxy would become a variable that libraries believe.
    if "_" in lower or lower in ("proxy", "content-length", "transfer-encoding"):
        return
    key = "CONTENT_TYPE" if lower == "content-type" else f"HTTP_{lower.upper().replace('-', '_')}"
    if key in told and key != "CONTENT_TYPE":
        told[key] += ("; " if lower == "cookie" else ",") + value
    else:
        told[key] = value
