"""Warm start of Optuna's studies: enqueue suggestions of `warmstart.suggest`."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from warmstart.arguments import check_renames
from warmstart.default_workload import default_workload, is_history_named
from warmstart.history_store.errors import UsageError
from warmstart.history_store.hyperparameter_names import both_scales
from warmstart.history_store.space import load_space
from warmstart.locations import PathLike, history_path
from warmstart.spaces import read_space
from warmstart.studies.state.attributes import ORIGIN, PROMISED, SOURCE, WARM

if TYPE_CHECKING:
    import optuna
    from ConfigSpace import ConfigurationSpace

    from warmstart.spaces import SpaceLike
    from warmstart.suggestions.records import InitialDesign

_ORIGIN = ("from", "distance", "source_error", "measured", "not_measured")
_log = logging.getLogger("warmstart")


def warm_start(
    study: optuna.Study,
    *,
    dataset: PathLike | None = None,
    images: Any = None,
    labels: Any = None,
    k: int = 3,
    strategy: str | None = None,
    history: PathLike | None = None,
    model: PathLike | None = None,
    space: SpaceLike | None = None,
    rename: Mapping[str, str] | None = None,
    exclude_group: str | Collection[str] | None = None,
    skip_broken: bool | None = None,
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    cache: bool = True,
    download: bool = False,
    workload: str | None = None,
) -> list[InitialDesign]:
    """Enqueue the suggestions for a dataset, best first; those enqueued earlier are skipped.

    Each value is fitted when the objective asks for a parameter: its name is matched (`lr` is `learning_rate`), and the
    value is put on the parameter's scale, into its range and to the nearest step or choice. What the suggestion lacks,
    the study's sampler draws. For that, a `FittingSampler` is put around any sampler but a `WarmStartSampler`, which
    does the same. A `WarmStartSampler` warns of values for which an objective never asks. Workers in other processes
    call this too, after the first: nothing is enqueued twice, and SQLite gives each waiting trial to one of them.

    With a space, or a `WarmStartSampler` with a space, the suggestions are translated into it before they are enqueued,
    and hyperparameters that the history never measured are varied; see docs/suggest.md.

    Args:
        study: any study, with any sampler.
        dataset: a path as `warmstart.suggest` takes it.
        images: instead of a path; `labels` with it.
        labels: of `images`.
        k: number of suggestions; all if the history has fewer.
        strategy: see `warmstart.suggest`.
        history: the history file.
        model: the meta-feature model.
        space: of the study, in any form that `warmstart.spaces.read_space` takes: a dict of Optuna's distributions, a
            ConfigSpace space, a short form or a file of one. Left out, the space of a `WarmStartSampler`.
        rename: the study's names of hyperparameters, by their names in the history or their natural ones.
        exclude_group: groups of the history to leave out.
        skip_broken: go on without pictures that cannot be decoded.
        seed: of the images chosen.
        device: where the network runs.
        threads: CPU threads of the network.
        cache: keep and use meta-features.
        download: let torchvision fetch what is missing.
        workload: whose history is used; when left out, the one that shares most hyperparameters with the space, or
            ``cnn`` without a space.

    Returns: the suggestions; the trials have their origin in the user attribute `warmstart`.

    Raises:
        UsageError: `rename` has an unknown name, or an argument does not fit.
        DataError: the space cannot be read.
        MissingPathError, StorageError: as `warmstart.suggest`.
    """
    from warmstart.api import suggest
    from warmstart.integrations.optuna.fitting_sampler import FittingSampler
    from warmstart.integrations.optuna.sampler import WarmStartSampler
    from warmstart.integrations.optuna.sqlite_claims import hand_out_once
    from warmstart.integrations.optuna.warm_values import ranges_of, store_ranges

    if rename is not None:
        check_renames("rename", rename)
    if space is None and isinstance(study.sampler, WarmStartSampler):
        space = study.sampler.space
    asked = workload
    if workload is None and not is_history_named(history):
        asked = default_workload(space, rename=rename, is_script=True, model=model).name
    designs = list(
        suggest(
            dataset,
            images=images,
            labels=labels,
            k=_limited_k(k, history, asked),
            strategy=strategy,
            history=history,
            model=model,
            space=space,
            rename=rename if space is not None else None,
            exclude_group=exclude_group,
            skip_broken=skip_broken,
            seed=seed,
            device=device,
            threads=threads,
            cache=cache,
            download=download,
            workload=asked if space is None else workload,
        )
    )
    enqueued = [
        dict(suggestion.config) if space is not None else _study_params(suggestion, rename or {})
        for suggestion in designs
    ]
    hand_out_once(study)
    store_ranges(study, ranges_of(_space_of(space, history, asked), {} if space is not None else rename or {}))
    if space is None and not isinstance(study.sampler, WarmStartSampler | FittingSampler):
        study.sampler = FittingSampler(study.sampler)
    for design, params in zip(designs, enqueued, strict=True):
        origin = {key: value for key, value in design.to_dict().items() if key in _ORIGIN}
        study.enqueue_trial(params, user_attrs={ORIGIN: origin, **_user_attributes(design)}, skip_if_exists=True)
    return designs


def _user_attributes(design: InitialDesign) -> dict[str, bool | str | float]:
    """Return the user attributes for dashboards: warm, source, promised."""
    error = design.source_error if design.measured else None
    error = error if design.expected_error is None else design.expected_error.value
    promised = {} if error is None else {PROMISED: round(error, 4)}
    return {WARM: True, SOURCE: design.origin, **promised}


def _limited_k(k: int, history: PathLike | None, workload: str | None) -> int:
    """Return k, limited to the number of configurations of the history; wrong types are checked later."""
    from warmstart.history_store.history import History

    arguments: tuple[object, object] = k, history
    if not isinstance(arguments[0], int) or not isinstance(arguments[1], str | os.PathLike | None):
        return k
    with History.open(history_path(history, workload=workload)) as opened:
        n_configs = len(opened.configs)
    if n_configs >= k or not n_configs:
        return k
    _log.warning("warm_start: %d configurations were asked for, the history has %d", k, n_configs)
    return n_configs


def _space_of(space: SpaceLike | None, history: PathLike | None, workload: str | None) -> ConfigurationSpace:
    """Return the space from which enqueued values come: the study's, else the history's."""
    from warmstart.history_store.history import History

    if space is not None:
        return read_space(space)
    with History.open(history_path(history, workload=workload)) as opened:
        return load_space(opened.space_json)


def _study_params(design: InitialDesign, rename: Mapping[str, str]) -> dict[str, Any]:
    """Return a suggestion by the study's names: both scales of a value, or only the renamed one."""
    values = {**design.config, **design.natural}
    if unknown := rename.keys() - values.keys():
        msg = f"expected names among {', '.join(values)}, got {min(unknown)!r}. Correct the name."
        raise UsageError(msg, param="rename", given=min(unknown), choices=values)
    twins = {twin for name in rename for twin in both_scales(name) if twin not in rename}
    olds: dict[str, str] = {}
    for old in (name for name in values if name not in twins):
        new = rename.get(old, old)
        if new in olds:
            msg = f"expected a name of its own for each value, got {new!r} for {olds[new]} and {old}. Rename one of them otherwise."
            raise UsageError(msg, param="rename", given=new)
        olds[new] = old
    return {new: values[old] for new, old in olds.items()}
