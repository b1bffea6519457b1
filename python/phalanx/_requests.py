"""Keyword arguments as the names and values of flags."""

from __future__ import annotations

import math
import numbers
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

# A flag's value. True gives the flag alone, False and None leave it out, a list gives one word
# for each element.
FlagScalar = Union[str, int, float, "os.PathLike[str]"]
FlagValue = Union[FlagScalar, bool, None, Sequence[FlagScalar]]


def _scalar(name: str, value: Any) -> Union[str, int, float, bool, None]:
    if type(value).__module__ == "numpy" and hasattr(value, "item") and not value.shape:
        value = value.item()
    if value is None or isinstance(value, (str, bool)):
        return value
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        if not math.isfinite(value):
            raise ValueError(f"{name}={value}: give a finite number")
        return float(value)
    raise TypeError(
        f"{name} is a {type(value).__name__}: give a text, a number, a path, True, or a list of them"
    )


def _value(name: str, value: Any) -> Any:
    if hasattr(value, "tolist") and getattr(value, "shape", None):
        value = value.tolist()  # an array
    if not isinstance(value, (list, tuple)):
        return _scalar(name, value)
    words = [_scalar(name, element) for element in value]
    for word in words:
        if word is None or isinstance(word, bool):
            raise TypeError(f"{name} has {word} in its list: give texts, numbers or paths")
    return words


def to_flags(flags: Mapping[str, Any]) -> Dict[str, Any]:
    """The flags of a request."""
    return {name: _value(name, value) for name, value in flags.items()}


def to_words(arguments: Sequence[Any]) -> List[str]:
    """The words of a command line."""
    if isinstance(arguments, (str, bytes)):
        raise TypeError("arguments is one text: give a list of words, such as shlex.split(text)")
    words = []
    for word in arguments:
        value = _scalar("arguments", word)
        if value is None or isinstance(value, bool):
            raise TypeError(f"arguments has {value}: give words")
        words.append(str(value))
    return words


def request_of(
    model: str, arguments: Optional[Sequence[Any]], flags: Mapping[str, Any]
) -> Dict[str, Any]:
    """The request of a command for a model. Flags come behind the words, and win over them."""
    request: Dict[str, Any] = {"model": model, "flags": to_flags(flags)}
    if arguments is not None:
        request["arguments"] = to_words(arguments)
    return request
