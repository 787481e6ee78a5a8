"""Descriptors: what is told of a dataset, and that an answer from it is the answer from the images."""

import json

import numpy as np
import pytest
from stripes import pictures

from warmstart.descriptor import MOST_BYTES, MOST_COUNTS, Descriptor, UnknownExtractorError, count_classes
from warmstart.history_store.errors import DataError
from warmstart.metafeat.sample_statistics import sample_statistics
from warmstart.suggestions.advisor import Advisor


@pytest.fixture
def advisor(tiny):
    return Advisor(tiny.history, tiny.model, cache=False)


@pytest.fixture
def described(advisor):
    return advisor.describe(pictures(1))


def test_answer_is_that_of_the_images(advisor, described):
    sent = Descriptor.from_dict(json.loads(described.descriptor.to_json()))
    ours, theirs = advisor.suggest(pictures(1), explain=True), advisor.suggest(sent, explain=True)
    assert ours.to_dict() | {"dataset": 0} == theirs.to_dict() | {"dataset": 0}
    assert theirs.dataset.n_images == ours.dataset.n_images
    assert [near.name for near in advisor.neighbours(sent, 4).neighbours] == [
        near.name for near in advisor.neighbours(pictures(1), 4).neighbours
    ]


def test_counts_classes_without_names(described):
    images, labels = pictures(1)
    told = described.descriptor
    assert told.n_images == len(images)
    assert sum(told.class_counts) == len(images)
    assert list(told.class_counts) == sorted(np.bincount(labels).tolist(), reverse=True)
    assert set(told.to_dict()) == {
        "schema_version",
        "extractor",
        "vector",
        "n_images",
        "n_classes",
        "class_counts",
        "sample",
        "features",
    }


def test_largest_descriptor_is_small():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(20_000), rng.integers(1, 90, 20_000))
    sample = sample_statistics(rng.integers(0, 256, (8, 32, 32, 3), dtype=np.uint8), np.arange(8) % 2)
    vector = (-1.2345678e-20 * rng.random(256)).astype(np.float32)
    told = Descriptor("f" * 64, vector, len(labels), 20_000, count_classes(labels), sample)
    assert len(told.class_counts) == MOST_COUNTS
    assert len(told.to_json()) <= MOST_BYTES
    again = Descriptor.from_dict(json.loads(told.to_json()))
    assert (again.vector == told.vector).all()
    assert again.id == told.id


def test_reduced_tells_less(advisor, described):
    reduced = described.descriptor.reduced()
    assert reduced.sample is None
    assert len(reduced.to_json()) < len(described.descriptor.to_json())
    assert not np.array_equal(reduced.vector, described.descriptor.vector)
    assert len(advisor.suggest(reduced).suggestions) == 3


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"schema_version": 2}, "expected schema version 1, got 2"),
        ({"vector": [float("nan")]}, "not finite"),
        ({"vector": [1e300]}, "too large"),
        ({"n_images": "many"}, "expected a descriptor"),
        ({"sample": {}}, "expected a descriptor"),
    ],
)
def test_refuses_what_is_no_descriptor(described, change, match):
    with pytest.raises(DataError, match=match):
        Descriptor.from_dict(described.descriptor.to_dict() | change)


def test_refuses_another_extractor_and_another_length(advisor, described):
    record = described.descriptor.to_dict()
    with pytest.raises(UnknownExtractorError, match="expected a descriptor by model") as caught:
        advisor.suggest(Descriptor.from_dict(record | {"extractor": "other"}))
    assert caught.value.accepted == (record["extractor"],)
    with pytest.raises(DataError, match="expected 256 numbers, got 2"):
        advisor.suggest(Descriptor.from_dict(record | {"vector": [1.0, 2.0]}))
