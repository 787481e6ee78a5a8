"""A script or function of one's own as a workload, and what a collection makes of its failures."""

import json
import math
import sys

import numpy as np
import pytest
from objectives import blind

from warmstart.histories.collect import Job, Machines, collect_into
from warmstart.history_store.errors import AllTrialsFailedError, DataError, ModelError, UsageError
from warmstart.history_store.history import History
from warmstart.history_store.readers import open_arrays
from warmstart.history_store.records import Status
from warmstart.spaces import space_text
from warmstart.studies.own_workload import OwnScript, OwnWorkload
from warmstart.training.collection.settings import CollectionSettings
from warmstart.training.workloads import SourceDataset

SPACE = {"lr": {"log": [1e-4, 1.0]}, "model": ["small", "large"]}
SCRIPT = """
import json, sys
from pathlib import Path
data, lr, model, seed = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3], int(sys.argv[4])
with open("calls.txt", "a") as file:
    file.write(f"{data.name} {lr}\\n")
error = (0.1 if model == "small" else 0.3) + 0.1 * (data.stem == "night")
print(json.dumps({"step": 1, "error": 0.9}))
print(json.dumps({"step": 5, "error": error}))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    labels = np.arange(24) % 2
    for name in ("day", "night"):
        images = rng.integers(0, 100, (24, 8, 8, 1)) + labels[:, None, None, None] * 100
        np.savez(f"{name}.npz", images=images.astype(np.uint8), labels=labels)
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


COMMAND = f"{sys.executable} train.py {{warmstart.dataset}} {{lr}} {{model}} {{warmstart.seed}}"


def measure(folder, path="mine.h5", *, names=("day.npz", "night.npz"), space=SPACE, **more):
    script = OwnScript(**({"command": COMMAND} if "objective" not in more else {"objective": more.pop("objective")}))
    script = more.pop("script", script)
    job = Job(
        script=script, space=space, **{name: more.pop(name) for name in ("workload", "target_budget") if name in more}
    )
    machines = Machines(1, **{name: more.pop(name) for name in ("device",) if name in more})
    apart = {name: more.pop(name) for name in ("first", "progress") if name in more}
    settings = CollectionSettings(**more)
    return collect_into(
        folder / path, [folder / name for name in names], job=job, machines=machines, settings=settings, **apart
    )


def test_a_script_is_measured_configuration_by_configuration(folder):
    report = measure(folder, configs=2)
    assert (report["total"], report["measured"], report["complete_configs"]) == (4, {"ok": 4}, 2)
    calls = [line.split() for line in (folder / "calls.txt").read_text().splitlines()]
    assert [name for name, _ in calls] == ["day.npz", "night.npz"] * 2, "breadth first"
    assert calls[0][1] == calls[1][1] != calls[2][1]
    with History.open(folder / "mine.h5") as history:
        found = history.evaluations("night")
        assert {e.origin for e in found} == {"collect/own:train.py/all"}
        assert all(e.error == pytest.approx(0.2 if e.config["model"] == "small" else 0.4) for e in found)
        assert found[0].curve == ((1, 0.9), (5, found[0].error))
        assert history.dataset("day").source == str((folder / "day.npz").resolve())
    again = measure(folder, space=None, configs=3, names=())
    assert (again["known"], again["measured"]) == (4, {"ok": 2}), "the datasets of the history, by their paths"


@pytest.mark.parametrize(("configs", "failed"), [(1, 2)])
def test_nothing_of_a_script_that_never_works_is_kept(folder, configs, failed):
    (folder / "train.py").write_text("import sys; sys.exit('no such layer')")
    with pytest.raises(
        AllTrialsFailedError, match=f"{failed} that failed and none that did; the last crashed: .* no such layer"
    ):
        measure(folder, configs=configs)
    with History.open(folder / "mine.h5") as history:
        assert history.n_evaluations == 0


def test_failures_after_a_success_are_results(folder):
    (folder / "train.py").write_text("import sys; print(0.3) if 'day' in sys.argv[1] else sys.exit(3)")
    report = measure(folder, configs=1, names=("night.npz", "day.npz"), shards=folder / "text")
    assert report["measured"] == {"crashed": 1, "ok": 1}
    with History.open(folder / "mine.h5") as history:
        assert [e.status for e in history.evaluations("night")] == [Status.CRASHED]
    assert (folder / "text" / "night.jsonl").read_text().count("crashed") == 1


@pytest.mark.parametrize(
    ("more", "match"),
    [
        ({"space": None}, "space: expected the space of your script for a new history"),
        ({"script": OwnScript(command="python train.py {lr} {model}")}, r"expected {warmstart.dataset} in a command that is measured on 2"),
        ({"script": OwnScript(command="python train.py {warmstart.dataset} {lr}")}, "none for model"),
        ({"objective": blind}, "expected a function that takes the dataset.*def blind\\(config, dataset\\)"),
        ({"fractions": (0.5,)}, "fraction cannot be used with a script of your own"),
        ({"device": "cuda"}, "`workload`, `target_budget` and `device` cannot be used with a script"),
        ({"names": ()}, "expected datasets to measure, got none"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_before_anything_is_made(folder, more, match):
    with pytest.raises(UsageError, match=match):
        measure(folder, configs=1, **more)
    assert not (folder / "mine.h5").exists()


def test_the_workload_keeps_no_networks_and_checks_what_it_is_given(folder, tmp_path):
    workload = OwnWorkload(OwnScript(command=COMMAND), space_text(SPACE))
    images = np.random.default_rng(1).integers(0, 255, (30, 8, 8, 1)).astype(np.uint8)
    prepared = workload.prepare(SourceDataset(open_arrays(images, ["a", "b", "b"] * 10)))
    assert prepared.constant_error() == pytest.approx(1 / 3)
    config = {"lr": 0.01, "model": "small"}
    assert prepared.train(config, seed=0, budget=workload.budget(), timeout_s=0.0).status is Status.TIMEOUT
    heard = []
    found = prepared.train(
        config, seed=0, budget=workload.budget(), report=lambda step, error: heard.append((step, error))
    )
    assert (found.error, found.curve) == (0.1, ((1, 0.9), (5, 0.1)))
    assert heard == list(found.curve)
    with pytest.raises(DataError, match="configuration of train"):
        prepared.train({"lr": 5.0, "model": "small"}, seed=0, budget=workload.budget())
    with pytest.raises(UsageError, match="keeps its own"):
        prepared.train(config, seed=0, budget=workload.budget(), keep=True)
    with pytest.raises(ModelError, match="one of a script"):
        workload.load(tmp_path / "x")
    assert workload.cost(config, workload.budget(amount=4), n_train=3) == 4 < math.inf
    assert json.loads(json.dumps(workload.budget(amount=4).to_dict()))["script"] == "train.py"
