"""`warmstart tune --server`: trials run here, the study lies on a server."""

from __future__ import annotations

import json
import math
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from history_store.errors import LeaseLostError, UsageError
from warmstart.client import Client
from warmstart.remote_study import RemoteStudy, RemoteTrial, seconds_or_none
from warmstart.studies.execution.worker import work
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.results.expectations import StudyExpectations
from warmstart.studies.results.progress import RunningTrial, StudyProgress
from warmstart.studies.results.report import write_report
from warmstart.studies.results.summary import TuneResult
from warmstart.studies.results.trial import Trial, best_of
from warmstart.studies.state.spec import StudySpec, WarmConfig
from warmstart.studies.state.trial_queue import Run, Wait
from warmstart.studies.tune_options import TuneOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from warmstart.studies.execution.worker import Limits

_LOCAL = {
    "storage": "The study lies in the server's storage: leave it out",
    "history": "The server asks the history that it was started with: leave it out",
    "related": "Tune without `server` to learn from related datasets",
    "cluster": "Run the same command on each machine instead",
    "record": "Record runs with `warmstart history record --server URL`, or tune without `server`",
    "save_model": "Train the best configuration here to keep its network, or tune without `server`",
}
"""Options of a study that lies here, and what to do instead."""
_SEARCHED = ("seed", "surrogate", "acquisition", "pruner")
"""What a server decides of a search where nothing was asked."""


def tune_on_server(dataset: str | None, options: TuneOptions, client: Client) -> TuneResult:
    """Tune on a server's study, begun where it is new; as `warmstart.tune`, with one worker here.

    The dataset is described here: its pictures, its path and its classes' names stay. The names of the objective or the
    command are sent: they tell one study from another.

    Raises:
        UsageError: options that belong to a study here, a study that was begun otherwise.
        WarmstartError: as `warmstart.tune`, or no server there.
    """
    began = time.monotonic()
    options.check_time(server=True)
    for name, step in _LOCAL.items():
        if getattr(options, name):
            msg = f"expected no `server` beside it, got {getattr(options, name)!r}. {step}."
            raise UsageError(msg, param=name)
    if options.workers not in (None, 1):
        msg = f"expected one worker with `server`, got {options.workers}. Run the command as often as you want workers."
        raise UsageError(msg, param="workers")
    limits, name = options.limits(), options.study or options.name(dataset)
    begun = client.transport.post("/studies", _request(name, dataset, options, client))
    for note in begun["notes"]:
        options.on_message(note)
    study = RemoteStudy(client.transport, name)
    plan = _local_plan(dataset, options, begun)
    target = options.target(plan)
    log = None if options.log is None else Path(options.log)
    with _Worker(study, plan, options, limits) as worker:
        worker.look()
        work(worker, [target], limits, log=log, ended=worker.look, begun=worker.look)  # type: ignore[arg-type]  # what of a fleet it uses
    found = replace(_result(study, plan, begun), seconds=time.monotonic() - began)
    return _reported(found, plan, begun, options)


class _Worker:
    """What `work` needs of the studies, with one on a server."""

    def __init__(self, study: RemoteStudy, plan: StudySpec, options: TuneOptions, limits: Limits) -> None:
        self.study, self.plan, self._options, self._limits = study, plan, options, limits
        self.queues = (self,)
        self._held: tuple[RemoteTrial, ExitStack, float] | None = None
        self._seen: set[int] | None = None

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_error: object) -> None:
        """End the heartbeats: what is under way is offered again once its lease ends."""
        self._let_go()

    def next(self, total: float) -> tuple[int, Run] | Wait | None:
        """Ask for a trial, and keep it alive; as `StudyGroup.next`."""
        found = self.study.ask(trials=None if math.isinf(total) else int(total))
        if not isinstance(found, RemoteTrial):
            return "wait" if found == "wait" else None
        life = ExitStack()
        life.enter_context(found.kept_alive())
        self._held = found, life, time.monotonic()
        return 0, Run(found.number, found.number, found.config, found.seed)

    def report(self, run: Run, step: float, error: float) -> bool:
        """Report; a trial that was lost is stopped."""
        trial = self._trial(run)
        try:
            return trial.report(round(step), error)
        except LeaseLostError as problem:
            self._options.on_message(problem.message)
            return True

    def end(self, run: Run, outcome: Outcome) -> None:
        """Tell what came of a trial; one that was lost is kept by the server as an extra."""
        trial = self._trial(run)
        self._let_go()
        try:
            trial.tell(
                outcome.error,
                status=outcome.status.value,
                duration=seconds_or_none(outcome.duration),
                note=outcome.note,
                curve=outcome.curve,
                metrics={name: value for name, value in outcome.metrics.items() if math.isfinite(value)},
                constraints=outcome.constraints,
            )
        except LeaseLostError as problem:
            self._options.on_message(problem.message)

    def look(self) -> None:
        """Tell how far the study is."""
        if self._options.progress is None:
            return
        ended = _ended(self.study)
        new = () if self._seen is None else tuple(trial for trial in ended if trial.number not in self._seen)
        is_first, self._seen = self._seen is None, {trial.number for trial in ended}
        running: tuple[RunningTrial, ...] = ()
        if self._held is not None and not is_first:
            running = (RunningTrial(self._held[0].number, self._held[2], None, None, None),)
        now = StudyProgress(len(ended), self._limits.trials, best_of(ended), math.nan, new, self.study.name, running)
        self._options.progress(now)

    def _trial(self, run: Run) -> RemoteTrial:
        return self._held[0] if self._held is not None else self.study.trial(run.number)

    def _let_go(self) -> None:
        if self._held is not None:
            self._held[1].close()
        self._held = None


def _request(name: str, dataset: str | None, options: TuneOptions, client: Client) -> dict[str, Any]:
    """Say what study is wanted."""
    from warmstart.service.spaces import space_to_wire
    from warmstart.suggestions.initial_configs import read_initial

    query = options.open(dataset)
    is_own = options.objective is not None or options.command is not None
    is_asked = query is not None and options.warm != "none" and not options.initial
    body: dict[str, Any] = {
        "name": name,
        "space": None if options.space is None else space_to_wire(options.space),
        "descriptor": client.describe(query).to_dict() if is_asked else None,
        "fingerprint": None if query is None else query.fingerprint,
        "initial": [dict(config) for config in read_initial(options.initial)] if options.initial else [],
        "rename": dict(options.rename),
        "exclude_group": list(options.exclude_group),
    }
    if is_own:
        function = options.objective
        if function is not None and not isinstance(function, str):
            function = f"{function.__module__}:{getattr(function, '__qualname__', type(function).__qualname__)}"
        body |= {"objective": function, "command": options.command}
    else:
        body |= {"workload": options.workload, "target_budget": options.target_budget}
    same = ("seed", "surrogate", "acquisition", "pruner", "budget", "metric", "maximize", "scale")
    return (
        body
        | {key: getattr(options, key) for key in (*same, "warm", "k", "strategy")}
        | {"startup": options.n_startup_trials}
    )


def _local_plan(dataset: str | None, options: TuneOptions, begun: Mapping[str, Any]) -> StudySpec:
    """Plan what runs here: the study's space and objective; what it is searched with does not matter."""
    return StudySpec(
        space=json.dumps(begun["space"]),
        objective=begun["objective"],
        dataset=dataset,
        fingerprint=None,
        warm="none",
        budget=begun["search"]["budget"],
        metric=options.metric,
        maximize=options.maximize,
        scale=options.scale,
        configs=tuple(WarmConfig(**each) for each in begun["warm"]["configs"]),
    )


def _ended(study: RemoteStudy) -> tuple[Trial, ...]:
    """Read the trials that ended."""
    return tuple(
        Trial(
            each["number"],
            each["config"],
            each["error"],
            TrialStatus(each["state"]),
            each["duration"],
            each["seed"] or 0,
            each["note"],
            all(bound <= 0 for bound in each["constraints"].values()),
            tuple((step, error) for step, error in each["curve"]),
        )
        for each in study.trials()
        if each["state"] != "running"
    )


def _reported(found: TuneResult, plan: StudySpec, begun: Mapping[str, Any], options: TuneOptions) -> TuneResult:
    """Write the report where a place was named: without one, the server's pages have all that it would say."""
    if options.report is None or options.report is True:
        return found
    place, searched = Path(options.report), {name: begun["search"][name] for name in _SEARCHED}
    reported = replace(found, report=str(place))
    try:
        write_report(place, reported, replace(plan, **searched, warm=begun["warm"]["mode"]))
    except OSError as error:
        options.on_message(
            f"{place}: the report could not be written ({error.strerror}); the study is on the server all the same."
        )
        return found
    return reported


def _result(study: RemoteStudy, plan: StudySpec, begun: Mapping[str, Any]) -> TuneResult:
    """Say what the study came to so far."""
    ended = _ended(study)
    metric: Metric = plan.measure
    where = study.transport.url
    shown = study.show()
    expected = shown.get("expectation")  # a server of before tells none
    return TuneResult(
        begun["name"],
        where,
        plan.dataset,
        best_of(ended),
        ended,
        plan.configs,
        exhausted=bool(shown["exhausted"]),
        metric=metric,
        expected=None if expected is None else StudyExpectations.from_dict(expected),
    )
