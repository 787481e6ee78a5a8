"""By which errors a feature set should be chosen: of the validation images, of training images left out in turn, or of both.

All feature sets of a dataset are tried; the head of each is chosen with training images left out. The set with the least error by
each rule is asked on the other half of the images that never train (the two halves change places), means over ties and five splits.

    python scripts/bench/transfer_select.py [--shards data_manifests/measured/transfer-frozen] [--out FILE.json]
"""

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from runs import write_report
from transfer_tables import SEEN

from warmstart.training.workloads.transfer.frozen import PARTS

Array = NDArray[np.float64]


def errors_by_rule(wrong: Array, totals: Array) -> dict[str, float]:
    """Return the error of what each rule chooses.

    Args:
        wrong: `sets x heads x 3` wrong answers of one split: training images left out, and either half of the others.
        totals: `3`, images asked.
    """
    chosen = np.take_along_axis(wrong, wrong[:, :, :1].argmin(1)[..., None], axis=1)[:, 0]
    found: dict[str, list[float]] = {}
    for val, test in ((1, 2), (2, 1)):
        rules = {"validation": (val,), "left out": (0,), "both": (0, val)}
        for name, counted in rules.items():
            error = chosen[:, counted].sum(1) / totals[list(counted)].sum()
            found.setdefault(name, []).append(float(chosen[error == error.min(), test].mean() / totals[test]))
    return {name: float(np.mean(each)) for name, each in found.items()}


def of_dataset(path: Path, part: int) -> dict[str, float] | None:
    """Return the errors of a dataset, means over its splits; None where it has too few images for a part."""
    with np.load(path) as shard:
        blocks = sorted({key.split("/")[0] for key in shard.files})
        wrong = np.stack([shard[f"{block}/wrong"][:, part] for block in blocks], axis=1).astype(float)
        totals = shard[f"{blocks[0]}/totals"][:, part].astype(float)
    if not totals[:, 0].all():
        return None
    splits = [
        errors_by_rule(counts.reshape(-1, *counts.shape[-2:]), n) for counts, n in zip(wrong, totals, strict=True)
    ]
    return {name: float(np.mean([each[name] for each in splits])) for name in splits[0]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=Path, default=Path("data_manifests/measured/transfer-frozen"))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    report = {}
    for part, limit in enumerate(PARTS):
        paths = [path for path in sorted(asked.shards.glob("*.npz")) if path.stem not in SEEN]
        rows = [found for path in paths if (found := of_dataset(path, part)) is not None]
        table = {name: 100 * np.array([row[name] for row in rows]) for name in rows[0]}
        less = {name: each - table["validation"] for name, each in table.items()}
        report[f"{limit} training images at most"] = {
            "datasets": len(rows),
            **{f"{name}, error in points": round(float(each.mean()), 2) for name, each in table.items()},
            **{
                f"{name}, less validation": [
                    round(float(each.mean()), 2),
                    round(float(each.std(ddof=1) / len(each) ** 0.5), 2),
                ]
                for name, each in less.items()
                if name != "validation"
            },
        }
    write_report(report, asked.out)
