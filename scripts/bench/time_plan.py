"""What is found in a given time: plans by seconds against portfolio, cold search, random and ASHA, on datasets whose group is left out.

    OMP_NUM_THREADS=1 nice -n 15 python scripts/bench/time_plan.py --work FOLDER [--history FILE] [--seed 0] [--out FILE.json]

Recorded errors, durations and curves are replayed. A minute stands for the median duration of the dataset's runs, so that deadlines are 5 to 60
median durations: a job whose usual run takes a minute. Regret: best error so far less the least of the table; before any run ends, the error
of the worst. A run that has not ended at the deadline counts nothing; ASHA (reduction 2, rungs at a quarter and a half) counts every report.
`plan` is what `tune --time` does: a short run, charged 0.15 of a run, with noise, on a machine up to four times as slow or as fast; the plan;
then expected improvement per predicted second among what fits. `cold` is the search from two random configurations. Differences are paired and
averaged within groups; the upper bound is one-sided, 95 %, over groups. It goes on where it was ended: a file a dataset lies in FOLDER.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from warmstart.bo.models import Related, SurrogateModels, TrialData
from warmstart.bo.observation import Observation
from warmstart.bo.surrogates import find_surrogate
from warmstart.bo.transfer.curve_forecast import SHARES
from warmstart.bo.transfer.strategies.joint import nearness_weights
from warmstart.bo.transfer.strategies.portfolio import portfolio_rows
from warmstart.bo.transfer.strategies.query import UNCALIBRATED, equal_weights, number_groups
from warmstart.history_store.history import History
from warmstart.locations import history_path, model_path
from warmstart.metafeat.model_file import read_header
from warmstart.suggestions.embedded_history import HistoryRuns
from warmstart.suggestions.embeddings import load_embedded_history
from warmstart.suggestions.run_forecasts import read_curves
from warmstart.timing.durations import mean_durations, sizes_of
from warmstart.timing.forecast import TimedRun, fit_durations
from warmstart.timing.schedule import plan_runs

DEADLINES = (5.0, 10.0, 20.0, 30.0, 60.0)
SHORT, NOISE = 0.15, 0.15
ORDERS = 20
SEARCHED = 30.0
"""Deadline up to which searches choose by models; after it, at random: nearly all of the table is known by then."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--history")
    parser.add_argument("--model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--surrogate", default="gp-map")
    parser.add_argument("--summary", action="store_true", help="replay nothing: summarise what FOLDER has")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    data = read(options)
    done = []
    for row, name in enumerate(data["names"]):
        place = options.work / f"{name}-{options.seed}-{options.surrogate}.json"
        if not place.is_file() and options.summary:
            continue
        if not place.is_file():
            place.write_text(json.dumps(replay(data, row, options)))
        done.append({"group": data["groups"][row], "regrets": json.loads(place.read_text())})
        print(name, json.dumps(done[-1]["regrets"]), flush=True)
    report = {
        "history": history_path(options.history).name,
        "model": read_header(model_path(options.model)).hash,
        "surrogate": options.surrogate,
        "datasets": len(done),
        "groups": len({each["group"] for each in done}),
        "deadlines": DEADLINES,
        "methods": summary(done),
    }
    print(json.dumps(report, indent=1))
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


def read(options):
    """Read the whole datasets of which every cell, its duration and its curve are known."""
    embedded = load_embedded_history(history_path(options.history), model_path(options.model))
    rows = [row for row, info in enumerate(embedded.about) if info.parent is None]
    names = [embedded.names[row] for row in rows]
    with History.open(embedded.path) as history:
        seconds, _ = mean_durations(HistoryRuns.of(history), names, history.configs)
        curves, units = read_curves(history, names), np.nan_to_num(history.configs_unit, nan=0.5)
    return {
        "names": names,
        "groups": [embedded.groups[row] for row in rows],
        "errors": embedded.errors(np.array(rows)),
        "seconds": seconds,
        "curves": curves,
        "units": units,
        "vectors": embedded.vectors[rows].astype(float),
        "sizes": sizes_of([embedded.about[row] for row in rows]),
        "reach": UNCALIBRATED if embedded.calibration is None else embedded.calibration.reach,
    }


def replay(data, row, options):
    """Return the regrets of every method on one dataset, a list over the deadlines each."""
    rest = np.array([group != data["groups"][row] for group in data["groups"]])
    errors, unit = data["errors"][row], float(np.median(data["seconds"][row]))
    minutes, seed = data["seconds"][row] / unit, [options.seed, row]
    groups = number_groups([g for g, kept in zip(data["groups"], rest, strict=True) if kept])
    equal = equal_weights(int(rest.sum()), groups)
    apart = np.sqrt(np.square(data["vectors"][rest] - data["vectors"][row]).sum(axis=1))
    near = nearness_weights(apart, data["reach"], groups=groups)
    order = portfolio_rows(data["errors"][rest], len(errors), weights=equal)
    joint = portfolio_rows(data["errors"][rest], len(errors), weights=near)
    rng = np.random.default_rng(seed)
    random = [regrets(rng.permutation(len(errors)), minutes, errors) for _ in range(ORDERS)]
    asha = [by_asha(rng.permutation(len(errors)), minutes, data["curves"][row]) for _ in range(ORDERS)]
    table = data["errors"][rest], near
    return {
        "plan": [planned(data, row, rest, table, each, options, unit) for each in DEADLINES],
        "portfolio": regrets(order, minutes, errors),
        "joint": regrets(joint, minutes, errors),
        "random": np.mean(random, axis=0).tolist(),
        "asha": np.mean(asha, axis=0).tolist(),
        "cold": regrets(search(data, row, minutes, options, seed), minutes, errors),
    }


def regrets(order, minutes, errors):
    """Return the regret at each deadline of running configurations in an order."""
    ends = np.cumsum(minutes[list(order)])
    reached = [errors[list(order)][ends <= deadline].min(initial=errors.max()) for deadline in DEADLINES]
    return (np.array(reached) - errors.min()).tolist()


def planned(data, row, rest, table, deadline, options, unit):
    """Return the regret at one deadline of a short run, a plan, and a search per second among what fits."""
    errors, seconds, units = data["errors"][row], data["seconds"][row], data["units"]
    rng = np.random.default_rng([options.seed, row, int(deadline)])
    fit = {"sizes": data["sizes"][rest], "query": data["sizes"][row]}
    groups = [g for g, kept in zip(data["groups"], rest, strict=True) if kept]
    forecaster = fit_durations(data["seconds"][rest], groups, units, **fit)
    before = [each.value for each in forecaster.forecast(units)]
    middle = int(np.argsort(before, kind="stable")[len(units) // 2])
    slower = float(np.exp(rng.uniform(-np.log(4), np.log(4))))  # another machine
    told = [TimedRun(units[middle], slower * seconds[middle] * float(np.exp(NOISE * rng.standard_normal())), NOISE)]
    left, limit = (deadline - SHORT) * unit * slower, deadline * unit * slower
    expected = np.array([each.value for each in forecaster.forecast(units, told)])
    queue = [run.row for run in plan_runs(table[0], expected, limit=left, weights=table[1])]
    models, rows = Search(data, row, options, [options.seed, row]), []
    while True:
        expected = np.array([each.value for each in forecaster.forecast(units, told)])
        fits = expected <= left
        fits[rows] = False
        queue = [each for each in queue if fits[each]]
        if not fits.any():
            break
        if queue:
            chosen = queue.pop(0)
        elif deadline - left / (unit * slower) > SEARCHED:
            chosen = int(rng.choice(np.flatnonzero(fits)))
        else:
            chosen = models.next(rows, np.flatnonzero(fits), np.log(expected))
        took = slower * float(seconds[chosen])
        if took > left:  # ended at the deadline
            break
        left -= took
        rows.append(chosen)
        told.append(TimedRun(units[chosen], took))
    assert left >= 0
    assert limit >= 0
    return float(errors[rows].min(initial=errors.max()) - errors.min())


class Search:
    """Our search over the table of one dataset."""

    def __init__(self, data, row, options, seed):
        self.errors, self.units = data["errors"][row], data["units"]
        self.rng = np.random.default_rng(seed)
        self.info = find_surrogate(options.surrogate)
        self.models = SurrogateModels(
            surrogate=self.info,
            acquisition="ei",
            incumbent="posterior-mean",
            conditional=(),
            related=Related(),
            seed=int(self.rng.integers(2**32)),
        )

    def next(self, rows, free, costs=None):
        """Choose the next of some rows that are free; costs are logarithms of seconds, by row."""
        told = [Observation.of({}, float(self.errors[row])) for row in rows]
        data = TrialData(told, self.units[rows], self.units[:0], len(rows))
        made = self.models.acquisition_function(data, rng=self.rng) if len(rows) > 1 else None
        if made is None:
            return int(self.rng.choice(free))
        worth = made[0].value(self.units[free]) - (0.0 if costs is None else costs[free])
        return int(free[worth.argmax()])


def search(data, row, minutes, options, seed):
    """Return the order in which a cold search runs configurations."""
    models = Search(data, row, options, seed)
    rows = models.rng.choice(len(minutes), 2, replace=False).tolist()
    while len(rows) < len(minutes):
        free = np.setdiff1d(np.arange(len(minutes)), rows)
        is_late = minutes[rows].sum() > SEARCHED
        rows.append(int(models.rng.choice(free)) if is_late else models.next(rows, free))
    return rows


def by_asha(order, minutes, curves):
    """Return the regret at each deadline of asynchronous successive halving on one worker."""
    rungs, best, clock, queue = (1, 2, len(SHARES)), [], 0.0, list(order)
    reached = {rung: {} for rung in rungs}  # rung: configuration -> error
    while True:
        job = None
        for low, high in zip(rungs[::-1][1:], rungs[::-1][:-1], strict=True):
            top = sorted(reached[low], key=reached[low].get)[: len(reached[low]) // 2]
            job = next(((each, low, high) for each in top if each not in reached[high]), None)
            if job:
                break
        if job is None:
            if not queue:
                break
            job = queue.pop(0), 0, rungs[0]
        chosen, low, high = job
        clock += minutes[chosen] * (SHARES[high - 1] - (SHARES[low - 1] if low else 0.0))
        reached[high][chosen] = curves[chosen, high - 1]
        best.append((clock, curves[chosen, high - 1]))
    final = curves[:, -1]
    ends, errors = np.array(best).T
    return [float(errors[ends <= d].min(initial=final.max()) - final.min()) for d in DEADLINES]


def summary(done):
    groups = np.array([each["group"] for each in done])
    found = {}
    ours = by_group(np.array([each["regrets"]["plan"] for each in done]), groups)
    for name in done[0]["regrets"]:
        values = by_group(np.array([each["regrets"][name] for each in done]), groups)
        entry = {"regret": values.mean(axis=0).round(4).tolist()}
        if name != "plan":
            apart = ours - values
            error = apart.std(axis=0, ddof=1) / np.sqrt(len(apart))
            entry["plan_less_it"] = apart.mean(axis=0).round(4).tolist()
            entry["upper_95"] = (apart.mean(axis=0) + 1.645 * error).round(4).tolist()
        found[name] = entry
    return found


def by_group(values, groups):
    return np.array([values[groups == group].mean(axis=0) for group in np.unique(groups)])


if __name__ == "__main__":
    main()
