"""How well the seconds of a run are told, on datasets whose group is left out, after one run on the dataset or none.

    OMP_NUM_THREADS=1 python scripts/bench/durations.py [--history FILE] [--seed 0] [--out FILE.json]

A ratio is the larger of predicted ÷ real and real ÷ predicted. `slower` multiplies the durations of the dataset left out by a factor between
1/4 and 4, as another machine would. `new_configuration`: eight configurations are hidden from the fit. Peers: the mean of the history, and the
configuration's own median in it. Without a history, runs alone tell.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from warmstart.history_store.history import History
from warmstart.locations import history_path
from warmstart.suggestions.embedded_history import HistoryRuns
from warmstart.timing.durations import mean_durations, sizes_of
from warmstart.timing.forecast import TimedRun, fit_durations, without_history

TOLD = (0, 1, 3, 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--history")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    with History.open(history_path(options.history)) as history:
        infos = [info for name in history.names if (info := history.dataset(name)).parent is None]
        seconds, origin = mean_durations(HistoryRuns.of(history), [info.name for info in infos], history.configs)
        units = np.nan_to_num(history.configs_unit, nan=0.5)
    data = seconds, np.array([info.group for info in infos]), units, sizes_of(infos)
    rows = [each for group in sorted(set(data[1])) for each in left_out(data, group, rng)]
    found = {name: summary([row for row in rows if row[0] == name]) for name in dict.fromkeys(row[0] for row in rows)}
    report = {
        "history": history_path(options.history).name,
        "origin": origin,
        "datasets": len(infos),
        "groups": len(set(data[1])),
        "configurations": len(units),
        "methods": found,
    }
    print(json.dumps(report, indent=1))
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")


def left_out(data, group, rng):
    """Forecast every run on the datasets of a group; return (method, ratio, inside the interval, width of it as a ratio)."""
    seconds, groups, units, sizes = data
    rest, found = groups != group, []
    for row in np.flatnonzero(groups == group):
        fit = {"sizes": sizes[rest], "query": sizes[row]}
        fitted = fit_durations(seconds[rest], list(groups[rest]), units, **fit)
        hidden = rng.permutation(len(units))[:8]
        seen = np.setdiff1d(np.arange(len(units)), hidden)
        partly = fit_durations(seconds[rest][:, seen], list(groups[rest]), units[seen], **fit)
        known = np.flatnonzero(~np.isnan(seconds[row]))
        machine = float(np.exp(rng.uniform(-np.log(4), np.log(4))))
        for told in TOLD:
            runs = rng.permutation(known)[:told]
            asked = np.setdiff1d(known, runs)
            found += one(f"told_{told}", fitted, units, seconds[row], runs, asked)
            found += one(f"slower_told_{told}", fitted, units, machine * seconds[row], runs, asked)
            new = np.intersect1d(asked, hidden)
            found += one(f"new_configuration_told_{told}", partly, units, seconds[row], np.setdiff1d(runs, hidden), new)
            if told:
                found += one(
                    f"no_history_told_{told}", without_history(units.shape[1]), units, seconds[row], runs, asked
                )
        logs = np.log(seconds[rest])
        blind = np.exp(np.nanmedian(logs)) / seconds[row, known]
        own = np.exp(np.nanmedian(logs, axis=0))[known] / seconds[row, known]
        found += [("history's median", float(max(r, 1 / r)), None, None) for r in blind]
        found += [("the configuration's median", float(max(r, 1 / r)), None, None) for r in own]
    return found


def one(name, forecaster, units, truth, runs, asked):
    if not len(asked):
        return []
    told = [TimedRun(units[run], truth[run]) for run in runs]
    forecasts = forecaster.forecast(units[asked], told)
    return [
        (
            name,
            max(each.value / real, real / each.value),
            each.low <= real <= each.high,
            each.high / each.low,
        )
        for each, real in zip(forecasts, truth[asked], strict=True)
    ]


def summary(rows):
    ratios = np.array([row[1] for row in rows])
    found = {"runs": len(rows)} | {
        f"q{int(100 * q)}": round(float(np.quantile(ratios, q)), 3) for q in (0.5, 0.8, 0.95)
    }
    if rows[0][2] is not None:
        found |= {"covered": round(float(np.mean([row[2] for row in rows])), 3)}
        found |= {"interval_ratio": round(float(np.median([row[3] for row in rows])), 3)}
    return found


if __name__ == "__main__":
    main()
