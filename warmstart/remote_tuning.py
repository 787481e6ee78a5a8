"""`warmstart tune --server`: trials run here, the studies lie on a server."""

from __future__ import annotations

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warmstart.client import Client
from warmstart.history_store.errors import LeaseLostError, StorageError, UsageError, WarmstartError
from warmstart.history_store.wording import duration, some_of
from warmstart.prediction import predict_validation
from warmstart.remote_study import WAIT_S, RemoteStudy, RemoteTrial, seconds_or_none
from warmstart.studies.execution.worker import work
from warmstart.studies.history.warm_start import warn_of_images
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.output_paths import check_distinct, check_log, check_report_path, log_beside
from warmstart.studies.related_dataset import RelatedDataset
from warmstart.studies.results.expectations import StudyExpectations
from warmstart.studies.results.progress import RunningTrial, StudyProgress, warn_first_failure
from warmstart.studies.results.report import add_classifier, write_joint_report, write_report
from warmstart.studies.results.saved_networks import check_savable, save_best
from warmstart.studies.results.summary import JointResult, TuneResult
from warmstart.studies.results.trial import Trial, best_of, check_any_error, failures
from warmstart.studies.state.spec import StudySpec, WarmConfig, check_warm
from warmstart.studies.state.split import Split
from warmstart.studies.state.study_group import check_different
from warmstart.studies.state.trial_queue import Run, Wait
from warmstart.studies.tune import compare_study, warn_early_end
from warmstart.studies.tune_options import TuneOptions, dataset_labels, with_label

if TYPE_CHECKING:
    from warmstart.studies.execution.worker import Limits
    from warmstart.suggestions.query import Query

_LOCAL = {
    "storage": "The study lies in the server's storage: leave it out",
    "history": "The server asks the history that it was started with: leave it out",
    "cluster": "Run the same command on each machine instead",
    "record": "Record runs with `warmstart history record --server URL`, or tune without `server`",
}
"""Options of a study that lies here, and what to do instead."""

_MOST_POINTS = 10_000
"""Points of a curve that are sent with a result, which may have a megabyte."""


def tune_on_server(dataset: str | None, options: TuneOptions, client: Client) -> TuneResult:
    """Tune on a server's study, begun where it is new; as `warmstart.tune`, with one worker here.

    The dataset is described here: its pictures, its path and its classes' names stay. The names of the objective or the
    command are sent: they tell one study from another. Networks to save are trained here.

    Raises:
        UsageError: options that belong to a study here, a study that was begun otherwise.
        WarmstartError: as `warmstart.tune`, or no server there.
    """
    began = time.monotonic()
    options.check_time(server=True)
    name = options.study or options.name(dataset)
    save = None if options.save_model is None else Path(options.save_model)
    one = _tuned({name: dataset}, options, client, saved=[save], split="equal")[0]
    found = replace(one.result, seconds=time.monotonic() - began)
    place = _report_place(options)
    if place is not None:
        reported = replace(found, report=str(place))
        found = reported if _written(place, lambda: write_report(place, reported, one.plan), options) else found
    check_any_error(name, found.trials, workload=one.plan.workload)
    if save is None:
        return found
    saved = save_best(save, one.plan, found.trials, options.ensemble, options.on_message)
    found = found if saved is None else replace(found, saved_model=saved.record)
    if saved is not None and place is not None and found.report is not None and dataset is not None:
        said = predict_validation(saved.judged, save, dataset, skip_broken=options.skip_broken)
        _written(place, lambda: add_classifier(place, said, saved.record), options)
    return found


def tune_several_on_server(paths: Sequence[str], options: TuneOptions, client: Client, *, split: Split) -> JointResult:
    """Tune several datasets together on a server; as `warmstart.tune_many`, with one worker here. Raises as `tune_on_server`."""
    began = time.monotonic()
    options.check_time(datasets=len(paths), server=True)
    check_different(paths, [os.path.realpath(path) for path in paths])
    labels, study = dataset_labels(paths), options.study
    names = [f"{study}-{label}" if study else options.name(label) for label in labels]
    saved = [None if options.save_model is None else with_label(Path(options.save_model), label) for label in labels]
    done = _tuned(dict(zip(names, paths, strict=True)), options, client, saved=saved, split=split)
    joint = JointResult(
        client.transport.url,
        split,
        tuple(one.result for one in done),
        tuple(one.n_design for one in done),
        seconds=time.monotonic() - began,
    )
    title, place = study or f"{labels[0]}-and-{len(labels) - 1}-more", _report_place(options)
    if place is not None:
        reported, plans = replace(joint, report=str(place)), [one.plan for one in done]
        is_written = _written(place, lambda: write_joint_report(place, title, reported, plans), options)
        joint = reported if is_written else joint
    check_any_error(title, [trial for one in done for trial in one.result.trials], workload=done[0].plan.workload)
    studies = []
    for found, one, file in zip(joint.studies, done, saved, strict=True):
        made = None if file is None else save_best(file, one.plan, found.trials, options.ensemble, options.on_message)
        studies.append(found if made is None else replace(found, saved_model=made.record))
    joint = replace(joint, studies=tuple(studies))
    if place is not None and joint.report is not None and any(found.saved_model for found in studies):
        _written(place, lambda: write_joint_report(place, title, joint, plans), options)  # which names the files
    return joint


@dataclass(frozen=True, slots=True)
class _Tuned:
    """A study of the server, as it is in the end."""

    result: TuneResult
    plan: StudySpec
    n_design: int


def _tuned(
    studies: Mapping[str, str | None],
    options: TuneOptions,
    client: Client,
    *,
    saved: Sequence[Path | None],
    split: Split,
) -> list[_Tuned]:
    """Run trials of studies, given by their names and the paths of their datasets, and give what each came to."""
    _check(options, saved)
    limits = options.limits()
    queries = {name: options.open(path) for name, path in studies.items()}
    if len(studies) > 1:
        marks = [path if query is None else query.fingerprint for path, query in zip(studies.values(), queries.values(), strict=True)]  # fmt: skip
        check_different([path or "" for path in studies.values()], marks)
    for query in queries.values():
        warn_of_images(query, options.on_message, skip_broken=options.skip_broken)
    together = {"members": list(studies), "split": split} if len(studies) > 1 else {}
    wanted = {name: _request(name, queries[name], options, client) | together for name in studies}
    begun = [client.transport.post("/studies", wanted[name]) for name in studies]
    for note in dict.fromkeys(note for each in begun for note in each["notes"]):
        options.on_message(note)
    plans = [_local_plan(path, options, each) for path, each in zip(studies.values(), begun, strict=True)]
    if not any(each["n_trials"] for each in begun) and (note := plans[0].measure.direction_note):
        options.on_message(note)
    one = RemoteStudy(client.transport, next(iter(studies)))
    queues = [_Queue(replace(one, name=name), plan, options.on_message) for name, plan in zip(studies, plans, strict=True)]  # fmt: skip
    log = _log(options)
    with _Worker(queues, options, limits) as worker:
        targets = [options.target(plan) for plan in plans]
        worker.look()
        work(worker, targets, limits, log=log, on_end=worker.look, on_begin=worker.look, on_report=worker.glance)  # type: ignore[arg-type]  # what of a group it uses
    done = [
        _Tuned(_result(queue, each), queue.plan, each["warm"]["n_design"])
        for queue, each in zip(queues, begun, strict=True)
    ]
    warn_early_end([each.result for each in done], limits, options)
    return done


def _check(options: TuneOptions, saved: Sequence[Path | None]) -> None:
    """Refuse what belongs to a study here, before anything is sent."""
    for name, step in _LOCAL.items():
        if getattr(options, name):
            msg = f"expected no `server` beside it, got {getattr(options, name)!r}. {step}."
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
    """One study on the server: what `work` needs of it."""

    def __init__(self, study: RemoteStudy, plan: StudySpec, on_message: Callable[[str], object]) -> None:
        self.study, self.plan, self._on_message = study, plan, on_message
        self.running: RunningTrial | None = None
        self.seen: set[int] | None = None
        self.n_extra = 0
        self._held: tuple[RemoteTrial, ExitStack] | None = None
        self._is_away = False

    @property
    def name(self) -> str:
        """Return the name of the study."""
        return self.study.name

    def hold(self, trial: RemoteTrial) -> Run:
        """Keep a trial alive from now on."""
        life = ExitStack()
        life.enter_context(trial.kept_alive())
        self._held = trial, life
        self.running = RunningTrial(trial.number, time.monotonic(), None, None, None)
        return Run(trial.number, trial.number, trial.config, trial.seed)

    def report(self, run: Run, step: float, error: float) -> bool:
        """Report; a trial that was lost is stopped."""
        if self.running is not None:
            self.running = replace(self.running, step=step, error=error)
        try:
            should_stop = self._trial(run).report(step, error)
        except LeaseLostError as problem:
            self._on_message(problem.message)
            return True
        except StorageError as problem:  # the server may come back while the trial runs
            self._tell_away(f"{problem.message} The trial goes on.")
            return False
        self._is_away = False
        return should_stop

    def _tell_away(self, line: str) -> None:
        """Say once that no server answers, until one does again."""
        if not self._is_away:
            self._on_message(line)
        self._is_away = True

    def end(self, run: Run, outcome: Outcome) -> None:
        """Tell what came of a trial; one that was lost is kept by the server as an extra. Where no server answers, try for as long as its lease."""
        trial, until = self._trial(run), time.monotonic() + self.study.lease_s
        try:
            while not self._told(trial, outcome, until):
                time.sleep(WAIT_S)
        finally:
            self._rest()
        self._held = None

    def _told(self, trial: RemoteTrial, outcome: Outcome, until: float) -> bool:
        """Tell the server of a result; returns whether that is done, not where it did not answer and there is time left."""
        try:
            trial.tell(
                outcome.error,
                status=outcome.status.value,
                duration=seconds_or_none(outcome.duration),
                note=outcome.note,
                curve=outcome.curve if len(outcome.curve) <= _MOST_POINTS else (),  # it was reported, too
                metrics={name: value for name, value in outcome.metrics.items() if math.isfinite(value)},
                constraints=outcome.constraints,
            )
        except LeaseLostError as problem:
            self._on_message(problem.message)
        except StorageError as problem:
            if time.monotonic() >= until:
                raise
            self._tell_away(f"{problem.message} The result of trial {trial.number} is sent again.")
            return False
        self._is_away = False
        return True

    def give_back(self) -> None:
        """Give back the trial that is under way, where there is one: nobody else has to wait for the end of its lease."""
        self._rest()
        if self._held is not None:
            with contextlib.suppress(WarmstartError):  # the lease ends by itself
                self._held[0].release()
        self._held = None

    def _rest(self) -> None:
        """End the heartbeats."""
        if self._held is not None:
            self._held[1].close()
        self.running = None

    def ended(self) -> tuple[Trial, ...]:
        """Read the trials that ended, and count those among them that nobody asked for."""
        records = [each for each in self.study.trials() if each["state"] != "running"]
        self.n_extra = sum(each["extra_of"] is not None for each in records)
        return tuple(map(_trial, records))

    def _trial(self, run: Run) -> RemoteTrial:
        return self._held[0] if self._held is not None else self.study.trial(run.number)


class _Worker:
    """What `work` needs of a group of studies, with these on a server."""

    def __init__(self, queues: Sequence[_Queue], options: TuneOptions, limits: Limits) -> None:
        self.queues = tuple(queues)
        self._progress, self._on_message, self._limits = options.progress, options.on_message, limits
        self._done: list[tuple[Trial, ...]] = [()] * len(self.queues)
        self._began, self._before = time.monotonic(), 0
        self._waits_since: float | None = None
        self._waited, self._told_wait = 0.0, False

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_error: object) -> None:
        """Give back what is under way: it is offered again at once."""
        for queue in self.queues:
            queue.give_back()

    def next(self, total: float) -> tuple[int, Run] | Wait | None:
        """Ask for a trial, and keep it alive; as `StudyGroup.next`."""
        began = time.monotonic()
        found = self.queues[0].study.ask(trials=None if math.isinf(total) else int(total), wait=False)
        if found == "wait":
            self._waits_since = began if self._waits_since is None else self._waits_since
            self._tell_wait()
            time.sleep(WAIT_S)
            return "wait"
        if self._waits_since is not None:
            self._waited += began - self._waits_since
            self._waits_since = None
        if not isinstance(found, RemoteTrial):
            return None
        i = next(i for i, queue in enumerate(self.queues) if queue.study.name == found.study.name)
        return i, self.queues[i].hold(found)

    def _tell_wait(self) -> None:
        """Say once which trials run elsewhere, who has them, and until when."""
        if self._told_wait:
            return
        self._told_wait = True
        running = [
            f"trial {each['number']} of {queue.study.name}{_holder(each)}"
            for queue in self.queues
            for each in queue.study.trials()
            if each["state"] == "running"
        ]
        if running:
            self._on_message(f"Waiting for what runs elsewhere: {some_of(running)}.")

    def has_error(self) -> bool:
        """Tell whether a trial of any of the studies gave an error; as `StudyGroup.has_error`."""
        return any(trial.error is not None for queue in self.queues for trial in queue.ended())

    def look(self) -> None:
        """Tell how far the studies are; the first look tells of the first one alone."""
        if self._progress is None:
            return
        self._done = [queue.ended() for queue in self.queues]
        is_first = self.queues[0].seen is None
        if is_first:
            self._before = self._n_done()
        for i, (queue, ended) in enumerate(zip(self.queues, self._done, strict=True)):
            new = tuple(trial for trial in ended if queue.seen is not None and trial.number not in queue.seen)
            queue.seen = {trial.number for trial in ended}
            warn_first_failure(queue.study.name, new, ended, self._on_message)
            if new or queue.running is not None or (is_first and i == 0):
                self._tell(queue, ended, new)

    def glance(self) -> None:
        """Show what the trial that runs here reported."""
        for queue, ended in zip(self.queues, self._done, strict=True):
            if queue.running is not None:
                self._tell(queue, ended, ())

    def _n_done(self) -> int:
        """Count the trials that ended, of those that were asked for."""
        return sum(map(len, self._done)) - sum(queue.n_extra for queue in self.queues)

    def _tell(self, queue: _Queue, ended: Sequence[Trial], new: tuple[Trial, ...]) -> None:
        if self._progress is None:
            return
        done, total = self._n_done(), self._limits.trials
        spent = time.monotonic() - self._began - self._waited
        each = spent / (done - self._before) if done > self._before else math.nan
        running = () if queue.running is None else (queue.running,)
        best, left, failed = best_of(ended), each * (total - done), len(failures(ended))
        self._progress(StudyProgress(done, total, best, left, new, queue.study.name, running, n_failed=failed))


def _holder(trial: Mapping[str, Any]) -> str:
    """Say who holds a trial that runs, and until when."""
    until = (trial["lease_until"] or 0.0) - time.time()
    known = [trial["client"], f"its lease ends in {duration(until)} unless it is renewed" if until > 0 else None]
    said = "; ".join(each for each in known if each)
    return f" ({said})" if said else ""


def _request(name: str, query: Query | None, options: TuneOptions, client: Client) -> dict[str, Any]:
    """Say what study is wanted."""
    from warmstart.service.spaces import space_to_wire
    from warmstart.suggestions.initial_configs import read_initial

    is_own = options.objective is not None or options.command is not None
    is_warm = options.warm != "none" and not options.initial
    is_described = query is not None and (is_warm or bool(options.related) or options.pruner == "history")
    described = (
        client.describe(query, workload=None if is_own else options.workload)
        if query is not None and is_described
        else None
    )
    body: dict[str, Any] = {
        "name": name,
        "space": None if options.space is None else space_to_wire(options.space),
        "descriptor": None if described is None else described.to_dict(),
        "fingerprint": None if query is None else query.fingerprint,
        "initial": [dict(config) for config in read_initial(options.initial)] if options.initial else [],
        "rename": dict(options.rename),
        "exclude_group": list(options.exclude_group),
        "related": list(options.related),
        "startup": options.n_startup_trials,
    }
    if is_own:
        function = options.objective
        if function is not None and not isinstance(function, str):
            function = f"{function.__module__}:{getattr(function, '__qualname__', type(function).__qualname__)}"
        body |= {"objective": function, "command": options.command}
    else:
        body |= {"workload": options.workload, "target_budget": options.target_budget}
    same = ("seed", "surrogate", "acquisition", "pruner", "budget", "metric", "maximize", "scale")
    return body | {key: getattr(options, key) for key in (*same, "warm", "k", "strategy", "neighbours")}


def _local_plan(dataset: str | None, options: TuneOptions, begun: Mapping[str, Any]) -> StudySpec:
    """Plan what runs here: the study's space and objective; the rest is told in reports."""
    return StudySpec(
        **begun["search"],
        space=json.dumps(begun["space"]),
        objective=begun["objective"],
        dataset=dataset,
        fingerprint=None,
        skip_broken=options.skip_broken,
        warm=begun["warm"]["mode"],
        configs=tuple(WarmConfig(**each) for each in begun["warm"]["configs"]),
        device=options.device,
    )


def _trial(record: Mapping[str, Any]) -> Trial:
    """Read a trial that ended."""
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


def _result(queue: _Queue, begun: Mapping[str, Any]) -> TuneResult:
    """Say what a study came to so far."""
    ended, plan, shown = queue.ended(), queue.plan, queue.study.show()
    expected = shown.get("expectation")  # a server of before tells none
    # What the related datasets' errors are stays with the server; their number is told.
    related = tuple(
        RelatedDataset(each["name"], each["distance"], (), (math.nan,) * each["evaluations"])
        for each in begun["related"]
    )
    found = TuneResult(
        queue.study.name,
        queue.study.transport.url,
        plan.dataset,
        best_of(ended),
        ended,
        plan.configs,
        related,
        exhausted=bool(shown["exhausted"]),
        metric=plan.measure,
        expected=None if expected is None else StudyExpectations.from_dict(expected),
        n_extra=queue.n_extra,
    )
    return replace(found, comparison=compare_study(found, plan))


def _report_place(options: TuneOptions) -> Path | None:
    """Return the place of the report where one was named: without it, the server's pages have all that it would say."""
    return None if options.report is None or options.report is True else Path(options.report)


def _log(options: TuneOptions) -> Path | None:
    """Return the place of what the trials print: the one named, else beside the report where there is one."""
    place = _report_place(options)
    return Path(options.log) if options.log is not None else None if place is None else log_beside(place)


def _written(place: Path, write: Callable[[], None], options: TuneOptions) -> bool:
    """Write a report; where that fails, say so: the study is on the server all the same."""
    try:
        write()
    except OSError as error:
        options.on_message(
            f"{place}: the report could not be written ({error.strerror}); the study is on the server all the same."
        )
        return False
    return True
