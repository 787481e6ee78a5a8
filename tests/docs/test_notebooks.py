"""The notebooks of examples/ run, and are kept without outputs."""

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


def test_there_are_notebooks():
    assert NOTEBOOKS
