"""Handles of the library, closed when nobody uses them, and arrays over their memory."""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from typing import TYPE_CHECKING, Any, Tuple

from ._library import library, read_answer

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

# What element types are called in NumPy. bf16, which NumPy does not have, is given as its bits.
ARRAY_TYPES = {
    "f64": "<f8",
    "f32": "<f4",
    "f16": "<f2",
    "bf16": "<u2",
    "i64": "<i8",
    "i32": "<i4",
    "i16": "<i2",
    "i8": "|i1",
    "u16": "<u2",
    "u8": "|u1",
}


def numpy() -> Any:
    """NumPy, which only arrays need."""
    try:
        import numpy as np
    except ImportError:
        raise ImportError(
            "arrays need NumPy: pip install numpy, or Debian's python3-numpy"
        ) from None
    return np


_handles: weakref.WeakSet[Handle] = weakref.WeakSet()


def _renew_locks() -> None:
    """A thread that the child of fork() does not have may have held them."""
    for handle in _handles:
        handle.lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_locks)


class Handle:
    """An open handle. Arrays over its memory hold it, and it is closed behind the last of them."""

    def __init__(self, kind: str, request: bytes) -> None:
        pointer = ctypes.c_void_p()
        functions = library()
        answer = getattr(functions, f"phalanx_{kind}_open")(request, ctypes.byref(pointer))
        self.document = read_answer(answer)
        self.pointer = pointer
        self.lock = threading.Lock()  # a handle is used by one thread at a time
        _handles.add(self)
        close = getattr(functions, f"phalanx_{kind}_close")
        # At the end of the process memory may still be used by its threads: it stays mapped.
        weakref.finalize(self, close, pointer).atexit = False

    def call(self, name: str, *arguments: Any) -> Any:
        with self.lock:
            return read_answer(getattr(library(), name)(self.pointer, *arguments))

    def memory(self, name: str, argument: Any) -> Tuple[int, int]:
        """Address and size of what a function of the handle gives."""
        data = ctypes.c_void_p()
        size = ctypes.c_size_t()
        self.call(name, argument, ctypes.byref(data), ctypes.byref(size))
        return data.value or 0, size.value


class _Memory:
    """A piece of a handle's memory, as NumPy reads it."""

    def __init__(self, handle: Handle, address: int, shape: Tuple[int, ...], dtype: str) -> None:
        self.handle = handle
        self.__array_interface__ = {
            "version": 3,
            "data": (address, True),  # read-only
            "shape": shape,
            "typestr": ARRAY_TYPES[dtype],
        }


def array_of(
    handle: Handle, address: int, shape: Tuple[int, ...], dtype: str
) -> npt.NDArray[Any]:
    """A read-only array over memory of the handle, which it keeps open."""
    np = numpy()
    if 0 in shape:
        empty: npt.NDArray[Any] = np.empty(shape, ARRAY_TYPES[dtype])
        empty.flags.writeable = False
        return empty
    array: npt.NDArray[Any] = np.asarray(_Memory(handle, address, shape, dtype))
    return array


class Closable:
    """An object with a handle that can be closed."""

    _kind = ""
    _handle: Any = None

    def _open(self, request: bytes) -> Any:
        self._handle = Handle(self._kind, request)
        return self._handle.document

    def _opened(self) -> Handle:
        handle: Any = self._handle
        if handle is None:
            raise ValueError(f"this {type(self).__name__} is closed")
        opened: Handle = handle
        return opened

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._handle is None

    def close(self) -> None:
        """Refuses further use. Arrays that were given stay valid."""
        self._handle = None
