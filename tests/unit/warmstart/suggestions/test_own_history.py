"""A history of one's own, over one's own space, answered by a model that was trained on another one."""

import math
import shutil

import numpy as np
import pytest
from stripes import pictures, write_folder

import warmstart
from warmstart import Advisor
from warmstart.history_store.errors import ModelMismatchError, UsageError
from warmstart.history_store.history import History
from warmstart.history_store.images import ImageSet
from warmstart.history_store.records import DatasetInfo, Evaluation, Status
from warmstart.history_store.space import dump_space
from warmstart.metafeat.model import MetaFeatureModel
from warmstart.metafeat.spec import ModelSpec

CONFIGS = [{"lr": 0.01, "net": "small"}, {"lr": 0.1, "net": "large"}, {"lr": 0.3, "net": "small"}]


def space_json():
    from ConfigSpace import Categorical, ConfigurationSpace, Float

    space = ConfigurationSpace(name="mine")
    space.add(Float("lr", (1e-4, 1.0), log=True), Categorical("net", ["small", "large"]))
    return dump_space(space)


def add(history, name, kind, *, group=None):
    images, labels = pictures(kind)
    info = DatasetInfo(name, group or name, len(labels), 0, 0, 4, source="made in a test")
    history.add_dataset(info, ImageSet(images, labels, ("a", "b", "c", "d")))


@pytest.fixture
def mine(tmp_path):
    """A history over another space than that of the tiny one: two datasets with images and runs."""
    path = tmp_path / "mine.h5"
    with History.create(path, space_json(), configs=CONFIGS) as history:
        for number, name in enumerate(("first", "second")):
            add(history, name, number)
            history.extend(
                Evaluation(name, config, error, seed=0)
                for config, error in zip(CONFIGS, ([0.1, 0.2, 0.3], [0.4, 0.3, 0.2])[number], strict=True)
            )
    return path


@pytest.fixture
def runs_alone(tmp_path):
    """A history of runs on two datasets that it knows by name only."""
    path = tmp_path / "runs.h5"
    with History.create(path, space_json(), configs=CONFIGS) as history:
        blank = [DatasetInfo(name, name, 0, 0, 0, 0) for name in ("first", "second")]
        history.extend(
            [
                Evaluation(info.name, config, error, seed=0)
                for info in blank
                for config, error in zip(CONFIGS, (0.3, 0.1, 0.2), strict=True)
            ],
            datasets=blank,
        )
    return path


@pytest.fixture
def photos(tmp_path):
    return write_folder(tmp_path / "photos", *pictures(1, 48))


def test_a_model_of_another_history_and_space_answers(mine, tiny, photos):
    found = warmstart.answer(photos, history=mine, model=tiny.model)
    assert found.model == str(tiny.model)
    assert found.neighbours[0].name == "second"  # the same kind of pictures
    assert sorted(design.config["lr"] for design in found.suggestions) == [0.01, 0.1, 0.3]
    assert {design.expected_regret for design in found.suggestions} == {None}
    assert sum("trained on another history" in note for note in found.notes) == 1


def test_embeddings_are_stored_under_the_model(mine, tiny, photos):
    from warmstart.metafeat.model_file import read_header

    before = warmstart.answer(photos, history=mine, model=tiny.model)
    assert Advisor(mine, tiny.model).refresh() == ("first", "second")
    with History.open(mine) as history:
        assert set(history.embeddings(read_header(tiny.model).hash)) == {"first", "second"}
    assert warmstart.answer(photos, history=mine, model=tiny.model).neighbours == before.neighbours


def test_a_model_for_another_size_is_refused_with_what_differs(mine, photos, tmp_path):
    other = tmp_path / "other.safetensors"
    MetaFeatureModel.random(ModelSpec(tau=50, image_size=16)).save(other)
    with pytest.raises(
        ModelMismatchError, match=r"expected a model for images of 32 x 32 .*mine.h5 stores.*got one for 16 x 16"
    ):
        warmstart.suggest(photos, history=mine, model=other)
    with pytest.raises(ModelMismatchError, match="16 x 16"):
        Advisor(mine, other).refresh()
    found = warmstart.answer(photos, history=mine, model=other, strategy="portfolio")
    assert len(found.suggestions) == 3
    assert found.model == ""
    assert "Answered without a model" in found.notes[0]
    assert "that takes a model, and none was used" in found.confidence.note
    assert len(Advisor(mine, other).locate(photos, strategy="portfolio").names) == 2


def test_runs_alone_answer_with_the_portfolio(runs_alone, photos, cli):
    found = warmstart.answer(photos, history=runs_alone)
    assert found.strategy == "portfolio"
    assert found.suggestions[0].config == CONFIGS[1]
    assert found.neighbours == ()
    assert not found.confidence.typical
    assert found.confidence.reasons == ("not_compared",)
    run = cli("suggest", photos, "--history", runs_alone, "--explain")
    assert run.code == 0
    assert "resembles" not in run.out
    document = cli("suggest", photos, "--history", runs_alone, "--format", "json").json()
    assert document["neighbours"] == []
    assert "it holds runs alone" in document["confidence"]["note"]


def test_an_imported_dataset_gets_its_images_and_keeps_its_runs(cli, photos, tmp_path):
    (tmp_path / "sheet.csv").write_text("lr,net,error\n0.01,small,0.3\n0.1,large,0.1\n")
    (tmp_path / "space.json").write_text(space_json())
    path = tmp_path / "mine.h5"
    assert cli("history", "create", path, "--space", tmp_path / "space.json").code == 0
    sheet = (tmp_path / "sheet.csv", "--dataset", "photos", "--metric", "error", "--error-range", "0,1")
    imported = cli("history", "import", path, *sheet)
    assert imported.code == 0, imported.err
    assert "known by runs alone: photos" in imported.err
    asked = cli("suggest", photos, "--history", path, "--format", "json").json()
    assert [s["config"]["lr"] for s in asked["suggestions"]] == [0.1, 0.01]
    added = cli("history", "add", path, "--dataset", photos, "--name", "photos", "--group", "own", "--format", "json")
    assert added.code == 0, added.err
    with History.open(path) as history:
        assert history.n_evaluations == 2
        assert history.dataset("photos").group == "own"
        assert history.dataset("photos").n_images == 48
        assert history.has_images("photos")
    again = cli("history", "add", path, "--dataset", photos, "--name", "photos", "--group", "own")
    assert "expected a new name, got 'photos'" in again.err
    document = cli("suggest", photos, "--history", path, "--format", "json").json()
    assert document["tuned_before"] == {
        "name": "photos",
        "configurations_measured": 2,
        "best_error": 0.1,
        "config": {"lr": 0.1, "net": "large"},
    }
    from warmstart.history_store.verify import verify

    assert verify(path).ok


def test_a_dataset_of_the_history_is_answered_with_its_own_best(mine, tiny, photos, cli, tmp_path):
    add_photos = ("history", "add", mine, "--dataset", photos, "--name", "photos", "--group", "own")
    assert cli(*add_photos).code == 0
    ask = ("suggest", "--history", mine, "--model", tiny.model)
    assert "tuned_before" not in cli(*ask, photos, "--format", "json").json()  # nothing was measured on it yet
    with History.open(mine, write=True) as history:
        history.append(Evaluation("photos", CONFIGS[0], 0.25))
        history.append(Evaluation("photos", CONFIGS[2], 0.15))
    moved = shutil.copytree(photos, tmp_path / "moved")
    for strategy in ("joint", "nearest", "portfolio", "average-rank"):
        found = warmstart.answer(moved, history=mine, model=tiny.model, strategy=strategy)
        first = found.suggestions[0]
        assert (first.config, first.source, first.source_error) == (CONFIGS[2], "photos", 0.15)
        assert len({design.config["lr"] for design in found.suggestions}) == 3
        assert first.expected_regret is None
        assert found.tuned_before.name == "photos"
    assert "You tuned this dataset before, as 'photos': best known is error 0.15" in cli(*ask, moved).err
    left_out = warmstart.answer(moved, history=mine, model=tiny.model, exclude_group="own")
    assert left_out.tuned_before is None
    assert all(near.name != "photos" for near in left_out.neighbours)
    next(moved.rglob("*.png")).write_bytes(next(photos.rglob("*.png")).read_bytes() + b" ")
    assert warmstart.answer(moved, history=mine, model=tiny.model).tuned_before is None


def test_a_copy_of_the_shipped_history_is_another_one_that_answers_the_same(cli, photos, tmp_path):
    from warmstart.locations import shipped_history

    mine = tmp_path / "mine.h5"
    made = cli("history", "create", mine, "--from-default", "--format", "json")
    assert made.code == 0, made.err
    with History.open(shipped_history()) as shipped, History.open(mine) as copy:
        assert copy.id == made.json()["id"] != shipped.id
        assert copy.notes["copied_from"].startswith(shipped.id)
        assert (copy.names, copy.configs, copy.n_evaluations) == (shipped.names, shipped.configs, shipped.n_evaluations)
        assert set(copy.embeddings(copy.model_hashes[0])) == set(shipped.names)
    old, new = (warmstart.answer(photos, history=history, workload="cnn") for history in (None, mine))
    assert (old.suggestions, old.neighbours, old.notes) == (new.suggestions, new.neighbours, new.notes)
    assert cli("history", "add", mine, "--dataset", photos, "--name", "photos", "--group", "photos").code == 0
    found = warmstart.answer(photos, history=mine)
    assert not any("another history" in note for note in found.notes)
    twice = cli("history", "create", mine, "--from-default")
    assert "expected a path where nothing lies" in twice.err
    both = cli("history", "create", tmp_path / "b.h5", "--from-default", "--space", "paper")
    assert both.code == 2
    assert "--from-default cannot be used with --space" in both.err


def test_training_leaves_unmeasured_datasets_out(mine):
    from warmstart.models.train import choose_datasets

    with History.open(mine, write=True) as history:
        add(history, "bare", 5)
        add(history, "young", 6)
        history.append(Evaluation("young", CONFIGS[0], 0.5))
        history.extend([Evaluation("named", CONFIGS[0], 0.5)], datasets=[DatasetInfo("named", "named", 0, 0, 0, 0)])
        names, notes = choose_datasets(history)
    assert names == ["first", "second"]
    assert [note.partition(" datasets, ")[2] for note in notes] == [
        "whose images the history does not hold: named.",
        "on which nothing was measured: bare.",
        "measured on fewer than half of the configurations that the others have in common: young.",
    ]
    with History.open(mine, write=True) as history:
        history.remove_dataset("first")
        history.remove_dataset("second")
        with pytest.raises(UsageError, match=r"expected at least two datasets with images and runs .* got 1"):
            choose_datasets(history)


def failed(path, *, everywhere=()):
    """Make a history of two datasets whose configurations give errors, but those of these places, which crash."""
    with History.create(path, space_json(), configs=CONFIGS) as history:
        for number, name in enumerate(("first", "second")):
            add(history, name, number)
            for place, config in enumerate(CONFIGS):
                crashed = place in everywhere
                status = Status.CRASHED if crashed else Status.OK
                history.append(Evaluation(name, config, math.nan if crashed else 0.1 * (place + 1), status, seed=0))
    return path


@pytest.mark.parametrize("strategy", [None, "nearest"])
def test_a_configuration_that_failed_wherever_it_ran_is_not_suggested(strategy, tiny, photos, tmp_path):
    path = failed(tmp_path / "f.h5", everywhere=(0, 2))
    found = warmstart.answer(photos, history=path, model=tiny.model, strategy=strategy)
    assert [design.config for design in found.suggestions] == [CONFIGS[1]]
    assert found.notes[-1] == (
        "Only 1 of 3 suggestions come from the history: it has 2 configurations, which failed on every dataset where run."
    )
    assert len(warmstart.suggest(photos, k=1, history=path, model=tiny.model)) == 1


def test_a_configuration_that_nobody_ran_is_not_called_measured(photos, tmp_path, cli):
    path = tmp_path / "young.h5"
    with History.create(path, space_json(), configs=CONFIGS) as history:
        history.extend(
            [Evaluation("first", CONFIGS[1], 0.2, seed=0)], datasets=[DatasetInfo("first", "first", 0, 0, 0, 0)]
        )
    found = warmstart.answer(photos, history=path, k=3)
    assert [each.measured for each in found.suggestions] == [True, False, False]
    assert found.suggestions[0].config == CONFIGS[1]
    assert all("no dataset that may answer ran it" in each.why for each in found.suggestions[1:])
    assert repr(found).count("(from no dataset)") == 2
    assert cli("suggest", photos, "--history", path, "-k", 3).out.count("never") == 2
    (tmp_path / "space.json").write_text(space_json())
    command = "python -c 'import sys; print(sys.argv[2])' {net} {lr}"
    space, study = tmp_path / "space.json", tmp_path / "study.db"
    said = warmstart.tune(dataset=photos, space=space, command=command, trials=1, history=path, storage=study)
    assert [(each.measured, each.origin) for each in said.warm] == [
        (True, "all datasets"),
        *[(False, "no dataset")] * 2,
    ]


def test_runs_alone_have_no_neighbours(runs_alone, photos):
    with pytest.raises(UsageError, match=r"expected a history with images to compare with, got runs alone"):
        warmstart.neighbours(photos, history=runs_alone)
    with pytest.raises(UsageError, match=r"strategy: expected portfolio or average-rank .*got 'nearest'"):
        warmstart.suggest(photos, history=runs_alone, strategy="nearest")


def test_a_history_is_calibrated_for_a_model_of_another_one_without_training(tiny, photos, tmp_path, cli, monkeypatch):
    monkeypatch.setattr(
        "warmstart.training.siamese.from_history.train_siamese", lambda *_a, **_k: pytest.fail("trained")
    )
    path = tmp_path / "four.h5"
    rng = np.random.default_rng(0)
    with History.create(path, space_json(), configs=CONFIGS) as history:
        for kind in range(4):
            add(history, f"d{kind}", kind)
            history.extend(
                Evaluation(f"d{kind}", config, float(error))
                for config, error in zip(CONFIGS, rng.uniform(size=3), strict=True)
            )
    assert warmstart.suggest(photos, history=path, model=tiny.model, strategy="joint")[0].expected_regret is None
    run = cli("evaluate", "--history", path, "--model", tiny.model, "--rivals", "joint,portfolio", "--calibrate", "-q")
    assert run.code == 0, run.err
    said = warmstart.suggest(photos, history=path, model=tiny.model, strategy="joint")
    assert all(0 <= design.expected_regret <= 1 for design in said)
