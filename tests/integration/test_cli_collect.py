"""`history collect` from the command line: wrong calls quickly, a real collection and an interrupt slowly."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image
from stripes import pictures

MANIFEST = """
name = "stripes"
group = "stripes"
what = "stripes in four directions"
source = "drawn by a test"
licence = "CC0"

[obtain]
kind = "file"
path = "stripes.npz"
"""


@pytest.fixture
def source(tmp_path):
    images, labels = pictures(0, size=8)
    np.savez(tmp_path / "stripes.npz", images=images, labels=labels)
    (tmp_path / "stripes.toml").write_text(MANIFEST)
    return tmp_path


def call(source, *more):
    files = [str(source / "stripes.toml"), "--history", str(source / "h.h5"), "--root", str(source)]
    return ["history", "collect", *files, "--workers", "1", "--device", "cpu", "--format", "json", *more]


@pytest.mark.parametrize(
    ("more", "code", "match"),
    [
        (["--configs", "0"], 2, "--configs: expected at least 1"),
        (["--target-budget", "huge"], 2, "--target-budget: expected one of compact-400"),
        (["--budget", "soon"], 2, "expected a length of time above 0, got 'soon'"),
        (["--fraction", "0.123"], 2, "--fraction: expected whole percentages"),
        (["--device", "abacus"], 2, "--device: expected cpu, cuda or auto"),
        (["nowhere.toml"], 2, "nowhere.toml: expected a manifest"),
    ],
)
def test_wrong_calls_are_told(source, cli, more, code, match):
    run = cli(*call(source, *more))
    assert run.code == code
    assert run.out == ""
    assert match in json.loads(run.err)["error"]["message"]
    assert not list(source.glob("h.h5*")), "nothing is left of a history that was made for it"


def test_another_space_than_that_of_the_history_is_refused_by_name(source, cli):
    (source / "mine.yaml").write_text("lr: {log: [1e-4, 0.1]}\nbatch_size: [8, 16, 32]\n")
    assert cli("history", "create", source / "h.h5", "--space", "compact").code == 0
    asked = ["history", "collect", source / "stripes.npz", "--history", source / "h.h5", "--format", "json"]
    for more in (["--command", "echo {lr} {batch_size}"], ["--command", "echo {epochs}"], []):
        run = cli(*asked, "--space", source / "mine.yaml", *more)
        assert run.code == 2
        message = json.loads(run.err)["error"]["message"]
        assert message.startswith(f"--space: expected the space of {source / 'h.h5'}, which is there already, got one")
        assert "adds lr, lacks dropout_rate, " in message


def test_what_a_history_holds_stays_when_a_collection_is_refused(source, cli):
    assert cli("history", "create", source / "h.h5", "--space", "compact").code == 0
    images, _ = pictures(0, size=8)
    np.savez(source / "one.npz", images=images, labels=np.zeros(len(images), int))
    files = ["--history", source / "h.h5", "--workers", "1", "--device", "cpu", "--configs", "1"]
    assert cli("history", "collect", source / "one.npz", *files).code == 3
    assert cli("history", "verify", source / "h.h5").code == 0
    assert cli("history", "collect", source / "one.npz", "--history", source / "new.h5", "--device", "cpu").code == 3
    assert not list(source.glob("new.h5*"))


def test_a_script_that_prints_no_error_is_told_of_options(source, cli, caplog):
    (source / "mine.yaml").write_text("lr: {log: [1e-4, 0.1]}\n")
    asked = ["history", "collect", source / "stripes.npz", "--history", source / "h.h5", "--configs", "1"]
    run = cli(*asked, "--space", source / "mine.yaml", "--command", "echo acc {lr}", "--format", "json")
    assert run.code == 5
    hint = "--score acc reads 'acc "
    assert hint in json.loads(run.err.splitlines()[-1])["error"]["message"]
    assert hint in caplog.text
    run = cli(*asked, "--space", source / "mine.yaml", "--command", "echo acc {lr}", "--score", "acc")
    assert run.code == 0, run.err


def test_a_folder_keeps_its_own_parts(tmp_path, cli):
    from warmstart.history_store.history import History

    images, labels = pictures(0)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        part = ("train", "train", "val", "test")[number % 4 if number < 32 else 0]
        place = tmp_path / "photos" / part / str(label)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number:03}.png")
    counts = [len(list((tmp_path / "photos" / part).glob("*/*.png"))) for part in ("train", "val", "test")]
    (tmp_path / "mine.yaml").write_text("lr: {log: [1e-4, 0.1]}\n")
    script = ["--space", tmp_path / "mine.yaml", "--command", "echo {lr}", "--configs", "1", "--workers", "1"]
    run = cli("history", "collect", tmp_path / "photos", "--history", tmp_path / "h.h5", *script)
    assert run.code == 0, run.err
    added = ["history", "add", tmp_path / "h.h5", "--dataset", tmp_path / "photos", "--name", "b", "--group", "photos"]
    assert cli(*added).code == 0
    with History.open(tmp_path / "h.h5") as history:
        collected, typed = history.datasets
        assert [collected.n_train, collected.n_val, collected.n_test] == counts
        assert collected.split_seed is None
        for of_one, of_other in zip(*(history.images(each.name).split for each in (collected, typed)), strict=True):
            assert of_one == of_other


def test_a_manifest_that_is_none_is_bad_data(source, cli):
    (source / "stripes.toml").write_text("name = 3")
    run = cli(*call(source))
    assert run.code == 3
    assert not (source / "h.h5").exists()


def test_configurations_to_measure_first_are_checked(source, cli):
    file = source / "first.json"
    for text, code, match in [
        ("hello", 3, "expected JSON"),
        ("[1, 2]", 3, "expected a list of configurations"),
        ("[]", 3, "expected a list of configurations"),
        ('[{"batch_size": 7}]', 3, "first.json: configuration {'batch_size': 7}: expected one that the space"),
    ]:
        file.write_text(text)
        run = cli(*call(source, "--first", file))
        assert run.code == code, run.err
        message = json.loads(run.err)["error"]["message"]
        assert match in message
        assert message.startswith(f"--first: {file}: ")
        assert not list(source.glob("h.h5*"))
    missing = cli(*call(source, "--first", source / "none.json"))
    assert missing.code == 2
    assert "--first: " in json.loads(missing.err)["error"]["message"]


def test_images_of_ones_own_need_no_manifest(source):
    from warmstart.histories.collect import open_sources
    from warmstart.history_store.errors import ManifestError, MissingPathError

    for name in ("my pictures (2)", "Größen", "写真", "絵"):
        (source / name).mkdir()
    assert [each.name for each in open_sources([source / "Größen", source / "写真", source / "絵"])] == [
        "Größen",
        "写真",
        "絵",
    ]
    found = open_sources([source / "stripes.toml", source / "my pictures (2)"])
    assert [(manifest.name, manifest.group) for manifest in found] == [
        ("stripes", "stripes"),
        ("my-pictures-2", "my-pictures-2"),
    ]
    assert open_sources([source])[0].name == "stripes", "a folder of manifests"
    with pytest.raises(
        ManifestError, match=r"expected a name of its own, got 'stripes' again.*rename its file or folder"
    ):
        open_sources([source / "stripes.toml", source / "stripes.npz"])
    with pytest.raises(MissingPathError, match="expected a manifest, or images to measure"):
        open_sources([source / "nowhere"])


def test_broken_pictures_are_refused_or_left_out_and_named(tmp_path, cli):
    for number, (image, label) in enumerate(zip(*pictures(0), strict=True)):
        place = tmp_path / "photos" / str(label)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(place / f"{number:03}.png")
    broken = sorted((tmp_path / "photos" / "1").iterdir())[0]
    broken.write_bytes(b"no picture")
    script = tmp_path / "job.py"
    script.write_text("def error(config, *, dataset):\n    return config['lr']\n")
    (tmp_path / "space.yaml").write_text("lr: {log: [1e-4, 0.1]}\n")
    call = ["history", "collect", tmp_path / "photos", "--history", tmp_path / "h.h5", "--objective", f"{script}:error", "--space", tmp_path / "space.yaml", "--configs", "2", "--workers", "1"]  # fmt: skip
    refused = cli(*call)
    assert refused.code == 3
    assert (
        f"1/{broken.name} (not a picture). Repair or remove them, or go on without them: --skip-broken." in refused.err
    )
    found = cli(*call, "--skip-broken")
    assert found.code == 0, found.err
    assert f"left out 1/{broken.name}: not a picture" in found.err
    again = cli(*call)
    assert again.code == 0, "its pictures are in the history"
    listed = json.loads(cli("history", "list", "--history", tmp_path / "h.h5", "--format", "json").out)
    (one,) = listed["datasets"]
    assert one["n_train"] + one["n_val"] + one["n_test"] == len(pictures(0)[1]) - 1
    assert one["n_evaluations"] == 2


def test_without_datasets_no_history_is_made(cli, tmp_path):
    run = cli("history", "collect", "--history", tmp_path / "typo.h5")
    assert run.code == 2
    assert "typo.h5: expected a history with datasets to measure, got nothing there. Check the path" in " ".join(
        run.err.split()
    )
    assert list(tmp_path.iterdir()) == []


def test_configurations_are_read_as_suggest_writes_them(tmp_path):
    from warmstart.histories.collect import read_configs
    from warmstart.history_store.errors import DataError

    file, configs = tmp_path / "c.json", [{"a": 1}, {"a": 2}]
    for text in (
        json.dumps(configs),
        "\n".join(map(json.dumps, configs)),
        json.dumps({"suggestions": [{"config": config, "from": None} for config in configs]}),
    ):
        file.write_text(text)
        assert read_configs(file) == configs
    for text in ('{"suggestions": [1]}', '{"suggestions": "a"}', '{"suggestions": 3}', "3"):
        file.write_text(text)
        with pytest.raises(DataError, match="expected a list of configurations, each an object of values by name"):
            read_configs(file)


@pytest.mark.slow
def test_collect_measures_suggestions_first_on_a_folder_of_ones_own(source, cli):
    from stripes import write_folder

    folder = write_folder(source / "mine", *pictures(0, size=8))
    said = cli("suggest", "--dataset", folder, "--format", "json")
    (source / "first.json").write_text(said.out)
    ask = [str(folder), "--history", str(source / "h.h5"), "--first", str(source / "first.json"), "--configs", "1"]
    run = cli("history", "collect", *ask, "--workers", "1", "--device", "cpu", "--format", "json")
    assert run.code == 0, run.err
    assert (run.json()["total"], run.json()["datasets"]) == (4, ["mine"])


@pytest.mark.slow
def test_collect_measures_resumes_and_writes_shards(source, cli):
    first = cli(*call(source, "--configs", 1, "--shards", source / "shards"))
    assert first.code == 0, first.err
    assert (first.json()["total"], first.json()["known"], first.json()["stopped"]) == (1, 0, "complete")
    second = cli(*call(source, "--configs", 2, "--shards", source / "shards")).json()
    assert (second["total"], second["known"]) == (2, 1)
    made = cli("history", "import", source / "again.h5", source / "shards", "--format", "json").json()
    assert made["imported"] == 2


@pytest.mark.slow
def test_ctrl_c_stops_with_130_and_leaves_a_sound_history(source, cli):
    command = [sys.executable, "-m", "warmstart", *call(source, "--configs", "64")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        while not (source / "h.h5").exists():
            time.sleep(0.1)
        time.sleep(15)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate()
    assert (running.returncode, out) == (130, "")
    assert json.loads(err.splitlines()[-1])["error"]["type"] == "Interrupted"
    assert cli("history", "verify", source / "h.h5").code == 0
