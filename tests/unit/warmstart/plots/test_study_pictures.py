"""The pictures of a study: they come, name what they show in natural units, and are the same twice."""

import base64
import re
from html import unescape

import numpy as np
import pytest
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition, Float, Integer

from warmstart.bo.importance import importance
from warmstart.bo.space.encoding import Encoding
from warmstart.history_store.errors import DataError
from warmstart.history_store.space import dump_space
from warmstart.plots.natural_axis import axes_of, write_number
from warmstart.plots.study import PICTURES, draw_study
from warmstart.plots.study_page import write_page
from warmstart.studies.objectives.base import TrialStatus
from warmstart.studies.objectives.metric import Metric
from warmstart.studies.results.study_record import StudyRecord
from warmstart.studies.results.trial import Trial
from warmstart.studies.results.trial_span import INTERRUPTED, TrialSpan
from warmstart.studies.state.spec import WarmConfig


def a_space():
    space = ConfigurationSpace()
    space.add([Float("log10_learning_rate", (-5.0, -1.0)), Float("weight_decay", (1e-7, 1e-2), log=True)])
    space.add([Integer("batch_size", (8, 512), log=True), Integer("layers", (1, 4)), Categorical("$opt$", ["<adam>", "sgd"])])  # fmt: skip
    space.add(Float("momentum", (0.0, 0.99)))
    space.add(EqualsCondition(space["momentum"], space["$opt$"], "sgd"))
    return space


def a_study(n=16, *, metric=None):
    space = a_space()
    space.seed(0)
    trials = []
    for number, config in enumerate(space.sample_configuration(n)):
        values = dict(config)
        error = 0.1 + 0.05 * (values["log10_learning_rate"] + 3) ** 2
        status = TrialStatus.CRASHED if number == 3 else TrialStatus.PRUNED if number == 5 else TrialStatus.OK
        known = error if status is TrialStatus.OK else None
        curve = ((1.0, 0.9), (2.0, error)) if number != 4 else ()
        trials.append(Trial(number, values, known, status, 1.0, 0, "it <broke>" if number == 3 else "", curve=curve))
    warm = (WarmConfig(dict(trials[0].config), "mnist", 0.1, 0.2), WarmConfig(dict(trials[1].config), None, None, None))
    metric = metric or Metric()
    spans = [TrialSpan(trial.number, trial.status.value, 60.0 * trial.number, 60.0 * trial.number + 50, f"host <{trial.number % 2}>", {}) for trial in trials]  # fmt: skip
    spans.append(TrialSpan(n, INTERRUPTED, 60.0 * n, None, "host <0>", {}, ((1.0, 0.8), (2.0, 0.7))))
    return StudyRecord("s & <t>", "x.db", "train.py", tuple(trials), 1, dump_space(space), "photos", warm, metric, {"surrogate": "gp-map"}, spans=tuple(spans))  # fmt: skip


def text_of(path):
    return unescape(" ".join(re.findall(r"<text[^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))))


def test_all_pictures_come_and_are_the_same_twice(tmp_path):
    files, notes = draw_study(a_study(), tmp_path, stem="a", suffix=".svg")
    again, _ = draw_study(a_study(), tmp_path, stem="b", suffix=".svg")
    assert not notes
    assert [file.stem for file in files] == ["a", *(f"a-{name}" for name in PICTURES if name != "best-so-far")]
    assert [file.read_bytes() for file in files] == [file.read_bytes() for file in again]
    texts = {file.stem: text_of(file) for file in files}
    assert all(
        word in texts["a"] for word in ("warm trial", "promised for it", "best so far", "stopped early", "failed")
    )
    assert "10⁻⁵" in texts["a-slices"]
    assert "log10" not in "".join(texts.values())
    assert all(word in texts["a-parallel"] for word in ("rate", "<adam>", "unused", "error"))
    assert all(word in texts["a-curves"] for word in ("stopped early", "under way"))
    assert all(word in texts["a-timeline"] for word in ("host <1>", "minutes since", "best", "failed"))
    assert "stopped early: its last report" in texts["a-parallel"]


def test_slices_are_in_the_metric(tmp_path):
    study = a_study(8, metric=Metric("val.acc", maximize=True, scale="percent"))
    files, _ = draw_study(study, tmp_path, suffix=".svg")
    (text,) = [text_of(file) for file in files if file.stem.endswith("slices")]
    assert "predicted val.acc" in text
    assert "error" not in text
    assert "90" in text  # errors are from 0.1 on


def test_a_young_study_has_what_there_is(tmp_path):
    files, notes = draw_study(a_study(3), tmp_path)
    assert [file.name for file in files] == [
        "study.png",
        "study-parallel.png",
        "study-curves.png",
        "study-timeline.png",
    ]
    assert "expected at least 5 trials with a result" in notes[0]
    with pytest.raises(DataError, match="expected a trial with a result to draw, got none of 0"):
        draw_study(StudyRecord("s", "x.db", "f", ()), tmp_path)


def test_the_page_asks_nothing_of_the_network_and_escapes_names(tmp_path):
    path = tmp_path / "s.html"
    (note,) = write_page(path, [a_study(5)], title="s & <t>")
    assert "for importance and slices" in note
    text = path.read_text()
    assert "http" not in re.sub(r"base64,[\w+/=]+", "", text)
    assert text.count("<figure>") == 4
    assert "<t>" not in text
    assert "&lt;broke&gt;" in text
    assert "prefers-color-scheme: dark" in text
    assert b"<svg" in base64.b64decode(re.search(r"base64,([\w+/=]+)", text)[1])


def test_axes_are_natural_with_few_readable_ticks():
    axes = {axis.name: axis for axis in axes_of(a_space())}
    rate = axes["log10_learning_rate"]
    assert rate.title == "learning rate"
    assert rate.position(-3.0) == 0.5
    places, texts = rate.ticks()
    assert texts == ["10⁻⁵", "10⁻⁴", "0.001", "0.01", "0.1"]
    np.testing.assert_allclose(places, np.linspace(0, 1, 5), atol=1e-12)
    assert axes["layers"].ticks()[1] == ["1", "2", "3", "4"]
    assert axes["batch_size"].position(64) == pytest.approx(0.5)
    assert all(2 <= len(axis.ticks()[0]) <= 6 for axis in axes.values())
    assert np.isnan(axes["momentum"].position(None))
    assert [write_number(value) for value in (0, 0.001, 2.5e-5, 1e6, 64.0, -2.0)] == ["0", "0.001", "2.5×10⁻⁵", "10⁶", "64", "−2"]  # fmt: skip
    assert [write_number(value) for value in (20000, 12345.0, 99999, 9999.4, -9999.7, 9.9996e-4)] == ["20000", "12345", "99999", "9999", "−10000", "10⁻³"]  # fmt: skip


def test_importance_is_that_of_a_known_function():
    space = ConfigurationSpace({"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 1.0)})
    encoding = Encoding(space)

    def predict(points):  # Ishigami-like: additive in a, an interaction of a and b, nothing of c
        return (2 * points[:, 0] + 4 * (points[:, 0] - 0.5) * (points[:, 1] - 0.5))[None]

    found = importance(predict, encoding, rng=np.random.default_rng(0), points=4096)
    alone, together = 4 / 12, 16 / 144
    np.testing.assert_allclose(found.alone[0], [alone / (alone + together), 0, 0], atol=0.04)
    np.testing.assert_allclose(found.total[0], [1, together / (alone + together), 0], atol=0.04)
