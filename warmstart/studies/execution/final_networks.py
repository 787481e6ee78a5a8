"""Which networks of a study are saved in the end: one of them may be trained once more in the time that is kept for it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from history_store.records import Config
from training.workloads import Workload


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trial that ended well.

    Attributes:
        config: of its network.
        error: that it reached.
        seconds: that it took; 0 = unknown.
        steps: that it made; 0 = unknown.
    """

    config: Config
    error: float
    seconds: float
    steps: float


def choose_networks(
    workload: Workload, candidates: Sequence[Candidate], k: int, *, seconds: float = math.inf
) -> list[int]:
    """Choose the networks that are saved: those of the least errors.

    Where none of these is trained once more, and several are saved, the last place is for the one that is, if its error is then
    expected to be less than that of the network whose place it takes.

    Args:
        workload: that trained them.
        candidates: all trials that ended well.
        k: networks; fewer where there are fewer.
        seconds: that there are for training one once more; infinite = no time is kept for that.

    Returns: their places, best first; equal ones as they stand.
    """
    order = sorted(range(len(candidates)), key=lambda place: candidates[place].error)
    chosen, rest = order[:k], order[k:]
    if k < 2 or math.isinf(seconds) or any(workload.steps_again(candidates[place].config) for place in chosen):
        return chosen
    later = {place: expected_error(workload, candidates[place], seconds) for place in rest}
    best = min(later, key=lambda place: later[place], default=None)
    if best is not None and later[best] < candidates[chosen[-1]].error:
        chosen[-1] = best
    return chosen


def expected_error(workload: Workload, trial: Candidate, seconds: float) -> float:
    """Return the error that is expected after a last training of so many seconds; infinite where there is none."""
    if not (workload.steps_again(trial.config) and trial.seconds > 0 and trial.steps > 0):
        return math.inf
    return workload.error_again(trial.config, trial.error, steps=trial.steps, longer=seconds / trial.seconds)
