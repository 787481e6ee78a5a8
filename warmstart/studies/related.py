"""What the history knows of the related datasets of a study, asked once."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from history_store.errors import UsageError
from warmstart.studies.history_state import history_state
from warmstart.studies.plan import Plan, same_space
from warmstart.studies.related_dataset import AUTO, EVALUATIONS, TOTAL, RelatedDataset

if TYPE_CHECKING:
    from history_store.history import History


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the dataset of a study lies: meta-features of it and of the datasets that may answer, distances to these."""

    own: tuple[float, ...]
    metas: Mapping[str, tuple[float, ...]]
    distances: Mapping[str, float]


def ask_related(
    plan: Plan,
    *,
    history: str | os.PathLike[str] | None,
    model: str | os.PathLike[str] | None,
    cache: bool,
    download: bool,
) -> Plan:
    """Find the related datasets of a plan, where it names some, and where it is one of several, the meta-feature of its own.

    Returns: the plan with their evaluations, and with meta-features where the study's dataset holds images and all related
        ones have embeddings.

    Raises:
        UsageError: a history over another space, without a dataset of that name, or one that is left out.
        WarmstartError: a dataset, history or model that cannot be read; see `warmstart.api.answer`.
    """
    from history_store.history import History
    from warmstart.locations import history_path

    path = history_path(history)
    if not plan.related:
        if not plan.members or plan.warm == "none" or not plan.has_images:
            return plan
        return replace(plan, meta_feature=_place(plan, path, model, cache=cache, download=download).own)
    with History.open(path) as opened:
        if not same_space(opened.space_json, plan.space):
            msg = f"expected a study over the space of {path}, got one over another. Leave `space` out, or `related`."
            raise UsageError(msg, param="related")
        place = _place(plan, path, model, cache=cache, download=download) if plan.has_images else None
        names = _nearest(opened, place, plan) if plan.related == (AUTO,) else _checked(opened, plan, path)
        has_metas = place is not None and all(name in place.metas for name in names)
        found = tuple(
            _dataset(opened, name, place, count=len(names), has_meta=has_metas, where=str(path)) for name in names
        )
    meta = place.own if place is not None and has_metas else None
    return replace(plan, tasks=found, meta_feature=meta, history=history_state(path))


def _place(plan: Plan, path: Path, model: str | os.PathLike[str] | None, *, cache: bool, download: bool) -> _Place:
    """Embed the dataset of a study, and measure its distances."""
    from warmstart.api import distances_to, own_name
    from warmstart.device import resolve_device
    from warmstart.embedding import embed_source
    from warmstart.locations import model_path
    from warmstart.query import open_query
    from warmstart.session import load_memory

    assert plan.dataset is not None  # noqa: S101  it has images
    device = resolve_device(plan.device)
    memory = load_memory(path, model_path(model), device=device)
    source, fingerprint = open_query(plan.dataset, None, None, download=download)
    rows = memory.rows_without(plan.exclude_group, own_name(source, memory))
    own, _ = embed_source(
        source, memory.model, fingerprint=fingerprint, seed=plan.seed, skip_broken=False, cache=cache, device=device
    )
    names = [memory.names[row] for row in rows]
    return _Place(
        _plain(own.tolist()),
        {name: _plain(memory.vectors[row].tolist()) for name, row in zip(names, rows, strict=True)},
        dict(zip(names, distances_to(own, memory, rows).tolist(), strict=True)),
    )


def _plain(vector: Sequence[float]) -> tuple[float, ...]:
    """Round a meta-feature to the digits that a float32 has."""
    return tuple(float(f"{number:.7g}") for number in vector)


def _nearest(history: History, place: _Place | None, plan: Plan) -> list[str]:
    """Name the nearest datasets, one a group: siblings say the same."""
    if place is None:
        msg = f"expected a dataset of images to compare with the history for {AUTO!r}, got none. Give `dataset`, or name the related datasets."
        raise UsageError(msg, param="related")
    groups = dict(zip(history.names, history.groups, strict=True))
    found: dict[str, str] = {}
    for name in sorted(place.distances, key=lambda name: (place.distances[name], name)):
        found.setdefault(groups[name], name)
    return list(found.values())[: plan.neighbours]


def _checked(history: History, plan: Plan, path: Path) -> list[str]:
    """Check the names of related datasets."""
    groups = dict(zip(history.names, history.groups, strict=True))
    if unknown := [name for name in plan.related if name not in groups]:
        msg = f"expected datasets of {path}, or {AUTO} alone, got {', '.join(unknown)}. `warmstart history list` shows them."
        raise UsageError(msg, param="related")
    file, _, own = (plan.dataset or "").rpartition("::")
    is_own = bool(file) and Path(file).exists() and Path(file).samefile(path)
    left_out = [name for name in plan.related if groups[name] in plan.exclude_group or (is_own and name == own)]
    if left_out:
        msg = f"expected datasets that may answer, got {', '.join(left_out)}, which `exclude_group` leaves out or which is the one that is tuned. Leave it out."
        raise UsageError(msg, param="related")
    return list(plan.related)


def _dataset(
    history: History, name: str, place: _Place | None, *, count: int, has_meta: bool, where: str
) -> RelatedDataset:
    """Take the evaluations of one of so many datasets."""
    from bo.related import thinned

    errors = history.errors[history.names.index(name)]
    rows = thinned(errors, min(EVALUATIONS, max(TOTAL // count, 1)))
    if not rows:
        msg = f"expected datasets with evaluations, got {name!r} of {where} without one. Leave it out."
        raise UsageError(msg, param="related")
    distance = None if place is None else place.distances.get(name, math.nan)
    return RelatedDataset(
        name,
        None if distance is None or math.isnan(distance) else distance,
        tuple(dict(history.configs[row]) for row in rows),
        tuple(errors[rows].tolist()),
        place.metas[name] if place is not None and has_meta else None,
    )
