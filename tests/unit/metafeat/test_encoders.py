import numpy as np
import pytest
import torch

from warmstart.metafeat.encoders import MIXED, AttentionEncoder, BiLSTMEncoder, MixEncoder, SumEncoder


@pytest.fixture
def features():
    return torch.rand(2, 30, 512, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def codes():
    return torch.rand(2, 30, 1, generator=torch.Generator().manual_seed(1))


def test_mean_and_sum_by_hand():
    features, codes = torch.tensor([[[1.0, 2.0], [3.0, 6.0]]]), torch.tensor([[[0.5], [1.5]]])
    assert SumEncoder(2, 1)(features, codes).tolist() == [[2, 4, 1]]
    assert SumEncoder(2, 1, mean=False)(features, codes).tolist() == [[4, 8, 2]]


def test_duplicating_the_sample_keeps_the_mean_and_doubles_the_sum(features, codes):
    twice = features.repeat(1, 2, 1), codes.repeat(1, 2, 1)
    mean, total = SumEncoder(512, 1), SumEncoder(512, 1, mean=False)
    assert torch.allclose(mean(*twice), mean(features, codes), atol=1e-6)
    assert torch.allclose(total(*twice), 2 * total(features, codes), rtol=1e-6)


def test_duplicating_the_sample_keeps_the_mix(features, codes):
    mix = MixEncoder(512, 1)
    assert torch.allclose(mix(features.repeat(1, 2, 1), codes.repeat(1, 2, 1)), mix(features, codes), atol=1e-6)


def test_mix_sees_which_feature_goes_with_which_class_and_the_mean_does_not(features):
    codes = torch.eye(2)[torch.arange(30) % 2][None].repeat(2, 1, 1)
    swapped = codes[:, torch.randperm(30, generator=torch.Generator().manual_seed(2))]
    mix, mean = MixEncoder(512, 2), SumEncoder(512, 2)
    assert torch.allclose(mean(features, codes), mean(features, swapped), atol=1e-6)
    assert (mix(features, codes) - mix(features, swapped)).abs().max() > 1e-5


def test_bilstm_has_the_published_number_of_weights():
    lstm = BiLSTMEncoder(512, 1).lstm
    assert (lstm.input_size, lstm.hidden_size, lstm.bidirectional) == (129, 128, True)
    assert sum(p.numel() for p in lstm.parameters()) == 265_216


def test_bilstm_returns_last_forward_beside_last_backward_state(features, codes):
    encoder = BiLSTMEncoder(512, 1)
    sequence = torch.cat((torch.relu(encoder.reduce(features)), codes), 2)
    outputs, _ = encoder.lstm(sequence)
    expected = torch.cat((outputs[:, -1, :128], outputs[:, 0, 128:]), 1)
    assert torch.allclose(encoder(features, codes), expected, atol=1e-6)


def test_bilstm_depends_on_order_and_averaging_over_shuffles_makes_it_vary_less(features, codes):
    encoder = BiLSTMEncoder(512, 1).eval()
    rng = np.random.default_rng(0)
    with torch.inference_mode():
        singles = []
        for _ in range(64):
            order = torch.from_numpy(rng.permutation(30))
            singles.append(encoder(features[:1, order], codes[:1, order])[0])
    singles = torch.stack(singles)
    averages = singles.reshape(8, 8, -1).mean(1)
    assert singles.std(0).mean() > 0
    assert averages.std(0).mean() < 0.6 * singles.std(0).mean()


@pytest.fixture
def attention():
    torch.manual_seed(3)
    return AttentionEncoder(512, 1)


@torch.no_grad()
def test_attention_equals_the_formula_written_out(attention, features, codes):
    pooled = attention(features, codes)
    assert pooled.shape == (2, 4 * MIXED)
    for b in range(2):
        h = torch.relu(torch.cat((features[b], codes[b]), 1) @ attention.mix.weight.T + attention.mix.bias)
        value = torch.tanh(h @ attention.value.weight.T + attention.value.bias)
        gate = 1 / (1 + torch.exp(-(h @ attention.gate.weight.T + attention.gate.bias)))
        for head in range(4):
            weights = torch.exp((value * gate) @ attention.score.weight[head])
            expected = (weights[:, None] * h).sum(0) / weights.sum()
            assert torch.allclose(pooled[b, head * MIXED : (head + 1) * MIXED], expected, atol=1e-5)


@torch.no_grad()
def test_attention_without_scores_is_the_mean_of_the_mix(attention, features, codes):
    mix = MixEncoder(512, 1)
    mix.mix = attention.mix
    attention.score.weight.zero_()
    assert torch.allclose(attention(features, codes), mix(features, codes).repeat(1, 4), atol=1e-6)


@torch.no_grad()
def test_attention_with_huge_scores_picks_one_image_a_head_and_stays_finite(attention, features, codes):
    attention.score.weight *= 1e6
    mixed = torch.relu(attention.mix(torch.cat((features, codes), 2)))
    for head in attention(features, codes).unflatten(1, (4, MIXED))[0]:
        assert (head - mixed[0]).abs().amax(1).min() < 1e-6


@torch.no_grad()
def test_attention_does_not_see_order_nor_a_doubled_sample(attention, features, codes):
    order = torch.randperm(30, generator=torch.Generator().manual_seed(2))
    assert torch.allclose(attention(features[:, order], codes[:, order]), attention(features, codes), atol=1e-6)
    twice = features.repeat(1, 2, 1), codes.repeat(1, 2, 1)
    assert torch.allclose(attention(*twice), attention(features, codes), atol=1e-6)
