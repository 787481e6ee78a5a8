"""What error was expected of a study: before its first trial, and after each one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from warmstart.bo.transfer.expected_error import DatasetExpectation, ExpectedError
from warmstart.history_store.records import Config
from warmstart.history_store.wording import in_short
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.results.trial import Trial
from warmstart.studies.state.spec import StudySpec, WarmConfig, warm_of

_RATES = frozenset(["error", "err"])
"""Words in the name of a metric that is an error as the history has it."""


@dataclass(frozen=True, slots=True)
class TrialExpectation:
    """What was expected of a trial, and what came.

    Attributes:
        trial: its number.
        expected: its error, by the trials before it; None where the history never measured its configuration.
        came: its error; None where it gave none.
        best: error of the best after a search, by the trials up to this one.
    """

    trial: int
    expected: ExpectedError | None
    came: float | None
    best: ExpectedError

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return {
            "trial": self.trial,
            "expected_error": _record(self.expected),
            "error": self.came,
            "best": self.best.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class StudyExpectations:
    """What error the history lets a study expect, before its first trial and after each.

    Attributes:
        promised: error of the best after a search, before the first trial.
        trials: those that ended, in order of their numbers.
        warm: error of each warm configuration that the history measured, by all trials; of one that was measured here, what came.
        next: the first of these that gave no error yet; None where all did.
        is_as_measured: the study trains what the history measured, for as long.
    """

    promised: ExpectedError
    trials: tuple[TrialExpectation, ...]
    warm: tuple[tuple[Config, ExpectedError], ...]
    next: int | None
    is_as_measured: bool = True

    @property
    def best(self) -> ExpectedError:
        """Return the error to expect of the best after a search, by all trials."""
        return self.trials[-1].best if self.trials else self.promised

    @property
    def telling(self) -> tuple[TrialExpectation, ...]:
        """Return the trials of which something was expected, or after which something else is."""
        before = (self.promised, *(each.best for each in self.trials))
        return tuple(
            each
            for each, best in zip(self.trials, before, strict=False)
            if each.expected is not None or each.best != best
        )

    @property
    def upcoming(self) -> tuple[Config, ExpectedError] | None:
        """Return the warm configuration that comes next, and the error to expect of it."""
        return None if self.next is None else self.warm[self.next]

    def of(self, trial: int) -> ExpectedError | None:
        """Return the error that was expected of a trial that ended."""
        return next((each.expected for each in self.trials if each.trial == trial), None)

    def expected_of(self, config: Config) -> ExpectedError | None:
        """Return the error to expect of a configuration; None where the history never measured it."""
        place = _place(config, {row: WarmConfig(known) for row, (known, _) in enumerate(self.warm)})
        return None if place is None else self.warm[place][1]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON has them."""
        return {
            "promised": self.promised.to_dict(),
            "trials": [each.to_dict() for each in self.trials],
            "warm": [{"config": dict(config), "expected_error": error.to_dict()} for config, error in self.warm],
            "next": self.next,
            "is_as_measured": self.is_as_measured,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote.

        Raises:
            KeyError, TypeError: it is something else.
        """
        return cls(
            ExpectedError(**record["promised"]),
            tuple(
                TrialExpectation(
                    each["trial"],
                    None if each["expected_error"] is None else ExpectedError(**each["expected_error"]),
                    each["error"],
                    ExpectedError(**each["best"]),
                )
                for each in record["trials"]
            ),
            tuple((each["config"], ExpectedError(**each["expected_error"])) for each in record["warm"]),
            record["next"],
            record.get("is_as_measured", True),
        )


def expectations_of(plan: StudySpec, trials: Sequence[Trial]) -> StudyExpectations | None:
    """Say what was expected of a study, by what its history foresaw and by what came.

    Args:
        plan: of the study.
        trials: that ended, in order of their numbers.

    Returns: None where the history foresaw nothing, or the study is about something else than an error in [0, 1].
    """
    if not plan.expectation or not _is_rate(plan.measure):
        return None
    valid = [trial for trial in trials if trial.error is not None and trial.feasible]
    if any(not 0.0 <= (trial.error or 0.0) <= 1.0 for trial in valid):
        return None
    foreseen = DatasetExpectation.from_dict(plan.expectation)
    configs = plan.configs[: foreseen.n_configs]  # those after them, the history never measured
    told: dict[int, float] = {}
    others: list[float] = []
    now = first = foreseen.errors()
    seen = []
    for trial in trials:
        place = _place(trial.config, {row: each for row, each in enumerate(configs) if row not in told})
        expected = None if place is None else now[place]
        if trial.error is not None and trial.feasible:
            if place is not None:
                told[place] = trial.error
            elif not others or trial.error < min(others):
                others = [trial.error]
            if place is not None or trial.error < now[-1].high:
                now = foreseen.errors(told, others=others)
        seen.append(TrialExpectation(trial.number, expected, trial.error, now[-1]))
    warm = tuple((each.config, error) for each, error in zip(configs, now[:-1], strict=True))
    upcoming = next((row for row in range(len(configs)) if row not in told), None)
    is_own = plan.workload is None or plan.budget is not None
    return StudyExpectations(first[-1], tuple(seen), warm, upcoming, is_as_measured=not is_own)


def promised_beside_came(found: StudyExpectations, best: Trial | None, metric: Metric) -> str:
    """Say in a line what was promised of a study, what came, and what is expected still."""

    def shown(error: ExpectedError) -> str:
        value, *ends = (metric.to_value(round(part, 4)) for part in (error.value, error.low, error.high))
        low, high = sorted(ends)
        return f"{value:.3g} ({low:.3g} to {high:.3g})"

    name = "a best error" if metric.name == "error" else f"a best {metric.name}"
    of_whom = "" if found.is_as_measured else ", for the history's network and budget"
    line = f"Promised before the first trial{of_whom}: {name} of {shown(found.promised)}"
    if best is None or best.error is None:
        return f"{line}; none came yet."
    is_open = found.best.value < best.error - 5e-4
    more = f" More trials are expected to reach {shown(found.best)}." if is_open else ""
    return f"{line}; came: {in_short(metric.to_value(best.error))}.{more}"


def _record(error: ExpectedError | None) -> dict[str, float] | None:
    return None if error is None else error.to_dict()


def _place(config: Config, known: Mapping[int, WarmConfig]) -> int | None:
    """Find a configuration among warm ones by their places; None where it is none of them."""
    return next((place for place, each in known.items() if warm_of(config, (each,)) is not None), None)


def _is_rate(metric: Metric) -> bool:
    """Tell whether a metric stands for an error in [0, 1], as those of histories are."""
    words = set(re.split(r"[\W_]+", metric.name.lower()))
    return metric.scale in ("fraction", "percent") or (
        metric.scale is None and (metric.maximize or bool(words & _RATES))
    )
