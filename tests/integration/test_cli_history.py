"""`history ...` end to end: what is made, added, recorded, moved, checked and taken out."""

import json
import shutil

import pytest
from bad_inputs import GOOD_CONFIG
from stripes import pictures, write_folder

from warmstart.history_store.history import History


@pytest.fixture
def copy(tiny, tmp_path):
    return shutil.copy(tiny.history, tmp_path / "copy.h5")


def test_create_takes_a_space_of_ones_own(cli, tmp_path):
    from ConfigSpace import ConfigurationSpace

    ConfigurationSpace({"depth": (1, 5), "kind": ["a", "b"]}).to_json(tmp_path / "space.json")
    assert cli("history", "create", tmp_path / "own.h5", "--space", tmp_path / "space.json").code == 0
    shown = cli("history", "show", tmp_path / "own.h5", "--format", "json").json()
    assert shown["hyperparameters"] == ["depth", "kind"]
    (tmp_path / "bad.json").write_text("{}")
    wrong = cli("history", "create", tmp_path / "other.h5", "--space", tmp_path / "bad.json")
    assert wrong.code == 3
    assert not (tmp_path / "other.h5").exists()
    assert "--space: expected compact, paper" in cli("history", "create", tmp_path / "x.h5", "--space", "huge").err


def test_add_record_list_show_remove(cli, tmp_path):
    path = tmp_path / "mine.h5"
    folder = write_folder(tmp_path / "photos", *pictures(1))
    assert cli("history", "create", path).code == 0
    added = cli(
        "history", "add", path, "--dataset", folder, "--name", "photos", "--group", "home", "--format", "json"
    ).json()
    assert added["dataset"]["n_train"] == 24
    assert added["dataset"]["fingerprint"].startswith("content:")
    run = ["history", "record", path, "--dataset", "photos", "--config", json.dumps(GOOD_CONFIG)]
    first = cli(
        *run, "--error", 0.25, "--duration", 3, "--seed", 7, "--curve", "[[10, 0.5], [20, 0.25]]", "--format", "json"
    ).json()
    assert first["n_evaluations"] == 1
    assert cli(*run, "--status", "oom", "--seed", 8, "--format", "json").json()["n_evaluations"] == 2
    (tmp_path / "config.json").write_text(json.dumps(GOOD_CONFIG | {"batch_size": 8}))
    cli("history", "record", path, "--dataset", "photos", "--config", f"@{tmp_path}/config.json", "--error", 0.125)
    with History.open(path) as history:
        runs = history.evaluations("photos")
    assert [(run.error, run.seed) for run in runs if run.status.has_error] == [(0.25, 7), (0.125, None)]
    assert runs[0].curve == ((10, 0.5), (20, 0.25))
    assert runs[0].duration == 3
    assert runs[1].status == "oom"
    (row,) = cli("history", "list", path, "--format", "json").json()["datasets"]
    assert (row["name"], row["group"], row["n_evaluations"], row["best_error"]) == ("photos", "home", 3, 0.125)
    shown = cli("history", "show", f"{path}::photos", "--format", "json").json()
    assert shown["statuses"] == {"ok": 2, "oom": 1}
    assert shown["best_config"]["batch_size"] == 8
    assert set(shown["ccov"]) == set(GOOD_CONFIG)
    assert cli("history", "remove", path, "photos", "--yes").code == 0
    assert cli("history", "list", path, "--format", "json").json()["datasets"] == []


def test_splits_of_the_source_are_kept(cli, copy, tmp_path):
    for part, n in (("train", 20), ("val", 8), ("test", 12)):
        write_folder(tmp_path / "parts" / part, *pictures(len(part), n))
    (tmp_path / "parts" / "train" / "class0" / "bad.png").write_text("hello")
    refused = cli("history", "add", copy, "--dataset", tmp_path / "parts", "--name", "parts", "--group", "g")
    assert refused.code == 3
    added = cli(
        *("history", "add", copy, "--dataset", tmp_path / "parts", "--name", "parts", "--group", "g"),
        *("--skip-broken", "--format", "json"),
    )
    dataset = added.json()["dataset"]
    assert (dataset["n_train"], dataset["n_val"], dataset["n_test"], dataset["left_out"]) == (20, 8, 12, 1)
    assert "left out" in added.err


@pytest.mark.parametrize("out", ["runs.parquet", "shards"])
def test_export_and_import_make_the_same_evaluations(cli, tiny, tmp_path, out):
    assert cli("history", "export", tiny.history, tmp_path / out, "--format", "json").json()["n_evaluations"] == 48
    made = cli("history", "import", tmp_path / "again.h5", tmp_path / out, "--format", "json").json()
    assert made["imported"] == 48
    rows = [
        cli("history", "list", path, "--format", "json").json()["datasets"]
        for path in (tiny.history, tmp_path / "again.h5")
    ]
    by_name = [sorted(row, key=lambda entry: entry["name"]) for row in rows]
    assert by_name[0] == by_name[1]


@pytest.mark.parametrize(
    ("out", "there", "text"),
    [
        ("labels.csv", "labels.csv", "image,label\na.png,cat\n"),
        ("runs.csv", "runs.json", '{"study": "s", "settings": {}, "running": 0}'),
    ],
)
def test_an_export_replaces_nothing_but_an_export(cli, tiny, tmp_path, out, there, text):
    (tmp_path / there).write_text(text)
    run = cli("history", "export", tiny.history, tmp_path / out)
    assert run.code == 2
    assert "OUT: expected a new file, or an export to replace, got" in run.err
    assert (tmp_path / there).read_text() == text
    (tmp_path / there).unlink()
    for _ in range(2):
        assert cli("history", "export", tiny.history, tmp_path / out).code == 0


def test_verify_finds_damage_and_restore_brings_the_backup_back(cli, copy):
    assert cli("history", "verify", copy, "--format", "json").json()["ok"] is True
    config = json.dumps(GOOD_CONFIG)
    assert cli("history", "record", copy, "-d", "stripes0", "--config", config, "--error", 0.5).code == 0
    assert cli("history", "compact", copy).code == 0
    whole = copy.read_bytes()
    copy.write_bytes(whole[:-5000])
    run = cli("history", "verify", copy, "--format", "json")
    assert (run.code, run.out) == (4, "")
    assert "--restore" in json.loads(run.err)["error"]["message"]
    restored = cli("history", "verify", copy, "--restore", "--format", "json")
    assert restored.code == 0, restored.err
    assert restored.json()["n_datasets"] == 6
    assert "brought back" in restored.err


def test_images_that_are_dropped_stay_in_the_backup_until_the_next_write(cli, copy):
    note = f"{copy}.bak keeps the images until the next write to the history; copy it first if you need them.\n"
    assert cli("history", "compact", copy, "--drop-images").err == note
    with History.open(copy) as history:
        assert not history.holds_images
    assert cli("history", "compact", copy, "--drop-images", "--out", f"{copy}.small").err == ""
    shutil.copy(f"{copy}.bak", f"{copy}.kept")
    with History.open(f"{copy}.kept") as kept:
        assert kept.has_images("stripes0")
    assert cli("history", "verify", copy).code == 0
    config = json.dumps(GOOD_CONFIG)
    assert cli("history", "record", copy, "-d", "stripes0", "--config", config, "--error", "0.5").code == 0
    with History.open(f"{copy}.bak") as backup:
        assert not backup.holds_images


def test_remove_asks_where_somebody_can_answer(cli, copy, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda text, err: False)
    run = cli("history", "remove", copy, "stripes0")
    assert run.code == 0
    assert run.out == ""
    assert "Nothing removed" in run.err
    monkeypatch.setattr("typer.confirm", lambda text, err: True)
    assert cli("history", "remove", copy, "stripes0").code == 0
    assert "stripes0" not in cli("history", "list", copy).out
