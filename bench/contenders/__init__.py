"""The loops that are compared, one file each, behind one small interface (`base.Contender`)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contenders.base import Contender

# Name of the contender -> the module that holds its `CONTENDER` class. Imported only in the process that measures it.
MODULES = {
    "penstock": "contenders.penstock_loop",
    "asyncio": "contenders.asyncio_loop",
    "uvloop": "contenders.uvloop_loop",
    "rloop": "contenders.rloop_loop",
}


def load(name: str) -> Contender:
    """A fresh contender. Raises ImportError where its package is not installed."""
    contender: Contender = importlib.import_module(MODULES[name]).CONTENDER()
    return contender
