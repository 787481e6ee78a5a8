"""The workload behind a history's runs: network, optimiser, image size and length of a run."""

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
"""Suffix of a study's origin if its trials have a budget."""


@dataclass(frozen=True, slots=True)
class MeasuredWith:
    """The workload of a history's configurations; None = unknown.

    Attributes:
        network: in words.
        optimiser: of its weights.
        image_size: pixels per side.
        budget: length of a run, in words.
        program: the user's script or function, instead of a built-in network.
        origins: number of runs by origin; the fields above are those of the most frequent one.
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
        """Return the workload in one sentence; empty if unknown."""
        if self.network is None and self.program is None:
            return ""
        optimiser = f", trained by {self.optimiser}" if self.optimiser else ""
        subject = f"{self.network}{optimiser}" if self.program is None else self.program
        size = None if self.image_size is None else f"images of {self.image_size} x {self.image_size} pixels"
        rest = ", ".join(filter(None, (size, self.budget)))
        total, usual = sum(self.origins.values()), max(self.origins.values(), default=0)
        remainder = f"; {total - usual} of {total} runs were measured otherwise" if usual < total else ""
        return f"Measured with {subject}{f': {rest}' if rest else ''}{remainder}."


def measured_with(origins: Mapping[str, int], *, stored_size: int) -> MeasuredWith:
    """Return the workload of most runs of a history.

    Args:
        origins: number of runs by `Evaluation.origin`.
        stored_size: pixels per side of the history's images, as given to its workloads.
    """
    counts: Counter[str] = Counter()
    for origin, count in origins.items():
        counts[bare_origin(origin)] += count
    ordered = dict(counts.most_common())
    usual = next(iter(ordered), "")
    kind = next((prefix for prefix in (_COLLECTED, _TUNED) if usual.startswith(prefix)), None)
    if kind is None:
        return MeasuredWith(origins=ordered)
    name = usual.removeprefix(kind)
    if kind == _COLLECTED and name.startswith("own:"):
        program, amount = [*name.removeprefix("own:").split("/"), "all"][:2]
        return MeasuredWith(program=program, budget=None if amount == "all" else f"budget {amount}", origins=ordered)
    fields = _workload_fields(name, stored_size)
    if fields is not None:
        return MeasuredWith(**fields, origins=ordered)
    return MeasuredWith(program=name if kind == _TUNED else None, origins=ordered)


def bare_origin(origin: str) -> str:
    """Return an origin without contributor and server mark, of an imported run without its own name."""
    bare = without_mark(split_origin(origin)[0])
    return "/".join(bare.split("/")[:2]) if bare.startswith("import/") else bare


def workload_of(origin: str) -> tuple[Workload, str] | None:
    """Return the workload and the budget's name of an origin; None for anything but a registered workload."""
    kind = next((prefix for prefix in (_COLLECTED, _TUNED) if origin.startswith(prefix)), None)
    return None if kind is None else _parse_workload(origin.removeprefix(kind))


def _parse_workload(text: str) -> tuple[Workload, str] | None:
    """Parse ``BUDGET`` of the default workload, or ``WORKLOAD/BUDGET``; None if unknown."""
    from warmstart.training.workloads import DEFAULT, WORKLOADS, get_workload

    name, slash, budget = text.partition("/")
    name, budget = (name, budget) if slash else (DEFAULT, text)
    if name not in WORKLOADS:
        return None
    try:
        workload = get_workload(name)
        workload.budget(budget)
    except UsageError:
        return None
    return workload, budget


def _workload_fields(text: str, size: int) -> dict[str, Any] | None:
    """Return the fields of `MeasuredWith` for a workload's budget; None if unknown."""
    with_amount = _AMOUNT.fullmatch(text)
    parsed = _parse_workload(text if with_amount is None else with_amount[1])
    if parsed is None:
        return None
    workload, budget = parsed
    try:
        length = workload.budget(budget, amount=None if with_amount is None else float(with_amount[2]))
    except (ValueError, UsageError):  # an origin may be any text
        return None
    return {
        "network": workload.network or f"the workload {workload.name!r}",
        "optimiser": workload.optimiser or None,
        "image_size": None if workload.chooses_image_size else size,
        "budget": workload.length(length),
    }
