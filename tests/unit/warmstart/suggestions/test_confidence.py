"""Whether the history knows anything of a query, by its nearest distance."""

from types import SimpleNamespace

import numpy as np
import pytest

from warmstart.bo.transfer.novelty import judge_novelty
from warmstart.locations import history_path
from warmstart.suggestions import confidence
from warmstart.suggestions.advisor import Advisor


@pytest.mark.parametrize("share", [0.5, 1.01, 3.0])
def test_what_few_images_add_to_a_distance_is_said(monkeypatch, share):
    """Beyond the limit, yet not by more than they may add, a dataset is typical, and the text says by what."""
    monkeypatch.setattr(confidence, "find_doubts", lambda *_: ())
    embedded = Advisor(history_path(workload="cnn")).embedded
    rows = embedded.rows_without((), None)
    limit = judge_novelty(0.0, embedded.norms_of(rows).nearest).limit
    slack = embedded.references.slack(30)
    assert 0.02 * limit < slack < limit
    distances = np.full(len(rows), 9.0)
    distances[3] = share * limit
    found = confidence.judge_query(embedded, rows, rows, distances, sample=SimpleNamespace(n_images=30), class_names=())
    assert found.typical == (share < 3)
    assert (f"may add {slack:.2g} to a distance" in found.note) == (share > 1)
    assert found.note.startswith("Typical" if share < 3 else "Far from everything")


def test_nothing_is_far_where_near_datasets_do_no_better(monkeypatch):
    monkeypatch.setattr(confidence, "find_doubts", lambda *_: ())
    embedded = Advisor(history_path(workload="transfer")).embedded
    rows = embedded.rows_without((), None)
    found = confidence.judge_query(embedded, rows, rows, np.full(len(rows), 99.0), sample=None, class_names=())
    assert found.typical
    assert "no better than others" in found.note
