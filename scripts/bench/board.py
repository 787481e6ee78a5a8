"""A board: our optimiser beside Optuna's GPSampler and TPE, SMAC's black-box facade and BoTorch's qLogNoisyExpectedImprovement.

Problems are COCO's bbob in 2 and 5 dimensions, a fixed third of it in 10, bbob-mixint in 5, and conditional ones; 20 evaluations a
hyperparameter. SMAC and BoTorch search the fixed third of bbob alone. `develop` is instances 1-3 without eight held-out functions, to try things on;
`final` is instances 71-73 of all functions, to be run once. Each search is a line of `SAMPLER.jsonl` in the folder of --cells, written when it
ends: the same command goes on where it was stopped, and searches come breadth-first, so that a board that was stopped covers all classes. Two
commands may share the folder if they name other samplers. Needs `coco-experiment`.

    OMP_NUM_THREADS=1 python scripts/bench/board.py --cells scripts/bench/results/board --part final [--samplers ...] [--dimensions 2 5] [--minutes 60] [--only-report] [--out FILE.json]
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from board_problems import HELD_OUT, THIRD, class_of, evaluations, make
from board_samplers import FAST, SAMPLERS, SLOW
from conditional import CONDITIONAL
from numpy.typing import NDArray
from runs import resume, write_report
from scipy.stats import rankdata
from scipy.stats import t as student

Floats = NDArray[np.float64]
LEAST = 1e-8
EARLY = (20, 40)
MEASURES = (*(f"after {t}" for t in EARLY), "last", "anytime")
"""Of a search: log10 of the regret after so many evaluations and in the end, and its mean after the first tenth."""
INSTANCES = {"develop": (1, 2, 3), "final": (71, 72, 73)}


@dataclass(frozen=True, slots=True)
class Cell:
    """A search: of which problem, by which sampler; the instance is its seed."""

    suite: str
    function: int | str
    d: int
    instance: int
    sampler: str

    @property
    def file(self) -> str:
        """Name the file that has a line of the cell."""
        return f"{self.sampler}.jsonl"


def cells(part: str, samplers: list[str], dimensions: list[int]) -> Iterator[Cell]:
    """List the searches of a part, breadth-first; those of bbob in some dimensions."""
    functions = [f for f in range(1, 25) if part == "final" or f not in HELD_OUT]
    for instance in INSTANCES[part]:
        for offset in range(3):  # every third function first: all classes
            some = [f for f in functions if (f - 1) % 3 == offset]
            problems: list[tuple[str, int | str, int]] = [("bbob", f, 2) for f in some]
            problems += [("conditional", name, 0) for name in list(CONDITIONAL)[offset : offset + 1]]
            problems += [("bbob", f, 5) for f in some] + [("bbob-mixint", f, 5) for f in some]
            problems += [("bbob", f, 10) for f in some if f in THIRD]
            for suite, function, d in problems:
                if suite == "bbob" and d not in dimensions:
                    continue
                for sampler in samplers:
                    if sampler not in SLOW or (suite == "bbob" and function in THIRD):
                        yield Cell(suite, function, d, instance, sampler)


def search(**job: Any) -> dict[str, Any]:
    """Run one search: log10 of the regret wherever it falls, with the number of the evaluation, from 0 on."""
    cell = Cell(**job)
    problem = make(cell.suite, cell.function, cell.d, cell.instance)
    t = evaluations(problem, cell.suite)
    errors, seconds = SAMPLERS[cell.sampler](problem, t, cell.instance)
    logs = np.log10(np.maximum(np.minimum.accumulate(errors) - problem.minimum, LEAST)).round(5)
    falls = [0, *(np.flatnonzero(np.diff(logs)) + 1).tolist()]
    return {"evaluations": t, "falls": [[i, float(logs[i])] for i in falls], "cpu": round(seconds / t, 4)}


def run(folder: Path, wanted: list[Cell], minutes: float) -> None:
    """Run the searches that have no line yet, as long as there is time."""
    end = time.monotonic() + 60.0 * minutes
    for cell in wanted:
        if time.monotonic() > end:
            return
        resume(folder / cell.file, [asdict(cell)], search)


def read(folder: Path, wanted: list[Cell]) -> list[dict[str, Any]]:
    """Read the searches that are wanted and done; a line that was being written is not."""
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.jsonl"))]
    rows = [json.loads(line) for text in texts for line in text.splitlines(keepends=True) if line.endswith("\n")]
    jobs = [asdict(cell) for cell in wanted]
    return [{**row["job"], **row} for row in rows if row["job"] in jobs]


def curve(row: dict[str, Any]) -> Floats:
    """Return log10 of the regret after each evaluation."""
    logs = np.empty(row["evaluations"])
    for start, value in row["falls"]:
        logs[start:] = value
    return logs


def report(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rank the samplers, and compare ours with each other one by class: where both searched, functions being the units."""
    table: dict[tuple[Any, ...], dict[str, Floats]] = defaultdict(dict)
    for row in rows:
        logs = curve(row)
        key = (row["suite"], row["function"], row["d"], row["instance"])
        early = [logs[min(t, len(logs)) - 1] for t in EARLY]
        table[key][row["sampler"]] = np.array([*early, logs[-1], logs[len(logs) // 10 :].mean()])
    found: dict[str, Any] = {}
    for name, among in (("all", FAST), ("fixed third", FAST + SLOW)):
        whole = {key: each for key, each in table.items() if all(sampler in each for sampler in among)}
        found[f"mean ranks, {name}"] = {"problems": len(whole), **ranks(list(whole.values()), among)}
    for other in (sampler for sampler in SAMPLERS if sampler != "warmstart"):
        found[f"ours less {other}, log10 regret"] = by_class(table, other)
    found["median cpu a suggestion, by evaluations"] = seconds(rows)
    return found


def ranks(problems: list[dict[str, Floats]], among: tuple[str, ...]) -> dict[str, Any]:
    """Average ranks by every measure, 1 the best."""
    if not problems:
        return {}
    values = np.array([[each[sampler] for sampler in among] for each in problems]).round(6)
    means = rankdata(values, axis=1).mean(axis=0)
    return {sampler: dict(zip(MEASURES, row, strict=True)) for sampler, row in zip(among, means.tolist(), strict=True)}


def by_class(table: dict[tuple[Any, ...], dict[str, Floats]], other: str) -> dict[str, Any]:
    """Average paired differences over the functions of a class, ± half a 95 % interval."""
    functions: dict[tuple[str, Any], list[Floats]] = defaultdict(list)
    for (suite, function, d, _), each in table.items():
        if "warmstart" in each and other in each:
            functions[class_of(suite, function), (function, d)].append(each["warmstart"] - each[other])
    report: dict[str, Any] = {}
    for name in [*dict.fromkeys(key[0] for key in functions), "all"] if functions else []:
        units = np.array([np.mean(v, axis=0) for key, v in functions.items() if name in ("all", key[0])])
        n = len(units)
        half = (student.ppf(0.975, n - 1) * units.std(axis=0, ddof=1) / n**0.5).tolist() if n > 1 else [None] * 4
        means = units.mean(axis=0).tolist()
        report[name] = {"functions": n, **dict(zip(MEASURES, map(list, zip(means, half, strict=True)), strict=True))}
    return report


def seconds(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the median CPU seconds of a suggestion by sampler and length of the search."""
    found: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["sampler"]][row["evaluations"]].append(row["cpu"])
    return {s: {str(t): float(np.median(v)) for t, v in sorted(by.items())} for s, by in found.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", type=Path, required=True)
    parser.add_argument("--part", choices=INSTANCES, required=True)
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=list(SAMPLERS))
    parser.add_argument("--dimensions", nargs="+", type=int, choices=(2, 5, 10), default=[2, 5, 10], help="of bbob")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--only-report", action="store_true")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    wanted = list(cells(asked.part, asked.samplers, asked.dimensions))
    if not asked.only_report:
        run(asked.cells, wanted, asked.minutes)
    searched = read(asked.cells, wanted)
    write_report({"part": asked.part, "searches": len(searched), "of": len(wanted), **report(searched)}, asked.out)
