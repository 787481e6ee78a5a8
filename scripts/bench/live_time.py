"""`tune --time` live: is the deadline kept, and what is found by it, with the history and without.

    OMP_NUM_THREADS=1 python scripts/bench/live_time.py --folder WORK --dataset PATH[=GROUP] [...] \
        [--minutes 10] [--seeds 3] [--at-once 1] [--history FILE] [--model FILE] [--out FILE.json]

Each run is the command as a person gives it, timed from outside. `plan` is `tune --time`; `cold` is the same with `--no-warm`, which knows
neither configurations nor seconds. GROUP is the dataset's sibling group in the history, where it has one (several: joined by +); it does not
answer. With `--at-once 2` two commands run beside each other, each on a processor core of its own (Linux). A killed campaign goes on with the
same command: `WORK/runs-N.jsonl` hold a line a run.
"""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from runs import resume, write_report

import warmstart
from warmstart.locations import history_path

ARMS = ("plan", "cold")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--dataset", action="append", required=True, metavar="PATH[=GROUP]")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--history")
    parser.add_argument("--model")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    given = {"--history": options.history, "--model": options.model}
    named = [item for option, value in given.items() if value for item in (option, value)]
    jobs = [
        {"dataset": dataset, "seed": seed, "arm": arm, "minutes": options.minutes}
        for seed in range(options.seeds)
        for dataset in options.dataset
        for arm in ARMS
    ]
    cores = sorted(os.sched_getaffinity(0))[: options.at_once]

    def work(place: int) -> list[dict[str, Any]]:
        """Run every so many-th job, one after another."""
        mine = [job for number, job in enumerate(jobs) if number // len(ARMS) % options.at_once == place]
        file = options.folder / f"runs-{place}-of-{options.at_once}.jsonl"
        return resume(file, mine, lambda **job: run(job, options.folder, cores[place % len(cores)], named))

    with ThreadPoolExecutor(options.at_once) as pool:
        lines = [line for part in pool.map(work, range(options.at_once)) for line in part]
    report = {
        "history": history_path(options.history).name,
        "versions": {"warmstart": warmstart.__version__, "python": platform.python_version()},
        "machine": platform.processor() or platform.machine(),
        "at_once": options.at_once,
        "minutes": options.minutes,
        "arms": {arm: summary([line for line in lines if line["job"]["arm"] == arm], options.minutes) for arm in ARMS},
        "plan less cold": differences(lines),
        "runs": [{**line, "job": {**line["job"], "dataset": Path(line["job"]["dataset"]).name}} for line in lines],
    }
    write_report({key: value for key, value in report.items() if key != "runs"}, None)
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def run(job: dict[str, Any], folder: Path, core: int, named: list[str]) -> dict[str, Any]:
    """Tune by one arm; a run that was killed in the middle begins anew, since its time is over."""
    path, _, group = job["dataset"].partition("=")
    place = folder / f"{Path(path).name}-{job['seed']}-{job['arm']}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    command = [
        *(sys.executable, "-m", "warmstart", "tune", "--dataset", path),
        *("--time", f"{job['minutes']:g}m", "--seed", job["seed"]),
        *(("--no-warm",) if job["arm"] == "cold" else ()),
        *(item for each in group.split("+") if group for item in ("--exclude-group", each)),
        *(*named, "--storage", "studies.db", "--format", "json"),
    ]
    started = time.monotonic()
    done = subprocess.run(
        [str(item) for item in command],
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    wall = time.monotonic() - started
    if done.returncode:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout)
    print(f"{place.name}: {wall:.1f} s, {found['trials']}, best {found['best']['error']}", flush=True)
    planned = (found.get("plan") or {}).get("runs", [])
    return {
        "wall_s": round(wall, 2),
        "trials": found["trials"],
        "best": found["best"]["error"],
        "promised": (found.get("expectation") or {}).get("promised"),
        "planned": len(planned),
        "told_and_took": durations(place / Path(found["report"]).with_suffix(".json"), planned),
    }


def durations(report: Path, planned: list[dict[str, Any]]) -> list[list[float]]:
    """Return the seconds that each planned run was to take and took, where it ended."""
    ended = [trial for trial in json.loads(report.read_text())["all"] if trial["status"] == "ok"]
    pairs = []
    for each in planned:
        took = [trial["duration"] for trial in ended if trial["config"] == each["config"]]
        pairs += [[each["seconds"]["value"], took[0]]] if took else []
    return pairs


def summary(lines: list[dict[str, Any]], minutes: float) -> dict[str, Any]:
    """Say how late the commands were, and what they found."""
    walls, counts = [line["wall_s"] for line in lines], [sum(line["trials"].values()) for line in lines]
    ratios = [took / told for line in lines for told, took in line["told_and_took"]]
    return {
        "commands": len(lines),
        "wall_s": [min(walls), max(walls)],
        "late": sum(wall > 60 * minutes for wall in walls),
        "trials": [min(counts), max(counts)],
        "best": round(float(np.mean([line["best"] for line in lines])), 4),
        "took / told": [round(float(q), 2) for q in np.quantile(ratios, [0.1, 0.5, 0.9])] if ratios else None,
    }


def differences(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Compare what the arms found, paired by dataset and seed, with a standard error over pairs; and the means of each dataset."""
    by_case: dict[tuple[str, int], dict[str, float]] = {}
    for line in lines:
        job = line["job"]
        by_case.setdefault((Path(job["dataset"].partition("=")[0]).name, job["seed"]), {})[job["arm"]] = line["best"]
    by_dataset: dict[str, list[float]] = {}
    for (name, _), arms in by_case.items():
        by_dataset.setdefault(name, []).append(arms["plan"] - arms["cold"])
    values = np.concatenate([*by_dataset.values()])
    return {
        "mean": round(float(values.mean()), 4),
        "standard_error": round(float(values.std(ddof=1) / np.sqrt(len(values))), 4) if len(values) > 1 else None,
        "datasets": {name: round(float(np.mean(each)), 4) for name, each in by_dataset.items()},
    }


if __name__ == "__main__":
    main()
