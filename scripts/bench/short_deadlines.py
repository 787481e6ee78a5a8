"""Deadlines of about one run: what a plan comes to that may rest on one run, and one whose runs give way.

    OMP_NUM_THREADS=1 python scripts/bench/short_deadlines.py [--history FILE] [--model FILE] [--draws 3] [--out FILE.json]

The recorded errors and durations of the history are replayed, one group of datasets left out at a time. A minute stands for the median duration
of a dataset's runs; the machine is up to four times as slow or as fast, and its short run has 15 % of noise. In `noisy`, each run besides takes up to
1.8 times as long or as short, as on a machine that others use. `before` takes the plan as it pays, and a run that is under way at the deadline
is lost. `now` begins with a run that surely ends, and ends a run at a quarter where, by its pace then, it would not end in time and another would.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from time_plan import NOISE, SHORT, read

from warmstart.bo.transfer.strategies.query import equal_weights, number_groups
from warmstart.timing.forecast import TimedRun, fit_durations
from warmstart.timing.schedule import SURE, plan_runs

DEADLINES = (0.8, 1.0, 1.5, 2.0, 3.0, 5.0)
BUSY = 1.8
LIKELY, SEEN = 0.5, 0.25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--history")
    parser.add_argument("--model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=3, help="machines a dataset and deadline")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    data = read(options)
    groups = np.array(data["groups"])
    found: dict[str, dict[str, dict[str, list[tuple[bool, float]]]]] = {}
    for row in range(len(groups)):
        rest = groups != groups[row]
        kept = groups[rest].tolist()
        fit = {"sizes": data["sizes"][rest], "query": data["sizes"][row]}
        forecaster = fit_durations(data["seconds"][rest], kept, data["units"], **fit)
        weights = equal_weights(len(kept), number_groups(kept))
        for deadline in DEADLINES:
            for noise in ("quiet", "noisy"):
                for draw in range(options.draws):
                    for arm in ("before", "now"):
                        rng = np.random.default_rng([options.seed, row, int(10 * deadline), draw])
                        regret = replay(data, row, rest, forecaster, weights, deadline, noise, arm, rng)
                        found.setdefault(noise, {}).setdefault(str(deadline), {}).setdefault(arm, []).append(regret)
    report = {noise: {deadline: table(arms) for deadline, arms in each.items()} for noise, each in found.items()}
    print(json.dumps(report, indent=1))
    if options.out:
        options.out.write_text(json.dumps(report, indent=1))


def replay(data, row, rest, forecaster, weights, deadline, noise, arm, rng):
    """Return whether there is no result at a deadline, and the regret; without a result, that of the worst configuration."""
    errors, seconds, units = data["errors"][row], data["seconds"][row], data["units"]
    slower = float(np.exp(rng.uniform(-np.log(4), np.log(4))))
    busy = np.exp(rng.uniform(-np.log(BUSY), np.log(BUSY), len(units))) if noise == "noisy" else np.ones(len(units))
    took = slower * seconds * busy
    middle = int(np.argsort([each.value for each in forecaster.forecast(units)], kind="stable")[len(units) // 10])
    told = [TimedRun(units[middle], slower * seconds[middle] * float(np.exp(NOISE * rng.standard_normal())), NOISE)]
    left = deadline * float(np.median(seconds)) * slower - SHORT * slower * float(seconds[middle])
    expected = np.array([each.value for each in forecaster.forecast(units, told)])
    chances = forecaster.chance_within(units, left, told) if arm == "now" else None
    table_ = data["errors"][rest]
    runs = plan_runs(table_, expected, limit=left, weights=weights, chances=chances)
    pays = plan_runs(table_, expected, limit=np.inf, weights=weights, first=[run.row for run in runs])
    queue, done = list(dict.fromkeys(run.row for run in [*runs, *pays])), []
    while True:
        chances = forecaster.chance_within(units, left, told)
        least = LIKELY
        if arm == "now" and not done and queue:
            least = min(SURE, max(LIKELY, float(chances[queue].max())))
        chosen = next((each for each in queue if chances[each] >= least), None)
        if chosen is None:
            break
        queue.remove(chosen)
        if took[chosen] > left:
            slow = TimedRun(units[chosen], float(took[chosen]), NOISE)
            seen = SEEN * float(took[chosen])
            other = forecaster.chance_within(units, left - seen, [*told, slow]) if left > seen else np.zeros(1)
            if arm == "before" or not (other >= LIKELY).any():
                break
            left, told = left - seen, [*told, slow]
            continue
        left -= float(took[chosen])
        done.append(chosen)
        told.append(TimedRun(units[chosen], float(took[chosen])))
    return not done, float(errors[done].min(initial=errors.max()) - errors.min())


def table(arms):
    """Return by arm the share of calls without a result, and the mean regret."""
    means = {arm: np.mean(rows, axis=0) for arm, rows in arms.items()}
    return {arm: {"none": round(none, 3), "regret": round(regret, 4)} for arm, (none, regret) in means.items()}


if __name__ == "__main__":
    main()
