"""Tune hyperparameters: run the trials of a study, which is stored after every trial."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from warmstart.arguments import check_path
from warmstart.bo.space.encoding import Encoding
from warmstart.history_store.deprecation import renamed
from warmstart.history_store.errors import UsageError, WarmstartError
from warmstart.history_store.space import load_space
from warmstart.history_store.wording import counted
from warmstart.locations import PathLike
from warmstart.prediction import predict_validation
from warmstart.studies.execution.first_failures import ALIKE, fail_alike
from warmstart.studies.execution.local_workers import run_workers
from warmstart.studies.execution.planned_pace import planned_key
from warmstart.studies.execution.worker import Job, Limits, Runners, work
from warmstart.studies.history.time_plan import TimedCall, plan_lines, warn_idle_cores, warn_unrun_plan
from warmstart.studies.history.warm_start import check_history
from warmstart.studies.objectives.base import Objective
from warmstart.studies.objectives.best_networks import BestNetworks
from warmstart.studies.objectives.function import check_not_importing
from warmstart.studies.objectives.metric import Metric, Scale
from warmstart.studies.objectives.workload import WorkloadObjective
from warmstart.studies.options import (
    Execution,
    Outputs,
    Problem,
    Pruner,
    Search,
    Sources,
    Warm,
    WarmStart,
)
from warmstart.studies.results.comparison import Comparison, compare_with_uniform
from warmstart.studies.results.progress import StudyProgress, Watch
from warmstart.studies.results.report import add_classifier, write_joint_report, write_report
from warmstart.studies.results.saved_networks import seconds_of_best
from warmstart.studies.results.summary import JointResult, TuneResult, summarise
from warmstart.studies.results.trial import check_any_error, ended_trials
from warmstart.studies.state.spec import StudySpec, check_warm
from warmstart.studies.state.split import Split
from warmstart.studies.state.storage import Store, is_new_storage, local_path, open_store
from warmstart.studies.state.study_group import StudyGroup, check_different
from warmstart.studies.state.trial_queue import TrialQueue, find_plan
from warmstart.studies.study_outputs import (
    StudyOutputs,
    check_outputs,
    log_file,
    network_folder,
    report_path,
    try_write_report,
    with_log,
)
from warmstart.studies.tune_options import TuneOptions, dataset_labels, with_label
from warmstart.suggestions.larger_pictures import picture_facts
from warmstart.training.workloads import DEFAULT, get_workload

if TYPE_CHECKING:
    from warmstart.integrations.ray.cluster import Cluster
    from warmstart.spaces import SpaceLike
    from warmstart.suggestions.query import Query
    from warmstart.training.workloads.time_plan import RunPlan


def tune(
    dataset: PathLike | None = None,
    *,
    objective: str | Callable[..., object] | None = Problem.objective,
    command: str | None = Problem.command,
    space: SpaceLike | None = Problem.space,
    trials: int | None = Execution.trials,
    timeout: str | float | None = Execution.timeout,
    time: str | float | None = Execution.time,
    storage: PathLike | None = Execution.storage,
    study: str | None = Execution.study,
    warm: Warm = WarmStart.warm,
    k: int = WarmStart.k,
    n_startup_trials: int = WarmStart.n_startup_trials,
    strategy: str | None = WarmStart.strategy,
    history: PathLike | None = Sources.history,
    model: PathLike | None = Sources.model,
    exclude_group: str | Collection[str] | None = WarmStart.exclude_group,
    rename: Mapping[str, str] | tuple[tuple[str, str], ...] = WarmStart.rename,
    initial: PathLike | Sequence[Any] = WarmStart.initial,
    related: str | Collection[str] = WarmStart.related,
    neighbours: int = WarmStart.neighbours,
    surrogate: str = Search.surrogate,
    acquisition: str = Search.acquisition,
    pruner: Pruner = Search.pruner,
    budget: float | None = Search.budget,
    workload: str = Problem.workload,
    metric: str | None = Search.metric,
    maximize: bool = Search.maximize,
    scale: Scale | None = Search.scale,
    target_budget: str | None = Problem.target_budget,
    skip_broken: bool = Problem.skip_broken,
    trial_timeout: str | float | None = Execution.trial_timeout,
    trial_memory: str | int | None = Execution.trial_memory,
    workers: int | None = Execution.workers,
    cluster: Cluster | None = Execution.cluster,
    seed: int = Search.seed,
    device: str = Execution.device,
    log: PathLike | None = Outputs.log,
    record: str | None = Outputs.record,
    report: PathLike | Literal[True] | None = Outputs.report,
    save_model: PathLike | None = Outputs.save_model,
    ensemble: int = Outputs.ensemble,
    cache: bool = Sources.cache,
    download: bool = Sources.download,
    progress: Callable[[StudyProgress], None] | None = Outputs.progress,
    on_message: Callable[[str], object] = Outputs.on_message,
    startup: int | None = None,
    tell: Callable[[str], object] | None = None,
) -> TuneResult:
    """Tune an objective, starting from configurations that won on similar datasets.

    The same call again continues where an earlier one stopped, however it stopped, and does nothing after the last
    trial. With one worker and an objective that depends on its seed only, the trials are those of an uninterrupted
    call.

    Args:
        dataset: path of images, as in `warmstart.suggest`; passed to the objective. Your own objective without a warm
            start may have any path.
        objective: a function, ``module:function`` or ``file.py:function``; see docs/tuning.md for its arguments.
            Without `objective` and `command`: the workload on the dataset.
        command: a program with placeholders, ``python train.py --lr {learning_rate}``, which prints its error.
        space: to search, in any form that `warmstart.spaces.read_space` takes; the history's when left out.
        trials: of the study, with those of earlier calls; 50 without a time or time-out.
        timeout: seconds, or ``30m``, after which this call begins no trial.
        time: seconds, or ``30m``, of the whole call, instead of `timeout`. Of the history's configurations those are
            planned that fit and pay per minute; only trials that are likely to end in time are begun, and late ones are
            stopped.
        storage: path or URL; see `warmstart.studies.state.storage.open_store`.
        study: its name; from the names of the dataset and the objective when left out.
        warm: ``design``: the warm configurations are the whole initial design; ``initial``: they are the first of
            `n_startup_trials`; ``extra``: they come before `n_startup_trials`; the others are a Sobol sequence;
            ``none``.
        k: number of warm configurations.
        n_startup_trials: see `warm`; size of the initial design without warm configurations.
        strategy: of the warm start; see `warmstart.suggest`.
        history: of the suggestions; see `warmstart.suggest`.
        model: of the meta-features; see `warmstart.suggest`.
        exclude_group: of the history; see `warmstart.suggest`.
        rename: names of the space by the history's, or by those of `initial`; see `warmstart.suggest`.
        initial: first configurations instead of the history's: a file of ``warmstart suggest --format json``, ``yaml``
            or ``csv``, configurations, or the result of `warmstart.suggest`. They are translated into the space; `k` is
            ignored.
        related: datasets of the history whose evaluations the surrogate uses too, or ``auto``: the nearest ones.
        neighbours: number of datasets for ``auto``, each of another group.
        surrogate: a name in `warmstart.bo.surrogates.SURROGATES`; with related datasets, ``gp``, ``dngo`` or ``bohamiann``.
        acquisition: a name in `warmstart.bo.models.ACQUISITIONS`.
        pruner: stops hopeless trials by their reports: ``none``, ``median``, ``asha``, ``hyperband``, or ``history``:
            by the history's learning curves.
        budget: of each trial, in the objective's unit.
        metric: if the result is no error: a key of the objective's result; of a command also ``last``,
            ``regex:PATTERN`` or ``file:PATH:KEY``; see docs/tuning.md.
        maximize: larger is better.
        scale: of the metric: ``fraction`` (0 to 1), ``percent`` (0 to 100) or ``any``; when left out any, but at most 1
            if larger is better.
        workload: to train without your own objective: a name in `warmstart.training.workloads.WORKLOADS`.
        target_budget: name of a budget of the workload; None = the default one.
        skip_broken: skip pictures that cannot be decoded; your own objective must do that itself.
        trial_timeout: seconds, or ``30m``, after which a trial is stopped and counts as failed.
        trial_memory: bytes, or ``4G``, above which a trial is stopped and counts as failed.
        workers: processes on this machine, 1 when left out; with a cluster, on its nodes, as many as fit.
        cluster: of Ray, for the trials; None = this machine. Its workers need the storage and the objective.
        seed: of everything random, the trials' seeds among it.
        device: of the networks.
        log: file to which the output of the trials is appended; with a report, ``trials.log`` beside it when left out.
        record: name of the dataset in the history, to which the trials are added at the end.
        report: Markdown file to write at the end, JSON beside it; True = beside the storage, named after the study.
        save_model: file for the best network; see `warmstart.training.workloads.load_classifier`.
        ensemble: number of the best networks in that file.
        cache: use the cache of meta-features.
        download: let torchvision fetch missing files.
        progress: called when a trial begins, reports or ends.
        on_message: called with each message line; logged by the logger ``warmstart`` when left out.
        startup: the name of `n_startup_trials` in 0.1.
        tell: the name of `on_message` in 0.1.

    Raises:
        UsageError: arguments that do not fit, an objective that cannot be loaded, a study of another space or objective.
        MissingPathError: a path that does not exist.
        DataError: a dataset that cannot be used, a study of another program.
        StorageError: a storage or history that is damaged, locked, gone, read-only or full.
        AllTrialsFailedError: every trial of the study failed.
    """
    options = TuneOptions.of(_current_keywords(locals()))
    if dataset is not None:
        check_path("dataset", dataset)
    return tune_dataset(None if dataset is None else os.fspath(dataset), options)


_OLD_NAMES = {"startup": "n_startup_trials", "tell": "on_message"}
"""Keywords of 0.1, and their present names."""


def _current_keywords(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords by their present names; the names of 0.1 work for one release."""
    keywords = {name: value for name, value in values.items() if name not in _OLD_NAMES}
    for old, new in _OLD_NAMES.items():
        if values.get(old) is not None:
            keywords[new] = renamed(old, values[old], new=new, value=keywords.get(new), stacklevel=4)
    return keywords


def tune_dataset(dataset: str | None, options: TuneOptions, *, began: float | None = None) -> TuneResult:
    """Tune on one dataset or none: `tune` with its options as one record.

    Args:
        dataset: path.
        options: of the call.
        began: `time.monotonic` when the command began, from which its time counts; now when left out.
    """
    began = time.monotonic() if began is None else began
    options.check_time()
    name = options.study or options.name(dataset)
    with ExitStack() as stack:
        save = None if options.save_model is None else Path(options.save_model)
        output = StudyOutputs(options.record, save, network_folder(options, stack))
        return _tune_single(name, dataset, output, options, began)


def _tune_single(
    name: str, dataset: str | None, outputs: StudyOutputs, options: TuneOptions, began: float
) -> TuneResult:
    """Tune on one dataset, and write the outputs."""
    store, outcomes, run_plan = _run_studies(options, {name: dataset}, {name: outputs}, (), "equal", name, began=began)
    result, plan = outcomes[0]
    outputs = outputs if run_plan is None else replace(outputs, sample=run_plan.sample)
    if options.time is not None and result.best is None:
        options.on_message(f"{name}: no trial has ended with an error in this time: give it more.")
    result = replace(result, seconds=time.monotonic() - began)
    if options.report is not None:
        path = report_path(options.report, store, name)
        reported = replace(result, report=str(path))
        result = reported if try_write_report(path, lambda: write_report(path, reported, plan), options) else result
    check_any_error(name, result.trials, workload=plan.workload)
    result, saved = outputs.record_and_save(result, plan, options, deadline=began + options.check_time())
    if saved is not None and result.report is not None and dataset is not None:
        path = Path(result.report)
        predictions = predict_validation(saved, options.save_model or "", dataset, skip_broken=options.skip_broken)
        record = result.saved_model
        assert record is not None  # noqa: S101  of what was saved
        try_write_report(path, lambda: add_classifier(path, predictions, record), options)
    return result


def tune_many(datasets: Sequence[PathLike], *, split: Split = "equal", **options: Any) -> JointResult:
    """Tune several datasets at once: they share a number of trials and learn from each other's results.

    Every dataset has a study of its own, begun with its own warm start. See docs/tuning.md for who gets the next trial.

    Args:
        datasets: at least two, as in `tune`; the same call again, in any order, continues where an earlier one stopped.
        split: ``equal``: in turn; ``gain``: the next trial goes to the largest expected improvement of the error.
        options: keywords of `tune`. `trials` is the total; the name of each dataset is added to `study`, `record` and
            `save_model`.

    Raises:
        UsageError: fewer than two datasets, a repeated one, studies that were begun with others, or as `tune`.
        WarmstartError: as `tune`; `AllTrialsFailedError` if every trial of every dataset failed.
    """
    if unknown := sorted(options.keys() - TuneOptions.__dataclass_fields__.keys() - _OLD_NAMES.keys()):
        msg = f"tune_many() got an unexpected keyword argument {unknown[0]!r}"
        raise TypeError(msg)
    if isinstance(datasets, str | os.PathLike) or not isinstance(datasets, Collection):
        msg = f"tune_many: expected several paths, got {datasets!r}. For one dataset there is `warmstart.tune`."
        raise UsageError(msg)
    for dataset in datasets:
        check_path("dataset", dataset)
    return tune_datasets(
        [os.fspath(dataset) for dataset in datasets], TuneOptions.of(_current_keywords(options)), split=split
    )


# What `help` and editors show: `split`, then the keywords of `tune`.
_tune_signature = inspect.signature(tune)
_tune_many_signature = inspect.signature(tune_many)
tune_many.__signature__ = _tune_many_signature.replace(  # type: ignore[attr-defined]
    parameters=[
        *(param for param in _tune_many_signature.parameters.values() if param.kind is not param.VAR_KEYWORD),
        *(param for param in _tune_signature.parameters.values() if param.kind is param.KEYWORD_ONLY),
    ]
)


def tune_datasets(paths: Sequence[str], options: TuneOptions, *, split: Split) -> JointResult:
    """Tune on several datasets: `tune_many` with its options as one record."""
    began = time.monotonic()
    options.check_time(datasets=len(paths))
    check_different(paths, [os.path.realpath(path) for path in paths])
    with ExitStack() as stack:
        return _tune_several(paths, options, split, began, stack)


def _tune_several(
    paths: Sequence[str], options: TuneOptions, split: Split, began: float, stack: ExitStack
) -> JointResult:
    """Tune on several datasets, and write the outputs."""
    study, record = options.study, options.record
    save = None if options.save_model is None else Path(options.save_model)
    labels = dataset_labels(paths)
    names = [f"{study}-{label}" if study else options.name(label) for label in labels]
    outputs = {
        name: StudyOutputs(
            record and f"{record}-{label}", save and with_label(save, label), network_folder(options, stack)
        )
        for name, label in zip(names, labels, strict=True)
    }
    title = study or f"{labels[0]}-and-{len(labels) - 1}-more"
    # Whatever the order of the call, ties are broken alike.
    studies: dict[str, str | None] = dict(sorted(zip(names, paths, strict=True)))
    store, outcomes, _ = _run_studies(options, studies, outputs, tuple(studies), split, title, began=began)
    outcomes.sort(key=lambda each: names.index(each[0].study))
    joint = JointResult(
        store.display_name,
        split,
        tuple(result for result, _ in outcomes),
        tuple(plan.design for _, plan in outcomes),
        seconds=time.monotonic() - began,
    )
    if options.report is not None:
        path = report_path(options.report, store, title, names)
        reported = replace(joint, report=str(path))
        plans = [plan for _, plan in outcomes]
        is_written = try_write_report(path, lambda: write_joint_report(path, title, reported, plans), options)
        joint = reported if is_written else joint
    check_any_error(
        title, [trial for result, _ in outcomes for trial in result.trials], workload=outcomes[0][1].workload
    )
    pairs = zip(joint.studies, outcomes, outputs.values(), strict=True)
    joint = replace(
        joint, studies=tuple(output.record_and_save(result, plan, options)[0] for result, (_, plan), output in pairs)
    )
    if joint.report is not None and any(result.saved_model is not None for result in joint.studies):
        try_write_report(path, lambda: write_joint_report(path, title, joint, plans), options)  # which names the files
    return joint


def _run_studies(
    options: TuneOptions,
    paths: Mapping[str, str | None],
    outputs: Mapping[str, StudyOutputs],
    members: tuple[str, ...],
    split: Split,
    title: str,
    *,
    began: float,
) -> tuple[Store, list[tuple[TuneResult, StudySpec]], RunPlan | None]:
    """Run the trials of studies, by name and path of their datasets; return the results and plans, and a workload's plan."""
    check_not_importing()
    limits = options.limits()
    store = None if is_new_storage(options.storage) else open_store(options.storage)
    stored = {name: None if store is None else find_plan(store, name) for name in paths}
    check_warm(options.warm)
    queries = {name: options.open(path) for name, path in paths.items()}
    plans = {
        name: options.plan(path, stored[name], query=queries[name], members=members, split=split)
        for name, path in paths.items()
    }
    if members:
        check_different([path or "" for path in paths.values()], [plan.fingerprint for plan in plans.values()])
    targets = tuple(outputs[name].with_networks(options.target(plan)) for name, plan in plans.items())
    check_outputs(options, plans, outputs)
    timed = None if options.time is None else _timed_call(options, targets[0], began)
    if timed is not None and not members:
        timed.run_plan = _run_plan(timed, options, plans[title], stored[title], queries[title])
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
        stack.enter_context(_quiet_optuna())
        group = stack.enter_context(StudyGroup.begin(store, plans, complete))
        for old in stored.values():
            if old is not None:
                check_history(old, options.history, options.on_message)
        if timed is not None:
            networks = outputs[title].networks
            limits = _with_time_limits(timed, limits, group.queues[0], options, query=queries[title], networks=networks)
        if options.workers not in (None, 1):  # each has processes of its own
            trial_stack.close()
        watch = Watch(group, limits, options.progress, options.on_message)
        n_before, job = watch.look(), Job(store.url, tuple(paths), limits, targets, log_file(options))
        _announce_study(title, store, n_before, limits, options)
        if n_before < limits.trials:
            _run(group, job, options, store, watch, runners)
        outcomes = [(summarise(queue), _local_plan(queue, paths, options)) for queue in group.queues]
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
_JOIN_S, _ANSWER_SHARE = 10.0, 0.02
"""Most seconds for joining networks after a workload's plan, and the share of the time by which its last run ends early."""


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
    if queue.plan.workload is not None and options.workers is None:
        warn_idle_cores(timed, device=options.device)
    return replace(limits, until=min(limits.until, pace.ends), pace=pace)


def _run_plan(
    timed: TimedCall, options: TuneOptions, plan: StudySpec, stored: StudySpec | None, query: Query | None
) -> RunPlan | None:
    """Return the workload's own plan for a call; None without one, or for a study that began in another way."""
    if plan.workload is None or query is None or plan.initial or plan.related or plan.warm == "none":
        return None
    timed.saves = 0.0 if options.save_model is None else min(_JOIN_S, _JOIN_SHARE * timed.seconds)
    began, used = time.monotonic(), time.process_time()
    facts, encoding = picture_facts(query.source), Encoding(load_space(plan.space))
    share = (time.process_time() - used) / max(time.monotonic() - began, 1e-9)
    workload = get_workload(plan.workload)
    run_plan = workload.run_plan(facts, seconds=max(timed.left, 1.0), core_share=min(max(share, _LEAST_SHARE), 1.0))
    if run_plan is not None and stored is None and all(encoding.fits(run_plan.configs[:1])):
        return run_plan
    known = set() if stored is None else {planned_key(design.config) for design in stored.configs}
    if run_plan is not None and planned_key(run_plan.configs[0]) in known:
        return run_plan
    timed.saves = 0.0
    return None


def _within(target: Objective, timed: TimedCall) -> Objective:
    """Return an objective whose last run ends with the time of a workload's plan, and that sees its pictures."""
    if timed.run_plan is None or not isinstance(target, WorkloadObjective):
        return target
    until = timed.ends - _ANSWER_SHARE * timed.seconds
    return replace(target, sample=timed.run_plan.sample, until=until)


def _run(
    group: StudyGroup, job: Job, options: TuneOptions, store: Store, watch: Watch, runners: Runners | None
) -> None:
    """Run the trials: on a cluster, in this process, or in several."""
    if options.cluster is not None:
        from warmstart.integrations.ray.studies import run_on_cluster

        run_on_cluster(job, options.cluster, store, workers=options.workers, look=watch.look)
    elif options.workers in (None, 1):
        callbacks = {"on_end": watch.look, "on_begin": watch.look, "on_report": watch.glance}
        work(group, job.objectives, job.limits, log=job.log, runners=runners, **callbacks)
    else:
        run_workers(job, options.workers, watch.look)


def _announce_study(study: str, store: Store, trials: int, limits: Limits, options: TuneOptions) -> None:
    """Print that an existing study may be of another function or is complete; of a new one, which values are better."""
    if not trials and (note := Metric(options.metric, options.maximize, options.scale).direction_note):
        options.on_message(note)
    advice = "For another function begin another study with `study`." if _is_namesake(options.objective) else ""
    if trials >= limits.trials:
        if advice or options.progress is None:
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
    return TimedCall(began, options.check_time(), options.workers or 1, target, options.on_message)


@contextmanager
def _quiet_optuna() -> Iterator[None]:
    """Silence Optuna's messages, which repeat ours; restore its log level afterwards."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
