"""Set encoders on frozen features: do the pretrained features of a dataset's images, without landmarks, tell what to try? See research/transfer-protocol.md.

The encoder of the paper (ADF) on features of EfficientNet-Lite 0 at 64 pixels instead of convolutions of its own: each image goes through two
layers, the mean over images through two more, trained so that distances match those of errors [Kim et al., 2017]. Once each image is its features
alone, once also what it differs by from the mean of its class. The paper's other encoder, a Bi-LSTM that reads 32 images one after the other and
gives the last states of both directions, stands in place of the mean with `--encoder bilstm`; of the datasets compared, the mean over 8 draws
counts. Two targets, as everywhere: L1 distances of errors, and of errors normalised by
dataset. Features are their 64 leading principal components over all datasets; everything else is learned without the group of the query.

    OMP_NUM_THREADS=1 python scripts/bench/transfer_sets.py FOLDER_OF_NPZ --features RUN_FOLDER --out scripts/bench/results/transfer-sets.json
    OMP_NUM_THREADS=1 python scripts/bench/transfer_sets.py FOLDER_OF_NPZ --encoder bilstm \\
        --features RUN_FOLDER --out scripts/bench/results/transfer-sets-bilstm.json
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from landmark_siamese import fit_distances
from numpy.typing import NDArray
from transfer_frozen import LANDMARKS
from transfer_tables import TIMES, Table, _apart, _normalised, lost, read, summary

from warmstart.bo.transfer.designs import initial_designs
from warmstart.history_store.readers import open_images
from warmstart.metafeat.files import replace_file
from warmstart.metafeat.pretrained.backbones import find_backbone
from warmstart.metafeat.pretrained.features import compute_features, open_network
from warmstart.training.workloads.transfer.frozen import draw_pool, draw_split

Array = NDArray[np.float64]
COMPONENTS, IMAGES, MOST = 64, 32, 200
"""Principal components; images of each dataset in a step; images of a dataset whose features are used at most."""
DRAWS = 8
"""Of images, whose embeddings by a Bi-LSTM are averaged."""
SAID = {"adf": "set encoder", "bilstm": "Bi-LSTM"}
WIDTH = 128
"""Half of that of `landmark_siamese`, whose training this is."""


def features_of(data: Path, kept: Path, name: str) -> tuple[Array, NDArray[np.int64]]:
    """Compute the features of a dataset's training images on the first split, or read them: `n x p`, with their labels."""
    path = kept / f"{name}.npz"
    if not path.exists():
        source = open_images(data / f"{name}.npz")
        pool = draw_pool(np.asarray(source.labels))
        rows = pool[draw_split(np.asarray(source.labels)[pool], 0).train[0]]
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:MOST])
        backbone, size = LANDMARKS
        network = open_network(find_backbone(backbone), size=size, device=torch.device("cpu"))
        found = compute_features(network, source.read(rows, size=size).images)
        kept.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".part").open("wb") as file:
            np.savez(file, features=found.at("s16+full").astype(np.float32), labels=np.asarray(source.labels)[rows])
        replace_file(path, path.with_suffix(".part").read_bytes())
        path.with_suffix(".part").unlink()
    with np.load(path) as arrays:
        return arrays["features"].astype(float), arrays["labels"]


def components(sets: list[Array]) -> list[Array]:
    """Project standardised features on their leading principal components, every dataset counting alike."""
    mean = np.mean([each.mean(0) for each in sets], axis=0)
    spread = np.sqrt(np.mean([np.square(each - mean).mean(0) for each in sets], axis=0))
    ready = [(each - mean) / np.where(spread > 0, spread, 1) for each in sets]
    _, vectors = np.linalg.eigh(np.mean([each.T @ each / len(each) for each in ready], axis=0))
    found = [each @ vectors[:, -COMPONENTS:] for each in ready]
    scale = np.sqrt(np.mean([np.square(each).mean(0) for each in found], axis=0))
    return [each / scale for each in found]


def beside_class_means(points: Array, labels: NDArray[np.int64]) -> Array:
    """Put beside each image what it differs by from the mean of its class, `n x 2p`."""
    apart = points.copy()
    for label in np.unique(labels):
        apart[labels == label] -= points[labels == label].mean(0)
    return np.hstack([points, apart])


class SetEncoder(torch.nn.Module):
    """Two layers an image, the images' mean, or the last states of a Bi-LSTM that reads them, and two layers more.

    Args:
        width: of an image's features.
        kind: ``adf`` or ``bilstm``.
    """

    def __init__(self, width: int, kind: str) -> None:
        super().__init__()
        nn = torch.nn
        self.image = nn.Sequential(nn.Linear(width, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU())
        self.reader = nn.LSTM(WIDTH, WIDTH // 2, batch_first=True, bidirectional=True) if kind == "bilstm" else None
        self.after = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Embed sets of images, `b x n x p`: `b x WIDTH`."""
        seen = self.image(images)
        if self.reader is None:
            return self.after(seen.mean(1))
        return self.after(self.reader(seen)[1][0].transpose(0, 1).flatten(1))


def set_distances(sets: list[Array], target: Array, asked: list[Array], *, kind: str, seed: int = 0) -> list[Array]:
    """Train an encoder of sets on `m` datasets, every pair in every step, and compute the distances to them from others, `m` each."""
    rng = np.random.default_rng(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoder = SetEncoder(sets[0].shape[1], kind)

    def embed(some: list[Array]) -> torch.Tensor:
        drawn = np.stack([each[rng.integers(0, len(each), IMAGES)] for each in some])
        return encoder(torch.tensor(drawn, dtype=torch.float32))

    def embed_whole(some: list[Array]) -> torch.Tensor:
        if kind == "bilstm":
            return torch.stack([embed(some) for _ in range(DRAWS)]).mean(0)
        return torch.cat([encoder(torch.tensor(each[np.newaxis], dtype=torch.float32)) for each in some])

    fit_distances(encoder.parameters(), lambda: embed(sets), target)
    with torch.inference_mode():
        known, new = embed_whole(sets), embed_whole(asked)
        return [torch.linalg.vector_norm(known - each, dim=1).numpy().astype(float) for each in new]


def learned(table: Table, sets: list[Array], errors: Array, kind: str, kept: Path) -> list[Array]:
    """Compute the distances from each dataset to those of other groups, by an encoder that never saw its group, or read what is kept of them."""
    found: list[Array] = [np.empty(0)] * len(sets)
    for group in dict.fromkeys(table.groups):
        inside = [row for row, other in enumerate(table.groups) if other == group]
        others = [row for row, other in enumerate(table.groups) if other != group]
        target = np.abs(errors[others, None] - errors[None, others]).mean(-1)
        file = kept / f"{group}.npy"
        if not file.exists():
            asked = [sets[row] for row in inside]
            trained = set_distances([sets[row] for row in others], target, asked, kind=kind)
            kept.mkdir(parents=True, exist_ok=True)
            np.save(file, trained)
        distances = np.load(file)
        for row, each in zip(inside, distances, strict=True):
            found[row] = each
    return found


def play(table: Table, distances: dict[str, list[Array]]) -> dict[str, dict[str, Array]]:
    """Compute the points that each method loses on each dataset, after one and after three feature sets."""
    found: dict[str, dict[str, Array]] = {}
    for k in TIMES:
        losses: dict[str, list[float]] = {"portfolio": [], "joint by landmarks": [], **{name: [] for name in distances}}
        for query, own in enumerate(table.groups):
            others = [row for row, group in enumerate(table.groups) if group != own]
            groups, errors = [table.groups[row] for row in others], table.errors[others].mean(-1)
            near = {"portfolio": None, "joint by landmarks": _apart(table.landmarks, others, query)}
            for name, each in {**near, **{name: rows[query] for name, rows in distances.items()}}.items():
                strategy = "portfolio" if each is None else "joint"
                chosen = initial_designs(errors, each, k, strategy=strategy, groups=groups)
                losses[name].append(lost(table.errors[query], chosen))
        found[f"after {k}"] = {name: np.array(values) for name, values in losses.items()}
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--shards", type=Path, default=Path("data_manifests/measured/transfer-frozen"))
    parser.add_argument("--manifests", type=Path, default=Path("data_manifests"))
    parser.add_argument("--encoder", choices=SAID, default="adf")
    parser.add_argument("--features", type=Path, required=True, help="where features are kept")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    table = read(given.shards, given.manifests)
    seen = [features_of(given.data, given.features, name) for name in table.names]
    plain = components([features for features, _ in seen])
    kinds = {
        "images": plain,
        "images and class means": [beside_class_means(each, y) for each, (_, y) in zip(plain, seen, strict=True)],
    }
    means = table.errors.mean(-1)
    trained = {
        f"joint, {SAID[given.encoder]} of {name}, {target}": learned(
            table, sets, errors, given.encoder, given.features / f"{given.encoder} {name} {target}"
        )
        for name, sets in kinds.items()
        for target, errors in (("L1", means), ("normalised L1", _normalised(means)))
    }
    result = {
        time: {
            name: {"points lost": summary(values, table.groups), "gain over portfolio": summary(losses["portfolio"] - values, table.groups)}
            for name, values in losses.items()
        }
        for time, losses in play(table, trained).items()
    }  # fmt: skip
    given.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
