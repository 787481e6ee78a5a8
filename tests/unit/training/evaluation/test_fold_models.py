"""Models without a part of the datasets: they never see it, they are kept, and a killed run goes on."""

from dataclasses import replace

import numpy as np
import pytest

from warmstart.history_store.errors import ImagesMissingError, StorageError, UsageError
from warmstart.history_store.history import History
from warmstart.metafeat.embed import embed_history
from warmstart.training.evaluation import fold_models
from warmstart.training.evaluation.fold_models import (
    FoldModels,
)
from warmstart.training.evaluation.protocol import deal
from warmstart.training.siamese.from_history import train_from_history
from warmstart.training.siamese.settings import SiameseSettings, preset


@pytest.fixture
def history(tiny):
    with History.open(tiny.history) as opened:
        yield opened


@pytest.fixture
def settings():

    found = preset("modern", extractor="adf")
    return replace(found, spec=replace(found.spec, tau=8), steps=3, batch=3)


@pytest.fixture
def models(history, settings, tmp_path):
    parts = deal("leave-source-out", history.names, history.groups, 3, seed=0)

    def make(**changes):
        options = {"folder": tmp_path / "models", "seed": 0, **changes}
        return FoldModels(history, history.names, parts, options.pop("settings", settings), **options)

    return make


@pytest.fixture
def trainings(monkeypatch):
    """Note every training: the datasets it saw."""
    seen, train = [], fold_models.train_from_history

    def spy(*args, **kwargs):
        seen.append(set(kwargs["names"]))
        return train(*args, **kwargs)

    monkeypatch.setattr(fold_models, "train_from_history", spy)
    return seen


def test_a_model_never_sees_the_part_left_out_and_is_trained_once(models, history, trainings):
    some = models()
    found = some.embeddings(frozenset({1}))
    assert found.shape == (6, 256)
    assert trainings == [{name for name, part in zip(history.names, some.parts, strict=True) if part != 1}]
    again = models().embeddings(frozenset({1}))
    np.testing.assert_array_equal(found, again)
    assert len(trainings) == 1
    assert len(list(some.folder.glob("*.safetensors"))) == 1
    assert not list(some.folder.glob("*.checkpoint"))


def test_a_killed_training_goes_on(models, trainings):
    whole = models().embeddings(frozenset({0}))

    class Killed(Exception):  # noqa: N818
        pass

    def kill(step, steps, text):
        if step == 2:
            raise Killed

    steps = []
    other = models(seed=1, progress=kill)
    with pytest.raises(Killed):
        other.embeddings(frozenset({0}))
    straight = models(seed=1, folder=other.folder / "apart").embeddings(frozenset({0}))
    resumed = models(seed=1, progress=lambda step, *_: steps.append(step)).embeddings(frozenset({0}))
    np.testing.assert_array_equal(resumed, straight)
    assert not np.array_equal(resumed, whole)


def test_a_damaged_file_is_made_anew(models, trainings):
    some = models()
    found = some.embeddings(frozenset({0}))
    (path,) = some.folder.glob("*.npz")
    path.write_bytes(path.read_bytes()[:100])
    np.testing.assert_array_equal(models().embeddings(frozenset({0})), found)
    assert len(trainings) == 2


def test_what_cannot_be_trained_is_told(models, history, settings, tmp_path):
    with pytest.raises(UsageError, match=r"folds: expected at least two datasets to train on .* got 0 of 6"):
        models().embeddings(frozenset({0, 1, 2}))
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="expected a folder for models"):
        models(folder=tmp_path / "file" / "models")
    history.compact(drop_images=True, path=tmp_path / "bare.h5")
    with History.open(tmp_path / "bare.h5") as bare:
        parts = deal("in-source", bare.names, bare.groups, 2, seed=0)
        without = FoldModels(bare, bare.names, parts, settings, folder=tmp_path / "m")
        with pytest.raises(ImagesMissingError):
            without.embeddings(frozenset({0}))


def test_settings_come_back_from_a_models_header():
    for found in (preset("modern"), preset("modern", extractor="adf"), preset("paper")):
        told = found.to_dict() | {"seed": 0, "steps_done": 5}
        assert SiameseSettings.from_dict(told) == found
    with pytest.raises(UsageError, match="training settings: expected steps, "):
        SiameseSettings.from_dict({})


def test_shared_handcrafted_features_change_no_model_and_are_computed_once(models, settings, monkeypatch):

    spec = replace(settings.spec, extractor="handcrafted", handcrafted=True)
    told = models(settings=replace(settings, spec=spec))
    found = told.embeddings(frozenset({1}))
    alone = train_from_history(
        told.history, told.settings, names=[n for n, part in zip(told.names, told.parts, strict=True) if part != 1],
        held_out=(),
    )  # fmt: skip
    vectors = embed_history(told.history, told.names, alone.model)
    np.testing.assert_array_equal(found, np.stack([vectors[name] for name in told.names]))
    monkeypatch.setattr(fold_models, "query_features", None)
    assert told.embeddings(frozenset({2})).shape == found.shape
    assert models(settings=told.settings, seed=1).embeddings(frozenset({2})).shape == found.shape
