"""What a notebook shows while a call runs, and of its result."""

import sys
import time
from types import SimpleNamespace

import pytest
from objectives import parabola

import warmstart
from warmstart import notebook
from warmstart.bar import Bar
from warmstart.history_store.errors import MissingPathError, UsageError
from warmstart.plots.picture import Picture


@pytest.fixture
def lines(monkeypatch):
    """Make this process a notebook; collect what its line shows."""
    shown = []

    def display(data, *, raw, display_id):
        shown.append(data["text/plain"])
        return SimpleNamespace(update=lambda data, raw: shown.append(data["text/plain"]))

    ipython = SimpleNamespace(
        get_ipython=lambda: SimpleNamespace(kernel=True), display=SimpleNamespace(display=display)
    )
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", ipython.display)
    monkeypatch.setattr(notebook, "REDRAW_S", 0.01)
    return shown


def test_a_line_follows_its_bar_and_goes(lines):
    with notebook.live_line(Bar("tuning", clock=lambda: 0.0)) as show:
        show(3, 20, "trial 3")
        until = time.monotonic() + 30
        while len(lines) < 2 and time.monotonic() < until:
            time.sleep(0.01)
    assert lines == ["tuning: 0", "tuning: 3/20, trial 3", ""]


def test_a_call_shows_its_progress_unless_it_has_a_callback(lines, tmp_path):
    own, call = [], {"objective": parabola, "space": {"x": (0.0, 1.0)}, "storage": tmp_path / "s.db", "study": "s"}
    warmstart.tune(trials=2, **call)
    assert lines[0] == "tuning: 0"
    assert lines[-1] == ""
    lines.clear()
    warmstart.tune(trials=3, progress=own.append, **call)
    assert own
    assert lines == []


def test_outside_of_a_notebook_there_is_no_line():
    with notebook.live_line("tuning") as show:
        assert show is None


def test_an_error_is_one_line():
    with pytest.raises(MissingPathError) as caught:
        warmstart.suggest("no/such/folder")
    (line,) = caught.value._render_traceback_()
    assert line == f"MissingPathError: {caught.value}"


def test_an_answer_is_its_suggestions_and_a_table(use_tiny):
    answer = warmstart.suggest("sklearn:digits", k=3)
    assert list(answer) == list(answer.suggestions)
    assert (len(answer), answer[0], answer[1:]) == (3, answer.suggestions[0], list(answer.suggestions[1:]))
    assert list(answer.to_frame()["from"]) == [design.origin for design in answer]
    assert "learning_rate" in answer.to_frame().columns
    assert "Far from everything" not in answer._repr_html_(), "it was logged"
    assert "Far from everything" in warmstart.Advisor().suggest("sklearn:digits", 3)._repr_html_()


def test_a_result_is_a_table_and_a_picture(tmp_path):
    result = warmstart.tune(
        objective=parabola, space={"x": (0.0, 1.0)}, trials=2, storage=tmp_path / "s.db", study="<s>"
    )
    assert list(result.to_frame()["trial"]) == [0, 1]
    picture = result.plot()
    assert isinstance(picture, Picture)
    assert "best so far" in picture._repr_svg_()
    assert picture.save(tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match="expected a trial with a result"):
        warmstart.TuneResult("s", "s.db", None, None, ()).plot()
