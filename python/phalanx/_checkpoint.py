"""The tensors of checkpoints."""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, Optional, Tuple, Type, Union

from ._handles import Closable, array_of, numpy
from ._library import to_path

if TYPE_CHECKING:
    import numpy.typing as npt

    _Base = Mapping[str, npt.NDArray[Any]]
else:
    from collections.abc import Mapping as _Base


class Checkpoint(Closable, _Base):
    """The tensors of a checkpoint by name, each a NumPy array: a lazy mapping.

    `directory` is a save directory, whose latest checkpoint is opened, or one iter_NNNNNNN of
    it. States of the optimizer are tensors, too: "optimizer.exp_avg.NAME". Arrays are read-only
    views of the mapped file, and stay valid when the checkpoint is closed. NumPy has no bf16:
    such a tensor is given as its bits, uint16; to_float32() converts it, and
    checkpoint[name].view(ml_dtypes.bfloat16) reads it as it is.

    >>> checkpoint = phalanx.Checkpoint("run")
    >>> checkpoint.iteration, checkpoint["decoder.final_layernorm.weight"].shape
    (20, (32,))
    """

    _kind = "checkpoint"

    def __init__(self, directory: Union[str, os.PathLike[str]]) -> None:
        document = self._open(to_path(directory))
        self._directory: str = document["directory"]
        self._iteration: int = document["iteration"]
        self._manifest: Dict[str, Any] = document["manifest"]
        self._tensors: Dict[str, Any] = document["tensors"]

    @property
    def directory(self) -> str:
        """The directory of the checkpoint that was opened."""
        return self._directory

    @property
    def iteration(self) -> int:
        """The iterations that the model was trained."""
        return self._iteration

    @property
    def manifest(self) -> Dict[str, Any]:
        """The document manifest.json of the checkpoint, without its list of tensors."""
        return self._manifest

    @property
    def tensors(self) -> Dict[str, Any]:
        """What there is, by name: {"dtype": "f32", "shape": [128]}. Nothing is read for it."""
        return self._tensors

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        handle = self._opened()
        tensor = self._tensors[name]
        address, _ = handle.memory("phalanx_checkpoint_tensor", name.encode())
        return array_of(handle, address, tuple(tensor["shape"]), tensor["dtype"])

    def to_float32(self, name: str) -> npt.NDArray[Any]:
        """A tensor as float32, a copy of its own, whatever type it is stored in.

        >>> checkpoint.to_float32("decoder.final_layernorm.weight").dtype
        dtype('float32')
        """
        array = self[name]
        np = numpy()
        if self._tensors[name]["dtype"] != "bf16":
            converted: npt.NDArray[Any] = array.astype(np.float32)
            return converted
        bits = array.astype(np.uint32)
        bits <<= 16
        widened: npt.NDArray[Any] = bits.view(np.float32)
        return widened

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __reduce__(self) -> Tuple[Any, Tuple[str]]:
        return Checkpoint, (self._directory,)

    def __repr__(self) -> str:
        return f"Checkpoint({self._directory!r}, iteration {self.iteration}, {len(self)} tensors)"
