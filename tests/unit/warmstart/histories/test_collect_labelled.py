"""`history collect` on images whose labels lie in a file beside them: as ``photos::labels=labels.csv``; and which images it finds."""

import pytest
from layouts import classes, pixels, save_picture
from stripes import pictures, write_folder

from warmstart.history_store.errors import MissingPathError
from warmstart.history_store.history import History


@pytest.fixture
def photos(tmp_path):
    for number, image in enumerate(pixels()):
        save_picture(tmp_path / "photos" / f"{number}.png", image)
    rows = [f"{number}.png,c{label}" for number, label in enumerate(classes())]
    (tmp_path / "labels.csv").write_text("\n".join(["file,label", *rows]))
    (tmp_path / "mine.yaml").write_text("lr: [0.1, 0.5]\n")
    return tmp_path


def test_images_with_a_file_of_labels_are_measured(photos, cli, monkeypatch):
    monkeypatch.chdir(photos)
    command = """python -c "import sys; print(sys.argv[1:]); print(0.5)" {warmstart.dataset} {lr}"""
    asked = ["history", "collect", "--history", "h.h5", "--workers", "1", "--log", "log.txt", "--command", command]
    run = cli(*asked, "photos::labels=labels.csv", "--configs", "1", "--space", "mine.yaml")
    assert run.code == 0, run.err
    place = f"{photos}/photos::labels={photos}/labels.csv"
    assert place in (photos / "log.txt").read_text()
    with History.open(photos / "h.h5") as history:
        (dataset,) = history.datasets
        assert (dataset.name, dataset.source, dataset.n_classes) == ("photos", place, 3)
    assert cli(*asked, "--configs", "2").code == 0
    with History.open(photos / "h.h5") as history:
        assert len(history.evaluations("photos")) == 2


def test_images_that_are_not_there_are_told(photos):
    from warmstart.histories.collect import open_sources

    with pytest.raises(MissingPathError, match=r"nowhere::labels=labels\.csv: expected a manifest, or images"):
        open_sources([photos / "nowhere::labels=labels.csv"])


COMMAND = """python -c "import sys; print(sys.argv[1]); print(0.5)" {warmstart.dataset} {lr}"""


@pytest.fixture
def add_here(photos, cli, monkeypatch):
    """Add images by a relative path; go to another folder with other images of that name."""

    def add():
        monkeypatch.chdir(photos)
        write_folder(photos / "set", *pictures(1))
        write_folder(photos / "away" / "set", *pictures(2))
        assert cli("history", "create", "h.h5", "--space", "mine.yaml").code == 0
        assert cli("history", "add", "h.h5", "--dataset", "set", "--name", "set", "--group", "g").code == 0
        monkeypatch.chdir(photos / "away")

    return add


def collect(cli):
    asked = ["history", "collect", "--history", "../h.h5", "--workers", "1", "--configs", "1", "--log", "log.txt"]
    return cli(*asked, "--command", COMMAND)


def test_images_that_were_added_are_found_from_another_folder(add_here, photos, cli):
    add_here()
    run = collect(cli)
    assert run.code == 0, run.err
    assert f"{photos}/set\n" in (photos / "away" / "log.txt").read_text()


def test_other_images_of_a_name_are_passed_over(add_here, photos, cli, monkeypatch):
    """Earlier versions recorded the path as it was typed."""
    monkeypatch.setattr("warmstart.histories.add.resolved", str)
    add_here()
    run = collect(cli)
    assert run.code == 0, run.err
    assert f"{photos}/away/../set\n" in (photos / "away" / "log.txt").read_text()
    (photos / "set").rename(photos / "moved")
    run = collect(cli)
    assert run.code == 2
    assert "expected the path of its images for your script, got set, where they are not. Name their folder" in run.err
