"""Warm start of a study: the history's suggestions are computed once and stored in the study."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.bo.space.encoding import Encoding
from warmstart.default_workload import DefaultWorkload, default_workload, is_history_named, workload_of_extractor
from warmstart.descriptor import Descriptor
from warmstart.history_store.broken import SkipBroken
from warmstart.history_store.errors import UsageError, WarmstartError
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.records import Config, Value
from warmstart.history_store.space import load_space, same_space
from warmstart.history_store.wording import counted
from warmstart.locations import glance, history_path, usual_model
from warmstart.metafeat.broken_rows import left_out_pictures
from warmstart.metafeat.device import resolve_device
from warmstart.metafeat.model_file import read_header
from warmstart.studies.history.history_state import history_state
from warmstart.studies.history.related import ask_related
from warmstart.studies.state.spec import StudySpec, WarmConfig
from warmstart.suggestions.lookup import Sources
from warmstart.training.workloads import DEFAULT, get_workload, measures

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.studies.history.timed_call import TimedCall
    from warmstart.suggestions.advisor import Advisor
    from warmstart.suggestions.answer import Answer
    from warmstart.suggestions.location import Location
    from warmstart.suggestions.query import Query
    from warmstart.suggestions.records import InitialDesign


def ask_history(
    plan: StudySpec,
    *,
    sources: Sources,
    on_message: Callable[[str], object],
    query: Query | Descriptor | None = None,
    timed: TimedCall | None = None,
) -> StudySpec:
    """Add the history's suggestions and related datasets to a plan.

    Args:
        plan: of a new study.
        sources: the history, and the model of the meta-features.
        on_message: called with each message line.
        query: the dataset of the plan, if it is open already, or described by a client.
        timed: the time of the call; a history with durations plans the configurations that fit.

    Returns: the plan with its warm configurations, in its space, and the evaluations of related datasets.

    Raises:
        UsageError: related datasets that do not fit; see `warmstart.studies.history.related.ask_related`.
        WarmstartError: as in `warmstart.Advisor.suggest`.
    """
    asked, sources = sources, _sources(sources, plan, query)
    advisor = cache(lambda: _advisor(plan, sources))

    @cache
    def locate() -> Location:
        return advisor().locate(query or plan.dataset, strategy=plan.strategy)

    if timed is not None and timed.run_plan is not None:
        warn_of_images(query, on_message, skip_broken=plan.skip_broken)
        return replace(plan, configs=tuple(WarmConfig(config, measured=False) for config in timed.run_plan.configs))
    is_young = _is_young(plan, sources.history)
    has_images = not is_young and (plan.has_images or query is not None)
    spec = ask_related(plan, locate, history=sources.history, has_images=has_images)
    if plan.pruner == "history":
        spec = replace(spec, curves=_curves(plan, None if query is None and plan.dataset is None else locate))
    needs_no_history = plan.initial or plan.warm == "none"
    usual = None if needs_no_history else _usual_configs(plan, sources.history)
    if needs_no_history or is_young or usual is not None:  # else the history's answer does
        warn_of_images(query, on_message, skip_broken=plan.skip_broken)
    if plan.initial:
        assert isinstance(plan.initial, tuple)  # noqa: S101  a plan has read them
        return replace(spec, configs=tuple(WarmConfig(config) for config in plan.initial))
    if plan.warm == "none":
        return spec
    if usual is not None:
        on_message(
            f"The history knows nothing of {plan.workload}: the study begins with the usual configurations of that workload."
        )
        return replace(spec, configs=tuple(usual[index] for index in _distinct_indices(plan, usual, on_message)))
    if is_young:
        on_message("The history has no runs yet. The study begins cold.")
        return spec
    answer = _answer(plan, locate(), advisor(), timed)
    notes = (*_source_notes(plan, asked, query), *answer.notes)
    for note in (*notes, *(() if answer.suggestions else ("The study begins cold.",))):
        on_message(note)
    configs = _all_warm_configs(plan, answer, locate().embedded.configs)
    distinct, expectation = _distinct_indices(plan, configs, on_message), answer.expectation
    if expectation is not None:
        expectation = expectation.of([i for i in distinct if i < expectation.n_configs])
    return spec.with_warm(tuple(configs[i] for i in distinct), history_state(Path(answer.history)), expectation)


def _is_young(plan: StudySpec, history: str | os.PathLike[str] | None) -> bool:
    """Tell whether a plan needs suggestions from a history that has no runs yet."""
    from warmstart.history_store.history import History

    if plan.warm == "none" or plan.related or (plan.initial and not plan.members):
        return False
    with History.open(history_path(history)) as store:
        return not store.n_evaluations


def _advisor(plan: StudySpec, sources: Sources) -> Advisor:
    """Return the advisor of a plan."""
    from warmstart.suggestions.advisor import Advisor

    return Advisor(
        **asdict(sources),
        exclude_group=plan.exclude_group,
        skip_broken=plan.skip_broken,
        seed=plan.seed,
        device=resolve_device(plan.device),
    )


def _warn_broken(
    query: Query | Descriptor | None, on_message: Callable[[str], object], skip_broken: SkipBroken
) -> None:
    """Print the pictures of a dataset that cannot be decoded."""
    from warmstart.suggestions.query import Query

    if isinstance(query, Query):
        for picture in left_out_pictures(query.source, skip_broken)[0]:
            on_message(picture.left_out)


def warn_of_images(
    query: Query | Descriptor | None, on_message: Callable[[str], object], *, skip_broken: SkipBroken
) -> None:
    """Print the classes of a dataset with too few pictures, and the pictures that are skipped as broken."""
    from warmstart.suggestions.query import Query

    if skip_broken is not False:
        _warn_broken(query, on_message, skip_broken)
    for note in query.class_notes if isinstance(query, Query) else ():
        on_message(note)


def _sources(sources: Sources, plan: StudySpec, query: Query | Descriptor | None) -> Sources:
    """Return the sources with the history of the study, unless the dataset was described for another history."""
    history = study_history(plan, sources)
    if isinstance(query, Descriptor) and read_header(usual_model(history, sources.model)).hash != query.extractor:
        return replace(sources, history=history_path(sources.history, workload=workload_of_extractor(query.extractor)))
    return replace(sources, history=history)


def study_history(plan: StudySpec, sources: Sources) -> Path:
    """Return the path of the history of a study: of its workload, or the one that fits a script's space."""
    if is_history_named(sources.history):
        return history_path(sources.history)
    return history_path(workload=plan.workload or _script_workload(plan, sources).name)


def _source_notes(plan: StudySpec, sources: Sources, query: Query | Descriptor | None) -> tuple[str, ...]:
    """Return a note on whose history answered for a user's own script."""
    if plan.workload is not None or is_history_named(sources.history) or isinstance(query, Descriptor):
        return ()
    note = _script_workload(plan, sources).note
    return (note,) if note else ()


def _script_workload(plan: StudySpec, sources: Sources) -> DefaultWorkload:
    """Return the workload whose history answers for a user's own script."""
    space, rename = load_space(plan.space), dict(plan.rename)
    return default_workload(space, rename=rename, is_script=True, model=sources.model)


def _answer(plan: StudySpec, location: Location, advisor: Advisor, timed: TimedCall | None) -> Answer:
    """Return the history's suggestions: those that fit the time of a call, if it has durations; else the best."""
    if timed is not None and _can_plan_first(plan, location):
        answer = advisor.suggest(location, None, strategy=plan.strategy, time=timed.limit(plan))
        timed.plan = answer.plan
        if answer.suggestions:
            return answer  # else: what does not fit now may fit in another call
    space, rename = _other_space(plan, location), dict(plan.rename)
    k = min(plan.k, max(1, len(location.embedded.configs)))  # a young history gives what it has
    return advisor.suggest(location, k, strategy=plan.strategy, space=space, rename=rename)


def _can_plan_first(plan: StudySpec, location: Location) -> bool:
    """Tell whether the history plans the first trials by their durations."""
    from warmstart.studies.history.timed_call import can_plan
    from warmstart.suggestions.recommendation import PLANNED

    return plan.strategy in (None, *PLANNED) and can_plan(plan, location)


def _warm_configs(answer: Answer) -> tuple[WarmConfig, ...]:
    """Return the suggestions as warm configurations; after a plan also those that would pay with more time."""
    configs = tuple(_warm_config(design) for design in answer.suggestions if design.is_of_history)
    if answer.plan is None:
        return configs
    # The others are for runs that are shorter than planned, and for another call of the study.
    expected = [] if answer.expectation is None else answer.expectation.errors()[len(configs) : -1]
    return configs + tuple(
        WarmConfig(config, expected_error=None if error is None else error.to_dict())
        for config, error in zip_longest(answer.plan.further_configs, expected)
    )


def _warm_config(design: InitialDesign) -> WarmConfig:
    """Return a suggestion as the study stores it."""
    return WarmConfig(
        dict(design.config),
        design.source,
        design.distance,
        design.source_error,
        design.measured,
        design.not_measured,
        None if design.expected_error is None else design.expected_error.to_dict(),
    )


def _distinct_indices(plan: StudySpec, configs: Sequence[WarmConfig], on_message: Callable[[str], object]) -> list[int]:
    """Return the indices of configurations that train differently: of those that a workload trains alike, the first."""
    if plan.workload is None:
        return list(range(len(configs)))
    workload, first_indices = get_workload(plan.workload), dict[frozenset[tuple[str, Value]], int]()
    for index, warm_config in enumerate(configs):
        first_indices.setdefault(config_key(workload.canonical(warm_config.config)), index)
    if len(first_indices) < len(configs):
        n = len(configs) - len(first_indices)
        on_message(
            f"Left out {counted(n, 'warm configuration')}: {'it trains' if n == 1 else 'each trains'} exactly as an earlier one."
        )
    return list(first_indices.values())


def _curves(plan: StudySpec, locate: Callable[[], Location] | None) -> dict[str, Any]:
    """Return forecasts of learning curves for the dataset of a plan, as a dict.

    Raises:
        UsageError: no dataset, too few curves in the history, or none over hyperparameters of the plan.
    """
    from warmstart.integrations.optuna.pruner import no_curves_error
    from warmstart.suggestions.run_forecasts import fit_run_forecasts

    if locate is None:
        msg = "history needs `dataset`. Give it, or choose the pruner median."
        raise UsageError(msg, param="pruner")
    location = locate()
    forecasts = fit_run_forecasts(location, load_space(plan.space), rename=dict(plan.rename))
    if forecasts is None:
        raise no_curves_error(str(location.embedded.path))
    return forecasts.to_dict()


def _usual_configs(plan: StudySpec, history: str | os.PathLike[str] | None) -> tuple[WarmConfig, ...] | None:
    """Return the default configurations of a workload that the history never measured; else None."""
    from warmstart.suggestions.initial_configs import convert_initial

    usual = () if plan.workload in (None, DEFAULT) else get_workload(plan.workload).usual_configs()
    if not usual:
        return None
    if measures(glance(history_path(history)).space_json, plan.workload or DEFAULT):
        return None
    space = load_space(plan.space)
    translation = convert_initial(
        space, [_legal_part(space, config) for config in usual[: plan.k]], rename={}, seed=plan.seed
    )
    return tuple(WarmConfig(config, measured=False) for config in translation.configs)


def _all_warm_configs(plan: StudySpec, answer: Answer, measured: Sequence[Config]) -> tuple[WarmConfig, ...]:
    """Return the warm configurations of a study: suggestions, then configurations that the history never measured."""
    configs = _warm_configs(answer)
    return configs + _unmeasured(plan, configs[0].config if configs else None, measured)


def _unmeasured(plan: StudySpec, best: Config | None, measured: Sequence[Config]) -> tuple[WarmConfig, ...]:
    """Return configurations of a plan's space that the history never measured.

    The best suggestion at the largest image size of the space, where the history measured none as large; and the usual
    configurations of the workload that have hyperparameters no configuration of the history has, put into the space.
    """
    if plan.workload is None:
        return ()
    workload, space = get_workload(plan.workload), load_space(plan.space)
    sizes = [size for config in measured if isinstance(size := config.get("image_size"), int)]
    largest, measured_names = workload.largest_image(space), {name for config in measured for name in config}
    configs: list[Config] = []
    if best is not None and largest is not None and largest > max(sizes, default=largest):
        larger = {**best, "image_size": largest}
        configs += [larger] if Encoding(space).fits([larger])[0] else []
    configs += _translated_usual(
        space, [config for config in workload.usual_configs() if set(config) - measured_names], seed=plan.seed
    )
    return tuple(WarmConfig(config, measured=False) for config in configs)


def _translated_usual(space: ConfigurationSpace, usual: Sequence[Config], *, seed: int) -> list[Config]:
    """Translate a workload's default configurations into a space that has all their names."""
    from warmstart.suggestions.initial_configs import convert_initial

    configs: list[Config] = []
    for config in usual:
        if not set(config) <= set(space):
            continue
        try:
            translated = convert_initial(space, [_legal_part(space, config)], rename={}, seed=seed).configs
        except UsageError:  # a combination that the space forbids
            continue
        configs += [candidate for candidate in translated if set(config) <= set(candidate) and candidate not in configs]
    return configs


def _legal_part(space: ConfigurationSpace, config: Config) -> Config:
    """Drop choices that a space lacks, such as backbones; numbers stay, and are moved to the nearest later."""
    return {
        name: value
        for name, value in config.items()
        if name not in space
        or (isinstance(value, int | float) and not isinstance(value, bool))
        or space[name].legal_value(value)
    }


def _other_space(plan: StudySpec, location: Location) -> ConfigurationSpace | None:
    """Return the space of a plan if it is not the history's or names are translated; else None."""
    is_same = same_space(location.embedded.space_json, plan.space)
    return None if is_same and not plan.rename else load_space(plan.space)


def check_history(plan: StudySpec, sources: Sources, on_message: Callable[[str], object]) -> None:
    """Print that a history changed since the study read it; the study keeps its suggestions."""
    if plan.history is None:
        return
    try:
        state = history_state(study_history(plan, sources))
    except WarmstartError:  # gone, or locked: the study does not need it any more
        return
    if (state["id"], state["revision"]) != (plan.history["id"], plan.history["revision"]):
        on_message(
            f"{state['path']}: the history has changed since the study began; its warm configurations stay as they were."
        )
