"""Plans of runs, and grids of ranks."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

from ._library import call, to_request
from ._requests import FlagValue, request_of, to_flags


class Document(Mapping[str, Any]):
    """A JSON document of a command: a read-only mapping."""

    def __init__(self, document: Dict[str, Any]) -> None:
        self._document = document

    def __getitem__(self, key: str) -> Any:
        return self._document[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._document)

    def __len__(self) -> int:
        return len(self._document)

    def to_dict(self) -> Dict[str, Any]:
        """The document itself."""
        return self._document


def format_bytes(count: int) -> str:
    """A size in the units that the program prints."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024.0 or unit == "TiB":
            break
        size /= 1024.0
    return f"{count} B" if unit == "B" else f"{size:.3g} {unit}"


class Plan(Document):
    """The memory plan of a run: the document of `phalanx plan --json`, as a mapping.

    >>> plan = phalanx.plan("gpt", **flags)
    >>> plan["model"]["layers"], plan.ranks[0]["bytes"]["parameters"]
    (1, 103424)
    """

    @property
    def ranks(self) -> List[Dict[str, Any]]:
        """What each rank takes, in the order of ranks. Ranks with equal plans share one dict."""
        ranks = {}
        for rank in self["ranks"]:
            for number in (rank["rank"], *rank.get("same_as", ())):
                ranks[number] = rank
        return [ranks[number] for number in sorted(ranks)]

    @property
    def total_bytes(self) -> int:
        """The memory of all ranks together, in bytes."""
        total: int = sum(rank["bytes"]["total"] for rank in self.ranks)
        return total

    @property
    def largest_rank_bytes(self) -> int:
        """The memory of the rank that takes most, in bytes."""
        largest: int = max(rank["bytes"]["total"] for rank in self["ranks"])
        return largest

    @property
    def parameters(self) -> int:
        """The parameters of the model, without the padding of the vocabulary."""
        count: int = self["model"]["parameters"]
        return count

    def __repr__(self) -> str:
        ranks = len(self.ranks)
        return (
            f"Plan({self['model']['family']}, {self.parameters:,} parameters, "
            f"{ranks} rank{'s' if ranks > 1 else ''}, at most "
            f"{format_bytes(self.largest_rank_bytes)} on a rank)"
        )


def plan(
    model: str = "gpt", *, arguments: Optional[Sequence[Any]] = None, **flags: FlagValue
) -> Plan:
    """Plans the memory of a run, which is not started: `phalanx plan`.

    >>> phalanx.plan("gpt", num_layers=2, hidden_size=64, num_attention_heads=2, seq_length=32,
    ...              max_position_embeddings=32, micro_batch_size=2, world_size=2)
    Plan(gpt, 3,318,592 parameters, 2 ranks, at most ... MiB on a rank)
    """
    return Plan(call("phalanx_plan", to_request(request_of(model, arguments, flags))))


def grid(**flags: FlagValue) -> Dict[str, Any]:
    """Which rank sits where, and the groups of ranks: the document of `phalanx grid --json`.

    >>> phalanx.grid(world_size=8, tensor_model_parallel_size=2)["groups"]["tp"][0]
    [0, 1]
    """
    document: Dict[str, Any] = call("phalanx_grid", to_request({"flags": to_flags(flags)}))
    return document
