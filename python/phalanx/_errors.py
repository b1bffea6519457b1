"""The exception of the package, and the exit codes of docs/exit-codes.md."""

from __future__ import annotations

import enum
from typing import Tuple, Union


class ExitCode(enum.IntEnum):
    """The codes of a PhalanxError. They are the exit codes of the program.

    >>> phalanx.ExitCode.BAD_DATA
    <ExitCode.BAD_DATA: 65>
    """

    USAGE = 64
    BAD_DATA = 65
    INPUT_MISSING = 66
    UNAVAILABLE = 69
    INTERNAL = 70
    SYSTEM = 71
    CANNOT_CREATE = 73
    IO = 74
    TEMPORARY = 75
    NOT_PERMITTED = 77
    CONFIGURATION = 78
    PREEMPTED = 85
    DO_NOT_RESTART = 93
    HANG = 124


class PhalanxError(Exception):
    """A call that failed: `code` is an ExitCode, `message` has one line for each fault.

    >>> try:
    ...     phalanx.Dataset("nothing")
    ... except phalanx.PhalanxError as error:
    ...     print(repr(error.code), error.message)
    <ExitCode.INPUT_MISSING: 66> nothing...
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        try:
            self.code: Union[ExitCode, int] = ExitCode(code)
        except ValueError:
            self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> Tuple[type, Tuple[int, str]]:
        return type(self), (int(self.code), self.message)
