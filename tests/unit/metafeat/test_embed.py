"""One way from a dataset to its meta-feature: a query's, a stored dataset's and a fold model's agree."""

import numpy as np
import pytest

from warmstart.history_store.history import History
from warmstart.history_store.readers import open_images
from warmstart.metafeat.embed import embed_history, embed_source, stored_sample
from warmstart.metafeat.model import MetaFeatureModel
from warmstart.metafeat.model_file import read_header
from warmstart.metafeat.spec import ModelSpec


@pytest.fixture
def history(tiny):
    with History.open(tiny.history) as opened:
        yield opened


def test_a_header_and_the_loaded_model_give_the_same_in_the_order_asked(tiny, history):
    names = [history.names[2], history.names[0]]
    by_header = embed_history(history, names, read_header(tiny.model))
    loaded = MetaFeatureModel.load(tiny.model)
    by_model = embed_history(history, names, loaded)
    assert list(by_header) == list(by_model) == names
    for name in names:
        images, labels = stored_sample(history, name)
        expected = loaded.embed(images, labels, rng=np.random.default_rng(0))
        np.testing.assert_array_equal(by_header[name], expected)
        np.testing.assert_array_equal(by_model[name], expected)


def test_a_stored_dataset_is_embedded_as_the_query_of_its_training_images(tiny, history):
    """The store embeds what a person's query of the same training images would be embedded as."""
    name = history.names[0]
    source = open_images(f"{tiny.history}::{name}")
    header = read_header(tiny.model)
    query = embed_source(source, header, fingerprint="listing:x", cache=False)
    assert not query.broken
    np.testing.assert_array_equal(query.vector, embed_history(history, [name], header)[name])


def test_shared_features_stand_for_the_images(tmp_path, history):
    """A plain model given features looks at no images, and gives what it gives when it computes them."""
    from warmstart.metafeat.handcrafted import query_features

    path = tmp_path / "plain.safetensors"
    MetaFeatureModel.random(ModelSpec(extractor="handcrafted", handcrafted=True)).save(path, {})
    names = list(history.names[:2])
    features = {name: query_features(*stored_sample(history, name), rng=np.random.default_rng(0)) for name in names}
    header = read_header(path)
    computed = embed_history(history, names, header)
    shared = embed_history(history, names, header, features=features)
    for name in names:
        np.testing.assert_array_equal(shared[name], computed[name])
    zero = embed_history(history, names, header, features={name: np.zeros_like(row) for name, row in features.items()})
    np.testing.assert_array_equal(zero[names[0]], zero[names[1]])
