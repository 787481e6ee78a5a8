"""What docs/extending.md adds keeps the contract that the page tests it by."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


def test_the_strategy_passes_its_test(tmp_path):
    found = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    parts = [block for block in found if "def median" in block or "class TestMedian" in block]
    assert len(parts) == 2
    file = tmp_path / "test_median.py"
    file.write_text("\n\n".join(parts), encoding="utf-8")
    call = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "--rootdir", tmp_path, file]
    run = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert " passed" in run.stdout
