"""Run the long searches for faults (``pytest -m campaign``) and write what they found.

``python scripts/bench/campaign.py --out campaign.json [--only WORDS]``
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
import xml.etree.ElementTree as ET
from pathlib import Path


def read(report: Path) -> list[dict[str, object]]:
    """Read the outcome of each test from pytest's own report."""
    found = []
    for case in ET.parse(report).iter("testcase"):
        faults = [part for part in case if part.tag in ("failure", "error")]
        found.append(
            {
                "test": f"{case.get('classname')}::{case.get('name')}",
                "seconds": float(case.get("time", "0")),
                "outcome": "failed" if faults else "skipped" if case.find("skipped") is not None else "passed",
                "message": faults[0].get("message", "")[:500] if faults else "",
            }
        )
    return found


def main() -> int:
    """Run and write; gives pytest's exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="as pytest -k")
    parser.add_argument("--out", type=Path, default=Path("campaign.json"))
    options = parser.parse_args()
    started = time.time()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-m", "campaign", "-q", "-p", "no:randomly", f"--junitxml={report}"]
        code = subprocess.run([*command, *(["-k", options.only] if options.only else [])], check=False).returncode
        tests = read(report) if report.exists() else []
    found = {
        "seconds": round(time.time() - started, 1),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "exit_code": code,
        "tests": tests,
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
