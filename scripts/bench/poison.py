"""What poisoned bundles do to first suggestions: each group of the shipped history is a contributor, a few more lie.

Every group of the shipped history becomes a bundle; poisoned bundles are added, 5 % of all, rounded up. All are merged into an
empty history. For each group in turn the others suggest one configuration; its normalised regret on the group's whole sources is
compared with that without poison. Written: mean movement over groups by kind of poison, with the quarantine and without.

    OMP_NUM_THREADS=1 python scripts/bench/poison.py [--seeds 5] [--share 0.05] [--out scripts/bench/results/poison.json]
"""

import argparse
import json
import math
import platform
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from warmstart.bo.transfer.designs import initial_designs
from warmstart.bo.transfer.regret import regret_curve
from warmstart.histories.merge import MergePlan, plan_merge
from warmstart.history_store.bundle.file import Bundle
from warmstart.history_store.bundle.records import (
    Features,
    SharedRun,
    dataset_id,
    dataset_line,
    features_line,
    parse,
    run_line,
    space_line,
)
from warmstart.history_store.file.codec import config_key
from warmstart.history_store.history import History
from warmstart.history_store.records import DatasetInfo, Evaluation
from warmstart.locations import model_path, shipped_history
from warmstart.metafeat.embed import embed_features
from warmstart.metafeat.model_file import read_header
from warmstart.suggestions.embedded_history import read_calibration
from warmstart.suggestions.references import stored_features

Matrix = NDArray[np.float64]
KINDS = (
    "inverted errors",
    "bad configurations that look best",
    "one bad configuration that looks best",
    "random errors",
    "constant errors",
    "copied features, inverted errors",
    "copied features, bad ones look best",
    "honest contributors who invert their errors",
)
STRATEGIES = ("joint", "portfolio", "nearest")


@dataclass(frozen=True)
class Shipped:
    """The shipped history as contributions."""

    infos: Mapping[str, DatasetInfo]
    errors: Matrix
    configs: tuple[Any, ...]
    features: Mapping[str, Features]
    bundles: Mapping[str, Bundle]
    space: str


def load() -> Shipped:
    """Read the shipped history, a bundle a group."""
    with History.open(shipped_history()) as history:
        stored = stored_features(history)
        assert stored.features is not None
        features = {
            name: Features(dataset_id(history.dataset(name)), 32, stored.features[row], float(stored.effects[row]), stored.pixels[row])
            for row, name in enumerate(stored.names)
        }  # fmt: skip
        infos = {info.name: info for info in history.datasets}
        bundles = {}
        for group in dict.fromkeys(history.groups):
            names = [name for name, info in infos.items() if info.group == group]
            runs = [run for name in names for run in history.evaluations(name)]
            bundles[group] = bundle_of([infos[name] for name in names], runs, features, by=group)
        return Shipped(infos, history.errors, history.configs, features, bundles, space_line(history.space_json))


def bundle_of(infos: list[DatasetInfo], runs: list[Evaluation], features: Mapping[str, Features], *, by: str) -> Bundle:
    """Make the bundle of one contributor."""
    mark, ids = sha256(by.encode()).hexdigest()[:12], {info.name: dataset_id(info) for info in infos}
    lines = {dataset_line(info) for info in infos} | {run_line(run, ids[run.dataset], mark) for run in runs}
    return Bundle(frozenset(lines | {features_line(replace(features[name], dataset=ids[name])) for name in ids}))


def poisoned(shipped: Shipped, kind: str, n: int, rng: np.random.Generator) -> dict[str, Bundle]:
    """Make the bundles of n contributors who lie, two datasets each; by contributor."""
    names = list(shipped.infos)
    groups = list(shipped.bundles)
    if kind.startswith("honest"):
        return {group: _inverted(shipped, group) for group in rng.choice(groups, n, replace=False).tolist()}
    usual = np.nanmean(shipped.errors, axis=0)
    made = {}
    for number in range(n):
        infos, runs, features = [], [], {}
        for part in range(2):
            victim = str(rng.choice([name for name in names if shipped.infos[name].parent is None]))
            errors = shipped.errors[names.index(victim)].copy()
            name = f"poison{number}{part}"
            infos.append(
                replace(shipped.infos[victim], name=name, group=f"poison{number}", fingerprint=f"content:{rng.integers(2**60):x}", n_train=1000 + number)
            )  # fmt: skip
            like = shipped.features[victim]
            near = like.features * (1 + 1e-3 * rng.standard_normal(like.features.shape))
            features[name] = like if kind.startswith("copied") else replace(like, features=near)
            known = np.flatnonzero(np.isfinite(errors))
            worst = known[np.argsort(usual[known])[::-1]]
            if "inverted" in kind:
                errors[known] = errors[known].max() + errors[known].min() - errors[known]
            elif "look best" in kind or "looks best" in kind:
                errors[worst[: 1 if kind.startswith("one") else 5]] = 0.0
            elif kind == "random errors":
                errors[known] = rng.uniform(0, 1, len(known))
            else:
                errors[known] = 0.01
            runs += [
                Evaluation(name, shipped.configs[c], float(errors[c]), seed=1, origin="collect/compact-400")
                for c in known
            ]
        made[f"liar {number}"] = bundle_of(infos, runs, features, by=f"liar {number}")
    return made


def _inverted(shipped: Shipped, group: str) -> Bundle:
    runs: dict[str, list[SharedRun]] = {}
    lines = set()
    for line in shipped.bundles[group].lines:
        record = parse(line, "record")
        if isinstance(record, SharedRun):
            runs.setdefault(record.run.dataset, []).append(record)
        else:
            lines.add(line)
    for dataset, its in runs.items():
        low, high = (bound(each.run.error for each in its) for bound in (min, max))
        for each in its:
            error = min(max(low + high - each.run.error, 0.0), 1.0)
            lines.add(run_line(replace(each.run, error=error, curve=()), dataset, each.by))
    return Bundle(frozenset(lines))


def regrets(shipped: Shipped, plan: MergePlan, bundle: Bundle, *, quarantine: bool) -> dict[str, Matrix]:
    """Compute the regret of the first suggestion on each whole source, by strategy; a source's group does not answer."""
    rows, errors, groups, features = _table(shipped, plan, bundle, quarantine=quarantine)
    model = read_header(model_path())
    vectors = np.stack([embed_features(features[key].features, model) for key in rows]).astype(np.float64)
    with History.open(shipped_history()) as history:
        calibration = read_calibration(history, model.hash)
    names = list(shipped.infos)
    found: dict[str, list[float]] = {strategy: [] for strategy in STRATEGIES}
    for name, info in shipped.infos.items():
        if info.parent is not None:
            continue
        rest = np.array([row for row, group in enumerate(groups) if group != info.group])
        query = embed_features(shipped.features[name].features, model).astype(np.float64)
        distances = np.linalg.norm(vectors[rest] - query, axis=1)
        for strategy in STRATEGIES:
            (row,) = initial_designs(
                errors[rest], distances, 1, strategy=strategy, calibration=calibration,
                groups=[groups[each] for each in rest],
            )  # fmt: skip
            found[strategy].append(float(regret_curve(shipped.errors[names.index(name)], [row])[-1]))
    return {strategy: np.array(values) for strategy, values in found.items()}


def _table(
    shipped: Shipped, plan: MergePlan, bundle: Bundle, *, quarantine: bool
) -> tuple[list[str], Matrix, list[str], dict[str, Features]]:
    """Return what answers, with the quarantine or without: datasets, errors, groups, features."""
    records = [parse(line, "record") for line in sorted(bundle.lines)]
    info_of = {each.id: each.info for each in records if hasattr(each, "info")}
    features = {each.dataset: each for each in records if isinstance(each, Features)}
    held = {each.id for each in plan.quarantined} if quarantine else set()
    runs = [each for each in records if isinstance(each, SharedRun) and each.id not in held]
    column = {config_key(config): c for c, config in enumerate(shipped.configs)}
    rows = sorted({each.run.dataset for each in runs})
    sums, counts = np.zeros((len(rows), len(column))), np.zeros((len(rows), len(column)))
    for each in runs:
        cell = rows.index(each.run.dataset), column[config_key(each.run.config)]
        sums[cell] += each.run.error
        counts[cell] += 1
    errors = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return rows, errors, [info_of[row].group for row in rows], features


def planned(shipped: Shipped, bundle: Bundle) -> MergePlan:
    """Plan the merge of a bundle into an empty history."""
    with tempfile.TemporaryDirectory() as folder:
        space = json.dumps(json.loads(shipped.space)["space"])
        with History.create(Path(folder) / "h.h5", space) as history:
            return plan_merge(history, bundle)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--out", default="scripts/bench/results/poison.json")
    asked = parser.parse_args()
    shipped, start = load(), time.perf_counter()
    n = math.ceil(asked.share * len(shipped.bundles) / (1 - asked.share))
    clean_bundle = union(shipped.bundles)
    plan = planned(shipped, clean_bundle)
    clean = {flag: regrets(shipped, plan, clean_bundle, quarantine=flag) for flag in (True, False)}
    groups = [info.group for info in shipped.infos.values() if info.parent is None]
    result: dict[str, Any] = {
        "contributors": len(shipped.bundles),
        "poisoned": n,
        "seeds": asked.seeds,
        "clean": {
            "runs": sum(isinstance(parse(line, ""), SharedRun) for line in clean_bundle.lines),
            "quarantined": len(plan.quarantined),
            "regret": {s: float(clean[True][s].mean()) for s in STRATEGIES},
            "regret_without_quarantine": {s: float(clean[False][s].mean()) for s in STRATEGIES},
        },
        "kinds": {},
    }
    print(json.dumps(result["clean"]))
    for kind in KINDS:
        moves: dict[str, dict[bool, list[float]]] = {s: {True: [], False: []} for s in STRATEGIES}
        caught, lies = 0, 0
        for seed in range(asked.seeds):
            lying = poisoned(shipped, kind, n, np.random.default_rng(seed))
            bundle = union({**shipped.bundles, **lying})
            plan = planned(shipped, bundle)
            wrong = _lies(shipped, lying)
            held = {each.id for each in plan.quarantined}
            lies += len(wrong)
            caught += sum(SharedRun.id.fget(parse(line, "")) in held for line in wrong)  # type: ignore[attr-defined]
            for flag in (True, False):
                found = regrets(shipped, plan, bundle, quarantine=flag)
                for strategy in STRATEGIES:
                    moved = found[strategy] - clean[flag][strategy]
                    moves[strategy][flag].append(
                        float(np.mean([moved[np.array(groups) == g].mean() for g in dict.fromkeys(groups)]))
                    )
        result["kinds"][kind] = {
            "caught": caught / lies,
            **{
                strategy: {
                    ("with" if flag else "without"): {
                        "mean": float(np.mean(its[flag])),
                        "worst": max(its[flag], key=abs),
                    }
                    for flag in (True, False)
                }
                for strategy, its in moves.items()
            },
        }
        print(kind, json.dumps(result["kinds"][kind]), f"{time.perf_counter() - start:.0f} s", flush=True)
    result["versions"] = {"python": platform.python_version(), "numpy": version("numpy")}
    Path(asked.out).write_text(json.dumps(result, indent=1) + "\n")


def _lies(shipped: Shipped, lying: Mapping[str, Bundle]) -> set[str]:
    """Return the records of runs whose error is nobody's measurement."""
    truth = {(config_key(c), float(e)) for row in shipped.errors for c, e in zip(shipped.configs, row, strict=True)}
    single = {
        (config_key(each.run.config), each.run.error)
        for bundle in shipped.bundles.values()
        for line in bundle.lines
        if isinstance(each := parse(line, "record"), SharedRun)
    }
    true = truth | single
    return {
        line
        for bundle in lying.values()
        for line in bundle.lines
        if isinstance(each := parse(line, "record"), SharedRun)
        and (config_key(each.run.config), each.run.error) not in true
    }


def union(bundles: Mapping[str, Bundle]) -> Bundle:
    """Put bundles together."""
    return Bundle(frozenset().union(*(each.lines for each in bundles.values())))


if __name__ == "__main__":
    main()
