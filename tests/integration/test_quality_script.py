"""scripts/quality.py on a small history whose embeddings are known to be good."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from history_store.history import History
from history_store.records import DatasetInfo, Evaluation
from history_store.space import dump_space, sobol_configs, target_space, to_unit

SCRIPT = Path(__file__).parents[2] / "scripts" / "quality.py"


@pytest.fixture
def files(tmp_path):
    """Write a history of twelve datasets in ten groups, good embeddings of them and random ones."""
    space, rng = target_space(), np.random.default_rng(0)
    configs = sobol_configs(space, 12)
    unit, traits = to_unit(space, configs), rng.random((12, 6))
    names = [f"set{i}" for i in range(12)]
    groups = [f"group{max(i - 2, 0)}" for i in range(12)]
    path = tmp_path / "history.h5"
    with History.create(path, dump_space(space), configs=configs) as history:
        for name, group in zip(names, groups, strict=True):
            history.add_dataset(DatasetInfo(name, group, n_train=10, n_val=5, n_test=5, n_classes=2))
        history.extend(
            Evaluation(name, config, float(np.abs(row - point).mean()))
            for name, row in zip(names, traits, strict=True)
            for config, point in zip(configs, unit, strict=True)
        )
    order = rng.permutation(12)
    stored = {"names": np.array(names)[order]}
    np.savez(tmp_path / "good.npz", **stored, **dict.fromkeys(set(groups), traits[order]))
    np.savez(tmp_path / "random.npz", **stored, **dict.fromkeys(set(groups), rng.random((12, 6))))
    return tmp_path


def run(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, args)], capture_output=True, text=True, check=False)


def test_reports_what_good_embeddings_are_worth(files):
    done = run(files / "history.h5", files / "good.npz", "--baseline", files / "random.npz", "--out", files / "q.json")
    assert done.returncode == 0, done.stderr
    report = json.loads((files / "q.json").read_text())
    assert (report["n_datasets"], report["n_groups"], report["n_configs"]) == (12, 10, 12)
    assert report["spearman"] > 0.5 > report["spearman_baseline"]
    assert report["spearman_less_baseline"]["low"] > 0
    assert report["nearest_less"]["shuffled"]["1"]["mean"] < 0
    assert set(report["regret"]) == {"nearest", "shuffled", "portfolio", "random"}
    assert 0 <= report["typical_share"] <= 1
    assert all(set(values) == {"1", "3", "5"} for values in report["regret"].values())


def test_refuses_embeddings_of_other_datasets(files):
    with np.load(files / "good.npz") as file:
        arrays = dict(file)
    np.savez(files / "short.npz", **{**arrays, "names": arrays["names"][:-1]})
    assert "expected embeddings of the history's 12 datasets" in run(files / "history.h5", files / "short.npz").stderr
    del arrays["group3"]
    np.savez(files / "gap.npz", **arrays)
    assert "held-out group 'group3'" in run(files / "history.h5", files / "gap.npz").stderr
