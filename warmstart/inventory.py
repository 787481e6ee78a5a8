"""What a history holds, as rows for people and documents for programs."""

import math
import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from history_store.history import History


def dataset_rows(history: "History") -> list[dict[str, Any]]:
    """List the datasets of a history: group, size, evaluations, lowest error."""
    counts = np.bincount(history.table().dataset, minlength=len(history.datasets))
    return [
        {
            "name": info.name,
            "group": info.group,
            "n_train": info.n_train,
            "n_val": info.n_val,
            "n_test": info.n_test,
            "n_classes": info.n_classes,
            "n_evaluations": int(count),
            "best_error": _best(errors),
        }
        for info, count, errors in zip(history.datasets, counts, history.errors, strict=True)
    ]


def summary(history: "History") -> dict[str, Any]:
    """Describe a history as a whole."""
    import json

    errors = history.errors
    space = json.loads(history.space_json)
    return {
        "history": str(history.path),
        "id": history.id,
        "revision": history.revision,
        "n_datasets": len(history.names),
        "n_groups": len(set(history.groups)),
        "n_configs": len(history.configs),
        "n_evaluations": history.n_evaluations,
        "cells_measured": round(float(np.isfinite(errors).mean()), 4) if errors.size else 0.0,
        "stored_size": history.stored_size,
        "hyperparameters": [entry["name"] for entry in space["hyperparameters"]],
    }


def describe(history: "History", name: str) -> dict[str, Any]:
    """Describe one dataset: its record, how its runs ended, its best configuration, its centre of errors (CCoV).

    Raises:
        UsageError: a name that the history does not know.
    """
    info = history.dataset(name)
    row = history.names.index(name)
    errors = history.errors[row]
    runs = history.evaluations(name)
    durations = [run.duration for run in runs if not math.isnan(run.duration)]
    best = None if np.isnan(errors).all() else int(np.nanargmin(errors))
    fields = {key: getattr(info, key) for key in info.__slots__ if key not in ("extra", "class_counts")}
    return {
        **fields,
        "class_counts": list(info.class_counts),
        "extra": dict(info.extra),
        "n_evaluations": len(runs),
        "statuses": dict(Counter(run.status.value for run in runs)),
        "seconds": round(sum(durations), 3),
        "best_error": _best(errors),
        "best_config": None if best is None else dict(history.configs[best]),
        "ccov": _ccov(history, row),
    }


def _ccov(history: "History", row: int) -> dict[str, float | None]:
    """Give CCoV by hyperparameter; None where it is not defined."""
    import json

    from history_store.response import UndefinedCCoVWarning, ccov

    names = [entry["name"] for entry in json.loads(history.space_json)["hyperparameters"]]
    if not len(history.configs) or np.isnan(history.errors[row]).all():
        return dict.fromkeys(names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedCCoVWarning)  # shown as None
        values = ccov(history.configs_unit, history.errors[row : row + 1])[0]
    return {
        name: None if math.isnan(value) else round(float(value), 4) for name, value in zip(names, values, strict=True)
    }


def _best(errors: np.ndarray[Any, Any]) -> float | None:
    return None if np.isnan(errors).all() else float(np.nanmin(errors))
