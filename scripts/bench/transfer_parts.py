"""What fewer training images change: which feature sets are best, and how well errors are foreseen.

python scripts/bench/transfer_parts.py data_manifests/measured/transfer-frozen --out scripts/bench/results/transfer-parts.json

Each dataset of the shipped history is asked with all of its training images (at most 400) and with parts of them, its
group of siblings left out: answered by whole datasets alone, and by whole datasets and parts. The choice is looked at
with the larger parts alone.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transfer_tables import _apart, block_errors, lost, summary

from warmstart.bo.transfer.designs import initial_designs
from warmstart.locations import history_path, model_path
from warmstart.metafeat.feature_names import LANDMARKS
from warmstart.metafeat.pretrained.depths import DEPTHS
from warmstart.suggestions.embedded_history import EmbeddedHistory
from warmstart.suggestions.embeddings import load_embedded_history
from warmstart.suggestions.expectations import expectation_of, forecaster_of
from warmstart.suggestions.other_sizes import SmallerParts

Array = NDArray[np.float64]
TIMES = (1, 3)
LIMITS = (100, 50)
"""Training images of the parts, at most."""


def halves(folder: Path, embedded: EmbeddedHistory, part: int) -> Array:
    """Read the errors of the history's configurations on either half, means over splits: `m x c x 2`."""
    found = []
    for name in embedded.names:
        with np.load(folder / f"{name}.npz") as shard:
            names = {f"{config['backbone']}-{config['image_size']}" for config in embedded.configs}
            blocks = {block: block_errors(shard, block, part).reshape(len(DEPTHS), 2, 2) for block in names}
        found.append(
            [
                blocks[f"{config['backbone']}-{config['image_size']}"][
                    DEPTHS.index(str(config["depth"])), int(config["flip_copies"])
                ]
                for config in embedded.configs
            ]
        )
    return np.array(found)


def limits_of(parts: SmallerParts) -> NDArray[np.int64]:
    """Tell of each part how many training images it has at most: the limit that is nearest, as a ratio."""
    images = parts.features[:, LANDMARKS.index("log_n")]
    return np.array(LIMITS)[np.abs(images[:, None] - np.log(LIMITS)).argmin(axis=1)]


def part_of(embedded: EmbeddedHistory, parts: SmallerParts, limit: int) -> tuple[NDArray[np.int64], SmallerParts]:
    """Return the rows of the datasets that have a part of so many images, and these parts in their order."""
    rows = {
        name: row
        for row, (name, own) in enumerate(zip(parts.names, limits_of(parts).tolist(), strict=True))
        if own == limit
    }
    asked = [row for row, name in enumerate(embedded.names) if name in rows]
    return np.array(asked, np.int64), some(parts, [rows[embedded.names[row]] for row in asked])


def some(parts: SmallerParts, rows: Sequence[int]) -> SmallerParts:
    """Return some of the parts."""
    kept = list(rows)
    names, n_val = (tuple(each[row] for row in kept) for each in (parts.names, parts.n_val))
    return replace(parts, names=names, n_val=n_val, features=parts.features[kept], errors=parts.errors[kept])


def choices(embedded: EmbeddedHistory, errors: dict[str, Array], features: dict[str, Array]) -> dict[str, dict]:
    """Compute the points lost by the portfolio and by `joint`, by what answers and what is asked."""
    groups = np.array(embedded.groups)
    tables = {"whole": ("whole",), "parts": ("parts",), "whole and parts": ("whole", "parts")}
    losses: dict[tuple[str, str, str], list[float]] = {}
    for k in TIMES:
        for query, group in enumerate(groups):
            rest = np.flatnonzero(groups != group)
            for answered, kinds in tables.items():
                known = np.concatenate([errors[kind][rest].mean(-1) for kind in kinds])
                siblings = np.tile(groups[rest], len(kinds)).tolist()
                for asked in ("whole", "parts"):
                    marks = np.concatenate([*(features[kind][rest] for kind in kinds), features[asked][[query]]])
                    near = _apart(marks, list(range(len(marks) - 1)), len(marks) - 1)
                    for strategy, distances in (("portfolio", None), ("joint", near)):
                        chosen = initial_designs(known, distances, k, strategy=strategy, groups=siblings)
                        case = (f"after {k}, {strategy}", f"asked {asked}", f"answered by {answered}")
                        losses.setdefault(case, []).append(lost(errors[asked][query], chosen))
    found: dict[str, dict] = {}
    for case, values in losses.items():
        row = summary(np.array(values), embedded.groups)
        base = losses[(*case[:2], "answered by whole")]
        row["gain over whole"] = summary(np.array(base) - np.array(values), embedded.groups)
        found.setdefault(case[0], {}).setdefault(case[1], {})[case[2]] = row
    return found


def forecasts(embedded: EmbeddedHistory) -> dict[str, dict]:
    """Compute how far forecasts of the best error are off, and how many 80 % intervals hold."""
    parts, references = embedded.smaller_parts, embedded.references
    assert parts is not None and references is not None and references.features is not None  # noqa: PT018
    whole = references.features[[references.names.index(name) for name in embedded.names]]
    asked = {"all": (np.arange(len(embedded.names)), whole, embedded.errors())}
    answered = {"all": None}
    for n, limit in enumerate(LIMITS):
        rows, own = part_of(embedded, parts, limit)
        if len(rows):
            asked[str(limit)] = (rows, own.features, own.of(own.names, embedded.configs).errors)
            known = np.flatnonzero(np.isin(limits_of(parts), LIMITS[: n + 1]))
            answered[", ".join(["all", *map(str, LIMITS[: n + 1])])] = some(parts, known.tolist())
    found: dict[str, dict] = {}
    for learned, smaller in answered.items():
        known = replace(embedded, smaller_parts=smaller)
        left_out = {
            group: forecaster_of(known, [row for row, other in enumerate(embedded.groups) if other != group])
            for group in set(embedded.groups)
        }
        for images, (rows, features, errors) in asked.items():
            off, held, width = [], [], []
            for row, own, measured in zip(rows.tolist(), features, errors, strict=True):
                forecaster = left_out[embedded.groups[row]]
                assert forecaster is not None, "the shipped history has many groups"
                best = np.nanmin(measured)
                told = expectation_of(forecaster, own).errors()[-1]
                off.append(told.value - best)
                held.append(told.low <= best <= told.high)
                width.append(told.high - told.low)
            found.setdefault(f"asked {images}", {})[f"learned from {learned}"] = {
                "datasets": len(off),
                "rmse": float(np.sqrt(np.mean(np.square(off)))),
                "bias": float(np.mean(off)),
                "coverage_80": float(np.mean(held)),
                "width": float(np.mean(width)),
            }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shards", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    embedded = load_embedded_history(history_path(None, workload="transfer"), model_path(None, workload="transfer"))
    references, parts = embedded.references, embedded.smaller_parts
    assert references is not None and references.features is not None and parts is not None  # noqa: PT018
    rows, larger = part_of(embedded, parts, LIMITS[0])
    assert len(rows) == len(embedded.names), "every dataset of the shipped history has the larger part"
    features = {
        "whole": references.features[[references.names.index(name) for name in embedded.names]],
        "parts": larger.features,
    }
    errors = {kind: halves(given.shards, embedded, part) for part, kind in enumerate(("whole", "parts"))}
    result = {
        "datasets": len(embedded.names),
        "images of parts": list(LIMITS),
        "points lost": choices(embedded, errors, features),
        "best reachable error": forecasts(embedded),
    }
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
