"""What the configurations of a history were measured with: their network, its optimiser, the images and the length of a run."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from warmstart.history_store.bundle.records import split_origin, without_mark
from warmstart.history_store.errors import UsageError

if TYPE_CHECKING:
    from warmstart.training.workloads import Workload

_COLLECTED, _TUNED = "collect/", "tune/"
_AMOUNT = re.compile(r"(.*), budget ([0-9.e+-]+)", re.DOTALL)
"""What a study adds to what it evaluates, where its trials have a budget of their own."""


@dataclass(frozen=True, slots=True)
class MeasuredWith:
    """What a configuration of the history is for; None = not known.

    Attributes:
        network: in words.
        optimiser: of its weights.
        image_size: pixels a side.
        budget: length of a run, in words.
        program: the script or function of a person that was run instead of a network of ours.
        origins: how many runs each origin has; the fields above are those of the most frequent one.
    """

    network: str | None = None
    optimiser: str | None = None
    image_size: int | None = None
    budget: str | None = None
    program: str | None = None
    origins: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON types."""
        return asdict(self)

    @property
    def line(self) -> str:
        """Say it in one sentence; empty where nothing is known."""
        if self.network is None and self.program is None:
            return ""
        optimiser = f", trained by {self.optimiser}" if self.optimiser else ""
        what = f"{self.network}{optimiser}" if self.program is None else self.program
        size = None if self.image_size is None else f"images of {self.image_size} x {self.image_size} pixels"
        rest = ", ".join(filter(None, (size, self.budget)))
        total, usual = sum(self.origins.values()), max(self.origins.values(), default=0)
        others = f"; {total - usual} of {total} runs were measured otherwise" if usual < total else ""
        return f"Measured with {what}{f': {rest}' if rest else ''}{others}."


def measured_with(origins: Mapping[str, int], *, stored_size: int) -> MeasuredWith:
    """Say what most runs of a history were measured with.

    Args:
        origins: number of runs by `Evaluation.origin`.
        stored_size: pixels a side of the history's images, which its workloads are given.
    """
    counts: Counter[str] = Counter()
    for origin, count in origins.items():
        counts[bare_origin(origin)] += count
    ordered = dict(counts.most_common())
    usual = next(iter(ordered), "")
    kind = next((prefix for prefix in (_COLLECTED, _TUNED) if usual.startswith(prefix)), None)
    if kind is None:
        return MeasuredWith(origins=ordered)
    what = usual.removeprefix(kind)
    if kind == _COLLECTED and what.startswith("own:"):
        program, amount = [*what.removeprefix("own:").split("/"), "all"][:2]
        return MeasuredWith(program=program, budget=None if amount == "all" else f"budget {amount}", origins=ordered)
    found = _of_workload(what, stored_size)
    if found is not None:
        return MeasuredWith(**found, origins=ordered)
    return MeasuredWith(program=what if kind == _TUNED else None, origins=ordered)


def bare_origin(origin: str) -> str:
    """Return an origin without the history that the run came from, and without what a server added."""
    return without_mark(split_origin(origin)[0])


def workload_of(origin: str) -> tuple[Workload, str] | None:
    """Return the workload, and the name of its budget, that runs of an origin were measured with; None where it was none of ours."""
    kind = next((prefix for prefix in (_COLLECTED, _TUNED) if origin.startswith(prefix)), None)
    return None if kind is None else _named(origin.removeprefix(kind))


def _named(what: str) -> tuple[Workload, str] | None:
    """Read a workload's budget, ``BUDGET`` of the first workload or ``WORKLOAD/BUDGET``; None where there is no such one."""
    from warmstart.training.workloads import DEFAULT, WORKLOADS, get_workload

    name, slash, budget = what.partition("/")
    name, budget = (name, budget) if slash else (DEFAULT, what)
    if name not in WORKLOADS:
        return None
    try:
        workload = get_workload(name)
        workload.budget(budget)
    except UsageError:
        return None
    return workload, budget


def _of_workload(what: str, size: int) -> dict[str, Any] | None:
    """Describe a workload's budget; None where there is no such one."""
    own = _AMOUNT.fullmatch(what)
    named = _named(what if own is None else own[1])
    if named is None:
        return None
    workload, budget = named
    try:
        length = workload.budget(budget, amount=None if own is None else float(own[2]))
    except (ValueError, UsageError):  # an origin may be any text
        return None
    return {
        "network": workload.network or f"the workload {workload.name!r}",
        "optimiser": workload.optimiser or None,
        "image_size": None if workload.chooses_image_size else size,
        "budget": workload.length(length),
    }
