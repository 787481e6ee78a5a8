"""Warm trials of Optuna's studies: what `warmstart.suggest` says, enqueued."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from warmstart.arguments import check_renames
from warmstart.history_store.errors import UsageError

if TYPE_CHECKING:
    import optuna

    from warmstart.locations import PathLike
    from warmstart.spaces import SpaceLike
    from warmstart.suggestions.answer import InitialDesign

ORIGIN = "warmstart"
"""User attribute of an enqueued trial: where its configuration comes from."""
_ORIGIN = ("from", "distance", "source_error", "measured", "not_measured")
WARM, SOURCE, PROMISED, ACTUAL = "warm", "source", "promised", "came"
"""User attributes of an enqueued trial, for people: that it is warm, where from, the error there, and the value here."""
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
    skip_broken: bool = False,
    seed: int = 0,
    device: str = "cpu",
    threads: int | None = None,
    cache: bool = True,
    download: bool = False,
    workload: str | None = None,
) -> list[InitialDesign]:
    """Enqueue the configurations that `warmstart.suggest` gives for a dataset, best first; those enqueued before are not again.

    With a space, or a sampler of ours that was given one, the suggestions are put into it: its names, its scales, and only
    values that it allows, so that no `trial.suggest_...` refuses one. What the history never measured is varied over them;
    see docs/import.md. Without a space, a value on a logarithmic scale is enqueued under both of its names, so that an
    objective may ask for `log10_learning_rate` or for `learning_rate`. A sampler of ours says so where an objective asks
    for neither.

    Args:
        study: any study, with any sampler.
        dataset: a path as `warmstart.suggest` takes it.
        images: instead of a path; `labels` with it.
        labels: of `images`.
        k: how many; all where the history has fewer.
        strategy: as in `warmstart.suggest`, and so the arguments below that are not named here.
        history: the history file.
        model: the meta-feature model.
        space: what the study searches, in any form that `warmstart.spaces.read_space` takes: a dict of Optuna's
            distributions, a ConfigSpace space, a short form or a file of one. Left out, that of a sampler of ours.
        rename: the study's name of a hyperparameter, by its name in the history or its natural one.
        exclude_group: groups of the history to leave out.
        skip_broken: go on without pictures that cannot be decoded.
        seed: of the images chosen.
        device: where the network runs.
        threads: CPU threads of the network.
        cache: keep and use meta-features.
        download: let torchvision fetch what is missing.
        workload: what the configurations train, ``transfer`` for example; its history answers.

    Returns: the suggestions; the trials carry their origin as the user attribute `warmstart`.

    Raises:
        UsageError: when `rename` names what no suggestion has, or an argument does not fit.
        DataError: when the space is none.
        MissingPathError, StorageError: as `warmstart.suggest`.
    """
    from warmstart.api import suggest
    from warmstart.integrations.optuna.sampler import WarmStartSampler

    if rename is not None:
        check_renames("rename", rename)
    if space is None and isinstance(study.sampler, WarmStartSampler):
        space = study.sampler.space
    designs = suggest(
        dataset,
        images=images,
        labels=labels,
        k=_at_most(k, history, workload),
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
        workload=workload,
    )
    enqueued = [dict(each.config) if space is not None else _renamed(each, rename or {}) for each in designs]
    for design, params in zip(designs, enqueued, strict=True):
        origin = {key: value for key, value in design.to_dict().items() if key in _ORIGIN}
        study.enqueue_trial(params, user_attrs={ORIGIN: origin, **_readable(design)}, skip_if_exists=True)
    return designs


def _readable(design: InitialDesign) -> dict[str, bool | str | float]:
    """Return the attributes that people read in a dashboard: warm, source, promised."""
    error = design.source_error if design.measured else None
    error = error if design.expected_error is None else design.expected_error.value
    promised = {} if error is None else {PROMISED: round(error, 4)}
    return {WARM: True, SOURCE: design.origin, **promised}


def _at_most(k: int, history: PathLike | None, workload: str | None) -> int:
    """Return k, or the number of configurations of a history that has fewer; what is no number is told later."""
    from warmstart.history_store.history import History
    from warmstart.locations import history_path

    given: tuple[object, object] = k, history
    if not isinstance(given[0], int) or not isinstance(given[1], str | os.PathLike | None):
        return k
    with History.open(history_path(history, workload=workload)) as opened:
        there = len(opened.configs)
    if there >= k or not there:
        return k
    _log.warning("warm_start: %d configurations were asked for, the history has %d", k, there)
    return there


def _renamed(design: InitialDesign, rename: Mapping[str, str]) -> dict[str, Any]:
    """Return a suggestion under a study's names: both scales of a value, or the one that is renamed."""
    values = {**design.config, **design.natural}
    if unknown := rename.keys() - values.keys():
        msg = f"expected names among {', '.join(values)}, got {min(unknown)!r}. Correct the name."
        raise UsageError(msg, param="rename", given=min(unknown), choices=values)
    twins = {other for name in rename for other in both_scales(name) if other not in rename}
    olds: dict[str, str] = {}
    for old in (name for name in values if name not in twins):
        new = rename.get(old, old)
        if new in olds:
            msg = f"expected a name of its own for each value, got {new!r} for {olds[new]} and {old}. Rename one of them otherwise."
            raise UsageError(msg, param="rename", given=new)
        olds[new] = old
    return {new: values[old] for new, old in olds.items()}


def both_scales(name: str) -> tuple[str, str]:
    """Return both names of a value: natural and logarithmic."""
    bare = name.removeprefix("log10_")
    return bare, f"log10_{bare}"
