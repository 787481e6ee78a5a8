"""How well errors are told before any training: of the best configuration, and of each, on datasets whose group is left out.

    OMP_NUM_THREADS=1 python scripts/bench/expected_error.py [--history FILE] [--model FILE] [--out FILE.json]

Beside ours: the mean error of the other datasets (blind), and the best single landmark by a line through square roots. Errors are raw,
in [0, 1]; one group of datasets is left out at a time. `told` evaluations are drawn at random from the shared configurations.

Where the history holds parts of sources (`build_default.py --parts --folds 0 --out FOLDER` makes one), forecasts of their best error are judged,
too, on the configurations that all datasets have: by what is learned from whole sources alone, and from parts as well.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from warmstart.history_store.file.cells import Cells
from warmstart.locations import history_path, model_path
from warmstart.metafeat.feature_names import FEATURES
from warmstart.metafeat.model_file import read_header
from warmstart.suggestions.embeddings import load_embedded_history
from warmstart.suggestions.expectations import expectation_of, forecaster_of, views

TOLD = (0, 1, 3, 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--history")
    parser.add_argument("--model")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    embedded = load_embedded_history(history_path(options.history), model_path(options.model))
    features = dict(zip(embedded.references.names, embedded.references.features, strict=True))
    groups, errors = np.array(embedded.groups), embedded.errors()
    wholes = [row for row, info in enumerate(embedded.about) if info.parent is None and embedded.names[row] in features]
    best = np.nanmin(errors, axis=1)
    rng = np.random.default_rng(options.seed)
    rows = []
    for group in sorted({groups[row] for row in wholes}):
        rest = np.flatnonzero(groups != group)
        known = [row for row in rest if row in wholes]
        forecaster = forecaster_of(embedded, rest)
        landmark = line(features, embedded, known, best)
        low, high = np.quantile(best[known], [0.1, 0.9])
        for row in (row for row in wholes if groups[row] == group):
            measured = np.flatnonzero(~np.isnan(errors[row]))
            one = {
                "dataset": embedded.names[row],
                "group": group,
                "best": best[row],
                "blind": float(best[known].mean()),
                "blind_width": float(high - low),
                "blind_config_width": float(
                    np.mean(np.nanquantile(errors[known], 0.9, axis=0) - np.nanquantile(errors[known], 0.1, axis=0))
                ),
                "landmark": landmark(features[embedded.names[row]]),
            }
            for n in TOLD:
                told = {int(c): float(errors[row, c]) for c in rng.choice(measured, n, replace=False)}
                n_val = embedded.about[row].n_val
                found = expectation_of(forecaster, features[embedded.names[row]], n_val=n_val).errors(told)
                free = [c for c in measured if c not in told]
                one[f"told_{n}"] = {
                    **found[-1].to_dict(),
                    "config_mse": float(np.mean([(found[c].value - errors[row, c]) ** 2 for c in free])),
                    "config_covered": float(np.mean([found[c].low <= errors[row, c] <= found[c].high for c in free])),
                    "config_width": float(np.mean([found[c].high - found[c].low for c in free])),
                }
            rows.append(one)
    report = {
        "history": Path(embedded.path).name,
        "model": read_header(model_path(options.model)).hash,
        **summary(rows),
        **({"parts": of_parts(embedded, features)} if len(wholes) < len(embedded.names) else {}),
    }
    for name, value in report.items():
        print(f"{name:24} {value}")
    if options.out:
        options.out.write_text(json.dumps({**report, "datasets": rows}, indent=1))


def of_parts(embedded, features):
    """Say how well the best errors of wholes, of parts, and of small parts are told, by what the forecast learned from."""
    rows = np.array([row for row, name in enumerate(embedded.names) if name in features])
    whole = ~np.isnan(embedded.errors(rows)).any(axis=0)
    sums = [part[:, whole] for part in embedded.cells.at()]
    cut = replace(embedded, cells=Cells(*sums, sums[0].shape))
    groups, best = np.array(embedded.groups), cut.errors().min(axis=1)
    is_part = np.array([about.parent is not None for about in embedded.about])
    looked_at = {row: np.exp(features[embedded.names[row]][FEATURES.index("log_n")]) for row in rows}
    kinds = {
        "wholes": [row for row in rows if not is_part[row]],
        "parts": [row for row in rows if is_part[row]],
        "parts below 150 images": [row for row in rows if is_part[row] and looked_at[row] < 150],
    }
    found = {"configurations": sums[0].shape[1]}
    for learned, known in (("wholes", kinds["wholes"]), ("both", rows)):
        told = {}
        for group in set(groups[rows].tolist()):
            forecaster = forecaster_of(cut, [row for row in known if groups[row] != group])
            for row in (row for row in rows if groups[row] == group):
                n_val = embedded.about[row].n_val
                told[row] = expectation_of(forecaster, features[embedded.names[row]], n_val=n_val).errors()[-1]
        for kind, some in kinds.items():
            off = np.array([told[row].value - best[row] for row in some])
            inside = [told[row].low <= best[row] <= told[row].high for row in some]
            found[f"{kind}, learned from {learned}"] = {
                "datasets": len(some),
                "bias": round(float(off.mean()), 4),
                "rmse": round(float(np.sqrt(np.square(off).mean())), 4),
                "covered": round(float(np.mean(inside)), 3),
            }
    return found


def line(features, embedded, rows, best):
    """Fit, of the landmarks, the one that tells the best error of these datasets best; return the function."""
    marks = np.sqrt(views(np.stack([features[embedded.names[row]] for row in rows]))[0][:, :6].clip(0, 1))
    roots = np.sqrt(best[rows])
    fits = [np.polyfit(marks[:, k], roots, 1) for k in range(marks.shape[1])]
    losses = [float(np.square(np.polyval(fit, marks[:, k]) - roots).mean()) for k, fit in enumerate(fits)]
    chosen = int(np.argmin(losses))

    def tell(found):
        mark = np.sqrt(views(found[None])[0][0, chosen].clip(0, 1))
        return float(np.clip(np.polyval(fits[chosen], mark), 0, 1) ** 2)

    return tell


def summary(rows):
    truth = np.array([row["best"] for row in rows])
    value = np.array([row["told_0"]["value"] for row in rows])

    def rmse(name):
        return round(float(np.sqrt(np.mean([(row[name] - row["best"]) ** 2 for row in rows]))), 4)

    gain = np.square([row["landmark"] - row["best"] for row in rows]) - np.square(value - truth)
    groups = np.array([row["group"] for row in rows])
    sums = {group: (gain[groups == group].sum(), int((groups == group).sum())) for group in set(groups.tolist())}
    totals, rng = np.array(list(sums.values())), np.random.default_rng(0)
    drawn = [totals[rng.integers(len(totals), size=len(totals))].sum(axis=0) for _ in range(4000)]
    found = {
        "datasets": len(rows),
        "groups": len(sums),
        "features": len(FEATURES),
        "rmse": round(float(np.sqrt(np.mean((value - truth) ** 2))), 4),
        "rmse_blind": rmse("blind"),
        "rmse_best_landmark": rmse("landmark"),
        "mse_gain_over_landmark": [round(float(gain.mean()), 5), round(float(np.std([a / n for a, n in drawn])), 5)],
        "rank_correlation": round(float(spearmanr(value, truth)[0]), 3),
    }
    for n in TOLD:
        each = [row[f"told_{n}"] for row in rows]
        inside = [one["low"] <= row["best"] <= one["high"] for one, row in zip(each, rows, strict=True)]
        width = np.mean([one["high"] - one["low"] for one in each])
        found[f"told_{n}"] = {
            "rmse": round(
                float(
                    np.sqrt(np.mean([(one["value"] - row["best"]) ** 2 for one, row in zip(each, rows, strict=True)]))
                ),
                4,
            ),
            "covered": round(float(np.mean(inside)), 3),
            "width_of_blind": round(float(width / np.mean([row["blind_width"] for row in rows])), 3),
            "config_rmse": round(float(np.sqrt(np.mean([one["config_mse"] for one in each]))), 4),
            "config_covered": round(float(np.mean([one["config_covered"] for one in each])), 3),
            "config_width_of_blind": round(
                float(
                    np.mean([one["config_width"] for one in each])
                    / np.mean([row["blind_config_width"] for row in rows])
                ),
                3,
            ),
        }
    return found


if __name__ == "__main__":
    main()
