"""Related datasets of a study: their evaluations are read once and kept in the study."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.history_store.errors import UsageError
from warmstart.history_store.space import same_space
from warmstart.history_store.wording import suggest_names
from warmstart.studies.history.history_state import history_state
from warmstart.studies.related_dataset import AUTO, EVALUATIONS, TOTAL, RelatedDataset
from warmstart.studies.state.spec import StudySpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from warmstart.history_store.history import History
    from warmstart.locations import PathLike
    from warmstart.suggestions.location import Location


def ask_related(
    plan: StudySpec, locate: Callable[[], Location], *, history: PathLike | None, has_images: bool | None = None
) -> StudySpec:
    """Find the related datasets of a plan, where it names some, and where it is one of several, the meta-feature of its own.

    Args:
        plan: of a new study.
        locate: tells where its dataset lies; called where that matters.
        history: that holds the related datasets.
        has_images: whether the dataset is known by its images; as the plan says when left out.

    Returns: the plan with their evaluations, and with meta-features where the study's dataset holds images and all related
        ones have embeddings.

    Raises:
        UsageError: a history over another space, without a dataset of that name, or one that is left out.
        WarmstartError: a dataset, history or model that cannot be read; see `warmstart.Advisor.locate`.
    """
    from warmstart.history_store.history import History
    from warmstart.locations import history_path

    path = history_path(history)
    has_images = plan.has_images if has_images is None else has_images
    if not plan.related:
        if not plan.members or plan.warm == "none" or not has_images:
            return plan
        return replace(plan, meta_feature=_plain(locate().vector))
    with History.open(path) as opened:
        if not same_space(opened.space_json, plan.space):
            msg = f"expected a study over the space of {path}, got one over another. Leave `space` out, or `related`."
            raise UsageError(msg, param="related")
        place = locate() if has_images else None
        if place is not None and not place.has_distances:
            if plan.related == (AUTO,):
                msg = f"expected a history with images to compare with for {AUTO!r}, got runs alone. Name the related datasets, or add their images with `warmstart history add`."
                raise UsageError(msg, param="related")
            place = None
        names = _nearest(opened, place, plan) if plan.related == (AUTO,) else _checked(opened, plan, path)
        has_metas = place is not None and set(names) <= set(place.names)
        found = tuple(
            _dataset(opened, name, place, count=len(names), has_meta=has_metas, where=str(path)) for name in names
        )
    meta = _plain(place.vector) if place is not None and has_metas else None
    return replace(plan, tasks=found, meta_feature=meta, history=history_state(path))


def _plain(vector: NDArray[np.float32]) -> tuple[float, ...]:
    """Round a meta-feature to the digits that a float32 has."""
    return tuple(float(f"{number:.7g}") for number in vector.tolist())


def _nearest(history: History, place: Location | None, plan: StudySpec) -> list[str]:
    """Name the nearest datasets, one a group: siblings say the same."""
    if place is None:
        msg = f"expected a dataset of images to compare with the history for {AUTO!r}, got none. Give `dataset`, or name the related datasets."
        raise UsageError(msg, param="related")
    groups = dict(zip(history.names, history.groups, strict=True))
    found: dict[str, str] = {}
    for _, name in sorted(zip(place.distances.tolist(), place.names, strict=True)):
        found.setdefault(groups[name], name)
    return list(found.values())[: plan.neighbours]


def _checked(history: History, plan: StudySpec, path: Path) -> list[str]:
    """Check the names of related datasets."""
    groups = dict(zip(history.names, history.groups, strict=True))
    if unknown := [name for name in plan.related if name not in groups]:
        step = suggest_names(unknown, history.names, otherwise="`warmstart history list` shows them.")
        msg = f"expected datasets of {path}, or {AUTO} alone, got {', '.join(unknown)}. {step}"
        raise UsageError(msg, param="related")
    file, _, own = (plan.dataset or "").rpartition("::")
    is_own = bool(file) and Path(file).exists() and Path(file).samefile(path)
    left_out = [name for name in plan.related if groups[name] in plan.exclude_group or (is_own and name == own)]
    if left_out:
        msg = f"expected datasets that may answer, got {', '.join(left_out)}, which `exclude_group` leaves out or which is the one that is tuned. Leave it out."
        raise UsageError(msg, param="related")
    return list(plan.related)


def _dataset(
    history: History, name: str, place: Location | None, *, count: int, has_meta: bool, where: str
) -> RelatedDataset:
    """Take the evaluations of one of so many datasets."""
    from warmstart.bo.related import thinned

    errors = history.errors[history.names.index(name)]
    rows = thinned(errors, min(EVALUATIONS, max(TOTAL // count, 1)))
    if not rows:
        msg = f"expected datasets with evaluations, got {name!r} of {where} without one. Leave it out."
        raise UsageError(msg, param="related")
    row = place.names.index(name) if place is not None and name in place.names else None
    return RelatedDataset(
        name,
        None if place is None or row is None else float(place.distances[row]),
        tuple(dict(history.configs[config]) for config in rows),
        tuple(errors[rows].tolist()),
        None if place is None or row is None or not has_meta else _plain(place.embedded.vectors[place.rows[row]]),
    )
