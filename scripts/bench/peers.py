"""The optimiser beside its peers: seconds of a suggestion, of a fit, and what 200 evaluations find, in one run.

Each peer has a virtual environment of its own under a folder, made at first use. Peer and ours see the same points, one after
the other, in CPU seconds of one thread; each pair is a line of FILE.jsonl, and the same command goes on where it was stopped.

    python scripts/bench/peers.py --environments FOLDER --runs FILE.jsonl [--rows gpyopt-30 botorch-1000 ...] [--repeats 3]
        [--out FILE.json]

`gpyopt-30` needs peer `gpyopt`, and so on. Rows of the design: GPyOpt at most 1/20 and 1/20, SMAC 1/5, BoTorch 1/2 at 1,000
points and 1/10 with 100 pending, pybnn 1/20 for fits, 1/50 (DNGO) and 1/4 (BOHAMIANN) for predictions, Optuna no better.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import gp
import numpy as np
from dngo import points
from functions import branin, hartmann6
from runs import resume, search, write_report

from warmstart.bo.space.encoding import Encoding
from warmstart.bo.surrogates import DNGO, Bohamiann, Surrogate

REQUIREMENTS = {
    "gpyopt": ["gpyopt==1.2.6", "gpy", "scipy", "matplotlib", "setuptools<81"],
    "botorch": ["botorch==0.18.1", "numpyro"],
    "smac": ["smac==2.4.1"],
    "pybnn": ["pybnn==0.0.5", "numpy<2", "scipy", "emcee", "tqdm", "torch", "scikit-learn"],
    "optuna": ["optuna==5.0.0", "scipy", "torch", "ConfigSpace"],
}
UNDECLARED = ("pybnn==0.0.5",)
"""Installed without what it asks for, which is more than it needs."""
ROWS = {
    "gpyopt-30": ("gpyopt", "gpyopt", "cold-30"),
    "gpyopt-100": ("gpyopt", "gpyopt", "cold-100"),
    "nuts-30": ("botorch", "botorch_nuts", "cold-30"),
    "smac-300": ("smac", "smac", "kept-300"),
    "botorch-1000": ("botorch", "botorch", "kept-1000"),
    "botorch-pending": ("botorch", "botorch_pending", "pending-500"),
    "dngo": ("pybnn", "pybnn_dngo", ""),
    "bohamiann": ("pybnn", "pybnn_bohamiann", ""),
    "optuna-branin": ("optuna", "optuna", "branin"),
    "optuna-hartmann6": ("optuna", "optuna", "hartmann6"),
}
"""Environment, function of `peer.py`, and row of `gp.py` or function."""
HERE = Path(__file__).parent
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


def compare(row: str, seed: int, *, environments: Path) -> dict[str, Any]:
    """Measure a peer and ours."""
    environment, function, ours = ROWS[row]
    data = inputs(ours, seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, **data)
        done = subprocess.run(
            [str(python_of(environments, environment)), str(HERE / "peer.py"), function, str(path)],
            env={**os.environ, **ONE_THREAD, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
    return {"peer": json.loads(done.stdout.splitlines()[-1]), "ours": measure(row, ours, data, seed)}


def inputs(ours: str, seed: int) -> dict[str, np.ndarray]:
    """Make what both see."""
    if ours in ("branin", "hartmann6"):
        return {"function": np.array(ours), "seed": np.array(seed), "t": np.array(200)}
    rng = np.random.default_rng(seed)
    n = int(ours.split("-")[1]) if ours else 100
    _, X, y = gp.history(Encoding(hartmann6().space), n, rng)
    X_test, y_test = points(2000, seed=99)
    cube, pending = rng.random((10_000, 6)), rng.random((100, 6))
    return {"X": X, "y": y, "pending": pending, "cube": cube, "X_test": X_test, "y_test": y_test}


def measure(row: str, ours: str, data: dict[str, np.ndarray], seed: int) -> dict[str, Any]:
    """Measure ours."""
    if row in ("dngo", "bohamiann"):
        return fitted(DNGO() if row == "dngo" else Bohamiann(samples=100), data, seed)
    if row.startswith("optuna"):
        problem = {"branin": branin, "hartmann6": hartmann6}[ours]()
        trace = search(problem.space, problem.value, 200, seed=seed)
        return {"seconds": trace.cpu, "best": {str(n): trace.best_at(n) for n in (50, 100, 200)}}
    return gp.measure(ours, seed)


def fitted(model: Surrogate, data: dict[str, np.ndarray], seed: int) -> dict[str, float]:
    """Time a fit and a prediction, and judge the prediction by the moments of all samples, as the peer's."""
    start = time.process_time()
    model.fit(data["X"], data["y"], rng=np.random.default_rng(seed))
    end_of_fit = time.process_time()
    model.predict(data["cube"])
    end = time.process_time()
    found = model.predict(data["X_test"])
    mean = found.mean.mean(axis=0)
    var = found.mean.var(axis=0) + (found.var + found.noise[:, None]).mean(axis=0)
    error = np.sqrt(np.mean((mean - data["y_test"]) ** 2)) / data["y_test"].std()
    density = -0.5 * ((data["y_test"] - mean) ** 2 / var + np.log(2.0 * np.pi * var))
    scores = {"nrmse": float(error), "log_density": float(density.mean())}
    return {"fit": end_of_fit - start, "predict": end - end_of_fit, **scores}


def python_of(environments: Path, name: str) -> Path:
    """Return the interpreter of an environment, which is made where it is not there."""
    python = environments / name / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(environments / name)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet"]
        plain = [each for each in REQUIREMENTS[name] if each not in UNDECLARED]
        subprocess.run([*install, *plain], check=True)
        for each in set(REQUIREMENTS[name]) - set(plain):
            subprocess.run([*install, "--no-deps", each], check=True)
    return python


def summary(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of a row, and how many times faster ours is."""
    row: dict[str, Any] = {"runs": len(lines)}
    for who in ("peer", "ours"):
        row[who] = {
            part: round(float(np.median([line[who][part] for line in lines])), 4)
            for part in lines[0][who]
            if part not in ("best", "before")
        }
        if "best" in lines[0][who]:
            row[who]["best"] = {n: [round(line[who]["best"][n], 5) for line in lines] for n in lines[0][who]["best"]}
    row["times_faster"] = {
        part: round(row["peer"][part] / row["ours"][part], 1)
        for part in ("seconds", "fit", "predict")
        if part in row["peer"] and part in row["ours"] and ("seconds" not in row["peer"] or part == "seconds")
    }
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=[*ROWS])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if any(os.environ.get(name) != "1" for name in ONE_THREAD):  # numpy reads them when it is imported
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})
    gp.measure("cold-30")  # imports
    jobs = [{"row": row, "seed": seed} for seed in range(options.repeats) for row in options.rows]
    lines = resume(options.runs, jobs, partial(compare, environments=options.environments))
    report = {row: summary([line for line in lines if line["job"]["row"] == row]) for row in options.rows}
    write_report(report, options.out)


if __name__ == "__main__":
    main()
