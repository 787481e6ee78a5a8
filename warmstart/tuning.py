"""Tune: from a dataset or an objective to the best configuration found, in a study that is never lost."""

from __future__ import annotations

import inspect
import logging
import os
import re
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from history_store.errors import AllTrialsFailedError, MissingPathError, UsageError
from history_store.space import load_space
from training.budget import COMPACT
from warmstart.locations import history_path
from warmstart.studies.call import Call, Options, PathLike, default_name
from warmstart.studies.comparison import Comparison, compare_with_uniform
from warmstart.studies.crew import run_crew
from warmstart.studies.fleet import Fleet, check_different
from warmstart.studies.ledger import find_plan
from warmstart.studies.objective import TrialStatus
from warmstart.studies.plan import Plan, Pruner, Warm
from warmstart.studies.progress import Progress, Watch
from warmstart.studies.record import check_recordable, record_study
from warmstart.studies.related_dataset import NEIGHBOURS
from warmstart.studies.report import write_joint_report, write_report
from warmstart.studies.split import Split
from warmstart.studies.storage import Store, open_store
from warmstart.studies.summary import JointResult, TuneResult, summarise
from warmstart.studies.trial import Trial, count_statuses
from warmstart.studies.warm_start import check_history
from warmstart.studies.worker import Job, work

if TYPE_CHECKING:
    from warmstart.integrations.ray import Cluster
    from warmstart.spaces import SpaceLike

STARTUP = 3
_log = logging.getLogger("warmstart")


def tune(
    dataset: PathLike | None = None,
    *,
    objective: str | Callable[..., object] | None = None,
    command: str | None = None,
    space: SpaceLike | None = None,
    trials: int | None = None,
    timeout: str | float | None = None,
    storage: PathLike | None = None,
    study: str | None = None,
    warm: Warm = "design",
    k: int = 3,
    startup: int = STARTUP,
    strategy: str | None = None,
    history: PathLike | None = None,
    model: PathLike | None = None,
    exclude_group: str | Collection[str] | None = None,
    related: str | Collection[str] = (),
    neighbours: int = NEIGHBOURS,
    surrogate: str = "gp",
    acquisition: str = "ei",
    pruner: Pruner = "none",
    budget: float | None = None,
    target_budget: str = COMPACT.name,
    trial_timeout: str | float | None = None,
    trial_memory: str | int | None = None,
    workers: int | None = None,
    cluster: Cluster | None = None,
    seed: int = 0,
    device: str = "auto",
    log: PathLike | None = None,
    record: str | None = None,
    report: PathLike | Literal[True] | None = None,
    save_model: PathLike | None = None,
    ensemble: int = 1,
    cache: bool = True,
    download: bool = False,
    progress: Callable[[Progress], None] | None = None,
    tell: Callable[[str], object] = _log.warning,
) -> TuneResult:
    """Tune an objective, from the configurations on that won on datasets like this one.

    The same call again goes on where an earlier one stopped, however that stopped, and does nothing where it was done. With
    one worker and an objective that its seed decides, the trials are those of a call that was never interrupted.

    Args:
        dataset: images as `warmstart.suggest` takes a path; handed to the objective. An objective of one's own without a
            warm start may have any other path.
        objective: a function, ``module:function`` or ``file.py:function``; see docs/tuning.md for what it is called with.
            Left out with `command`: the target network on the dataset.
        command: a program with placeholders, ``python train.py --lr {learning_rate}``, which prints its error.
        space: to search, in any form that `warmstart.spaces.read_space` takes; left out, that of the history.
        trials: that the study shall have in the end, earlier calls included; 50 where there is no time-out either.
        timeout: seconds, or ``30m``: begin no trial of this call after so long.
        storage: path or URL; see `warmstart.studies.storage.open_store`.
        study: its name; left out, made from the dataset's and the objective's.
        warm: ``design``: the warm configurations are evaluated first, then the surrogate decides; ``initial``: they are the
            first of `startup` configurations, ``extra``: they come before so many, the others of a Sobol sequence; ``none``.
        k: warm configurations.
        startup: see `warm`; a study without warm configurations begins with so many.
        strategy: of the warm start; see `warmstart.suggest`.
        history: that suggests; see `warmstart.suggest`.
        model: of the meta-features; see `warmstart.suggest`.
        exclude_group: of the history; see `warmstart.suggest`.
        related: datasets of the history whose evaluations the surrogate learns from too, or ``auto``: the nearest ones.
        neighbours: how many ``auto`` stands for, each of another group.
        surrogate: a name in `bo.surrogates.SURROGATES`; with related datasets, ``gp``, ``dngo`` or ``bohamiann``.
        acquisition: a name in `bo.beliefs.ACQUISITIONS`.
        pruner: what stops hopeless trials by what they report: ``none``, ``median``, ``asha`` or ``hyperband``.
        budget: of each trial, in the objective's own unit.
        target_budget: of the target network.
        trial_timeout: seconds, or ``30m``, after which a trial is stopped and counts as failed.
        trial_memory: bytes, or ``4G``, above which likewise.
        workers: processes on this machine, 1 when left out; with a cluster, on its nodes, as many as it has places for.
        cluster: of Ray, where trials run; None = on this machine. Its workers need the storage and the objective.
        seed: of everything random, the trials' seeds among it.
        device: of the networks.
        log: file to which all that the trials print is appended.
        record: name under which the dataset and the trials are added to the history in the end.
        report: Markdown file to write in the end, JSON beside it; True = beside the storage, named after the study.
        save_model: file for the best network, trained again in the end; see `warmstart.studies.network`.
        ensemble: how many of the best networks that file gets.
        cache: use the cache of meta-features.
        download: let torchvision fetch what is missing.
        progress: called when trials ended.
        tell: called with each line that a person should hear; logged by the logger ``warmstart`` when left out.

    Raises:
        UsageError: arguments that do not fit, an objective that cannot be loaded, a study of another space or objective.
        MissingPathError: a path that is not there.
        DataError: a dataset that cannot be used, a study of another program.
        StorageError: a storage or history that is damaged, locked, gone, read-only or full.
        AllTrialsFailedError: every trial of the study failed.
    """
    began = time.monotonic()
    call = Call(
        objective=objective,
        command=command,
        space=space,
        trials=trials,
        timeout=timeout,
        warm=warm,
        k=k,
        startup=startup,
        strategy=strategy,
        history=history,
        model=model,
        exclude_group=exclude_group,
        related=related,
        neighbours=neighbours,
        surrogate=surrogate,
        acquisition=acquisition,
        pruner=pruner,
        budget=budget,
        target_budget=target_budget,
        trial_timeout=trial_timeout,
        trial_memory=trial_memory,
        workers=workers,
        seed=seed,
        device=device,
        ensemble=ensemble,
        cache=cache,
        download=download,
        tell=tell,
    )
    path = None if dataset is None else os.fspath(dataset)
    name = study or call.name(path)
    outputs = {name: _Outputs(record, None if save_model is None else Path(save_model))}
    store, done = _tuned(call, {name: path}, outputs, (), "equal", storage, cluster, log, progress)
    found, plan = done[0]
    found = replace(found, seconds=time.monotonic() - began)
    if report is not None:
        place = _report_place(report, store, name)
        reported = replace(found, report=str(place))
        found = reported if _written(place, lambda: write_report(place, reported, plan), tell) else found
    _check_any(name, found.trials)
    _hand_out(call, outputs[name], found, plan)
    return found


def tune_many(datasets: Sequence[PathLike], *, split: Split = "equal", **options: Unpack[Options]) -> JointResult:
    """Tune several datasets at once: they share a number of trials, and each learns from what was told of the others.

    Every dataset has a study of its own, begun with its own warm start. See docs/tuning.md for who gets the next trial.

    Args:
        datasets: at least two, as `tune` takes them; the same call again, in any order, goes on where an earlier one stopped.
        split: ``equal``: in turn; ``gain``: the next trial goes where it promises the largest improvement of the error.
        options: those of `tune`. `trials` is the total; `study`, `record` and `save_model` get the name of each dataset added.

    Raises:
        UsageError: fewer than two datasets, the same one twice, studies that were begun with other ones, or as `tune`.
        WarmstartError: as `tune`; where every trial of every dataset failed, `AllTrialsFailedError`.
    """
    began = time.monotonic()
    given: dict[str, Any] = {**_DEFAULTS, **options}
    call = Call(**{name: given[name] for name in Call.__dataclass_fields__})
    paths = [os.fspath(dataset) for dataset in datasets]
    check_different(paths, [os.path.realpath(path) for path in paths])
    study, save = given["study"], given["save_model"]
    labels = _labels(paths)
    names = [f"{study}-{label}" if study else call.name(label) for label in labels]
    outputs = {
        name: _Outputs(given["record"] and f"{given['record']}-{label}", save and _stem(Path(save), label))
        for name, label in zip(names, labels, strict=True)
    }
    # Whatever the order of the call, ties are broken alike.
    studies: dict[str, str | None] = dict(sorted(zip(names, paths, strict=True)))
    rest = (given["storage"], given["cluster"], given["log"], given["progress"])
    store, done = _tuned(call, studies, outputs, tuple(studies), split, *rest)
    done.sort(key=lambda each: names.index(each[0].study))
    joint = JointResult(
        store.shown,
        split,
        tuple(found for found, _ in done),
        tuple(plan.design for _, plan in done),
        seconds=time.monotonic() - began,
    )
    title = study or f"{labels[0]}-and-{len(labels) - 1}-more"
    if given["report"] is not None:
        place = _report_place(given["report"], store, title)
        reported = replace(joint, report=str(place))
        plans = [plan for _, plan in done]
        joint = (
            reported if _written(place, lambda: write_joint_report(place, title, reported, plans), call.tell) else joint
        )
    _check_any(title, [trial for found in joint.studies for trial in found.trials])
    for (found, plan), output in zip(done, outputs.values(), strict=True):
        _hand_out(call, output, found, plan)
    return joint


_DEFAULTS = {
    name: each.default for name, each in inspect.signature(tune).parameters.items() if each.kind is each.KEYWORD_ONLY
}


@dataclass(frozen=True, slots=True)
class _Outputs:
    """What becomes of one study in the end: its name in the history, and the file of its networks; None = nothing."""

    record: str | None
    save_model: Path | None


def _tuned(
    call: Call,
    paths: Mapping[str, str | None],
    outputs: Mapping[str, _Outputs],
    members: tuple[str, ...],
    split: Split,
    storage: PathLike | None,
    cluster: Cluster | None,
    log: PathLike | None,
    progress: Callable[[Progress], None] | None,
) -> tuple[Store, list[tuple[TuneResult, Plan]]]:
    """Run the trials of studies, given by the names and the paths of their datasets; give what each came to."""
    limits, store = call.limits(), open_store(storage)
    known = {name: find_plan(store, name) for name in paths}
    plans = {name: call.plan(path, known[name], members=members, split=split) for name, path in paths.items()}
    if members:
        check_different([path or "" for path in paths.values()], [plan.fingerprint for plan in plans.values()])
    targets = tuple(call.target(plan) for plan in plans.values())
    for name, plan in plans.items():
        _check_outputs(outputs[name], plan, call)
    with _quiet_optuna(), Fleet.begin(store, plans, call.complete) as fleet:
        for old in known.values():
            if old is not None:
                check_history(old, call.history, call.tell)
        watch = Watch(fleet, limits, progress)
        if watch.look() < limits.trials:
            file = None if log is None else Path(log)
            job = Job(store.url, tuple(paths), limits, targets, file)
            if cluster is not None:
                from warmstart.integrations.ray_studies import run_on_cluster

                run_on_cluster(job, cluster, store, workers=call.workers, look=watch.look)
            elif call.workers in (None, 1):
                work(fleet, targets, limits, log=file, ended=watch.look)
            else:
                run_crew(job, call.workers, watch.look)
        done = [(summarise(ledger), ledger.plan) for ledger in fleet.ledgers]
    is_short = sum(len(found.trials) for found, _ in done) < limits.trials
    for found, _ in done:
        if found.exhausted and is_short:
            call.tell(
                f"{found.study}: every configuration of the space has had its trial: the study ends after {len(found.trials)}."
            )
    return store, [(replace(found, comparison=_compared(found, plan)), plan) for found, plan in done]


def _compared(found: TuneResult, plan: Plan) -> Comparison:
    return compare_with_uniform(load_space(plan.space), found.trials, surrogate=plan.surrogate, seed=plan.seed)


def _check_outputs(output: _Outputs, plan: Plan, call: Call) -> None:
    """Check that there will be what is wanted in the end, and a place for it."""
    if output.record is not None:
        check_recordable(history_path(call.history), plan)
    if output.save_model is not None:
        _check_savable(output.save_model, plan)


def _hand_out(call: Call, output: _Outputs, found: TuneResult, plan: Plan) -> None:
    """Add a study to the history, and save its networks, as far as that is wanted."""
    if output.record is not None:
        path = history_path(call.history)
        call.tell(record_study(path, output.record, plan, found.trials, download=call.download).line)
    if output.save_model is not None:
        _save_networks(output.save_model, plan, found, call.ensemble, call.tell)


def _labels(paths: Sequence[str]) -> list[str]:
    """Name datasets by the ends of their paths, and where these are the same by all of the path too."""
    ends = [default_name(path, None, None) for path in paths]
    return [
        end if ends.count(end) == 1 else f"{end}-{zlib.crc32(path.encode()):08x}"
        for end, path in zip(ends, paths, strict=True)
    ]


def _stem(path: Path, label: str) -> Path:
    return path.with_stem(f"{path.stem}-{label}")


def _check_savable(path: Path, plan: Plan) -> None:
    """Check that there are networks to save in the end, and a place for them."""
    if plan.objective["target_budget"] is None:
        msg = "--save-model: expected a study of the built-in network, got an objective of your own. Let that save its models."
        raise UsageError(msg)
    if not path.absolute().parent.is_dir():
        msg = f"--save-model: expected a file in a folder that is there, got {path}. Make the folder first."
        raise MissingPathError(msg)


def _save_networks(path: Path, plan: Plan, found: TuneResult, k: int, tell: Callable[[str], object]) -> None:
    """Train the best networks again and write them."""
    if not any(trial.status is TrialStatus.OK and trial.feasible for trial in found.trials):
        tell(f"{path}: not written: no trial ended well and met its constraints.")
        return
    from warmstart.studies.network import train_best

    networks = train_best(plan, found.trials, k=k)
    networks.save(path)
    tell(f"{path}: {len(networks.members)} networks, validation error {networks.error:.4g} together.")


def _written(place: Path, write: Callable[[], None], tell: Callable[[str], object]) -> bool:
    """Write a report; where that fails, say so: the study is kept all the same."""
    try:
        write()
    except OSError as error:
        tell(f"{place}: the report could not be written ({error.strerror}); the study itself is kept.")
        return False
    return True


def _report_place(report: PathLike | Literal[True], store: Store, name: str) -> Path:
    """Give the place of the report: the one named, else beside a local storage, else the working folder."""
    if report is not True:
        return Path(report)
    folder = Path.cwd() if store.path is None else store.path.parent
    safe = re.sub(r"[^\w.-]+", "-", name)
    return folder / f"{safe}-report.md"


@contextmanager
def _quiet_optuna() -> Iterator[None]:
    """Keep Optuna from saying what we say, then put its level back."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _check_any(name: str, trials: Sequence[Trial]) -> None:
    """Raise where every trial failed."""
    failed = [trial for trial in trials if trial.error is None and trial.status is not TrialStatus.PRUNED]
    if failed and len(failed) == len(trials):
        counts = ", ".join(f"{count} {status}" for status, count in count_statuses(trials).items())
        msg = f"{name}: expected a trial that gives an error, got none of {len(failed)} ({counts}; the last: {failed[-1].note or 'no note'}). Correct the objective; begin another study with --study."
        raise AllTrialsFailedError(msg)
