"""Print the table of the shipped history's card: python scripts/card.py [HISTORY] > table.md"""

import sys
from importlib import resources
from pathlib import Path

import numpy as np

from history_store.history import History
from history_store.response import target_distance


def main() -> None:
    path = (
        Path(sys.argv[1]) if len(sys.argv) > 1 else Path(str(resources.files("warmstart") / "defaults" / "history.h5"))
    )
    with History.open(path) as history:
        errors = history.errors
        seconds = np.nansum([evaluation.duration for evaluation in history.evaluations()])
        print(
            f"{len(history.names)} datasets of {len(set(history.groups))} groups, {errors.shape[1]} configurations, ",
            end="",
        )
        print(
            f"{history.n_evaluations} evaluations, {seconds / 3600:.1f} CPU hours, {np.isnan(errors).sum()} cells missing.\n"
        )
        distances = target_distance(errors, names=history.names)
        print(f"Mean target distance of two datasets: {distances[np.triu_indices(len(errors), 1)].mean():.3f}.\n")
        print("| dataset | group | classes | training images | best error | median | worst | source | licence |")
        print("|---|---|---|---|---|---|---|---|---|")
        for info, row in zip(history.datasets, errors, strict=True):
            low, middle, high = np.nanmin(row), np.nanmedian(row), np.nanmax(row)
            print(
                f"| {info.name} | {info.group} | {info.n_classes} | {info.n_train} | {low:.3f} | {middle:.3f} | {high:.3f} "
                f"| {info.source} | {info.licence} |"
            )


if __name__ == "__main__":
    main()
