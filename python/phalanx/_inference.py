"""Text from checkpoints, and the probability of texts."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence, Union, overload

from ._library import call, check_computes_here, to_request
from ._requests import FlagValue, to_flags

Path = Union[str, "os.PathLike[str]"]
Document = Dict[str, Any]


def _documents(function: str, request: Dict[str, Any], flags: Dict[str, Any]) -> List[Document]:
    check_computes_here()
    request["load"] = os.fsdecode(request["load"])
    documents: List[Document] = call(function, to_request({**request, "flags": to_flags(flags)}))
    return documents


# A text is a sequence of texts, too: the first signature counts.
@overload
def generate(  # type: ignore[overload-overlap]
    load: Path, prompts: str, **flags: FlagValue
) -> Document: ...
@overload
def generate(load: Path, prompts: Sequence[str], **flags: FlagValue) -> List[Document]: ...
def generate(
    load: Path, prompts: Union[str, Sequence[str]], **flags: FlagValue
) -> Union[Document, List[Document]]:
    """Text from a checkpoint: the document of `phalanx generate --json` of a prompt, or of each.

    >>> phalanx.generate("run", "The 3", max_tokens=3, temperature=0)["text"]
    ' said...'
    >>> [answer["finish"] for answer in phalanx.generate("run", ["The 3", "said"], max_tokens=2)]
    ['length', 'length']
    """
    texts = [prompts] if isinstance(prompts, str) else list(prompts)
    documents = _documents("phalanx_generate", {"load": load, "prompts": texts}, flags)
    return documents[0] if isinstance(prompts, str) else documents


@overload
def score(  # type: ignore[overload-overlap]
    load: Path, texts: str, *, tokens: None = None, **flags: FlagValue
) -> Document: ...
@overload
def score(
    load: Path,
    texts: Optional[Sequence[str]] = None,
    *,
    tokens: Optional[Sequence[Sequence[int]]] = None,
    **flags: FlagValue,
) -> List[Document]: ...
def score(
    load: Path,
    texts: Union[None, str, Sequence[str]] = None,
    *,
    tokens: Optional[Sequence[Sequence[int]]] = None,
    **flags: FlagValue,
) -> Union[Document, List[Document]]:
    """The log probability of each token: the document of `phalanx score --json` of a text, or of
    each. tokens=[[...], ...] has token ids instead of texts.

    >>> phalanx.score("run", "The 3 said")["loss"]
    2.6...
    """
    if (texts is None) == (tokens is None):
        raise TypeError("give texts, or tokens=[[...], ...]")
    if tokens is not None:
        ids = [[int(token) for token in text] for text in tokens]
        return _documents("phalanx_score", {"load": load, "tokens": ids}, flags)
    assert texts is not None
    given = [texts] if isinstance(texts, str) else list(texts)
    documents = _documents("phalanx_score", {"load": load, "texts": given}, flags)
    return documents[0] if isinstance(texts, str) else documents
