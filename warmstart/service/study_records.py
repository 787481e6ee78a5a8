"""Studies and their trials as JSON."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from warmstart.history_store.json_text import finite
from warmstart.history_store.space import natural
from warmstart.studies.results.expected_errors import expectations_of
from warmstart.studies.results.trial import best_of, ended_trials
from warmstart.studies.results.trial_span import trial_state
from warmstart.studies.state.attributes import EXTRA, OUTCOME, RUN
from warmstart.studies.state.lease import Lease, worker_of

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from warmstart.studies.state.trial_queue import TrialQueue


def study_record(queue: TrialQueue) -> dict[str, Any]:
    """Return the JSON object of a study."""
    plan, trials = queue.plan, queue.trials()
    ended = ended_trials(trials)
    best, expected = best_of(ended), expectations_of(plan, ended)
    return {
        "schema_version": 1,
        "name": queue.study.study_name,
        "space": json.loads(plan.space),
        "objective": dict(plan.objective),
        "search": {
            name: getattr(plan, name)
            for name in ("seed", "surrogate", "acquisition", "pruner", "budget", "metric", "maximize", "scale")
        },
        "warm": {"mode": plan.warm, "configs": [item.to_dict() for item in plan.configs], "n_design": plan.design},
        "related": [item.summary() for item in plan.tasks],
        "members": list(plan.members),
        "split": plan.split,
        "trials": dict(Counter(trial_state(trial) for trial in trials)),
        "n_trials": len(trials),
        "exhausted": queue.is_exhausted(trials),
        "expected_error": None if expected is None else expected.best.to_dict(),
        "expectation": None if expected is None else expected.to_dict(),
        "best": None
        if best is None
        else {
            "number": best.number,
            "error": best.error,
            "value": None if best.error is None else plan.measure.to_value(best.error),
            "config": dict(best.config),
            "natural": natural(best.config),
        },
    }


def trial_record(trial: FrozenTrial) -> dict[str, Any]:
    """Return the JSON object of a trial."""
    run, outcome, lease = trial.user_attrs.get(RUN), trial.user_attrs.get(OUTCOME) or {}, Lease.of(trial)
    reported = [[float(step), error] for step, error in sorted(trial.intermediate_values.items())]
    extra = trial.user_attrs.get(EXTRA)
    document = {
        "number": trial.number,
        "state": trial_state(trial),
        "config": dict(trial.params) if run is None else run["config"],
        "seed": None if run is None else run["seed"],
        "error": outcome.get("error", trial.value if trial.state.name == "COMPLETE" else None),
        "duration": outcome.get("duration"),
        "note": outcome.get("note", ""),
        "metrics": outcome.get("metrics", {}),
        "constraints": outcome.get("constraints", {}),
        "curve": outcome.get("curve") or reported,
        "client": worker_of(trial),
        "lease_until": lease.until if lease is not None and lease.client and not trial.state.is_finished() else None,
        "offers": 1 if lease is None else len(lease.clients),
        "extra_of": None if extra is None else extra["of"],
    }
    return finite(document)  # type: ignore[no-any-return]  # a dict stays one
