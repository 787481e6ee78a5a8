"""Tune: from a dataset or an objective to the best configuration found, in a study that is never lost."""

from __future__ import annotations

import logging
import math
import os
import re
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from history_store.errors import AllTrialsFailedError, MissingPathError, UsageError
from history_store.space import load_space
from training.budget import COMPACT
from training.plan import parse_time
from warmstart.locations import history_path
from warmstart.studies.comparison import compare_with_uniform
from warmstart.studies.crew import run_crew
from warmstart.studies.kinds import load_objective
from warmstart.studies.ledger import begin, find_plan
from warmstart.studies.objective import TrialStatus
from warmstart.studies.plan import Plan, Pruner, Warm, check_warm
from warmstart.studies.progress import Progress, Watch
from warmstart.studies.record import check_recordable, record_study
from warmstart.studies.related import AUTO, NEIGHBOURS
from warmstart.studies.report import write_report
from warmstart.studies.storage import Store, open_store
from warmstart.studies.summary import TuneResult, summarise
from warmstart.studies.warm_start import ask_history, check_history
from warmstart.studies.worker import Job, Limits, work

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from warmstart.integrations.ray import Cluster

PathLike = str | os.PathLike[str]
TRIALS = 50
"""Trials of a study for which neither their number nor a time is given."""
STARTUP = 3
_log = logging.getLogger("warmstart")


def tune(
    dataset: PathLike | None = None,
    *,
    objective: str | Callable[..., object] | None = None,
    command: str | None = None,
    space: ConfigurationSpace | PathLike | None = None,
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
        space: to search, or a file of ConfigSpace JSON, ``compact`` or ``paper``; left out, that of the history.
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
    total = _total(trials, timeout)
    for name, number in (
        ("k", k),
        ("startup", startup),
        ("workers", 1 if workers is None else workers),
        ("ensemble", ensemble),
        ("neighbours", neighbours),
    ):
        _check_count(name, number)
    limits = Limits(
        total,
        began + parse_time(timeout),
        math.inf if trial_timeout is None else parse_time(trial_timeout),
        _bytes(trial_memory),
    )
    store = open_store(storage)
    path = None if dataset is None else os.fspath(dataset)
    name = study or _default_name(path, objective, command)
    known = find_plan(store, name)
    groups = (exclude_group,) if isinstance(exclude_group, str) else tuple(exclude_group or ())
    is_own = objective is not None or command is not None
    check_warm(warm)
    counts: Warm = warm if path is not None else "none"
    tasks = (related,) if isinstance(related, str) else tuple(sorted(set(related)))
    plan = Plan(
        space=_space_text(space, known, history),
        objective=_objective_text(objective, command, target_budget),
        dataset=path,
        fingerprint=None if path is None else _fingerprint(path, is_image=counts != "none" or not is_own or AUTO in tasks, download=download),
        seed=seed,
        surrogate=surrogate,
        acquisition=acquisition,
        pruner=pruner,
        budget=budget,
        warm=counts,
        k=k,
        strategy=strategy,
        exclude_group=groups,
        startup=startup,
        folder=str(Path.cwd()),
        device=device,
        related=tasks,
        neighbours=neighbours,
    )  # fmt: skip
    plan.sampler()  # a wrong name is told before anything is written
    target = load_objective(
        objective,
        names=list(load_space(plan.space)),
        command=command,
        dataset=path,
        target_budget=target_budget,
        device=device,
        folder=Path.cwd(),
    )
    if record is not None:
        check_recordable(history_path(history), plan)
    if save_model is not None:
        _check_savable(Path(save_model), plan)
    complete = partial(ask_history, history=history, model=model, cache=cache, download=download, tell=tell)
    with _quiet_optuna(), begin(store, name, complete, plan) as ledger:
        if known is not None:
            check_history(known, history, tell)
        watch = Watch(ledger, limits, progress)
        if watch.look() < total:
            file = None if log is None else Path(log)
            job = Job(store.url, name, limits, target, file)
            if cluster is not None:
                from warmstart.integrations.ray_studies import run_on_cluster

                run_on_cluster(job, cluster, store, workers=workers, look=watch.look)
            elif workers in (None, 1):
                work(ledger, target, limits, log=file, ended=watch.look)
            else:
                run_crew(job, workers, watch.look)
        found, plan = summarise(ledger), ledger.plan
    if found.exhausted and len(found.trials) < total:
        tell(f"{name}: every configuration of the space has had its trial: the study ends after {len(found.trials)}.")
    compared = compare_with_uniform(load_space(plan.space), found.trials, surrogate=surrogate, seed=seed)
    found = replace(found, comparison=compared, seconds=time.monotonic() - began)
    if report is not None:
        found = _reported(found, plan, _report_place(report, store, name), tell)
    _check_any(found)
    if record is not None:
        tell(record_study(history_path(history), record, plan, found.trials, download=download).line)
    if save_model is not None:
        _save_networks(Path(save_model), plan, found, ensemble, tell)
    return found


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


def _reported(found: TuneResult, plan: Plan, place: Path, tell: Callable[[str], object]) -> TuneResult:
    """Write the report; where that fails, say so: the study is kept all the same."""
    reported = replace(found, report=str(place))
    try:
        write_report(place, reported, plan)
    except OSError as error:
        tell(f"{place}: the report could not be written ({error.strerror}); the study itself is kept.")
        return found
    return reported


def _report_place(report: PathLike | Literal[True], store: Store, name: str) -> Path:
    """Give the place of the report: the one named, else beside a local storage, else the working folder."""
    if report is not True:
        return Path(report)
    folder = Path.cwd() if store.path is None else store.path.parent
    safe = re.sub(r"[^\w.-]+", "-", name)
    return folder / f"{safe}-report.md"


def _total(trials: int | None, timeout: str | float | None) -> float:
    if trials is not None:
        _check_count("trials", trials)
        return trials
    return TRIALS if timeout is None else math.inf


def _check_count(name: str, number: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        msg = f"{name}: expected a whole number of at least 1, got {number!r}. Leave it out for the default."
        raise UsageError(msg)


def _bytes(text: str | int | None) -> int | None:
    """Read an amount of memory: bytes, or a text like ``4G``, ``512M``."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)i?B?", str(text).strip())
    found = int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " ")) if match else 0
    if found < 1:
        msg = (
            f"--trial-memory: expected an amount of memory above 0, got {text!r}. Write 4G, 512M or a number of bytes."
        )
        raise UsageError(msg)
    return found


def _default_name(dataset: str | None, objective: str | Callable[..., object] | None, command: str | None) -> str:
    """Name a study after what is tuned on what."""
    words = command.split() if command else []
    what = next((word for word in words if not Path(word).name.startswith("python")), None)
    if objective is not None:
        what = objective if isinstance(objective, str) else getattr(objective, "__qualname__", type(objective).__name__)
    parts = [Path(part).name for part in (dataset, what) if part]
    name = re.sub(r"[^\w.]+", "-", "-".join(parts)).strip("-")
    if not name:
        msg = "tune: expected --dataset, --objective or --command, got none of them. Give --dataset to tune the target network on it."
        raise UsageError(msg)
    return name


def _objective_text(
    objective: str | Callable[..., object] | None, command: str | None, target_budget: str
) -> dict[str, str | None]:
    """Say what is evaluated, as the study keeps it."""
    if objective is not None and not isinstance(objective, str):
        name = getattr(objective, "__qualname__", type(objective).__qualname__)
        objective = f"{getattr(objective, '__module__', '')}:{name}"
    own = objective is not None or command is not None
    return {"function": objective, "command": command, "target_budget": None if own else target_budget}


def _space_text(space: ConfigurationSpace | PathLike | None, known: Plan | None, history: PathLike | None) -> str:
    """Give the space that was named, else the study's, else the history's."""
    from history_store.space import dump_space
    from warmstart.collection import space_text

    if isinstance(space, str | os.PathLike):
        return space_text(os.fspath(space))
    if space is not None:
        return dump_space(space)
    if known is not None:
        return known.space
    from history_store.history import History

    with History.open(history_path(history)) as opened:
        return opened.space_json


def _fingerprint(path: str, *, is_image: bool, download: bool) -> str | None:
    """Fingerprint images; whatever else a dataset is, its path alone stands for it."""
    if not is_image:
        return path
    from warmstart.query import open_query

    return open_query(path, None, None, download=download)[1]


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


def _check_any(found: TuneResult) -> None:
    """Raise where every trial failed."""
    failed = [trial for trial in found.trials if trial.error is None and trial.status is not TrialStatus.PRUNED]
    if failed and len(failed) == len(found.trials):
        counts = ", ".join(f"{count} {status}" for status, count in found.counts.items())
        msg = f"{found.study}: expected a trial that gives an error, got none of {len(failed)} ({counts}; the last: {failed[-1].note or 'no note'}). Correct the objective; begin another study with --study."
        raise AllTrialsFailedError(msg)
