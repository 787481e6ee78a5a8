"""Expected errors of a study: before its first trial, and after each trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from warmstart.bo.transfer.expected_error import ExpectedError
from warmstart.history_store.records import Config, same_config
from warmstart.history_store.wording import in_short
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.results.trial import Trial


@dataclass(frozen=True, slots=True)
class TrialExpectation:
    """Expected and actual error of a trial.

    Attributes:
        trial: its number.
        expected: its error, by the trials before it; None if the history never measured its configuration.
        error: its error; None without one.
        best: error of the best after a search, by the trials up to this one.
    """

    trial: int
    expected: ExpectedError | None
    error: float | None
    best: ExpectedError

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "trial": self.trial,
            "expected_error": _record(self.expected),
            "error": self.error,
            "best": self.best.to_dict(),
        }


@dataclass(frozen=True, slots=True)
class StudyExpectations:
    """Expected errors of a study by its history, before its first trial and after each.

    Attributes:
        promised: error of the best after a search, before the first trial.
        trials: that ended, in order of their numbers.
        warm: error of each warm configuration that the history measured, by all trials; of an evaluated one, its error.
        next: index of the first warm configuration without an error; None if all have one.
        is_as_measured: whether the study trains the history's network at its budget.
    """

    promised: ExpectedError
    trials: tuple[TrialExpectation, ...]
    warm: tuple[tuple[Config, ExpectedError], ...]
    next: int | None
    is_as_measured: bool = True

    @property
    def best(self) -> ExpectedError:
        """Return the expected error of the best after a search, by all trials."""
        return self.trials[-1].best if self.trials else self.promised

    @property
    def informative(self) -> tuple[TrialExpectation, ...]:
        """Return the trials with an expectation, and those that changed the expected best."""
        before = (self.promised, *(trial.best for trial in self.trials))
        return tuple(
            trial
            for trial, best in zip(self.trials, before, strict=False)
            if trial.expected is not None or trial.best != best
        )

    @property
    def upcoming(self) -> tuple[Config, ExpectedError] | None:
        """Return the next warm configuration and its expected error."""
        return None if self.next is None else self.warm[self.next]

    def of(self, trial: int) -> ExpectedError | None:
        """Return the error that was expected of an ended trial."""
        return next((item.expected for item in self.trials if item.trial == trial), None)

    def expected_of(self, config: Config) -> ExpectedError | None:
        """Return the expected error of a configuration; None if the history never measured it."""
        return next((error for warm_config, error in self.warm if same_config(warm_config, config)), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {
            "promised": self.promised.to_dict(),
            "trials": [trial.to_dict() for trial in self.trials],
            "warm": [{"config": dict(config), "expected_error": error.to_dict()} for config, error in self.warm],
            "next": self.next,
            "is_as_measured": self.is_as_measured,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Read a record of `to_dict`.

        Raises:
            KeyError, TypeError: it is something else.
        """
        return cls(
            ExpectedError(**record["promised"]),
            tuple(
                TrialExpectation(
                    entry["trial"],
                    None if entry["expected_error"] is None else ExpectedError(**entry["expected_error"]),
                    entry["error"],
                    ExpectedError(**entry["best"]),
                )
                for entry in record["trials"]
            ),
            tuple((entry["config"], ExpectedError(**entry["expected_error"])) for entry in record["warm"]),
            record["next"],
            record.get("is_as_measured", True),
        )


def expectation_line(expectations: StudyExpectations, best: Trial | None, metric: Metric) -> str:
    """Return a line on the error expected at first, the best error, and the expected error after more trials."""

    def shown(error: ExpectedError) -> str:
        value, *ends = (metric.to_value(round(part, 4)) for part in (error.value, error.low, error.high))
        low, high = sorted(ends)
        return f"{value:.3g} ({low:.3g} to {high:.3g})"

    name = "a best error" if metric.name == "error" else f"a best {metric.name}"
    scope = "" if expectations.is_as_measured else ", for the history's network and budget"
    line = f"Expected before the first trial{scope}: {name} of {shown(expectations.promised)}"
    if best is None or best.error is None:
        return f"{line}; no result yet."
    is_open = expectations.best.value < best.error - 5e-4
    more = f" More trials are expected to reach {shown(expectations.best)}." if is_open else ""
    return f"{line}; measured: {in_short(metric.to_value(best.error))}.{more}"


def _record(error: ExpectedError | None) -> dict[str, float] | None:
    return None if error is None else error.to_dict()
