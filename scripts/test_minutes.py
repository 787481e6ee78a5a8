"""Print a Markdown table of the tests' time by folder, from a JUnit XML file.

    pytest -n 4 --junit-xml tests.xml && python scripts/test_minutes.py tests.xml

With `--longest N`, the N longest tests follow. Times are those of the tests, one after another; with `-n 4` the suite
takes about a quarter of their sum.
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
    for name, seconds in sorted(read(given.report), key=lambda case: -case[1])[: given.longest]:
        print(f"- {seconds:.1f} s {name}")


def read(report: Path) -> list[tuple[str, float]]:
    """Read names and seconds of tests."""
    cases = ET.parse(report).getroot().iter("testcase")
    return [(f"{case.get('classname')}.{case.get('name')}", float(case.get("time") or 0)) for case in cases]


def folder_of(name: str) -> str:
    """Name the folder of a test by its dotted name."""
    parts = name.split(".")
    depth = 3 if parts[1] in DEEP else 2
    return "/".join(part for part in parts[:depth] if not part.startswith("test_"))


def table(cases: list[tuple[str, float]]) -> str:
    """Sum seconds by folder."""
    found: dict[str, list[float]] = defaultdict(list)
    for name, seconds in cases:
        found[folder_of(name)].append(seconds)
    rows = [
        f"| `{folder}` | {len(times)} | {sum(times) / 60:.1f} | {max(times):.0f} |"
        for folder, times in sorted(found.items(), key=lambda row: -sum(row[1]))
    ]
    every = [seconds for times in found.values() for seconds in times]
    last = f"| all | {len(every)} | {sum(every) / 60:.1f} | {max(every):.0f} |"
    return "\n".join(["| folder | tests | minutes | longest, s |", "|---|---|---|---|", *rows, last])


if __name__ == "__main__":
    main()
