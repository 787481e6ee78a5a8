"""What a report tells of a saved classifier: how good, how sure, what it mixes up, which labels look wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.metafeat.pretrained.logistic import CurvePoint, forecast_error
from warmstart.prediction import Prediction, Predictions
from warmstart.studies.results.judgement import Judgement
from warmstart.studies.results.summary import MAX_ROWS, SavedModel
from warmstart.training.workloads import Examination
from warmstart.training.workloads.classifier_file import card_of

THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Probabilities above which an answer is taken."""
BINS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Bounds of probabilities, for how right the sure answers are."""
MOST_PAIRS, MOST_OF_PAIR = 5, 4
"""Pairs of classes that are mixed up, and pictures of each."""
LEAST_DOUBT = 0.5
"""Least probability of another class at which a label is doubted."""


def classifier_record(
    judged: Predictions,
    saved: SavedModel,
    left_out: Predictions | None = None,
    examination: Examination | None = None,
    header: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the part of a report on the saved classifier, in JSON types.

    Args:
        judged: answers to the pictures that its error is told of.
        saved: its file.
        left_out: answers to as many pictures as possible; None = those.
        examination: of it; None = nothing more is known.
        header: of the file, for its card.
    """
    confusion = judged.confusion()
    counts = _counts_of(confusion) if examination is None else examination.counts
    worst = [
        {"image": row.image, "truth": row.truth, "answer": row.label, "probability of the truth": row.of_truth}
        for row in judged.worst(MAX_ROWS)
    ]
    return {
        "model": judged.model,
        "error": saved.validation_error,
        "interval": saved.interval,
        "confusion": confusion,
        "counts": dict(counts),
        "worst": worst,
        "mixed_up": mixed_up(judged.rows),
        "thresholds": threshold_rows(judged.rows),
        "bins": bin_rows(judged.rows),
        "doubted_labels": doubted_labels((left_out or judged).rows),
        "growth": None if examination is None else growth_record(examination.growth, saved.validation_error, counts),
        "trained_on_validation": saved.retrained,
        "card": None if header is None else card_of(header),
    }


def judgement_of(record: Mapping[str, Any]) -> Judgement:
    """Return the judgement of a classifier from its part of a report, of an earlier release too."""
    counts = record.get("counts") or _counts_of(record["confusion"])
    return Judgement.of(record["confusion"], record["error"], counts, interval=record.get("interval"))


def mixed_up(rows: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Return the most frequent pairs of a class and a wrong answer, each with pictures, the surest first."""
    pairs: dict[tuple[str, str], list[Prediction]] = defaultdict(list)
    for row in rows:
        if row.truth is not None and row.truth != row.label:
            pairs[row.truth, row.label].append(row)
    largest = sorted(pairs.items(), key=lambda pair: (-len(pair[1]), pair[0]))[:MOST_PAIRS]
    return [
        {
            "truth": truth,
            "answer": answer,
            "n": len(of_pair),
            "images": [row.image for row in sorted(of_pair, key=lambda row: -row.probability)[:MOST_OF_PAIR]],
        }
        for (truth, answer), of_pair in largest
    ]


def threshold_rows(rows: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Return for each threshold how many answers are at least as sure, and how many of these are right."""
    sure, right = _sure_and_right(rows)
    return [
        {"at_least": threshold, "n": int((sure >= threshold).sum()), "right": int(right[sure >= threshold].sum())}
        for threshold in THRESHOLDS
    ]


def bin_rows(rows: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Return bins of probabilities: how sure the answers are on average, and how many are right."""
    sure, right = _sure_and_right(rows)
    place = np.clip(np.searchsorted(BINS, sure, side="right") - 1, 0, len(BINS) - 2)
    return [
        {
            "low": BINS[i],
            "high": BINS[i + 1],
            "n": int((place == i).sum()),
            "right": int(right[place == i].sum()),
            "expected": float(sure[place == i].sum()),
        }
        for i in range(len(BINS) - 1)
        if (place == i).any()
    ]


def doubted_labels(rows: Sequence[Prediction]) -> list[dict[str, Any]]:
    """Return the labels that the answers contradict, the most doubtful first."""
    labelled = [row for row in rows if row.truth in row.probabilities]
    if not labelled:
        return []
    classes = list(labelled[0].probabilities)
    place = {name: number for number, name in enumerate(classes)}
    probabilities = np.array([list(row.probabilities.values()) for row in labelled])
    labels = np.array([place[str(row.truth)] for row in labelled])
    order, contradicts = rank_labels(probabilities, labels)
    return [
        {
            "image": labelled[row].image,
            "label": labelled[row].truth,
            "suggested": labelled[row].label,
            "probability": labelled[row].probability,
        }
        for row in order.tolist()
        if contradicts[row]
    ]


def rank_labels(
    probabilities: NDArray[np.float64], labels: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Rank labels by how far answers that have not seen them contradict them.

    Args:
        probabilities: `n x classes`.
        labels: `n` int64.

    Returns: `n` rows, the most doubtful first; `n`, whether another class is more probable and probable enough.
    """
    rows = np.arange(len(labels))
    of_label = probabilities[rows, labels]
    others = probabilities.copy()
    others[rows, labels] = -1.0
    highest = others.max(1)
    order = np.argsort(of_label, kind="stable")
    return order.astype(np.int64), (highest > of_label) & (highest >= LEAST_DOUBT)


def growth_record(curve: Sequence[CurvePoint], error: float, counts: Mapping[str, int]) -> dict[str, Any] | None:
    """Return the errors with fewer pictures and the forecast for twice as many; None without a curve."""
    if not curve:
        return None
    n = sum(counts.values())
    forecast = forecast_error(curve, error)
    points = [{"n": point.n, "error": point.error} for point in curve]
    return {"points": points, "n": n, "error": error, "twice": 2 * n, "forecast": forecast}


def _sure_and_right(rows: Sequence[Prediction]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    labelled = [row for row in rows if row.truth is not None]
    sure = np.array([row.probability for row in labelled])
    return sure, np.array([row.label == row.truth for row in labelled], dtype=bool)


def _counts_of(confusion: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the pictures by true class of a confusion matrix."""
    return {row["truth"]: sum(int(n) for name, n in row.items() if name != "truth") for row in confusion}
