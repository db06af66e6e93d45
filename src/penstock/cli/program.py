"""Finding the program that a command was asked to work on: `module:Main`.

This file must not know what is done with it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from penstock.errors import UsageError
from penstock.timed import Reactor


def load(name: str) -> Reactor:
    """Import `module:Main` (or `path/to/file.py:Main`) and make the reactor. The current folder is looked in, too."""
    module_name, colon, class_name = name.rpartition(":")
    if not colon or not module_name or not class_name.isidentifier():
        raise UsageError(f"the program is {name!r}; give module:Main or path/to/file.py:Main")
    main = getattr(_module(module_name), class_name, None)
    if not (isinstance(main, type) and issubclass(main, Reactor)):
        raise UsageError(f"{module_name} has no reactor class {class_name}; give the name of a penstock.timed.Reactor")
    try:
        return main()
    except TypeError as error:
        raise UsageError(f"{name} cannot be made without arguments: {error}") from error


def _module(name: str) -> ModuleType:
    if name.endswith(".py"):
        return _module_of_file(Path(name))
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise UsageError(f"there is no module {name!r} here or on the path of this interpreter") from error
        raise


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
