"""Expected errors of a study, by its plan and its trials."""

from __future__ import annotations

import re
from collections.abc import Sequence

from warmstart.bo.transfer.expected_error import DatasetExpectation
from warmstart.history_store.records import same_config
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.results.expectations import StudyExpectations, TrialExpectation
from warmstart.studies.results.trial import Trial
from warmstart.studies.state.spec import StudySpec

_RATES = frozenset(["error", "err"])
"""Words in the name of a metric that is an error in [0, 1], as in a history."""


def expectations_of(plan: StudySpec, trials: Sequence[Trial]) -> StudyExpectations | None:
    """Return the expected errors of a study, by its history's expectation and its trials.

    Args:
        plan: of the study.
        trials: that ended, in order of their numbers.

    Returns: None if the plan has no expectation, or the metric is no error in [0, 1].
    """
    if not plan.expectation or not _is_rate(plan.measure):
        return None
    valid = [trial for trial in trials if trial.error is not None and trial.feasible]
    if any(not 0.0 <= (trial.error or 0.0) <= 1.0 for trial in valid):
        return None
    expectation = DatasetExpectation.from_dict(plan.expectation)
    configs = plan.configs[: expectation.n_configs]  # those after them, the history never measured
    errors: dict[int, float] = {}
    novel_errors: list[float] = []
    current = initial = expectation.errors()
    expectations = []
    for trial in trials:
        untried = (row for row in range(len(configs)) if row not in errors)
        index = next((row for row in untried if same_config(configs[row].config, trial.config)), None)
        expected = None if index is None else current[index]
        if trial.error is not None and trial.feasible:
            if index is not None:
                errors[index] = trial.error
            elif not novel_errors or trial.error < min(novel_errors):
                novel_errors = [trial.error]
            if index is not None or trial.error < current[-1].high:
                current = expectation.errors(errors, others=novel_errors)
        expectations.append(TrialExpectation(trial.number, expected, trial.error, current[-1]))
    warm = tuple((warm_config.config, error) for warm_config, error in zip(configs, current[:-1], strict=True))
    upcoming = next((row for row in range(len(configs)) if row not in errors), None)
    is_different = plan.workload is None or plan.budget is not None
    return StudyExpectations(initial[-1], tuple(expectations), warm, upcoming, is_as_measured=not is_different)


def _is_rate(metric: Metric) -> bool:
    """Tell whether a metric is an error in [0, 1], as in histories."""
    words = set(re.split(r"[\W_]+", metric.name.lower()))
    return metric.scale in ("fraction", "percent") or (
        metric.scale is None and (metric.maximize or bool(words & _RATES))
    )
