import csv
import io
import json

import pytest
import yaml

from warmstart.history_store.quoting import in_json, in_yaml, to_csv
from warmstart.suggestions.answer import Answer, suggestion_rows, to_configspace, to_optuna
from warmstart.suggestions.records import Confidence, DatasetSummary, InitialDesign, Neighbour

X = {
    "type": "uniform_float",
    "name": "x",
    "lower": -1.0,
    "upper": 1.0,
    "log": False,
    "default_value": 0.0,
    "meta": None,
}
N = {"type": "uniform_int", "name": "n", "lower": 1, "upper": 9, "log": False, "default_value": 3, "meta": None}
HEAD = {"conditions": [], "forbiddens": [], "name": "toy", "format_version": 0.4}
SPACE = json.dumps({"hyperparameters": [X, N], **HEAD})


@pytest.fixture
def answer():
    return Answer(
        DatasetSummary("photos", 40, 4, "listing:ab"),
        (Neighbour("mnist", 0.5, 0.1, (0.4, 0.6)), Neighbour("bare", 0.75, None)),
        (
            InitialDesign({"x": 0.25, "n": 3}, {}, "mnist", 0.5, 0.1, why="reached error 0.1"),
            InitialDesign({"x": -0.5}, {}),
        ),
        "nearest",
        Confidence(typical=True, distance_percentile=41.0, note="fine"),
        "h.h5",
        "m.safetensors",
        0,
        SPACE,
    )


def test_json_is_the_contract(answer):
    document = json.loads(in_json(answer.to_dict()))
    assert list(document) == [
        *("schema_version", "dataset", "neighbours", "suggestions", "strategy"),
        *("confidence", "history", "model", "seed", "expected_error"),
    ]
    assert document["dataset"] == {"path": "photos", "n_images": 40, "n_classes": 4, "fingerprint": "listing:ab"}
    assert document["neighbours"][1] == {"name": "bare", "distance": 0.75, "distance_range": None, "best_error": None}
    assert document["neighbours"][0]["distance_range"] == [0.4, 0.6]
    assert document["suggestions"][0] == {
        "config": {"x": 0.25, "n": 3},
        "natural": {},
        "from": "mnist",
        "distance": 0.5,
        "source_error": 0.1,
        "expected_regret": None,
        "expected_error": None,
        "measured": True,
        "not_measured": [],
    }
    assert document["confidence"] == {"typical": True, "distance_percentile": 41.0, "note": "fine", "reasons": []}


def test_yaml_says_the_same(answer):
    assert yaml.safe_load(in_yaml(answer.to_dict())) == answer.to_dict()


def test_csv_has_one_row_a_suggestion_and_empty_cells_for_none(answer):
    rows = list(csv.DictReader(io.StringIO(to_csv(suggestion_rows(answer)))))
    known = {"rank": "1", "x": "0.25", "n": "3", "from": "mnist", "distance": "0.5", "source_error": "0.1"}
    assert rows[0] == known | {"expected_regret": "", "measured": "True"}
    unknown = dict.fromkeys(("n", "from", "distance", "source_error", "expected_regret"), "")
    assert rows[1] == unknown | {"rank": "2", "x": "-0.5", "measured": "True"}


def test_optuna_program_enqueues_the_points_in_order(answer):
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    names: dict = {}
    exec(to_optuna(answer), names)
    study = names["study"]
    study.optimize(lambda trial: trial.suggest_float("x", -1, 1) + trial.suggest_int("n", 1, 9), n_trials=2)
    assert study.trials[0].params == {"x": 0.25, "n": 3}
    assert study.trials[1].params["x"] == -0.5


def test_configspace_accepts_its_own_configurations(answer):
    from ConfigSpace import Configuration, ConfigurationSpace

    document = json.loads(to_configspace(answer))
    space = ConfigurationSpace.from_serialized_dict(document["space"])
    assert dict(Configuration(space, values=document["configurations"][0])) == {"x": 0.25, "n": 3}
