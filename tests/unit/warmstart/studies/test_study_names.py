"""Names of studies, and what happens to one that was asked something else."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from warmstart.history_store.canonical import Place, canonical, content_digest
from warmstart.history_store.errors import UsageError
from warmstart.studies.study_names import explicit_names, names_of_0_2, study_name
from warmstart.studies.tune_options import TuneOptions

OBJECTIVE = "def f(config, dataset=None):\n    return 0.1 + (config['x'] - 0.3) ** 2\n\ndef fails(config):\n    1 / 0\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("obj.py").write_text(OBJECTIVE)
    Path("s.yaml").write_text("x: {float: [0, 1]}\n")
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        folder = Path("photos", name)
        folder.mkdir(parents=True)
        for number in range(4):
            Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(folder / f"{number}.png")
    Path("link").symlink_to("photos")
    return tmp_path


@pytest.fixture
def tune(cli, place):
    def run(*args, objective="obj.py:f", trials=1):
        return cli("tune", "--objective", objective, "--space", "s.yaml", "--no-warm", "--trials", trials, *args)

    return run


def names(cli):
    return [study["study"] for study in cli("studies", "list", "--format", "json").json()["studies"]]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"workload": "transfer"}, "photos-transfer"),
        ({"workload": "transfer", "space": "transfer:large"}, "photos-transfer-large"),
        ({"workload": "transfer", "space": "transfer:full"}, "photos-transfer"),
        ({}, "photos-transfer"),
        ({"workload": "cnn"}, "photos-cnn"),
        ({"space": "paper"}, "photos-cnn-paper"),
        ({"command": "python3 train/fit.py --lr {lr}"}, "photos-fit.py"),
    ],
)
def test_a_name_says_what_was_asked(place, options, name):
    asked = TuneOptions.of(options)
    for spelling in ("photos", "photos/", "./photos", str(place / "photos"), "link", "photos::labels=x.csv::column=y"):
        assert study_name(spelling, asked) == name
    assert names_of_0_2(["photos/"], TuneOptions.of({})) == ["photos"]


def test_a_place_is_the_same_in_every_spelling(place):
    here = str(place)
    assert canonical("link/../photos/") == canonical("photos") == f"{place}/photos"
    assert canonical("./obj.py:f") == f"{place}/obj.py:f"
    assert canonical("sklearn:digits") == "sklearn:digits"
    assert canonical("./gone/obj.py:f", "/nowhere") == "gone/obj.py:f"
    assert Place("photos/", here) == Place(f"{place}/link", "/") != Place("photos/a", here)
    assert Place("obj.py:f", "/moved/away") == Place("obj.py:f", here)


def test_the_same_question_goes_on_and_another_begins_a_study(tune, cli):
    assert tune("-d", "photos").code == 0
    for objective, dataset in (("./obj.py:f", "photos/"), ("obj.py:f", "./link")):
        again = tune("-d", dataset, objective=objective)
        assert "none was run" in again.err
    changed = tune("-d", "photos", "--seed", "1")
    line = "photos-obj.py-f-2 is a new study: --seed 1 instead of 0; the earlier one goes on with its own options and --study photos-obj.py-f."
    assert changed.err.splitlines()[0] == line
    assert "none was run" in tune("-d", "photos", "--seed", "1").err
    refused = tune("-d", "photos", "--seed", "1", "--study", "photos-obj.py-f")
    assert (refused.code, "got another --seed 1 (the study has 0)" in refused.err) == (2, True)
    assert names(cli) == ["photos-obj.py-f", "photos-obj.py-f-2"]


def test_changed_pictures_are_told_in_words(place, cli):
    asked = ("tune", "photos", "--objective", "obj.py:f", "--space", "s.yaml", "--trials", "1")
    assert cli(*asked, "--study", "s").code == 0
    Image.new("L", (8, 8)).save("photos/a/9.png")
    refused = cli(*asked, "--study", "s")
    assert (refused.code, "got another --dataset: 9 pictures instead of 8." in refused.err) == (2, True)
    (place / "photos" / "b").rename("photos/c")
    assert "--dataset: of its classes c is new and b is gone." in cli(*asked, "--study", "s").err
    assert "listing:" not in refused.err


def test_a_study_without_a_result_is_begun_anew_under_its_name(tune, cli):
    assert tune(objective="obj.py:fails").code == 5
    assert tune("--study", "s", objective="obj.py:fails").code == 5
    anew = tune("--study", "s")
    assert (anew.code, "s: begun anew" in anew.err) == (0, True)
    assert tune("--seed", "3", objective="obj.py:fails").code == 5
    assert names(cli) == ["s", "obj.py-fails"]
    assert "obj.py-fails: begun anew: all its trials failed." in tune("--seed", "3", objective="obj.py:fails").err


def test_studies_are_renamed_and_deleted(tune, cli):
    assert tune("--study", "s", trials=2).code == 0
    assert cli("studies", "rename", "s", "t").code == 0
    assert "none was run" in tune("--study", "t", trials=2).err
    assert cli("studies", "rename", "gone", "u").code == 2
    assert cli("studies", "rename", "t", "t").code == 2
    assert cli("studies", "show", "--study", "t", "--format", "json").json()["study"] == "t"
    assert cli("studies", "delete", "t").code == 2  # nobody to ask
    assert cli("studies", "delete", "--study", "t", "--yes", "--format", "json").json()["trials"] == 2
    assert names(cli) == []


def test_a_name_that_is_no_text_is_refused():
    with pytest.raises(UsageError, match=r"^study: expected a name in Unicode, got half of a surrogate pair"):
        explicit_names([None], "\udcff")


def test_a_dataset_is_known_by_its_content_where_it_moved_to(tmp_path):
    (tmp_path / "a" / "cats").mkdir(parents=True)
    (tmp_path / "a" / "cats" / "1.png").write_bytes(b"12")
    before = Place("a", str(tmp_path), content_digest(str(tmp_path / "a")))
    (tmp_path / "a").rename(tmp_path / "b")
    assert Place("b", str(tmp_path), content_digest(str(tmp_path / "b"))) == before
    (tmp_path / "b" / "cats" / "1.png").write_bytes(b"34")
    assert Place("b", str(tmp_path), content_digest(str(tmp_path / "b"))) != before, "of the same names and sizes"
    (tmp_path / "b" / "cats" / "2.png").write_bytes(b"")
    assert Place("b", str(tmp_path), content_digest(str(tmp_path / "b"))) != before
    assert content_digest(str(tmp_path / "b" / "cats" / "1.png")) is not None
    assert content_digest("sklearn:digits") is content_digest(str(tmp_path / "none")) is None
    assert Place("sklearn:digits", "/", None) != Place("sklearn:wine", "/", None)
