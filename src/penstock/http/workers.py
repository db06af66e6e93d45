"""The parent of worker processes: it starts them, starts those anew that crash, replaces those that are old, and counts.

The parent holds the sockets, so that connections which wait in the one of a worker that died are answered by its
successor. A worker is replaced by starting the new one first; a reload replaces all of them, and only when every new
one serves. This file must not know what a worker does.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from typing import Any

from penstock import limits
from penstock.errors import PenstockError, UsageError
from penstock.http.channel import Channel
from penstock.http.configuration import Configuration
from penstock.http.counting import add_up, lasting
from penstock.http.forking import fork
from penstock.http.handover import Notifier, Place
from penstock.http.keeper import MISUSED, Keeper, Tell, drain_limit
from penstock.http.posts import KILLED, LEAVING, SERVING, STARTING, Child, Post, cancel
from penstock.http.worker import COUNT, DRAIN, REOPEN, work
from penstock.limits import NS_PER_S


class Workers(Keeper):
    """Serves in worker processes."""

    def __init__(
        self,
        configuration: Configuration,
        load: Callable[[], Configuration],
        tell: Tell,
        *,
        notifier: Notifier | None = None,
    ) -> None:
        super().__init__(configuration, load, tell, notifier=notifier)
        self.posts: list[Post] = []
        self._random = random.Random(configuration.seed)
        # What those that are no more have counted.
        self._past: dict[str, Any] = {}
        # A reload that waits for its workers.
        self._pending: tuple[Configuration, Place] | None = None
        # A reload whose former workers still accept.
        self._unsettled = False
        self._begun = False

    def loops_of(self, configuration: Configuration) -> int:
        """As many as there are workers."""
        return configuration.workers

    # ---- starting ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start all; `ready` when the last one serves."""
        self.reactor.add_signal(signal.SIGCHLD, self._reap)
        self.posts = [Post(number) for number in range(self.configuration.workers)]
        self.reactor.set_interval(limits.HTTP_SHOW_PERIOD_NS / NS_PER_S, self._ask)
        for post in self.posts:
            self._start(post, self.configuration, self.place)

    def _start(self, post: Post, configuration: Configuration, place: Place) -> None:
        """Fork a worker for a post."""
        post.restart = None
        listening = place[post.number]
        strangers = [each for each in {*self.place.sockets, *place.sockets} if each is not listening]
        siblings = [child.channel.fileno() for each in self.posts for child in each.children() if child.channel]
        if self.lookout is not None:
            siblings += self.lookout.descriptors()
        pid, end = fork(
            lambda end, unblock: work(post.number, configuration, listening, end, unblock), strangers, siblings
        )
        child = Child(post, pid, configuration, self.reactor.now_ns())
        child.channel = Channel(
            self.reactor, end, lambda message: self._heard(child, message), lambda: self._parted(child)
        )
        child.timer = self.reactor.set_timeout(limits.HTTP_WORKER_START_NS / NS_PER_S, self._stuck, child)
        post.coming = child

    def _stuck(self, child: Child) -> None:
        child.why = f"it did not serve within {limits.HTTP_WORKER_START_NS // NS_PER_S} s"
        self._kill(child)

    def _heard(self, child: Child, message: dict[str, Any]) -> None:
        """A worker has said something."""
        if isinstance(message.get("counters"), dict):
            child.counted = message["counters"]
            child.asked = False
        if message.get("deaf") is True:
            child.deaf = True
            self._settle()
        if isinstance(message.get("failed"), str):
            child.why = message["failed"]
        if isinstance(message.get("problem"), str):
            self.tell(f"{child}: {message['problem']}")
        if message.get("ready") is True and child.state == STARTING:
            self._serves(child)

    def _serves(self, child: Child) -> None:
        """A worker has begun to serve."""
        child.state = SERVING
        cancel(child.timer)
        if self._pending is not None and child.configuration is self._pending[0]:
            self._commit_when_all_serve()
        else:
            self._promote(child.post)
        if not self._begun and all(post.current is not None for post in self.posts):
            self._begun = True
            self.ready()

    def _promote(self, post: Post) -> None:
        """Give a post to the one who came for it; the one who had it leaves."""
        former, post.current, post.coming = post.current, post.coming, None
        if former is not None:
            self._dismiss(former)
        cancel(post.restart)
        post.restart = None
        self._limit_life(post)

    def _limit_life(self, post: Post) -> None:
        cancel(post.life)
        lifetime = self.configuration.worker_lifetime
        if lifetime is not None:
            jitter = limits.HTTP_WORKER_JITTER_PERCENT / 100
            seconds = lifetime * self._random.uniform(1 - jitter, 1 + jitter)
            post.life = self.reactor.set_timeout(seconds, self._renew, post)

    def _renew(self, post: Post) -> None:
        """A worker has lived long enough."""
        if not self.leaving and self._pending is None and post.coming is None:
            self._start_if_possible(post)
        else:
            self._limit_life(post)

    # ---- ending of workers -------------------------------------------------------------------------------------------

    def _dismiss(self, child: Child) -> None:
        """Let a worker answer what it has accepted, and leave."""
        if child is not child.post.current and child not in child.post.former:
            child.post.former.append(child)
        former = child.post.former
        if len(former) > limits.HTTP_WORKER_FORMER_MAX:
            former[0].why = "too many of its successors were dismissed, too"
            self._kill(former[0])
        if child.state in (STARTING, SERVING):
            child.state = LEAVING
            cancel(child.timer)
            seconds = drain_limit(child.configuration) + limits.HTTP_WORKER_KILL_NS / NS_PER_S
            child.timer = self.reactor.set_timeout(seconds, self._overdue, child)
            if child.channel is not None:
                child.channel.say(do=DRAIN)

    def _overdue(self, child: Child) -> None:
        child.why = "it did not leave in time"
        self._kill(child)

    def _kill(self, child: Child) -> None:
        if child.status is None and child.state != KILLED:
            child.state = KILLED
            os.kill(child.pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Some worker has ended; signals do not say which."""
        for post in list(self.posts):
            for child in post.children():
                if child.status is not None:
                    continue
                pid, status = os.waitpid(child.pid, os.WNOHANG)
                if pid == child.pid:
                    child.status = os.waitstatus_to_exitcode(status)
                    self._ended(child)

    def _ended(self, child: Child) -> None:
        """A process is over. What it has said before may still have to be read; a grandchild may hold its end for ever."""
        cancel(child.timer)
        if child.channel is None or child.channel.ended:
            self._bury(child)
        else:
            child.timer = self.reactor.set_timeout(limits.HTTP_WORKER_LAST_WORDS_NS / NS_PER_S, self._bury, child)

    def _parted(self, child: Child) -> None:
        """A worker's channel has ended."""
        if child.status is not None:
            cancel(child.timer)
            self._bury(child)
        elif child.state in (STARTING, SERVING):
            # It cannot be told anything any more; it leaves by itself when it notices.
            cancel(child.timer)
            child.timer = self.reactor.set_timeout(drain_limit(child.configuration), self._overdue, child)

    def _bury(self, child: Child) -> None:
        """Everything is known of a worker that is over."""
        post = child.post
        if child not in post.children():
            return
        if child.channel is not None:
            child.channel.abort()
        self._past = add_up([self._past, lasting(child.counted)])
        if child in post.former:
            post.former.remove(child)
            if child.status != 0:
                self.tell(f"{child} {child.end}")
            self._settle()
        elif child is post.current:
            post.current = None
            self._crashed(post, child)
        else:
            post.coming = None
            self._never_came(post, child)
        if len(self.posts) > self._wanted():
            self.posts = [each for each in self.posts if each.number < self._wanted() or each.children()]
        if self.leaving and not any(each.children() for each in self.posts):
            self.reactor.stop()

    def _never_came(self, post: Post, child: Child) -> None:
        """A worker has ended before it had its post."""
        if self._pending is not None and child.configuration is self._pending[0]:
            self._call_off(child.why or f"{child} {child.end}")
        elif not self._begun and not self.leaving:
            error = UsageError if child.status == MISUSED else PenstockError
            self.fail(error(child.why or f"{child} {child.end}"))
        else:
            self._crashed(post, child)

    def _crashed(self, post: Post, child: Child) -> None:
        """Start another one, after a pause that grows with every crash."""
        if self.leaving or post.number >= self._wanted():
            return
        if self.reactor.now_ns() - child.born_ns >= limits.HTTP_WORKER_SETTLED_NS:
            post.pause_ns = limits.HTTP_WORKER_PAUSE_NS
        self._restart_later(post, f"{child} {child.end}")

    def _restart_later(self, post: Post, why: str) -> None:
        seconds = post.pause_ns / NS_PER_S
        post.pause_ns = min(2 * post.pause_ns, limits.HTTP_WORKER_PAUSE_MAX_NS)
        self.tell(f"{why}; another one begins in {seconds:g} s")
        cancel(post.restart)
        post.restart = self.reactor.set_timeout(seconds, self._restart, post)

    def _restart(self, post: Post) -> None:
        post.restart = None
        if not self.leaving and post.coming is None and post.number < self._wanted():
            self._start_if_possible(post)

    def _start_if_possible(self, post: Post) -> None:
        """Fork a worker; if the system has no room for a process, try again later."""
        try:
            self._start(post, self.configuration, self.place)
        except OSError as error:
            self._restart_later(post, f"worker {post.number} cannot be started: {error.strerror}")

    def _wanted(self) -> int:
        """How many posts there must be: those of the configuration that serves, and of the one that is to come."""
        coming = self._pending[0].workers if self._pending is not None else 0
        return max(self.configuration.workers, coming)

    # ---- another configuration ---------------------------------------------------------------------------------------

    def apply(self, configuration: Configuration, place: Place) -> None:
        """Start new workers; when all of them serve, the former ones leave."""
        if not self._begun or self._pending is not None:
            raise UsageError("workers are still being started; reload again when they serve")
        count = configuration.workers
        place.resize(max(count, len(place.sockets)))
        self._pending = configuration, place
        self.posts += [Post(number) for number in range(len(self.posts), count)]
        try:
            for post in self.posts[:count]:
                if post.coming is not None:
                    self._retire(post, post.coming)
                self._start(post, configuration, place)
        except OSError as error:
            self._call_off(f"no process can be made: {error.strerror}")

    def _commit_when_all_serve(self) -> None:
        assert self._pending is not None
        configuration, place = self._pending
        count = configuration.workers
        come = [post.coming for post in self.posts[:count]]
        if all(child is not None and child.state == SERVING for child in come):
            # What will not be served any more: who is connecting there still gets through.
            self.place.refuse(count if place is self.place else 0)
            self.reactor.set_timeout(limits.HTTP_HANDSHAKE_NS / NS_PER_S, self._commit, self._pending)

    def _commit(self, pending: tuple[Configuration, Place]) -> None:
        """Let the new workers have their posts, unless the reload was called off meanwhile."""
        if self._pending is not pending:
            return
        configuration, place = pending
        count = configuration.workers
        self._pending = None
        self.moved(configuration, place)
        for post in self.posts[:count]:
            self._promote(post)
        for post in self.posts[count:]:
            cancel(post.restart)
            cancel(post.life)
            for child in (post.current, post.coming):
                if child is not None:
                    self._retire(post, child)
        place.resize(count)
        self._unsettled = True
        self._settle()

    def _settle(self) -> None:
        """A reload is over when nobody accepts for the former configuration."""
        former = [
            child for post in self.posts for child in post.former if child.configuration is not self.configuration
        ]
        if self._unsettled and all(child.deaf for child in former):
            self._unsettled = False
            self.settled()

    def _call_off(self, why: str) -> None:
        """A reload has failed: those who came leave again."""
        assert self._pending is not None
        configuration, place = self._pending
        self._pending = None
        for post in self.posts:
            if post.coming is not None and post.coming.configuration is configuration:
                self._retire(post, post.coming)
            if post.current is None and post.restart is None and not self.leaving:
                self._restart(post)
        if place is self.place:
            place.resize(self.configuration.workers)
        if not self.leaving:
            self.place.accept_again()
            self.kept(place, why)
        elif place is not self.place:
            place.close()

    def _retire(self, post: Post, child: Child) -> None:
        """Take a post away from a worker that has it, or came for it."""
        if child is post.coming:
            post.coming = None
        else:
            post.current = None
        self._dismiss(child)

    # ---- leaving, looking in -----------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Tell all to leave. A socket whose worker has just died gets another one, for the connections that wait in it."""
        if self._pending is not None:
            self._call_off("the server is leaving")
        for post in self.posts:
            cancel(post.life)
            cancel(post.restart)
            if self._begun and not post.children():
                self._start_if_possible(post)
                cancel(post.restart)
        # Before the workers let go: whoever connects after that is refused instead of forgotten.
        self.place.close()
        for post in self.posts:
            for child in (post.current, post.coming):
                if child is not None:
                    self._retire(post, child)
        if not any(post.children() for post in self.posts):
            self.reactor.stop()

    def end(self) -> None:
        """End all at once."""
        for post in self.posts:
            for child in post.children():
                if child.status is None:
                    self._kill(child)
                    os.waitpid(child.pid, 0)
                if child.channel is not None:
                    child.channel.abort()
                self._past = add_up([self._past, lasting(child.counted)])
        self.posts = []

    def reopen(self) -> None:
        """Have every worker open its log anew."""
        for post in self.posts:
            for child in post.children():
                if child.channel is not None:
                    child.channel.say(do=REOPEN)

    def _ask(self) -> None:
        """Ask for counters whoever has answered the last time."""
        for post in self.posts:
            for child in post.children():
                if child.state in (SERVING, LEAVING) and not child.asked and child.channel is not None:
                    child.asked = True
                    child.channel.say(do=COUNT)

    def counters(self) -> dict[str, Any]:
        """What was counted in all workers, as they told it last, and by those that are no more."""
        children = [child for post in self.posts for child in post.children()]
        return add_up([self._past, *(child.counted for child in children)])
