import re
from pathlib import Path

import pytest

from warmstart.history_store.manifest import read_manifest

PAGE = Path(__file__).resolve().parents[2] / "research" / "collecting.md"


@pytest.mark.timeout(600)
def test_the_python_session_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], trials_here: None
) -> None:
    (code,) = re.findall(r"<!-- run -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "collecting.md", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out.split(maxsplit=1) == ["2", "(2, 2)\n"]


def test_the_manifest_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "shapes.toml").write_text(text)
    assert read_manifest(tmp_path / "shapes.toml").name == "shapes"
