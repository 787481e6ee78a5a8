"""Run the examples of the README that the installed warmstart carries, in a new folder: `python -W error readme_commands.py`.

Nothing but the installed package is used: no file of a checkout. Warnings count as errors in all that is run, if they do here.
"""

import contextlib
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FENCE = re.compile(r"^```(console|python|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\w+\.(?:py|yaml))\n")
"""The first line of an example that later ones use as a file."""
INSTALL = "python3 -m venv "
"""How a line begins that installs warmstart."""


def examples(page: str) -> list[tuple[str, str]]:
    """Return the examples of a page in order: what takes each, bash, python or the name of a file, and its text."""
    found = []
    for language, text in FENCE.findall(page):
        if language != "console":
            file = FILE.match(text)
            found.append((file[1] if file else language, text))
            continue
        lines = text.splitlines()
        shown = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        found += [("bash", line) for line in shown or lines if line.strip() and not line.startswith(INSTALL)]
    return found


def main() -> int:
    """Run the examples; returns 1 with the first that fails."""
    about = importlib.metadata.metadata("warmstart")
    page = about.get_payload() or about["Description"]
    place = Path(importlib.metadata.distribution("warmstart").locate_file("")).resolve()
    if Path(sys.prefix).resolve() not in place.parents:
        sys.exit(f"expected warmstart to be installed in {sys.prefix}, got the one in {place}")
    settings = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    settings |= {"PYTHONWARNINGS": ",".join(sys.warnoptions), "WARMSTART_CACHE": "cache"}
    todo = examples(page)
    if len(todo) < 5:
        sys.exit(f"expected five examples and more in the README of the package, got {len(todo)}")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for kind, text in todo:
            if FILE.match(f"# {kind}\n"):
                Path(kind).write_text(text, encoding="utf-8")
                continue
            began = time.monotonic()
            words = [sys.executable, "-c", text] if kind == "python" else ["bash", "-ec", text]
            done = subprocess.run(words, capture_output=True, text=True, env=settings, check=False)
            first = next(line for line in text.splitlines() if line.strip())
            if done.returncode or not (done.stdout or done.stderr):
                print(f"{first}\nfailed with exit code {done.returncode}:\n{done.stdout}{done.stderr}")
                return 1
            print(f"{time.monotonic() - began:5.1f} s  {first[:90]}", flush=True)
    print(f"README: {len(todo)} examples run from {place.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
