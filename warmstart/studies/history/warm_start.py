"""Warm start of a study: the history's suggestions are asked for once and kept in the study."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.glance import glance
from warmstart.history_store.errors import UsageError, WarmstartError
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.records import Config, Value
from warmstart.history_store.space import load_space, same_space
from warmstart.history_store.wording import counted
from warmstart.locations import history_path, usual_model
from warmstart.studies.history.history_state import history_state
from warmstart.studies.history.related import ask_related
from warmstart.studies.options import Sources
from warmstart.studies.state.spec import StudySpec, WarmConfig
from warmstart.training.workloads import DEFAULT, get_workload, measures

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.descriptor import Descriptor
    from warmstart.studies.history.time_plan import TimedCall
    from warmstart.suggestions.advisor import Advisor
    from warmstart.suggestions.answer import Answer, InitialDesign
    from warmstart.suggestions.location import Location
    from warmstart.suggestions.query import Query


def ask_history(
    plan: StudySpec,
    *,
    sources: Sources,
    on_message: Callable[[str], object],
    query: Query | Descriptor | None = None,
    timed: TimedCall | None = None,
) -> StudySpec:
    """Ask the history about the dataset of a plan, and for the related datasets that it wants.

    Args:
        plan: of a new study.
        sources: the history that is asked, and the model of the meta-features.
        on_message: called with each line that a person should hear.
        query: the dataset of the plan, where it is open already, or described by a client.
        timed: the time of the call; where the history knows how long its runs took, it plans what fits.

    Returns: the plan with what to begin with in its space, and with the evaluations of related datasets.

    Raises:
        UsageError: related datasets that do not fit; see `warmstart.studies.history.related.ask_related`.
        WarmstartError: as in `warmstart.Advisor.suggest`.
    """
    sources = _sources(sources, plan, query)
    advisor = cache(lambda: _advisor(plan, sources))

    @cache
    def locate() -> Location:
        return advisor().locate(query or plan.dataset, strategy=plan.strategy)

    is_young = _is_young(plan, sources.history)
    has_images = not is_young and (plan.has_images or query is not None)
    asked = ask_related(plan, locate, history=sources.history, has_images=has_images)
    if plan.pruner == "history":
        asked = replace(asked, curves=_curves(plan, None if query is None and plan.dataset is None else locate))
    is_unasked = plan.initial or plan.warm == "none"
    usual = None if is_unasked else _usual_configs(plan, sources.history)
    if is_unasked or is_young or usual is not None:  # else the history's answer does
        tell_of_images(query, on_message, skip_broken=plan.skip_broken)
    if plan.initial:
        assert isinstance(plan.initial, tuple)  # noqa: S101  a plan has read them
        return replace(asked, configs=tuple(WarmConfig(config) for config in plan.initial))
    if plan.warm == "none":
        return asked
    if usual is not None:
        on_message(
            f"The history knows nothing of {plan.workload}: the study begins with the usual configurations of that workload."
        )
        return replace(asked, configs=tuple(usual[place] for place in _different(plan, usual, on_message)))
    if is_young:
        on_message("The history has no runs yet. The study begins cold.")
        return asked
    found = _suggested(plan, locate(), advisor(), timed)
    for note in (*found.notes, *(() if found.suggestions else ("The study begins cold.",))):
        on_message(note)
    configs = _begun_with(plan, found, locate().embedded.configs)
    kept, expectation = _different(plan, configs, on_message), found.expectation
    if expectation is not None:
        expectation = expectation.of([i for i in kept if i < expectation.n_configs])
    return asked.with_warm(tuple(configs[i] for i in kept), history_state(Path(found.history)), expectation)


def _is_young(plan: StudySpec, history: str | os.PathLike[str] | None) -> bool:
    """Tell whether a history that is asked for a warm start alone has no run to answer with."""
    from warmstart.history_store.history import History

    if plan.warm == "none" or plan.related or (plan.initial and not plan.members):
        return False
    with History.open(history_path(history)) as opened:
        return not opened.n_evaluations


def _advisor(plan: StudySpec, sources: Sources) -> Advisor:
    """Make the one who answers for a plan."""
    from warmstart.metafeat.device import resolve_device
    from warmstart.suggestions.advisor import Advisor

    return Advisor(
        **asdict(sources),
        exclude_group=plan.exclude_group,
        skip_broken=plan.skip_broken,
        seed=plan.seed,
        device=resolve_device(plan.device),
    )


def _tell_broken(query: Query | Descriptor | None, on_message: Callable[[str], object]) -> None:
    """Name the pictures of a dataset that cannot be decoded."""
    from warmstart.suggestions.query import Query

    if isinstance(query, Query):
        read = query.source.read(range(len(query.source)), skip_broken=True)
        for picture in read.broken:
            on_message(picture.left_out)


def tell_of_images(query: Query | Descriptor | None, on_message: Callable[[str], object], *, skip_broken: bool) -> None:
    """Name classes of a dataset that lack pictures, and pictures that cannot be decoded, where they are left out."""
    from warmstart.suggestions.query import Query

    if skip_broken:
        _tell_broken(query, on_message)
    for note in query.class_notes if isinstance(query, Query) else ():
        on_message(note)


def _sources(sources: Sources, plan: StudySpec, query: Query | Descriptor | None) -> Sources:
    """Choose the history of the workload, unless the dataset was described for another one."""
    from warmstart.descriptor import Descriptor
    from warmstart.metafeat.model_file import read_header

    history = history_path(sources.history, workload=plan.workload)
    if isinstance(query, Descriptor) and read_header(usual_model(history, sources.model)).hash != query.extractor:
        return sources
    return replace(sources, history=history)


def _suggested(plan: StudySpec, place: Location, advisor: Advisor, timed: TimedCall | None) -> Answer:
    """Return what the history suggests: what fits in the time of a call, where it knows that; else the best of all."""
    if timed is not None and _plans(plan, place):
        found = advisor.suggest(place, None, strategy=plan.strategy, time=timed.limit(plan))
        timed.plan = found.plan
        if found.suggestions:
            return found  # else: what does not fit now may fit in another call
    space, rename = _other_space(plan, place), dict(plan.rename)
    k = min(plan.k, max(1, len(place.embedded.configs)))  # a young history gives what it has
    return advisor.suggest(place, k, strategy=plan.strategy, space=space, rename=rename)


def _plans(plan: StudySpec, place: Location) -> bool:
    """Tell whether the history plans the first trials by their seconds."""
    from warmstart.studies.history.time_plan import can_plan
    from warmstart.suggestions.request import PLANNED

    return plan.strategy in (None, *PLANNED) and can_plan(plan, place)


def _warm_configs(found: Answer) -> tuple[WarmConfig, ...]:
    """Return what a study begins with: the suggestions; after a plan also what would pay, were there more time."""
    configs = tuple(_warm_config(each) for each in found.suggestions if each.is_of_history)
    if found.plan is None:
        return configs
    # Where runs are shorter than foreseen, what pays goes on; and so it does in another call.
    known = [] if found.expectation is None else found.expectation.errors()[len(configs) : -1]
    return configs + tuple(
        WarmConfig(config, expected_error=None if error is None else error.to_dict())
        for config, error in zip_longest(found.plan.further_configs, known)
    )


def _warm_config(design: InitialDesign) -> WarmConfig:
    """Return what a study keeps of a suggestion."""
    return WarmConfig(
        dict(design.config),
        design.source,
        design.distance,
        design.source_error,
        design.measured,
        design.not_measured,
        None if design.expected_error is None else design.expected_error.to_dict(),
    )


def _different(plan: StudySpec, configs: Sequence[WarmConfig], on_message: Callable[[str], object]) -> list[int]:
    """Return the places of configurations, without those that a workload trains just as one before them."""
    if plan.workload is None:
        return list(range(len(configs)))
    workload, found = get_workload(plan.workload), dict[frozenset[tuple[str, Value]], int]()
    for place, each in enumerate(configs):
        found.setdefault(config_key(workload.canonical(each.config)), place)
    if len(found) < len(configs):
        n = len(configs) - len(found)
        on_message(
            f"Left out {counted(n, 'warm configuration')}: {'it trains' if n == 1 else 'each trains'} exactly as an earlier one."
        )
    return list(found.values())


def _curves(plan: StudySpec, locate: Callable[[], Location] | None) -> dict[str, Any]:
    """Fit the history's learning curves to the dataset of a plan.

    Raises:
        UsageError: there is none, or the history has too few curves, or none over hyperparameters of the plan.
    """
    from warmstart.integrations.optuna.pruner import no_curves
    from warmstart.suggestions.run_forecasts import fit_run_forecasts

    if locate is None:
        msg = "expected `dataset` where the pruner is history, got none. Give it, or choose the pruner median."
        raise UsageError(msg, param="pruner")
    place = locate()
    found = fit_run_forecasts(place, load_space(plan.space), rename=dict(plan.rename))
    if found is None:
        raise no_curves(str(place.embedded.path))
    return found.to_dict()


def _usual_configs(plan: StudySpec, history: str | os.PathLike[str] | None) -> tuple[WarmConfig, ...] | None:
    """Return the configurations to begin with that a workload names itself, where the history never measured it; else None."""
    from warmstart.suggestions.initial_configs import convert_initial

    named = () if plan.workload in (None, DEFAULT) else get_workload(plan.workload).usual_configs()
    if not named:
        return None
    if measures(glance(history_path(history)).space_json, plan.workload or DEFAULT):
        return None
    space = load_space(plan.space)
    found = convert_initial(space, [_allowed(space, config) for config in named[: plan.k]], rename={}, seed=plan.seed)
    return tuple(WarmConfig(config, measured=False) for config in found.configs)


def _begun_with(plan: StudySpec, found: Answer, measured: Sequence[Config]) -> tuple[WarmConfig, ...]:
    """Return what a study begins with: what the history suggests, then what it never measured."""
    configs = _warm_configs(found)
    return configs + _unmeasured(plan, configs[0].config if configs else None, measured)


def _unmeasured(plan: StudySpec, best: Config | None, measured: Sequence[Config]) -> tuple[WarmConfig, ...]:
    """Return what to try beside what the history measured, as far as the space of a plan allows it.

    The best suggestion at the largest image size of the space, where the history measured none as large; and the usual
    configurations of the workload that have hyperparameters no configuration of the history has, put into the space.
    """
    from warmstart.bo.space.encoding import Encoding

    if plan.workload is None:
        return ()
    workload, space = get_workload(plan.workload), load_space(plan.space)
    sizes = [size for config in measured if isinstance(size := config.get("image_size"), int)]
    largest, known = workload.largest_image(space), {name for config in measured for name in config}
    named: list[Config] = []
    if best is not None and largest is not None and largest > max(sizes, default=largest):
        larger = {**best, "image_size": largest}
        named += [larger] if Encoding(space).fits([larger])[0] else []
    named += _usual_in(space, [config for config in workload.usual_configs() if set(config) - known], seed=plan.seed)
    return tuple(WarmConfig(config, measured=False) for config in named)


def _usual_in(space: ConfigurationSpace, usual: Sequence[Config], *, seed: int) -> list[Config]:
    """Put usual configurations into a space that has all of their names: its nearest numbers, and its own backbones for ours."""
    from warmstart.suggestions.initial_configs import convert_initial

    found: list[Config] = []
    for config in usual:
        if not set(config) <= set(space):
            continue
        try:
            made = convert_initial(space, [_allowed(space, config)], rename={}, seed=seed).configs
        except UsageError:  # a combination that the space forbids
            continue
        found += [each for each in made if set(config) <= set(each) and each not in found]
    return found


def _allowed(space: ConfigurationSpace, config: Config) -> Config:
    """Leave out choices that a space lacks, such as our backbones in one of others; numbers are moved to its nearest."""
    return {
        name: value
        for name, value in config.items()
        if name not in space
        or (isinstance(value, int | float) and not isinstance(value, bool))
        or space[name].legal_value(value)
    }


def _other_space(plan: StudySpec, place: Location) -> ConfigurationSpace | None:
    """Return the space of a plan, where it is not the history's or names are to be told; else None."""
    is_same = same_space(place.embedded.space_json, plan.space)
    return None if is_same and not plan.rename else load_space(plan.space)


def check_history(plan: StudySpec, history: str | os.PathLike[str] | None, on_message: Callable[[str], object]) -> None:
    """Tell of a history that changed since it was asked; the study goes on with what it was told then."""
    if plan.history is None:
        return
    try:
        now = history_state(history_path(history, workload=plan.workload))
    except WarmstartError:  # gone, or locked: the study does not need it any more
        return
    if (now["id"], now["revision"]) != (plan.history["id"], plan.history["revision"]):
        on_message(
            f"{now['path']}: the history has changed since the study began; its warm configurations stay as they were."
        )
