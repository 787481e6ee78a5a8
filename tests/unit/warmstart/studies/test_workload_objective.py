from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from warmstart.history_store.errors import LabelError, UsageError
from warmstart.studies.execution.trial_process import TrialRunner
from warmstart.studies.objectives.load import load_objective
from warmstart.training.collection.measure import Measure
from warmstart.training.collection.plan import Cell
from warmstart.training.workloads.cnn.budget import Budget
from warmstart.training.workloads.cnn.space import target_space

NAMES = tuple(target_space())
CONFIG = {
    "log10_learning_rate": -2.5,
    "log10_decay_rate": -5.0,
    "batch_size": 8,
    "num_layers_conv": 1,
    "num_layers_fc": 1,
    "dropout_rate": 0.1,
}


def test_it_measures_what_a_collection_measures(tiny, photos):
    name = tiny.names[0]
    measured = Measure(tiny.history, Budget("few", updates=12, decay_updates=100_000), device="cpu")(
        Cell(name, CONFIG, 3, 0)
    )
    objective = load_objective(names=NAMES, dataset=f"{tiny.history}::{name}", device="cpu")
    heard = []
    result = objective(CONFIG, seed=3, budget=12.0, report=lambda *point: heard.append(point))
    assert (result["error"], result["status"]) == (measured.evaluation.error, "ok")
    assert tuple(heard) == measured.evaluation.curve
    assert objective(CONFIG, seed=3, budget=12.0, report=lambda *_: None)["error"] == result["error"]


def test_a_folder_is_read_once_and_a_diverged_run_has_an_error(photos):
    with TrialRunner(load_objective(names=NAMES, dataset=str(photos), device="cpu")) as runner:
        learned = runner.run(CONFIG, seed=0, budget=40)
        diverged = runner.run(CONFIG | {"log10_learning_rate": 30.0}, seed=0, budget=4)
        pruned = runner.run(CONFIG, seed=0, budget=40, report=lambda step, error: step >= 20)
        wrong = runner.run({"x": 1}, seed=0)
    assert learned.error < 0.75  # what guessing one of four classes gives
    assert (diverged.status, diverged.error) == ("diverged", 0.75)
    assert (pruned.status, pruned.curve) == ("pruned", learned.curve[:4])
    assert wrong.status == "crashed"
    assert wrong.note.startswith("DataError: target network: expected numbers for log10_learning_rate")


def one_class(folder: Path) -> str:
    for number in range(8):
        (folder / "photos" / "only").mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8), number, np.uint8)).save(folder / "photos" / "only" / f"{number}.png")
    return str(folder / "photos")


@pytest.mark.parametrize(
    ("dataset", "options", "error", "message"),
    [
        (one_class, {}, LabelError, r"photos: expected .*classes"),
        (one_class, {"device": "abacus"}, UsageError, r"^device: expected cpu, cuda or auto, got 'abacus'"),
        (
            one_class,
            {"names": ("x",)},
            UsageError,
            r"^space: expected the hyperparameters of the workload 'cnn', got none named batch_size.*`batch_size: \{value: 20\}` keeps",
        ),
    ],
)
def test_what_it_cannot_use_is_said_before_the_first_trial(dataset, options, error, message, tmp_path):
    named = {"names": NAMES, "dataset": dataset(tmp_path), "device": "cpu"} | options
    with pytest.raises(error, match=message):
        load_objective(**named).prepare()
