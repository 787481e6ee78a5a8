"""The notebooks of examples/ run, and are kept without outputs; what a real kernel shows of each call."""

import os
import re
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Make the kernel this Python, and keep its files here."""
    spec = tmp_path / "share" / "jupyter" / "kernels" / "python3"
    spec.mkdir(parents=True)
    command = f'["{sys.executable}", "-m", "ipykernel_launcher", "-f", "{{connection_file}}"]'
    (spec / "kernel.json").write_text(f'{{"argv": {command}, "display_name": "Python 3", "language": "python"}}')
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return tmp_path


@pytest.mark.filterwarnings("default")  # Jupyter's own
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs(path, kernel):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        assert not cell.get("outputs"), "outputs are left out"
    NotebookClient(
        notebook, timeout=250, startup_timeout=250, kernel_name="python3", resources={"metadata": {"path": str(kernel)}}
    ).execute()
    shown = [output.data for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output]
    tables = [data["text/html"] for data in shown if "text/html" in data]
    assert len(tables) == 2, "an answer and a study"
    assert '<th scope="col">accuracy</th>' in tables[1]
    assert float(re.search(r", ([\d.]+)\)$", shown[-1]["text/plain"])[1]) > 0.7


class Watched(NotebookClient):
    """A client that keeps each state of the live lines, by the number of their cell."""

    def process_message(self, msg, cell, cell_index):
        """Take note of a line that is drawn or drawn anew."""
        if msg["msg_type"] in ("display_data", "update_display_data"):
            self.lines.setdefault(cell_index, []).append(msg["content"]["data"]["text/plain"])
        return super().process_message(msg, cell, cell_index)


CALLS = {
    "tune": (
        "import warmstart\n"
        "warmstart.tune(objective=lambda config: config['x'] ** 2, space={'x': (-1.0, 1.0)}, trials=3, study='s')"
    ),
    "suggest": "warmstart.suggest(PHOTOS)",
    "evaluate": (
        "import os\nfrom pathlib import Path\n"
        "from warmstart.models.evaluate import evaluate_history\n"
        "from warmstart.models.evaluation_settings import EvaluationSettings\n"
        "plan = EvaluationSettings(methods=('random', 'portfolio'), repeats=2, horizon=3)\n"
        "evaluate_history(Path(os.environ['WARMSTART_HISTORY']), plan).keys()"
    ),
    "wrong": "warmstart.suggest('nowhere')",
    "classify": "warmstart.classify(PHOTOS, time='3m')",
}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("default")  # Jupyter's own
def test_a_kernel_shows_one_line_a_call_then_a_table_or_one_line_of_an_error(kernel, photos, use_tiny):
    pytest.importorskip("timm", reason="needs timm: pip install 'warmstart[pictures]'")
    sources = [source.replace("PHOTOS", repr(str(photos))) for source in CALLS.values()]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    resources = {"metadata": {"path": str(kernel)}}
    client = Watched(notebook, startup_timeout=250, kernel_name="python3", allow_errors=True, resources=resources)
    client.lines = {}
    client.execute()
    outputs = dict(zip(CALLS, (cell.outputs for cell in notebook.cells), strict=True))
    lines = dict(zip(CALLS, (client.lines[number] for number in range(len(CALLS))), strict=True))
    begins = ("tuning", "looking at pictures", "evaluating", "looking at pictures", "looking at pictures")
    assert all(line[0].startswith(begin) for line, begin in zip(lines.values(), begins, strict=True)), lines
    assert {line[-1] for line in lines.values()} == {""}, "it goes when the call ends"
    assert any("best" in line for line in lines["tune"])
    (error,) = (output for output in outputs["wrong"] if output.output_type == "error")
    (text,) = error.traceback
    assert text.startswith("MissingPathError: nowhere: expected a folder")
    for name in ("tune", "suggest", "classify"):
        assert "<table>" in outputs[name][-1].data["text/html"], outputs[name]
    assert not any("IProgress" in output.get("text", "") for cell in outputs.values() for output in cell)


def test_there_are_notebooks():
    assert NOTEBOOKS
