"""Runs of a benchmark that can be stopped and go on, and searches by workers on a simulated clock."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

from ConfigSpace import ConfigurationSpace

from warmstart.bo.optimizer import Optimizer

Job = Mapping[str, Any]


def resume(path: Path, jobs: Iterable[Job], run: Callable[..., dict[str, Any]]) -> list[dict[str, Any]]:
    """Run the jobs that have no line in a file yet, append one a job as it ends, and give all lines of these jobs.

    A line holds the job, which is the keywords of `run`, and what `run` gave.
    """
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if text and not text.endswith("\n"):  # stopped while it wrote
        text = text[: text.rfind("\n") + 1]
        path.write_text(text, encoding="utf-8")
    done = [json.loads(line) for line in text.splitlines()]
    found = []
    for job in jobs:
        known = next((each for each in done if each["job"] == dict(job)), None)
        if known is None:
            known = {"job": dict(job), **run(**job)}
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(known) + "\n")
        found.append(known)
    return found


@dataclass(slots=True)
class Trace:
    """A search: `t` errors in the order in which they came, when on the simulated clock, and what was evaluated.

    Attributes:
        proposed_pending: proposals of something that was still running, or was evaluated before.
        asks: CPU seconds of each ask.
    """

    errors: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    configs: list[dict[str, Any]] = field(default_factory=list)
    proposed_pending: int = 0
    asks: list[float] = field(default_factory=list)

    @property
    def cpu(self) -> float:
        """Return the CPU seconds of all asks."""
        return sum(self.asks)

    def best_at(self, n: int) -> float:
        """Return the least of the first n errors."""
        return min(self.errors[:n])

    def best_by(self, now: float) -> float:
        """Return the least error by a time."""
        return min(
            (error for error, end in zip(self.errors, self.ends, strict=True) if end <= now), default=float("inf")
        )

    def reached(self, error: float) -> tuple[int | None, float | None]:
        """Return the evaluations and the time that it took to get down to an error, None where it was not reached."""
        for i, (found, end) in enumerate(zip(self.errors, self.ends, strict=True)):
            if found <= error:
                return i + 1, end
        return None, None


def search(
    space: ConfigurationSpace,
    value: Callable[[dict[str, Any]], float],
    t: int,
    *,
    workers: int = 1,
    seconds: Callable[[dict[str, Any]], float] = lambda _: 1.0,
    until: float = -float("inf"),
    **options: Any,
) -> Trace:
    """Evaluate t configurations that an Optimizer asks for, a worker each, asked for one more as soon as one is free.

    None is asked for any more once an error is down to `until`.
    """
    optimizer, trace, running, now = Optimizer(space, **options), Trace(), [], 0.0
    for asked in range(t):
        if len(running) == workers:
            now = _end(optimizer, value, seconds, running, trace)
            if trace.errors[-1] <= until:
                break
        start = time.process_time()
        config = optimizer.ask()[0]
        trace.asks.append(time.process_time() - start)
        trace.proposed_pending += config in trace.configs or config in [other for _, _, other in running]
        heappush(running, (now + seconds(config), asked, config))
    while running:
        _end(optimizer, value, seconds, running, trace)
    return trace


def write_report(report: object, out: Path | None) -> None:
    """Print a report as JSON, and write it where it is wanted."""
    text = json.dumps(report, indent=1)
    print(text)
    if out:
        out.write_text(text + "\n", encoding="utf-8")


def _end(
    optimizer: Optimizer,
    value: Callable[[dict[str, Any]], float],
    seconds: Callable[[dict[str, Any]], float],
    running: list[tuple[float, int, dict[str, Any]]],
    trace: Trace,
) -> float:
    """Tell what ends next, and give its time."""
    now, _, config = heappop(running)
    error = value(config)
    optimizer.tell(config, error, duration=seconds(config))
    trace.errors.append(error)
    trace.ends.append(now)
    trace.configs.append(config)
    return now
