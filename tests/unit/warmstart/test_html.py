"""What notebooks show."""

from dataclasses import replace
from html.parser import HTMLParser

import warmstart
from warmstart.bo.transfer.expected_error import ExpectedError
from warmstart.history_store.space import shown as natural_names
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.results.summary import JointResult, TuneResult
from warmstart.studies.results.trial import Trial
from warmstart.tables import table


class Cells(HTMLParser):
    """Collects the cells and the captions; fails where tags don't match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.cells, self.tags = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append((tag, dict(attrs)))
        assert not {"src", "href", "style", "bgcolor"} & dict(attrs).keys(), "no request, no colour"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.cells.append((self.open[-1], data))


TRIAL = Trial(3, {"optimizer": "<b>&sgd", "rate": 0.01}, 0.125, TrialStatus.OK, 1.0, 0)
FOUND = TuneResult("<script>", "x.db", "a&b", TRIAL, (TRIAL,), metric=Metric("accuracy", maximize=True))


def test_a_study_shows_its_best_trials_by_their_metric():
    shown = Cells(FOUND._repr_html_())
    assert ("caption", "Best trials") in shown.cells
    assert [text for tag, text in shown.cells if tag == "th"] == ["trial", "error", "accuracy", "optimizer", "rate"]
    assert [text for tag, text in shown.cells if tag == "td"] == ["3", "0.125", "0.875", "<b>&sgd", "0.01"]
    assert all(attrs == {"scope": "col"} for tag, attrs in shown.tags if tag == "th")
    assert ("p", "Study <script> in x.db: 1 ok.") in shown.cells


def test_the_text_of_a_study_is_short():
    many = replace(FOUND, trials=(TRIAL,) * 500)
    assert repr(many) == (
        "TuneResult: study <script> in x.db, 500 ok\n  best: accuracy 0.875 of trial 3, optimizer=<b>&sgd, rate=0.01"
    )
    assert repr(TuneResult("s", "x.db", None, None, ())) == "TuneResult: study s in x.db, no trial yet"
    assert repr(JointResult("x.db", "equal", (FOUND, FOUND), (1, 1))).splitlines()[0] == "JointResult: 2 studies"


def test_columns_without_a_value_are_left_out():
    assert [text for tag, text in Cells(table("t", [{"a": 1, "b": None}])).cells if tag == "th"] == ["a"]


def test_an_answer_shows_its_configurations(tiny, monkeypatch):
    monkeypatch.setenv("WARMSTART_HISTORY", str(tiny.history))
    monkeypatch.setenv("WARMSTART_MODEL", str(tiny.model))
    found = warmstart.answer("sklearn:digits", k=2)
    shown = Cells(found._repr_html_())
    heads = [text for tag, text in shown.cells if tag == "th"]
    assert set(natural_names(found.suggestions[0].config)) <= set(heads)
    assert {"from", "name", "best_error"} <= set(heads)
    assert sum(tag == "tr" for tag, _ in shown.tags) == 2 + 2 + len(found.neighbours)
    assert repr(found).splitlines()[1] == f"  {found.confidence.note}", "doubts come first"
    sure = replace(found.confidence, typical=True)
    expected = ExpectedError(0.0867, 0.0294, 0.14)
    text = repr(
        replace(found, suggestions=found.suggestions * 3, confidence=sure, expected_error=expected)
    ).splitlines()
    assert text[0] == f"Answer: sklearn:digits, {found.dataset.n_images} images, 10 classes"
    assert text[1].startswith("  1. ")
    assert text[1].endswith(f"(from {found.suggestions[0].source or 'all datasets'})")
    assert text[4] == "  and 3 more in .suggestions"
    assert text[5] == f"  strategy: {found.strategy}"
    line = "Expect the best of a search to reach an error of 0.0867, in 8 of 10 cases between 0.0294 and 0.14."
    assert text[6] == f"  {line}"
    assert line in replace(found, expected_error=expected)._repr_html_()
    assert text[7].startswith(f"  near: {found.neighbours[0].name} (")
    assert len(text) == 8


def test_an_answer_logs_its_doubts_once(tiny, monkeypatch, caplog):
    monkeypatch.setenv("WARMSTART_HISTORY", str(tiny.history))
    monkeypatch.setenv("WARMSTART_MODEL", str(tiny.model))
    for ask in (warmstart.answer, warmstart.suggest):
        caplog.clear()
        with caplog.at_level("WARNING", logger="warmstart"):
            ask("sklearn:digits", k=1)
        assert sum("The history is small" in record.getMessage() for record in caplog.records) == 1
