"""Tell which share of small faults the tests find.

    python scripts/mutants.py --work FOLDER --map            # once: which tests reach which lines
    python scripts/mutants.py --work FOLDER --seed A         # 200 faults, one after another in copies of the checkout
    python scripts/mutants.py --compare OLD/A.jsonl NEW/A.jsonl

Each can be interrupted; the same command goes on. The folder lies outside the checkout. A fault is found by the first
test that fails, hangs or crashes: those that reach its line run narrowest first, a minute of them. Faults that change
nothing a test could see count as not found. Later trees judge the same faults, where their lines are left:
`--faults OLD/A.json`.
"""

import argparse
import json
import math
import signal
import subprocess
import sys
import time
from bisect import bisect_right
from collections import defaultdict
from dataclasses import asdict
from importlib.util import cache_from_source
from itertools import accumulate
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from mutation.copies import environment, in_copies, pytest_arguments, sweep
from mutation.faults import Fault, draw, follow
from mutation.reach import ReachMap, Test

FOUND = ("failed", "hang", "crash", "import")
BATCHES = (5, 20)
"""Tests of the first calls of pytest, each of which takes seconds to start; the last call runs the rest."""
LATE = 5
"""A call of pytest hangs when it takes this many times its tests' own seconds, and two minutes."""
Row = dict[str, Any]


def main() -> None:
    """Measure, judge or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1], help="the checkout")
    parser.add_argument("--work", type=Path, help="folder of the map and the results")
    parser.add_argument("--map", nargs="*", metavar="TESTS", help="measure which lines tests reach; files or folders")
    parser.add_argument("--seed", help="draw and judge faults, into SEED.json and SEED.jsonl of the folder")
    parser.add_argument("--faults", type=Path, help="judge these, drawn earlier, under the name of their file")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the tests of one fault, by the map")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("OLD", "NEW"))
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):  # SIGINT: a shell's background ignores it
        signal.signal(number, signal.default_int_handler)
    try:
        run(options, parser)
    except KeyboardInterrupt:
        sys.exit("stopped; the same command goes on")


def run(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    """Do what the options ask for."""
    if options.compare:
        print(comparison(*map(read, options.compare)))
        return
    if options.work is None or options.work.resolve().is_relative_to(options.root.resolve()):
        parser.error("--work: name a folder outside the checkout")
    reach = ReachMap(options.root.resolve(), options.work.resolve())
    if options.map is not None:
        reach.measure(options.map, options.workers)
    if options.seed or options.faults:
        faults = listed(reach, options.faults, options.seed, options.count)
        results = reach.work / f"{options.faults.stem if options.faults else options.seed}.jsonl"
        if missing := reach.missing():
            print(f"{len(missing)} test files are not in the map; their tests do not run: {', '.join(missing[:5])}")
        judge(reach, faults, results, options.seconds, options.workers)
        print(report(read(results)))


def listed(reach: ReachMap, file: Path | None, seed: str, count: int) -> list[Fault]:
    """Read the faults of a file, or draw them and write the file."""
    file = file or reach.work / f"{seed}.json"
    if not file.exists():
        faults = [asdict(fault) for fault in draw(reach.root, seed, count)]
        file.write_text(json.dumps(faults, indent=1), encoding="utf-8")
    return follow(reach.root, [Fault(**row) for row in json.loads(file.read_text(encoding="utf-8"))])


def read(results: Path) -> list[Row]:
    """Read results; a last line that was cut short is none."""
    text = results.read_text(encoding="utf-8") if results.exists() else ""
    return [json.loads(line) for line in text.splitlines() if line.endswith("}")]


def judge(reach: ReachMap, faults: list[Fault], results: Path, seconds: float, workers: int) -> None:
    """Judge the faults that have no result yet; each result is written at once."""
    judged = {row["key"] for row in read(results)}
    items = [(fault, reach.tests_of(fault)) for fault in faults if fault.key not in judged]

    def job(item: tuple[Fault, list[Test]], tree: Path) -> Row:
        return result_of(*item, tree, seconds)

    sound = next((tests[:1] for _, tests in items if tests), [])
    for outcome in in_copies(reach.root, reach.work, 1, [sound] if sound else [], call_pytest):
        if outcome["result"] != "survived":
            sys.exit(f"{sound[0].name}: expected to pass without a fault, got {outcome}")
    for row in in_copies(reach.root, reach.work, workers, items, job):
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{row['result']:12} {row['seconds']:5.0f} s  {row['shown']}", flush=True)


def result_of(fault: Fault, tests: list[Test], tree: Path, seconds: float) -> Row:
    """Put a fault into a copy, run the tests, and take it out."""
    path, started = tree / fault.file, time.monotonic()
    original = path.read_bytes() if path.exists() else b""
    changed = fault.apply(original)
    outcome: Row = {"result": "gone" if changed is None else "not reached", "ran": 0}
    if changed is not None and tests:
        compiled = Path(cache_from_source(path))
        try:
            path.write_bytes(changed)
            compiled.unlink(missing_ok=True)
            outcome = run_batches(tests, tree, seconds)
        finally:
            sweep(tree)
            path.write_bytes(original)
            compiled.unlink(missing_ok=True)
    taken = round(time.monotonic() - started, 1)
    about = {"key": fault.key, "shown": str(fault), "package": fault.file.split("/")[0], "kind": fault.kind}
    return about | {"reaching": len(tests), "seconds": taken} | outcome


def run_batches(tests: list[Test], tree: Path, seconds: float) -> Row:
    """Run tests in growing batches until one finds the fault: as many as the seconds suffice for, at least one.

    The seconds of a test are those of the map, so that the same tests run on a machine that is busy.
    """
    total = list(accumulate(test.seconds for test in tests))
    chosen = tests[: max(1, bisect_right(total, seconds))]
    ran, first = 0, 0
    for size in (*BATCHES, len(chosen)):
        if batch := chosen[first : first + size]:
            outcome = call_pytest(batch, tree)
            ran, first = ran + outcome["ran"], first + size
            if outcome["result"] in FOUND:
                return outcome | {"ran": ran}
    return {"result": "survived", "ran": ran, "all": len(chosen) == len(tests)}


def call_pytest(tests: list[Test], tree: Path) -> Row:
    """Run tests in one call of pytest."""
    log, plan = tree.parent / "log", tree.parent / "plan"
    log.write_text("", encoding="utf-8")
    seconds = {test.name: test.seconds for test in tests}
    plan.write_text(json.dumps({"tests": seconds, "log": str(log)}), encoding="utf-8")
    command = [sys.executable, *pytest_arguments(tree, "-x", *sorted({test.file for test in tests}))]
    variables = environment(tree) | {"MUTANTS_PLAN": str(plan)}
    with (tree.parent / "output").open("wb") as output:
        process = subprocess.Popen(
            command, cwd=tree, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
        try:
            code: int | None = process.wait(120 + LATE * sum(seconds.values()))
        except subprocess.TimeoutExpired:
            code = None
            sweep(tree)
            process.wait()
    return outcome_of(code, read(log))


def outcome_of(code: int | None, log: list[Row]) -> Row:
    """Tell what became of a call of pytest: its exit code, None after a hang, and the tests that it ran."""
    failed = [row for row in log if row["failed"]]
    result = "crash"
    if failed:
        result = "hang" if "from pytest-timeout" in failed[0]["text"] else "failed"
    elif code is None:
        result = "hang"
    elif code in (0, 5):  # 5: no test is left, as the fault leaves no parameters
        result = "survived"
    elif code in (1, 2, 4) and not log:  # in a test file, or in conftest.py
        result = "import"
    return {"result": result, "ran": len({row["test"] for row in log})} | (failed[0] if failed else {})


def is_found(row: Row) -> bool:
    """Tell whether the tests found a fault."""
    return row["result"] in FOUND


def share(rows: list[Row]) -> str:
    """Return the share found with its binomial standard error."""
    p = mean(map(is_found, rows)) if rows else math.nan
    error = math.sqrt(p * (1 - p) / len(rows)) if rows else math.nan
    return f"{p:.1%} ± {error:.1%} of {len(rows)}"


def report(rows: list[Row]) -> str:
    """Return the share found, by package, kind and outcome, and the faults that are left."""
    valid = [row for row in rows if row["result"] != "gone"]
    results = grouped(rows, "result")
    cut = sum(not row["all"] for row in results.get("survived", []))
    lines = [f"found: {share(valid)} (± one standard error)"]
    for key in ("package", "kind"):
        lines += ["", *(f"  {name:14} {share(group)}" for name, group in grouped(valid, key).items())]
    lines += ["", *(f"  {name:14} {len(group)}" for name, group in results.items())]
    minutes = sum(row["seconds"] for row in rows) / 60
    lines += ["", f"{minutes:.0f} minutes; survivors with more tests than the time sufficed for: {cut}"]
    for name in [name for name in ("survived", "not reached", "gone") if name in results]:
        lines += ["", f"{name}:", *(f"  {row['shown']}" for row in results[name])]
    return "\n".join(lines)


def grouped(rows: list[Row], key: str) -> dict[str, list[Row]]:
    """Return rows by one of their values, the most first."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row[key]].append(row)
    return dict(sorted(groups.items(), key=lambda item: -len(item[1])))


def comparison(old: list[Row], new: list[Row]) -> str:
    """Return both shares and their difference over the faults that both judged."""
    before, after = ({row["key"]: row for row in rows if row["result"] != "gone"} for rows in (old, new))
    both = [key for key in before if key in after]
    steps = [int(is_found(after[key])) - int(is_found(before[key])) for key in both]
    twice = 2 * stdev(steps) / math.sqrt(len(steps)) if len(steps) > 1 else math.nan
    verdict = "lower by more than two standard errors" if mean(steps) < -twice else "not lower by two standard errors"
    lines = [
        f"old: {share([before[key] for key in both])}",
        f"new: {share([after[key] for key in both])}",
        f"new - old: {mean(steps):+.1%} ± {twice:.1%} (two standard errors, paired): {verdict}",
        f"left out, as one of the two has no result: {len(before.keys() ^ after.keys())}",
    ]
    for name, step in (("found before only", -1), ("found now only", 1)):
        lines += ["", f"{name}:"]
        lines += [f"  {before[key]['shown']}" for key, each in zip(both, steps, strict=True) if each == step]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
