"""Pipeline schedules."""

from __future__ import annotations

from typing import Any, List, Tuple

from ._library import call, to_request
from ._plan import Document
from ._requests import FlagValue, to_flags


class Schedule(Document):
    """A pipeline schedule: the document of `phalanx schedule --json`, as a mapping.

    A notebook shows it as its picture.

    >>> schedule = phalanx.schedule("1f1b", pipeline_size=4, microbatches=8)
    >>> schedule.makespan, schedule.ranks[3][:4]
    (33, ['F0.0', 'B0.0', 'F1.0', 'B1.0'])
    """

    @property
    def makespan(self) -> float:
        """The time from the first pass to the end of the last one, in units of costs."""
        makespan: float = self["makespan"]
        return makespan

    @property
    def idle_fraction(self) -> float:
        """The share of the makespan that ranks wait, between 0 and 1: the bubble."""
        fraction: float = self["idle_fraction"]
        return fraction

    @property
    def ranks(self) -> List[List[str]]:
        """The passes of each rank in their order: F2.0 is microbatch 2's forward pass in chunk 0."""
        ranks: List[List[str]] = self["ranks"]
        return ranks

    @property
    def timeline(self) -> List[List[Tuple[str, float, float]]]:
        """The passes of each rank as (name, begin, end)."""
        return [[(name, begin, end) for name, begin, end in rank] for rank in self["timeline"]]

    @property
    def svg(self) -> str:
        """The picture, as a text."""
        svg: str = self["svg"]
        return svg

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return (
            f"Schedule({self['kind']}, {self['pipeline_size']} ranks, {self['microbatches']} "
            f"microbatches, makespan {self.makespan:g}, {100 * self.idle_fraction:.2f} % idle)"
        )


def schedule(
    kind: str, pipeline_size: int, microbatches: int, **flags: FlagValue
) -> Schedule:
    """Generates, verifies and simulates a pipeline schedule: `phalanx schedule`.

    >>> phalanx.schedule("zb-v", pipeline_size=4, microbatches=8)
    Schedule(zb-v, 4 ranks, 8 microbatches, makespan 51, 5.88 % idle)
    """
    size = {"kind": kind, "pipeline_size": pipeline_size, "microbatches": microbatches}
    request: Any = {"flags": to_flags({**size, **flags}), "picture": True}
    return Schedule(call("phalanx_schedule", to_request(request)))
