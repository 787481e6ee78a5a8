"""Where a run is heading: forecasts of final errors at a quarter of a run, and runs that are stopped by them, on datasets left out.

    OMP_NUM_THREADS=1 python scripts/bench/curve_forecast.py [--history FILE] [--model FILE] [--seed 0] [--out FILE.json]

The history's recorded curves are replayed, one group of datasets left out at a time. Forecasts: beside ours the last value, and the
last value less what runs of that configuration lose on the mean dataset. Stopping: 24 trials one after another, in an order drawn at random;
median, successive halving and Hyperband are Optuna's; screening runs everything to a quarter, and the best of it to the end, at the compute
that ours took. `shuffled` gives each dataset the features of another one.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from warmstart.bo.transfer.curve_forecast import SHARES, TrainingRun, fit_curves
from warmstart.history_store.history import History
from warmstart.locations import history_path, model_path
from warmstart.metafeat.model_file import read_header
from warmstart.suggestions.embeddings import load_embedded_history
from warmstart.suggestions.expectations import views
from warmstart.suggestions.run_forecasts import read_curves

TOLD = (0, 3, 8)
TRIALS = 24
THRESHOLDS = (0.005, 0.02, 0.05)
MISSING = 0.45
"""Share of the curves that a partly measured history lacks."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--history")
    parser.add_argument("--model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--orders", type=int, default=2, help="random orders a dataset")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    data = read(options)
    report = {
        "history": history_path(options.history).name,
        "model": read_header(model_path(options.model)).hash,
        "forecast": forecasts(data, np.random.default_rng(options.seed)),
        "stopping": stopping(data, options.orders, options.seed),
    }
    print(json.dumps(report, indent=1))
    if options.out:
        options.out.write_text(json.dumps(report, indent=1))


def read(options):
    """Read curves `m x c x s`, groups, features and configurations of the whole datasets whose features are known."""
    embedded = load_embedded_history(history_path(options.history), model_path(options.model))
    place = {name: row for row, name in enumerate(embedded.references.names)}
    rows = [row for row, info in enumerate(embedded.about) if info.parent is None and embedded.names[row] in place]
    names = [embedded.names[row] for row in rows]
    with History.open(embedded.path) as history:
        curves, units = read_curves(history, names), np.asarray(history.configs_unit)
    kept = ~np.isnan(curves).any(axis=(1, 2))
    features = embedded.references.features[[place[name] for name in names]]
    groups = np.array([embedded.groups[row] for row in rows])
    return curves[kept], groups[kept], features[kept], units


def fit(data, row, *, features=None):
    """Fit the forecast for a dataset whose group is left out."""
    curves, groups, own, units = data
    wide, narrow = views(own if features is None else features)
    rest = np.flatnonzero(groups != groups[row])
    asked = (wide[row], narrow[row])
    return fit_curves((wide[rest], narrow[rest]), curves[rest], list(groups[rest]), units, query=asked)


def forecasts(data, rng):
    """Measure forecasts from the first report on, of shared configurations and of one that the fit never saw."""
    curves, groups, _, units = data
    final = curves[:, :, -1]
    falls = np.array([(final[groups != group] - curves[groups != group][:, :, 0]).mean(axis=0) for group in groups])
    plain = np.clip(curves[:, :, 0] + falls, 0, 1)
    found = {"last_value": rms(curves[:, :, 0] - final), "unweighted": rms(plain - final)}
    shared = {told: [] for told in TOLD}
    new, holed = [], []
    missing = np.random.default_rng(0).random(curves.shape[:2]) < MISSING
    partly = (np.where(missing[:, :, None], np.nan, curves), *data[1:])
    for row in range(len(curves)):
        forecaster = fit(data, row)
        for column in range(len(units)):
            run = TrainingRun(units[column], SHARES[:1], (curves[row, column, 0],))
            for told in TOLD:
                others = rng.choice(np.delete(np.arange(len(units)), column), told, replace=False)
                runs = [TrainingRun(units[o], SHARES, tuple(curves[row, o])) for o in others]
                shared[told].append(outcome(forecaster.forecast(run, runs), final[row, column]))
        forecaster = fit(partly, row)
        for column in range(len(units)):
            run = TrainingRun(units[column], SHARES[:1], (curves[row, column, 0],))
            holed.append(outcome(forecaster.forecast(run), final[row, column]))
        without = rng.permutation(len(units))[:8]
        some = np.setdiff1d(np.arange(len(units)), without)
        forecaster = fit((curves[:, some], groups, data[2], units[some]), row)
        for column in without:
            run = TrainingRun(units[column], SHARES[:1], (curves[row, column, 0],))
            new.append(outcome(forecaster.forecast(run), final[row, column]))
    found |= {f"ours_told_{told}": summary(rows) for told, rows in shared.items()}
    return found | {"ours_new_configuration": summary(new), "ours_partly_measured": summary(holed)}


def outcome(forecast, truth):
    error = forecast.error
    return (error.value - truth, error.low <= truth <= error.high, error.high - error.low)


def summary(rows):
    wrong, covered, width = map(np.array, zip(*rows, strict=True))
    return {"rmse": rms(wrong), "coverage": round(float(covered.mean()), 3), "width": round(float(width.mean()), 4)}


def rms(values):
    return round(float(np.sqrt(np.mean(np.square(values)))), 4)


def stopping(data, orders, seed):
    """Replay studies under every rule: share of the compute, and the regret for stopping."""
    curves, groups, features, units = data
    rng = np.random.default_rng(seed)
    strangers = features[rng.permutation(len(features))]
    results = {}
    for row in range(len(curves)):
        ours, shuffled = fit(data, row), fit(data, row, features=strangers)
        for _ in range(orders):
            order = rng.choice(len(units), TRIALS, replace=False)
            trials = curves[row, order]
            for threshold in THRESHOLDS:
                add(results, f"history_{threshold}", row, trials, by_history(ours, units[order], trials, threshold))
            add(results, "history_0.02_shuffled", row, trials, by_history(shuffled, units[order], trials, 0.02))
            spent = share(by_history(ours, units[order], trials, 0.02))
            add(results, "screening", row, trials, by_screening(trials, spent))
            for name, pruner in peers().items():
                add(results, name, row, trials, by_optuna(pruner, trials))
    return {name: table(rows, groups) for name, rows in results.items()}


def add(results, name, row, trials, reached):
    """Note the compute and the regret of one replay; `reached`: at which report each trial stopped."""
    ended = [trial[-1] for trial, stop in zip(trials, reached, strict=True) if stop == len(SHARES)]
    regret = min(ended, default=1.0) - trials[:, -1].min()
    results.setdefault(name, []).append((row, share(reached), regret))


def share(reached):
    return float(np.mean([SHARES[stop - 1] for stop in reached]))


def by_history(forecaster, units, trials, threshold):
    """Return after how many reports each trial stopped."""
    known, reached = [], []
    for unit, trial in zip(units, trials, strict=True):
        stop = len(SHARES)
        best = min((run.final for run in known), default=None)
        for n in range(1, len(SHARES)):
            run = TrainingRun(unit, SHARES[:n], tuple(trial[:n]))
            if best is not None and forecaster.forecast(run, known).chance_below(best) < threshold:
                stop = n
                break
        else:
            known.append(TrainingRun(unit, SHARES, tuple(trial)))
        reached.append(stop)
    return reached


def by_screening(trials, spent):
    """Run all to a quarter, then the best of them to the end while compute lasts."""
    n = max(1, round(len(trials) * (spent - SHARES[0]) / (1 - SHARES[0])))
    best = set(np.argsort(trials[:, 0], kind="stable")[:n].tolist())
    return [len(SHARES) if i in best else 1 for i in range(len(trials))]


def peers():
    """Return Optuna's pruners."""
    from optuna import pruners

    return {
        "median": pruners.MedianPruner(),
        "asha": pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2),
        "hyperband": pruners.HyperbandPruner(min_resource=1, max_resource=4, reduction_factor=2),
    }


def by_optuna(pruner, trials):
    """Replay trials in a study of Optuna's."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(pruner=pruner, sampler=optuna.samplers.RandomSampler(seed=0))
    reached = []
    for errors in trials:
        trial, stop = study.ask(), len(SHARES)
        for n, error in enumerate(errors, 1):
            trial.report(float(error), n)
            if n < len(SHARES) and trial.should_prune():
                stop = n
                break
        study.tell(trial, *((float(errors[-1]),) if stop == len(SHARES) else (None, optuna.trial.TrialState.PRUNED)))
        reached.append(stop)
    return reached


def table(rows, groups):
    """Average by group; the upper 95 % bound of the mean regret is over groups."""
    names = np.array([groups[row] for row, _, _ in rows])
    spent, regret = (np.array([row[n] for row in rows]) for n in (1, 2))
    means = np.array([[spent[names == name].mean(), regret[names == name].mean()] for name in np.unique(names)])
    error = means[:, 1].std(ddof=1) / np.sqrt(len(means))
    compute, mean = means.mean(axis=0)
    return {"compute": round(compute, 3), "regret": round(mean, 4), "upper": round(mean + 1.645 * error, 4)}


if __name__ == "__main__":
    main()
