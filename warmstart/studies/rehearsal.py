"""Rehearse a trial of a user's own objective: run it once for a short time, and find out what a study can read from it."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from warmstart.history_store.errors import UsageError
from warmstart.history_store.space import load_space, shown
from warmstart.history_store.wording import counted, duration, in_short
from warmstart.studies.execution.gpus import nvidia_smi
from warmstart.studies.execution.trial_folder import TrialFolder
from warmstart.studies.execution.trial_process import TrialRunner
from warmstart.studies.objectives.base import Outcome, TrialStatus
from warmstart.studies.objectives.guessed_metric import GuessedMetric
from warmstart.studies.objectives.metric import NAMED, ContradictionError, Metric
from warmstart.studies.objectives.metric_reader import MetricReader
from warmstart.studies.objectives.printed import text_lines
from warmstart.studies.tune_options import TuneOptions
from warmstart.training.processes.usage import memory_below

PREFIX = "warmstart-rehearsal-"
"""Beginning of the name of a rehearsed trial's folder, which is temporary."""
LIMIT_S = 60.0
"""Seconds after which a rehearsed trial is stopped, where `trial_timeout` names no other time."""
SAMPLE_S = 0.3
_MOST_FILES, _SHOWN_FILES, _LAST_LINES = 20_000, 5, 5
_GPU_MB = 50.0
"""Growth of a GPU's used memory that counts as the trial's."""


@dataclass(slots=True)
class Usage:
    """The most memory that a trial used, sampled while it ran.

    Attributes:
        n_bytes: of its processes.
        gpu_mb: by number of the GPU, of those that it used.
    """

    n_bytes: int = 0
    gpu_mb: dict[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What one short trial showed.

    Attributes:
        config: of the trial.
        outcome: of the trial; a timeout is none of its failures.
        metric: of the call, or the one guessed from what it printed.
        guess: where the call names no metric and the trial gave no error.
        value: the last one of the metric; None without one.
        steps: of the reports.
        usage: of memory.
        files: that it wrote, in the working folder and in its own.
        last_lines: that it printed.
        trials: of the call, for the time that all take.
    """

    config: Mapping[str, Any]
    outcome: Outcome
    metric: Metric
    guess: GuessedMetric | None
    value: float | None
    steps: tuple[float, ...]
    usage: Usage
    files: tuple[str, ...]
    last_lines: tuple[str, ...]
    trials: float

    @property
    def is_usable(self) -> bool:
        """Tell whether a study of it would have a result."""
        is_whole = (
            self.outcome.error is not None or self.guess is not None or self.outcome.status == TrialStatus.TIMEOUT
        )
        return is_whole and self.value is not None

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Return what was found, as pairs of a subject and words."""
        better = "larger is better" if self.metric.maximize else "less is better"
        metric = f"{self.metric.name} {in_short(self.value)}, {better}" if self.value is not None else self.outcome.note
        source = "" if self.guess is None else f", as in {self.guess.text!r}"
        reports = (
            "none: `pruner` and curves have nothing to go by; `score` or `loss` takes each line with its NAME for one"
        )
        if len(self.steps) == 1:
            reports = "1: `pruner` and curves need more, printed while it trains"
        elif self.steps:
            reports = f"{len(self.steps)}, at steps {self.steps[0]:.6g} to {self.steps[-1]:.6g}: `pruner`, `time` and curves work"
        seconds = self.outcome.duration
        is_cut = self.outcome.status == TrialStatus.TIMEOUT
        took = (
            f"stopped after {duration(seconds)}: `trial_timeout` lets it run longer" if is_cut else f"{seconds:.1f} s"
        )
        if not is_cut and math.isfinite(self.trials):
            took += f"; {counted(int(self.trials), 'trial')} take about {duration(seconds * self.trials)}"
        gpus = ", ".join(f"{number} ({mb:,.0f} MB)" for number, mb in sorted(self.usage.gpu_mb.items()))
        more = len(self.files) - _SHOWN_FILES
        files = ", ".join(self.files[:_SHOWN_FILES]) + (f" and {more} more" if more > 0 else "")
        return [
            ("metric", metric + source),
            ("reports", reports),
            ("time", took),
            ("memory", f"{self.usage.n_bytes / 1e6:,.0f} MB"),
            ("GPU", gpus or "none used"),
            ("files", files or "none written here or in {warmstart.dir}"),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the rehearsal for JSON."""
        return {
            "config": dict(self.config),
            "status": self.outcome.status.value,
            "note": self.outcome.note,
            "metric": {"name": self.metric.name, "maximize": self.metric.maximize, "value": self.value},
            "option": None if self.guess is None else {self.guess.option: self.guess.name},
            "steps": list(self.steps),
            "seconds": self.outcome.duration,
            "memory_mb": round(self.usage.n_bytes / 1e6, 1),
            "gpu_mb": {str(number): mb for number, mb in self.usage.gpu_mb.items()},
            "files": list(self.files),
            "last_lines": list(self.last_lines),
        }


def rehearse(dataset: str | None, options: TuneOptions) -> Rehearsal:
    """Run one trial of an objective, with the first initial configuration, else the space's default; no study is made.

    Raises:
        UsageError: neither a command nor a function, or an objective that cannot be loaded.
        WarmstartError: a space that cannot be read.
    """
    if options.objective is None and options.command is None:
        msg = "needs `command` or `objective`."
        raise UsageError(msg, param="rehearse")
    limits = options.limits()
    plan = options.plan(dataset, None)
    target, metric, space = options.target(plan), plan.measure, load_space(plan.space)
    initial: Any = plan.initial
    config = dict(initial[0] if initial else space.get_default_configuration())
    timeout = limits.trial_timeout if math.isfinite(limits.trial_timeout) else LIMIT_S
    with TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True) as name, TrialRunner(target) as runner:
        folder = TrialFolder(0, Path(name))
        with _sampled(runner) as usage:
            began = time.time()
            outcome = runner.run(
                config,
                seed=options.seed,
                budget=plan.budget,
                timeout=timeout,
                memory=limits.trial_memory,
                folder=folder,
            )
        printed = list(text_lines(folder.output))
        written = [
            *_written(Path.cwd(), began),
            *(f"{{warmstart.dir}}/{path}" for path in _written(folder.path, began)),
        ]
    files = tuple(path for path in written if not path.endswith(f"/{folder.output.name}"))
    curve = [(step, metric.to_value(error)) for step, error in outcome.curve]
    value = metric.to_value(outcome.error) if outcome.error is not None else curve[-1][1] if curve else None
    guess = None
    if value is None and metric.is_plain and outcome.status in (TrialStatus.FAILED, TrialStatus.TIMEOUT):
        reader = MetricReader(metric)
        for line in printed:
            reader.read(line)
        guess = reader.guess
    if guess is not None:
        metric = Metric(f"{NAMED}{guess.name}", guess.is_score)
        curve, value = _reread(printed, metric)
    return Rehearsal(
        shown(config),
        outcome,
        metric,
        guess if value is not None else None,
        value,
        tuple(step for step, _ in curve),
        usage,
        files,
        tuple(line[:200] for line in printed[-_LAST_LINES:]),
        limits.trials,
    )


def _reread(printed: list[str], metric: Metric) -> tuple[list[tuple[float, float]], float | None]:
    """Read a metric from what a trial printed; return its curve and last value."""
    reader, curve = MetricReader(metric), list[tuple[float, float]]()
    try:
        for line in printed:
            pair: Any = reader.read(line)
            if pair is not None:
                curve.append(pair)
    except ContradictionError:  # a number above 100
        metric = replace(metric, scale="any")
        return _reread(printed, metric) if reader.named is not None and reader.named.is_score else ([], None)
    return curve, None if reader.named is None else reader.named.latest


@contextmanager
def _sampled(runner: TrialRunner) -> Iterator[Usage]:
    """Sample the memory of a runner's processes in a thread."""
    usage, end, before = Usage(), threading.Event(), gpu_memory()

    def sample() -> None:
        while not end.wait(SAMPLE_S):
            if (pid := runner.pid) is not None:
                usage.n_bytes = max(usage.n_bytes, memory_below(pid))
            for number, mb in gpu_memory().items():
                grown = mb - before.get(number, 0.0)
                if grown >= _GPU_MB:
                    usage.gpu_mb[number] = max(grown, usage.gpu_mb.get(number, 0.0))

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield usage
    finally:
        end.set()
        thread.join()


def gpu_memory() -> dict[int, float]:
    """Return the used megabytes of each GPU by number; none where there is no `nvidia-smi`."""
    try:
        return {int(number): float(mb) for number, mb in nvidia_smi("index", "memory.used")}
    except ValueError:
        return {}


def _written(folder: Path, began: float) -> list[str]:
    """List the files below a folder that were written since a time; hidden folders and Python's caches are left out."""
    written, n_files = [], 0
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        n_files += len(names)
        for name in names:
            path = Path(root, name)
            try:
                is_new = path.stat().st_mtime >= began - 0.05
            except OSError:
                continue
            if is_new:
                written.append(str(path.relative_to(folder)))
        if n_files > _MOST_FILES:
            break
    return written
