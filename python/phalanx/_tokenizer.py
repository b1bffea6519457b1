"""Tokenizers."""

from __future__ import annotations

from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    List,
    Optional,
    Sequence,
    Tuple,
    Type,
    Union,
    overload,
)

from ._handles import Closable
from ._library import to_request
from ._requests import FlagValue, to_flags

if TYPE_CHECKING:
    import numpy.typing as npt


def _ids_of(ids: Any) -> List[int]:
    if hasattr(ids, "tolist"):
        ids = ids.tolist()  # an array
    return [int(number) for number in ids]


class Tokenizer(Closable):
    """Text to token ids and back, by the tokenizer of a checkpoint or by flags.

    >>> tokenizer = phalanx.Tokenizer(vocab_file="tok/vocab.json", merge_file="tok/merges.txt")
    >>> tokenizer.decode(tokenizer.encode("In the beginning"))
    'In the beginning'
    >>> phalanx.Tokenizer(load="run").vocab_size
    280
    """

    _kind = "tokenizer"

    def __init__(self, load: Any = None, **flags: FlagValue) -> None:
        if load is not None and flags:
            raise TypeError(
                f"load and {', '.join(flags)} are both given: a checkpoint has its own tokenizer"
            )
        if load is None and not flags:
            raise TypeError("give load=DIR, or flags such as vocab_file=... and merge_file=...")
        self._arguments = {"load": load, **flags}
        if load is not None:
            request: Dict[str, Any] = {"load": to_flags({"load": load})["load"]}
        else:
            request = {"flags": to_flags(flags)}
        document = self._open(to_request(request))
        self._vocab_size: int = document["vocab_size"]
        self._special_tokens: Dict[str, Any] = document["special_tokens"]

    @property
    def vocab_size(self) -> int:
        """The number of ids, before any padding."""
        return self._vocab_size

    @property
    def special_tokens(self) -> Dict[str, Any]:
        """The ids of tokens with a meaning of their own, by name: "eod", "pad", "mask", ...

        >>> tokenizer.special_tokens["eod"]
        279
        """
        return dict(self._special_tokens)

    # A text is a sequence of texts, too: the first signature counts.
    @overload
    def encode(  # type: ignore[overload-overlap]
        self, text: str, *, parse_special_tokens: bool = ..., add_special_tokens: bool = ...
    ) -> List[int]: ...
    @overload
    def encode(
        self,
        text: Sequence[str],
        *,
        parse_special_tokens: bool = ...,
        add_special_tokens: bool = ...,
    ) -> List[List[int]]: ...
    def encode(
        self,
        text: Union[str, Sequence[str]],
        *,
        parse_special_tokens: bool = False,
        add_special_tokens: bool = False,
    ) -> Union[List[int], List[List[int]]]:
        """The ids of a text, or of each text of a list.

        parse_special_tokens: special tokens written in a text become their ids.
        add_special_tokens: adds the tokens that the tokenizer puts around a text.

        >>> tokenizer.encode("The 3 said")
        [257, 277, 272]
        >>> tokenizer.encode(["The 3", "behold"])
        [[257, 277], [259, 270]]
        """
        texts = [text] if isinstance(text, str) else list(text)
        for one in texts:
            if not isinstance(one, str):
                raise TypeError(f"encode() takes texts, not a {type(one).__name__}")
        request = to_request(
            {
                "texts": texts,
                "parse_special_tokens": parse_special_tokens,
                "add_special_tokens": add_special_tokens,
            }
        )
        ids: List[List[int]] = self._opened().call("phalanx_tokenize", request)["ids"]
        return ids[0] if isinstance(text, str) else ids

    @overload
    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = ...) -> str: ...
    @overload
    def decode(
        self, ids: Sequence[Sequence[int]], *, skip_special_tokens: bool = ...
    ) -> List[str]: ...
    @overload
    def decode(self, ids: npt.NDArray[Any], *, skip_special_tokens: bool = ...) -> Any: ...
    def decode(self, ids: Any, *, skip_special_tokens: bool = False) -> Union[str, List[str]]:
        """The text of a list of ids, or of each list of several. NumPy arrays will do.

        skip_special_tokens: leaves special tokens out of the text.

        >>> tokenizer.decode(tokenizer.encode("behold"))
        'behold'
        """
        if getattr(ids, "ndim", 1) > 1 or (len(ids) > 0 and hasattr(ids[0], "__len__")):
            return self._decode([_ids_of(one) for one in ids], skip_special_tokens)
        return self._decode([_ids_of(ids)], skip_special_tokens)[0]

    def _decode(self, ids: List[List[int]], skip: bool) -> List[str]:
        request = to_request({"ids": ids, "skip_special_tokens": skip})
        texts: List[str] = self._opened().call("phalanx_detokenize", request)["texts"]
        return texts

    def __enter__(self) -> Tokenizer:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __reduce__(self) -> Tuple[Any, Tuple[Dict[str, Any]]]:
        return _open_tokenizer, (self._arguments,)

    def __repr__(self) -> str:
        if self.closed:
            return "Tokenizer(closed)"
        return f"Tokenizer({self.vocab_size} ids)"


def _open_tokenizer(arguments: Dict[str, Any]) -> Tokenizer:
    return Tokenizer(**arguments)
