"""What fewer training images change: which feature sets are best, and how well errors are foreseen.

python scripts/bench/transfer_parts.py data_manifests/measured/transfer-frozen --out scripts/bench/results/transfer-parts.json

Each dataset of the shipped history is asked with all of its training images (at most 400) and with a part of them, its
group of siblings left out: answered by whole datasets alone, and by whole datasets and parts.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from transfer_tables import _apart, block_errors, lost, summary

from bo.transfer.designs import initial_designs
from metafeat.pretrained.depths import DEPTHS
from warmstart.locations import history_path, model_path
from warmstart.suggestions.embedded_history import EmbeddedHistory, load_embedded_history
from warmstart.suggestions.expectations import expectation_of, forecaster_of

Array = NDArray[np.float64]
TIMES = (1, 3)


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


def forecasts(embedded: EmbeddedHistory, errors: dict[str, Array], features: dict[str, Array]) -> dict[str, dict]:
    """Compute how far forecasts of the best error are off, and how many 80 % intervals hold."""
    found: dict[str, dict] = {}
    for known in (replace(embedded, smaller_parts=None), embedded):
        answered = "answered by whole" if known.smaller_parts is None else "answered by whole and parts"
        for asked in ("whole", "parts"):
            off, held, width = [], [], []
            for query, group in enumerate(embedded.groups):
                rest = [row for row, other in enumerate(embedded.groups) if other != group]
                forecaster = forecaster_of(known, rest)
                assert forecaster is not None, "the shipped history has many groups"
                best = errors[asked][query].mean(-1).min()
                told = expectation_of(forecaster, features[asked][query]).errors()[-1]
                off.append(told.value - best)
                held.append(told.low <= best <= told.high)
                width.append(told.high - told.low)
            found.setdefault(f"asked {asked}", {})[answered] = {
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
    place = [references.names.index(name) for name in embedded.names]
    features = {
        "whole": references.features[place],
        "parts": parts.features[[parts.names.index(n) for n in embedded.names]],
    }
    errors = {kind: halves(given.shards, embedded, part) for part, kind in enumerate(("whole", "parts"))}
    result = {
        "datasets": len(embedded.names),
        "images of parts": 100,
        "points lost": choices(embedded, errors, features),
        "best reachable error": forecasts(embedded, errors, features),
    }
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
