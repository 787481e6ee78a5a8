"""Report of an evaluation, in JSON types: means over datasets, intervals over groups, paired differences."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from warmstart.bo.transfer.regret import Interval, clustered_interval
from warmstart.history_store.errors import UsageError
from warmstart.training.evaluation.metrics import RECALL_OF, neighbour_recalls, rank_correlations
from warmstart.training.evaluation.protocol import held_together
from warmstart.training.evaluation.replay import Outcome

Matrix = NDArray[np.float64]
TIMES = (1, 3, 5, 10, 20)
EVALUATIONS = "evaluations_to_0.05"
HURT_AT = (3, 10)
"""Numbers of evaluations after which ours may be worse than the portfolio."""


def make_report(outcome: Outcome, *, reference: str, figures: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Summarise an outcome.

    Means are over the datasets asked. Siblings are no independent evidence: 95 % intervals take each group (under
    `in-source` each dataset) for one.

    Args:
        outcome: of `warmstart.training.evaluation.replay.evaluate`.
        reference: the method that differences are taken of, where it was played.
        figures: further curves to put in.

    Raises:
        UsageError: a method that was not played.
    """
    check_reference(reference, outcome.methods)
    table, rows = outcome.table, [one.row for one in outcome.played]
    units = held_together(outcome.protocol, table.datasets, table.groups)
    asked = [units[row] for row in rows]
    times = [t for t in TIMES if t <= outcome.horizon]
    curves = {name: np.array([one.curves[name].mean(axis=0) for one in outcome.played]) for name in outcome.methods}
    evaluations = {name: np.array([one.evaluations[name] for one in outcome.played]) for name in outcome.methods}
    report: dict[str, Any] = {
        "schema_version": 1,
        "protocol": outcome.protocol,
        "table": table.name,
        "n_datasets": len(rows),
        "n_groups": len({table.groups[row] for row in rows}),
        "n_configs": table.errors.shape[1],
        "times": times,
        "horizon": outcome.horizon,
        "repeats": outcome.repeats,
        "seed": outcome.seed,
        "ours": reference,
        "datasets": [table.datasets[row] for row in rows],
        "groups": [table.groups[row] for row in rows],
        "rivals": {
            name: {
                "about": method.about,
                "kind": method.kind,
                **_summary(curves[name], evaluations[name], times, asked),
            }
            for name, method in outcome.methods.items()
        },
        "differences": [
            _difference(reference, name, measure, values[reference] - values[name], asked)
            for measure, values in {
                **{f"regret@{t}": {name: curve[:, t - 1] for name, curve in curves.items()} for t in times},
                EVALUATIONS: evaluations,
            }.items()
            for name in outcome.methods
            if name != reference
        ],
        "promises": _promises(outcome, curves, asked),
        "distances": _distances(outcome, rows, asked),
        "hurt": _hurt(outcome, curves, reference),
    }
    return report | ({} if figures is None else {"figures": dict(figures)})


def _summary(curves: Matrix, evaluations: Matrix, times: Sequence[int], groups: Sequence[str]) -> dict[str, Any]:
    """Summarise what one method's choices were worth: regret after some evaluations, evaluations to the goal."""
    return {
        "regret": {str(t): interval(curves[:, t - 1], groups) for t in times},
        "curve": _curve(curves, groups),
        EVALUATIONS: interval(evaluations, groups) | {"median": float(np.median(evaluations))},
        "per_dataset": curves.tolist(),
        f"{EVALUATIONS}_per_dataset": evaluations.tolist(),
    }


def _promises(outcome: Outcome, curves: Mapping[str, Matrix], groups: Sequence[str]) -> dict[str, Any]:
    """Compare what was promised with what was seen, all in all and by thirds of the promise.

    The calibration saw no query. Datasets that had too little to calibrate with have no promise.
    """
    found: dict[str, Any] = {}
    for name in dict.fromkeys(name for one in outcome.played for name in one.promised):
        rows = [row for row, one in enumerate(outcome.played) if name in one.promised]
        promised = np.array([outcome.played[row].promised[name] for row in rows])
        found[name] = {}
        for t in (t for t in TIMES if t <= outcome.horizon):
            wanted, seen = promised[:, t - 1], curves[name][rows, t - 1]
            thirds = np.array_split(np.argsort(wanted, kind="stable"), 3)
            found[name][str(t)] = {
                "promised": float(wanted.mean()),
                "seen": float(seen.mean()),
                "seen_less_promised": interval(seen - wanted, [groups[row] for row in rows]),
                "by_third": [[float(wanted[part].mean()), float(seen[part].mean())] for part in thirds if part.size],
            }
    return found


def check_reference(reference: str, methods: Collection[str]) -> None:
    """Check that a method is among those that were run.

    Raises:
        UsageError: it is not.
    """
    if reference not in methods:
        msg = f"expected a method that is played ({', '.join(methods)}), got {reference!r}. Name one of those."
        raise UsageError(msg, param="reference")


def make_figures(outcome: Outcome) -> dict[str, Any]:
    """Return the curves of the paper's figures: by acquisition, start and dataset, best error so far with its 95 % interval over repeats.

    Args:
        outcome: of methods named "ACQUISITION/START".
    """
    figures: dict[str, Any] = {}
    for name in outcome.methods:
        acquisition, _, start = name.partition("/")
        by_dataset = figures.setdefault(acquisition, {}).setdefault(start, {})
        for one in outcome.played:
            errors = outcome.table.errors[one.row]
            low, width = np.nanmin(errors), np.ptp(errors[~np.isnan(errors)])
            by_dataset[outcome.table.datasets[one.row]] = _curve(low + width * one.curves[name])
    return {"paper": figures}


def summary_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one flat row a method, for people: mean regret at each time, evaluations, and the reference's regret less the method's, with a star beyond two standard errors."""
    rows = []
    for name, method in report["rivals"].items():
        row: dict[str, Any] = {"method": name, "kind": method["kind"]}
        row |= {f"regret@{t}": found["mean"] for t, found in method["regret"].items()}
        row[EVALUATIONS] = method[EVALUATIONS]["mean"]
        for one in report["differences"]:
            if one["second"] == name and one["measure"] in ("regret@3", "regret@10"):
                row[one["measure"].replace("regret", "difference")] = _signed(one)
        rows.append(row)
    return rows


def full_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one flat row a method with every mean and interval, for CSV."""
    rows = []
    for name, method in report["rivals"].items():
        row: dict[str, Any] = {
            "table": report["table"],
            "protocol": report["protocol"],
            "rival": name,
            "kind": method["kind"],
        }
        measures = {**{f"regret@{t}": found for t, found in method["regret"].items()}, EVALUATIONS: method[EVALUATIONS]}
        for measure, found in measures.items():
            row |= {f"{measure} {key}": found[key] for key in ("mean", "low", "high")}
            pair = [d for d in report["differences"] if (d["second"], d["measure"]) == (name, measure)]
            row |= {
                f"{measure} ours less {key}": one[key]
                for one in pair
                for key in ("mean", "low", "high", "two_standard_errors")
            }
        rows.append(row)
    return rows


def distance_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one flat row a metric: how well it follows the true distances."""
    keys = ("spearman", f"recall@{RECALL_OF}", "spearman_normalised", f"recall@{RECALL_OF}_normalised")
    return [
        {"distance": name, **{key: found[key]["mean"] for key in keys}} for name, found in report["distances"].items()
    ]


def interval(values: ArrayLike, groups: Sequence[str]) -> dict[str, float | None]:
    """Return a mean with its 95 % interval over groups, None for what is not defined."""
    return _plain(clustered_interval(values, groups=groups))


def _plain(found: Interval) -> dict[str, float | None]:
    return {key: _number(getattr(found, key)) for key in ("mean", "low", "high")}


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _curve(curves: Matrix, groups: Sequence[str] | None = None) -> dict[str, list[float]]:
    """Return the mean of `n x horizon` curves and its interval; of a single one, the curve itself."""
    labels = groups or [str(row) for row in range(len(curves))]
    found = [clustered_interval(column, groups=labels) for column in curves.T]
    return {
        "mean": [one.mean for one in found],
        "low": [one.low if np.isfinite(one.low) else one.mean for one in found],
        "high": [one.high if np.isfinite(one.high) else one.mean for one in found],
    }


def _difference(first: str, second: str, measure: str, values: Matrix, groups: Sequence[str]) -> dict[str, Any]:
    found = clustered_interval(values, groups=groups)
    beyond = bool(np.isfinite(found.standard_error) and abs(found.mean) > 2 * found.standard_error)
    return {"first": first, "second": second, "measure": measure, **_plain(found), "two_standard_errors": beyond}


def _distances(outcome: Outcome, rows: Sequence[int], groups: Sequence[str]) -> dict[str, Any]:
    """Compare every metric with the true distances, raw and of normalised errors."""
    found: dict[str, Any] = {}
    true = {
        "": outcome.table.true_distances(normalised=False),
        "_normalised": outcome.table.true_distances(normalised=True),
    }
    for name, matrix in outcome.distances.items():
        found[name] = {}
        for suffix, wanted in true.items():
            correlations, recalls = rank_correlations(matrix, wanted)[rows], neighbour_recalls(matrix, wanted)[rows]
            found[name] |= {
                f"spearman{suffix}": interval(correlations, groups),
                f"recall@{RECALL_OF}{suffix}": interval(recalls, groups),
                f"spearman{suffix}_per_dataset": [_number(value) for value in correlations],
            }
    return found


def _hurt(outcome: Outcome, curves: Mapping[str, Matrix], reference: str) -> list[dict[str, Any]]:
    """List the datasets on which ours leaves more than the portfolio, the worst first at each time."""
    if "portfolio" not in curves or reference == "portfolio":
        return []
    found = []
    for time in (t for t in HURT_AT if t <= outcome.horizon):
        a, b = curves[reference][:, time - 1], curves["portfolio"][:, time - 1]
        for place in np.argsort(b - a, kind="stable").tolist():
            if a[place] > b[place] + 1e-9:
                name = outcome.table.datasets[outcome.played[place].row]
                found.append(
                    {
                        "dataset": name,
                        "ours": float(a[place]),
                        "best_rival": "portfolio",
                        "regret": float(b[place]),
                        "time": time,
                    }
                )
    return found


def _signed(difference: Mapping[str, Any]) -> str:
    """Write a difference, with a star where it is beyond two standard errors."""
    return f"{difference['mean']:+.3f}{'*' if difference['two_standard_errors'] else ''}"
