"""Related datasets of a study: their evaluations are read once and stored in the study."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.related import thinned
from warmstart.history_store.errors import UsageError
from warmstart.history_store.space import same_space
from warmstart.history_store.wording import suggest_names
from warmstart.locations import history_path
from warmstart.studies.history.history_state import history_state
from warmstart.studies.related_dataset import AUTO, EVALUATIONS, TOTAL, RelatedDataset
from warmstart.studies.state.spec import StudySpec

if TYPE_CHECKING:
    from warmstart.history_store.history import History
    from warmstart.locations import PathLike
    from warmstart.suggestions.location import Location


def ask_related(
    plan: StudySpec, locate: Callable[[], Location], *, history: PathLike | None, has_images: bool | None = None
) -> StudySpec:
    """Add related datasets to a plan, if it names some, and its own meta-feature, if it is one of several studies.

    Args:
        plan: of a new study.
        locate: returns the location of its dataset; called only if that is needed.
        history: that holds the related datasets.
        has_images: whether the images of the dataset can be read; as the plan says when left out.

    Returns: the plan with their evaluations, and with meta-features where the study's dataset holds images and all related
        ones have embeddings.

    Raises:
        UsageError: a history over another space; names that are not in it, or that are excluded.
        WarmstartError: a dataset, history or model that cannot be read; see `warmstart.Advisor.locate`.
    """
    from warmstart.history_store.history import History

    path = history_path(history)
    has_images = plan.has_images if has_images is None else has_images
    if not plan.related:
        if not plan.members or plan.warm == "none" or not has_images:
            return plan
        return replace(plan, meta_feature=_float32_digits(locate().vector))
    with History.open(path) as store:
        if not same_space(store.space_json, plan.space):
            msg = f"expected a study over the space of {path}, got one over another. Leave `space` out, or `related`."
            raise UsageError(msg, param="related")
        location = locate() if has_images else None
        if location is not None and not location.has_distances:
            if plan.related == (AUTO,):
                msg = f"{AUTO!r} needs a history with images. Name the related datasets, or add their images with `warmstart history add`."
                raise UsageError(msg, param="related")
            location = None
        names = _nearest(store, location, plan) if plan.related == (AUTO,) else _named_datasets(store, plan, path)
        if location is not None:
            chosen = set(names)
            rows = [row for row in location.among.tolist() if location.embedded.names[row] in chosen]
            location = location.at(np.array(rows, dtype=np.int64))
        has_meta_features = location is not None and set(names) <= set(location.names)
        tasks = tuple(
            _related_dataset(store, name, location, count=len(names), has_meta=has_meta_features, path=str(path))
            for name in names
        )
    meta_feature = _float32_digits(location.vector) if location is not None and has_meta_features else None
    return replace(plan, tasks=tasks, meta_feature=meta_feature, history=history_state(path))


def _float32_digits(vector: NDArray[np.float32]) -> tuple[float, ...]:
    """Round a meta-feature to the digits of a float32."""
    return tuple(float(f"{number:.7g}") for number in vector.tolist())


def _nearest(history: History, location: Location | None, plan: StudySpec) -> list[str]:
    """Return the names of the nearest datasets, one per group."""
    if location is None:
        msg = f"{AUTO!r} needs a dataset of images. Give `dataset`, or name the related datasets."
        raise UsageError(msg, param="related")
    groups = dict(zip(history.names, history.groups, strict=True))
    by_group: dict[str, str] = {}
    for _, name in sorted(zip(location.distances.tolist(), location.names, strict=True)):
        by_group.setdefault(groups[name], name)
    return list(by_group.values())[: plan.neighbours]


def _named_datasets(history: History, plan: StudySpec, path: Path) -> list[str]:
    """Return the names of related datasets, after checks."""
    groups = dict(zip(history.names, history.groups, strict=True))
    if unknown := [name for name in plan.related if name not in groups]:
        step = suggest_names(unknown, history.names, otherwise="`warmstart history list` shows them.")
        msg = f"expected datasets of {path}, or {AUTO} alone, got {', '.join(unknown)}. {step}"
        raise UsageError(msg, param="related")
    file, _, own_dataset = (plan.dataset or "").rpartition("::")
    is_same_file = bool(file) and Path(file).exists() and Path(file).samefile(path)
    left_out = [
        name for name in plan.related if groups[name] in plan.exclude_group or (is_same_file and name == own_dataset)
    ]
    if left_out:
        msg = f"expected datasets that may answer, got {', '.join(left_out)}, which `exclude_group` leaves out or which is the one that is tuned. Leave it out."
        raise UsageError(msg, param="related")
    return list(plan.related)


def _related_dataset(
    history: History, name: str, location: Location | None, *, count: int, has_meta: bool, path: str
) -> RelatedDataset:
    """Return the thinned evaluations of one of `count` related datasets."""
    errors = history.errors[history.names.index(name)]
    rows = thinned(errors, min(EVALUATIONS, max(TOTAL // count, 1)))
    if not rows:
        msg = f"expected datasets with evaluations, got {name!r} of {path} without one. Leave it out."
        raise UsageError(msg, param="related")
    row = location.names.index(name) if location is not None and name in location.names else None
    return RelatedDataset(
        name,
        None if location is None or row is None else float(location.distances[row]),
        tuple(dict(history.configs[config]) for config in rows),
        tuple(errors[rows].tolist()),
        None
        if location is None or row is None or not has_meta
        else _float32_digits(location.embedded.vectors[location.rows[row]]),
    )
