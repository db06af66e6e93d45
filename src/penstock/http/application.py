"""Finding the application that a server was asked to serve: `module:name`.

This file must not know what is done with it.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.errors import UsageError

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def application(target: str | None, *, factory: bool = False) -> Callable[..., Any] | None:
    """Return what `module:name` names, or None if the target is a directory. The current folder is looked in, too.

    With `factory` that is called without arguments, and returns the application.
    """
    if target is None:
        raise UsageError("nothing to serve; give a directory, or module:name")
    if os.path.isdir(target):
        return None
    if not _NAME.fullmatch(target):
        what = "a file" if os.path.exists(target) else "no directory here"
        raise UsageError(f"TARGET is {target!r}, which is {what}; give a directory, or module:name")
    module_name, _, path = target.partition(":")
    found: Any = _module(module_name, target)
    for part in path.split("."):
        if not hasattr(found, part):
            raise UsageError(
                f"TARGET is {target!r}, but {module_name} has no {path}; give the name of a function in it"
            )
        found = getattr(found, part)
    if not callable(found):
        raise UsageError(f"TARGET is {target!r}, which cannot be called; give the name of a function")
    if factory:
        found = _made(found, target)
    if inspect.iscoroutinefunction(found) or inspect.iscoroutinefunction(getattr(type(found), "__call__", None)):  # noqa: B004
        raise UsageError(f"TARGET is {target!r}, which is asynchronous; give a function that returns a Response")
    return found  # type: ignore[no-any-return]


def _made(factory: Callable[[], Any], target: str) -> Callable[..., Any]:
    try:
        made = factory()
    except Exception as error:
        raise UsageError(
            f"TARGET is {target!r}, which fails to make an application: {type(error).__name__}: {error}; mend it, "
            "or leave out factory"
        ) from error
    if not callable(made):
        raise UsageError(
            f"TARGET is {target!r}, which makes {type(made).__name__} instead of an application; leave out factory"
        )
    return made  # type: ignore[no-any-return]


def _module(name: str, target: str) -> Any:
    if not {"", str(Path.cwd())} & set(sys.path):
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise UsageError(
                f"TARGET is {target!r}, but there is no module {name!r} here or on the path of this interpreter"
            ) from None
        raise UsageError(f"TARGET is {target!r}, whose import fails: {error}; install what it needs") from error
    except Exception as error:
        raise UsageError(
            f"TARGET is {target!r}, whose import fails: {type(error).__name__}: {error}; mend the module"
        ) from error
