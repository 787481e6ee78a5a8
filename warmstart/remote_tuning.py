"""`warmstart tune --server`: run trials on this machine for studies on a server."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.client import Client
from warmstart.default_workload import DefaultWorkload, default_workload
from warmstart.history_store.canonical import canonical
from warmstart.history_store.errors import LeaseLostError, OtherStudyError, StorageError, UsageError, WarmstartError
from warmstart.history_store.space import load_space
from warmstart.history_store.wording import duration, some_of
from warmstart.remote_study import WAIT_S, RemoteStudy, RemoteTrial, seconds_or_none
from warmstart.service.shapes import STUDY
from warmstart.service.spaces import space_to_wire
from warmstart.service.transport import segment
from warmstart.studies.execution.worker import work
from warmstart.studies.history.warm_start import warn_of_images
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.objectives.command import placeholders
from warmstart.studies.output_paths import check_distinct, check_log, check_report_path, log_beside
from warmstart.studies.related_dataset import RelatedDataset
from warmstart.studies.results.expectations import StudyExpectations
from warmstart.studies.results.progress import RunningTrial, StudyProgress
from warmstart.studies.results.saved_networks import check_savable
from warmstart.studies.results.summary import JointResult, TuneResult
from warmstart.studies.results.trial import Trial, Trials, best_of, failures
from warmstart.studies.results.watch import warn_first_failure
from warmstart.studies.state.spec import StudySpec, WarmConfig, check_warm
from warmstart.studies.state.split import Split
from warmstart.studies.state.study_group import check_different
from warmstart.studies.state.trial_queue import Run, Wait
from warmstart.studies.study_names import candidate_names, explicit_names, new_study_line
from warmstart.studies.study_outputs import (
    KEPT_ON_SERVER,
    StudyOutputs,
    finish_studies,
    finish_study,
    outputs_of_trials,
)
from warmstart.studies.tune import compare_study, warn_early_end
from warmstart.studies.tune_options import TuneOptions, dataset_labels, with_label
from warmstart.suggestions.initial_configs import read_initial

if TYPE_CHECKING:
    from warmstart.studies.execution.worker import Limits
    from warmstart.suggestions.query import Query

_LOCAL_ONLY = {
    "storage": "The server has its own storage",
    "history": "The server has its own history",
    "cluster": "Run the same command on each machine instead",
    "gpus": "Run the same command once a GPU, with another CUDA_VISIBLE_DEVICES each",
    "record": "Record runs with `warmstart history record --server URL`, or tune without `server`",
}
"""Options that need a local study, with a reason or an alternative."""

_TEXT = (str, None)
_MAX_POINTS = 10_000
"""Points of a curve at most in a result, which is limited to a megabyte."""


def tune_on_server(dataset: str | None, options: TuneOptions, client: Client) -> TuneResult:
    """Tune on a server's study, and begin it if it is new: `warmstart.tune` with one worker on this machine.

    The dataset is described on this machine: its pictures, its path and its classes' names are not sent. The name of
    the objective or the command is sent to identify the study. Networks to save are trained on this machine.

    Raises:
        UsageError: options that need a local study, or that differ from the study's.
        WarmstartError: as `warmstart.tune`, or no server.
    """
    began = time.monotonic()
    options.check_time(server=True)
    save = None if options.save_model is None else Path(options.save_model)
    (server_result,) = _run_named([dataset], options, client, saved=[save], split="equal")
    result = replace(server_result.result, seconds=time.monotonic() - began)
    outputs = StudyOutputs(None, save)
    return finish_study(result, server_result.plan, outputs, options, _report_path(options), kept=KEPT_ON_SERVER)


def tune_several_on_server(paths: Sequence[str], options: TuneOptions, client: Client, *, split: Split) -> JointResult:
    """Tune several datasets together on a server, with one worker on this machine. Raises as `tune_on_server`."""
    began = time.monotonic()
    options.check_time(datasets=len(paths), server=True)
    check_different(paths, [canonical(path) for path in paths])
    labels, study = dataset_labels(paths), options.study
    saved = [None if options.save_model is None else with_label(Path(options.save_model), label) for label in labels]
    server_results = _run_named(paths, options, client, saved=saved, split=split)
    joint = JointResult(
        client.transport.url,
        split,
        tuple(server_result.result for server_result in server_results),
        tuple(server_result.n_design for server_result in server_results),
        seconds=time.monotonic() - began,
    )
    return finish_studies(
        joint,
        [server_result.plan for server_result in server_results],
        [StudyOutputs(None, file) for file in saved],
        options,
        _report_path(options),
        title=study or f"{labels[0]}-and-{len(labels) - 1}-more",
        kept=KEPT_ON_SERVER,
    )


@dataclass(frozen=True, slots=True)
class _ServerResult:
    """The result of a server's study, with its plan."""

    result: TuneResult
    plan: StudySpec
    n_design: int


def _run_named(
    paths: Sequence[str | None],
    options: TuneOptions,
    client: Client,
    *,
    saved: Sequence[Path | None],
    split: Split,
) -> list[_ServerResult]:
    """Run the studies of datasets under `study`, else under the first default names that are free or ask the same."""
    if options.study is not None:
        names = explicit_names(paths, options.study)
        options = _with_workload_of(names, options, client)
        return _run_studies(dict(zip(names, paths, strict=True)), options, client, saved=saved, split=split)
    _check(options, saved)
    existing, earlier = {study["name"] for study in client.studies()}, None
    fresh = _with_workload_of((), options, client)
    for names, may_begin in candidate_names(paths, fresh):
        is_new = existing.isdisjoint(names)
        if is_new and not may_begin:
            continue
        if is_new and earlier is not None:
            options.on_message(new_study_line(names[0], *earlier))
        try:
            studies = dict(zip(names, paths, strict=True))
            asked = fresh if may_begin else _with_workload_of(names, options, client)
            return _run_studies(studies, asked, client, saved=saved, split=split)
        except OtherStudyError as error:
            earlier = names[0], error.differences
    raise AssertionError


def _with_workload_of(names: Sequence[str], options: TuneOptions, client: Client) -> TuneOptions:
    """Return the options of a call with the workload of a stored study, or the default, where the call names none."""
    if options.workload is not None or options.own_workload is None:
        return options
    workload = None
    if names and names[0] in {study["name"] for study in client.studies()}:
        workload = client.transport.get(f"/studies/{segment(names[0])}")["objective"]["workload"]
    return replace(options, workload=workload or client.accepted(DefaultWorkload(options.own_workload)).name)


def _run_studies(
    studies: Mapping[str, str | None],
    options: TuneOptions,
    client: Client,
    *,
    saved: Sequence[Path | None],
    split: Split,
) -> list[_ServerResult]:
    """Run the trials of studies, by name and path of their datasets; return their results."""
    _check(options, saved)
    limits = options.limits()
    queries = {name: options.open(path) for name, path in studies.items()}
    if len(studies) > 1:
        fingerprints = [path if query is None else query.fingerprint for path, query in zip(studies.values(), queries.values(), strict=True)]  # fmt: skip
        check_different([path or "" for path in studies.values()], fingerprints)
    for query in queries.values():
        warn_of_images(query, options.on_message, skip_broken=options.skip_broken)
    group = {"members": list(studies), "split": split} if len(studies) > 1 else {}
    bodies = {name: _request(name, queries[name], options, client) | group for name in studies}
    records = [client.transport.post("/studies", bodies[name], shape=_study_shape(bodies[name])) for name in studies]
    for note in dict.fromkeys(note for record in records for note in record["notes"]):
        options.on_message(note)
    plans = [
        _local_plan(path, options, record, bodies[name]["space"])
        for (name, path), record in zip(studies.items(), records, strict=True)
    ]
    if not any(record["n_trials"] for record in records) and (note := plans[0].measure.direction_note):
        options.on_message(note)
    first = RemoteStudy(client.transport, next(iter(studies)), space=load_space(plans[0].space))
    queues = [_Queue(replace(first, name=name), plan, options.on_message) for name, plan in zip(studies, plans, strict=True)]  # fmt: skip
    members = tuple(studies) if len(studies) > 1 else ()
    unreported = replace(options, report=None, log=_log(options))
    outputs = outputs_of_trials(unreported, next(iter(studies)), members)
    with _Worker(queues, options, limits) as worker:
        targets = [options.target(plan) for plan in plans]
        worker.look()
        callbacks = {"on_end": worker.look, "on_begin": worker.look, "on_report": worker.glance}
        heard = outputs.heard_by(options.on_message)
        work(worker, targets, limits, outputs=heard, **callbacks)  # type: ignore[arg-type]  # what of a group it uses
    results = [
        _ServerResult(
            replace(_result(queue, record), tracked=outputs.tracking.where(queue.name)),
            queue.plan,
            record["warm"]["n_design"],
        )
        for queue, record in zip(queues, records, strict=True)
    ]
    warn_early_end([record.result for record in results], limits, options)
    return results


def _check(options: TuneOptions, saved: Sequence[Path | None]) -> None:
    """Check the options of a call with a server, before anything is sent."""
    for name, step in _LOCAL_ONLY.items():
        if getattr(options, name):
            msg = f"cannot be used with `server`. {step}."
            raise UsageError(msg, param=name)
    if options.workers not in (None, 1):
        msg = f"expected one worker with `server`, got {options.workers}. Run the command as often as you want workers."
        raise UsageError(msg, param="workers")
    check_warm(options.warm)
    check_distinct(log=options.log, report=options.report, save_model=options.save_model)
    check_log(options.log)
    check_report_path(options.report)
    for path in saved:
        if path is not None:
            check_savable(path, is_custom=options.objective is not None or options.command is not None)


class _Queue:
    """One study on the server, with the methods of `TrialQueue` that `work` uses."""

    def __init__(self, study: RemoteStudy, plan: StudySpec, on_message: Callable[[str], object]) -> None:
        self.study, self.plan, self._on_message = study, plan, on_message
        self.running: RunningTrial | None = None
        self.reported: set[int] | None = None
        self.n_extra = 0
        self._present: tuple[RemoteTrial, ExitStack] | None = None
        self._is_away = False

    @property
    def name(self) -> str:
        """Return the name of the study."""
        return self.study.name

    def keep_alive(self, trial: RemoteTrial) -> Run:
        """Start the heartbeats of a trial, and return it as a run."""
        life = ExitStack()
        life.enter_context(trial.kept_alive())
        self._present = trial, life
        self.running = RunningTrial(trial.number, time.monotonic(), None, None, None)
        return Run(trial.number, trial.number, trial.config, trial.seed)

    def report(self, run: Run, step: float, error: float) -> bool:
        """Send a report; return whether to stop: also if the lease is lost."""
        if self.running is not None:
            self.running = replace(self.running, step=step, error=error)
        try:
            should_stop = self._trial(run).report(step, error)
        except LeaseLostError as problem:
            self._on_message(problem.message)
            return True
        except StorageError as problem:  # the server may be back before the trial ends
            self._warn_away(f"{problem.message} The trial goes on.")
            return False
        self._is_away = False
        return should_stop

    def _warn_away(self, line: str) -> None:
        """Print a line once while no server answers."""
        if not self._is_away:
            self._on_message(line)
        self._is_away = True

    def end(self, run: Run, outcome: Outcome) -> None:
        """Send the outcome of a trial; if no server answers, retry for the length of a lease."""
        trial, until = self._trial(run), time.monotonic() + self.study.lease_s
        try:
            while not self._send_outcome(trial, outcome, until):
                time.sleep(WAIT_S)
        finally:
            self._end_heartbeats()
        self._present = None

    def _send_outcome(self, trial: RemoteTrial, outcome: Outcome, until: float) -> bool:
        """Send an outcome; return False if the server did not answer and there is time to retry."""
        try:
            trial.tell(
                outcome.error,
                status=outcome.status.value,
                duration=seconds_or_none(outcome.duration),
                note=outcome.note,
                curve=outcome.curve if len(outcome.curve) <= _MAX_POINTS else (),  # the server has its reports, too
                metrics={name: value for name, value in outcome.metrics.items() if math.isfinite(value)},
                constraints=outcome.constraints,
            )
        except LeaseLostError as problem:
            self._on_message(problem.message)
        except StorageError as problem:
            if time.monotonic() >= until:
                raise
            self._warn_away(f"{problem.message} The result of trial {trial.number} is sent again.")
            return False
        self._is_away = False
        return True

    def release(self) -> None:
        """Release the running trial, if any, so that no one waits for the end of its lease."""
        self._end_heartbeats()
        if self._present is not None:
            with contextlib.suppress(WarmstartError):  # the lease ends by itself
                self._present[0].release()
        self._present = None

    def _end_heartbeats(self) -> None:
        """End the heartbeats of the running trial."""
        if self._present is not None:
            self._present[1].close()
        self.running = None

    def ended_trials(self) -> tuple[Trial, ...]:
        """Return the ended trials, and count the extra ones among them."""
        records = [record for record in self.study.trials() if record["state"] != "running"]
        self.n_extra = sum(record["extra_of"] is not None for record in records)
        return tuple(map(_trial, records))

    def _trial(self, run: Run) -> RemoteTrial:
        return self._present[0] if self._present is not None else self.study.trial(run.number)


class _Worker:
    """Studies on a server, with the methods of `StudyGroup` that `work` uses."""

    def __init__(self, queues: Sequence[_Queue], options: TuneOptions, limits: Limits) -> None:
        self.queues = tuple(queues)
        self._progress, self._on_message, self._limits = options.progress, options.on_message, limits
        self._ended: list[tuple[Trial, ...]] = [()] * len(self.queues)
        self._began, self._n_before = time.monotonic(), 0
        self._waits_since: float | None = None
        self._waited, self._has_warned_wait = 0.0, False

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_error: object) -> None:
        """Release the running trials: the server offers them again at once."""
        for queue in self.queues:
            queue.release()

    def next(self, total: float) -> tuple[int, Run] | Wait | None:
        """Ask for a trial, and start its heartbeats; as `StudyGroup.next`."""
        began = time.monotonic()
        trial = self.queues[0].study.ask(trials=None if math.isinf(total) else int(total), wait=False)
        if trial == "wait":
            self._waits_since = began if self._waits_since is None else self._waits_since
            self._warn_wait()
            time.sleep(WAIT_S)
            return "wait"
        if self._waits_since is not None:
            self._waited += began - self._waits_since
            self._waits_since = None
        if not isinstance(trial, RemoteTrial):
            return None
        i = next(i for i, queue in enumerate(self.queues) if queue.study.name == trial.study.name)
        return i, self.queues[i].keep_alive(trial)

    def _warn_wait(self) -> None:
        """Print once which trials run elsewhere, with holders and ends of leases."""
        if self._has_warned_wait:
            return
        self._has_warned_wait = True
        running = [
            f"trial {trial['number']} of {queue.study.name}{_holder(trial)}"
            for queue in self.queues
            for trial in queue.study.trials()
            if trial["state"] == "running"
        ]
        if running:
            self._on_message(f"Waiting for what runs elsewhere: {some_of(running)}.")

    def has_error(self) -> bool:
        """Tell whether any trial of the studies has an error; as `StudyGroup.has_error`."""
        return any(trial.error is not None for queue in self.queues for trial in queue.ended_trials())

    def look(self) -> None:
        """Report the progress of the studies; the first look reports only the first one."""
        if self._progress is None:
            return
        self._ended = [queue.ended_trials() for queue in self.queues]
        is_first = self.queues[0].reported is None
        if is_first:
            self._n_before = self._n_ended()
        for i, (queue, ended) in enumerate(zip(self.queues, self._ended, strict=True)):
            new = tuple(trial for trial in ended if queue.reported is not None and trial.number not in queue.reported)
            queue.reported = {trial.number for trial in ended}
            warn_first_failure(queue.study.name, new, ended, self._on_message)
            if new or queue.running is not None or (is_first and i == 0):
                self._report_progress(queue, ended, new)

    def glance(self) -> None:
        """Report the progress of the running trial."""
        for queue, ended in zip(self.queues, self._ended, strict=True):
            if queue.running is not None:
                self._report_progress(queue, ended, ())

    def _n_ended(self) -> int:
        """Return the number of ended trials without extra ones."""
        return sum(map(len, self._ended)) - sum(queue.n_extra for queue in self.queues)

    def _report_progress(self, queue: _Queue, ended: Sequence[Trial], new: tuple[Trial, ...]) -> None:
        if self._progress is None:
            return
        n_ended, total = self._n_ended(), self._limits.trials
        spent = time.monotonic() - self._began - self._waited
        mean_s = spent / (n_ended - self._n_before) if n_ended > self._n_before else math.nan
        running = () if queue.running is None else (queue.running,)
        best, left_s, failed = best_of(ended), mean_s * (total - n_ended), len(failures(ended))
        self._progress(StudyProgress(n_ended, total, best, left_s, new, queue.study.name, running, n_failed=failed))


def _holder(trial: Mapping[str, Any]) -> str:
    """Return the holder of a running trial and the end of its lease as text."""
    until = (trial["lease_until"] or 0.0) - time.time()
    parts = [trial["client"], f"its lease ends in {duration(until)} unless it is renewed" if until > 0 else None]
    text = "; ".join(part for part in parts if part)
    return f" ({text})" if text else ""


def _request(name: str, query: Query | None, options: TuneOptions, client: Client) -> dict[str, Any]:
    """Return the HTTP body of a new study."""
    is_custom = options.objective is not None or options.command is not None
    is_warm = options.warm != "none" and not options.initial
    is_described = query is not None and (is_warm or bool(options.related) or options.pruner == "history")
    descriptor = (
        client.describe(query, workload=options.own_workload or _script_workload(options, client))
        if query is not None and is_described
        else None
    )
    body: dict[str, Any] = {
        "name": name,
        "space": None if options.space is None else space_to_wire(options.space),
        "descriptor": None if descriptor is None else descriptor.to_dict(),
        "fingerprint": None if query is None else query.fingerprint,
        "initial": [dict(config) for config in read_initial(options.initial)] if options.initial else [],
        "rename": dict(options.rename),
        "exclude_group": list(options.exclude_group),
        "related": list(options.related),
        "startup": options.n_startup_trials,
    }
    if is_custom:
        function = options.objective
        if function is not None and not isinstance(function, str):
            function = f"{function.__module__}:{getattr(function, '__qualname__', type(function).__qualname__)}"
        body |= {"objective": function, "command": options.command}
    else:
        body |= {"workload": options.own_workload, "target_budget": options.target_budget}
    copied = ("seed", "surrogate", "acquisition", "pruner", "budget", "metric", "maximize", "scale")
    return body | {key: getattr(options, key) for key in (*copied, "warm", "k", "strategy", "neighbours")}


def _script_workload(options: TuneOptions, client: Client) -> str:
    """Return the workload whose history is asked for a user's own script."""
    rename, names = dict(options.rename), placeholders(options.command or "")
    default = default_workload(options.space, rename=rename, names=names, is_script=True, model=options.model)
    return client.accepted(default).name


def _study_shape(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shape of a study that was asked for: its workload, whose code runs here, is the one of the request."""
    workload = frozenset([body["workload"]]) if body.get("workload") else None
    return {**STUDY, "objective": {"function": _TEXT, "command": _TEXT, "workload": workload, "target_budget": _TEXT}}


def _local_plan(
    dataset: str | None, options: TuneOptions, record: Mapping[str, Any], space: Mapping[str, Any] | None
) -> StudySpec:
    """Return the plan of a server's study for running trials and reports on this machine, in the space that was sent, if any."""
    return StudySpec(
        **record["search"],
        space=json.dumps(record["space"] if space is None else space),
        objective=record["objective"],
        dataset=dataset,
        fingerprint=None,
        skip_broken=options.skip_broken,
        warm=record["warm"]["mode"],
        configs=tuple(WarmConfig(**config) for config in record["warm"]["configs"]),
        device=options.device,
    )


def _trial(record: Mapping[str, Any]) -> Trial:
    """Read an ended trial from its JSON."""
    return Trial(
        record["number"],
        record["config"],
        record["error"],
        TrialStatus(record["state"]),
        record["duration"],
        record["seed"] or 0,
        record["note"],
        all(bound <= 0 for bound in record["constraints"].values()),
        tuple((step, error) for step, error in record["curve"]),
    )


def _result(queue: _Queue, record: Mapping[str, Any]) -> TuneResult:
    """Return the result of a study so far."""
    ended, plan, status = queue.ended_trials(), queue.plan, queue.study.show()
    expected = status.get("expectation")  # missing from older servers
    # The server sends only the number of the related datasets' evaluations.
    related = tuple(
        RelatedDataset(dataset["name"], dataset["distance"], (), (math.nan,) * dataset["evaluations"])
        for dataset in record["related"]
    )
    result = TuneResult(
        queue.study.name,
        queue.study.transport.url,
        plan.dataset,
        best_of(ended),
        Trials(ended),
        plan.configs,
        related,
        exhausted=bool(status["exhausted"]),
        metric=plan.measure,
        expected=None if expected is None else StudyExpectations.from_dict(expected),
        n_extra=queue.n_extra,
        is_classifier=plan.workload is not None,
    )
    return replace(result, comparison=compare_study(result, plan))


def _report_path(options: TuneOptions) -> Path | None:
    """Return the path of the report if it is named, else None: the server's pages show the same."""
    return None if options.report is None or options.report is True else Path(options.report)


def _log(options: TuneOptions) -> Path | None:
    """Return the path of the trials' log: as named, else beside the report, if any."""
    report = _report_path(options)
    return Path(options.log) if options.log is not None else None if report is None else log_beside(report)
