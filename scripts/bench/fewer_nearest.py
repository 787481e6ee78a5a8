"""What answers lose where fewer datasets of a large history give them, simulated.

    python scripts/bench/size.py --datasets 10000 100000 --folder size
    python scripts/bench/fewer_nearest.py size/10000.h5 size/100000.h5 --out scripts/bench/results/fewer-nearest.json

Each query of the simulation is asked for three configurations by the 2,000, 500 and 200 nearest datasets. Their regret
is the least of the three, meant over the 12 nearest datasets without gaps: the query's own errors are not simulated,
and those of its group are nearest."""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from runs import write_report

from warmstart.bo.transfer.designs import designs
from warmstart.bo.transfer.strategies.scenarios import USUAL_NOISE
from warmstart.descriptor import Descriptor
from warmstart.history_store.error_tables import fill_failed
from warmstart.history_store.file.codec import config_key
from warmstart.locations import model_path
from warmstart.metafeat.model_file import read_header
from warmstart.suggestions import location
from warmstart.suggestions.advisor import Advisor

COUNTS = (2000, 500, 200)
SPREADS = (10_000, 2000, 1000)
TRUTH, ASKED = 12, 6000
"""Datasets around a query that stand for it, and datasets that a portfolio is asked of."""


def answers(advisor: Advisor, points: NDArray[np.float32]) -> tuple[list[list[int]], float]:
    """Ask for three configurations at each point; return their columns, and the CPU milliseconds a question."""
    hash_, configs = read_header(model_path()).hash, advisor.embedded.configs
    column_of = {config_key(config): column for column, config in enumerate(configs)}
    began, found = time.process_time(), []
    for point in points:
        answer = advisor.suggest(Descriptor(hash_, point, 1000, 10, (100,) * 10), strategy="joint")
        found.append([column_of[config_key(each.config)] for each in answer.suggestions])
    return found, 1000 * (time.process_time() - began) / len(points)


def regrets_near(advisor: Advisor, point: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the regrets of all configurations on the nearest datasets without gaps."""
    embedded = advisor.embedded
    errors = embedded.errors(embedded.nearest(point, np.arange(len(embedded.names)), TRUTH)[0])
    return regrets(errors)


def regrets(errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale the rows without gaps to [0, 1]."""
    errors = errors[~np.isnan(errors).any(axis=1)]
    low, high = errors.min(axis=1, keepdims=True), errors.max(axis=1, keepdims=True)
    scaled: NDArray[np.float64] = (errors - low) / (high - low)
    return scaled


def portfolios(advisor: Advisor) -> dict[str, Any]:
    """Make the portfolio of spreads of different sizes."""
    embedded = advisor.embedded
    m = len(embedded.names)
    asked = regrets(embedded.errors(np.random.default_rng(0).choice(m, min(m, ASKED), replace=False)))
    report = {}
    for count in SPREADS:
        rows = np.linspace(0, m - 1, min(m, count)).astype(np.int64)
        errors, groups = fill_failed(*embedded.outcomes(rows)), embedded.group_numbers[rows]
        began = time.process_time()
        chosen = designs(errors, None, 3, strategy="portfolio", groups=groups, noise=USUAL_NOISE)
        columns = [choice.row for choice in chosen]
        report[f"portfolio of {count}"] = {
            "ms": round(1000 * (time.process_time() - began), 1),
            "configurations": columns,
            "regret": round(float(asked[:, columns].min(axis=1).mean()), 5),
        }
    return report


def compare(path: Path, n: int) -> dict[str, Any]:
    """Compare the answers of one history."""
    advisor = Advisor(path, threads=1)
    points = np.load(path.with_suffix(".queries.npy"))[:n]
    truths = [regrets_near(advisor, point) for point in points]
    usable = [i for i, truth in enumerate(truths) if len(truth)]
    found, report = {}, {"datasets": len(advisor.embedded.names), "questions": len(usable)}
    for count in COUNTS:
        location.NEAREST = count
        found[count], milliseconds = answers(advisor, points)
        regret = np.array([truths[i][:, found[count][i]].min(axis=1).mean() for i in usable])
        if count == COUNTS[0]:
            whole = regret
        step = regret - whole
        report[f"{count} nearest"] = {
            "ms": round(milliseconds, 1),
            "regret": round(float(regret.mean()), 5),
            "more than of all": [round(float(step.mean()), 5), round(float(step.std() / np.sqrt(len(step))), 5)],
            "same first": round(
                float(np.mean([a[0] == b[0] for a, b in zip(found[COUNTS[0]], found[count], strict=True)])), 3
            ),
        }
    report |= portfolios(advisor)
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("histories", type=Path, nargs="+")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    write_report([compare(path, options.questions) for path in options.histories], options.out)
