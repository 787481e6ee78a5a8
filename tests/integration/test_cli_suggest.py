"""`suggest` and `neighbours` end to end on the tiny history, from the shell and from Python."""

import json
import shutil

import numpy as np
import pytest
from stripes import pictures, write_folder

import warmstart
from warmstart.history_store.history import History


@pytest.fixture(autouse=True)
def _defaults(use_tiny):
    return use_tiny


def test_json_has_the_shape_of_the_contract(cli, photos, tiny):
    document = cli("suggest", "--dataset", photos, "-k", 5, "--format", "json").json()
    assert set(document) == {
        *("schema_version", "dataset", "neighbours", "suggestions", "strategy"),
        *("confidence", "history", "model", "seed", "measured_with", "expected_error"),
    }
    assert document["schema_version"] == 1
    assert document["dataset"]["path"] == str(photos)
    assert (document["dataset"]["n_images"], document["dataset"]["n_classes"]) == (40, 4)
    assert document["dataset"]["fingerprint"].startswith("listing:")
    assert document["history"] == str(tiny.history)
    assert document["model"] == str(tiny.model)
    assert len(document["suggestions"]) == 5
    configs = [json.dumps(suggestion["config"], sort_keys=True) for suggestion in document["suggestions"]]
    assert len(set(configs)) == 5
    distances = [neighbour["distance"] for neighbour in document["neighbours"]]
    assert len(distances) >= 3
    assert distances == sorted(distances)
    listed = {neighbour["name"]: neighbour for neighbour in document["neighbours"]}
    for suggestion in document["suggestions"]:
        assert {"config", "natural", "from", "distance", "source_error", "expected_regret"} <= set(suggestion)
        assert (suggestion["measured"], suggestion["not_measured"]) == (True, [])
        assert suggestion["expected_regret"] is None
        assert suggestion["natural"]["learning_rate"] == pytest.approx(
            10 ** suggestion["config"]["log10_learning_rate"]
        )
        assert listed[suggestion["from"]]["distance"] == suggestion["distance"]


def test_excluded_groups_do_not_answer(cli, photos):
    document = cli(
        "suggest", "--dataset", photos, "--exclude-group", "group1", "--exclude-group", "group2", "--format", "json"
    ).json()
    assert {neighbour["name"] for neighbour in document["neighbours"]} == {"stripes0", "stripes1"}
    assert document["confidence"]["typical"] is False
    assert document["confidence"]["distance_percentile"] is None
    assert document["strategy"] == "joint"


def test_far_from_everything_falls_back_to_the_portfolio_and_says_so(cli, tmp_path):
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 30
    far = write_folder(tmp_path / "far", rng.integers(0, 2, (60, 8, 8, 3), dtype=np.uint8) * np.uint8(255), labels)
    run = cli("suggest", "--dataset", far, "--format", "json")
    document = run.json()
    assert document["confidence"]["typical"] is False
    assert document["confidence"]["distance_percentile"] == 100.0
    assert document["strategy"] == "portfolio"
    between_two = cli("suggest", "--dataset", far, "--exclude-group", "group1", "--format", "json").json()["confidence"]
    assert between_two["distance_percentile"] is None
    assert "far_from_history" not in between_two["reasons"]
    assert "Confidence unknown: it takes 3 groups to tell what is far" in between_two["note"]
    assert "Far from everything" in document["confidence"]["note"]
    assert "Far from everything" in run.err
    assert [suggestion["from"] for suggestion in document["suggestions"]] == [None] * 3
    asked = cli("suggest", "--dataset", far, "--strategy", "nearest", "--format", "json").json()
    assert asked["strategy"] == "nearest"
    assert asked["suggestions"][0]["from"] is not None


def test_the_table_says_the_same_and_explains(cli, photos):
    run = cli("suggest", "--dataset", photos, "--explain")
    assert run.err == ""  # the note stands in the last lines of the table
    for part in (
        "The history is small: 6 datasets of 3 groups",
        "40 pictures of 4 classes, about ",
        "learning_rate",
        "elsewhere",
        "It resembles",
        "Where they come from (strategy joint)",
        "Why these datasets",
        "of the history's pairs",
        "1. reached error",
        "number 1 of the portfolio",
        "A portfolio that ignores your images would have said",
        "percentile",
    ):
        assert part in run.out
    assert "…" not in run.out


def test_reasons_agree_with_the_history(cli, photos, tiny):
    plain = cli("suggest", "--dataset", photos, "--format", "json").json()
    document = cli("suggest", "--dataset", photos, "--explain", "--format", "json").json()
    why = document.pop("explanation")
    assert document == plain
    with History.open(tiny.history) as history:
        errors = dict(zip(history.names, history.errors, strict=True))
        configs = list(history.configs)
    assert [near["name"] for near in why["neighbours"]] == [near["name"] for near in plain["neighbours"]]
    assert all(0 <= near["distance_percentile"] <= 100 for near in why["neighbours"])
    for reason, suggestion in zip(why["suggestions"], plain["suggestions"], strict=True):
        row = configs.index(suggestion["config"])
        source = errors[suggestion["from"]]
        assert reason["from"] == suggestion["from"]
        assert reason["source_error"] == source[row]
        assert reason["source_rank"] == 1 + (source < source[row]).sum()
        nearest = [near["name"] for near in plain["neighbours"]][:3]
        assert reason["ranks_on_nearest"][:3] == [1 + (errors[name] < errors[name][row]).sum() for name in nearest]
        assert reason["portfolio_place"] in (None, 1, 2, 3)
    from warmstart.bo.transfer.designs import initial_designs

    portfolio = initial_designs(np.stack([errors[name] for name in sorted(errors)]), k=3, strategy="portfolio")
    assert why["portfolio"] == [dict(configs[row]) for row in portfolio]


def test_a_calibrated_history_promises_a_regret(cli, photos, tiny, tmp_path):
    from warmstart.bo.transfer.calibration import Calibration
    from warmstart.metafeat.model_file import read_header
    from warmstart.suggestions.embedded_history import calibration_key

    copy = shutil.copy(tiny.history, tmp_path / "copy.h5")
    found = Calibration((0, 0, 1, 0, 0, 0), (0.0, 0.0), (1.0, 1.0), 3)
    with History.open(copy, write=True) as history:
        history.set_result(calibration_key(read_header(tiny.model).hash), found.to_dict())
    ask = ("suggest", "--dataset", photos, "--history", copy, "-k", 4, "--format", "json")
    regrets = [suggestion["expected_regret"] for suggestion in cli(*ask).json()["suggestions"]]
    assert regrets == sorted(regrets, reverse=True)
    assert all(0 <= regret <= 1 for regret in regrets)
    other = cli(*ask, "--strategy", "nearest").json()["suggestions"]
    assert [suggestion["expected_regret"] for suggestion in other] == [None] * 4
    assert "regret left" in cli("suggest", "--dataset", photos, "--history", copy, "--explain").out
    with History.open(copy, write=True) as history:
        history.set_result(calibration_key(read_header(tiny.model).hash), {"shares": []})
    run = cli(*ask)
    assert run.code == 4
    assert "Calibrate the history again" in run.err


def test_a_dataset_without_runs_is_no_neighbour_and_makes_nothing_typical(cli, photos, tiny, tmp_path):
    copy = shutil.copy(tiny.history, tmp_path / "copy.h5")
    before = cli("suggest", "--dataset", photos, "--history", copy, "--format", "json").json()
    assert cli("history", "add", copy, "--dataset", photos, "--name", "the-same", "--group", "home").code == 0
    after = cli("suggest", "--dataset", photos, "--history", copy, "--format", "json").json()
    for key in ("neighbours", "suggestions", "confidence", "strategy"):
        assert after[key] == before[key], key
    # What a dataset resembles can be asked all the same; it decides nothing there either.
    near = cli("neighbours", "--dataset", photos, "--history", copy, "--format", "json").json()
    assert near["neighbours"][0]["name"] == "the-same"
    assert near["neighbours"][0]["best_error"] is None
    assert near["confidence"] == before["confidence"]


def test_same_seed_same_answer_with_and_without_cache(cli, photos):
    asked = [cli("suggest", "--dataset", photos, "--format", "json", *more).out for more in ([], [], ["--no-cache"])]
    assert asked[0] == asked[1] == asked[2]


def test_broken_pictures_are_refused_or_left_out_and_named(cli, tmp_path):
    folder = write_folder(tmp_path / "some", *pictures(9))
    (folder / "class1" / "bad.png").write_text("hello")
    refused = cli("suggest", "--dataset", folder, "--strict")
    assert refused.code == 3
    assert "bad.png" in refused.err
    few = cli("suggest", "--dataset", folder)
    assert (few.code, "left out class1/bad.png: not a picture" in few.err) == (0, True)
    for _ in range(2):  # the cache must not swallow what was left out
        run = cli("suggest", "--dataset", folder, "--skip-broken", "--format", "json")
        assert run.json()["dataset"]["n_images"] == 41
        assert "left out" in run.err
        assert "bad.png" in run.err
    assert cli("suggest", "--dataset", folder, "--skip-broken", "-q").err == ""


def test_python_gives_the_same_designs(cli, photos):
    document = cli("suggest", "--dataset", photos, "--format", "json").json()
    designs = warmstart.suggest(photos, k=3)
    assert [design.to_dict() for design in designs] == document["suggestions"]
    assert isinstance(designs[0], warmstart.InitialDesign)
    assert [neighbour.to_dict() for neighbour in warmstart.neighbours(photos, k=3)] == document["neighbours"]


def test_python_takes_arrays_and_torch_datasets():
    import torch
    from torch.utils.data import TensorDataset

    images, labels = pictures(9)
    from_arrays = warmstart.suggest(images=images, labels=labels)
    tensors = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255
    from_dataset = warmstart.suggest(images=TensorDataset(tensors, torch.from_numpy(labels)))
    assert [design.config for design in from_arrays] == [design.config for design in from_dataset]
    assert len(warmstart.neighbours(images=images, labels=labels, k=2)) == 2


def test_neighbours_need_no_evaluations(cli, photos, tiny, tmp_path):
    from warmstart.history_store.images import ImageSet
    from warmstart.metafeat.model import MetaFeatureModel
    from warmstart.metafeat.spec import space_digest

    path = tmp_path / "bare.h5"
    with History.open(tiny.history) as history:
        empty = History.create(path, history.space_json)
        for name in tiny.names[:4]:
            stored = history.images(name)
            empty.add_dataset(
                history.dataset(name), ImageSet(stored.array, stored.labels, stored.class_names), stored.split
            )
        identity = {"history_id": empty.id, "space_digest": space_digest(empty.space_json)}
        empty.close()
    MetaFeatureModel.load(tiny.model).save(tmp_path / "m.safetensors", identity)
    files = ("--history", path, "--model", tmp_path / "m.safetensors", "--format", "json")
    found = cli("neighbours", "--dataset", photos, *files).json()["neighbours"]
    assert [neighbour["best_error"] for neighbour in found] == [None] * 4
    refused = cli("suggest", "--dataset", photos, *files)
    assert refused.code == 2
    assert "expected a history with runs, got none on the 4 datasets" in refused.err
