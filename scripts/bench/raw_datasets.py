"""Real tunings of image datasets as they lie on disk: warm starts against cold ones, paired by dataset and seed.

The sibling groups of all datasets are taken out of a copy of the history; model and calibration are made anew without them. Every
tuning is a study of `warmstart.tune` that trains the built-in network, so a killed run goes on with the same command.

    OMP_NUM_THREADS=1 python scripts/bench/raw_datasets.py HISTORY.h5 --folder WORK --dataset PATH=GROUP [...] \
        [--trials 12] [--seeds 5] [--out FILE.json] [--plot FILE.svg]

HISTORY holds images; GROUP is the dataset's sibling group there (several: joined by +).
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import warmstart
from warmstart.history_store.history import History
from warmstart.plots.style import FAINT, INK, new_figure, save_figure, series, styled

ARMS = {"warm": "design", "cold": "none"}
SHOWN = (1, 3, 5, 10)


def history_without(source: Path, groups: set[str], folder: Path) -> tuple[Path, Path]:
    """Copy a history without sibling groups, and train and calibrate a model on what is left."""
    history, model, done = folder / "history.h5", folder / "model.safetensors", folder / "groups.json"
    if not done.exists():
        shutil.copy(source, history)
        with History.open(history) as opened:
            if unknown := groups - set(opened.groups):
                msg = f"{source}: expected the groups of the datasets, got none named {sorted(unknown)}."
                raise SystemExit(msg)
            names = [name for name, group in zip(opened.names, opened.groups, strict=True) if group in groups]
        for name in names:
            command("history", "remove", "--yes", str(history), name)
        command("fit-similarity", str(history), "--out", str(model))
        command("evaluate", "--history", str(history), "--model", str(model), "--calibrate", "--rivals", "joint,portfolio", "--models", str(folder / "folds"))  # fmt: skip
        done.write_text(json.dumps(sorted(groups)))
    if set(json.loads(done.read_text())) != groups:
        msg = f"{folder}: expected a folder made for {sorted(groups)}, got {done.read_text()}. Take another."
        raise SystemExit(msg)
    return history, model


def command(*words: str) -> None:
    """Run a command of warmstart."""
    subprocess.run([sys.executable, "-m", "warmstart", *words], check=True, stdout=subprocess.DEVNULL)


def tuned(path: Path, arm: str, seed: int, history: Path, model: Path, trials: int) -> dict[str, Any]:
    """Tune one dataset, or read what its study came to."""
    start = time.perf_counter()
    found = warmstart.tune(
        path,
        trials=trials,
        storage=history.with_name("studies.db"),
        study=f"{path.name}-{arm}-{seed}",
        warm=ARMS[arm],
        history=history,
        model=model,
        seed=seed,
    )
    print(f"{found.study}: {found.best.error if found.best else None} after {time.perf_counter() - start:.0f} s")
    return {"errors": [trial.error for trial in found.trials], "warm": [each.source for each in found.warm]}


def best_so_far(runs: list[dict[str, Any]]) -> NDArray[np.float64]:
    """Return `seeds x trials`; a failed trial changes nothing."""
    errors = np.array([[np.inf if error is None else error for error in run["errors"]] for run in runs])
    return np.minimum.accumulate(errors, axis=1)


def mean(values: NDArray[np.float64]) -> list[float]:
    """Return the mean and its standard error."""
    return [float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)]


def compare(warm: NDArray[np.float64], cold: NDArray[np.float64]) -> dict[str, Any]:
    """Compare two arms of one dataset, `seeds x trials` best so far each."""
    reached = [np.flatnonzero(run <= end) for run, end in zip(warm, cold[:, -1], strict=True)]
    return {
        "warm": {f"{t}": mean(warm[:, t - 1]) for t in (*SHOWN, warm.shape[1])},
        "cold": {f"{t}": mean(cold[:, t - 1]) for t in (*SHOWN, cold.shape[1])},
        "warm less cold": {f"{t}": mean(warm[:, t - 1] - cold[:, t - 1]) for t in (*SHOWN, warm.shape[1])},
        "warm trials to what cold ends with": [int(rows[0]) + 1 if len(rows) else None for rows in reached],
    }


def draw(curves: dict[str, dict[str, NDArray[np.float64]]], path: Path) -> None:
    """Draw the best validation error so far, a panel a dataset: the mean over seeds, and every seed faintly."""
    columns = min(3, len(curves))
    rows = -(-len(curves) // columns)
    with styled():
        figure = new_figure(3.0 * columns, 2.3 * rows)
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis, (name, arms) in zip(axes, curves.items(), strict=False):
            for number, (arm, best) in enumerate(arms.items()):
                look, t = series(number), np.arange(1, best.shape[1] + 1)
                axis.plot(t, best.T, color=look.colour, linewidth=0.5, alpha=0.4, drawstyle="steps-post")
                axis.plot(t, best.mean(axis=0), color=look.colour, linestyle=look.dash, marker=look.marker, label=arm)
            axis.set_title(name, color=INK)
            axis.grid(color=FAINT, linewidth=0.5)
            axis.set_xticks(sorted({*SHOWN, best.shape[1]}))
            axis.set_xlabel("trials")
            axis.set_ylabel("best validation error")
        for axis in axes[len(curves) :]:
            axis.set_visible(False)
        axes[0].legend(frameon=False)
        save_figure(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("history", type=Path)
    parser.add_argument(
        "--folder", type=Path, required=True, help="for the history without the groups, and the studies"
    )
    parser.add_argument("--dataset", action="append", required=True, metavar="PATH=GROUP")
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    named = dict(each.rsplit("=", 1) for each in options.dataset)
    groups = {group for text in named.values() for group in text.split("+")}
    history, model = history_without(options.history, groups, options.folder.absolute())
    runs: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for seed in range(options.seeds):
        for place in map(Path, named):
            for arm in ARMS:
                found = tuned(place, arm, seed, history, model, options.trials)
                runs.setdefault(place.name, {}).setdefault(arm, []).append(found)
    curves = {name: {arm: best_so_far(found) for arm, found in arms.items()} for name, arms in runs.items()}
    datasets = {name: compare(arms["warm"], arms["cold"]) for name, arms in curves.items()}
    differences = np.array([(arms["warm"] - arms["cold"]).mean(axis=0) for arms in curves.values()])
    overall = {f"{t}": mean(differences[:, t - 1]) for t in (*SHOWN, options.trials)} if len(curves) > 1 else {}
    for name, found in datasets.items():
        print(name, json.dumps(found["warm less cold"]), found["warm trials to what cold ends with"])
    print("over datasets", json.dumps(overall))
    if options.out:
        report = {"trials": options.trials, "seeds": options.seeds, "groups left out": sorted(groups), "datasets": datasets, "warm less cold, over datasets": overall, "runs": runs}  # fmt: skip
        options.out.write_text(json.dumps(report, indent=1) + "\n")
    if options.plot:
        draw(curves, options.plot)


if __name__ == "__main__":
    main()
