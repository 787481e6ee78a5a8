"""`fit-similarity` end to end: a model, its curves, its embeddings, its checkpoint."""

import json
import shutil

import pytest

from warmstart.history_store.history import History
from warmstart.history_store.records import DatasetInfo
from warmstart.metafeat.model_file import read_header


@pytest.fixture
def copy(tiny, tmp_path):
    return shutil.copy(tiny.history, tmp_path / "copy.h5")


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(("--extractor", "adf"), marks=pytest.mark.slow),
        ("--extractor", "bilstm", "--target", "normalised"),
        pytest.param(
            ("--extractor", "attention", "--backbone", "residual", "--handcrafted", "--target", "rank"),
            marks=pytest.mark.slow,
        ),
    ],
    ids=" ".join,
)
def test_train_makes_a_model_that_suggest_uses(cli, copy, tmp_path, photos, more):
    out = tmp_path / "own.safetensors"
    call = [
        "fit-similarity",
        "--history",
        copy,
        "--out",
        out,
        *more,
        "--steps",
        3,
        "--hold-out-group",
        "group1",
    ]
    run = cli(*call, "--format", "json")
    assert run.code == 0, run.err
    report = run.json()
    assert report["steps"] == 3
    assert report["held_out"] == ["stripes2", "stripes3"]
    assert set(report["quality"]) == {"spearman", "per_query", "n_pairs"}
    assert report["quality"]["n_pairs"] == 2 * 4
    assert "spearman and per_query compare 8 pairs of datasets: so few say little" in " ".join(run.err.split())
    assert len(json.loads((tmp_path / "own.safetensors.curves.json").read_text())["loss"]) == 3
    assert (tmp_path / "own.safetensors.curves.png").read_bytes().startswith(b"\x89PNG")
    assert not (tmp_path / "own.safetensors.checkpoint").exists()
    spec = read_header(out).spec
    assert (spec.extractor, spec.handcrafted) == (more[1], "--handcrafted" in more)
    assert spec.target == (more[more.index("--target") + 1] if "--target" in more else "mean_l1")
    assert spec.backbone == ("residual" if "--backbone" in more else "paper")
    answered = cli("suggest", "--dataset", photos, "--history", copy, "--model", out, "--format", "json")
    assert answered.code == 0, answered.err
    assert "embedded" not in answered.err  # the embeddings were stored by the training


def test_same_seed_same_model(cli, copy, tmp_path):
    hashes = [
        cli(
            "fit-similarity",
            "--history",
            copy,
            "--out",
            tmp_path / f"{i}.safetensors",
            "--steps",
            2,
            "--seed",
            5,
            "--format",
            "json",
        ).json()["hash"]
        for i in range(2)
    ]
    assert hashes[0] == hashes[1]


def test_a_stopped_run_is_resumed(cli, copy, tmp_path):
    out = tmp_path / "own.safetensors"
    call = ["fit-similarity", "--history", copy, "--out", out, "--steps", 4, "--format", "json"]
    stopped = cli(*call, "--budget", "0.001s")
    assert "--resume goes on" in stopped.err
    assert stopped.json()["steps"] < 4
    refused = cli(*call)
    assert refused.code == 2
    assert "expected --resume where an unfinished run lies" in refused.err
    assert cli(*call, "--resume").json()["steps"] == 4
    whole = tmp_path / "whole.safetensors"
    assert cli("fit-similarity", "--history", copy, "--out", whole, "--steps", 4).code == 0
    losses = [json.loads(path.with_name(path.name + ".curves.json").read_text())["loss"] for path in (out, whole)]
    assert losses[0] == losses[1]


@pytest.mark.parametrize(
    ("more", "code", "match"),
    [
        (["--hold-out-group", "group9"], 2, "--hold-out-group: expected groups"),
        (["--extractor", "cnn"], 2, "--extractor: "),
        (["--target", "l2"], 2, "--target: "),
        (["--backbone", "resnet"], 2, "--backbone: "),
        (["--steps", 0], 2, "--steps: "),
        (["--budget", "soon"], 2, "expected a length of time above 0, got 'soon'"),
    ],
)
def test_wrong_options_are_told(cli, copy, tmp_path, more, code, match):
    run = cli("fit-similarity", "--history", copy, "--out", tmp_path / "m.safetensors", *more)
    assert run.code == code
    assert match in run.err


def test_a_group_that_is_left_out_cannot_be_held_out(cli, copy, tmp_path):
    with History.open(copy, write=True) as history:
        history.add_dataset(DatasetInfo("bare", "bare group", 20, 0, 0, 2))
    run = cli(
        "fit-similarity", "--history", copy, "--out", tmp_path / "m.safetensors", "--hold-out-group", "bare group"
    )
    assert run.code == 2
    assert (
        "--hold-out-group: expected groups with datasets to validate on, got bare group, whose datasets lack" in run.err
    )


def test_a_history_without_images_is_told(cli, copy, tmp_path):
    cli("history", "compact", copy, "--drop-images", "--out", tmp_path / "bare.h5")
    run = cli("fit-similarity", "--history", tmp_path / "bare.h5", "--out", tmp_path / "m.safetensors", "--steps", 1)
    assert run.code == 3
    assert "expected images of" in run.err


def test_a_folder_that_is_not_there_is_told_before_the_training(cli, copy, tmp_path):
    run = cli("fit-similarity", "--history", copy, "--out", tmp_path / "no" / "m.safetensors", "--steps", 1)
    assert run.code == 2
    assert "--out: expected a file in a folder that exists" in run.err


def test_a_file_that_is_no_model_is_never_replaced(cli, copy, tmp_path):
    before = copy.read_bytes()
    (tmp_path / "notes.txt").write_text("mine")
    for out in (copy, tmp_path / "notes.txt", tmp_path):
        run = cli("fit-similarity", "--history", copy, "--out", out, "--steps", 1)
        assert run.code == 2
        assert f"--out: expected a new file, or a model to replace, got {out}, which is" in " ".join(run.err.split())
    assert copy.read_bytes() == before
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.h5", "notes.txt"]


def test_an_older_model_and_an_empty_file_are_replaced(cli, copy, tmp_path):
    out = tmp_path / "m.safetensors"
    out.touch()
    for seed in (0, 1):
        run = cli("fit-similarity", "--history", copy, "--out", out, "--steps", 1, "--seed", seed, "--format", "json")
        assert run.code == 0, run.err
        assert read_header(out).hash == run.json()["hash"]


def test_datasets_without_a_common_configuration_are_refused(tmp_path, tiny, photos, cli):
    from warmstart.history_store.history import History
    from warmstart.history_store.records import Evaluation

    own = tmp_path / "random.h5"
    with History.open(tiny.history) as known, History.create(own, known.space_json):
        configs = list(known.configs)
    for number in range(3):
        assert cli("history", "add", own, "-d", photos, "--name", f"d{number}", "--group", f"g{number}").code == 0
        with History.open(own, write=True) as history:
            history.append(Evaluation(f"d{number}", dict(configs[number]), 0.5))
    run = cli("fit-similarity", "--history", own, "--out", tmp_path / "m.safetensors")
    assert run.code == 2
    said = "expected configurations that at least half of the 3 datasets with images and runs have in common, got none"
    assert said in " ".join(run.err.split())


def test_a_backbone_of_a_model_that_looks_at_no_image_is_refused(cli, copy, tmp_path):
    call = ["fit-similarity", "--history", copy, "--out", tmp_path / "m.safetensors", "--extractor", "handcrafted"]
    run = cli(*call, "--backbone", "residual")
    assert run.code == 2
    assert "--backbone cannot be used with the extractor handcrafted" in run.err
