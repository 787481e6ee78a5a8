"""How good the promises of `suggest` are for pretrained networks: RMSE, and how often ranges hold, groups left out.

    python scripts/bench/promises.py [--shards data_manifests/measured/pixels-frozen] [--history FILE] [--out FILE.json]

Each dataset is asked about with its whole family left out: its group, and the groups of the older history that show the same
pictures or the like. What came is, at the pictures' own pixels, the error of the joined classifiers of `classify` on pictures
that were not given (scripts/bench/joined_heads.py; 3 minutes of one core), and with `--ten` what ten minutes came to;
for pictures of 32 pixels the least error of the history's feature sets. The square of an RMSE contains the sampling variance of
what came, which is subtracted beside it.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from runs import write_report

from warmstart.bo.transfer.expected_error import DatasetExpectation, ExpectedError
from warmstart.locations import history_path, model_path
from warmstart.suggestions.embedded_history import EmbeddedHistory, load_embedded_history
from warmstart.suggestions.expectations import expectation_of, forecaster_of
from warmstart.suggestions.own_pixels import after_minutes, side_of

OLD = 32
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
    columns = [
        column
        for column, config in enumerate(embedded.configs)
        if all(config[name] == value for name, value in FIRST.items()) and not np.isnan(embedded.errors[row, column])
    ]
    return max(columns, key=lambda column: int(str(embedded.configs[column]["image_size"])), default=None)


def table(told: Sequence[ExpectedError], came: Sequence[float], n: Sequence[int], family: Sequence[int]) -> dict:
    """Return the figures of promises: how far off, how many hold, with standard errors over families."""
    value, truth = np.array([each.value for each in told]), np.array(came)
    variance = truth * (1 - truth) / np.array(n)
    held = np.array([each.low <= truth[i] <= each.high for i, each in enumerate(told)], dtype=float)
    by_family = [held[np.array(family) == each] - held.mean() for each in sorted(set(family))]
    error = float(np.sqrt(sum(each.sum() ** 2 for each in by_family))) / len(held)
    return {
        "datasets": len(held),
        "families": len(by_family),
        "rmse": float(np.sqrt(np.mean((value - truth) ** 2))),
        "rmse less sampling": float(np.sqrt(max(0.0, np.mean((value - truth) ** 2 - variance)))),
        "bias": float(np.mean(value - truth)),
        "held": float(held.mean()),
        "its standard error": error,
        "too pessimistic": int(sum(each.low > truth[i] for i, each in enumerate(told))),
        "too optimistic": int(sum(each.high < truth[i] for i, each in enumerate(told))),
        "width": float(np.mean([each.high - each.low for each in told])),
        "mean that came": float(truth.mean()),
    }


def expectation_without(embedded: EmbeddedHistory, family: Sequence[int], row: int) -> DatasetExpectation:
    """Forecast the errors on a dataset without its family."""
    rows = [other for other, each in enumerate(family) if each != family[row]]
    forecaster, references = forecaster_of(embedded, rows), embedded.references
    assert forecaster is not None  # noqa: S101  of many groups
    assert references is not None and references.features is not None  # noqa: S101, PT018
    info = embedded.about.at([row])[0]
    features = references.features[references.names.index(info.name)]
    return expectation_of(forecaster, features, n_val=None, side=side_of(info))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=Path, default=Path("data_manifests/measured/pixels-frozen"))
    parser.add_argument("--history", type=Path)
    parser.add_argument("--ten", type=Path, nargs="*", default=[Path("scripts/bench/results/ten-minutes.json")])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    about = json.loads((options.shards / "collection.json").read_text())["datasets"]
    embedded = load_embedded_history(
        options.history or history_path(None, workload="transfer"), model_path(None, workload="transfer")
    )
    family = families(embedded, about)
    reached = np.full(len(family), np.nan) if embedded.reached is None else embedded.reached.of(embedded.names)
    expected = {row: expectation_without(embedded, family, row) for row in range(len(family))}
    facts = embedded.about.at(range(len(family)))
    own = [row for row in expected if not np.isnan(reached[row])]
    old = [row for row in expected if side_of(facts[row]) == OLD]
    asked = [facts[row].n_images for row in own]

    def own_table(told: Sequence[ExpectedError]) -> dict:
        return table(told, reached[own].tolist(), asked, [family[row] for row in own])

    found: dict = {"own pixels, 3 minutes": own_table([after_minutes(expected[row].errors()[-1], 3).error for row in own])}
    updated = []
    for row in own:
        column = first_column(embedded, row)
        measured = {} if column is None else {column: float(embedded.errors[row, column])}
        updated.append(expected[row].errors(measured)[-1])
    found["own pixels, 3 minutes, after the first head"] = own_table(updated)
    found["32 pixels, the best feature set"] = table(
        [expected[row].errors()[-1] for row in old],
        [float(np.nanmin(embedded.errors[row])) for row in old],
        [facts[row].n_images for row in old],
        [family[row] for row in old],
    )
    for file in options.ten:
        played = {name: each for name, each in json.loads(file.read_text())["wrong"].items() if "now" in each}
        rows = [row for row in expected if embedded.names[row] in played]
        runs = [played[embedded.names[row]] for row in rows]
        found[f"own pixels, 10 minutes, {file.stem}"] = table(
            [after_minutes(expected[row].errors()[-1], 10).error for row in rows],
            [run["now"] / run["asked"] for run in runs],
            [run["asked"] for run in runs],
            [family[row] for row in rows],
        )
    found["sets"] = {
        embedded.names[row]: {"told": expected[row].errors()[-1].to_dict(), "came": round(float(reached[row]), 4)}
        for row in own
    }
    write_report(found, options.out)


if __name__ == "__main__":
    main()
