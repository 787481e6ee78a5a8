"""Print a Markdown table of the tests' time by folder, from a JUnit XML file.

    pytest -n 4 --junit-xml tests.xml && python scripts/test_minutes.py tests.xml

With `--longest N`, the N tests that need most CPU follow. Times are those of the tests, one after another; with `-n 4`
the suite takes about a quarter of their sum. CPU is that of the test's process and of those that it waited for.
"""

import argparse
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path

DEEP = ("unit",)
"""Folders of `tests` whose folders are told apart."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path)
    parser.add_argument("--longest", type=int, default=0)
    given = parser.parse_args()
    print(table(read(given.report)))
    for name, seconds, cpu in sorted(read(given.report), key=lambda case: -case[2])[: given.longest]:
        print(f"- {cpu:.1f} s CPU in {seconds:.1f} s: {name}")


def read(report: Path) -> list[tuple[str, float, float]]:
    """Read names, seconds and CPU seconds of tests."""
    return [
        (f"{case.get('classname')}.{case.get('name')}", float(case.get("time") or 0), cpu_of(case))
        for case in ET.parse(report).getroot().iter("testcase")
    ]


def cpu_of(case: ET.Element) -> float:
    """Read the CPU seconds that `tests/conftest.py` noted; 0 for a test that was skipped."""
    noted = case.find("properties/property[@name='cpu']")
    return 0.0 if noted is None else float(noted.get("value") or 0)


def folder_of(name: str) -> str:
    """Name the folder of a test by its dotted name."""
    parts = name.split(".")
    depth = 3 if parts[1] in DEEP else 2
    return "/".join(part for part in parts[:depth] if not part.startswith("test_"))


def table(cases: list[tuple[str, float, float]]) -> str:
    """Sum seconds by folder."""
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, seconds, cpu in cases:
        found[folder_of(name)].append((seconds, cpu))
    ordered = sorted(found.items(), key=lambda row: -sum(seconds for seconds, _ in row[1]))
    every = [each for _, times in ordered for each in times]
    rows = [row(f"`{folder}`", times) for folder, times in ordered]
    head = ["| folder | tests | minutes | of CPU | longest, s |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows, row("all", every)])


def row(name: str, times: list[tuple[float, float]]) -> str:
    """Sum the seconds and CPU seconds of some tests."""
    seconds, cpu = zip(*times, strict=True)
    return f"| {name} | {len(times)} | {sum(seconds) / 60:.1f} | {sum(cpu) / 60:.1f} | {max(seconds):.0f} |"


if __name__ == "__main__":
    main()
