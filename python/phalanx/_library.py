"""libphalanx.so: where it is, its functions, and calls whose answers are JSON."""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
import threading
from pathlib import Path
from typing import Any, List, Optional, Tuple, Union

from ._errors import PhalanxError

INTERFACE_VERSION = 1

EventFunction = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p
)
LogFunction = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)

# The functions of phalanx.h: name, result, arguments.
_ANSWER = ctypes.c_void_p
_HANDLE = ctypes.c_void_p
_OUT = ctypes.POINTER(ctypes.c_void_p)
_SIZE = ctypes.POINTER(ctypes.c_size_t)
_TEXT = ctypes.c_char_p
_FUNCTIONS: Tuple[Tuple[str, Any, List[Any]], ...] = (
    ("phalanx_interface_version", ctypes.c_int, []),
    ("phalanx_version", _TEXT, []),
    ("phalanx_answer_code", ctypes.c_int, [_ANSWER]),
    ("phalanx_answer_text", _TEXT, [_ANSWER]),
    ("phalanx_answer_error", _TEXT, [_ANSWER]),
    ("phalanx_answer_free", None, [_ANSWER]),
    ("phalanx_set_log", None, [LogFunction, ctypes.c_void_p]),
    ("phalanx_plan", _ANSWER, [_TEXT]),
    ("phalanx_schedule", _ANSWER, [_TEXT]),
    ("phalanx_grid", _ANSWER, [_TEXT]),
    ("phalanx_generate", _ANSWER, [_TEXT]),
    ("phalanx_score", _ANSWER, [_TEXT]),
    ("phalanx_report", _ANSWER, [_TEXT]),
    ("phalanx_command", _ANSWER, [_TEXT]),
    ("phalanx_stop_new", _HANDLE, []),
    ("phalanx_stop_request", None, [_HANDLE]),
    ("phalanx_stop_free", None, [_HANDLE]),
    ("phalanx_run", _ANSWER, [_TEXT, EventFunction, ctypes.c_void_p, _HANDLE]),
    ("phalanx_tokenizer_open", _ANSWER, [_TEXT, _OUT]),
    ("phalanx_tokenize", _ANSWER, [_HANDLE, _TEXT]),
    ("phalanx_detokenize", _ANSWER, [_HANDLE, _TEXT]),
    ("phalanx_tokenizer_close", None, [_HANDLE]),
    ("phalanx_checkpoint_open", _ANSWER, [_TEXT, _OUT]),
    ("phalanx_checkpoint_tensor", _ANSWER, [_HANDLE, _TEXT, _OUT, _SIZE]),
    ("phalanx_checkpoint_close", None, [_HANDLE]),
    ("phalanx_dataset_open", _ANSWER, [_TEXT, _OUT]),
    ("phalanx_dataset_sequence", _ANSWER, [_HANDLE, ctypes.c_int64, _OUT, _SIZE]),
    ("phalanx_dataset_close", None, [_HANDLE]),
)

_lock = threading.Lock()
_library: Optional[ctypes.CDLL] = None
_loaded_by: Optional[int] = None  # the process


def library_path() -> str:
    """The file of the library: PHALANX_LIBRARY, that of the package, or the system's."""
    named = os.environ.get("PHALANX_LIBRARY")
    if named:
        if not os.path.isfile(named):
            raise ImportError(f"PHALANX_LIBRARY={named}: there is no such file")
        return os.path.abspath(named)  # a name without a folder would be looked up elsewhere
    bundled = Path(__file__).with_name("lib") / "libphalanx.so"
    if bundled.is_file():
        return str(bundled)
    installed = ctypes.util.find_library("phalanx")
    if installed is None:
        raise ImportError(
            "libphalanx.so was not found: install Phalanx, or set PHALANX_LIBRARY to its path "
            f"(looked for {bundled} and the system's libraries)"
        )
    return installed


def _open(path: str) -> ctypes.CDLL:
    try:
        opened = ctypes.CDLL(path)
    except OSError as error:
        raise ImportError(f"{path} cannot be loaded: {error}") from error
    if not hasattr(opened, "phalanx_interface_version"):
        raise ImportError(f"{path} is no libphalanx.so: it has no phalanx_interface_version")
    has = opened.phalanx_interface_version()
    if has != INTERFACE_VERSION:
        raise ImportError(
            f"{path} has version {has} of the C interface, this package needs "
            f"{INTERFACE_VERSION}: install a package and a library of the same version"
        )
    for name, result, arguments in _FUNCTIONS:
        try:
            function = getattr(opened, name)
        except AttributeError:
            raise ImportError(
                f"{path} has no {name}: install a package and a library of the same version"
            ) from None
        function.restype = result
        function.argtypes = arguments
    return opened


def library() -> ctypes.CDLL:
    """The library, loaded at the first call."""
    global _library, _loaded_by
    with _lock:
        if _library is None:
            _library = _open(library_path())
            _loaded_by = os.getpid()
        return _library


def check_computes_here() -> None:
    """Refuses to compute in a child of fork(): it lacks the threads of its parent."""
    library()
    if _loaded_by != os.getpid():
        raise RuntimeError(
            "this process was forked from one that had loaded libphalanx.so, and lacks its "
            "threads: start it with multiprocessing.get_context('spawn')"
        )


def _reset_lock_in_child() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_reset_lock_in_child)


def to_request(value: Any) -> bytes:
    """The JSON text of a request."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"not UTF-8: {error.object!r}") from None


def to_path(path: Union[str, os.PathLike[str]]) -> bytes:
    """A path as the library takes it."""
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError(f"a path has no zero byte: {path!r}")
    return encoded


def read_answer(answer: Any) -> Any:
    """The document of an answer, which is freed. Raises PhalanxError where the call failed."""
    functions = library()
    try:
        code = functions.phalanx_answer_code(answer)
        if code != 0:
            message: bytes = functions.phalanx_answer_error(answer)
            raise PhalanxError(code, message.decode(errors="replace").rstrip("\n"))
        text: bytes = functions.phalanx_answer_text(answer)
        return json.loads(text) if text else None
    finally:
        functions.phalanx_answer_free(answer)


def call(name: str, *arguments: Any) -> Any:
    """Calls a function that gives an answer, and reads it."""
    return read_answer(getattr(library(), name)(*arguments))


def version() -> str:
    """The version of the library.

    >>> phalanx.version()
    '0.1.0'
    """
    text: bytes = library().phalanx_version()
    return text.decode()


def function_names() -> List[str]:
    """The functions of phalanx.h that the package declares."""
    return [name for name, _, _ in _FUNCTIONS]
