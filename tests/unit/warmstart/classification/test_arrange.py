"""What is left out, what stays together, and what is said of it."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from warmstart.classification.arrange import arrange, keys_by_name
from warmstart.classification.look import look_at
from warmstart.history_store.errors import BrokenImagesError, DataError, LabelError, UsageError
from warmstart.history_store.readers import open_images
from warmstart.history_store.readers.arranged import Arrangement
from warmstart.studies.results.judgement import Judgement
from warmstart.training.workloads import SourceDataset


def picture(rng, size=48):
    """Make a picture of coarse and fine shapes."""
    coarse = Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize(
        (size, size), Image.Resampling.BICUBIC
    )
    fine = Image.fromarray(rng.integers(0, 256, (16, 16, 3), dtype=np.uint8)).resize((size, size))
    return Image.blend(coarse, fine, 0.4)


@pytest.fixture
def photos(tmp_path):
    rng = np.random.default_rng(0)
    for kind in "ab":
        (tmp_path / kind).mkdir()
        for number in range(20):
            picture(rng).save(tmp_path / kind / f"p{number // 4}-{number:02}.png")
    return tmp_path


def arranged(folder, **options):
    source = open_images(folder)
    return arrange(source, look_at(source, workers=2, progress=lambda *_: None), **options)


def test_pictures_without_a_fault_stay_as_they_are(photos):
    found = arranged(photos)
    assert (found.arrangement, found.broken, found.n_alike, found.side) == (None, (), 0, 48)
    assert found.counts == {"a": 20, "b": 20}


def test_equal_and_nearly_equal_pictures_are_on_one_side(photos):
    first = Image.open(photos / "a" / "p0-00.png")
    first.resize((96, 96)).save(photos / "b" / "z1.jpg", quality=90)
    first.save(photos / "a" / "z2.png")
    Image.open(photos / "b" / "p3-12.png").save(photos / "b" / "z3.jpg", quality=95, subsampling=0)
    found = arranged(photos)
    assert found.n_alike == 5
    part = dict(zip(found.arrangement.names, found.arrangement.parts, strict=True))
    assert part["a/p0-00.png"] == part["b/z1.jpg"] == part["a/z2.png"]
    assert part["b/p3-12.png"] == part["b/z3.jpg"]
    assert {"train", "val"} == set(part.values())
    table = photos.parent / "parts.csv"
    table.write_text(found.arrangement.to_csv())
    source = open_images(f"{photos}::arranged={table}")
    assert (len(source), source.files[0], source.layout) == (43, "a/p0-00.png", "folder")
    dataset = SourceDataset(source)
    assert [source.files[row] for row in dataset.rows("val")] == [name for name, each in part.items() if each == "val"]
    assert source.fingerprint("listing") != open_images(photos).fingerprint("listing")


def test_groups_stay_together(photos):
    found = arranged(photos, keys=keys_by_name(open_images(photos), r"/(p\d)"))
    names, parts = found.arrangement.names, found.arrangement.parts
    for group in range(5):
        assert len({part for name, part in zip(names, parts, strict=True) if f"p{group}-" in name}) == 1
    assert 4 <= parts.count("val") <= 12
    for pattern, told in (("(", "goes wrong at character"), ("nothing", "finds the same in several names")):
        with pytest.raises(UsageError, match=rf"^groups: .*{told}"):
            keys_by_name(open_images(photos), pattern)


def test_a_few_broken_pictures_are_left_out(photos):
    (photos / "a" / "broken.png").write_bytes(b"no picture")
    found = arranged(photos)
    assert [(each.path, each.reason) for each in found.broken] == [("a/broken.png", "not a picture")]
    assert len(found.arrangement.names) == 40
    with pytest.raises(BrokenImagesError, match="got 1 broken of 41 read"):
        arranged(photos, strict=True)
    for number in range(3):
        (photos / "b" / f"broken{number}.png").write_bytes(b"no picture")
    with pytest.raises(BrokenImagesError, match=r"got 4 broken of 44 read, where up to 2 are left out"):
        arranged(photos)


def test_a_class_needs_three_pictures(photos):
    (photos / "few").mkdir()
    picture(np.random.default_rng(9)).save(photos / "few" / "1.png")
    with pytest.raises(LabelError, match=r"at least 3 pictures of each class, got fewer of few \(1\)"):
        arranged(Path(photos))


def test_a_judgement_counts_right_answers():
    confusion = [{"truth": "a", "a": 8, "b": 2}, {"truth": "b", "a": 0, "b": 10}]
    judged = Judgement.of(confusion, 0.1, {"a": 60, "b": 40})
    assert judged.lines == (
        'Right: about 90 of 100 new pictures (78 to 96). Always "a": 60.',
        "Right of 100, by class, hardest first: a 80, b 100. Most mixed up: a, taken for b.",
    )


@pytest.mark.parametrize("text", ["name,part,group\n", "a\rb,c\n", '"a'])
def test_another_table_is_refused(tmp_path, text):
    table = tmp_path / "arranged.csv"
    table.write_text(text, newline="")
    with pytest.raises(DataError, match="expected a table with the head"):
        Arrangement.read(table)
