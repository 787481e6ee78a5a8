"""Model files written by earlier releases are read, keep their hash and embed as they did."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from warmstart.history_store.errors import ModelError
from warmstart.metafeat.model import MetaFeatureModel
from warmstart.metafeat.model_file import read_header
from warmstart.metafeat.spec import ModelSpec

V1 = Path(__file__).parent / "v1" / "model.safetensors.gz"
HASH = "8efacb136b58b627"
SPEC = ModelSpec(extractor="adf-mix", label_code="scalar", image_size=8, tau=6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(gzip.decompress(V1.read_bytes()))
    return path


def test_version_1_is_read_and_embeds_as_the_release_that_wrote_it(path: Path) -> None:
    model = MetaFeatureModel.load(path)
    assert (model.hash, model.spec) == (HASH, SPEC)
    assert (model.spec.backbone, model.spec.handcrafted) == ("paper", False)
    assert model.header == {"history_id": "h", "space_digest": "d", "quality": None}
    images = (np.arange(6 * 8 * 8 * 3) * 37 % 256).astype(np.uint8).reshape(6, 8, 8, 3)
    point = model.embed(images, np.array([0, 1, 2, 0, 1, 0]), rng=np.random.default_rng(0), draws=2)
    assert point[:4] == pytest.approx([2.9216008, 2.1544085, -0.3059446, -2.0000489], abs=1e-5)
    assert np.linalg.norm(point) == pytest.approx(30.847965, abs=1e-4)


def test_written_anew_it_is_version_2_under_the_same_hash(path: Path) -> None:
    again = path.with_name("again.safetensors")
    MetaFeatureModel.load(path).save(again)
    assert read_header(again).fields["version"] == 2
    assert read_header(again).hash == MetaFeatureModel.load(again).hash == HASH


def test_version_1_with_fields_of_version_2_is_refused(path: Path) -> None:
    fields = dict(read_header(path).fields) | {"spec": SPEC.to_dict()}
    save_file(load_file(path), path, metadata={"warmstart": json.dumps(fields)})
    with pytest.raises(ModelError, match="expected spec and weights of a model, got others"):
        MetaFeatureModel.load(path)
    with pytest.raises(ModelError, match="of another kind"):
        read_header(path)
