import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace

from warmstart.history_store.error_tables import target_distance
from warmstart.history_store.history import History
from warmstart.history_store.images import ImageSet
from warmstart.history_store.records import DatasetInfo, Evaluation
from warmstart.history_store.space import dump_space
from warmstart.metafeat.model import MetaFeatureModel
from warmstart.metafeat.spec import ModelSpec, space_digest
from warmstart.training.siamese.from_history import train_from_history
from warmstart.training.siamese.labelled_images import LabelledImages
from warmstart.training.siamese.settings import SiameseSettings
from warmstart.training.siamese.train import train_siamese

SETTINGS = SiameseSettings(
    ModelSpec(image_size=8, tau=10), steps=4, sampling="all_pairs", batch=4, loss="squared", validate_every=2
)
SPACE = dump_space(ConfigurationSpace({"a": (0.0, 1.0)}))
CONFIGS = [{"a": 0.1}, {"a": 0.5}, {"a": 0.9}]


@pytest.fixture
def history(tmp_path):
    rng = np.random.default_rng(0)
    with History.create(tmp_path / "h.h5", SPACE, configs=CONFIGS, stored_size=8) as history:
        for i in range(5):
            images = ImageSet(rng.integers(0, 256, (20, 8, 8, 3), dtype=np.uint8), np.arange(20) % 2, ("x", "y"))
            split = np.array([0] * 12 + [1] * 4 + [2] * 4, dtype=np.int8)
            history.add_dataset(DatasetInfo(f"d{i}", f"g{i // 2}", 12, 4, 4, 2), images, split)
            history.extend([Evaluation(f"d{i}", config, float(rng.random())) for config in CONFIGS[:2]])
        history.append(Evaluation("d0", CONFIGS[2], 0.5))
        yield history


def test_header_ties_the_model_to_the_history(history, tmp_path):
    trained = train_from_history(history, SETTINGS, held_out=["d4"])
    trained.model.save(tmp_path / "m.safetensors")
    model = MetaFeatureModel.load(tmp_path / "m.safetensors")
    assert (model.header["history_id"], model.header["history_revision"]) == (history.id, history.revision)
    assert model.header["space_digest"] == space_digest(history.space_json)
    assert model.spec.image_size == history.stored_size
    assert (model.header["datasets"], model.header["held_out"]) == (["d0", "d1", "d2", "d3"], ["d4"])
    assert model.header["quality"]["loss"] == trained.quality.loss
    assert model.header["training"]["steps_done"] == 4


def test_training_uses_the_training_split_and_the_configurations_that_most_datasets_have(history):
    trained = train_from_history(history, SETTINGS, held_out=[])
    stored = {name: history.images(name) for name in history.names}
    data = {n: LabelledImages(s.array, s.labels, np.arange(12)) for n, s in stored.items()}
    expected = train_siamese(data, target_distance(history.errors[:, :2]), settings=SETTINGS)
    assert trained.model.hash == expected.model.hash
