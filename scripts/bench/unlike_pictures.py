"""How well pictures of other sets are told from a classifier's own kind, by features of one frozen network.

Reads the features that labels_and_growth.py cached. Each set is compared with sets of other groups at the same image
size; its own pictures are left out in turn.

    python scripts/bench/unlike_pictures.py INDEX.csv --features CACHE --out scripts/bench/results/unlike-pictures.json
"""

import argparse
import csv
import json
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from warmstart.metafeat.files import replace_file
from warmstart.training.workloads.familiar import MOST, Familiar

SIZES = (128, 160, 224)
FOREIGN = 30
"""Pictures of each other set."""


def main() -> None:
    """Print and write the mean area under the ROC curve, and the share of other pictures that is marked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index", type=Path)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    with arguments.index.open(encoding="utf-8") as file:
        index = {row["name"]: row for row in csv.DictReader(file)}
    rng, sets = np.random.default_rng(0), {}
    rows = {path.stem: np.load(path)["full"] for path in sorted(arguments.features.glob("*.npz"))}
    rows = {name: full[rng.permutation(len(full))] for name, full in rows.items()}
    sizes = {
        name: next((size for size in SIZES if size >= 0.9 * float(index[name]["stored_px"])), SIZES[-1])
        for name in rows
    }
    for name, full in rows.items():
        bank = full[:MOST]
        familiar = Familiar.of(bank, None, model=0)
        own = [float(Familiar.of(np.delete(bank, row, axis=0), None, model=0).likeness(bank[[row]])[0]) for row in range(0, len(bank), 4)]  # fmt: skip
        others = [
            familiar.likeness(rows[other][:FOREIGN])
            for other in rows
            if index[other]["group"] != index[name]["group"] and sizes[other] == sizes[name]
        ]
        if others:
            areas = [float(roc_auc_score([1] * len(own) + [0] * len(each), [*own, *each])) for each in others]
            marked = float(np.mean([(each < familiar.least).mean() for each in others]))
            sets[name] = {"auroc": float(np.mean(areas)), "marked": marked, "others": len(others)}
    summary = {name: float(np.mean([each[name] for each in sets.values()])) for name in ("auroc", "marked")}
    print(json.dumps(summary))
    replace_file(
        arguments.out, (json.dumps({"summary": summary, "sets": sets}, indent=1) + "\n").encode(), durable=False
    )


if __name__ == "__main__":
    main()
