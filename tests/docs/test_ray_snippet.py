"""The Ray snippet of docs/suggest.md runs, where Ray is."""

import re
from pathlib import Path

import pytest

pytest.importorskip("ray", reason='Ray is not installed: pip install "warmstart[ray]"')
PAGE = Path(__file__).resolve().parents[2] / "docs" / "suggest.md"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_ray_snippet_runs(use_tiny, cli, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for kind, name in (("ray", "points.json"), ("configspace", "start.json")):
        Path(name).write_text(cli("suggest", "--dataset", "sklearn:digits", "--format", kind).out)
    (code,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    exec(compile(code, "suggest.md", "exec"), {"__name__": "__main__"})
    assert "dropout_rate" in capsys.readouterr().out
