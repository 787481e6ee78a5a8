"""The confidence of an answer: judged by the distances and pictures of the query."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.novelty import TYPICAL_PERCENTILE, judge_novelty
from warmstart.suggestions.doubts import (
    DISTANCES_UNRELIABLE,
    NO_EXPECTED_ERROR,
    UNCERTAIN_ERROR,
    Code,
    Doubt,
    find_doubts,
)
from warmstart.suggestions.embedded_history import EmbeddedHistory
from warmstart.suggestions.records import Confidence

if TYPE_CHECKING:
    from warmstart.metafeat.sample_statistics import SampleStatistics

LEAST_GROUPS = 3
"""With fewer groups nothing is called far."""


def judge_query(
    embedded: EmbeddedHistory,
    rows: NDArray[np.int64],
    near: NDArray[np.int64],
    distances: NDArray[np.float64],
    *,
    sample: "SampleStatistics | None",
    class_names: Sequence[str],
) -> Confidence:
    """Judge how typical a query is for a history, by its nearest distance and its picture statistics.

    Args:
        embedded: the history.
        rows: its datasets that count.
        near: the nearest of them.
        distances: to these.
        sample: statistics of the query's pictures; None = the distance alone counts.
        class_names: of the query.
    """
    norms = embedded.norms_of(rows)
    names = [embedded.names[row] for row in near.tolist()]
    # Between two groups there is one distance, which says nothing of how far others may lie.
    verdict = judge_novelty(float(distances.min()), norms.nearest if norms.n_groups >= LEAST_GROUPS else ())
    nearest = f"{names[int(distances.argmin())]!r} at distance {verdict.nearest:.3g}"
    doubts = find_doubts(sample, class_names, names, norms)
    slack = embedded.references.slack(sample.n_images) if embedded.references and sample else 0.0
    is_far = verdict.limit is not None and verdict.nearest > verdict.limit + slack
    if is_far and not embedded.ignores_distances:
        allowed = f", and so few images may add {slack:.2g} to a distance" if slack else ""
        text = (
            f"Far from everything: the nearest dataset is {nearest}. Of the history's own, "
            f"{TYPICAL_PERCENTILE:.0f} % have one nearer than {verdict.limit:.3g}{allowed}."
        )
        doubts = (Doubt(Code.FAR, text), *doubts)
    if not doubts and embedded.ignores_distances:
        note = "Typical: no check objects. Near datasets of this history do no better than others, so all of them answer alike."
        return Confidence(typical=True, distance_percentile=verdict.percentile, note=note)
    if not doubts:
        is_within = verdict.limit is None or verdict.nearest <= verdict.limit
        allowed = "" if is_within else f" where so few images may add {slack:.2g} to a distance"
        note = (
            f"Typical: in how configurations fare, the nearest dataset, {nearest}, is as near as the history's own are to "
            f"each other{allowed} (percentile {verdict.percentile:.0f})."
        )
        return Confidence(typical=True, distance_percentile=verdict.percentile, note=note)
    codes = tuple(doubt.code.value for doubt in doubts)
    texts = [doubt.text for doubt in doubts]
    if verdict.percentile is None:
        texts.append(
            f"Confidence unknown: it takes {LEAST_GROUPS} groups to tell what is far; the nearest dataset is {nearest}."
        )
    elif not DISTANCES_UNRELIABLE.isdisjoint(codes):
        texts.append("Its neighbours' configurations say little; the portfolio does well on all datasets.")
    else:
        texts.append(f"The nearest dataset is {nearest} (percentile {verdict.percentile:.0f} of the history's own).")
    if not NO_EXPECTED_ERROR.isdisjoint(codes):
        texts.append("No expected error is given for such images.")
    elif not UNCERTAIN_ERROR.isdisjoint(codes):
        texts.append("The ranges of expected errors are twice as wide for such images.")
    return Confidence(typical=False, distance_percentile=verdict.percentile, note=" ".join(texts), reasons=codes)
