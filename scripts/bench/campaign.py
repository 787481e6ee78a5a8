"""Run the long searches for faults (``pytest -m campaign``), each in a process of its own, and write what they found.

``python scripts/bench/campaign.py --out campaign.json [--only WORDS] [--again]``

The file is written after each test. Called again, it goes on: tests that passed are not run a second time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PYTEST = (sys.executable, "-m", "pytest", "-m", "campaign", "-q", "-p", "no:randomly")


def collected(only: str) -> list[str]:
    """List the names of the tests."""
    more = ["-k", only] if only else []
    found = subprocess.run([*PYTEST, "--collect-only", *more], capture_output=True, text=True, check=False)
    names = [line for line in found.stdout.splitlines() if "::" in line and not line.startswith("ERROR")]
    if not names:
        sys.exit(f"no test was found:\n{found.stdout}{found.stderr}")
    return names


def run(test: str) -> dict[str, object]:
    """Run one test; gives its outcome, its seconds and the end of what a failed one said."""
    started = time.time()
    done = subprocess.run([*PYTEST, test], capture_output=True, text=True, check=False)
    outcome = "failed" if done.returncode else "passed" if " passed" in done.stdout else "skipped"
    said = (done.stdout + done.stderr)[-4000:] if done.returncode else ""
    return {"test": test, "seconds": round(time.time() - started, 1), "outcome": outcome, "message": said}


def write(path: Path, tests: dict[str, dict[str, object]]) -> None:
    """Put the outcomes into the file, whole or not at all."""
    found = {"python": platform.python_version(), "cpus": os.cpu_count(), "tests": list(tests.values())}
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        file.write(json.dumps(found, indent=1) + "\n")
    Path(file.name).replace(path)


def main() -> int:
    """Run what has not passed, and write; gives 1 where a test failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="as pytest -k")
    parser.add_argument("--out", type=Path, default=Path("campaign.json"))
    parser.add_argument("--again", action="store_true", help="run tests that passed, too")
    options = parser.parse_args()
    known = json.loads(options.out.read_text(encoding="utf-8"))["tests"] if options.out.exists() else []
    tests = {each["test"]: each for each in known}
    for name in collected(options.only):
        if options.again or tests.get(name, {}).get("outcome") != "passed":
            tests[name] = run(name)
            write(options.out, tests)
        sys.stdout.write(f"{tests[name]['outcome']} {tests[name]['seconds']} s {name}\n")
        sys.stdout.flush()
    return int(any(each["outcome"] == "failed" for each in tests.values()))


if __name__ == "__main__":
    sys.exit(main())
