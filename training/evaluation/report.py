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
"""Numbers of evaluations at which the reference is compared with the portfolio."""


def make_report(outcome: Outcome, *, reference: str, figures: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Summarise an outcome in JSON types.

    Means are over the evaluated datasets. Siblings are no independent evidence: 95 % intervals count each group (under
    `in-source` each dataset) once.

    Args:
        outcome: of `warmstart.training.evaluation.replay.evaluate`.
        reference: method to compare all others with.
        figures: further curves to include.

    Raises:
        UsageError: when the reference is not among the methods.
    """
    check_reference(reference, outcome.methods)
    table, rows = outcome.table, [result.row for result in outcome.results]
    units = held_together(outcome.protocol, table.datasets, table.groups)
    result_groups = [units[row] for row in rows]
    times = [t for t in TIMES if t <= outcome.horizon]
    curves = {
        name: np.array([result.curves[name].mean(axis=0) for result in outcome.results]) for name in outcome.methods
    }
    evaluations = {name: np.array([result.evaluations[name] for result in outcome.results]) for name in outcome.methods}
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
                **_summary(curves[name], evaluations[name], times, result_groups),
            }
            for name, method in outcome.methods.items()
        },
        "differences": [
            _difference(reference, name, measure, values[reference] - values[name], result_groups)
            for measure, values in {
                **{f"regret@{t}": {name: curve[:, t - 1] for name, curve in curves.items()} for t in times},
                EVALUATIONS: evaluations,
            }.items()
            for name in outcome.methods
            if name != reference
        ],
        "promises": _promises(outcome, curves, result_groups),
        "distances": _distances(outcome, rows, result_groups),
        "hurt": _hurt(outcome, curves, reference),
    }
    return report | ({} if figures is None else {"figures": dict(figures)})


def _summary(curves: Matrix, evaluations: Matrix, times: Sequence[int], groups: Sequence[str]) -> dict[str, Any]:
    """Summarise one method: regret at several times, and evaluations to the goal."""
    return {
        "regret": {str(t): interval(curves[:, t - 1], groups) for t in times},
        "curve": _curve(curves, groups),
        EVALUATIONS: interval(evaluations, groups) | {"median": float(np.median(evaluations))},
        "per_dataset": curves.tolist(),
        f"{EVALUATIONS}_per_dataset": evaluations.tolist(),
    }


def _promises(outcome: Outcome, curves: Mapping[str, Matrix], groups: Sequence[str]) -> dict[str, Any]:
    """Compare promised and observed regrets, over all datasets and by thirds of the promise.

    Calibrations use no query. Datasets with too few data for a calibration have no promise.
    """
    promises: dict[str, Any] = {}
    for name in dict.fromkeys(name for result in outcome.results for name in result.promised):
        rows = [row for row, result in enumerate(outcome.results) if name in result.promised]
        promised = np.array([outcome.results[row].promised[name] for row in rows])
        promises[name] = {}
        for t in (t for t in TIMES if t <= outcome.horizon):
            expected, observed = promised[:, t - 1], curves[name][rows, t - 1]
            thirds = np.array_split(np.argsort(expected, kind="stable"), 3)
            promises[name][str(t)] = {
                "promised": float(expected.mean()),
                "seen": float(observed.mean()),
                "seen_less_promised": interval(observed - expected, [groups[row] for row in rows]),
                "by_third": [
                    [float(expected[part].mean()), float(observed[part].mean())] for part in thirds if part.size
                ],
            }
    return promises


def check_reference(reference: str, methods: Collection[str]) -> None:
    """Check that the reference is among the methods.

    Raises:
        UsageError: when it is not.
    """
    if reference not in methods:
        msg = f"expected a method of the evaluation ({', '.join(methods)}), got {reference!r}. Name one of those."
        raise UsageError(msg, param="reference")


def make_figures(outcome: Outcome) -> dict[str, Any]:
    """Return the curves of the paper's figures by acquisition, start and dataset: best errors with 95 % intervals.

    Args:
        outcome: of methods named "ACQUISITION/START".
    """
    figures: dict[str, Any] = {}
    for name in outcome.methods:
        acquisition, _, start = name.partition("/")
        by_dataset = figures.setdefault(acquisition, {}).setdefault(start, {})
        for result in outcome.results:
            errors = outcome.table.errors[result.row]
            low, width = np.nanmin(errors), np.ptp(errors[~np.isnan(errors)])
            by_dataset[outcome.table.datasets[result.row]] = _curve(low + width * result.curves[name])
    return {"paper": figures}


def summary_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one flat row for each method, for display.

    It has the mean regret at each time, the evaluations, and the reference's regret less the method's, with a star
    beyond two standard errors.
    """
    rows = []
    for name, method in report["rivals"].items():
        row: dict[str, Any] = {"method": name, "kind": method["kind"]}
        row |= {f"regret@{t}": summary["mean"] for t, summary in method["regret"].items()}
        row[EVALUATIONS] = method[EVALUATIONS]["mean"]
        for difference in report["differences"]:
            if difference["second"] == name and difference["measure"] in ("regret@3", "regret@10"):
                row[difference["measure"].replace("regret", "difference")] = _signed(difference)
        rows.append(row)
    return rows


def full_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one flat row for each method with every mean and interval, for CSV."""
    rows = []
    for name, method in report["rivals"].items():
        row: dict[str, Any] = {
            "table": report["table"],
            "protocol": report["protocol"],
            "rival": name,
            "kind": method["kind"],
        }
        measures = {
            **{f"regret@{t}": summary for t, summary in method["regret"].items()},
            EVALUATIONS: method[EVALUATIONS],
        }
        for measure, summary in measures.items():
            row |= {f"{measure} {key}": summary[key] for key in ("mean", "low", "high")}
            pair = [d for d in report["differences"] if (d["second"], d["measure"]) == (name, measure)]
            row |= {
                f"{measure} ours less {key}": difference[key]
                for difference in pair
                for key in ("mean", "low", "high", "two_standard_errors")
            }
        rows.append(row)
    return rows


def distance_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return one flat row for each metric with its agreement with the true distances."""
    keys = ("spearman", f"recall@{RECALL_OF}", "spearman_normalised", f"recall@{RECALL_OF}_normalised")
    return [
        {"distance": name, **{key: agreement[key]["mean"] for key in keys}}
        for name, agreement in report["distances"].items()
    ]


def interval(values: ArrayLike, groups: Sequence[str]) -> dict[str, float | None]:
    """Return a mean with its 95 % interval over groups; None for undefined numbers."""
    return _plain(clustered_interval(values, groups=groups))


def _plain(mean_interval: Interval) -> dict[str, float | None]:
    return {key: _number(getattr(mean_interval, key)) for key in ("mean", "low", "high")}


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _curve(curves: Matrix, groups: Sequence[str] | None = None) -> dict[str, list[float]]:
    """Return the mean of `n x horizon` curves and its interval; of a single one, the curve itself."""
    labels = groups or [str(row) for row in range(len(curves))]
    intervals = [clustered_interval(column, groups=labels) for column in curves.T]
    return {
        "mean": [item.mean for item in intervals],
        "low": [item.low if np.isfinite(item.low) else item.mean for item in intervals],
        "high": [item.high if np.isfinite(item.high) else item.mean for item in intervals],
    }


def _difference(first: str, second: str, measure: str, values: Matrix, groups: Sequence[str]) -> dict[str, Any]:
    mean_interval = clustered_interval(values, groups=groups)
    beyond = bool(
        np.isfinite(mean_interval.standard_error) and abs(mean_interval.mean) > 2 * mean_interval.standard_error
    )
    return {
        "first": first,
        "second": second,
        "measure": measure,
        **_plain(mean_interval),
        "two_standard_errors": beyond,
    }


def _distances(outcome: Outcome, rows: Sequence[int], groups: Sequence[str]) -> dict[str, Any]:
    """Compare every metric with the true distances, raw and of normalised errors."""
    agreement: dict[str, Any] = {}
    true = {
        "": outcome.table.true_distances(normalised=False),
        "_normalised": outcome.table.true_distances(normalised=True),
    }
    for name, matrix in outcome.distances.items():
        agreement[name] = {}
        for suffix, truth in true.items():
            correlations, recalls = rank_correlations(matrix, truth)[rows], neighbour_recalls(matrix, truth)[rows]
            agreement[name] |= {
                f"spearman{suffix}": interval(correlations, groups),
                f"recall@{RECALL_OF}{suffix}": interval(recalls, groups),
                f"spearman{suffix}_per_dataset": [_number(value) for value in correlations],
            }
    return agreement


def _hurt(outcome: Outcome, curves: Mapping[str, Matrix], reference: str) -> list[dict[str, Any]]:
    """Return the datasets on which the reference has more regret than the portfolio, the worst first at each time."""
    if "portfolio" not in curves or reference == "portfolio":
        return []
    hurt = []
    for time in (t for t in HURT_AT if t <= outcome.horizon):
        a, b = curves[reference][:, time - 1], curves["portfolio"][:, time - 1]
        for index in np.argsort(b - a, kind="stable").tolist():
            if a[index] > b[index] + 1e-9:
                name = outcome.table.datasets[outcome.results[index].row]
                hurt.append(
                    {
                        "dataset": name,
                        "ours": float(a[index]),
                        "best_rival": "portfolio",
                        "regret": float(b[index]),
                        "time": time,
                    }
                )
    return hurt


def _signed(difference: Mapping[str, Any]) -> str:
    """Format a mean difference, with a star when it exceeds two standard errors."""
    return f"{difference['mean']:+.3f}{'*' if difference['two_standard_errors'] else ''}"
