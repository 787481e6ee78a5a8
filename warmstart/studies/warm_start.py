"""The warm start of a study: what the history suggests, asked once and kept in the plan."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from history_store.errors import WarmstartError
from history_store.space import load_space
from warmstart.studies.history_state import history_state
from warmstart.studies.plan import Plan, WarmConfig, same_space
from warmstart.studies.related import ask_related

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace


def ask_history(
    plan: Plan,
    *,
    history: str | os.PathLike[str] | None,
    model: str | os.PathLike[str] | None,
    cache: bool,
    download: bool,
    tell: Callable[[str], object],
) -> Plan:
    """Ask the history about the dataset of a plan, and for the related datasets that it wants.

    Args:
        plan: of a new study.
        history: that is asked; the model, the cache and downloads are for the dataset's meta-feature.
        model: of the meta-features.
        cache: use the cache of meta-features.
        download: let torchvision fetch what is missing.
        tell: called with each line that a person should hear.

    Returns: the plan with what to begin with in its space, and with the evaluations of related datasets.

    Raises:
        UsageError: related datasets that do not fit; see `warmstart.studies.related.ask_related`.
        WarmstartError: as in `warmstart.api.answer`.
    """
    asked = ask_related(plan, history=history, model=model, cache=cache, download=download)
    if plan.initial:
        assert isinstance(plan.initial, tuple)  # noqa: S101  a plan has read them
        return replace(asked, configs=tuple(WarmConfig(config) for config in plan.initial))
    if plan.warm == "none":
        return asked
    from warmstart.api import answer
    from warmstart.device import resolve_device
    from warmstart.translation import EVENLY

    found = answer(
        plan.dataset,
        k=plan.k,
        history=history,
        model=model,
        strategy=plan.strategy,
        space=_other_space(plan, history),
        rename=dict(plan.rename),
        exclude_group=plan.exclude_group,
        seed=plan.seed,
        device=resolve_device(plan.device),
        cache=cache,
        download=download,
    )
    for note in found.notes:
        tell(note)
    known = [design for design in found.suggestions if design.why != EVENLY]
    if not known:
        tell("The study begins cold.")
    configs = tuple(
        WarmConfig(dict(each.config), each.source, each.distance, each.source_error, each.measured, each.not_measured)
        for each in known
    )
    return asked.with_warm(configs, history_state(Path(found.history)))


def _other_space(plan: Plan, history: str | os.PathLike[str] | None) -> ConfigurationSpace | None:
    """Give the space of a plan, where it is not the history's or names are to be told; else None."""
    from history_store.history import History
    from warmstart.locations import history_path

    with History.open(history_path(history)) as opened:
        is_same = same_space(opened.space_json, plan.space)
    return None if is_same and not plan.rename else load_space(plan.space)


def check_history(plan: Plan, history: str | os.PathLike[str] | None, tell: Callable[[str], object]) -> None:
    """Tell of a history that changed since it was asked; the study goes on with what it was told then."""
    from warmstart.locations import history_path

    if plan.history is None:
        return
    try:
        now = history_state(history_path(history))
    except WarmstartError:  # gone, or locked: the study does not need it any more
        return
    if (now["id"], now["revision"]) != (plan.history["id"], plan.history["revision"]):
        tell(
            f"{now['path']}: the history has changed since the study began; its warm configurations stay as they were."
        )
