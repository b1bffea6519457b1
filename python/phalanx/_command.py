"""The other commands of the program."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, Optional, Sequence, Union

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
    *,
    arguments: Optional[Sequence[Any]] = None,
    standard_input: str = "",
    **flags: FlagValue,
) -> CommandOutput:
    """Runs a command of the program that ends by itself: "preprocess-data", "dataset info", ...

    >>> phalanx.command("train-tokenizer", input="book.txt", vocab_size=4096, output="tok")
    >>> phalanx.command("dataset info", arguments=["book_text_document", "--json"]).json()
    """
    check_computes_here()
    words = command.split() if isinstance(command, str) else list(command)
    request: Dict[str, Any] = {"command": words, "input": standard_input}
    if arguments is not None:
        request["arguments"] = to_words(arguments)
    if flags:
        request["flags"] = to_flags(flags)
    answer = call("phalanx_command", to_request(request))
    return CommandOutput(answer["status"], answer["output"])
