"""Listings of a history: rows and documents."""

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from warmstart.histories.ccov import centres_of, describe_centre
from warmstart.history_store.error_tables import least_error
from warmstart.history_store.space import natural, space_names
from warmstart.metafeat.index import DatasetIndex

if TYPE_CHECKING:
    from warmstart.history_store.history import History

_BEST, _NEAREST = 3, 5


def dataset_rows(history: "History", limit: int | None = None) -> list[dict[str, Any]]:
    """Return a row per dataset: group, sizes, number of evaluations, lowest error.

    Args:
        history: open.
        limit: most rows, the first ones.
    """
    counts, (errors, _) = history.n_runs, history.outcomes
    indices = range(len(counts))[:limit]
    # `initial`, as a history may have no configurations.
    lowest = np.min(np.where(np.isnan(errors[: len(indices)]), np.inf, errors[: len(indices)]), axis=1, initial=np.inf)
    rows = []
    for row, count, best in zip(indices, counts.tolist(), lowest.tolist(), strict=False):
        info = history.dataset_at(row)
        fields = {
            "name": info.name,
            "group": info.group,
            "n_train": info.n_train,
            "n_val": info.n_val,
            "n_test": info.n_test,
            "n_classes": info.n_classes,
            "n_evaluations": count,
            "best_error": best if math.isfinite(best) else None,
        }
        rows.append(fields)
    return rows


def summary(history: "History") -> dict[str, Any]:
    """Return the summary of a history as a JSON object."""
    errors = history.errors
    copied_from = history.notes.get("copied_from")
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
        "hyperparameters": space_names(history.space_json),
        **({} if copied_from is None else {"copied_from": copied_from}),
    }


def describe(history: "History", name: str, *, model_hash: str | None = None) -> dict[str, Any]:
    """Return a dataset as a JSON object: record, runs, errors, best configurations, CCoV, nearest datasets.

    Args:
        history: open.
        name: of the dataset.
        model_hash: of the model whose stored embeddings give the nearest datasets.

    Raises:
        UsageError: a name that the history does not know.
    """
    info = history.dataset(name)
    row = history.names.index(name)
    errors, configs = history.errors[row], history.configs
    runs = history.evaluations(name)
    durations = [run.duration for run in runs if not math.isnan(run.duration)]
    fields = {key: getattr(info, key) for key in info.__slots__ if key not in ("extra", "class_counts")}
    best = [
        {"error": float(errors[column]), "config": dict(configs[column]), "natural": natural(configs[column])}
        for column in np.argsort(errors, kind="stable")[:_BEST].tolist()
        if np.isfinite(errors[column])
    ]
    values, words = _centres(history, name)
    return {
        **fields,
        "class_counts": list(info.class_counts),
        "extra": dict(info.extra),
        "images": history.has_images(name),
        "siblings": [
            sibling
            for sibling, group in zip(history.names, history.groups, strict=True)
            if group == info.group and sibling != name
        ],
        "n_evaluations": len(runs),
        "statuses": dict(Counter(run.status.value for run in runs)),
        "seconds": round(sum(durations), 3),
        "errors": _distribution(errors),
        "best_error": least_error(errors),
        "best_config": best[0]["config"] if best else None,
        "best_configs": best,
        "ccov": values,
        "ccov_in_words": words,
        "nearest": _nearest(history, name, model_hash),
    }


def _distribution(errors: np.ndarray[Any, Any]) -> dict[str, float | int] | None:
    """Return quantiles and counts of a dataset's errors; None without errors."""
    finite = errors[np.isfinite(errors)]
    if not len(finite):
        return None
    quantiles = dict(
        zip(
            ("lowest", "quarter", "median", "three_quarters", "highest"),
            np.quantile(finite, (0, 0.25, 0.5, 0.75, 1)),
            strict=True,
        )
    )
    return {
        "configs": len(finite),
        "missing": len(errors) - len(finite),
        **{label: round(float(value), 6) for label, value in quantiles.items()},
    }


def _centres(history: "History", name: str) -> tuple[dict[str, float | None], dict[str, str]]:
    """Return CCoV by hyperparameter (None = undefined), and descriptions in words."""
    if not len(history.configs) or np.isnan(history.errors[history.names.index(name)]).all():
        return dict.fromkeys(space_names(history.space_json)), {}
    centres = centres_of(history, [name])
    values = {
        key: round(float(value), 4) if np.isfinite(value) else None
        for key, value in zip(centres.hyperparameters, centres.values[0], strict=True)
    }
    rows = zip(centres.hyperparameters, centres.values[0], centres.chance[0], centres.clear[0], strict=True)
    return values, {
        key: describe_centre(float(value), float(chance), clear=bool(clear)) for key, value, chance, clear in rows
    }


def _nearest(history: "History", name: str, model_hash: str | None) -> list[dict[str, Any]]:
    """Return the datasets with the nearest stored embeddings, siblings included; empty without embeddings."""
    names, vectors = history.vectors(model_hash) if model_hash is not None else ([], np.zeros((0, 0), np.float32))
    if name not in names:
        return []
    row, groups = names.index(name), dict(zip(history.names, history.groups, strict=True))
    candidates = np.delete(np.arange(len(names)), row)
    near = zip(*DatasetIndex(vectors).nearest(vectors[row], _NEAREST, among=candidates), strict=True)
    return [
        {"name": names[candidate], "distance": float(distance), "sibling": groups[names[candidate]] == groups[name]}
        for candidate, distance in near
    ]
