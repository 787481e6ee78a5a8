"""How good the promises of `suggest` are for pretrained networks: RMSE, and how often ranges hold, groups left out.

    python scripts/bench/promises.py [--shards data_manifests/measured/pixels-frozen] [--history FILE] [--out FILE.json]

Each dataset is asked about with its whole family left out: its group, and the groups of the older history that show the same
pictures or the like. What came is, at the pictures' own pixels, the error of the joined classifiers of `classify` on pictures
that were not given (scripts/bench/joined_heads.py; 3 minutes of one core), and in `--ten` what ten minutes came to;
for pictures of 32 pixels the least error of the history's feature sets. The square of an RMSE contains the sampling variance of
what came, which is subtracted beside it.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from runs import write_report

from warmstart.bo.transfer.designs import initial_designs
from warmstart.bo.transfer.expected_error import DatasetExpectation, ExpectedError
from warmstart.locations import history_path, model_path
from warmstart.suggestions.embedded_history import EmbeddedHistory
from warmstart.suggestions.embeddings import load_embedded_history
from warmstart.suggestions.expectations import expectation_of, forecaster_of
from warmstart.suggestions.other_sizes import after_minutes, fitting_datasets, side_of

Look = tuple[NDArray[np.float64], float]
OLD_SIDE = 32
NORMAL_80 = 1.2816
"""Standard deviations of half an 80 % interval."""
FIRST = {"backbone": "tf_efficientnet_lite0", "depth": "s16+full", "flip_copies": False, "steps": 0}
"""The first head of a plan, at the largest size that was measured."""


def families(embedded: EmbeddedHistory, about: Mapping[str, dict]) -> list[int]:
    """Number the families of datasets that are left out together."""
    names, tie = list(embedded.names), {}

    def root(key: str) -> str:
        while tie.get(key, key) != key:
            key = tie[key]
        return key

    for name, group in zip(names, embedded.groups, strict=True):
        tie[root(f"dataset {name}")] = root(f"group {group}")
        if (facts := about.get(name)) is not None:
            shown = [other for other in (facts["same_as"], *facts["related"]) if other]
            for other in (f"kind {facts['group']}", *(f"dataset {each}" for each in shown)):
                tie[root(f"dataset {name}")] = root(other)
    roots = [root(f"dataset {name}") for name in names]
    return [sorted(set(roots)).index(each) for each in roots]


def first_column(embedded: EmbeddedHistory, row: int) -> int | None:
    """Return the configuration of the first head of a plan on a dataset."""
    errors = embedded.errors(np.array([row]))[0]
    columns = [
        column
        for column, config in enumerate(embedded.configs)
        if all(config[name] == value for name, value in FIRST.items()) and not np.isnan(errors[column])
    ]
    return max(columns, key=lambda column: int(str(embedded.configs[column]["image_size"])), default=None)


def table(
    told: Sequence[ExpectedError], came: Sequence[float], n: Sequence[int], family: Sequence[int], names: Sequence[str]
) -> dict:
    """Return the figures of promises, some of them of one dataset: how far off, how many hold, with standard errors over families."""
    value, truth, numbers = np.array([each.value for each in told]), np.array(came), np.array(family)
    variance = truth * (1 - truth) / np.array(n)
    held = np.array([each.low <= truth[i] <= each.high for i, each in enumerate(told)], dtype=float)
    chance = NORMAL_80 * np.sqrt(value * (1 - value) / np.array(n))  # of what came, if the promise were exact
    low, high = (np.array([getattr(each, side) for each in told]) for side in ("low", "high"))
    is_within = (truth >= value - np.hypot(value - low, chance)) & (truth <= value + np.hypot(high - value, chance))
    by_family = [(held - held.mean())[numbers == each].sum() for each in np.unique(numbers)]
    return {
        "datasets": len(set(names)),
        "families": len(by_family),
        "promises": len(held),
        "rmse": float(np.sqrt(np.mean((value - truth) ** 2))),
        "rmse less sampling": float(np.sqrt(max(0.0, np.mean((value - truth) ** 2 - variance)))),
        "bias": float(np.mean(value - truth)),
        "held": float(held.mean()),
        "its standard error": float(np.sqrt(np.square(by_family).sum())) / len(held),
        "held with the chance in what came": float(is_within.mean()),
        "too pessimistic": float(np.mean([each.low > truth[i] for i, each in enumerate(told)])),
        "too optimistic": float(np.mean([each.high < truth[i] for i, each in enumerate(told)])),
        "width": float(np.mean([each.high - each.low for each in told])),
        "mean that came": float(truth.mean()),
    }


def first_suggestions(embedded: EmbeddedHistory, family: Sequence[int], rows: Sequence[int]) -> dict:
    """Return the mean error of the first suggestion by the datasets as large, and by those of 32 pixels as before, in points."""
    sides = np.array([side_of(info) for info in embedded.about.at(range(len(family)))])
    numbers, measured, gains, by = np.array(family), embedded.errors(), [], []
    for row in rows:
        rest = np.flatnonzero(numbers != numbers[row])
        fits, as_large = fitting_datasets(measured[rest], sides[rest], embedded.configs, sides[row])
        before = rest[sides[rest] <= OLD_SIDE]
        errors = [
            measured[row, initial_designs(np.where(mask, measured[chosen], np.nan), k=1, groups=numbers[chosen])[0]]
            for chosen, mask in ((rest[as_large], fits), (before, np.ones_like(fits)))
        ]
        by.append(errors)
        gains.append(100 * (errors[1] - errors[0]))
    known = ~np.isnan(gains)
    points, groups = np.array(gains)[known], numbers[list(rows)][known]
    spread = [(points - points.mean())[groups == each].sum() for each in np.unique(groups)]
    return {
        "datasets": len(points),
        "error": float(np.array(by)[known, 0].mean()),
        "error by 32 pixels": float(np.array(by)[known, 1].mean()),
        "points gained": float(points.mean()),
        "its standard error": float(np.sqrt(np.square(spread).sum())) / len(points),
    }


def expectation_without(embedded: EmbeddedHistory, family: Sequence[int], row: int, look: Look) -> DatasetExpectation:
    """Forecast the errors on a dataset, by a look at its pictures, without its family."""
    rows = [other for other, each in enumerate(family) if each != family[row]]
    forecaster = forecaster_of(embedded, rows)
    assert forecaster is not None
    landmarks, sharp = look
    return expectation_of(forecaster, landmarks, side=side_of(embedded.about.at([row])[0]), sharp=sharp)


def looks_of(embedded: EmbeddedHistory, row: int, measured: Mapping[str, dict]) -> list[Look]:
    """Return the landmarks and the sharp error of a dataset: by split at its own pixels, else those of the history."""
    name, references = embedded.names[row], embedded.references
    if name in measured:
        splits = measured[name]["splits"]
        return [(np.array(each["landmarks"]), np.nan if each["sharp"] is None else each["sharp"]) for each in splits]
    assert references is not None and references.features is not None  # noqa: PT018
    return [(references.features[references.names.index(name)], np.nan)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=Path, default=Path("data_manifests/measured/pixels-frozen"))
    parser.add_argument("--history", type=Path)
    parser.add_argument("--landmarks", type=Path, default=Path("scripts/bench/results/pixels-landmarks.json"))
    parser.add_argument("--ten", type=Path, default=Path("scripts/bench/results/ten-minutes.json"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    about = json.loads((options.shards / "collection.json").read_text())["datasets"]
    embedded = load_embedded_history(
        options.history or history_path(None, workload="transfer"), model_path(None, workload="transfer")
    )
    family = families(embedded, about)
    measured = json.loads(options.landmarks.read_text())["sets"]
    assert embedded.own_pixels is not None
    reached, _ = embedded.own_pixels.of(embedded.names)
    told = [
        (row, expectation_without(embedded, family, row, look))
        for row in range(len(family))
        for look in looks_of(embedded, row, measured)
    ]
    own = [(row, each) for row, each in told if embedded.names[row] in measured]
    old = [(row, each) for row, each in told if embedded.names[row] not in measured]
    n_images = [info.n_images for info in embedded.about.at(range(len(family)))]

    def figures(asked: Sequence[tuple[int, ExpectedError]], came: Mapping[int, tuple[float, int]]) -> dict:
        rows = [row for row, _ in asked]
        return table(
            [each for _, each in asked], [came[row][0] for row in rows], [came[row][1] for row in rows],
            [family[row] for row in rows], [embedded.names[row] for row in rows],
        )  # fmt: skip

    came = {row: (float(reached[row]), n_images[row]) for row, _ in own}
    found: dict = {"own pixels, 3 minutes": figures([(row, _after(each, 3)) for row, each in own], came)}
    updated, measured = [], embedded.errors()
    for row, each in own:
        column = first_column(embedded, row)
        known = {} if column is None else {column: float(measured[row, column])}
        updated.append((row, each.errors(known)[-1]))
    found["own pixels, 3 minutes, after the first head"] = figures(updated, came)
    found["32 pixels, the best feature set"] = figures(
        [(row, each.errors()[-1]) for row, each in old],
        {row: (float(np.nanmin(measured[row])), n_images[row]) for row, _ in old},
    )
    played = {name: run for name, run in json.loads(options.ten.read_text())["wrong"].items() if "classify" in run}
    ten = [(row, _after(each, 10)) for row, each in own if embedded.names[row] in played]
    runs = {row: played[embedded.names[row]] for row, _ in ten}
    found["own pixels, 10 minutes"] = figures(
        ten, {row: (run["classify"] / run["asked"], run["asked"]) for row, run in runs.items()}
    )
    found["first suggestion"] = first_suggestions(embedded, family, sorted(came))
    found["sets"] = {
        embedded.names[row]: {"told": each.errors()[-1].to_dict(), "came": round(float(reached[row]), 4)}
        for row, each in own
    }
    write_report(found, options.out)


def _after(expected: DatasetExpectation, minutes: int) -> ExpectedError:
    return after_minutes(expected.errors()[-1], minutes).error


if __name__ == "__main__":
    main()
