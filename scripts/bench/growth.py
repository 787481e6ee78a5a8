"""Measure how work grows with inputs of other people: each is made four times as long, and may cost four times as much.

    python scripts/bench/growth.py [--out growth.json]

Prints a line an input: bytes and CPU seconds, small and large, and their ratio over that of the bytes. Exits with 1 where one grows
faster (a half is allowed for noise; `BOUNDED` may), or takes longer than the budget at a megabyte (docs/service.md).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from warmstart.history_store.csv_table import read_csv
from warmstart.history_store.errors import WarmstartError
from warmstart.history_store.fingerprint import composed
from warmstart.history_store.json_text import parse_strict_json
from warmstart.history_store.quoting import in_csv, in_json, in_line, in_markdown, in_python, in_yaml
from warmstart.history_store.readers.archive_paths import check_inside
from warmstart.history_store.readers.labels import encode_labels
from warmstart.history_store.space import load_space
from warmstart.history_store.space_yaml import Source, build_space, parse_space
from warmstart.service.shapes import TRIAL, check_shape
from warmstart.studies.objectives.printed import printed_lines

TIMES, NOISE = 4, 1.5
MEGABYTE, BUDGET_S = 1_000_000, 1.0
LEAST_S = 0.02
"""Shorter work than this is noise."""
TEXT = "a\nb\x1b=`|"


def _pairs(n: int) -> str:
    return "{" + ",".join(f'"{i:x}":1' for i in range(n)) + f',"{n - 1:x}":1}}'


def _configspace(n: int) -> str:
    parts = [{"type": "uniform_float", "name": f"h{i}", "lower": 0.0, "upper": 1.0, "default_value": 0.5, "log": False, "meta": None} for i in range(n)]  # fmt: skip
    return json.dumps({"hyperparameters": parts, "conditions": [], "forbiddens": [], "format_version": 0.4})


def _conditions(n: int) -> str:
    leaves = {f"h{i}": {"float": [0, 1], "if": {"p": "a"}} for i in range(n)}
    return json.dumps({"p": ["a", "b"], **leaves})


def _chain(n: int) -> str:
    return json.dumps(
        {"h0": ["a", "b"], **{f"h{i}": {"choice": ["a", "b"], "if": {f"h{i - 1}": "a"}} for i in range(1, n)}}
    )


def _trials(n: int) -> str:
    one = {"number": 0, "state": "ok", "config": {"x": 0.5}, "seed": 1, "error": 0.5, "duration": 1.0, "note": ""}
    one |= {"constraints": {}, "client": None, "lease_until": None, "extra_of": None, "curve": [[1, 0.5]] * 20}
    return json.dumps([one] * n)


def _build(text: str) -> None:
    build_space(json.loads(text), Source("space"))


def _read_table(text: str) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        read_csv(Path(file.name)).numeric_columns()


def _print_program(text: str) -> None:
    for _ in printed_lines(io.BytesIO(text.encode()), io.StringIO()):
        pass


INPUTS: dict[str, tuple[Callable[[int], str], Callable[[str], object], int]] = {
    "JSON, a name twice": (_pairs, parse_strict_json, 16_000),
    "JSON, halves of pairs": (lambda n: json.dumps(["\ud83d\ude00"] * n), parse_strict_json, 16_000),
    "JSON, brackets": (lambda n: "[" * n, parse_strict_json, 200_000),
    "space of HTTP, hyperparameters": (lambda n: json.dumps({f"h{i}": [0.5, 1.5] for i in range(n)}), _build, 250),
    "space of HTTP, too many": (lambda n: json.dumps({f"h{i}": [0.5, 1.5] for i in range(n)}), _build, 12_000),
    "space of HTTP, choices": (lambda n: json.dumps({"x": list(range(n))}), _build, 30_000),
    "space of HTTP, conditions": (_conditions, _build, 62),
    "space of HTTP, most choices": (lambda n: json.dumps({"x": list(range(n))}), _build, 2_500),
    "space of HTTP, chain": (_chain, _build, 4_000),
    "space of a file, words": (lambda n: json.dumps({"x": [f"w{i}" for i in range(n)]}), parse_space, 2_000),
    "ConfigSpace JSON": (_configspace, load_space, 250),
    "trials of a server": (_trials, lambda text: check_shape(json.loads(text), [TRIAL]), 600),
    "table, columns": (
        lambda n: ",".join(f"c{i}" for i in range(n)) + "\n" + ",".join("1" * n) + "\n",
        _read_table,
        8_000,
    ),
    "table, short rows": (lambda n: "a" + "," * n + "\n" + "1\n" * n, _read_table, 20_000),
    "table, spaces in a cell": (lambda n: f"a;b\n1{' ' * n}x;2\n", _read_table, 50_000),
    "names of classes, accents": (lambda n: "a" + "\u0301\u0323" * n, composed, 20_000),
    "names of classes, one long": (
        lambda n: "x" * n,
        lambda text: encode_labels([text, *"ab" * 2000], "", n=4001),
        20_000,
    ),
    "paths of an archive, levels": (lambda n: "a/" * n + "1.png", lambda text: check_inside(text, "zip"), 20_000),
    "lines of a program": (lambda n: '{\n"a": 1,\n' * n, _print_program, 8_000),
    "lines of a program, brackets": (lambda n: "{\n" + "}\n" * n, _print_program, 1_000),
    "quoted for a line": (lambda n: TEXT * n, in_line, 20_000),
    "quoted for Markdown": (lambda n: TEXT * n, in_markdown, 20_000),
    "quoted for CSV": (lambda n: TEXT * n, lambda text: in_csv(["a"], [[text]] * 20), 5_000),
    "quoted for JSON": (lambda n: TEXT * n, lambda text: in_json([text]), 20_000),
    "quoted for YAML": (lambda n: TEXT * n, lambda text: in_yaml([text]), 2_000),
    "quoted for Python": (lambda n: TEXT * n, lambda text: in_python([text]), 2_000),
}
"""How an input of a size is made, what reads or writes it, and the small size."""


BOUNDED = ("space of HTTP, conditions", "space of HTTP, most choices")
"""ConfigSpace's own work grows faster here; a limit bounds it, at which the large input lies."""


def seconds_of(work: Callable[[str], object], text: str) -> float:
    """Return the CPU seconds of a piece of work, the least of three; an input that is refused counts, too."""
    least = math.inf
    for _ in range(3):
        began = time.process_time()
        with contextlib.suppress(WarmstartError, ValueError):
            work(text)
        least = min(least, time.process_time() - began)
    return least


def measure(name: str) -> dict[str, object]:
    """Measure one input, small and `TIMES` as long."""
    make, work, n = INPUTS[name]
    small, large = make(n), make(TIMES * n)
    before, after = seconds_of(work, small), seconds_of(work, large)
    growth = max(after, LEAST_S) / max(before, LEAST_S) / (len(large) / len(small))
    is_within = len(large) > MEGABYTE or after <= BUDGET_S
    return {
        "input": name,
        "bytes": [len(small), len(large)],
        "cpu_s": [round(before, 4), round(after, 4)],
        "growth": round(growth, 3),
        "ok": is_within and (growth <= NOISE or name in BOUNDED),
    }


def main() -> int:
    """Measure all inputs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", help="part of an input's name")
    arguments = parser.parse_args()
    rows = []
    for name in INPUTS:
        if arguments.only is None or arguments.only in name:
            row = measure(name)
            rows.append(row)
            print(
                f"{'ok' if row['ok'] else 'FAIL':4} {name:32} {row['bytes']} bytes, {row['cpu_s']} s, x {row['growth']}"
            )
    if arguments.out is not None:
        arguments.out.write_text(json.dumps({"times": TIMES, "inputs": rows}, indent=2) + "\n", encoding="utf-8")
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
