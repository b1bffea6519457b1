"""Datasets of token ids."""

from __future__ import annotations

import os
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Iterator,
    List,
    Optional,
    Sequence,
    Tuple,
    Type,
    Union,
    overload,
)

from ._handles import Closable, array_of
from ._library import to_path

if TYPE_CHECKING:
    import numpy.typing as npt

    _Base = Sequence[npt.NDArray[Any]]
else:
    from collections.abc import Sequence as _Base


class Dataset(Closable, _Base):
    """The sequences of PREFIX.bin and PREFIX.idx, each a NumPy array of token ids.

    Arrays are read-only views of the mapped file: nothing is read until it is used, nothing is
    copied. They stay valid when the dataset is closed.

    >>> dataset = phalanx.Dataset("book_text_document")
    >>> len(dataset), dataset.tokens, dataset[0][:4]
    (100, 1028, array([257, 274, 272, 273], dtype=uint16))
    """

    _kind = "dataset"

    def __init__(self, prefix: Union[str, os.PathLike[str]]) -> None:
        self._prefix = os.fspath(prefix)
        document = self._open(to_path(prefix))
        self._documents: int = document["documents"]
        self._sequences: int = document["sequences"]
        self._tokens: int = document["tokens"]
        self._dtype: str = document["dtype"]

    @property
    def documents(self) -> int:
        """The number of documents. A document has one sequence or more."""
        return self._documents

    @property
    def tokens(self) -> int:
        """The number of tokens of all sequences."""
        return self._tokens

    @property
    def dtype(self) -> str:
        """How a token id is stored: "u16", "i32", ..."""
        return self._dtype

    def __len__(self) -> int:
        return self._sequences

    @overload
    def __getitem__(self, index: int) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, index: slice) -> List[npt.NDArray[Any]]: ...
    def __getitem__(
        self, index: Union[int, slice]
    ) -> Union[npt.NDArray[Any], List[npt.NDArray[Any]]]:
        handle = self._opened()
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = index.__index__()
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(f"sequence {index}: there are {len(self)}")
        address, tokens = handle.memory("phalanx_dataset_sequence", number)
        return array_of(handle, address, (tokens,), self._dtype)

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        for index in range(len(self)):
            yield self[index]

    def __enter__(self) -> Dataset:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __reduce__(self) -> Tuple[Any, Tuple[str]]:
        return Dataset, (self._prefix,)

    def __repr__(self) -> str:
        return f"Dataset({self._prefix!r}, {len(self):,} sequences, {self.tokens:,} tokens)"
