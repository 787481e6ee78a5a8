"""The answer for a workload without a history: its usual configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from warmstart.descriptor import Descriptor
from warmstart.history_store.errors import UsageError
from warmstart.history_store.space import dump_space, natural
from warmstart.history_store.splits import count_parts
from warmstart.history_store.wording import in_shell
from warmstart.suggestions.answer import Answer
from warmstart.suggestions.location import Location
from warmstart.suggestions.query import open_query
from warmstart.suggestions.records import Confidence, DatasetSummary, InitialDesign
from warmstart.training.workloads import get_workload

if TYPE_CHECKING:
    from warmstart.history_store.records import Config
    from warmstart.suggestions.query import Dataset

STRATEGY = "usual"
REASON = "workload-not-in-history"


def usual_answer(
    dataset: Dataset, k: int | None, *, workload: str, history: str, seed: int = 0, download: bool = False
) -> Answer:
    """Answer with the usual configurations of a workload.

    Args:
        dataset: as `warmstart.suggest` takes it.
        k: number of configurations; at most 3 when left out.
        workload: name in `warmstart.training.workloads.WORKLOADS`.
        history: path of the history, which never measured it.
        seed: stated in the answer.
        download: let torchvision fetch what is missing.

    Raises:
        UsageError: k larger than the number of usual configurations, or a workload that names none.
    """
    trained = get_workload(workload)
    configs: Sequence[Config] = trained.usual_configs()
    if not configs:
        msg = f"expected a history that measured the workload {workload!r}, got {history}. Name one with `history`; `warmstart history collect --workload {in_shell(workload)}` makes one."
        raise UsageError(msg, param="workload")
    k = min(3, len(configs)) if k is None else k
    if not 1 <= k <= len(configs):
        msg = (
            f"expected 1 to {len(configs)}, the number of usual configurations of {workload!r}, got {k}. Ask for fewer."
        )
        raise UsageError(msg, param="k")
    query = open_query(dataset, download=download)
    source = query.source
    parts = count_parts(len(source), source.splits)
    summary = DatasetSummary(source.location, len(source), len(source.class_names), query.fingerprint, parts)
    why = f"one of the usual configurations of {workload}"
    chosen = tuple(InitialDesign(dict(config), natural(config), why=why, measured=False) for config in configs[:k])
    note = f"{history} never measured {workload}: these are its usual configurations, the same for every dataset."
    confidence = Confidence(typical=False, distance_percentile=None, note=note, reasons=(REASON,))
    space = dump_space(trained.space())
    return Answer(
        summary, (), chosen, STRATEGY, confidence, history, "", seed, space_json=space, notes=(note, *query.class_notes), workload=workload
    )  # fmt: skip


def check_usual_answer(dataset: Dataset | Location, history: str, workload: str, options: Mapping[str, object]) -> None:
    """Refuse options that the usual configurations of a workload cannot serve, as the history has no run of it.

    Raises:
        UsageError: a location or descriptor instead of images, or a strategy, a space or names.
    """
    for param in (name for name, value in options.items() if value):
        msg = f"cannot be used with `workload` {workload}: {history} never measured it, so only its usual configurations are known."
        raise UsageError(msg, param=param)
    if isinstance(dataset, Location | Descriptor):
        msg = f"expected images, got their place in {history}, which never measured {workload}. Give the images, or name a history that did."
        raise UsageError(msg, param="workload")
