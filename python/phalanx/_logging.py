"""Messages of the library, through Python's logging."""

from __future__ import annotations

import logging
import threading
from typing import Any, Optional

from ._library import LogFunction, library

logger = logging.getLogger("phalanx")

_LEVELS = {0: logging.INFO, 1: logging.WARNING, 2: logging.ERROR}
_lock = threading.Lock()
_thread = threading.local()
_function: Optional[Any] = None  # kept alive while the library may call it


def _log(level: int, line: Optional[bytes], data: Optional[int]) -> None:
    text = (line or b"").decode(errors="replace").rstrip("\n")
    _thread.logs = True
    try:
        logger.log(_LEVELS.get(level, logging.ERROR), "%s", text)
    finally:
        _thread.logs = False


def set_logging(on: bool) -> None:
    """Messages go to the logger "phalanx" of Python's logging, or to standard error again.

    They go to standard error until this is called. Handlers of the logger are called by threads
    of the run, one at a time, and the run waits for them.

    >>> logging.basicConfig(level=logging.INFO)
    >>> phalanx.set_logging(True)
    """
    global _function
    if getattr(_thread, "logs", False):
        raise RuntimeError("set_logging() was called by a handler of the logger")
    with _lock:
        function = LogFunction(_log) if on else LogFunction()
        # Returns when no thread is within the function of before.
        library().phalanx_set_log(function, None)
        _function = function if on else None


def stop_logging() -> None:
    """No thread of the library may call Python when the interpreter is gone."""
    if _function is not None:
        set_logging(False)
