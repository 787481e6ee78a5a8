"""The advisor: one way from a dataset to its place, neighbours and suggestions; reading writes nothing."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from stripes import pictures, write_folder

import warmstart
from warmstart import Advisor
from warmstart.history_store.errors import UsageError
from warmstart.history_store.history import History
from warmstart.history_store.images import ImageSet
from warmstart.history_store.records import DatasetInfo
from warmstart.history_store.splits import split_codes
from warmstart.metafeat.cache import EmbeddingCache
from warmstart.metafeat.model_file import read_header
from warmstart.suggestions import embeddings
from warmstart.suggestions.references import read_references


@pytest.fixture
def photos(tmp_path):
    return write_folder(tmp_path / "photos", *pictures(1, 48))


@pytest.fixture
def grown(tiny, tmp_path, monkeypatch):
    """A history with a dataset whose embedding it lacks."""
    monkeypatch.setenv("WARMSTART_CACHE", str(tmp_path / "cache"))
    path = shutil.copy(tiny.history, tmp_path / "grown.h5")
    images, labels = pictures(7, 44)
    codes, seed = split_codes(labels)
    counts = [int((codes == code).sum()) for code in (0, 1, 2)]
    with History.open(path, write=True) as history:
        info = DatasetInfo("new", "new", *counts, 4, split_seed=seed, source="made in a test")
        history.add_dataset(info, ImageSet(images, labels, ("a", "b", "c", "d")), codes)
    return path


@pytest.fixture
def embedded(monkeypatch):
    """List the names of datasets that are embedded from the history's images."""
    import warmstart.metafeat.embed

    names, embed = [], warmstart.metafeat.embed.embed_history
    monkeypatch.setattr(
        warmstart.metafeat.embed,
        "embed_history",
        lambda h, asked, *a, **k: [names.extend(asked), embed(h, asked, *a, **k)][1],
    )
    return names


def test_it_says_what_the_functions_say(tiny, photos):
    advisor = Advisor(tiny.history, tiny.model, exclude_group="group0", seed=2)
    common = {"history": tiny.history, "model": tiny.model, "exclude_group": "group0", "seed": 2}
    assert advisor.suggest(photos, 2, explain=True) == warmstart.answer(photos, k=2, explain=True, **common)
    assert list(advisor.neighbours(photos, 2).neighbours) == warmstart.neighbours(photos, k=2, **common)


def test_reading_writes_no_history_and_computes_once(grown, tiny, photos, embedded):
    before = Path(grown).read_bytes()
    advisor = Advisor(grown, tiny.model)
    first = advisor.neighbours(photos, 7)
    assert f"embedded 1 dataset with this model. `warmstart history embed {grown}` stores that." in first.notes[0]
    assert embedded == ["new"]
    again = advisor.neighbours(photos, 7)
    assert (again.neighbours, again.notes) == (first.neighbours, first.notes[1:])  # told once
    embeddings._cache.clear()  # as in another process
    assert advisor.neighbours(photos, 7).neighbours == first.neighbours
    assert embedded == ["new"]
    assert Path(grown).read_bytes() == before


def test_refresh_stores_what_is_lacking_and_nothing_twice(grown, tiny, photos):
    advisor = Advisor(grown, tiny.model)
    first = advisor.neighbours(photos, 7)
    assert advisor.refresh() == ("new",)
    hash_ = read_header(tiny.model).hash
    with History.open(grown) as history:
        stored, revision = history.embeddings(hash_), history.revision
    assert set(stored) == {*tiny.names, "new"}
    assert advisor.refresh() == ()
    with History.open(grown) as history:
        assert history.revision == revision
    found = advisor.neighbours(photos, 7)
    assert found.neighbours == first.neighbours
    assert not any("embedded" in note for note in found.notes)


def test_others_may_write_while_embeddings_are_computed(grown, tiny):
    def write(*_):
        with History.open(grown, write=True, lock_timeout=0.0) as history:
            if "stripes1" in history.names:
                history.remove_dataset("stripes1")
                history.append(replace(history.evaluations("stripes0")[0], seed=99))

    assert Advisor(grown, tiny.model, progress=write).refresh() == ("new",)
    hash_ = read_header(tiny.model).hash
    with History.open(grown) as history:
        assert [run.seed for run in history.evaluations("stripes0")][-1] == 99
        assert set(history.embeddings(hash_)) == set(history.names) == {*tiny.names, "new"} - {"stripes1"}
        assert set(read_references(history, hash_).names) == set(history.names)


def test_wrong_calls(tiny, photos):
    with pytest.raises(UsageError, match=r"^seed: expected a whole number of at least 0, got -1"):
        Advisor(seed=-1)
    advisor = Advisor(tiny.history, tiny.model)
    with pytest.raises(UsageError, match=r"^k: expected a whole number of at least 1, got 0"):
        advisor.neighbours("nowhere", 0)
    with pytest.raises(UsageError, match=r"^strategy: expected one of"):
        advisor.suggest("nowhere", strategy="best")
    with pytest.raises(UsageError, match=r"^exclude_group: expected groups of"):
        _ = Advisor(tiny.history, tiny.model, exclude_group="nobody").embedded
    group = Advisor(tiny.history, tiny.model).embedded.groups[0]
    with pytest.raises(UsageError, match=rf"got {group}x\. Did you mean {group}\?$"):
        _ = Advisor(tiny.history, tiny.model, exclude_group=f"{group}x").embedded


def test_the_cache_is_never_trusted_with_a_damaged_entry(grown, tiny, photos, embedded, tmp_path):
    kept = Advisor(grown, tiny.model).neighbours(photos, 7).neighbours
    for entry in EmbeddingCache(tmp_path / "cache" / "embeddings").folder.glob("*.emb"):
        entry.write_bytes(entry.read_bytes()[:-3])
    embeddings._cache.clear()
    assert Advisor(grown, tiny.model).neighbours(photos, 7).neighbours == kept
    assert embedded == ["new", "new"]
