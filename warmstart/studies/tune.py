"""Tune hyperparameters: run the trials of a study, which is stored after every trial."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.arguments import check_path
from warmstart.bo.space.encoding import Encoding
from warmstart.history_store.canonical import canonical
from warmstart.history_store.deprecation import renamed
from warmstart.history_store.errors import UsageError, WarmstartError
from warmstart.history_store.space import load_space
from warmstart.history_store.wording import counted
from warmstart.locations import PathLike
from warmstart.notebook import is_notebook
from warmstart.option import show_options
from warmstart.studies.execution.gpus import only_gpus
from warmstart.studies.execution.local_workers import run_workers
from warmstart.studies.execution.pace import planned_key
from warmstart.studies.execution.worker import ALIKE, Job, Limits, Runners, fail_alike, work
from warmstart.studies.history.timed_call import BUSY_SHARE, TimedCall, plan_lines, warn_idle_cores, warn_unrun_plan
from warmstart.studies.history.warm_start import check_history
from warmstart.studies.objectives.base import Objective
from warmstart.studies.objectives.best_networks import BestNetworks
from warmstart.studies.objectives.function import check_not_importing
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.objectives.workload import WorkloadObjective
from warmstart.studies.options import GROUPS, Group, pick_from
from warmstart.studies.results.comparison import Comparison, compare_with_uniform
from warmstart.studies.results.live_progress import shown_in_notebook
from warmstart.studies.results.saved_networks import seconds_of_best
from warmstart.studies.results.summary import JointResult, TuneResult, summarise
from warmstart.studies.results.trial import ended_trials
from warmstart.studies.results.watch import Watch
from warmstart.studies.state.spec import StudySpec, check_warm
from warmstart.studies.state.split import Split
from warmstart.studies.state.storage import Store, is_new_storage, local_path, open_store, quiet_optuna
from warmstart.studies.state.study_group import StudyGroup, check_different
from warmstart.studies.state.trial_queue import TrialQueue, find_plan
from warmstart.studies.study_names import (
    OpenedDatasets,
    begin_anew,
    choose_names,
    explicit_names,
    stored_plans,
    with_workload_of,
)
from warmstart.studies.study_outputs import (
    StudyOutputs,
    check_outputs,
    finish_studies,
    finish_study,
    log_file,
    network_folder,
    outputs_of_trials,
    report_path,
    with_log,
)
from warmstart.studies.tune_options import TuneOptions, dataset_labels, with_label
from warmstart.suggestions.query import typical_picture_side
from warmstart.training.workloads import DEFAULT, get_workload
from warmstart.training.workloads.run_plan import PictureFacts, RunPlan

if TYPE_CHECKING:
    from warmstart.spaces import SpaceLike
    from warmstart.suggestions.query import Query


def tune(  # noqa: D417  the texts of the options are put in below
    dataset: PathLike | None = None,
    *groups: Group,
    objective: str | Callable[..., object] | None = None,
    command: str | None = None,
    space: SpaceLike | None = None,
    trials: int | None = None,
    time: str | float | None = None,
    storage: PathLike | None = None,
    study: str | None = None,
    **options: Any,
) -> TuneResult:
    """Tune an objective, starting from configurations that won on similar datasets.

    The same call again continues where an earlier one stopped, however it stopped, and does nothing after the last
    trial. With one worker and an objective that depends on its seed only, the trials are those of an uninterrupted
    call.

    Args:
        dataset: path of images, as in `warmstart.suggest`; passed to the objective. Your own objective without a warm
            start may have any path.
        groups: options as records: `Search`, `WarmStart`, `Sources`, `Execution`, `Outputs` of
            `warmstart.studies.options`, at most one of each.
        {options}

    Raises:
        TypeError: an option that does not exist, or one that is given twice.
        UsageError: arguments that do not fit, an objective that cannot be loaded, a study of another space or objective.
        MissingPathError: a path that does not exist.
        DataError: a dataset that cannot be used, a study of another program.
        StorageError: a storage or history that is damaged, locked, gone, read-only or full.
        AllTrialsFailedError: every trial of the study failed.
    """
    direct = {
        "objective": objective,
        "command": command,
        "space": space,
        "trials": trials,
        "time": time,
        "storage": storage,
        "study": study,
    }
    options |= {name: value for name, value in direct.items() if value is not None}
    call = TuneOptions.of(_with_groups(groups, _current_keywords(options)))
    if dataset is not None:
        check_path("dataset", dataset)
    with shown_in_notebook(call, Metric(call.metric, call.maximize, call.scale)) as shown:
        return tune_dataset(None if dataset is None else os.fspath(dataset), shown)


_OLD_NAMES = {"startup": "n_startup_trials", "tell": "on_message"}
"""Keywords of 0.1, and their present names."""


def _current_keywords(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords by their present names; the names of 0.1 work for one release."""
    keywords = {name: value for name, value in values.items() if name not in _OLD_NAMES}
    for old, new in _OLD_NAMES.items():
        if values.get(old) is not None:
            keywords[new] = renamed(old, values[old], new=new, value=keywords.get(new), stacklevel=4)
    return keywords


def _with_groups(groups: Sequence[Group], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of groups and keywords together.

    Raises:
        TypeError: an argument that is no group, or an option that is given twice.
    """
    values: dict[str, Any] = {}
    for group in groups:
        if type(group) not in GROUPS:
            names = ", ".join(item.__name__ for item in GROUPS)
            msg = f"tune() expected a dataset, then groups of options ({names}), got {group!r}"
            raise TypeError(msg)
        options = pick_from(type(group), group)
        if twice := sorted(options.keys() & (values.keys() | keywords.keys())):
            msg = f"tune() got {twice[0]!r} twice, once in {type(group).__name__}"
            raise TypeError(msg)
        values |= options
    return {**values, **keywords}


def tune_dataset(dataset: str | None, options: TuneOptions, *, began: float | None = None) -> TuneResult:
    """Tune on one dataset or none: `tune` with its options as one record.

    Args:
        dataset: path.
        options: of the call.
        began: `time.monotonic` when the command began, from which its time counts; now when left out.
    """
    began = time.monotonic() if began is None else began
    options.check_time()
    (name,), datasets, options = _named([dataset], options)
    with only_gpus(options.gpus), ExitStack() as stack:
        save = None if options.save_model is None else Path(options.save_model)
        output = StudyOutputs(options.record, save, network_folder(options, stack))
        return _tune_single(name, dataset, output, options, datasets, began)


def _named(
    paths: Sequence[str | None], options: TuneOptions, split: Split = "equal"
) -> tuple[tuple[str, ...], OpenedDatasets, TuneOptions]:
    """Return the names of the studies of a call, its datasets, opened where that was needed, and its workload's options."""
    check_not_importing()
    options.limits()  # raises for a wrong number before anything is opened
    check_warm(options.warm)
    datasets = OpenedDatasets(options)
    if options.study is None:
        names, options = choose_names(paths, options, datasets, split=split)
        return names, datasets, options
    names = explicit_names(paths, options.study)
    if not is_new_storage(options.storage):
        store = open_store(options.storage)
        try:
            options = with_workload_of(stored_plans(store, names), options)
        finally:
            store.close()
    return names, datasets, options


def _tune_single(
    name: str, dataset: str | None, outputs: StudyOutputs, options: TuneOptions, datasets: OpenedDatasets, began: float
) -> TuneResult:
    """Tune on one dataset, and write the outputs."""
    named = NamedStudies({name: dataset}, {name: outputs}, datasets, title=name)
    store, outcomes, run_plan = _run_studies(options, named, began=began)
    result, plan = outcomes[0]
    outputs = outputs if run_plan is None else replace(outputs, sample=run_plan.sample)
    if options.time is not None and result.best is None:
        options.on_message(f"{name}: no trial came to a result in this time: give it more.")
    result = replace(result, seconds=time.monotonic() - began)
    report = None if options.report is None else report_path(options.report, store, name)
    return finish_study(result, plan, outputs, options, report, deadline=began + options.check_time())


def tune_many(datasets: Sequence[PathLike], *groups: Group, split: Split = "equal", **options: Any) -> JointResult:
    """Tune several datasets at once: they share a number of trials and learn from each other's results.

    Every dataset has a study of its own, begun with its own warm start. See docs/tune.md for who gets the next trial.

    Args:
        datasets: at least two, as in `tune`; the same call again, in any order, continues where an earlier one stopped.
        split: ``equal``: in turn; ``gain``: the next trial goes to the largest expected improvement of the error.
        groups: as in `tune`.
        options: keywords of `tune`. `trials` is the total; the name of each dataset is added to `study`, `record` and
            `save_model`.

    Raises:
        UsageError: fewer than two datasets, a repeated one, studies that were begun with others, or as `tune`.
        WarmstartError: as `tune`; `AllTrialsFailedError` if every trial of every dataset failed.
    """
    if isinstance(datasets, str | os.PathLike) or not isinstance(datasets, Collection):
        msg = f"tune_many: expected several paths, got {datasets!r}. For one dataset there is `warmstart.tune`."
        raise UsageError(msg)
    for dataset in datasets:
        check_path("dataset", dataset)
    call = TuneOptions.of(_with_groups(groups, _current_keywords(options)))
    with shown_in_notebook(call, Metric(call.metric, call.maximize, call.scale), is_joint=True) as shown:
        return tune_datasets([os.fspath(dataset) for dataset in datasets], shown, split=split)


show_options(tune, *GROUPS)
show_options(tune_many, *GROUPS)


def tune_datasets(paths: Sequence[str], options: TuneOptions, *, split: Split) -> JointResult:
    """Tune on several datasets: `tune_many` with its options as one record."""
    began = time.monotonic()
    options.check_time(datasets=len(paths))
    check_different(paths, [canonical(path) for path in paths])
    with only_gpus(options.gpus), ExitStack() as stack:
        return _tune_several(paths, options, split, began, stack)


def _tune_several(
    paths: Sequence[str], options: TuneOptions, split: Split, began: float, stack: ExitStack
) -> JointResult:
    """Tune on several datasets, and write the outputs."""
    study, record = options.study, options.record
    save = None if options.save_model is None else Path(options.save_model)
    labels = dataset_labels(paths)
    names, datasets, options = _named(paths, options, split)
    outputs = {
        name: StudyOutputs(
            record and f"{record}-{label}", save and with_label(save, label), network_folder(options, stack)
        )
        for name, label in zip(names, labels, strict=True)
    }
    title = study or f"{labels[0]}-and-{len(labels) - 1}-more"
    # Whatever the order of the call, ties are broken alike.
    studies: dict[str, str | None] = dict(sorted(zip(names, paths, strict=True)))
    named = NamedStudies(studies, outputs, datasets, title, tuple(studies), split)
    store, outcomes, _ = _run_studies(options, named, began=began)
    outcomes.sort(key=lambda each: names.index(each[0].study))
    joint = JointResult(
        store.display_name,
        split,
        tuple(result for result, _ in outcomes),
        tuple(plan.design for _, plan in outcomes),
        seconds=time.monotonic() - began,
    )
    report = None if options.report is None else report_path(options.report, store, title, names)
    plans = [plan for _, plan in outcomes]
    return finish_studies(joint, plans, list(outputs.values()), options, report, title=title)


@dataclass(frozen=True, slots=True)
class NamedStudies:
    """The studies of a call.

    Attributes:
        paths: of their datasets, by name.
        outputs: by name.
        datasets: of the call.
        title: of all together.
        members: their names, where several are tuned together.
        split: of the trials between these.
    """

    paths: Mapping[str, str | None]
    outputs: Mapping[str, StudyOutputs]
    datasets: OpenedDatasets
    title: str
    members: tuple[str, ...] = ()
    split: Split = "equal"


def _run_studies(
    options: TuneOptions, named: NamedStudies, *, began: float
) -> tuple[Store, list[tuple[TuneResult, StudySpec]], RunPlan | None]:
    """Run the trials of studies; return the results and plans, and a workload's plan."""
    paths, outputs, members, title = named.paths, named.outputs, named.members, named.title
    limits = options.limits()
    store = None if is_new_storage(options.storage) else open_store(options.storage)
    stored = {name: None if store is None else find_plan(store, name) for name in paths}
    queries = {name: named.datasets[path] for name, path in paths.items()}
    plans = {
        name: options.plan(path, stored[name], query=queries[name], members=members, split=named.split)
        for name, path in paths.items()
    }
    if store is not None:
        stored |= dict.fromkeys(begin_anew(store, plans, stored, limits.trials, options.on_message))
    if members:
        check_different([path or "" for path in paths.values()], [plan.fingerprint for plan in plans.values()])
    targets = tuple(outputs[name].with_networks(options.target(plan)) for name, plan in plans.items())
    check_outputs(options, plans, outputs)
    timed = None if options.time is None else _timed_call(options, targets[0], began)
    if timed is not None and not members:
        timed.run_plan = _run_plan(timed, plans[title], stored[title], queries[title])
        targets = tuple(_within(target, timed) for target in targets)

    def complete(plan: StudySpec) -> StudySpec:
        name = next(name for name, candidate in plans.items() if candidate is plan)
        return new_plans.get(name) or options.complete(plan, queries[name], timed=timed)

    with ExitStack() as stack:
        runners, trial_stack = None, stack.enter_context(ExitStack())
        if timed is not None:
            options = with_log(options, local_path(options.storage), title, members)
            runners = timed.runs_by(lambda: _load_runners(options, targets, trial_stack))
        # A call that is refused, be it by the history, leaves neither an empty storage nor an empty study behind.
        new_plans = {n: options.complete(p, queries[n], timed=timed) for n, p in plans.items() if stored[n] is None}
        options = with_log(options, local_path(options.storage), title, members)
        runners = runners or (_load_runners(options, targets, trial_stack) if None in stored.values() else None)
        store = store or open_store(options.storage)
        stack.enter_context(quiet_optuna())
        group = stack.enter_context(StudyGroup.begin(store, plans, complete))
        for old in stored.values():
            if old is not None:
                check_history(old, options.sources, options.on_message)
        if timed is not None:
            networks = outputs[title].networks
            limits = _with_time_limits(timed, limits, group.queues[0], options, query=queries[title], networks=networks)
        if options.has_processes:  # each has processes of its own
            trial_stack.close()
        trial_outputs = outputs_of_trials(options, title, members)
        watch = Watch(group, limits, options.progress, options.on_message, trial_outputs.last_lines)
        n_before, job = watch.look(), Job(store.url, tuple(paths), limits, targets, trial_outputs)
        _announce_study(title, store, n_before, limits, options)
        if n_before < limits.trials:
            _run(group, job, options, store, watch, runners)
        outcomes = [
            (
                replace(summarise(queue), tracked=trial_outputs.tracking.where(queue.name)),
                _local_plan(queue, paths, options),
            )
            for queue in group.queues
        ]
    warn_early_end([result for result, _ in outcomes], limits, options)
    warn_unrun_plan(timed, *outcomes[0], trials=limits.trials)
    compared = [(_with_comparison(result, plan, timed, limits), plan) for result, plan in outcomes]
    return store, compared, None if timed is None else timed.run_plan


def _local_plan(queue: TrialQueue, paths: Mapping[str, str | None], options: TuneOptions) -> StudySpec:
    """Return the plan of a study with the dataset's path and the device of this call, for the networks to save."""
    return replace(queue.plan, dataset=paths[queue.name], device=options.device)


def warn_early_end(results: Sequence[TuneResult], limits: Limits, options: TuneOptions) -> None:
    """Print why studies ended early: every configuration had its trial, or all trials failed alike."""
    trials = [trial for result in results for trial in result.trials]
    if len(trials) - sum(result.n_extra for result in results) >= limits.trials:
        return
    if len(trials) >= ALIKE and fail_alike((trial.status, trial.note) for trial in trials):
        options.on_message(f"All {len(trials)} trials failed in the same way, so no more was begun.")
    for result in results:
        if result.exhausted:
            options.on_message(
                f"{result.study}: every configuration of the space has had its trial: the study ends after {len(result.trials)}."
            )


_JOIN_SHARE, _RETRAIN_SHARE = 0.05, 0.35
"""Largest shares of a call's time: for joining networks, and for training those of earlier calls again."""
_LEAST_SHARE = 0.1
"""Least share of a core that is believed of a busy machine."""
_STARTS, _MOST_FINISH_S = 1.2, 15.0
"""Seconds for joining the networks of a workload's plan and for the report, in those of the start, which loads as many
libraries; at most so many of an idle core."""
_ANSWER_SHARE, _ANSWER_S = 0.02, 3.0
"""Share of the time, and most seconds, by which the last run of a workload's plan ends early."""


def _with_time_limits(
    timed: TimedCall,
    limits: Limits,
    queue: TrialQueue,
    options: TuneOptions,
    *,
    query: Query | None,
    networks: BestNetworks | None,
) -> Limits:
    """Return limits that end all trials within the time of a call, and print its plan."""
    pace = timed.pace(queue, sources=options.sources, query=query)
    if (
        options.save_model is not None and timed.run_plan is None
    ):  # what was not kept is trained again in the end, and what is quick in any case
        configs = [design.config for design in queue.plan.configs] or [
            load_space(queue.plan.space).get_default_configuration()
        ]
        seconds = pace.forecast(load_space(queue.plan.space), configs)
        reserved = options.ensemble * max((design.high for design in seconds), default=0.0)
        if networks is not None:  # of this call; what earlier ones trained is trained again
            workload = get_workload(queue.plan.workload or DEFAULT)
            earlier = seconds_of_best(workload, ended_trials(queue.trials()), options.ensemble)
            reserved = min(reserved, _JOIN_SHARE * timed.seconds) + min(earlier, _RETRAIN_SHARE * timed.seconds)
        pace = replace(pace, ends=pace.ends - reserved, over=pace.over - reserved)
    for line in plan_lines(timed, pace, queue.plan, n_ended=len(ended_trials(queue.trials()))):
        options.on_message(line)
    if queue.plan.workload is not None and options.workers is None and options.gpus is None:
        warn_idle_cores(timed, device=options.device)
    return replace(limits, until=min(limits.until, pace.ends), pace=pace)


def _run_plan(timed: TimedCall, plan: StudySpec, stored: StudySpec | None, query: Query | None) -> RunPlan | None:
    """Return the workload's own plan for a call; None without one, or for a study that began in another way."""
    if plan.workload is None or query is None or plan.initial or plan.related or plan.warm == "none":
        return None
    began, used = time.monotonic(), time.process_time()
    facts = PictureFacts.of(query.source, typical_picture_side(query.source))
    encoding = Encoding(load_space(plan.space))
    share = (time.process_time() - used) / max(time.monotonic() - began, 1e-9)
    share = min(max(share, _LEAST_SHARE), 1.0)
    usual = timed.finish
    timed.finish = min(_STARTS * timed.start, _MOST_FINISH_S / share, BUSY_SHARE * timed.seconds)
    workload = get_workload(plan.workload)
    run_plan = workload.run_plan(facts, seconds=max(timed.left, 1.0), core_share=share)
    if run_plan is not None and stored is None and all(encoding.fits(run_plan.configs[:1])):
        return run_plan
    known = set() if stored is None else {planned_key(design.config) for design in stored.configs}
    if run_plan is not None and planned_key(run_plan.configs[0]) in known:
        return run_plan
    timed.finish = usual
    return None


def _within(target: Objective, timed: TimedCall) -> Objective:
    """Return an objective whose last run ends with the time of a workload's plan, and that sees its pictures."""
    if timed.run_plan is None or not isinstance(target, WorkloadObjective):
        return target
    until = timed.ends - min(_ANSWER_SHARE * timed.seconds, _ANSWER_S)
    return replace(target, sample=timed.run_plan.sample, until=until)


def _run(
    group: StudyGroup, job: Job, options: TuneOptions, store: Store, watch: Watch, runners: Runners | None
) -> None:
    """Run the trials: on a cluster, in this process, or in several."""
    if options.cluster is not None:
        from warmstart.integrations.ray.studies import run_on_cluster

        run_on_cluster(job, options.cluster, store, workers=options.workers, look=watch.look)
    elif options.has_processes:
        names = job.outputs.heard_by(options.on_message).tracking.prepared(job.studies)
        tracking = replace(job.outputs.tracking, names=names)
        job = replace(job, outputs=replace(job.outputs, tracking=tracking))
        run_workers(job, options.places, watch.look, options.on_message)
    else:
        callbacks = {"on_end": watch.look, "on_begin": watch.look, "on_report": watch.glance}
        outputs = job.outputs.heard_by(options.on_message)
        work(group, job.objectives, job.limits, outputs=outputs, runners=runners, **callbacks)


def _announce_study(study: str, store: Store, trials: int, limits: Limits, options: TuneOptions) -> None:
    """Print that an existing study may be of another function or is complete; of a new one, which values are better."""
    if not trials and (note := Metric(options.metric, options.maximize, options.scale).direction_note):
        options.on_message(note)
    advice = "For another function begin another study with `study`." if _is_namesake(options.objective) else ""
    if trials >= limits.trials:
        if advice or options.progress is None or is_notebook():
            existing = "the 1 trial is" if trials == 1 else f"all {trials} trials are"
            options.on_message(
                f"{study}: {existing} there already: none was run. A larger `trials` adds more. {advice}".rstrip()
            )
    elif trials and advice:
        options.on_message(
            f"{study} in {store.display_name}: goes on from {counted(trials, 'trial')}, begun with a function of the same name. {advice}"
        )


def _is_namesake(objective: object) -> bool:
    """Tell whether an objective's name may not be unique: a lambda, a closure, an object, a function of a notebook."""
    name = getattr(objective, "__qualname__", "<object>")
    return callable(objective) and ("<" in name or getattr(objective, "__module__", "") == "__main__")


def _load_runners(options: TuneOptions, targets: Sequence[Objective], stack: ExitStack) -> Runners | None:
    """Load the objectives before a study is created: a failure leaves neither a study nor a log.

    Returns: None for a cluster, whose own processes may have what this machine lacks.
    """
    if options.cluster is not None:
        return None
    log = log_file(options)
    is_new = log is not None and not log.exists()
    try:
        return Runners(targets, log, stack)
    except WarmstartError:
        if log is not None and is_new:
            with suppress(OSError):  # what is not empty stays
                if not log.stat().st_size:
                    log.unlink()
                if options.report is True:
                    log.parent.rmdir()
                    log.parent.parent.rmdir()
        raise


def _with_comparison(result: TuneResult, plan: StudySpec, timed: TimedCall | None, limits: Limits) -> TuneResult:
    """Return a result with the time plan, and with the comparison if there is time for it."""
    planned = None if timed is None else timed.plan
    if timed is not None and timed.run_plan is not None:
        return result
    if timed is not None and limits.pace is not None and time.monotonic() + limits.pace.slowest > timed.over:
        return replace(result, plan=planned)
    return replace(result, comparison=compare_study(result, plan), plan=planned)


def compare_study(result: TuneResult, plan: StudySpec) -> Comparison:
    """Compare a study with uniform sampling of its space."""
    least = result.metric.least_error if plan.workload is None else 0.0
    return compare_with_uniform(
        load_space(plan.space), result.trials, surrogate=plan.surrogate, seed=plan.seed, least=least
    )


def _timed_call(options: TuneOptions, target: Objective, began: float) -> TimedCall:
    """Return the time of a call, whose options limit it."""
    return TimedCall(began, options.check_time(), len(options.places), target, options.on_message)
