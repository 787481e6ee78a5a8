"""The table of labels to correct, as `--labels` reads it."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from warmstart.classification.label_table import label_table, write_label_table
from warmstart.classification.near_duplicates import TWO_CLASSES, TWO_PARTS, doubtful_copies
from warmstart.history_store.readers import open_images


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for part, name, number in [(p, c, n) for p in ("train", "val") for c in ("cat", "dog") for n in range(3)]:
        path = tmp_path / "photos" / part / name / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(path)
    return tmp_path / "photos"


def test_a_corrected_table_is_the_datasets_labels(folder, tmp_path):
    source = open_images(folder)
    doubted = [{"image": "train/dog/1.png", "suggested": "cat", "probability": 0.97}]
    alike = np.arange(12)
    names = list(source.files)
    alike[names.index("val/cat/0.png")] = alike[names.index("train/dog/1.png")]
    alike[names.index("val/dog/2.png")] = alike[names.index("train/dog/2.png")]
    copies = doubtful_copies(source, np.arange(12), alike)
    assert [copy.why for copy in copies] == [TWO_CLASSES, TWO_PARTS]
    text = label_table(source, doubted, [copy.to_dict() for copy in copies])
    lines = text.splitlines()
    assert lines[:2] == ["\ufefffile,label,suggested,why,split", "train/dog/1.png,dog,cat,probability 0.97; like val/cat/0.png,train"]  # fmt: skip
    assert len(lines) == 13
    table = tmp_path / "t.csv"
    table.write_text(text.replace("1.png,dog,cat", "1.png,cat,cat").replace("train/cat/0.png,cat", "train/cat/0.png,"))
    with pytest.warns(match="1 row without a label"):
        corrected = open_images(f"{folder}::labels={table}")
    assert len(corrected) == 11
    labels = dict(zip(corrected.names, corrected.labels.tolist(), strict=True))
    assert corrected.class_names[labels["train/dog/1.png"]] == "cat"
    assert {name: len(rows) for name, rows in corrected.splits.items()} == {"train": 5, "val": 6}


def test_a_table_that_somebody_changed_stays(tmp_path):
    path = tmp_path / "photos-labels.csv"
    _, first = write_label_table(path, "a", written=None)
    again, second = write_label_table(path, "b", written=first)
    assert (again, path.read_text()) == (path, "b")
    path.write_text("corrected")
    beside, _ = write_label_table(path, "c", written=second)
    assert (beside, path.read_text(), beside.read_text()) == (tmp_path / "photos-labels-2.csv", "corrected", "c")
    origin, _ = write_label_table(Path(tmp_path / "x.csv"), "d", written=None, labels=tmp_path / "x.csv")
    assert origin.name == "x-2.csv"
