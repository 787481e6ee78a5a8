import pytest
import torch

from warmstart.metafeat.siamese_network import MIXED, AttentionEncoder, BiLSTMEncoder, MixEncoder, SumEncoder


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


def test_mix_sees_which_feature_goes_with_which_class_and_the_mean_does_not(features):
    codes = torch.eye(2)[torch.arange(30) % 2][None].repeat(2, 1, 1)
    swapped = codes[:, torch.randperm(30, generator=torch.Generator().manual_seed(2))]
    mix, mean = MixEncoder(512, 2), SumEncoder(512, 2)
    assert torch.allclose(mean(features, codes), mean(features, swapped), atol=1e-6)
    assert (mix(features, codes) - mix(features, swapped)).abs().max() > 1e-5


def test_bilstm_returns_last_forward_beside_last_backward_state(features, codes):
    encoder = BiLSTMEncoder(512, 1)
    sequence = torch.cat((torch.relu(encoder.reduce(features)), codes), 2)
    outputs, _ = encoder.lstm(sequence)
    expected = torch.cat((outputs[:, -1, :128], outputs[:, 0, 128:]), 1)
    assert torch.allclose(encoder(features, codes), expected, atol=1e-6)


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
