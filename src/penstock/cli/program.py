"""Finding the program that a command was asked to work on: `module:Main`.

This file must not know what is done with it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from penstock.errors import PenstockError, UsageError
from penstock.timed import Reactor


def load(name: str) -> Reactor:
    """Import `module:Main` (or `path/to/file.py:Main`) and make the reactor. The current folder is looked in, too."""
    module_name, colon, class_name = name.rpartition(":")
    if not colon or not module_name or not class_name.isidentifier():
        raise UsageError(f"the program is {name!r}; give module:Main or path/to/file.py:Main")
    with _explained(module_name, "be imported"):
        module = _module(module_name)
    main = getattr(module, class_name, None)
    if not (isinstance(main, type) and issubclass(main, Reactor)):
        raise UsageError(f"{module_name} has no reactor class {class_name}; give the name of a penstock.timed.Reactor")
    with _explained(name, "be made without arguments"):
        return main()


@contextlib.contextmanager
def _explained(what: str, done: str) -> Iterator[None]:
    """Whatever the user's own code raises becomes one sentence that says what, why and where."""
    try:
        yield
    except PenstockError:
        raise
    except (Exception, SystemExit) as error:
        why = " ".join(str(error).split())
        raise UsageError(f"{what} cannot {done}: {type(error).__name__}: {why}{_place(error)}") from error


def _place(error: BaseException) -> str:
    """The file and line of the user's code at which an error arose."""
    if isinstance(error, SyntaxError):
        return ""  # its message says so
    known = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and Path(frame.filename).parent != Path(__file__).parent
    ]
    inside = [frame for frame in known if Path(importlib.__file__).parent not in Path(frame.filename).parents]
    return f" ({inside[-1].filename}, line {inside[-1].lineno})" if inside else ""


def _module(name: str) -> ModuleType:
    if name.endswith(".py"):
        return _module_of_file(Path(name))
    if not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{name!r} is no name of a module; give module:Main or path/to/file.py:Main")
    _look_in(Path.cwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise UsageError(f"there is no module {name!r} here or on the path of this interpreter") from error
        raise


def _look_in(folder: Path) -> None:
    if "" not in sys.path and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    # Under a name of its own, so that no program replaces a module that others have imported: `json.py` is a good name.
    name = path.stem if path.stem not in sys.modules else f"{path.stem} (program)"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
