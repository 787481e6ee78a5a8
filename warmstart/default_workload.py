"""The workload of a question that names none: whose history answers, and what `tune` trains."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from warmstart.history_store.errors import WarmstartError
from warmstart.history_store.extras import has_extra, missing_extra
from warmstart.history_store.space import load_space
from warmstart.locations import (
    HISTORY_VARIABLE,
    MODEL_VARIABLE,
    PathLike,
    glance,
    history_path,
    model_path,
    never_measured,
)
from warmstart.metafeat.model_file import read_header
from warmstart.training.workloads import DEFAULT, WORKLOADS, get_workload, measures, workload_named_by

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.spaces import SpaceLike

PRETRAINED = "transfer"
"""Workload of pretrained networks, the default for pictures."""
_WORDS = {DEFAULT: "a small network trained from scratch", PRETRAINED: "pretrained networks"}


@dataclass(frozen=True, slots=True)
class DefaultWorkload:
    """The workload of a question that names none, and why, for people; empty for the usual one."""

    name: str
    note: str = ""


def default_workload(
    space: SpaceLike | None = None,
    *,
    rename: Mapping[str, str] | None = None,
    names: Collection[str] = (),
    is_script: bool = False,
    model: PathLike | None = None,
) -> DefaultWorkload:
    """Choose the workload of a question that names neither a workload nor a history.

    Pictures alone are for pretrained networks, where the extra `pictures` is installed. A user's own space or script is
    for the workload that shares most of its hyperparameters: the small network without any, or with as many of both.
    A model belongs to its history.

    Args:
        space: of the configurations; None = the workload's own.
        rename: names of that space by the history's.
        names: hyperparameters of a script, where there is no space.
        is_script: a user's own script is trained.
        model: of meta-features.

    Raises:
        UsageError, DataError: a space that cannot be read.
        MissingPathError: a model file that is not there.
    """
    if (named := space_owner(space)) is not None:
        return DefaultWorkload(named)
    if is_model_named(model):
        return DefaultWorkload(_workload_of_model(model_path(model)))
    if space is not None or is_script:
        return _most_shared(space, rename or {}, names)
    if has_extra("pictures"):
        return DefaultWorkload(PRETRAINED)
    missing = missing_extra("pictures", "one of pretrained networks").args[0]
    return DefaultWorkload(DEFAULT, f"This answer is for {_WORDS[DEFAULT]}; {missing}")


def space_owner(space: SpaceLike | None) -> str | None:
    """Return the workload of a space's name, the small network for ``compact`` and ``paper``; None for a user's own."""
    if isinstance(space, str) and space in get_workload(DEFAULT).spaces:
        return DEFAULT
    return workload_named_by(space)


def workload_of_extractor(extractor: str) -> str | None:
    """Return the workload whose shipped history has embeddings by a model, named by its hash; None without one."""
    return next((name for name in _WORDS if extractor in extractors_of(name)), None)


def shipped_extractors() -> tuple[str, ...]:
    """Return the hashes of the models of the shipped histories, the default's first."""
    first = default_workload().name
    names = sorted(_WORDS, key=lambda name: name != first)
    return tuple(extractor for name in names for extractor in extractors_of(name))


def extractors_of(workload: str) -> tuple[str, ...]:
    """Return the hashes of the models by which the shipped history of a workload has embeddings."""
    return glance(history_path(workload=workload)).model_hashes


def is_history_named(history: PathLike | None) -> bool:
    """Tell whether an argument or the environment names a history, which then answers whatever is asked."""
    return history is not None or bool(os.environ.get(HISTORY_VARIABLE))


def is_model_named(model: PathLike | None) -> bool:
    """Tell whether an argument or the environment names a model of meta-features."""
    return model is not None or bool(os.environ.get(MODEL_VARIABLE))


def measured_workload(history: PathLike | None) -> str:
    """Return the workload that a named history measured: the small network for one of none.

    Raises: what a history that cannot be read raises.
    """
    space = glance(history_path(history)).space_json
    return next((name for name in WORKLOADS if measures(space, name)), DEFAULT)


def measured_history(workload: str | None, path: PathLike | None = None, *, model: PathLike | None = None) -> Path:
    """Return the path of the history for a workload, the default one for None; see `history_path`.

    Raises:
        UsageError: no such workload, or the named history never measured it.
        StorageError: as `history_path`, or what a history that cannot be read raises.
    """
    if workload is None:
        return history_path(path, workload=None if is_history_named(path) else default_workload(model=model).name)
    of_workload = history_path(path, workload=workload)
    if not measures(glance(of_workload).space_json, workload):
        raise never_measured(workload, of_workload)
    return of_workload


def _workload_of_model(model: Path) -> str:
    """Return the workload whose shipped history has embeddings by a model file; the small network without one."""
    return workload_of_extractor(read_header(model).hash) or DEFAULT


def _most_shared(space: SpaceLike | None, rename: Mapping[str, str], names: Collection[str]) -> DefaultWorkload:
    """Choose the workload that shares most hyperparameters with a user's own space or script."""
    shared: dict[str, list[str]] = {name: [] for name in _WORDS if name == DEFAULT or has_extra("pictures")}
    if space is not None:
        from warmstart.spaces import read_space

        here = read_space(space)
        shared = {name: _shared_names(name, here, rename) for name in shared}
    elif names:
        shared = {name: [key for key in names if _has_name(name, key)] for name in shared}
    name = max(shared, key=lambda name: len(shared[name]))  # the first of equals
    return DefaultWorkload(name, _note(name, shared))


def _note(name: str, shared: Mapping[str, Collection[str]]) -> str:
    """Say whose history answers for a user's own space or script, by the names that each shares with it."""
    if not shared[name]:
        return ""
    ties = [_WORDS[other] for other in shared if other != name and len(shared[other]) == len(shared[name])]
    also = f", as many as {ties[0]}" if ties else ""
    return f"Asked for {_WORDS[name]} (`workload` {name}), which shares {', '.join(shared[name])} with yours{also}."


def _has_name(workload: str, name: str) -> bool:
    """Tell whether the shipped history of a workload measured a hyperparameter, under its name or its logarithm's."""
    names = {key for config in glance(history_path(workload=workload)).configs for key in config}
    return not names.isdisjoint((name, f"log10_{name}"))


def _shared_names(workload: str, here: ConfigurationSpace, rename: Mapping[str, str]) -> list[str]:
    """Return the hyperparameters of a space whose counterparts, with values that fit, a workload's history measured."""
    from warmstart.history_store.external_runs import as_columns
    from warmstart.history_store.mapping import Wishes, describe_space, match_columns

    about = glance(history_path(workload=workload))
    known, wishes = describe_space(load_space(about.space_json)), Wishes(rename=rename, nearest=True)
    try:
        matched, _ = match_columns(as_columns(list(about.configs)), here, known=known, wishes=wishes)
    except WarmstartError:  # names that only the other workload has
        return []
    return [name for name, column in matched.items() if not column.bad.all() and not hasattr(here[name], "value")]
