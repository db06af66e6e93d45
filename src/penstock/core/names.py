"""How things are called in errors and reports, and how the reports of handlers' errors reach somebody.

This file must not know loops: it gets names and numbers.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

from penstock.limits import REPORT_PERIOD_NS, REPORTS_PER_PERIOD
from penstock.stats import ErrorReport

log = logging.getLogger("penstock")


def name_of(handler: object) -> str:
    """A handler's name as its author knows it. It never fails, whatever the handler answers."""
    try:
        return _name_of(handler)
    except Exception:
        return f"a handler of type {type(handler).__name__}"


def _name_of(handler: object) -> str:
    seen = 0
    while isinstance(handler, functools.partial) and seen < 10:
        handler = handler.func
        seen += 1
    qualified = getattr(handler, "__qualname__", None)
    if not isinstance(qualified, str):
        return repr(handler)[:200]
    module = getattr(handler, "__module__", None)
    return f"{module}.{qualified}" if isinstance(module, str) else qualified


def thread_name(ident: int) -> str:
    """A thread's name and number, or the number alone if it has ended."""
    for thread in threading.enumerate():
        if thread.ident == ident:
            return f"{thread.name!r} ({ident})"
    return f"{ident} (ended, or not started from Python)"


def report_error(
    hook: Callable[[ErrorReport], object] | None, report: ErrorReport, state: dict[Any, Any], now_ns: int
) -> None:
    """Tell the hook, or the log where there is none; the log at most so often as REPORTS_PER_PERIOD allows."""
    if hook is not None:
        try:
            hook(report)
        except Exception:
            log.exception("the on_error hook of %s failed on an error of %s", report.loop, report.handler)
        return
    since_ns, told, held_back = state.get(report_error, (now_ns, 0, 0))
    if now_ns - since_ns >= REPORT_PERIOD_NS:
        if held_back:
            log.error("%s: %d more errors of handlers were not shown", report.loop, held_back)
        since_ns, told, held_back = now_ns, 0, 0
    if told < REPORTS_PER_PERIOD:
        told += 1
        log.error(
            "%s: handler %s failed in the %s step", report.loop, report.handler, report.step, exc_info=report.error
        )
    else:
        held_back += 1
    state[report_error] = (since_ns, told, held_back)
