"""The other commands of the program."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Sequence, Union

from ._library import call, check_computes_here, to_request
from ._requests import FlagValue, to_flags, to_words


@dataclasses.dataclass(frozen=True)
class CommandOutput:
    """What a command printed on standard output, and its exit status."""

    status: int
    output: str

    def json(self) -> Any:
        """The document that the command printed for json=True."""
        return json.loads(self.output)


def command(
    command: Union[str, Sequence[str]],
    *arguments: Any,
    standard_input: str = "",
    **flags: FlagValue,
) -> CommandOutput:
    """Runs a command of the program that ends by itself: "preprocess-data", "dataset info", ...

    Words follow the command as they are, behind them come flags. What the command prints for
    people stands in `output`; with json=True `json()` reads it.

    >>> phalanx.command("dataset check", "book_text_document").status
    0
    >>> phalanx.command("dataset info", "book_text_document", json=True).json()["documents"]
    100
    """
    check_computes_here()
    words = command.split() if isinstance(command, str) else list(command)
    request = {
        "command": words,
        "arguments": to_words(arguments),
        "flags": to_flags(flags),
        "input": standard_input,
    }
    answer = call("phalanx_command", to_request(request))
    return CommandOutput(answer["status"], answer["output"])
