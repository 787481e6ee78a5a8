"""What every extractor owes, whatever its set encoder and label code: inherit `ExtractorContract` and name yours."""

import itertools

import numpy as np
import pytest
import torch

from warmstart.metafeat.feature_names import FEATURES
from warmstart.metafeat.labels import LABEL_CODES, label_codes
from warmstart.metafeat.model import MetaFeatureModel, random_network
from warmstart.metafeat.spec import EXTRACTORS, ModelSpec
from warmstart.training.siamese.train import pair_loss

LOOKING = tuple(name for name in EXTRACTORS if name != "handcrafted")


@pytest.fixture(scope="module")
def sample():
    rng = np.random.default_rng(5)
    return rng.integers(0, 256, (24, 16, 16, 3), dtype=np.uint8), rng.integers(0, 5, 24)


class ExtractorContract:
    spec: ModelSpec
    order_free = True

    @pytest.fixture
    def network(self):
        return random_network(self.spec, seed=1).eval()

    def known(self, network, n=1):
        """Handcrafted features as the network is told them, the same for each sample, where the model asks for them."""
        if not self.spec.handcrafted:
            return ()
        return (network.standardised(np.random.default_rng(9).normal(size=(1, len(FEATURES)))).repeat(n, 1),)

    def point(self, network, images, labels):
        codes = torch.from_numpy(label_codes(labels, self.spec.label_code))
        with torch.inference_mode():
            return network.encode(network.features(images, labels)[None], codes[None], *self.known(network))[0]

    def test_a_point_is_finite_and_has_256_numbers_whatever_tau(self, network, sample):
        for tau in (1, 7, 24):
            point = self.point(network, sample[0][:tau], sample[1][:tau])
            assert point.shape == (256,)
            assert torch.isfinite(point).all()

    def test_distance_is_zero_for_identical_samples_and_symmetric(self, network, sample):
        a, b = self.point(network, *sample), self.point(network, sample[0][::-1].copy(), sample[1])
        assert torch.equal(a, self.point(network, *sample))
        assert torch.dist(a, b) == torch.dist(b, a) >= 0

    def test_permuting_the_sample_changes_nothing_unless_it_is_read_in_order(self, network, sample):
        order = np.random.default_rng(0).permutation(24)
        a, b = self.point(network, *sample), self.point(network, sample[0][order], sample[1][order])
        assert torch.allclose(a, b, atol=1e-6, rtol=1e-6) == self.order_free

    def test_a_batch_equals_its_rows_one_by_one(self, network, sample):
        images, labels = sample
        parts = [slice(0, 12), slice(12, 24)]
        codes = np.stack([label_codes(labels[p], self.spec.label_code) for p in parts])
        with torch.inference_mode():
            features = torch.stack([network.features(images[p], labels[p]) for p in parts])
            batch = network.encode(features, torch.from_numpy(codes), *self.known(network, 2))
        for row, part in zip(batch, parts, strict=True):
            assert torch.allclose(row, self.point(network, images[part], labels[part]), atol=1e-6)

    def test_every_weight_gets_a_finite_gradient(self, network, sample):
        images, labels = sample
        codes = torch.from_numpy(label_codes(labels, self.spec.label_code))
        network.requires_grad_(requires_grad=True)
        network.encode(
            network.features(images, labels)[None], codes[None], *self.known(network)
        ).square().sum().backward()
        for name, parameter in network.named_parameters():
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all(), name

    def test_equal_inputs_give_no_nan_in_the_loss_gradient(self, network, sample):
        images, labels = sample
        codes = torch.from_numpy(label_codes(labels, self.spec.label_code))
        network.requires_grad_(requires_grad=True)
        features = network.features(images, labels).expand(2, -1, -1)
        points = network.encode(features, codes.expand(2, -1, -1), *self.known(network, 2))
        for kind in ("absolute", "squared"):
            loss = pair_loss(points, torch.tensor([[0, 1]]), torch.tensor([0.3]), kind=kind)
            loss.backward(retain_graph=True)
        assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)

    def test_same_seed_same_embedding_and_the_global_generator_is_left_alone(self, sample):
        before = torch.get_rng_state()
        a, b = (
            MetaFeatureModel.random(self.spec, seed=3).embed(*sample, rng=np.random.default_rng(2), draws=3)
            for _ in range(2)
        )
        assert a.tobytes() == b.tobytes()
        assert torch.equal(before, torch.get_rng_state())

    def test_file_round_trip_keeps_hash_and_embedding(self, sample, tmp_path):
        model = MetaFeatureModel.random(self.spec, seed=3)
        model.save(tmp_path / "m.safetensors")
        again = MetaFeatureModel.load(tmp_path / "m.safetensors")
        assert (again.spec, again.hash) == (model.spec, model.hash)
        a, b = (m.embed(*sample, rng=np.random.default_rng(2), draws=2) for m in (model, again))
        assert a.tobytes() == b.tobytes()


def _case(**fields):
    spec = ModelSpec(image_size=16, tau=20, **fields)
    name = "Test_" + "_".join(str(value) for value in fields.values()).replace("-", "_")
    return name, type(name, (ExtractorContract,), {"spec": spec, "order_free": spec.extractor != "bilstm"})


_CASES = [
    *(
        {"extractor": name, "label_code": code}
        for name, code in zip(LOOKING, itertools.cycle(LABEL_CODES), strict=False)
    ),
    {"extractor": "adf", "label_code": "rank", "label_plane": True},
    {"extractor": "bilstm", "label_code": "none", "label_plane": True},
    {"extractor": "adf-sum", "backbone": "residual"},
    *({"extractor": extractor, "handcrafted": True} for extractor in ("adf-mix", "handcrafted")),
    {"extractor": "attention", "label_plane": True, "backbone": "residual", "handcrafted": True},
]
for _fields in _CASES:
    _name, _class = _case(**_fields)
    globals()[_name] = _class
del _name, _class
