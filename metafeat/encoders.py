"""Set encoders: from the features and label codes of a sample to one vector a dataset.

- `adf` averages; its parts can be re-used over draws exactly.
- `adf-mix` mixes features and labels of each image before the average, so it sees which features go with which class.
- `adf-sum` also sees the size of the sample; it is for comparison only.
- `attention` mixes likewise and learns which images count.
- `bilstm` is the paper's recurrent encoder: it depends on the order and is averaged over shuffles.
"""

import torch
from torch import Tensor, nn

from warmstart.metafeat.spec import Extractor

MIXED = 128
HEADS = 4


class SumEncoder(nn.Module):
    """Aggregate by mean or sum over the sample (ADF): linear, so a label code contributes its average only.

    Args:
        n_features: p, width of the deep features.
        width: w, width of the label code.
        mean: divide the sum by the sample's size.
    """

    def __init__(self, n_features: int, width: int, *, mean: bool = True) -> None:
        super().__init__()
        self.mean = mean
        self.n_outputs = n_features + width

    def forward(self, features: Tensor, codes: Tensor) -> Tensor:
        """Return `b x (p + w)` from `b x tau x p` features and `b x tau x w` codes."""
        parts = [(part.mean(1) if self.mean else part.sum(1)) for part in (features, codes)]
        return torch.cat(parts, 1)


class MixEncoder(nn.Module):
    """Mix features and label of each image by FC128 + ReLU, then average: classes and looks interact."""

    def __init__(self, n_features: int, width: int) -> None:
        super().__init__()
        self.mix = nn.Linear(n_features + width, MIXED)
        self.n_outputs = MIXED

    def forward(self, features: Tensor, codes: Tensor) -> Tensor:
        """Return `b x 128` from `b x tau x p` features and `b x tau x w` codes."""
        return torch.relu(self.mix(torch.cat((features, codes), 2))).float().mean(1)


class BiLSTMEncoder(nn.Module):
    """Read the sample as a sequence: FC128 + ReLU, label appended, Bi-LSTM 128, last states of both directions."""

    def __init__(self, n_features: int, width: int) -> None:
        super().__init__()
        self.reduce = nn.Linear(n_features, MIXED)
        self.lstm = nn.LSTM(MIXED + width, MIXED, batch_first=True, bidirectional=True)
        self.n_outputs = 2 * MIXED

    def forward(self, features: Tensor, codes: Tensor) -> Tensor:
        """Return `b x 256` from `b x tau x p` features and `b x tau x w` codes, in their order."""
        reduced = torch.relu(self.reduce(features))
        _, (last, _) = self.lstm(torch.cat((reduced.to(codes.dtype), codes), 2))
        return torch.cat((last[0], last[1]), 1)


class NoEncoder(nn.Module):
    """No encoder: the handcrafted features alone describe the dataset."""

    n_outputs = 0

    def forward(self, features: Tensor, codes: Tensor) -> Tensor:  # noqa: ARG002  one signature for all
        """Return `b x 0`."""
        return features.new_zeros(len(features), 0)


class AttentionEncoder(nn.Module):
    """Mix features and label of each image by FC128 + ReLU, then average with learned weights [Ilse2018attention] Eq. 9.

    Each of four heads weighs the images by softmax over w·(tanh(V h) ⊙ σ(U h)): the order of the images and doubling
    the sample do not matter.
    """

    def __init__(self, n_features: int, width: int) -> None:
        super().__init__()
        self.mix = nn.Linear(n_features + width, MIXED)
        self.value, self.gate = nn.Linear(MIXED, MIXED), nn.Linear(MIXED, MIXED)
        self.score = nn.Linear(MIXED, HEADS, bias=False)
        self.n_outputs = HEADS * MIXED

    def forward(self, features: Tensor, codes: Tensor) -> Tensor:
        """Return `b x 512` from `b x tau x p` features and `b x tau x w` codes."""
        mixed = torch.relu(self.mix(torch.cat((features, codes), 2)))
        scores = self.score(torch.tanh(self.value(mixed)) * torch.sigmoid(self.gate(mixed)))
        return torch.einsum("bth,btm->bhm", scores.softmax(1), mixed).flatten(1)


Encoder = SumEncoder | MixEncoder | BiLSTMEncoder | AttentionEncoder | NoEncoder


def make_encoder(extractor: Extractor, n_features: int, width: int) -> Encoder:
    """Build the set encoder of that name (`ModelSpec` checks the name)."""
    if extractor == "bilstm":
        return BiLSTMEncoder(n_features, width)
    if extractor == "adf-mix":
        return MixEncoder(n_features, width)
    if extractor == "attention":
        return AttentionEncoder(n_features, width)
    if extractor == "handcrafted":
        return NoEncoder()
    return SumEncoder(n_features, width, mean=extractor == "adf")
